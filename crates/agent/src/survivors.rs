//! Containers that run on though their pods are gone, on networks without slices: what their node says of them in the pools that all nodes
//! share.
//!
//! The controller takes entries of pods that are gone out of these pools. It sees pods and no containers, and a pod that is deleted by force
//! is gone before its containers are. What a container has whose namespace is there stays its own, so that must be said in time.

use std::collections::{BTreeMap, BTreeSet};

use api::slices::shared_pool_name;
use cni::journal::{Book, Holding, Origin};
use cni::pool::object::Home;
use space::Cidr;

use crate::reclaim::Pods;

/// How long a pod must be gone until something is said of its containers, in milliseconds. Most end sooner, and the controller waits for
/// a minute at least.
pub const SURVIVAL: u64 = 15_000;

/// By the names of pools: containers.
type Said = BTreeMap<String, BTreeSet<String>>;

/// See the module.
#[derive(Debug)]
pub struct Survivors {
    /// Where pools are. What is elsewhere the controller does not look at.
    namespace: String,
    /// Since when the pods of holdings are gone, by network and number.
    since: BTreeMap<(String, u64), u64>,
    wanted: Said,
    /// What was said, by this agent.
    said: Said,
}

impl Survivors {
    /// Nothing was said in the pools of that namespace yet.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), since: BTreeMap::new(), wanted: Said::new(), said: Said::new() }
    }

    /// Looks at the books of all networks, at a time in milliseconds. What nobody uses any more is not in them for long.
    pub fn look<'a>(&mut self, books: impl Iterator<Item = (&'a str, Book<'a>)>, pods: &Pods, now: u64) {
        let Some(pods) = pods else { return };
        let (mut since, mut wanted) = (BTreeMap::new(), Said::new());
        for (network, book) in books {
            let is_survivor = |holding: &&Holding<'_>| {
                holding.origin == Origin::Shared && !holding.pod.is_empty() && !pods.contains_key(&*holding.pod)
            };
            for holding in book.holdings().iter().filter(is_survivor) {
                let key = (network.to_owned(), holding.sequence);
                let begun = self.since.get(&key).copied().unwrap_or(now);
                since.insert(key, begun);
                if now.saturating_sub(begun) >= SURVIVAL {
                    for pool in self.pools(holding) {
                        wanted.entry(pool).or_default().insert(holding.container.to_string());
                    }
                }
            }
        }
        (self.since, self.wanted) = (since, wanted);
    }

    /// The names of the pools that a holding is in.
    fn pools(&self, holding: &Holding<'_>) -> Vec<String> {
        let Some(home) = Home::read(&holding.home).filter(|home| home.namespace == self.namespace) else {
            return Vec::new();
        };
        let ranges = holding.ips.iter().filter_map(|ip| Cidr::tolerant(&ip.to_string()).ok());
        ranges.map(|range| shared_pool_name(home.network.as_deref(), range.value)).collect()
    }

    /// What is to be said where, all containers of a pool together; nothing: what was said there is not so any more.
    pub fn steps(&self) -> Vec<(String, BTreeSet<String>)> {
        let pools: BTreeSet<&String> = self.wanted.keys().chain(self.said.keys()).collect();
        let news = pools.into_iter().filter(|pool| self.wanted.get(*pool) != self.said.get(*pool));
        news.map(|pool| (pool.clone(), self.wanted.get(pool).cloned().unwrap_or_default())).collect()
    }

    /// That was said.
    pub fn said(&mut self, pool: &str, containers: BTreeSet<String>) {
        if containers.is_empty() {
            self.said.remove(pool);
        } else {
            self.said.insert(pool.to_owned(), containers);
        }
    }
}

#[cfg(test)]
mod tests {
    use cni::journal::{Ip, Ips};

    use super::*;
    use crate::reclaim::Pod;
    use crate::tests::{Node, holding};

    /// What container `c-a-p` of pod `a/p` has of a network without slices.
    fn shared(home: &'static str) -> Holding<'static> {
        let ips = ["10.0.0.1", "fd00::1"].map(|ip| Ip { address: ip.parse().unwrap(), length: 24 });
        Holding { origin: Origin::Shared, home: home.into(), ips: Ips::of(&ips), ..holding(1, "a/p", "10.0.0.1") }
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is what is looked at")]
    fn pods(names: &[&str]) -> Pods {
        Some(names.iter().map(|name| ((*name).to_owned(), Pod::default())).collect())
    }

    /// What there is to say of these after a look at each of these times, each once.
    fn said(holdings: &[Holding<'_>], pods: &Pods, times: &[u64]) -> Vec<String> {
        let node = Node::holding(holdings);
        let (image, mut survivors, mut all) = (node.image(), Survivors::new("kube-system"), Vec::new());
        for now in times {
            survivors.look([("net", image.book())].into_iter(), pods, *now);
            for (pool, containers) in survivors.steps() {
                all.push(format!("{now} {pool} {containers:?}"));
                survivors.said(&pool, containers);
            }
        }
        all
    }

    #[test]
    fn what_a_container_has_whose_pod_is_gone_is_said_once_in_each_of_its_pools() {
        let expected = ["10.0.0.0-24", "fd00---24"].map(|pool| format!("{} {pool} {{\"c-a-p\"}}", SURVIVAL + 1));
        let times = [1, SURVIVAL, SURVIVAL + 1, SURVIVAL + 2];
        assert_eq!(said(&[shared("kube-system/")], &pods(&["a/other", "b/p"]), &times), expected);
        let named = said(&[shared("kube-system/net")], &pods(&[]), &times);
        assert_eq!(named, expected.map(|line| line.replace("10.", "net-10.").replace("fd00", "net-fd00")));
    }

    #[test]
    fn of_what_nobody_takes_out_nothing_is_said() {
        let times = [0, 10 * SURVIVAL];
        let nothing: [String; 0] = [];
        assert_eq!(said(&[shared("kube-system/")], &pods(&["a/p"]), &times), nothing, "its pod is there");
        assert_eq!(said(&[shared("kube-system/")], &None, &times), nothing, "nobody knows");
        assert_eq!(said(&[shared("other/")], &pods(&[]), &times), nothing, "its pools are elsewhere");
        for origin in [Origin::Add, Origin::Foreign, Origin::Owed] {
            let other = Holding { origin, ..shared("kube-system/") };
            assert_eq!(said(&[other], &pods(&[]), &times), nothing, "{origin:?}");
        }
    }

    #[test]
    fn what_ended_or_whose_pod_came_back_is_said_no_more() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, empty) = (node.image(), cni::journal::Image::default());
        for (after, known) in [(&empty, pods(&[])), (&image, pods(&["a/p"]))] {
            let mut survivors = Survivors::new("kube-system");
            for now in [0, SURVIVAL] {
                survivors.look([("net", image.book())].into_iter(), &pods(&[]), now);
            }
            for (pool, containers) in survivors.steps() {
                survivors.said(&pool, containers);
            }
            survivors.look([("net", after.book())].into_iter(), &known, SURVIVAL + 1);
            let steps = survivors.steps();
            assert!(steps.len() == 2 && steps.iter().all(|(_, containers)| containers.is_empty()), "{steps:?}");
            for (pool, containers) in steps {
                survivors.said(&pool, containers);
            }
            assert_eq!(survivors.steps(), []);
        }
    }
}
