//! A server in a few maps: objects as an API server would keep them, whose every change the plan is shown, and which makes the
//! writes that the plan asks for. Time passes only when a test says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Object;
use api::kinds::ClusterCidr;
use api::selector::Terms;
use controllers::node::intent::{About, Assignment, Finalizers, Intent, Outcome};
use controllers::node::plan::Settings;
use controllers::node::{Node, Plan};
use serde_json::{Value, json};
use space::{Cidr, Moment};

/// How long a block rests.
pub(crate) const REST: u64 = 60_000;

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is made, and the answer says so.
    Made,
    /// It is made, and the answer is lost.
    MadeUnheard,
    /// It gets lost, and so does its answer.
    Lost,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    settings: Settings,
    nodes: BTreeMap<String, Value>,
    ranges: BTreeMap<String, Value>,
    services: BTreeSet<Cidr>,
    /// What becomes of the next writes of nodes; when there is nothing here, they are made.
    pub(crate) fates: VecDeque<Fate>,
    /// Whether the plan is shown what changes; it is shown all of it when it is again.
    pub(crate) watching: bool,
    pub(crate) events: Vec<String>,
    /// How often a node was written.
    pub(crate) writes: usize,
    /// The range that each node was last served from.
    pub(crate) from: BTreeMap<String, String>,
    revision: u64,
    now: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings { terms: Terms::Any, rest: REST })
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let mut plan = Plan::new(settings);
        plan.begin();
        Self {
            plan,
            settings,
            nodes: BTreeMap::new(),
            ranges: BTreeMap::new(),
            services: BTreeSet::new(),
            fates: VecDeque::new(),
            watching: true,
            events: Vec::new(),
            writes: 0,
            from: BTreeMap::new(),
            revision: 0,
            now: 0,
        }
    }

    fn revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// The controller starts anew and knows nothing but what is there.
    pub(crate) fn restart(&mut self) {
        self.plan = Plan::new(self.settings);
        self.show_all();
        assert_eq!(self.plan.next(Moment(self.now)), None, "something was decided before everything was known");
        self.plan.begin();
        self.settle();
    }

    /// The plan is shown what changes again, and first of all what it missed.
    pub(crate) fn watch_again(&mut self) {
        self.watching = true;
        let known: Vec<String> = self.plan.index().nodes().map(|(_, known)| known.node.name.to_string()).collect();
        for name in known.iter().filter(|name| !self.nodes.contains_key(*name)) {
            self.plan.lose_node(name);
        }
        let known: Vec<String> = self.plan.index().ranges().map(|(_, range)| range.name.to_string()).collect();
        for name in known.iter().filter(|name| !self.ranges.contains_key(*name)) {
            self.plan.lose_range(name);
        }
        self.show_all();
        self.settle();
    }

    fn show_all(&mut self) {
        self.plan.see_services(self.services.clone());
        for range in self.ranges.values() {
            self.plan.see_range(&object(range));
        }
        for node in self.nodes.values() {
            self.plan.see_node(Node::read(&object(node)));
        }
    }

    /// Everything that can be done is done.
    pub(crate) fn settle(&mut self) {
        while let Some(intent) = self.plan.next(Moment(self.now)) {
            match intent {
                Intent::Assign(assignment) => self.assign(&assignment),
                Intent::Finalize(finalizers) => self.finalize(&finalizers),
                Intent::Tell(event) => {
                    let (About::Node(name, _) | About::Range(name, _)) = &event.about;
                    self.events.push(format!("{name}: {}: {}", event.reason, event.message));
                }
            }
        }
        self.plan.index().audit().unwrap();
    }

    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        self.settle();
    }

    /// What was told, and is forgotten.
    pub(crate) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }
}

/// Nodes.
impl World {
    pub(crate) fn node(&mut self, name: &str, labels: &[(&str, &str)]) -> String {
        self.make_node(name, labels, &[]);
        self.settle();
        self.cidrs(name)
    }

    /// A node that has blocks already.
    pub(crate) fn served(&mut self, name: &str, labels: &[(&str, &str)], cidrs: &[&str]) {
        self.make_node(name, labels, cidrs);
        self.settle();
    }

    pub(crate) fn make_node(&mut self, name: &str, labels: &[(&str, &str)], cidrs: &[&str]) {
        let uid = format!("uid-{}", self.revision());
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let mut node = json!({"metadata": {"name": name, "uid": uid, "labels": labels}, "spec": {}});
        if let Some(first) = cidrs.first() {
            node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
        }
        self.nodes.insert(name.to_owned(), node);
        self.show_node(name);
    }

    pub(crate) fn change_node(&mut self, name: &str, pointer: &str, value: Value) {
        let mut slot = self.nodes.get_mut(name).unwrap();
        for part in pointer.split('/').skip(1) {
            slot = &mut slot[part.replace("~1", "/")];
        }
        *slot = value;
        self.show_node(name);
        self.settle();
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        self.nodes.remove(name).unwrap();
        if self.watching {
            self.plan.lose_node(name);
        }
        self.settle();
    }

    /// The blocks of a node, joined by commas.
    pub(crate) fn cidrs(&self, name: &str) -> String {
        let listed = self.nodes[name]["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
        listed.iter().map(|cidr| cidr.as_str().unwrap()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    fn show_node(&mut self, name: &str) {
        if self.watching {
            self.plan.see_node(Node::read(&object(&self.nodes[name])));
        }
    }

    /// What an API server does with blocks for a node: they are written on the node that is meant, once.
    fn assign(&mut self, assignment: &Assignment) {
        self.writes += 1;
        let fate = self.fates.pop_front().unwrap_or(Fate::Made);
        let (name, key) = (assignment.name.to_string(), assignment.key);
        self.from.insert(name.clone(), assignment.range.to_string());
        if fate == Fate::Lost {
            return self.plan.assigned(key, Outcome::Failed("connection reset".to_owned()));
        }
        let Some(node) = self.nodes.get_mut(&name).filter(|node| node["metadata"]["uid"] == *assignment.uid) else {
            return self.plan.assigned(key, Outcome::Gone);
        };
        let cidrs: Vec<String> = assignment.cidrs.iter().map(ToString::to_string).collect();
        let spec = json!({"podCIDR": cidrs[0], "podCIDRs": cidrs});
        if node["spec"].get("podCIDRs").is_some() && node["spec"] != spec {
            let why = "node updates may not change podCIDR except from \"\" to valid".to_owned();
            return self.plan.assigned(key, Outcome::Failed(why));
        }
        node["spec"] = spec;
        let outcome = if fate == Fate::Made { Outcome::Written } else { Outcome::Failed("timeout".to_owned()) };
        self.plan.assigned(key, outcome);
        self.show_node(&name);
    }
}

/// Ranges.
impl World {
    /// A range that is there and in use.
    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    pub(crate) fn range(&mut self, name: &str, spec: Value) {
        self.make_range(name, &spec);
        self.settle();
    }

    pub(crate) fn make_range(&mut self, name: &str, spec: &Value) {
        let revision = self.revision();
        let metadata = json!({
            "name": name, "uid": format!("uid-{revision}"), "resourceVersion": revision.to_string(), "generation": 1,
        });
        self.ranges.insert(name.to_owned(), json!({"metadata": metadata, "spec": spec}));
        self.show_range(name);
    }

    pub(crate) fn change_range(&mut self, name: &str, field: &str, value: Value) {
        let revision = self.revision();
        let range = self.ranges.get_mut(name).unwrap();
        range["spec"][field] = value;
        let metadata = &mut range["metadata"];
        metadata["generation"] = json!(metadata["generation"].as_u64().unwrap() + 1);
        metadata["resourceVersion"] = json!(revision.to_string());
        self.show_range(name);
        self.settle();
    }

    pub(crate) fn delete_range(&mut self, name: &str) {
        let revision = self.revision();
        let metadata = &mut self.ranges.get_mut(name).unwrap()["metadata"];
        if metadata["finalizers"].as_array().is_none_or(Vec::is_empty) {
            return self.strip_range(name);
        }
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["generation"] = json!(metadata["generation"].as_u64().unwrap() + 1);
        metadata["resourceVersion"] = json!(revision.to_string());
        self.show_range(name);
        self.settle();
    }

    /// A range goes, whatever should keep it.
    pub(crate) fn strip_range(&mut self, name: &str) {
        self.ranges.remove(name).unwrap();
        if self.watching {
            self.plan.lose_range(name);
        }
        self.settle();
    }

    pub(crate) fn has_range(&self, name: &str) -> bool {
        self.ranges.contains_key(name)
    }

    pub(crate) fn range_object(&self, name: &str) -> &Value {
        &self.ranges[name]
    }

    pub(crate) fn is_protected(&self, name: &str) -> bool {
        self.ranges[name]["metadata"]["finalizers"] == json!([ClusterCidr::FINALIZER])
    }

    pub(crate) fn services(&mut self, cidrs: &[&str]) {
        self.services = cidrs.iter().map(|cidr| Cidr::strict(cidr).unwrap()).collect();
        self.plan.see_services(self.services.clone());
        self.settle();
    }

    /// Writes the statuses that are wanted; says how many were.
    pub(crate) fn write_statuses(&mut self, time: &str) -> usize {
        let writes = self.plan.statuses(time);
        for write in &writes {
            let revision = self.revision();
            let range = self.ranges.get_mut(&*write.name).unwrap();
            range["status"] = write.status.clone();
            range["metadata"]["resourceVersion"] = json!(revision.to_string());
            self.show_range(&write.name);
        }
        writes.len()
    }

    fn show_range(&mut self, name: &str) {
        if self.watching {
            self.plan.see_range(&object(&self.ranges[name]));
        }
    }

    fn finalize(&mut self, wanted: &Finalizers) {
        let revision = self.revision();
        let Some(range) = self.ranges.get_mut(&*wanted.name) else {
            return self.plan.finalized(wanted.key, &Outcome::Gone);
        };
        let metadata = &mut range["metadata"];
        if metadata["resourceVersion"] != *wanted.resource_version {
            return self.plan.finalized(wanted.key, &Outcome::Failed("the object has been modified".to_owned()));
        }
        metadata["finalizers"] = json!(wanted.finalizers);
        metadata["resourceVersion"] = json!(revision.to_string());
        let goes = wanted.finalizers.is_empty() && metadata.get("deletionTimestamp").is_some();
        self.plan.finalized(wanted.key, &Outcome::Written);
        if goes {
            self.ranges.remove(&*wanted.name);
            if self.watching {
                self.plan.lose_range(&wanted.name);
            }
        } else {
            self.show_range(&wanted.name);
        }
    }
}

fn object(value: &Value) -> Object {
    Object::from_value(value.clone()).unwrap()
}

/// A selector by labels: one term for each.
pub(crate) fn selecting(labels: &[(&str, &str)]) -> Value {
    let term =
        |(key, value): &(&str, &str)| json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
    json!({"nodeSelectorTerms": labels.iter().map(term).collect::<Vec<_>>()})
}

/// A selector by labels that must all be there.
pub(crate) fn selecting_all(labels: &[(&str, &str)]) -> Value {
    let one = |(key, value): &(&str, &str)| json!({"key": key, "operator": "In", "values": [value]});
    json!({"nodeSelectorTerms": [{"matchExpressions": labels.iter().map(one).collect::<Vec<_>>()}]})
}

/// A range for all nodes: the host bits and one or two ranges.
pub(crate) fn cut(bits: u8, cidrs: &str) -> Value {
    let mut spec = json!({"perNodeHostBits": bits});
    for cidr in cidrs.split(',') {
        spec[if cidr.contains(':') { "ipv6" } else { "ipv4" }] = json!(cidr);
    }
    spec
}

/// The same for nodes with one of those labels.
pub(crate) fn cut_for(bits: u8, cidrs: &str, labels: &[(&str, &str)]) -> Value {
    let mut spec = cut(bits, cidrs);
    spec["nodeSelector"] = selecting(labels);
    spec
}
