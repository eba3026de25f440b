//! Controllers that are killed, doubled, cut off and left without answers while nodes come. Afterwards everybody is served and nobody
//! shares an address with anybody.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};
use testkit::real::{Passage, Wire};

use super::book::{Book, blocks_of, name_of};
use super::cluster::{Cluster, NODES, PATIENCE, RANGES, Setup, UNELECTED, cut, cut_for, node};
use super::lossy::Lossy;
use crate::e2e::client::{Client, Reply};

/// How many create nodes at a time.
const WRITERS: usize = 8;
/// How many nodes come in each round.
const NODES_EACH: u64 = 40;

/// A Lease that is over soon, so that nobody waits long for it.
const SHORT_LEASE: [&str; 3] =
    ["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"];
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/node-ipam-controller";

/// Three ranges, two of which overlap, with blocks of different sizes.
fn ranges(cluster: &mut Cluster) -> Result<()> {
    cluster.ready_range("small", &cut_for(4, "10.0.0.0/16", &[("size", "small")]))?;
    cluster.ready_range("large", &cut_for(8, "10.0.0.0/15", &[("size", "large")]))?;
    cluster.ready_range("rest", &cut(6, "10.64.0.0/16,fd00::/112"))
}

/// Creates so many nodes, several at a time; their names begin with `prefix`.
pub(super) fn come(cluster: &Cluster, prefix: &str, count: u64) -> Result<()> {
    let target = cluster.target()?;
    let come = |first: u64| -> Result<()> {
        let mut client = Client::new(&target);
        for number in (first..count).step_by(WRITERS) {
            let size = ["small", "large", "other"][number as usize % 3];
            let body = node(&format!("{prefix}-{number}"), &[("size", size)], &[]);
            let said = client.send("POST", NODES, Some(&body));
            ensure!(matches!(said, Reply::Answer(201, _)), "{said:?}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS as u64).map(|first| scope.spawn(move || come(first))).collect();
        writers.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a writer fell over"))?)
    })
}

/// Waits until so many nodes have blocks.
fn until_served(cluster: &mut Cluster, count: usize) -> Result<Book> {
    cluster.until(&format!("{count} nodes have blocks"), PATIENCE, |cluster| {
        let book = Book::of(&cluster.list(NODES)?)?;
        Ok((book.len() - book.waiting().count() >= count).then_some(book))
    })
}

/// Waits until everybody has blocks, and looks whether any two share addresses.
pub(super) fn everybody(cluster: &mut Cluster) -> Result<usize> {
    let count = cluster.list(NODES)?.len();
    until_served(cluster, count).map(|book| book.len())
}

/// Kills the controller again and again while it serves nodes.
pub(super) fn killed(setup: &Setup<'_>, folder: &Path, rounds: u32, seed: u64) -> Result<String> {
    let mut cluster = setup.start(folder)?;
    ranges(&mut cluster)?;
    let mut random = Seeded::new(seed);
    for round in 0..rounds {
        let before = until_served(&mut cluster, 0)?.len();
        come(&cluster, &format!("k{round}"), NODES_EACH)?;
        // Now and then at once, else somewhere in between.
        let some = random.below(NODES_EACH) as usize;
        until_served(&mut cluster, before.saturating_sub(NODES_EACH as usize) + some)?;
        cluster.restart()?;
    }
    let nodes = everybody(&mut cluster)?;
    Ok(format!("{rounds} times kill -9: {nodes} nodes, all served, none of them twice"))
}

/// Two controllers that both act all the time: what an operator must not do, and what happens for a moment when a Lease goes over.
pub(super) fn two_at_once(setup: &Setup<'_>, folder: &Path, rounds: u32) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    for _ in 0..2 {
        cluster.beside()?.start(&[UNELECTED], None)?;
    }
    ranges(&mut cluster)?;
    for round in 0..rounds {
        come(&cluster, &format!("t{round}"), NODES_EACH)?;
        everybody(&mut cluster)?;
    }
    cluster.beside()?.are_up()?;
    let nodes = everybody(&mut cluster)?;
    Ok(format!("{nodes} nodes, all served, none of them twice"))
}

/// Two controllers, of which the one acts that has the Lease: it is killed, and it is robbed of the Lease.
pub(super) fn lease(setup: &Setup<'_>, folder: &Path, rounds: u32) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    for _ in 0..2 {
        cluster.beside()?.start(&SHORT_LEASE, None)?;
    }
    ranges(&mut cluster)?;
    for round in 0..rounds {
        let holder = holder(&mut cluster)?;
        come(&cluster, &format!("s{round}"), NODES_EACH)?;
        // Whoever took it does not renew it.
        let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}});
        cluster.change(LEASE, &thief)?;
        cluster.until("somebody has the Lease again", PATIENCE, |cluster| {
            Ok(Some(self::holder(cluster)?).filter(|holder| holder != "thief"))
        })?;
        everybody(&mut cluster).with_context(|| format!("after {holder} was robbed"))?;
    }
    // The one that has it goes, and does not come back.
    for round in 0..2 {
        let before = holder(&mut cluster)?;
        let beside = cluster.beside()?;
        let oldest = beside.controllers.remove(0);
        oldest.kill9()?;
        beside.start(&SHORT_LEASE, None)?;
        come(&cluster, &format!("g{round}"), NODES_EACH)?;
        everybody(&mut cluster).with_context(|| format!("{before} had the Lease before one was killed"))?;
    }
    let nodes = everybody(&mut cluster)?;
    Ok(format!("the Lease stolen {rounds} times and two holders killed: {nodes} nodes, all served, none of them twice"))
}

fn holder(cluster: &mut Cluster) -> Result<String> {
    cluster.until("somebody has the Lease", PATIENCE, |cluster| {
        let lease = cluster.get(LEASE)?.unwrap_or_default();
        Ok(lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned))
    })
}

/// A controller that does not reach the server now and then: connections are cut, and silent.
pub(super) fn outage(setup: &Setup<'_>, folder: &Path, rounds: u32) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    let beside = cluster.beside()?;
    let wire = Wire::to(&beside.server().endpoint()?.address)?;
    let kubeconfig = beside.kubeconfig_by(&format!("https://{}", wire.address()))?;
    beside.start(&[UNELECTED], Some(&kubeconfig))?;
    ranges(&mut cluster)?;
    for round in 0..rounds {
        let before = everybody(&mut cluster)?;
        let passage = if round % 2 == 0 { Passage::Cut } else { Passage::Held };
        // In the midst of work, and before it.
        come(&cluster, &format!("o{round}"), NODES_EACH)?;
        until_served(&mut cluster, before + NODES_EACH as usize / 4)?;
        wire.set(passage);
        come(&cluster, &format!("p{round}"), NODES_EACH)?;
        let gone: Vec<_> = (0..NODES_EACH / 2).map(|number| format!("o{round}-{number}")).collect();
        gone.iter().try_for_each(|name| cluster.delete_node(name))?;
        wire.set(Passage::Open);
        if passage == Passage::Held {
            // Those that are silent for long are given up by both ends.
            wire.snip();
        }
        everybody(&mut cluster).with_context(|| format!("after outage {round}"))?;
    }
    cluster.beside()?.are_up()?;
    let nodes = everybody(&mut cluster)?;
    Ok(format!("{rounds} outages: {nodes} nodes, all served, none of them twice"))
}

/// A controller whose writes are made and not answered, or lost (B6).
pub(super) fn unanswered(setup: &Setup<'_>, folder: &Path, rounds: u32) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    let beside = cluster.beside()?;
    let lossy = Lossy::to(beside.server().endpoint()?)?;
    let kubeconfig = beside.kubeconfig_by(&lossy.url())?;
    beside.start(&[UNELECTED], Some(&kubeconfig))?;
    ranges(&mut cluster)?;
    // One block, and two who want it: it stays with the first, whose answer was lost.
    for round in 0..rounds {
        come(&cluster, &format!("u{round}"), NODES_EACH)?;
        everybody(&mut cluster)?;
    }
    lossy.be_honest();
    // And each block that a write was lost for can be given: the ranges are filled to their ends.
    let wanted = cut_for(4, "172.16.0.0/25", &[("fill", "it")]);
    cluster.ready_range("fill", &wanted)?;
    for number in 0..8 {
        cluster.make_node(&format!("fill-{number}"), &[("fill", "it")])?;
    }
    let nodes = everybody(&mut cluster)?;
    cluster.beside()?.are_up()?;
    let (unheard, lost) = lossy.losses();
    ensure!(unheard > 0 && lost > 0, "nothing was lost: {unheard} {lost}");
    leaves_nothing(&mut cluster)?;
    Ok(format!("{unheard} writes made and not answered, {lost} lost: {nodes} nodes, all served, none of them twice"))
}

/// When all nodes are gone, every range is free to its last block, and goes when it is deleted.
pub(super) fn leaves_nothing(cluster: &mut Cluster) -> Result<()> {
    for node in cluster.list(NODES)? {
        cluster.delete_node(name_of(&node)?)?;
    }
    for range in cluster.list(RANGES)? {
        let name = name_of(&range)?.to_owned();
        cluster.until_status(&name, "that all of it is free", |status| {
            ["ipv4", "ipv6"].iter().all(|family| status[family]["free"] == status[family]["capacity"])
        })?;
        cluster.delete_range(&name)?;
        cluster.until_range_gone(&name, PATIENCE)?;
    }
    Ok(())
}

/// What nodes have, and at which revision: whoever is touched shows it.
pub(super) fn untouched(cluster: &mut Cluster) -> Result<Vec<(String, String, String)>> {
    let nodes = cluster.list(NODES)?;
    let told = nodes.iter().map(|node: &Value| {
        let revision = node["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok((name_of(node)?.to_owned(), format!("{:?}", blocks_of(node)?), revision))
    });
    told.collect()
}

/// How long a controller that is told to end may take.
pub(super) const END: Duration = Duration::from_secs(30);

/// A controller that is told to end gives the Lease up: the next one begins at once.
pub(super) fn handed_over(setup: &Setup<'_>, folder: &Path) -> Result<String> {
    let mut cluster = setup.start_unserved(folder)?;
    // As long as no test waits. The Lease has to be given up within one period, also on a machine that is busy with its disk.
    let flags = ["--leader-elect-lease-duration=10m", "--leader-elect-retry-period=2s"];
    cluster.beside()?.start(&flags, None)?;
    ranges(&mut cluster)?;
    cluster.beside()?.start(&flags, None)?;
    come(&cluster, "before", NODES_EACH)?;
    everybody(&mut cluster)?;
    let first = cluster.beside()?.controllers.remove(0);
    let status = first.stop(END)?;
    ensure!(status.success(), "it ended with {status}");
    come(&cluster, "after", NODES_EACH)?;
    let nodes = everybody(&mut cluster)?;
    Ok(format!(
        "{nodes} nodes, all served; the second has the Lease, which lasts ten minutes: {}",
        holder(&mut cluster)?
    ))
}
