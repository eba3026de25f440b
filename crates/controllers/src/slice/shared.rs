//! `SharedPool`: an `IPPool` of a range that all nodes share, and which of its addresses pods have. And which of them there are: they are
//! looked for and not followed, because one that many pods use changes all the time, and most are of ranges that nobody cuts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::slices::shared_pool_name;
use serde_json::{Map, Value};
use space::{Cidr, Moment, Prefix};

/// How long after the pools could not be listed it is tried again, in milliseconds.
const PAUSE: u64 = 1_000;
/// After how long it is looked again although nothing was said: a pool may be of a configuration that no definition has.
pub(super) const AGAIN: u64 = 300_000;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPool {
    /// Its name.
    pub name: String,
    /// The `network_name` of the networks that it is of, if they have one.
    pub network: Option<String>,
    /// The range.
    pub range: Cidr,
    /// The addresses that somebody has.
    pub held: Vec<Cidr>,
    /// The entries that say of which pod they are.
    pub entries: Vec<PodEntry>,
    /// Which containers nodes, by their labels, say that run there, as it is written.
    pub said: Vec<(String, String)>,
}

/// An entry of a pool that says of which pod it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodEntry {
    /// Where in the range.
    pub offset: u128,
    /// The address there.
    pub address: IpAddr,
    /// The container; empty if it does not say.
    pub id: String,
    /// The pod, `namespace/name`.
    pub podref: String,
}

impl PodEntry {
    /// Reads an entry; nothing if it is not plain which pod it is of, or where it is.
    fn read(range: Cidr, at: &str, entry: &Value) -> Option<Self> {
        let offset: u128 = at.parse().ok()?;
        let address = match address(range, offset)? {
            Cidr::V4(host) => IpAddr::V4(host.first().into()),
            Cidr::V6(host) => IpAddr::V6(host.first().into()),
        };
        let (id, podref) = (entry["id"].as_str().unwrap_or_default(), entry["podref"].as_str()?);
        let is_one = at == offset.to_string() && is_podref(podref);
        is_one.then(|| Self { offset, address, id: id.to_owned(), podref: podref.to_owned() })
    }
}

/// Whether that is plainly the name of a pod, `namespace/name`.
pub(super) fn is_podref(text: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-.".contains(&letter);
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(is_letter);
    text.split_once('/').is_some_and(|(namespace, name)| is_name(namespace) && is_name(name))
}

impl SharedPool {
    /// Reads an `IPPool` by its name, its range and its entries; nothing if it is not called like that of a whole range. What nodes say in it
    /// is for the caller to add.
    pub fn read(name: &str, range: &str, allocations: &Map<String, Value>) -> Option<Self> {
        let written = range;
        let range = Cidr::tolerant(written).ok()?.value;
        let network = Some(network(name, range, written)?).filter(|network| !network.is_empty());
        let held = allocations.keys().filter_map(|offset| address(range, offset.parse().ok()?));
        let entries = allocations.iter().filter_map(|(at, entry)| PodEntry::read(range, at, entry));
        Some(Self {
            name: name.to_owned(),
            network: network.map(str::to_owned),
            range,
            held: held.collect(),
            entries: entries.collect(),
            said: Vec::new(),
        })
    }
}

/// The network that is in the name of the pool of a range, or empty text; nothing if it is not the name of one. Some have written the
/// range as a person had, with bits of a host, there and in the name.
fn network<'a>(name: &'a str, range: Cidr, written: &str) -> Option<&'a str> {
    if name == shared_pool_name(None, range) {
        return Some("");
    }
    [range.to_string(), written.to_owned()].into_iter().find_map(|range| {
        let rest = name.strip_suffix(&range.replace([':', '/'], "-"))?;
        if rest.is_empty() { Some(rest) } else { rest.strip_suffix('-').filter(|network| !network.is_empty()) }
    })
}

/// An address alone.
pub(super) fn host(address: IpAddr) -> Cidr {
    match address {
        IpAddr::V4(address) => Prefix::host(u32::from(address)).into(),
        IpAddr::V6(address) => Prefix::host(u128::from(address)).into(),
    }
}

/// The address at an offset of a range, alone.
fn address(range: Cidr, offset: u128) -> Option<Cidr> {
    let address: Cidr = match range {
        Cidr::V4(range) => Prefix::host(range.first().checked_add(u32::try_from(offset).ok()?)?).into(),
        Cidr::V6(range) => Prefix::host(range.first().checked_add(offset)?).into(),
    };
    range.overlaps(&address).then_some(address)
}

/// Which shared pools there are, by their networks and ranges, and when it should be looked again.
#[derive(Debug, Default)]
pub(super) struct Survey {
    there: BTreeMap<String, (Option<String>, Cidr)>,
    /// Whether all are known that there were when something was last said that may need them.
    is_known: bool,
    due: Option<Moment>,
    /// Whether it is being looked, and whether that is too late for what was said since.
    under_way: Option<bool>,
}

impl Survey {
    /// Something was said that may need them: what was seen before does not do.
    pub(super) fn want(&mut self, at: Moment) {
        self.is_known = false;
        if let Some(is_late) = &mut self.under_way {
            *is_late = true;
        } else {
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(super) fn due_at(&self) -> Option<Moment> {
        self.due
    }

    /// Whether it should be looked now; it is, then.
    pub(super) fn begin(&mut self, now: Moment) -> bool {
        let begins = self.due.is_some_and(|due| due <= now);
        if begins {
            (self.due, self.under_way) = (None, Some(false));
        }
        begins
    }

    /// These are there, or it could not be seen. Whether more is known than before.
    pub(super) fn end(&mut self, pools: Option<&[SharedPool]>, now: Moment) -> bool {
        let is_late = self.under_way.take().unwrap_or(false);
        let after = |pause: u64| Some(Moment(now.0.saturating_add(pause)));
        let Some(pools) = pools else {
            self.due = after(PAUSE);
            return false;
        };
        let one = |pool: &SharedPool| (pool.name.clone(), (pool.network.clone(), pool.range));
        let there: BTreeMap<_, _> = pools.iter().map(one).collect();
        let is_news = (!self.is_known && !is_late) || self.there != there;
        self.there = there;
        self.is_known = !is_late;
        self.due = after(if is_late { 0 } else { AGAIN });
        is_news
    }

    /// Their names, with the networks in them, and their ranges.
    pub(super) fn there(&self) -> impl Iterator<Item = (&str, Option<&str>, Cidr)> {
        self.there.iter().map(|(name, (network, range))| (name.as_str(), network.as_deref(), *range))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(name: &str, range: &str, allocations: &Value) -> Option<SharedPool> {
        SharedPool::read(name, range, allocations.as_object().unwrap())
    }

    #[test]
    fn the_network_of_a_pool_is_in_its_name() {
        for (name, range, network) in [
            ("10.0.0.0-8", "10.0.0.0/8", Some(None)),
            ("net-10.0.0.0-8", "10.0.0.0/8", Some(Some("net"))),
            ("a-b-fd00---64", "fd00::/64", Some(Some("a-b"))),
            ("0---126", "::/126", Some(None)),
            ("net----126", "::/126", Some(Some("net"))),
            ("10.0.0.9-24", "10.0.0.9/24", Some(None)),
            ("net-10.0.0.9-24", "10.0.0.9/24", Some(Some("net"))),
            ("10.0.0.0-24", "10.0.0.9/24", Some(None)),
            ("10.0.0.0-16", "10.0.0.0/8", None),
            ("-10.0.0.0-8", "10.0.0.0/8", None),
            ("other", "10.0.0.0/8", None),
            ("other", "nonsense", None),
        ] {
            let found = read(name, range, &json!({})).map(|pool| pool.network);
            assert_eq!(found, network.map(|network| network.map(str::to_owned)), "{name} of {range}");
        }
    }

    #[test]
    fn what_is_at_an_offset_that_the_range_does_not_have_says_nothing() {
        let held = |name: &str, range: &str, allocations: Value| {
            let pool = read(name, range, &allocations).unwrap();
            pool.held.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let all = json!({"1": {}, "255": {}, "256": {}, "-1": {}, "x": {}});
        assert_eq!(held("10.0.0.0-24", "10.0.0.0/24", all), ["10.0.0.1/32", "10.0.0.255/32"]);
        let last = json!({"18446744073709551615": {}, "18446744073709551616": {}});
        assert_eq!(held("fd00---64", "fd00::/64", last), ["fd00::ffff:ffff:ffff:ffff/128"]);
    }

    #[test]
    fn an_entry_of_which_it_is_not_plain_whose_it_is_is_nobodys() {
        let entry = |id: &str, podref: &str| json!({"id": id, "podref": podref, "ifname": "net1"});
        let all = json!({
            "1": entry("c1", "dev/a"), "02": entry("c", "dev/a"), "3": entry("c", "a"), "4": entry("c", "dev/"),
            "5": entry("c", "dev/a/b"), "6": entry("c", "dev/a&x=y"), "7": {"podref": "dev/a"}, "8": {}, "9": null,
            "10": entry("", "dev/b.0"), "256": entry("c", "dev/a"),
        });
        let pool = read("10.0.0.0-24", "10.0.0.0/24", &all).unwrap();
        let shown: Vec<_> =
            pool.entries.iter().map(|one| format!("{} {} {}", one.address, one.id, one.podref)).collect();
        assert_eq!(shown, ["10.0.0.1 c1 dev/a", "10.0.0.10  dev/b.0", "10.0.0.7  dev/a"]);
    }

    #[test]
    fn what_was_said_while_it_was_looked_is_looked_for_again() {
        let mut survey = Survey::default();
        survey.want(Moment(5));
        assert!(!survey.begin(Moment(4)) && survey.begin(Moment(5)) && !survey.begin(Moment(5)));
        survey.want(Moment(9));
        assert!(!survey.end(Some(&[]), Moment(6)));
        assert!(!survey.is_known() && survey.begin(Moment(6)));
        assert!(!survey.end(None, Moment(7)));
        assert_eq!((survey.is_known(), survey.due_at()), (false, Some(Moment(7 + PAUSE))));
        assert!(survey.begin(Moment(7 + PAUSE)));
        assert!(survey.end(Some(&[]), Moment(7 + PAUSE)));
        assert_eq!((survey.is_known(), survey.due_at()), (true, Some(Moment(7 + PAUSE + AGAIN))));
        assert!(survey.begin(Moment(7 + PAUSE + AGAIN)) && survey.is_known(), "what is known serves meanwhile");
        assert!(!survey.end(Some(&[]), Moment(7 + PAUSE + AGAIN)));
    }
}
