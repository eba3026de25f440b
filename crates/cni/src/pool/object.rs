//! The objects of a network that all nodes share, as whereabouts has them: `IPPool`s and `OverlappingRangeIPReservation`s. What they are
//! called, what they say, and the patches that change one entry and nothing else. Pure.
//!
//! An entry is found by its offset from the first address of the range, in decimal. Patches test the one entry that they change and not
//! the revision of the object, so those that change different entries never stand in each other's way.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde_json::{Value, json};
use space::Cidr;

use crate::config::{Span, address, number};
use crate::journal::Ip;

/// The API that the objects are in.
pub const API_VERSION: &str = "whereabouts.cni.cncf.io/v1alpha1";

/// Who has an address: an interface of a container, which is a pod's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The container.
    pub container: &'a str,
    /// The interface in it.
    pub ifname: &'a str,
    /// The pod, `namespace/name`.
    pub pod: &'a str,
}

/// Where the objects of a network are. Records of the journal have it as text, `namespace/network`: the configuration may say something
/// else by the time that an entry is to be taken out, and the agent knows no configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// The namespace.
    pub namespace: String,
    /// The name of the network in their names, if it has one there.
    pub network: Option<String>,
}

impl Home {
    /// Reads the text; none if it does not say where.
    pub fn read(text: &str) -> Option<Self> {
        let (namespace, network) = text.split_once('/')?;
        let network = Some(network.to_owned()).filter(|network| !network.is_empty());
        Some(Self { namespace: namespace.to_owned(), network })
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.network.as_deref().unwrap_or_default())
    }
}

/// An entry of a pool. Those of old may not name the interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The container.
    pub id: String,
    /// The pod, `namespace/name`.
    pub podref: String,
    /// The interface.
    pub ifname: String,
}

impl Entry {
    /// Whether it is of this attachment.
    pub fn is_of(&self, container: &str, ifname: &str) -> bool {
        self.id == container && (self.ifname == ifname || self.ifname.is_empty())
    }
}

/// A pool as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The range that offsets are in.
    pub range: Cidr,
    /// The entries by their offsets.
    pub entries: BTreeMap<u128, Entry>,
}

impl Pool {
    /// One with nobody in it.
    pub fn empty(range: Cidr) -> Self {
        Self { range, entries: BTreeMap::new() }
    }

    /// Reads a pool that is to be that of `range`. What is at an offset that the range does not have says nothing.
    pub fn read(tree: &Value, range: Cidr) -> Result<Self, String> {
        let said = tree["spec"]["range"].as_str().unwrap_or_default();
        // Some wrote the range as a person had written it, with bits of a host.
        if Cidr::tolerant(said).ok().map(|read| read.value) != Some(range) {
            return Err(format!("spec.range is \"{said}\", and not {range}"));
        }
        let span = Span::of(range);
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let entries = tree["spec"]["allocations"].as_object().into_iter().flatten();
        let entries = entries.filter_map(|(offset, entry)| {
            let offset = offset.parse().ok().filter(|offset| *offset <= span.last - span.first)?;
            let [id, podref, ifname] = ["id", "podref", "ifname"].map(|key| text(entry, key));
            Some((offset, Entry { id, podref, ifname }))
        });
        Ok(Self { range, entries: entries.collect() })
    }

    /// The entries with their addresses.
    pub fn held(&self) -> impl Iterator<Item = (Ip, &Entry)> {
        self.entries.iter().map(|(offset, entry)| (self.at(*offset), entry))
    }

    /// The address at an offset, with the length of the range.
    pub fn at(&self, offset: u128) -> Ip {
        let first = Span::of(self.range).first;
        Ip { address: address(self.range.family(), first + offset), length: self.range.length() }
    }

    /// The entry of an address.
    pub fn entry(&self, ip: IpAddr) -> Option<&Entry> {
        self.entries.get(&offset(self.range, ip)?)
    }
}

/// Where an address is in a range.
pub fn offset(range: Cidr, ip: IpAddr) -> Option<u128> {
    let (family, at) = number(ip);
    let span = Span::of(range);
    (family == range.family() && span.has(at)).then(|| at - span.first)
}

/// The name of the pool of a range.
pub fn pool_name(network: Option<&str>, range: Cidr) -> String {
    named(network, &range.to_string().replace([':', '/'], "-"))
}

/// The name of the reservation of an address.
pub fn reservation_name(network: Option<&str>, ip: IpAddr) -> String {
    let mut text = ip.to_string();
    if text.ends_with(':') {
        text.push('0');
    }
    named(network, &text.replace(':', "-"))
}

/// The address that a reservation of this network is for, by its name.
pub fn reserved_address(network: Option<&str>, name: &str) -> Option<IpAddr> {
    let name = match network {
        Some(network) => name.strip_prefix(network)?.strip_prefix('-')?,
        None => name,
    };
    let text = if name.contains('.') { name.to_owned() } else { name.replace('-', ":") };
    // A zero may stand before two colons, and behind them: it is one of those that they stand for.
    let text = text.strip_prefix('0').filter(|rest| rest.starts_with("::")).unwrap_or(&text);
    let text = text.strip_suffix('0').filter(|rest| rest.ends_with("::")).unwrap_or(text);
    text.parse().ok()
}

/// A name cannot begin with a hyphen. whereabouts makes such ones of addresses that begin with `::`, and no server takes them; a zero
/// before it is the same address.
fn named(network: Option<&str>, text: &str) -> String {
    match network {
        Some(network) => format!("{network}-{text}"),
        None if text.starts_with('-') => format!("0{text}"),
        None => text.to_owned(),
    }
}

/// A pool with nobody in it, as it is created.
pub fn new_pool(name: &str, namespace: &str, range: Cidr) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "IPPool", "metadata": {"name": name, "namespace": namespace},
        "spec": {"range": range.to_string(), "allocations": {}},
    })
}

/// A reservation, as it is created. whereabouts leaves `containerid` out; it says which of two sandboxes of a pod it is for.
pub fn new_reservation(name: &str, namespace: &str, holder: Holder<'_>) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podref": holder.pod, "ifname": holder.ifname, "containerid": holder.container},
    })
}

/// The patch that takes an offset which nobody has.
pub fn take(offset: u128, holder: Holder<'_>) -> Value {
    let path = format!("/spec/allocations/{offset}");
    let entry = json!({"id": holder.container, "podref": holder.pod, "ifname": holder.ifname});
    json!([{"op": "test", "path": path, "value": null}, {"op": "add", "path": path, "value": entry}])
}

/// The patch that takes over the entry of another sandbox of the same pod.
pub fn take_over(offset: u128, from: &Entry, holder: Holder<'_>) -> Value {
    let path = format!("/spec/allocations/{offset}");
    json!([
        {"op": "test", "path": format!("{path}/id"), "value": from.id},
        {"op": "test", "path": format!("{path}/podref"), "value": from.podref},
        {"op": "replace", "path": format!("{path}/id"), "value": holder.container},
    ])
}

/// The patch that takes an entry out, if it still is that of `container`.
pub fn remove(offset: u128, container: &str) -> Value {
    let path = format!("/spec/allocations/{offset}");
    json!([{"op": "test", "path": format!("{path}/id"), "value": container}, {"op": "remove", "path": path}])
}

/// What a reservation is to an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Its own.
    Mine,
    /// That of another sandbox of its pod, or of one that is not said.
    MyPods,
    /// Somebody else's.
    Foreign,
}

/// Whose a reservation is.
pub fn reserved(tree: &Value, holder: Holder<'_>) -> Reserved {
    let text = |key: &str| tree["spec"][key].as_str().unwrap_or_default();
    let is_interface = text("ifname") == holder.ifname || text("ifname").is_empty();
    if text("podref") != holder.pod || !is_interface {
        Reserved::Foreign
    } else if text("containerid") == holder.container {
        Reserved::Mine
    } else {
        Reserved::MyPods
    }
}

/// The patch that makes a reservation of the same pod that of `container`, if it is as it was read.
pub fn reserve_over(tree: &Value, container: &str) -> Value {
    json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": tree["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/spec/containerid", "value": container},
    ])
}

/// What deletes a reservation, if it is as it was read.
pub fn only_this(tree: &Value) -> Value {
    let metadata = &tree["metadata"];
    json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::strict(text).unwrap()
    }

    const HOLDER: Holder<'_> = Holder { container: "c1", ifname: "net1", pod: "dev/a" };

    #[test]
    fn objects_have_the_names_that_whereabouts_gives_them() {
        for (network, range, name) in [
            (None, "10.0.0.0/8", "10.0.0.0-8"),
            (None, "fd00::/64", "fd00---64"),
            (Some("net"), "10.0.0.0/8", "net-10.0.0.0-8"),
            (Some("net"), "::/126", "net----126"),
            (None, "fd00:0:0:10::/64", "fd00-0-0-10---64"),
            // Here whereabouts has none.
            (None, "::/126", "0---126"),
        ] {
            assert_eq!(pool_name(network, cidr(range)), name);
        }
        for (network, ip, name) in [
            (None, "10.0.0.1", "10.0.0.1"),
            (None, "fd00::1", "fd00--1"),
            (None, "fd00::", "fd00--0"),
            (Some("net"), "fd00::1", "net-fd00--1"),
            (None, "::1", "0--1"),
            (None, "::", "0--0"),
        ] {
            assert_eq!(reservation_name(network, ip.parse().unwrap()), name);
            assert_eq!(reserved_address(network, name), Some(ip.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn where_objects_are_reads_back_as_it_was_written() {
        let [named, plain] = [Some("net".to_owned()), None].map(|network| Home { namespace: "pools".into(), network });
        assert_eq!((named.to_string(), plain.to_string()), ("pools/net".to_owned(), "pools/".to_owned()));
        for home in [named, plain] {
            assert_eq!(Home::read(&home.to_string()), Some(home));
        }
        assert_eq!(Home::read(""), None);
    }

    #[test]
    fn offsets_are_exact_at_both_ends_of_every_range() {
        for (range, ip, at) in [
            ("10.0.0.0/24", "10.0.0.255", Some(255)),
            ("10.0.0.0/24", "10.0.1.0", None),
            ("10.0.0.0/24", "fd00::1", None),
            ("fd00::/64", "fd00::ffff:ffff:ffff:ffff", Some(u128::from(u64::MAX))),
            ("fd00::/64", "fd00::8000:0:0:0", Some(1 << 63)),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(u128::MAX)),
        ] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(offset(cidr(range), ip), at, "{range} {ip}");
            if let Some(at) = at {
                assert_eq!(Pool::empty(cidr(range)).at(at).address, ip);
            }
        }
    }

    #[test]
    fn a_pool_is_read_as_whereabouts_writes_it() {
        let tree = json!({"spec": {"range": "fd00::/64", "allocations": {
            "1": {"id": "c1", "podref": "dev/a", "ifname": "net1"}, "2": {"id": "c2", "podref": "dev/b"},
            "18446744073709551615": {"id": "c3", "podref": "dev/c", "ifname": "net1"},
            "18446744073709551616": {"id": "x"}, "-1": {"id": "x"}, "y": {"id": "x"},
        }}});
        let pool = Pool::read(&tree, cidr("fd00::/64")).unwrap();
        assert_eq!(pool.entries.keys().copied().collect::<Vec<_>>(), [1, 2, u128::from(u64::MAX)]);
        let entry = |ip: &str| pool.entry(ip.parse().unwrap()).unwrap();
        assert!(entry("fd00::1").is_of("c1", "net1") && !entry("fd00::1").is_of("c1", "net2"));
        assert!(entry("fd00::2").is_of("c2", "net9"), "one of old names no interface");
        assert_eq!(
            Pool::read(&tree, cidr("fd00::/65")),
            Err("spec.range is \"fd00::/64\", and not fd00::/65".to_owned())
        );
        assert!(Pool::read(&json!({}), cidr("fd00::/65")).is_err());
        let bare = json!({"spec": {"range": "10.0.0.9/24"}});
        assert_eq!(Pool::read(&bare, cidr("10.0.0.0/24")), Ok(Pool::empty(cidr("10.0.0.0/24"))));
    }

    #[test]
    fn patches_test_the_entry_that_they_change_and_nothing_else() {
        let path = |patch: &Value| -> Vec<String> {
            patch.as_array().unwrap().iter().map(|op| op["path"].as_str().unwrap().to_owned()).collect()
        };
        let taken = take(u128::MAX, HOLDER);
        assert_eq!(taken[0]["value"], Value::Null);
        assert_eq!(taken[1]["value"], json!({"id": "c1", "podref": "dev/a", "ifname": "net1"}));
        let at = format!("/spec/allocations/{}", u128::MAX);
        assert_eq!(path(&taken), [at.clone(), at]);
        let from = Entry { id: "c0".into(), podref: "dev/a".into(), ifname: "net1".into() };
        let over = take_over(5, &from, HOLDER);
        assert_eq!((&over[0]["value"], &over[2]["value"]), (&json!("c0"), &json!("c1")));
        assert_eq!(path(&remove(5, "c1")), ["/spec/allocations/5/id", "/spec/allocations/5"]);
    }

    #[test]
    fn a_reservation_is_the_attachments_its_pods_or_foreign() {
        for (spec, whose) in [
            (json!({"podref": "dev/a", "ifname": "net1", "containerid": "c1"}), Reserved::Mine),
            (json!({"podref": "dev/a", "ifname": "net1", "containerid": "c0"}), Reserved::MyPods),
            (json!({"podref": "dev/a", "ifname": "net1"}), Reserved::MyPods),
            (json!({"podref": "dev/a"}), Reserved::MyPods),
            (json!({"podref": "dev/a", "ifname": "net2"}), Reserved::Foreign),
            (json!({"podref": "dev/b", "ifname": "net1", "containerid": "c1"}), Reserved::Foreign),
            (json!({}), Reserved::Foreign),
        ] {
            assert_eq!(reserved(&json!({"spec": spec}), HOLDER), whose, "{spec}");
        }
    }
}
