//! What becomes of ranges by the rule that both servers follow: which of them give out addresses, which stay although they were
//! deleted, and what they look like when everybody has done with them what is to be done.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::holdings::is_services;

/// Keeps a deleted range until none of its addresses is in use.
pub(super) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Kubernetes Service CIDR is ready";
const KEPT: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
/// The reason for which ours is not ready if it can never give out anything.
pub(super) const UNUSABLE: &str = "Unusable";
/// The shortest prefix of an IPv6 range that gives out anything.
const SHORTEST: u32 = 64;
/// Which address of a range nobody but a probe asks for.
const PROBED: u128 = 9;
/// How long after its deletion the real controller has looked at a range again by itself: it lets none go before ten seconds.
pub(super) const LOOKED: Duration = Duration::from_secs(15);

/// Which other ranges a deleted one may leave its addresses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heirs {
    /// Those that stay.
    Open,
    /// Any, also one that is deleted itself. That is how the real controller sees it.
    Any,
}

/// The addresses of one family that a range has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    is_v6: bool,
    length: u32,
    first: u128,
    last: u128,
}

impl Block {
    fn read(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
        let bits: u32 = if address.is_ipv6() { 128 } else { 32 };
        let first = number(address);
        let last = first | u128::MAX.checked_shr(128 - bits.checked_sub(length)?).unwrap_or(0);
        Some(Self { is_v6: address.is_ipv6(), length, first, last })
    }

    /// Neither the first nor, of IPv4, the last address of a range is one of its own.
    fn has(&self, address: IpAddr) -> bool {
        let (point, top) = (number(address), self.last - u128::from(!self.is_v6));
        address.is_ipv6() == self.is_v6 && self.first < point && point <= top
    }

    fn contains(&self, other: &Self) -> bool {
        self.is_v6 == other.is_v6 && self.first <= other.first && other.last <= self.last
    }

    fn probe(&self) -> Option<IpAddr> {
        let point = self.first + PROBED;
        let address = if self.is_v6 { IpAddr::V6(point.into()) } else { IpAddr::V4(u32::try_from(point).ok()?.into()) };
        (self.has(address) && (!self.is_v6 || self.length >= SHORTEST)).then_some(address)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn blocks(range: &Value) -> Vec<Block> {
    let cidrs = range["spec"]["cidrs"].as_array().into_iter().flatten();
    cidrs.filter_map(Value::as_str).filter_map(Block::read).collect()
}

/// Whether a range has that address.
pub(super) fn has(range: &Value, address: IpAddr) -> bool {
    blocks(range).iter().any(|block| block.has(address))
}

/// Addresses by which can be seen whether a range gives out anything, one of each of its families.
pub(super) fn probes(range: &Value) -> Vec<IpAddr> {
    blocks(range).iter().filter_map(Block::probe).collect()
}

/// Whether it was deleted.
pub(super) fn is_leaving(range: &Value) -> bool {
    !range["metadata"]["deletionTimestamp"].is_null()
}

/// Whether it gives out what it has.
pub(super) fn is_open(range: &Value) -> bool {
    !is_leaving(range) && ready(range).is_none_or(|ready| ready["status"] != "False")
}

fn ready(range: &Value) -> Option<&Value> {
    range["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")
}

/// Whether ours says that it can never give out anything.
pub(super) fn is_unusable(range: &Value) -> bool {
    ready(range).is_some_and(|ready| ready["reason"] == UNUSABLE)
}

/// Whether it has the finalizer that keeps it while it is needed.
pub(super) fn is_protected(range: &Value) -> bool {
    range["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|name| name == FINALIZER))
}

/// All ranges of a server, and all addresses.
#[derive(Debug)]
pub(super) struct Ranges {
    pub(super) all: Vec<Value>,
    pub(super) addresses: Vec<Value>,
}

impl Ranges {
    /// The range of that name.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.all.iter().find(|range| range["metadata"]["name"] == name)
    }

    /// Whether some range gives out that address.
    pub(super) fn give(&self, address: IpAddr) -> bool {
        self.all.iter().any(|range| is_open(range) && has(range, address))
    }

    /// The address that keeps a range if it is deleted: a Service has it, and no heir.
    pub(super) fn keeper(&self, range: &Value, heirs: Heirs) -> Option<IpAddr> {
        let is_heir = |other: &&Value| {
            other["metadata"]["name"] != range["metadata"]["name"] && (heirs == Heirs::Any || is_open(other))
        };
        let others: Vec<_> = self.all.iter().filter(is_heir).flat_map(blocks).collect();
        let own = blocks(range);
        if own.iter().all(|block| others.iter().any(|other| other.contains(block))) {
            return None;
        }
        self.given(&own).find(|address| !others.iter().any(|other| other.has(*address)))
    }

    /// The addresses that Services have of that.
    fn given(&self, own: &[Block]) -> impl Iterator<Item = IpAddr> {
        let given = self.addresses.iter().filter(|address| is_services(address));
        let given = given.filter_map(|address| address["metadata"]["name"].as_str()?.parse::<IpAddr>().ok());
        given.filter(|address| own.iter().any(|block| block.has(*address)))
    }

    /// Whether other ranges, which are there until it is free, have all that Services have of it. Then it was let go when one of
    /// them was open, and somebody else's finalizer is what it waits for.
    fn is_let_go(&self, range: &Value) -> bool {
        let is_other = |other: &&Value| other["metadata"]["name"] != range["metadata"]["name"] && is_protected(other);
        let others: Vec<_> = self.all.iter().filter(is_other).flat_map(blocks).collect();
        self.given(&blocks(range)).all(|address| others.iter().any(|other| other.has(address)))
    }

    /// Whether everybody has done with a range what is to be done. One that is needed has its finalizer here. There, it may have lost
    /// it to another one that was deleted as well and is gone now, and never gets it back.
    pub(super) fn is_settled(&self, range: &Value, heirs: Heirs) -> bool {
        let ready = ready(range).unwrap_or(&Value::Null);
        if !is_leaving(range) {
            let is_ready = ready["status"] == "True" && ready["message"] == READY && ready["reason"] == "";
            return is_protected(range) && (is_ready || is_unusable(range));
        }
        if self.keeper(range, heirs).is_none() {
            return !is_protected(range);
        }
        (heirs == Heirs::Any || is_protected(range) || self.is_let_go(range))
            && ready["status"] == "False"
            && ready["reason"] == "Terminating"
            && ready["message"] == KEPT
    }

    /// The names of the deleted ranges that the real controller has not done with although it has had the time. It looks at a
    /// deleted range when that one is written, when another one is made, and when an address that is marked as a Service's comes or
    /// goes; not when another one gains a family or goes, nor when an address goes that lost its mark.
    pub(super) fn overlooked(&self, now: Timestamp) -> Vec<String> {
        let is_old = |range: &Value| {
            let deleted =
                range["metadata"]["deletionTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
            deleted.is_some_and(|deleted| now.duration_since(deleted).unsigned_abs() > LOOKED)
        };
        let all = self.all.iter().filter(|range| is_old(range) && !self.is_settled(range, Heirs::Any));
        all.filter_map(|range| range["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    /// Whether several ranges, all of them deleted, have a CIDR in common that has that address. The real server has one allocator for
    /// each CIDR, and closes it only for a range that has it alone.
    pub(super) fn is_shared(&self, address: IpAddr) -> bool {
        let of = |range: &Value| range["spec"]["cidrs"].as_array().cloned().unwrap_or_default();
        let having = |cidr: &Value| self.all.iter().filter(|range| of(range).contains(cidr)).count();
        let has = |cidr: &Value| cidr.as_str().and_then(Block::read).is_some_and(|block| block.has(address));
        !self.give(address) && self.all.iter().flat_map(of).any(|cidr| has(&cidr) && having(&cidr) > 1)
    }

    /// Whether it is on its way out, and nothing in use keeps it: it can be gone at any time.
    pub(super) fn is_going(&self, range: &Value, heirs: Heirs) -> bool {
        is_leaving(range) && is_protected(range) && self.keeper(range, heirs).is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(name: &str, cidr: &str, leaving: bool) -> Value {
        let mut range = json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        if leaving {
            range["metadata"]["deletionTimestamp"] = json!("<time>");
        }
        range
    }

    fn address(name: &str, manager: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"ipaddress.kubernetes.io/managed-by": manager}}})
    }

    #[test]
    fn ends_of_ranges_are_not_given() {
        let has = |cidr: &str, address: &str| has(&range("r", cidr, false), address.parse().unwrap());
        assert!(has("10.98.0.0/24", "10.98.0.1") && has("10.98.0.0/24", "10.98.0.254"));
        assert!(!has("10.98.0.0/24", "10.98.0.0") && !has("10.98.0.0/24", "10.98.0.255"));
        assert!(has("fd00:98::/120", "fd00:98::ff") && !has("fd00:98::/120", "fd00:98::"));
        assert!(!has("10.98.0.0/24", "fd00:98::1") && !has("10.98.0.4/32", "10.98.0.4"));
        assert!(has("::/0", "fd00::1"));
    }

    #[test]
    fn a_range_is_kept_by_addresses_of_services_that_no_heir_has() {
        let kept = |others: Vec<Value>, address: Value, heirs| {
            let mut all = vec![range("r", "10.98.0.0/24", true)];
            all.extend(others);
            let ranges = Ranges { all, addresses: vec![address] };
            ranges.keeper(&ranges.all[0], heirs).is_some()
        };
        let own = || address("10.98.0.2", "ipallocator.k8s.io");
        assert!(kept(vec![], own(), Heirs::Any));
        assert!(!kept(vec![], address("10.98.0.2", "example.com"), Heirs::Any));
        assert!(!kept(vec![], address("10.99.0.2", "ipallocator.k8s.io"), Heirs::Any));
        assert!(!kept(vec![range("o", "10.98.0.0/25", false)], own(), Heirs::Open));
        assert!(!kept(vec![range("o", "10.98.0.0/16", false)], own(), Heirs::Open));
        let leaving = || vec![range("o", "10.98.0.0/25", true)];
        assert!(kept(leaving(), own(), Heirs::Open));
        assert!(!kept(leaving(), own(), Heirs::Any));
    }

    #[test]
    fn a_range_that_was_let_go_needs_no_finalizer_while_another_one_is_kept() {
        let settled = |finalizers: [Value; 2]| {
            let mut all = vec![range("r", "10.98.0.0/24", true), range("o", "10.98.0.0/24", true)];
            for (range, finalizers) in all.iter_mut().zip(finalizers) {
                range["metadata"]["finalizers"] = finalizers;
                let terminating = json!({"type": "Ready", "status": "False", "reason": "Terminating", "message": KEPT});
                range["status"]["conditions"] = json!([terminating]);
            }
            let ranges = Ranges { all, addresses: vec![address("10.98.0.2", "ipallocator.k8s.io")] };
            ranges.is_settled(&ranges.all[0], Heirs::Open)
        };
        let (kept, others) = (|| json!([FINALIZER]), || json!(["example.com/e2e"]));
        assert!(settled([kept(), kept()]) && settled([others(), kept()]) && settled([kept(), others()]));
        assert!(!settled([others(), others()]), "the address is in no range that stays");
    }

    #[test]
    fn the_real_controller_overlooks_what_is_not_settled_long_after_its_deletion() {
        let mut deleted = range("r", "10.98.0.0/24", true);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        deleted["metadata"]["finalizers"] = json!([FINALIZER]);
        let mut ranges = Ranges { all: vec![deleted, range("o", "10.99.0.0/24", false)], addresses: vec![] };
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        assert_eq!(ranges.overlooked(at("2026-01-02T03:04:15Z")), [""; 0]);
        assert_eq!(ranges.overlooked(at("2026-01-02T03:04:25Z")), ["r"]);
        ranges.all[0]["metadata"]["finalizers"] = json!(["example.com/e2e"]);
        assert_eq!(ranges.overlooked(at("2026-01-02T03:04:25Z")), [""; 0]);
    }

    #[test]
    fn deleted_ranges_share_what_they_have_in_the_same_words() {
        let shared = |others: Vec<Value>| {
            let mut all = vec![range("r", "10.98.0.0/24", true)];
            all.extend(others);
            Ranges { all, addresses: vec![] }.is_shared([10, 98, 0, 9].into())
        };
        assert!(shared(vec![range("o", "10.98.0.0/24", true)]));
        assert!(!shared(vec![]) && !shared(vec![range("o", "10.98.0.0/25", true)]));
        assert!(!shared(vec![range("o", "10.98.0.0/24", true), range("p", "10.98.0.0/16", false)]), "one is open");
    }
}
