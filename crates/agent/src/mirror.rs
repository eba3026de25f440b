//! What an `IPPool` should say, and what others want by having edited it: a merge of three, the book, the pool as it is, and the marks
//! that the pool has of what both last agreed on.
//!
//! What others put in is held in the journal before anything else is written. What they took out is given up if nobody uses it, and
//! put back if somebody does. An address that both say is in other hands stays as it is on both sides, and is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cni::config::contains;
use cni::journal::{Book, Holding, Origin};
use space::Cidr;

use crate::pool::{Allocation, Allocations, SeenPool, mark};

/// What the book says of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Who holds it.
    pub allocation: Allocation,
    /// By which holding.
    pub sequence: u64,
    /// Who said so.
    pub origin: Origin,
}

/// What the book says of the addresses of a slice.
pub fn kept(book: &Book<'_>, slice: Cidr) -> BTreeMap<IpAddr, Kept> {
    let mut kept = BTreeMap::new();
    for holding in book.holdings().iter().filter(|holding| holding.origin.is_local()) {
        for ip in holding.ips.iter().filter(|ip| contains(slice, ip.address)) {
            let (allocation, sequence, origin) = (allocation(holding), holding.sequence, holding.origin);
            kept.insert(ip.address, Kept { allocation, sequence, origin });
        }
    }
    kept
}

/// A holding as a pool has it.
pub fn allocation(holding: &Holding<'_>) -> Allocation {
    let text = |text: &str| text.to_owned();
    Allocation { id: text(&holding.container), podref: text(&holding.pod), ifname: text(&holding.ifname) }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// What others put in, to be held in the journal.
    pub reserve: Allocations,
    /// The holdings that others took out and nobody uses, to be ended.
    pub ends: BTreeSet<u64>,
    /// Entries to be put into the pool or taken out of it, when there is nothing to be done above.
    pub write: BTreeMap<IpAddr, Option<Allocation>>,
    /// Of these, what others took out although it is in use.
    pub put_back: BTreeMap<IpAddr, Allocation>,
    /// Addresses that others say somebody else has, and who.
    pub disputed: Allocations,
    /// What the pool says after the write, but for what is disputed.
    pub agreed: Allocations,
}

impl Merge {
    /// Whether the journal comes first.
    pub fn is_for_the_journal(&self) -> bool {
        !self.reserve.is_empty() || !self.ends.is_empty()
    }

    /// What others put in cannot be held where somebody holds it whom the pool does not show.
    pub fn dispute(&mut self, is_held: impl Fn(IpAddr) -> bool) {
        let (disputed, reserve): (Allocations, Allocations) =
            std::mem::take(&mut self.reserve).into_iter().partition(|(ip, _)| is_held(*ip));
        self.reserve = reserve;
        self.agreed.retain(|ip, _| !disputed.contains_key(ip));
        self.disputed.extend(disputed);
    }

    fn put(&mut self, ip: IpAddr, wanted: Option<&Allocation>) {
        match wanted {
            Some(wanted) => drop(self.agreed.insert(ip, wanted.clone())),
            None => drop(self.agreed.remove(&ip)),
        }
        self.write.insert(ip, wanted.cloned());
    }
}

/// What is to be done about a pool. `is_dead` says of a holding whether surely nobody uses it.
pub fn merge(kept: &BTreeMap<IpAddr, Kept>, seen: &SeenPool, journal: &str, is_dead: impl Fn(u64) -> bool) -> Merge {
    let mut merge = Merge { agreed: seen.allocations.clone(), ..Merge::default() };
    let marks = seen.marks(|from| from == journal);
    let is_marked = |ip: IpAddr, one: &Allocation| marks.contains(&mark(ip, one));
    let all: BTreeSet<IpAddr> = kept.keys().chain(seen.allocations.keys()).copied().collect();
    for ip in all {
        let (mine, theirs) = (kept.get(&ip), seen.allocations.get(&ip));
        let wanted = mine.map(|kept| &kept.allocation);
        match (mine, theirs) {
            (_, theirs) if theirs == wanted => {}
            // It is ours, from before.
            (_, Some(theirs)) if is_marked(ip, theirs) => merge.put(ip, wanted),
            (None, Some(theirs)) => drop(merge.reserve.insert(ip, theirs.clone())),
            (Some(mine), Some(theirs)) if is_same(&mine.allocation, theirs) => merge.put(ip, wanted),
            // Others put it in for somebody, and then for somebody else.
            (Some(mine), Some(theirs)) if mine.origin == Origin::Foreign => {
                merge.ends.insert(mine.sequence);
                merge.reserve.insert(ip, theirs.clone());
            }
            (Some(_), Some(theirs)) => {
                merge.disputed.insert(ip, theirs.clone());
                merge.agreed.remove(&ip);
            }
            // What others put in is theirs to take out.
            (Some(mine), None) if mine.origin == Origin::Foreign => drop(merge.ends.insert(mine.sequence)),
            (Some(mine), None) if !is_marked(ip, &mine.allocation) => merge.put(ip, wanted),
            (Some(mine), None) if is_dead(mine.sequence) => drop(merge.ends.insert(mine.sequence)),
            (Some(mine), None) => {
                merge.put(ip, wanted);
                merge.put_back.insert(ip, mine.allocation.clone());
            }
            (None, None) => {}
        }
    }
    merge
}

/// Whether both say it of the same attachment of a pod; a container may have been another when one of them was written.
fn is_same(one: &Allocation, other: &Allocation) -> bool {
    one.podref == other.podref && (one.ifname == other.ifname || other.ifname.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::seal;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn entry(pod: &str) -> Allocation {
        Allocation { id: format!("c-{pod}"), podref: pod.into(), ifname: "net1".into() }
    }

    fn pool(entries: &[(u8, &str)]) -> Allocations {
        entries.iter().map(|(last, pod)| (ip(*last), entry(pod))).collect()
    }

    /// Address 1 has the sequence 1, and so on; pods with an `F` are of others.
    fn book(entries: &[(u8, &str)]) -> BTreeMap<IpAddr, Kept> {
        let one = |(last, pod): &(u8, &str)| {
            let origin = if pod.starts_with('F') { Origin::Foreign } else { Origin::Add };
            (ip(*last), Kept { allocation: entry(pod), sequence: (*last).into(), origin })
        };
        entries.iter().map(one).collect()
    }

    type Entries<'a> = &'a [(u8, &'a str)];

    /// The merge in words: `+1a` is put in, `-1` taken out, `!1` put back and told, `r1a` reserved, `e1` ended, `d1x` disputed.
    fn check(kept: Entries<'_>, seen: Entries<'_>, agreed: Entries<'_>, expected: &str) {
        let mirrored = Some(seal("j", &pool(agreed)));
        let seen = SeenPool { allocations: pool(seen), mirrored, ..SeenPool::default() };
        // Of the holdings, number 5 is dead.
        let merged = merge(&book(kept), &seen, "j", |sequence| sequence == 5);
        let last = |ip: &IpAddr| ip.to_string().rsplit('.').next().unwrap().to_owned();
        let mut words = Vec::new();
        for (ip, wanted) in &merged.write {
            words.push(match wanted {
                None => format!("-{}", last(ip)),
                Some(_) if merged.put_back.contains_key(ip) => format!("!{}", last(ip)),
                Some(one) => format!("+{}{}", last(ip), one.podref),
            });
        }
        words.extend(merged.reserve.iter().map(|(ip, one)| format!("r{}{}", last(ip), one.podref)));
        words.extend(merged.ends.iter().map(|sequence| format!("e{sequence}")));
        words.extend(merged.disputed.iter().map(|(ip, one)| format!("d{}{}", last(ip), one.podref)));
        assert_eq!(words.join(" "), expected, "{kept:?} {:?} {agreed:?}", seen.allocations.keys());
    }

    #[test]
    fn the_pool_follows_the_book_where_nobody_else_was() {
        check(&[(1, "a")], &[], &[], "+1a");
        check(&[], &[(1, "a")], &[(1, "a")], "-1");
        check(&[(1, "b")], &[(1, "a")], &[(1, "a")], "+1b");
        check(&[(1, "a")], &[(1, "a")], &[(1, "a")], "");
        check(&[(1, "a")], &[(1, "a")], &[], "");
    }

    #[test]
    fn what_others_put_in_is_reserved_and_what_they_take_out_is_ended_or_put_back() {
        check(&[], &[(1, "x")], &[], "r1x");
        check(&[], &[(1, "x"), (2, "a")], &[(2, "a")], "-2 r1x");
        check(&[(1, "Fx")], &[], &[(1, "Fx")], "e1");
        check(&[(1, "Fx")], &[], &[], "e1");
        check(&[(1, "Fx")], &[(1, "y")], &[(1, "Fx")], "r1y e1");
        check(&[(5, "dead")], &[], &[(5, "dead")], "e5");
        check(&[(4, "live")], &[], &[(4, "live")], "!4");
    }

    #[test]
    fn an_address_that_we_gave_back_and_others_took_since_is_theirs() {
        check(&[], &[(1, "x")], &[(1, "a")], "r1x");
    }

    #[test]
    fn two_owners_of_one_address_stay_as_they_are_and_are_told() {
        check(&[(1, "a")], &[(1, "x")], &[], "d1x");
        check(&[(1, "a")], &[(1, "x")], &[(1, "a")], "d1x");
    }

    #[test]
    fn a_pool_that_was_written_from_another_journal_is_all_somebody_elses() {
        let mirrored = Some(seal("lost", &pool(&[(1, "a")])));
        let seen = SeenPool { allocations: pool(&[(1, "a")]), mirrored, ..SeenPool::default() };
        let merged = merge(&BTreeMap::new(), &seen, "j", |_| false);
        assert_eq!(merged.reserve, pool(&[(1, "a")]));
    }

    #[test]
    fn the_same_attachment_in_another_container_is_no_second_owner() {
        let mut theirs = entry("a");
        theirs.id = "older".into();
        let seen = SeenPool { allocations: [(ip(1), theirs)].into(), ..SeenPool::default() };
        let merged = merge(&book(&[(1, "a")]), &seen, "j", |_| false);
        assert_eq!(merged.write, [(ip(1), Some(entry("a")))].into());
        assert!(merged.disputed.is_empty());
    }
}
