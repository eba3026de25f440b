//! `Node`: what is kept of a Node. Who it is, which networks it is for, and whether it was fenced. And the label of what is its own.

use api::Object;
use serde_json::{Map, Value};

use crate::node::flags::hash;

/// The label of an `IPPool` or a reservation that names the node whose it is; see [`node_label`].
pub const NODE: &str = "ipam.cadastre.dev/node";
/// How much of the name of a node is in its label, if that has no room for all of it: 63 letters are there.
const LABEL_PART: usize = 46;
/// The taint by which somebody vouches that a node is off and stays so.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Which of all the nodes that ever had this name it is.
    pub uid: String,
    /// Its labels.
    pub labels: Map<String, Value>,
    /// Whether somebody vouches that nothing on it runs.
    pub fenced: bool,
}

impl Node {
    /// What is kept of a whole Node.
    pub fn read(object: &Object) -> Self {
        let taints = object.at(&["spec", "taints"]).and_then(Value::as_array).into_iter().flatten();
        Self {
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            labels: object.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default(),
            fenced: taints.into_iter().filter_map(|taint| taint["key"].as_str()).any(is_out_of_service),
        }
    }
}

/// The value of [`NODE`] for a node: its name, or if that has no room the beginning of it and a hash.
pub fn node_label(node: &str) -> String {
    if api::names::label_value(node).is_empty() {
        return node.to_owned();
    }
    let short = node.get(..LABEL_PART).unwrap_or(node).trim_end_matches(['.', '-']);
    format!("{short}-{:016x}", hash([node.to_owned()]))
}

/// Whether a label is of a node whose name has no room in it, or may be.
pub(super) fn is_shortened(label: &str) -> bool {
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    label.rsplit_once('-').is_some_and(|(short, hash)| short.len() > LABEL_PART / 2 && is_hash(hash))
}

/// Whether a taint of that key says that somebody vouches for it.
pub(super) fn is_out_of_service(key: &str) -> bool {
    key == OUT_OF_SERVICE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_label_of_its_own() {
        let long = "n".repeat(200);
        let [one, other] = [node_label(&format!("{long}1")), node_label(&format!("{long}2"))];
        assert_ne!(one, other);
        for label in [&one, &other, &node_label("worker-7.example.org")] {
            assert_eq!(api::names::label_value(label), Vec::<String>::new(), "{label}");
            assert_eq!(node_label(label), *label, "a label is its own");
            assert_eq!(is_shortened(label), label.starts_with('n'), "{label}");
        }
        assert!(!is_shortened("vm-0123456789abcdef"), "that is a name");
        assert_eq!(node_label("worker-7.example.org"), "worker-7.example.org");
    }
}
