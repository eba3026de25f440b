//! Who has what: what is written of it, held against what Services say.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::e2e::client::{Client, Reply};

const SERVICES: &str = "/api/v1/services";
pub(super) const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const NODE_PORTS: &str = "/apis/ipam.cadastre.dev/v1alpha1/nodeports";
pub(super) const MANAGER: &str = "ipaddress.kubernetes.io/managed-by";
/// Who looks after the addresses of Services; the others were made by hand.
pub(super) const OWN: &str = "ipallocator.k8s.io";

/// The Services of a server and all addresses that are written down there, at one time. What is asked of it does not change while the
/// server goes on to repair what it has.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) services: Vec<Value>,
    pub(super) addresses: Vec<Value>,
}

impl Held {
    /// What is written of an address, if there is something.
    fn written(&self, address: IpAddr) -> Option<&Value> {
        self.addresses.iter().find(|object| own_address(object) == Some(address))
    }

    /// The Services that have an address, by what they say.
    fn holders(&self, address: IpAddr) -> impl Iterator<Item = &Value> {
        self.services.iter().filter(move |service| {
            service["spec"]["type"] != "ExternalName" && addresses(&service["spec"]).any(|own| own == address)
        })
    }

    /// The addresses that are written down as those of Services that do not have them. No two Services of the suite have one name, also
    /// not in different namespaces. What is marked waits for somebody's finalizer.
    pub(super) fn leaked(&self) -> impl Iterator<Item = IpAddr> {
        let counts = |object: &&Value| is_services(object) && object["metadata"]["deletionTimestamp"].is_null();
        let written = self.addresses.iter().filter(counts).filter_map(|object| Some((own_address(object)?, object)));
        let is_leaked = |(address, object): &(IpAddr, &Value)| {
            let parent = &object["spec"]["parentRef"]["name"];
            self.holders(*address).all(|service| service["metadata"]["name"] != *parent)
        };
        written.filter(is_leaked).map(|(address, _)| address)
    }

    /// Whether a Service has an address of which it is not written that it has it.
    pub(super) fn has_lost(&self, address: IpAddr) -> bool {
        let written = self.written(address).filter(|object| is_services(object));
        let parent = written.map_or(&Value::Null, |object| &object["spec"]["parentRef"]["name"]);
        self.holders(address).any(|service| service["metadata"]["name"] != *parent)
    }

    /// The Services that have an address of which that is not written.
    pub(super) fn bereft(&self) -> impl Iterator<Item = &Value> {
        let has = |service: &&Value| service["spec"]["type"] != "ExternalName";
        self.services.iter().filter(has).filter(|service| addresses(&service["spec"]).any(|own| self.has_lost(own)))
    }
}

/// The address that an `IPAddress` stands for.
fn own_address(object: &Value) -> Option<IpAddr> {
    object["metadata"]["name"].as_str()?.parse().ok()
}

/// What is wrong, each thing in words.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// What two Services have.
    duplicates: Vec<String>,
    /// What is written of a Service that is not there.
    orphans: Vec<String>,
    /// What is written of a Service that does not have it.
    leaks: Vec<String>,
    /// What a Service has and is not written to be its own.
    unwritten: Vec<String>,
}

impl Faults {
    /// Compares what is written, by the uid of the Service that has it, with what Services have, by their uids.
    pub(super) fn between(written: &BTreeMap<String, String>, services: &BTreeMap<String, Vec<String>>) -> Self {
        let (mut faults, mut holders) = (Self::default(), BTreeMap::new());
        for (uid, what) in services.iter().flat_map(|(uid, all)| all.iter().map(move |what| (uid, what))) {
            match holders.insert(what, uid) {
                Some(other) if other != uid => faults.duplicates.push(format!("{what} of {uid} and {other}")),
                _ => {}
            }
            match written.get(what) {
                Some(own) if own == uid => {}
                other => faults.unwritten.push(format!("{what} of {uid}, which is written to be of {other:?}")),
            }
        }
        for (what, uid) in written {
            match services.get(uid) {
                None => faults.orphans.push(format!("{what} of {uid}")),
                Some(all) if !all.contains(what) => faults.leaks.push(format!("{what} of {uid}")),
                Some(_) => {}
            }
        }
        faults
    }

    /// The faults that one server has.
    pub(super) fn of(client: &mut Client) -> Result<Self> {
        let mut services = BTreeMap::new();
        for service in items(client, SERVICES)? {
            services.insert(text(&service["metadata"]["uid"]), held(&service["spec"]));
        }
        Ok(Self::between(&written(client)?, &services))
    }

    /// Takes in those that were found at another time.
    pub(super) fn add(&mut self, other: Self) {
        self.duplicates.extend(other.duplicates);
        self.orphans.extend(other.orphans);
        self.leaks.extend(other.leaks);
        self.unwritten.extend(other.unwritten);
    }

    /// An error if there are any.
    pub(super) fn none(&self) -> Result<()> {
        let all = [&self.duplicates, &self.orphans, &self.leaks, &self.unwritten];
        ensure!(all.iter().all(|faults| faults.is_empty()), "{self}: {self:?}");
        Ok(())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { duplicates, orphans, leaks, unwritten } = self;
        let [duplicates, orphans, leaks, unwritten] = [duplicates, orphans, leaks, unwritten].map(Vec::len);
        write!(f, "{duplicates} duplicates, {orphans} orphans, {leaks} leaks, {unwritten} not written")
    }
}

/// What is written of who has what: addresses and ports, and the uid of the Service that has each. What is marked waits for somebody,
/// and nobody has it.
pub(super) fn written(client: &mut Client) -> Result<BTreeMap<String, String>> {
    let mut written = BTreeMap::new();
    let counts = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
    for object in items(client, ADDRESSES)?.iter().filter(|object| counts(object) && is_services(object)) {
        let uid = object["metadata"]["annotations"]["ipam.cadastre.dev/parent-uid"].clone();
        written.insert(text(&object["metadata"]["name"]), text(&uid));
    }
    for object in items(client, NODE_PORTS)?.iter().filter(|object| counts(object)) {
        written.insert(text(&object["metadata"]["name"]), text(&object["spec"]["parentRef"]["uid"]));
    }
    Ok(written)
}

/// Whether an `IPAddress` is one of those that Services are given.
pub(super) fn is_services(address: &Value) -> bool {
    address["metadata"]["labels"][MANAGER] == OWN
}

/// What a Service has, by what it says.
pub(super) fn held(spec: &Value) -> Vec<String> {
    let kind = text(&spec["type"]);
    let mut held = Vec::new();
    if kind != "ExternalName" {
        held.extend(addresses(spec).map(|address| address.to_string()));
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        held.extend(node_ports(spec).map(|port| port.to_string()));
    }
    held.sort_unstable();
    held.dedup();
    held
}

/// The ports of the nodes that a Service names, whether or not it has them.
pub(super) fn node_ports(spec: &Value) -> impl Iterator<Item = i64> {
    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_i64).filter(|port| *port != 0)
}

/// The addresses that a Service names.
pub(super) fn addresses(spec: &Value) -> impl Iterator<Item = IpAddr> {
    let all = spec["clusterIPs"].as_array().into_iter().flatten();
    all.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok())
}

/// The objects at a path.
pub(super) fn items(client: &mut Client, path: &str) -> Result<Vec<Value>> {
    match client.send("GET", path, None) {
        Reply::Answer(200, mut list) => match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => bail!("{path} has the items {other}"),
        },
        other => Err(anyhow::anyhow!("{other:?}")).with_context(|| format!("{path} is no list")),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn counted(written: &[(&str, &str)], services: &[(&str, &[&str])]) -> String {
        let written = written.iter().map(|(what, uid)| ((*what).to_owned(), (*uid).to_owned())).collect();
        let services =
            services.iter().map(|(uid, all)| ((*uid).to_owned(), all.iter().map(|what| (*what).to_owned()).collect()));
        Faults::between(&written, &services.collect()).to_string()
    }

    #[test]
    fn what_is_leaked_and_what_is_lost_follow_from_what_services_have() {
        let service = |name: &str, kind: &str, address: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "clusterIPs": [address]}});
        let address = |name: &str, manager: &str, parent: &str| {
            let metadata = json!({"name": name, "labels": {MANAGER: manager}});
            json!({"metadata": metadata, "spec": {"parentRef": {"name": parent}}})
        };
        let services = vec![
            service("a", "ClusterIP", "10.96.0.2"),
            service("b", "ClusterIP", "10.96.0.3"),
            service("c", "ExternalName", "10.96.0.4"),
            service("d", "ClusterIP", "FD00:96::0A"),
            service("e", "ClusterIP", "10.96.0.6"),
        ];
        let addresses = vec![
            address("10.96.0.2", OWN, "a"),
            address("10.96.0.4", OWN, "c"),
            address("10.96.0.5", "example.com", "a"),
            address("fd00:96::a", OWN, "d"),
            address("10.96.0.6", "example.com", "e"),
        ];
        let held = Held { services, addresses };
        assert_eq!(held.leaked().collect::<Vec<_>>(), [IpAddr::from([10, 96, 0, 4])]);
        let bereft: Vec<_> = held.bereft().map(|service| text(&service["metadata"]["name"])).collect();
        assert_eq!(bereft, ["b", "e"]);
    }

    #[test]
    fn what_is_written_and_had_once_is_no_fault() {
        let none = "0 duplicates, 0 orphans, 0 leaks, 0 not written";
        assert_eq!(counted(&[], &[("a", &[])]), none);
        assert_eq!(counted(&[("10.0.0.1", "a"), ("30000", "b")], &[("a", &["10.0.0.1"]), ("b", &["30000"])]), none);
    }

    #[test]
    fn each_sort_of_fault_is_counted() {
        let one = counted(&[("1", "a")], &[("a", &["1"]), ("b", &["1"])]);
        assert_eq!(one, "1 duplicates, 0 orphans, 0 leaks, 1 not written");
        assert_eq!(counted(&[("1", "gone")], &[("a", &[])]), "0 duplicates, 1 orphans, 0 leaks, 0 not written");
        assert_eq!(counted(&[("1", "a")], &[("a", &[])]), "0 duplicates, 0 orphans, 1 leaks, 0 not written");
        assert_eq!(counted(&[], &[("a", &["1"])]), "0 duplicates, 0 orphans, 0 leaks, 1 not written");
    }
}
