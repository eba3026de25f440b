//! What every namespace has: the `ServiceAccount` `default`, and a `ConfigMap` with the authorities that the servers' certificates
//! are signed by.
//!
//! Servers on one etcd have an authority each. So the `ConfigMap` holds all of them: a server adds its own and leaves those of
//! others, or two servers would take turns in writing for ever.

use serde_json::{Value, json};
use store::Store;

use super::AUTHORITY;
use super::hand::{Hand, Refused};
use super::place::{Place, referred};
use super::seen::{Seen, whole};
use crate::access::pki::certificates;
use crate::registry::namespaces::PREFIX;

/// The most certificates that the `ConfigMap` holds.
const MOST_CERTIFICATES: usize = 16;

const DATA: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What is missing in a namespace.
#[derive(Debug, PartialEq)]
pub(super) enum Missing {
    Account,
    Authority(String),
    /// It is there, but not as it should be; this patch sets it right.
    Change(Value),
}

/// What is missing in a namespace that stays.
pub(super) fn missing(store: &Store, namespace: &str, authority: &str) -> Vec<Missing> {
    let mut missing = Vec::new();
    let stays =
        store.get(&format!("{PREFIX}/{namespace}")).is_some_and(|entry| !Seen::of(&entry.value).is_terminating());
    if !stays {
        return missing;
    }
    if store.get(&format!("serviceaccounts/{namespace}/default")).is_none() {
        missing.push(Missing::Account);
    }
    if authority.is_empty() {
        return missing;
    }
    let key = format!("configmaps/{namespace}{AUTHORITY}");
    match store.get(&key).zip(Place::of(&key)) {
        None => missing.push(Missing::Authority(bundle("", authority))),
        Some((entry, place)) => missing.extend(change(&whole(&place, &entry.value), authority).map(Missing::Change)),
    }
    missing
}

impl Missing {
    /// Makes it.
    pub(super) async fn make(self, hand: &Hand, namespace: &str) -> Result<(), Refused> {
        let (kind, object) = match self {
            Self::Account => ("ServiceAccount", json!({"metadata": {"name": "default"}})),
            Self::Authority(text) => {
                let name = AUTHORITY.trim_start_matches('/');
                (
                    "ConfigMap",
                    json!({
                        "metadata": {"name": name, "annotations": {DESCRIPTION: description()}}, "data": {DATA: text},
                    }),
                )
            }
            Self::Change(patch) => {
                let Some(place) = Place::of(&format!("configmaps/{namespace}{AUTHORITY}")) else { return Ok(()) };
                return hand.patch(&place, "", &patch).await;
            }
        };
        let Some(resource) = referred("v1", kind) else { return Ok(()) };
        let mut object = object;
        object["apiVersion"] = json!("v1");
        object["kind"] = json!(kind);
        hand.create(resource, namespace, &object).await
    }
}

fn description() -> &'static str {
    "The certificates of the authorities by which the API server is known at addresses inside of the cluster, such as \
     kubernetes.default.svc. Nothing else is promised about them."
}

/// The patch that makes the `ConfigMap` what it should be, if it is not.
fn change(object: &api::Object, authority: &str) -> Option<Value> {
    let text = bundle(object.text(&["data", DATA]), authority);
    let data = object.at(&["data"]).and_then(Value::as_object);
    let others: Vec<&String> = data.into_iter().flatten().map(|(name, _)| name).filter(|name| *name != DATA).collect();
    let described = !object.text(&["metadata", "annotations", DESCRIPTION]).is_empty();
    if described && others.is_empty() && object.text(&["data", DATA]) == text {
        return None;
    }
    let mut patch = json!({
        "metadata": {"resourceVersion": object.resource_version()}, "data": {DATA: text},
    });
    for name in others {
        patch["data"][name] = Value::Null;
    }
    if !described {
        patch["metadata"]["annotations"] = json!({DESCRIPTION: description()});
    }
    Some(patch)
}

/// The certificates that are there and ours, each once.
fn bundle(present: &str, own: &str) -> String {
    let own = blocks(own);
    let room = MOST_CERTIFICATES.saturating_sub(own.len());
    let mut all: Vec<&str> = Vec::new();
    let mut others = 0;
    for block in blocks(present) {
        let is_own = own.contains(&block);
        if !all.contains(&block) && (is_own || others < room) {
            others += usize::from(!is_own);
            all.push(block);
        }
    }
    for block in own {
        if !all.contains(&block) {
            all.push(block);
        }
    }
    all.iter().fold(String::new(), |text, block| text + block + "\n")
}

/// The certificates in a text, as they are written there.
fn blocks(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let Some(length) = rest[begin..].find(END) else { break };
        let block = &rest[begin..begin + length + END.len()];
        if certificates(block).is_ok_and(|read| read.len() == 1) {
            found.push(block);
        }
        rest = &rest[begin + length + END.len()..];
    }
    found
}
