//! `default/kubernetes`: the Endpoints and the `EndpointSlice` by which Pods find the API servers.
//!
//! Where servers share a store, each keeps a Lease with its address; whose Lease has not changed for a while is taken out by the
//! others. How long that is, each measures with its own clock from when it saw the last change, so clocks need not agree. A server
//! that ends takes itself out. All write the same, from the same Leases, and a write that lost a race is done again at the next
//! turn.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::Object;
use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Range, Store};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::hand::{Hand, Refused};
use super::place::{Place, referred};
use crate::front::Shutdown;
use crate::machinery::Machinery;

/// How often a server renews its Lease and looks after the addresses.
const TURN: Duration = Duration::from_secs(10);

/// How long a Lease counts after its last change.
const LIFE: Duration = Duration::from_secs(15);

/// When a Lease that nobody renews is removed.
const REMOVAL: Duration = Duration::from_mins(10);

/// How often one turn is tried again that lost a race.
const MOST_TRIES: usize = 8;

const ENDPOINTS: &str = "endpoints/default/kubernetes";
const SLICE: &str = "endpointslices.discovery.k8s.io/default/kubernetes";
const LEASES: &str = "leases.coordination.k8s.io/kube-system/";
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const ADDRESS: &str = "kubernetes.io/peer-advertise-address";

/// Publishes that address until the shutdown begins, and then takes it out. `shared` says that there may be other servers.
pub(crate) async fn publish(machinery: Arc<Machinery>, address: SocketAddr, shared: bool, shutdown: Shutdown) {
    if !can_be_published(address.ip()) {
        debug!(%address, "Pods could not reach this address, so it is not published as that of default/kubernetes");
        return;
    }
    let mut book = Book { hand: Hand::new(machinery, shutdown.clone()), address, shared, seen: HashMap::new() };
    loop {
        book.turn(true).await;
        tokio::select! {
            () = sleep(TURN) => {}
            () = shutdown.begun() => break,
        }
    }
    book.turn(false).await;
}

/// Whether an address means the same to everybody. Endpoints with another one are refused.
fn can_be_published(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || link_local)
}

/// The addresses of all servers, as one of them sees it.
struct Book {
    hand: Hand,
    address: SocketAddr,
    shared: bool,
    /// The revision of each Lease of another server, and when it was first seen at that.
    seen: HashMap<String, (String, Instant)>,
}

impl Book {
    /// Makes everything right, with this server or without it.
    async fn turn(&mut self, here: bool) {
        for _ in 0..MOST_TRIES {
            match self.set_right(here).await {
                Err(refused) if refused.is_lost_race() => {}
                Err(refused) => {
                    return warn!(why = refused.message, "the addresses of default/kubernetes are not right");
                }
                Ok(()) => return,
            }
        }
    }

    async fn set_right(&mut self, here: bool) -> Result<(), Refused> {
        let mut addresses = BTreeSet::new();
        if self.shared {
            self.keep_lease(here).await?;
            addresses.extend(self.others().await);
        }
        if here {
            addresses.insert(self.address);
        }
        self.write(ENDPOINTS, &endpoints(&addresses)).await?;
        self.write(SLICE, &slice(&addresses, self.address)).await
    }

    /// Renews or removes the Lease of this server.
    async fn keep_lease(&self, here: bool) -> Result<(), Refused> {
        let key = format!("{LEASES}{}", lease_name(self.address));
        let Some(place) = Place::of(&key) else { return Ok(()) };
        if here {
            let renewed = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
            return self.write(&key, &lease(self.address, &renewed)).await;
        }
        match self.hand.delete(&place, &json!({}), "left").await {
            Err(refused) if !refused.is_lost_race() => Err(refused),
            _ => Ok(()),
        }
    }

    /// The addresses of the other servers that live. Leases of those that are long gone are removed.
    async fn others(&mut self) -> Vec<SocketAddr> {
        let own = lease_name(self.address);
        let (now, mut living, mut present) = (Instant::now(), Vec::new(), HashMap::new());
        for lease in leases(self.hand.store()).await {
            let name = lease.name().to_owned();
            let address = lease.text(&["metadata", "annotations", ADDRESS]).parse::<SocketAddr>();
            let Ok(address) = address else { continue };
            if name == own {
                continue;
            }
            let revision = lease.resource_version().to_owned();
            let since = unchanged_since(self.seen.get(&name), &revision, now);
            if now - since < LIFE {
                living.push(address);
            } else if now - since > REMOVAL
                && let Some(place) = Place::of(&format!("{LEASES}{name}"))
            {
                let same = json!({"preconditions": {"resourceVersion": revision, "uid": lease.uid()}});
                // If it was renewed after all, that is seen at the next turn.
                let _ = self.hand.delete(&place, &same, "left").await;
            }
            present.insert(name, (revision, since));
        }
        self.seen = present;
        living
    }

    /// Makes an object what it should be, if it is not: its labels and annotations, and everything but metadata.
    async fn write(&self, key: &str, wanted: &Value) -> Result<(), Refused> {
        let Some(place) = Place::of(key) else { return Ok(()) };
        let Some(entry) = self.hand.store().get(key) else {
            let (version, kind) = (wanted["apiVersion"].as_str(), wanted["kind"].as_str());
            let Some(resource) = referred(version.unwrap_or_default(), kind.unwrap_or_default()) else { return Ok(()) };
            return self.hand.create(resource, &place.namespace, wanted).await;
        };
        let present = Object::parse(&entry.value).unwrap_or_default();
        if is_of_another_family(&present, wanted) {
            // That cannot change, so another takes its place; at the next try, if somebody else is faster.
            let same = json!({"uid": present.uid(), "resourceVersion": entry.revision.to_string()});
            self.hand.delete(&place, &json!({"preconditions": same}), "left").await?;
            return self.hand.create(place.resource, &place.namespace, wanted).await;
        }
        let Some(mut changed) = changed(&present, wanted) else { return Ok(()) };
        changed.set(&["metadata", "resourceVersion"], json!(entry.revision.to_string()));
        self.hand.replace(&place, "", &changed.into_value()).await
    }
}

/// Since when a Lease is at that revision, as far as was seen.
fn unchanged_since(seen: Option<&(String, Instant)>, revision: &str, now: Instant) -> Instant {
    match seen {
        Some((known, since)) if known == revision => *since,
        _ => now,
    }
}

/// The Leases of all servers.
async fn leases(store: &Store) -> Vec<Object> {
    let range = Range { prefix: LEASES, ..Range::default() };
    let Ok(page) = store.range(range).await else { return Vec::new() };
    let read = page.entries.iter().filter_map(|entry| Object::parse(&entry.value).ok());
    read.filter(|lease| !lease.text(&["metadata", "labels", IDENTITY]).is_empty()).collect()
}

/// Whether a slice has addresses of another sort than it should.
fn is_of_another_family(present: &Object, wanted: &Value) -> bool {
    wanted["addressType"].as_str().is_some_and(|family| present.text(&["addressType"]) != family)
}

/// What is there, with what is wanted in it; nothing if it is all there already.
fn changed(present: &Object, wanted: &Value) -> Option<Object> {
    let mut changed = present.clone();
    for (name, value) in wanted.as_object().into_iter().flatten() {
        if name != "metadata" {
            changed.set(&[name], value.clone());
            continue;
        }
        for part in ["labels", "annotations"] {
            for (key, value) in wanted["metadata"][part].as_object().into_iter().flatten() {
                changed.set(&["metadata", part, key], value.clone());
            }
        }
    }
    if wanted.get("subsets").is_some_and(Value::is_null) {
        changed.remove(&["subsets"]);
    }
    (changed != *present).then_some(changed)
}

fn lease_name(address: SocketAddr) -> String {
    let ip = address.ip().to_string().replace([':', '.'], "-");
    format!("apiserver-{}-{}", ip.trim_matches('-'), address.port())
}

fn lease(address: SocketAddr, renewed: &str) -> Value {
    let name = lease_name(address);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": "kube-system",
            "labels": {IDENTITY: "cadastre"}, "annotations": {ADDRESS: address.to_string()},
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LIFE.as_secs(), "renewTime": renewed},
    })
}

fn endpoints(addresses: &BTreeSet<SocketAddr>) -> Value {
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": null,
    });
    let ports: BTreeSet<u16> = addresses.iter().map(SocketAddr::port).collect();
    let subset = |port: &u16| {
        let same = addresses.iter().filter(|address| address.port() == *port);
        let addresses: Vec<Value> = same.map(|address| json!({"ip": address.ip().to_string()})).collect();
        json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
    };
    if !ports.is_empty() {
        endpoints["subsets"] = ports.iter().map(subset).collect();
    }
    endpoints
}

/// A slice has one family and one list of ports: those of the first address, which is the same to all servers.
fn slice(addresses: &BTreeSet<SocketAddr>, own: SocketAddr) -> Value {
    let first = addresses.first().copied().unwrap_or(own);
    let alike = addresses.iter().filter(|one| one.is_ipv4() == first.is_ipv4() && one.port() == first.port());
    let ready = |one: &SocketAddr| json!({"addresses": [one.ip().to_string()], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": if first.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": alike.map(ready).collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": first.port(), "protocol": "TCP"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_mean_the_same_everywhere_are_published() {
        for (address, published) in
            [("10.0.0.1", true), ("2001:db8::1", true), ("127.0.0.1", false), ("::1", false), ("0.0.0.0", false)]
        {
            assert_eq!(can_be_published(address.parse().unwrap()), published, "{address}");
        }
    }

    #[test]
    fn a_lease_counts_from_its_last_change_and_first_from_when_it_was_seen() {
        let begun = Instant::now();
        let later = begun + LIFE;
        let seen = ("5".to_owned(), begun);
        assert_eq!(unchanged_since(None, "5", later), later);
        assert_eq!(unchanged_since(Some(&seen), "6", later), later);
        assert_eq!(unchanged_since(Some(&seen), "5", later), begun);
    }

    #[test]
    fn what_others_added_stays_and_what_is_right_is_left_alone() {
        let wanted = endpoints(&BTreeSet::from(["10.0.0.1:6443".parse().unwrap()]));
        let mut present = wanted.clone();
        present["metadata"]["labels"]["mine"] = json!("yes");
        let present = Object::from_value(present).unwrap();
        assert_eq!(changed(&present, &wanted), None);
        let fewer = changed(&present, &endpoints(&BTreeSet::new())).unwrap();
        assert_eq!(fewer.at(&["subsets"]), None);
        assert_eq!(fewer.text(&["metadata", "labels", "mine"]), "yes");
    }

    #[test]
    fn servers_on_other_ports_have_a_subset_of_their_own() {
        let all: BTreeSet<SocketAddr> =
            ["10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:443"].map(|one| one.parse().unwrap()).into();
        let subsets = endpoints(&all)["subsets"].clone();
        let ports: Vec<&Value> = subsets.as_array().unwrap().iter().map(|one| &one["ports"][0]["port"]).collect();
        assert_eq!(ports, [&json!(443), &json!(6443)]);
        let slice = slice(&all, "10.0.0.3:443".parse().unwrap());
        assert_eq!((slice["endpoints"].as_array().unwrap().len(), &slice["ports"][0]["port"]), (2, &json!(6443)));
    }

    #[test]
    fn the_name_of_a_lease_is_a_name() {
        for (address, name) in
            [("10.0.0.1:6443", "apiserver-10-0-0-1-6443"), ("[fd00::1]:6443", "apiserver-fd00--1-6443")]
        {
            assert_eq!(lease_name(address.parse().unwrap()), name);
        }
    }
}
