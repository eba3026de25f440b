//! The suite `server`: kubectl by script. Everything that kubectl says of ours must be what it says of the control.
//!
//! The scripts in `cases` say what to do and hardly ever what should come of it: the control does. What it said is kept in
//! the cache, so that a quick run asks it only about cases that are new or changed.

mod explained;
mod judge;
mod kept;
mod mask;
mod run;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::real::{Cadastre, Kubectl};

use self::mask::Masks;
use self::run::Ending;
use self::script::Case;
use super::report::{Outcome, Report};
use super::servers::{Flags, Servers};
use super::{Options, Place};

const SUITE: &str = "server";
/// The file of a script with what the control is given before anything runs.
const CONTROL_FILE: &str = "control.yaml";
/// The control documents a new kind within seconds.
const SERVED_WITHIN: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The range that the control has too, so that Services can name addresses of it.
const RANGE: &str = "--service-cluster-ip-range=10.96.0.0/16";
const FLAGS: Flags<'_> = Flags { ours: &[Cadastre::BARE, RANGE], replica: &[Cadastre::BARE, RANGE], control: &[] };

const SCRIPTS: &[Script] = &[
    Script { name: "read", text: include_str!("cases/read.txt"), of_store: true, own_kinds: false },
    Script { name: "watch", text: include_str!("cases/watch.txt"), of_store: true, own_kinds: false },
    Script { name: "create", text: include_str!("cases/create.txt"), of_store: false, own_kinds: false },
    Script { name: "change", text: include_str!("cases/change.txt"), of_store: false, own_kinds: false },
    Script { name: "apply", text: include_str!("cases/apply.txt"), of_store: false, own_kinds: false },
    Script { name: "managers", text: include_str!("cases/managers.txt"), of_store: false, own_kinds: false },
    Script { name: "delete", text: include_str!("cases/delete.txt"), of_store: true, own_kinds: false },
    Script { name: "errors", text: include_str!("cases/errors.txt"), of_store: false, own_kinds: false },
    Script { name: "kinds", text: include_str!("cases/kinds.txt"), of_store: false, own_kinds: false },
    Script { name: "services", text: include_str!("cases/services.txt"), of_store: true, own_kinds: false },
    Script { name: "own", text: include_str!("cases/own.txt"), of_store: false, own_kinds: true },
    Script { name: "about", text: include_str!("cases/about.txt"), of_store: false, own_kinds: false },
    Script { name: "auth", text: include_str!("cases/auth.txt"), of_store: false, own_kinds: false },
    Script { name: "warnings", text: include_str!("cases/warnings.txt"), of_store: false, own_kinds: false },
    Script { name: "commands", text: include_str!("cases/commands.txt"), of_store: false, own_kinds: false },
    Script { name: "explain", text: include_str!("cases/explain.txt"), of_store: false, own_kinds: true },
];

/// The kinds that the real server does not have by itself, in the form of a script.
const OWN_KINDS: &str = include_str!("cases/control.txt");

/// A file of cases.
struct Script {
    name: &'static str,
    text: &'static str,
    /// Whether the store shows through: then a quick run has it on each of the stores, and the others on one.
    of_store: bool,
    /// Whether it is about kinds that the real server does not have by itself: then the control is given them.
    own_kinds: bool,
}

/// What the steps of a case came to, and how long they took.
type Endings = (Result<Vec<Ending>, String>, Duration);

/// Asks the control if it has to be asked, then runs every case on each of the servers.
pub(super) fn run(servers: &Servers, options: &Options, places: &[Place], report: &mut Report) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let cases = chosen(options.only.as_deref())?;
    let masks = Masks::new()?;
    let mut control: BTreeMap<&str, Vec<Ending>> = BTreeMap::new();
    let mut unasked = Vec::new();
    for case in &cases {
        match kept::read(case)? {
            Some(endings) if !places.contains(&Place::Control) => drop(control.insert(&case.name, endings)),
            _ => unasked.push(case),
        }
    }
    if !unasked.is_empty() {
        on(servers, Place::Control, &unasked, report, |case, endings| {
            judge::control(case, &endings)?;
            kept::write(case, &endings).map_err(|error| format!("{error:#}"))?;
            control.insert(&case.name, endings);
            Ok(())
        });
    }
    for place in places.iter().filter(|place| **place != Place::Control) {
        let whole = !options.quick || *place == Place::Embedded;
        let here: Vec<_> = cases.iter().filter(|case| whole || case.of_store).collect();
        // A quick run leaves out what says little more on another store, and that may be all that was asked for.
        if here.is_empty() {
            continue;
        }
        on(servers, *place, &here, report, |case, endings| {
            let control = control.get(case.name.as_str()).ok_or("the control did not get through this case")?;
            judge::ours(case, &masks, control, &endings)
        });
    }
    Ok(())
}

/// The cases of all scripts, or those whose names have the text in them.
fn chosen(only: Option<&str>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for Script { name, text, of_store, own_kinds } in SCRIPTS {
        let shared = if *own_kinds { OWN_KINDS } else { "" };
        let parsed = script::parse(shared, text).with_context(|| format!("xtask/src/e2e/kubectl/cases/{name}.txt"))?;
        cases.extend(parsed.into_iter().map(|case| Case { of_store: *of_store, ..case }));
    }
    let mut namespaces: Vec<_> = cases.iter().map(|case| case.namespace.clone()).collect();
    namespaces.sort();
    for pair in namespaces.windows(2) {
        ensure!(pair[0] != pair[1], "two cases would share the namespace {}", pair[0]);
    }
    cases.retain(|case| only.is_none_or(|only| case.name.contains(only)));
    ensure!(!cases.is_empty(), "no case has a name with `{}` in it", only.unwrap_or_default());
    Ok(cases)
}

/// Runs the cases on a fresh server and reports what `judge` says of each.
fn on<'a>(
    servers: &Servers,
    place: Place,
    cases: &[&'a Case],
    report: &mut Report,
    mut judge: impl FnMut(&'a Case, Vec<Ending>) -> Result<(), String>,
) {
    let started = Instant::now();
    let outcome = servers.folder(SUITE, place).and_then(|folder| {
        let server = servers.start_with(place, &folder, FLAGS)?;
        let kubectls = servers.kubectls(&server, &folder)?;
        let kubectl = kubectls.first().context("there is no server")?;
        if place == Place::Control {
            furnish(cases, kubectl)?;
        }
        ground(cases, kubectl)?;
        each(cases, &kubectls, &folder, |case, (endings, took)| {
            let outcome = match endings.and_then(|endings| judge(case, endings)) {
                Ok(()) => Outcome::Ok(String::new()),
                Err(why) => Outcome::Failed(format!("{why}\nsee {}", folder.join(&case.namespace).display())),
            };
            report.case(SUITE, place, &case.name, &outcome, took);
        });
        Ok(())
    });
    if let Err(error) = outcome {
        report.case(SUITE, place, "the server serves", &Outcome::Failed(format!("{error:#}")), started.elapsed());
    }
}

/// Makes the kinds in the control that ours has by itself, and waits until it serves and documents them.
fn furnish(cases: &[&Case], kubectl: &Kubectl) -> Result<()> {
    let files = cases.iter().flat_map(|case| &case.files);
    let manifests: BTreeSet<&str> =
        files.filter(|(name, _)| name == CONTROL_FILE).map(|(_, text)| text.as_str()).collect();
    for manifest in manifests {
        let said = kubectl.run_with_input(&["create", "-f", "-"], manifest)?;
        ensure!(said.success(), "could not furnish the control: {}", said.stderr);
        let groups = manifest.lines().filter_map(|line| line.trim().strip_prefix("group: "));
        let documents: Vec<_> = groups.map(|group| format!("\"apis/{group}/")).collect();
        let began = Instant::now();
        loop {
            let said = kubectl.run(&["get", "--raw", "/openapi/v3"])?;
            if documents.iter().all(|document| said.stdout.contains(document)) {
                break;
            }
            ensure!(began.elapsed() < SERVED_WITHIN, "the control does not document what it was given");
            thread::sleep(BETWEEN_LOOKS);
        }
    }
    // kubectl remembers what there was; this makes it look again.
    let said = kubectl.run(&["api-resources"])?;
    ensure!(said.success(), "the control does not say what it serves: {}", said.stderr);
    Ok(())
}

/// Makes the namespaces of all cases at once: a kubectl for each would take as long as the cases. Each has the service
/// account that the control demands for Pods and that a controller would have made; it mounts no token.
fn ground(cases: &[&Case], kubectl: &Kubectl) -> Result<()> {
    let mut manifest = String::new();
    for Case { namespace, .. } in cases {
        let _ = writeln!(manifest, "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}");
        let account = "apiVersion: v1\nkind: ServiceAccount\nautomountServiceAccountToken: false";
        let _ = writeln!(manifest, "---\n{account}\nmetadata: {{name: default, namespace: {namespace}}}");
    }
    let said = kubectl.run_with_input(&["create", "--validate=ignore", "-f", "-"], &manifest)?;
    ensure!(said.success(), "could not create the namespaces of the cases: {}", said.stderr);
    Ok(())
}

/// Runs the cases, as many at once as there are processors, and hands over what came of each when it is known.
fn each<'a>(cases: &[&'a Case], kubectls: &[Kubectl], folder: &Path, mut take: impl FnMut(&'a Case, Endings)) {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let done = done.clone();
            scope.spawn(|| {
                let done = done;
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let endings = run::run(case, kubectls, &folder.join(&case.namespace));
                    let endings = endings.map_err(|error| format!("{error:#}"));
                    let _ = done.send((*case, (endings, started.elapsed())));
                }
            });
        }
        drop(done);
        for (case, endings) in results {
            take(case, endings);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_can_be_read_and_no_two_cases_meet() {
        assert!(chosen(None).unwrap().len() > 50);
    }

    #[test]
    fn a_name_that_no_case_has_is_an_error() {
        assert!(chosen(Some("no such case")).unwrap_err().to_string().contains("no such case"));
    }
}
