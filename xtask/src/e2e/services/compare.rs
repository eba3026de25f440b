//! The same random writes on ours and on the real server, in one shape of a cluster.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use testkit::choices::Seeded;
use testkit::real::KubeControllerManager;

use super::pair::{Came, Pair};
use super::ranges::Heirs;
use super::shown;
use super::side::Side;
use super::steps::Step;
use crate::e2e::Place;
use crate::e2e::servers::{Flags, Servers};
use crate::parts::Part;

/// How many writes there are between two looks at everything.
const BATCH: u32 = 250;

/// After so many differences there is enough to look at.
const MOST: usize = 10;

/// The ranges of a cluster, the preferred family first, what the real server has to be told besides, and what is written.
pub(super) struct Shape {
    pub(super) name: &'static str,
    ranges: &'static str,
    node_ports: &'static str,
    advertised: &'static str,
    choose: fn(&mut Seeded) -> Step,
    is_named: fn(&str) -> bool,
}

impl Shape {
    const fn roomy(name: &'static str, ranges: &'static str, advertised: &'static str) -> Self {
        let (node_ports, choose, is_named) = ("30000-32767", Step::choose, shown::is_named);
        Self { name, ranges, node_ports, advertised, choose, is_named }
    }

    /// One in which most creates find a range full.
    const fn scarce(name: &'static str, ranges: &'static str, node_ports: &'static str) -> Self {
        let (choose, is_named) = (Step::choose_scarce, shown::is_never_named);
        Self { name, ranges, node_ports, advertised: "127.0.0.1", choose, is_named }
    }
}

pub(super) const SHAPES: [Shape; 5] = [
    Shape::roomy("IPv4", "10.96.0.0/16", "127.0.0.1"),
    Shape::roomy("IPv6", "fd00:96::/112", "::1"),
    Shape::roomy("IPv4 and IPv6", "10.96.0.0/16,fd00:96::/112", "127.0.0.1"),
    Shape::roomy("IPv6 and IPv4", "fd00:96::/112,10.96.0.0/16", "::1"),
    Shape::scarce("hardly anything is left", "10.96.0.0/29,fd00:96::/112", "30000-30002"),
];

/// Writes on both sides; what was done, or the first difference that nothing excuses.
pub(super) fn run(
    servers: &Servers,
    place: Place,
    shape: &Shape,
    folder: &Path,
    seed: u64,
    steps: u32,
) -> Result<String> {
    let ranges = format!("--service-cluster-ip-range={}", shape.ranges);
    let advertised = format!("--advertise-address={}", shape.advertised);
    let control = folder.join("control");
    let node_ports = format!("--service-node-port-range={}", shape.node_ports);
    let flags = Flags { ours: &[&ranges, &node_ports], replica: &[], control: &[&ranges, &node_ports, &advertised] };
    let ours = servers.start_with(place, folder, flags)?;
    let theirs = servers.start_with(Place::Control, &control, flags)?;
    // Ours looks after its ranges itself.
    let _controller = KubeControllerManager::start(
        &servers.part(Part::KubeControllerManager)?,
        &theirs.kubeconfig(),
        &theirs.ca(),
        &["service-cidr-controller", "namespace-controller"],
        &control.join("controllers"),
        &[KubeControllerManager::ALONE],
    )?;
    let mut pair = Pair::new(
        Side::new(&Arc::new(Servers::target(&ours, folder)?), Heirs::Open, shape.is_named)?,
        Side::new(&Arc::new(Servers::target(&theirs, &control)?), Heirs::Any, shape.is_named)?,
        steps,
        File::create(folder.join("steps.log"))?,
    )?;
    let mut random = Seeded::new(seed);
    let (mut number, mut done, mut refused) = (0, 0, 0);
    let (mut differences, mut told) = (Vec::new(), 0);
    // A step whose answers differ is not one of those that both are held to, also if that is excused.
    while done + refused < steps && differences.len() < MOST {
        let step = (shape.choose)(&mut random);
        pair.note(&format!("step {}", number + 1))?;
        let came = pair.take(&step).with_context(|| format!("step {}", number + 1));
        match came {
            // It does not count.
            Ok(Came::Nothing) => continue,
            Ok(Came::Done) => done += 1,
            Ok(Came::Refused) => refused += 1,
            Ok(Came::Excused) => {}
            Err(difference) => differences.push(difference),
        }
        number += 1;
        if number % BATCH == 0 || done + refused == steps {
            let same = pair.compare().with_context(|| format!("after step {number}"));
            differences.extend(same.err());
        }
        // What follows from one difference is none of its own.
        if differences.len() > told {
            for difference in &differences[told..] {
                pair.note(&format!("{difference:#}"))?;
            }
            told = differences.len();
            pair.start_over().with_context(|| format!("{:#}", differences[told - 1]))?;
        }
    }
    let told: Vec<_> = differences.iter().map(|difference| format!("{difference:#}")).collect();
    ensure!(told.is_empty(), "{} differences in {number} steps\n{}", told.len(), told.join("\n"));
    Ok(format!("{done} writes done and {refused} refused, all alike; excused: {}", pair.excused()))
}
