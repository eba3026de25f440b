//! `Node`: what is kept of a Node. Who it is, which networks it is for, and whether it was fenced.

use api::Object;
use serde_json::{Map, Value};

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

/// Whether a taint of that key says that somebody vouches for it.
pub(super) fn is_out_of_service(key: &str) -> bool {
    key == OUT_OF_SERVICE
}
