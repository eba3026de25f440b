//! The suite `upstream`: Kubernetes' own end-to-end tests, those that need nothing but the API, with no change.
//!
//! Which specs these are was found by running them on the control without nodes; `specs.txt` has their names. They speak
//! protobuf, as they do by default. What came of them is in docs/reference/compatibility.md.

mod outcome;
mod page;
mod run;
mod specs;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};

use self::outcome::Done;
use self::specs::Specs;
use super::cluster::{Care, Cluster};
use crate::e2e::report::{Outcome, Report};
use crate::e2e::servers::Servers;
use crate::e2e::{Options, Place};

const SUITE: &str = "upstream";

/// What came of the specs on one server, by name.
type Endings = BTreeMap<String, Done>;

/// Runs the specs on each of the servers, and writes the page if that was asked for.
pub(in crate::e2e) fn run(servers: &Servers, options: &Options, places: &[Place], report: &mut Report) -> Result<()> {
    let specs = Specs::read()?;
    let chosen = specs.chosen(options.quick, options.only.as_deref());
    // What was asked for may be the name of a case of another suite.
    if chosen.is_empty() {
        return Ok(());
    }
    let mut columns = Vec::new();
    for place in places {
        let began = Instant::now();
        match on(servers, *place, &chosen, report) {
            Ok(endings) => columns.push((*place, endings)),
            Err(error) => {
                report.case(SUITE, *place, "all specs", &Outcome::Failed(format!("{error:#}")), began.elapsed());
            }
        }
    }
    if options.write_docs { page::write(&specs, &columns) } else { Ok(()) }
}

/// Runs the specs on a fresh server.
fn on(servers: &Servers, place: Place, specs: &[&str], report: &mut Report) -> Result<Endings> {
    let folder = servers.folder(SUITE, place)?;
    let cluster = Cluster::start(servers, place, Care::Own, &folder)?;
    ground(&cluster)?;
    let endings = run::run(servers, &cluster, specs, &folder);
    for (spec, done) in &endings {
        report.case(SUITE, place, spec, &done.outcome(), done.took);
    }
    Ok(endings)
}

/// What the specs want to see before they begin: a node that is ready. They leave it alone.
fn ground(cluster: &Cluster) -> Result<()> {
    let tell = |args: &[&str], input: &str| -> Result<()> {
        let said = cluster.kubectl.run_with_input(args, input)?;
        ensure!(said.success(), "kubectl {}: {}", args.join(" "), said.stderr);
        Ok(())
    };
    tell(&["create", "-f", "-"], "apiVersion: v1\nkind: Node\nmetadata: {name: nowhere}\n")?;
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    tell(&["patch", "node", "nowhere", "--subresource=status", "--patch", ready], "")?;
    tell(&["patch", "node", "nowhere", "--type=merge", "--patch", r#"{"spec":{"taints":null}}"#], "")
}
