//! Which addresses an attachment gets: a function of the journal, the grants and the configuration.
//!
//! In this order: what the attachment holds already; what its pod holds from another sandbox, if that one is gone; what was asked
//! for; the first address that is free. An address of each range, or none at all.
//!
//! Slices are used in the order of the grants. The first and the last address of a slice come when the others are held: they are
//! addresses like any other, for the range is larger, but whereabouts never gave them, and some people look twice at a `.0`. Those
//! of the range itself are never given.

use std::net::IpAddr;

use space::Cidr;
use thiserror::Error;

use crate::config::{Order, RangeConf, Settings, Span, address, contains, number};
use crate::grants::{Grants, SliceState};
use crate::journal::{Book, Holding, Ip, Reason};

/// How many holders are named when nothing is free.
const NAMED: usize = 5;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The container.
    pub container: &'a str,
    /// The interface.
    pub ifname: &'a str,
    /// The pod, `namespace/name`; empty for none.
    pub pod: &'a str,
    /// Its UID; empty if it is not known.
    pub uid: &'a str,
    /// When: milliseconds since 1970.
    pub now: u64,
}

/// What is known of the namespace of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is there.
    Alive,
    /// It is gone, for this reason.
    Gone(Reason),
    /// Nobody can say.
    Unknown,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the attachment holds these already.
    Held(Vec<Ip>),
    /// These are given, and these holdings end.
    Give {
        /// An address of each range.
        ips: Vec<Ip>,
        /// Holdings by their numbers, and why they end.
        ends: Vec<(u64, Reason)>,
    },
}

/// Why nothing is given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The journal is damaged here.
    #[error("the journal is damaged at byte {0}")]
    Damaged(usize),
    /// The node holds no slice of a range.
    #[error("node {node} holds no slice of {range}")]
    NoSlice {
        /// The node.
        node: String,
        /// The range.
        range: Cidr,
    },
    /// Every address is held.
    #[error("no address of {range} is free on node {node}: its slices are {}", list(slices))]
    Exhausted {
        /// The node.
        node: String,
        /// The range.
        range: Cidr,
        /// Its slices on this node.
        slices: Vec<Cidr>,
        /// Some of those who hold the addresses.
        holders: Vec<String>,
    },
    /// An address was asked for that is of no range, or of one of which another address was asked for.
    #[error("{0} was asked for, and is in no range of the network that another address was not asked for of")]
    NoRange(IpAddr),
    /// An address was asked for that is in no slice of this node.
    #[error("{address} was asked for, and is in none of the slices of node {node}: {}", list(slices))]
    NotOnNode {
        /// The address.
        address: IpAddr,
        /// The node.
        node: String,
        /// The slices of its range on this node.
        slices: Vec<Cidr>,
    },
    /// An address was asked for that is never given.
    #[error("{0} was asked for, and is never given: it is excluded, a gateway, or an end of the range")]
    NeverGiven(IpAddr),
    /// An address was asked for that somebody else holds.
    #[error("{address} was asked for, and {holder} holds it")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who holds it.
        holder: String,
    },
}

fn list(slices: &[Cidr]) -> String {
    let texts: Vec<String> = slices.iter().map(Cidr::to_string).collect();
    texts.join(", ")
}

/// What to do about a request. `liveness` is asked only where it decides something.
pub fn decide(
    request: Request<'_>,
    book: &Book<'_>,
    grants: &Grants,
    settings: &Settings,
    liveness: impl Fn(&Holding<'_>) -> Liveness,
) -> Result<Decision, Refusal> {
    if let Some(held) = book.of(request.container, request.ifname) {
        return Ok(Decision::Held(held.ips.iter().collect()));
    }
    if let Some(at) = book.damage() {
        return Err(Refusal::Damaged(at));
    }
    let earlier = earlier(request, book, &liveness);
    let mut ends: Vec<(u64, Reason)> = earlier.iter().map(|holding| (holding.sequence, Reason::Replaced)).collect();
    let mut ips: Vec<Ip> = Vec::with_capacity(settings.ranges.len());
    let wishes = wishes(settings)?;
    for (range, wish) in settings.ranges.iter().zip(wishes) {
        let slices = slices(grants, range);
        if slices.is_empty() {
            return Err(Refusal::NoSlice { node: grants.node.clone(), range: range.cidr });
        }
        let mut search =
            Search { range, slices, book, settings, grants, ends: &mut ends, given: &ips, liveness: &liveness };
        let found = match (wish, earlier.and_then(|holding| search.kept(holding))) {
            (Some(wish), _) => search.wanted(wish)?,
            (None, Some(kept)) => kept,
            (None, None) => search.free(request.now)?,
        };
        ips.push(Ip { address: address(range.family(), found), length: range.cidr.length() });
    }
    Ok(Decision::Give { ips, ends })
}

/// What the pod holds on the same interface from another sandbox, if that is not in use any more: it is the same pod, which has but
/// one sandbox, or the sandbox is gone. Of a pod whose UID nobody knows, a sandbox that cannot be looked at counts as gone.
fn earlier<'b, 'a>(
    request: Request<'_>,
    book: &'b Book<'a>,
    liveness: &impl Fn(&Holding<'_>) -> Liveness,
) -> Option<&'b Holding<'a>> {
    // What other nodes know of, too, is not taken over here.
    let same = |holding: &&Holding<'_>| {
        let is_same = holding.pod == request.pod && holding.ifname == request.ifname;
        is_same && !request.pod.is_empty() && holding.origin.is_local()
    };
    book.holdings().iter().rev().filter(same).find(|holding| {
        let is_known = !request.uid.is_empty() && !holding.uid.is_empty();
        if is_known && holding.uid == request.uid {
            return true;
        }
        match liveness(holding) {
            Liveness::Gone(_) => true,
            Liveness::Unknown => !is_known,
            Liveness::Alive => false,
        }
    })
}

/// The address that is asked for of each range.
fn wishes(settings: &Settings) -> Result<Vec<Option<u128>>, Refusal> {
    let mut wishes = vec![None; settings.ranges.len()];
    for ip in &settings.requested {
        let mut open = settings.ranges.iter().zip(&mut wishes).filter(|(_, wish)| wish.is_none());
        let (_, wish) = open.find(|(range, _)| contains(range.cidr, *ip)).ok_or(Refusal::NoRange(*ip))?;
        *wish = Some(number(*ip).1);
    }
    Ok(wishes)
}

/// The slices that new addresses of a range come from: those granted for this very range, or else those that lie in it. The node holds
/// these as well, and the range may have been written otherwise when they were granted.
fn slices(grants: &Grants, range: &RangeConf) -> Vec<Cidr> {
    let exact = grants.ranges.iter().any(|grant| grant.range == range.cidr);
    let mine = grants.ranges.iter().filter(|grant| !exact || grant.range == range.cidr);
    let granted = mine.flat_map(|grant| &grant.slices).filter(|slice| slice.state == SliceState::Granted);
    let inside = granted
        .map(|slice| slice.cidr)
        .filter(|slice| slice.family() == range.family() && Span::of(*slice).and(Span::of(range.cidr)).is_some());
    inside.collect()
}

/// The search for one address of one range.
struct Search<'s, 'b, L> {
    range: &'s RangeConf,
    slices: Vec<Cidr>,
    book: &'s Book<'b>,
    settings: &'s Settings,
    grants: &'s Grants,
    /// The holdings that end with this decision.
    ends: &'s mut Vec<(u64, Reason)>,
    /// What the ranges before this one gave.
    given: &'s [Ip],
    liveness: &'s L,
}

impl<'s, 'b, L: Fn(&Holding<'_>) -> Liveness> Search<'s, 'b, L> {
    /// The address of this range in a holding that is taken over, if the node still gives addresses there.
    fn kept(&self, holding: &Holding<'_>) -> Option<u128> {
        let mut mine = holding.ips.iter().filter_map(|ip| self.mine(ip.address));
        mine.find(|at| {
            let granted = self.slices.iter().any(|slice| Span::of(*slice).has(*at));
            granted && !self.gateways().any(|gateway| gateway == *at) && !self.is_given(*at)
        })
    }

    /// The address that was asked for, if it can be had.
    fn wanted(&mut self, at: u128) -> Result<u128, Refusal> {
        let asked = address(self.range.family(), at);
        if !self.slices.iter().any(|slice| Span::of(*slice).has(at)) {
            let (node, slices) = (self.grants.node.clone(), self.slices.clone());
            return Err(Refusal::NotOnNode { address: asked, node, slices });
        }
        let excluded = self.range.excluded.iter().any(|span| span.has(at));
        if !self.range.span.has(at) || excluded || self.gateways().any(|gateway| gateway == at) {
            return Err(Refusal::NeverGiven(asked));
        }
        if self.is_given(at) {
            return Err(Refusal::NoRange(asked));
        }
        let holder = self.holders().find(|holding| holding.ips.iter().any(|ip| ip.address == asked));
        if let Some(holder) = holder {
            let Liveness::Gone(reason) = (self.liveness)(holder) else {
                return Err(Refusal::Taken { address: asked, holder: name(holder) });
            };
            self.ends.push((holder.sequence, reason));
        }
        Ok(at)
    }

    /// An address that nobody holds; if there is none, one of a holding whose namespace is gone.
    fn free(&mut self, now: u64) -> Result<u128, Refusal> {
        let open = self.open();
        if let Some(found) = self.unheld(&open, now) {
            return Ok(found);
        }
        let in_open = |holding: &&Holding<'_>| {
            let mut numbers = holding.ips.iter().filter_map(|ip| self.mine(ip.address));
            numbers.any(|at| open.iter().any(|span| span.has(at)))
        };
        let holders: Vec<&Holding<'_>> = self.holders().filter(in_open).collect();
        for holder in &holders {
            let Liveness::Gone(reason) = (self.liveness)(holder) else { continue };
            self.ends.push((holder.sequence, reason));
            if let Some(found) = self.unheld(&open, now) {
                return Ok(found);
            }
        }
        Err(Refusal::Exhausted {
            node: self.grants.node.clone(),
            range: self.range.cidr,
            slices: self.slices.clone(),
            holders: holders.iter().take(NAMED).map(|holding| name(holding)).collect(),
        })
    }

    /// What may be given, in the order in which it is tried.
    fn open(&self) -> Vec<Span> {
        let mut open = Vec::with_capacity(self.slices.len() * 3);
        for slice in &self.slices {
            let all = Span::of(*slice);
            let (first, last) = (Span::point(all.first), Span::point(all.last));
            let inner = (all.last - all.first > 1).then(|| Span { first: all.first + 1, last: all.last - 1 });
            let ends = [Some(first), Some(last).filter(|last| *last != first)];
            let parts = inner.into_iter().chain(ends.into_iter().flatten());
            open.extend(parts.filter_map(|part| part.and(self.range.span)));
        }
        open
    }

    fn unheld(&self, open: &[Span], now: u64) -> Option<u128> {
        let mut blocked = self.range.excluded.clone();
        blocked.extend(self.gateways().map(Span::point));
        let held = self.holders().flat_map(|holding| holding.ips.iter()).chain(self.given.iter().copied());
        blocked.extend(held.filter_map(|ip| self.mine(ip.address)).map(Span::point));
        blocked.sort_unstable();
        let rotated;
        let open = match (self.settings.order, self.latest(open)) {
            (Order::RoundRobin, Some(latest)) => {
                rotated = behind(open, latest);
                &rotated
            }
            _ => open,
        };
        let resting = self.resting(now);
        if resting.is_empty() {
            return lowest(open, &blocked);
        }
        let mut avoided = blocked.clone();
        avoided.extend(resting.iter().copied().map(Span::point));
        avoided.sort_unstable();
        // When there is nothing else, the one that has rested longest is rested enough.
        lowest(open, &avoided).or_else(|| {
            let free = |at: &u128| open.iter().any(|span| span.has(*at)) && !blocked.iter().any(|span| span.has(*at));
            resting.iter().copied().find(free)
        })
    }

    /// The addresses that came back too lately, earliest first.
    fn resting(&self, now: u64) -> Vec<u128> {
        if self.settings.cooldown == 0 {
            return Vec::new();
        }
        let since = now.saturating_sub(self.settings.cooldown * 1000);
        let lately = self.book.released().iter().filter(|released| released.at > since);
        lately.flat_map(|released| released.ips.iter()).filter_map(|ip| self.mine(ip.address)).collect()
    }

    /// The address that was given last.
    fn latest(&self, open: &[Span]) -> Option<u128> {
        let held = self.book.holdings().iter().map(|holding| (holding.sequence, &holding.ips));
        let released = self.book.released().iter().map(|released| (released.sequence, &released.ips));
        let all = held.chain(released).flat_map(|(sequence, ips)| ips.iter().map(move |ip| (sequence, ip)));
        let mine = all.filter_map(|(sequence, ip)| self.mine(ip.address).map(|at| (sequence, at)));
        mine.filter(|(_, at)| open.iter().any(|span| span.has(*at))).max().map(|(_, at)| at)
    }

    /// The holdings that do not end with this decision.
    fn holders<'h>(&'h self) -> impl Iterator<Item = &'s Holding<'b>> + use<'h, 's, 'b, L> {
        let holdings: &'s [Holding<'b>] = self.book.holdings();
        holdings.iter().filter(|holding| self.ends.iter().all(|(ended, _)| *ended != holding.sequence))
    }

    /// The number of an address of this range.
    fn mine(&self, ip: IpAddr) -> Option<u128> {
        let (family, at) = number(ip);
        (family == self.range.family() && Span::of(self.range.cidr).has(at)).then_some(at)
    }

    fn is_given(&self, at: u128) -> bool {
        self.given.iter().any(|ip| self.mine(ip.address) == Some(at))
    }

    fn gateways(&self) -> impl Iterator<Item = u128> {
        let own = self.settings.gateway.iter().chain(&self.settings.gateways).chain(&self.grants.gateways);
        let fixed =
            self.settings.addresses.iter().flat_map(|fixed| fixed.gateway.into_iter().chain([fixed.ip.address]));
        own.copied().chain(fixed).filter_map(|ip| self.mine(ip))
    }
}

fn name(holding: &Holding<'_>) -> String {
    let pod = if holding.pod.is_empty() { &holding.container } else { &holding.pod };
    format!("{pod} ({})", holding.ifname)
}

/// The first address of `open` that is in none of `blocked`, which are sorted.
fn lowest(open: &[Span], blocked: &[Span]) -> Option<u128> {
    open.iter().find_map(|span| {
        let mut at = span.first;
        for block in blocked {
            if block.first > at {
                break;
            }
            if block.last >= at {
                at = block.last.checked_add(1).filter(|next| *next <= span.last)?;
            }
        }
        Some(at)
    })
}

/// The same addresses, beginning behind `latest`.
fn behind(open: &[Span], latest: u128) -> Vec<Span> {
    let Some(turn) = open.iter().position(|span| span.has(latest)) else { return open.to_vec() };
    let span = open[turn];
    let after = (latest < span.last).then(|| Span { first: latest + 1, last: span.last });
    let before = Span { first: span.first, last: latest };
    after
        .into_iter()
        .chain(open[turn + 1..].iter().copied())
        .chain(open[..turn].iter().copied())
        .chain([before])
        .collect()
}

#[cfg(test)]
mod tests;
