//! `Node`: what is kept of a Node. A Node is large, and most of it changes with every heartbeat; this part decides.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use api::Object;
use api::kinds::ClusterCidr;
use serde_json::Value;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Which of all the nodes that ever had this name it is.
    pub uid: Arc<str>,
    pub(super) labels: Labels,
    /// Its blocks as they are written.
    pub pod_cidrs: Box<[Box<str>]>,
    /// How many pods it can run, if it says so.
    pub pods: Option<u64>,
    /// The size that its annotation asks for, as it is written.
    pub host_bits: Option<Box<str>>,
    /// Its own addresses, each once: most nodes have one or two.
    pub addresses: Box<[IpAddr]>,
}

/// Labels by key, as one text: there are many of them on every node, and a piece of memory for each key and value takes twice as much
/// as what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels {
    text: Box<str>,
    /// Where each key and each value ends in the text, in turn.
    ends: Box<[(u32, u32)]>,
}

impl Labels {
    fn new(mut labels: Vec<(&str, &str)>) -> Self {
        labels.sort_unstable();
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(labels.len()));
        for (key, value) in labels {
            text.push_str(key);
            let key_end = text.len() as u32;
            text.push_str(value);
            ends.push((key_end, text.len() as u32));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    fn at(&self, place: usize) -> Option<(&str, &str)> {
        let begin = place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(_, end)| *end as usize);
        let (key_end, end) = *self.ends.get(place)?;
        let (key_end, end) = (key_end as usize, end as usize);
        Some((self.text.get(begin..key_end)?, self.text.get(key_end..end)?))
    }

    fn get(&self, wanted: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            let (key, value) = self.at(middle)?;
            match key.cmp(wanted) {
                Ordering::Equal => return Some(value),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.ends.len()).filter_map(|place| self.at(place))
    }
}

impl Node {
    /// A node about which nothing is known but who it is.
    pub fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.into(),
            uid: uid.into(),
            labels: Labels::default(),
            pod_cidrs: Box::default(),
            pods: None,
            host_bits: None,
            addresses: Box::default(),
        }
    }

    /// The same with those labels.
    #[must_use]
    pub fn labelled<'a>(mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.labels = Labels::new(labels.into_iter().collect());
        self
    }

    /// The same with those blocks, as the older field for one of them and the newer one for all have them. Some write only the
    /// older one.
    #[must_use]
    pub fn holding<'a>(mut self, single: &str, listed: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pod_cidrs: Vec<Box<str>> = listed.into_iter().map(Box::from).collect();
        if pod_cidrs.is_empty() && !single.is_empty() {
            pod_cidrs.push(single.into());
        }
        self.pod_cidrs = pod_cidrs.into();
        self
    }

    /// The same with those addresses; names are not among them.
    #[must_use]
    pub fn reached_at<'a>(mut self, listed: impl IntoIterator<Item = &'a str>) -> Self {
        let read = |address: &str| Some(space::tolerant_address(address).ok()?.value);
        let mut addresses: Vec<IpAddr> = listed.into_iter().filter_map(read).collect();
        addresses.sort_unstable();
        addresses.dedup();
        self.addresses = addresses.into();
        self
    }

    /// What is kept of a whole Node.
    pub fn read(object: &Object) -> Self {
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
        let node = Self::new(object.name(), object.uid())
            .labelled(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))));
        let listed = object.at(&["spec", "podCIDRs"]).and_then(Value::as_array).into_iter().flatten();
        let node = node.holding(object.text(&["spec", "podCIDR"]), listed.filter_map(Value::as_str));
        let addresses = object.at(&["status", "addresses"]).and_then(Value::as_array).into_iter().flatten();
        let node = node.reached_at(addresses.filter_map(|one| one.get("address")?.as_str()));
        let annotation = object.text(&["metadata", "annotations", ClusterCidr::HOST_BITS_ANNOTATION]);
        Self {
            pods: api::quantity::count(object.text(&["status", "capacity", "pods"])),
            host_bits: (!annotation.is_empty()).then(|| annotation.into()),
            ..node
        }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// Its labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(object: Value) -> Node {
        Node::read(&Object::from_value(object).unwrap())
    }

    #[test]
    fn what_decides_is_kept() {
        let node = read(json!({
            "metadata": {
                "name": "n", "uid": "u", "labels": {"b": "2", "a": "1"},
                "annotations": {"ipam.cadastre.dev/host-bits": "9", "x": "y"},
            },
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
            "status": {
                "capacity": {"pods": "1k", "cpu": "4"},
                "addresses": [
                    {"type": "InternalIP", "address": "192.168.0.1"}, {"type": "Hostname", "address": "n"},
                    {"type": "InternalIP", "address": "fd00:1::1"},
                ],
            },
        }));
        assert_eq!((&*node.name, &*node.uid, node.label("a"), node.label("c")), ("n", "u", Some("1"), None));
        assert_eq!(node.pod_cidrs.iter().map(|cidr| &**cidr).collect::<Vec<_>>(), ["10.0.0.0/24", "fd00::/64"]);
        assert_eq!((node.pods, node.host_bits.as_deref()), (Some(1_000), Some("9")));
        let addresses: Vec<String> = node.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.168.0.1", "fd00:1::1"]);
    }

    #[test]
    fn every_label_is_found_by_its_key_and_no_other_is() {
        let labels = [("zone", "a"), ("", "empty"), ("group", ""), ("a", "x"), ("ab", "y")];
        let node = Node::new("n", "u").labelled(labels);
        for (key, value) in labels {
            assert_eq!(node.label(key), Some(value));
        }
        for absent in ["b", "abc", "zon", "zonea", "group/"] {
            assert_eq!(node.label(absent), None, "{absent}");
        }
        let mut sorted = labels;
        sorted.sort_unstable();
        assert_eq!(node.labels().collect::<Vec<_>>(), sorted);
        assert_eq!(Node::new("n", "u").label(""), None);
    }

    #[test]
    fn the_older_field_counts_where_it_is_alone() {
        let node = read(json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}));
        assert_eq!(*node.pod_cidrs, ["10.0.0.0/24".into()]);
    }

    #[test]
    fn a_heartbeat_changes_nothing_that_is_kept() {
        let with = |time: &str| {
            read(json!({
                "metadata": {"name": "n", "uid": "u", "resourceVersion": time},
                "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": time}]},
            }))
        };
        assert_eq!(with("1"), with("2"));
    }
}
