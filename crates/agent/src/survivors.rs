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

/// How long after a pod was seen to be gone something is said of its containers, in milliseconds. Most end sooner, and the controller waits
/// for a minute at least.
pub const SURVIVAL: u64 = 15_000;

/// By the names of pools: containers.
type Said = BTreeMap<String, BTreeSet<String>>;

/// A journal as it is read.
pub struct Reading<'a> {
    /// The network.
    pub network: &'a str,
    /// Which of its journals it is: one that was lost is made anew under another id.
    pub journal: String,
    /// What it says.
    pub book: Book<'a>,
    /// Whether that is all that was ever written into it.
    pub is_whole: bool,
}

/// A container whose pod is gone.
#[derive(Debug)]
struct Survivor {
    /// From when on that is said.
    from: u64,
    /// The names of the pools that it has something of.
    pools: BTreeSet<String>,
    /// Which journal last had it.
    journal: String,
}

/// See the module.
#[derive(Debug)]
pub struct Survivors {
    /// Where pools are. What is elsewhere the controller does not look at.
    namespace: String,
    /// By networks and containers. The pods of some may be there again.
    alone: BTreeMap<(String, String), Survivor>,
    /// The networks whose journals were looked at before.
    looked: BTreeSet<String>,
    wanted: Said,
    /// What was said, by this agent.
    said: Said,
}

impl Survivors {
    /// Nothing was said in the pools of that namespace yet.
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            alone: BTreeMap::new(),
            looked: BTreeSet::new(),
            wanted: Said::new(),
            said: Said::new(),
        }
    }

    /// Looks at all journals that can be read, at a time in milliseconds. What nobody uses any more is not in them for long. What is said of a
    /// container stays said until a whole journal does not have it any more: one that cannot be read, or is gone, says nothing of what runs.
    /// A pod of that name may be there again, but the controller may not see that between two looks, and what is said costs nothing
    /// meanwhile.
    pub fn look<'a>(&mut self, readings: impl Iterator<Item = Reading<'a>>, pods: &Pods, now: u64) {
        let Some(pods) = pods else { return };
        let mut there: BTreeMap<(String, String), Survivor> = BTreeMap::new();
        let mut whole = BTreeSet::new();
        for Reading { network, journal, book, is_whole } in readings {
            if is_whole {
                whole.insert((network.to_owned(), journal.clone()));
            }
            // How long pods were gone before the agent began, nobody knows: it may have been silent for as long as the controller waits.
            let is_first = self.looked.insert(network.to_owned());
            let from = if is_first { now } else { now.saturating_add(SURVIVAL) };
            let is_shared = |holding: &&Holding<'_>| holding.origin == Origin::Shared && !holding.pod.is_empty();
            for holding in book.holdings().iter().filter(is_shared) {
                let key = (network.to_owned(), holding.container.to_string());
                let known = self.alone.get(&key);
                if known.is_none() && pods.contains_key(&*holding.pod) {
                    continue;
                }
                let (from, journal) = (known.map_or(from, |known| known.from), journal.clone());
                let one = there.entry(key).or_insert(Survivor { from, pools: BTreeSet::new(), journal });
                one.pools.extend(self.pools(holding));
            }
        }
        self.alone.retain(|(network, _), known| !whole.contains(&(network.clone(), known.journal.clone())));
        self.alone.append(&mut there);
        self.wanted = Said::new();
        for ((_, container), known) in &self.alone {
            for pool in known.pools.iter().filter(|_| known.from <= now) {
                self.wanted.entry(pool.clone()).or_default().insert(container.clone());
            }
        }
    }

    /// The names of the pools that a holding is in.
    fn pools(&self, holding: &Holding<'_>) -> BTreeSet<String> {
        let Some(home) = Home::read(&holding.home).filter(|home| home.namespace == self.namespace) else {
            return BTreeSet::new();
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

    /// The node is another one than before. What was said for the one that went may have been taken out.
    pub fn say_again(&mut self) {
        self.said.clear();
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
    use cni::journal::{Image, Ip, Ips};

    use super::*;
    use crate::reclaim::Pod;
    use crate::tests::{Node, holding};

    /// What container `c-a-p` of pod `a/p` has of a network without slices.
    fn shared(home: &'static str) -> Holding<'static> {
        let ips = ["10.0.0.1", "fd00::1"].map(|ip| Ip { address: ip.parse().unwrap(), length: 24 });
        Holding { origin: Origin::Shared, home: home.into(), ips: Ips::of(&ips), ..holding(1, "a/p", "10.0.0.1") }
    }

    /// The journal of the network `net`, all of it.
    fn read(image: &Image) -> Reading<'_> {
        Reading { network: "net", journal: "one".to_owned(), book: image.book(), is_whole: true }
    }

    #[allow(clippy::unnecessary_wraps, reason = "it is what is looked at")]
    fn pods(names: &[&str]) -> Pods {
        Some(names.iter().map(|name| ((*name).to_owned(), Pod::default())).collect())
    }

    /// Nothing was said, and it was looked when there was no container.
    fn begun() -> Survivors {
        let mut survivors = Survivors::new("kube-system");
        survivors.look([read(&Image::default())].into_iter(), &pods(&[]), 0);
        survivors
    }

    /// What there is to say of these after a look at each of these times, each once.
    fn said(holdings: &[Holding<'_>], pods: &Pods, times: &[u64]) -> Vec<String> {
        let node = Node::holding(holdings);
        let (image, mut survivors, mut all) = (node.image(), begun(), Vec::new());
        for now in times {
            survivors.look([read(&image)].into_iter(), pods, *now);
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
    fn what_ended_is_said_no_more_and_that_a_pod_of_its_name_came_ends_nothing() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, empty, mut survivors) = (node.image(), Image::default(), begun());
        for now in [0, SURVIVAL] {
            survivors.look([read(&image)].into_iter(), &pods(&[]), now);
        }
        let steps = survivors.steps();
        assert_eq!(steps.len(), 2);
        for (pool, containers) in steps {
            survivors.said(&pool, containers);
        }
        survivors.look([read(&image)].into_iter(), &pods(&["a/p"]), SURVIVAL + 1);
        assert_eq!(survivors.steps(), []);
        survivors.look([].into_iter(), &pods(&["a/p"]), SURVIVAL + 2);
        assert_eq!(survivors.steps(), []);
        survivors.look([read(&empty)].into_iter(), &pods(&["a/p"]), SURVIVAL + 3);
        let steps = survivors.steps();
        assert!(steps.len() == 2 && steps.iter().all(|(_, containers)| containers.is_empty()), "{steps:?}");
        for (pool, containers) in steps {
            survivors.said(&pool, containers);
        }
        assert_eq!(survivors.steps(), []);
    }

    /// The controller may have looked before it came and after it went.
    #[test]
    fn a_pod_that_comes_for_a_moment_does_not_put_off_what_is_said() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, mut survivors) = (node.image(), begun());
        for (known, now) in [(pods(&[]), 1), (pods(&["a/p"]), 2), (pods(&[]), SURVIVAL)] {
            survivors.look([read(&image)].into_iter(), &known, now);
            assert_eq!(survivors.steps(), []);
        }
        survivors.look([read(&image)].into_iter(), &pods(&[]), SURVIVAL + 1);
        assert_eq!(survivors.steps().len(), 2);
    }

    /// It may be read later than the pods are listed.
    #[test]
    fn who_begins_says_at_once_whose_pods_are_gone() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, mut survivors) = (node.image(), Survivors::new("kube-system"));
        survivors.look([read(&image)].into_iter(), &None, 1);
        survivors.look([].into_iter(), &pods(&[]), 2);
        assert_eq!(survivors.steps(), []);
        survivors.look([read(&image)].into_iter(), &pods(&[]), 3);
        assert_eq!(survivors.steps().len(), 2);
    }

    /// What is said of a node that is gone does not stay for ever.
    #[test]
    fn who_is_another_node_says_it_again() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, mut survivors) = (node.image(), Survivors::new("kube-system"));
        for now in [0, SURVIVAL] {
            survivors.look([read(&image)].into_iter(), &pods(&[]), now);
        }
        let steps = survivors.steps();
        for (pool, containers) in steps.clone() {
            survivors.said(&pool, containers);
        }
        assert_eq!(survivors.steps(), []);
        survivors.say_again();
        assert_eq!((survivors.steps(), steps.len()), (steps, 2));
    }

    /// A disk that rots, a file that somebody removed, or a moment in which nothing can be read does not end a container.
    #[test]
    fn what_a_journal_that_is_not_there_or_not_whole_does_not_say_stays_said() {
        let node = Node::holding(&[shared("kube-system/")]);
        let (image, empty) = (node.image(), Image::default());
        let other = |journal: &str, is_whole| Reading {
            network: "net",
            journal: journal.to_owned(),
            book: empty.book(),
            is_whole,
        };
        for later in [Vec::new(), vec![other("one", false)], vec![other("another", true)]] {
            let mut survivors = Survivors::new("kube-system");
            survivors.look([read(&image)].into_iter(), &pods(&[]), 0);
            survivors.look(later.into_iter(), &pods(&[]), SURVIVAL);
            let steps = survivors.steps();
            assert!(steps.len() == 2 && steps.iter().all(|(_, containers)| !containers.is_empty()), "{steps:?}");
            for (pool, containers) in steps {
                survivors.said(&pool, containers);
            }
            survivors.look([].into_iter(), &pods(&[]), SURVIVAL + 1);
            assert_eq!(survivors.steps(), []);
            survivors.look([other("one", true)].into_iter(), &pods(&[]), SURVIVAL + 2);
            assert_eq!(survivors.steps().len(), 2, "it ended");
        }
    }
}
