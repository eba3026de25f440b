//! The kinds of the soak, and what is written of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::e2e::history::{Mark, Revision};

/// In how many namespaces they are.
pub(super) const NAMESPACES: u64 = 3;
/// What is written last of each kind, so that those who follow know that they have seen everything.
pub(super) const LAST: &str = "soak-0/the-end";
/// The mark of an object whose parts are not of one write. No writer makes it.
const DAMAGED: Mark = Mark::MAX;
/// The annotation that says which write made an object what it is.
const MARK: &str = "mark";

/// A kind.
pub(super) struct Kind {
    pub(super) resource: &'static str,
    /// The group and version, as paths have them.
    root: &'static str,
    api_version: &'static str,
    name: &'static str,
}

pub(super) const KINDS: [Kind; 4] = [
    Kind { resource: "configmaps", root: "/api/v1", api_version: "v1", name: "ConfigMap" },
    Kind { resource: "secrets", root: "/api/v1", api_version: "v1", name: "Secret" },
    Kind {
        resource: "leases",
        root: "/apis/coordination.k8s.io/v1",
        api_version: "coordination.k8s.io/v1",
        name: "Lease",
    },
    Kind {
        resource: "endpointslices",
        root: "/apis/discovery.k8s.io/v1",
        api_version: "discovery.k8s.io/v1",
        name: "EndpointSlice",
    },
];

/// The name of a namespace.
pub(super) fn namespace(number: u64) -> String {
    format!("soak-{number}")
}

impl Kind {
    /// All of them, in all namespaces.
    pub(super) fn all(&self) -> String {
        format!("{}/{}", self.root, self.resource)
    }

    /// Those of one namespace.
    pub(super) fn of(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root, self.resource)
    }

    /// An object as one write makes it, on top of a revision.
    pub(super) fn body(&self, name: &str, mark: Mark, base: Option<Revision>) -> Value {
        let mut body = json!({"apiVersion": self.api_version, "kind": self.name,
            "metadata": {"name": name, "annotations": {MARK: mark.to_string()}}});
        if let Some(base) = base {
            body["metadata"]["resourceVersion"] = json!(base.to_string());
        }
        match self.resource {
            "configmaps" => body["data"] = json!({"mark": mark.to_string()}),
            "leases" => body["spec"] = json!({"holderIdentity": mark.to_string()}),
            "endpointslices" => {
                body["addressType"] = json!("IPv4");
                body["endpoints"] = json!([{"addresses": ["192.0.2.1"], "hostname": format!("h{mark}")}]);
            }
            _ => body["stringData"] = json!({"mark": mark.to_string()}),
        }
        body
    }
}

/// The kind that an object of etcd is of.
pub(super) fn of_object(object: &Value) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| object["kind"] == kind.name && object["apiVersion"] == kind.api_version)
}

/// Kind, namespace and name of an object in one, and the mark of the write that made it; nothing if no writer of ours did.
pub(super) fn identity(kind: &Kind, object: &Value) -> Option<(String, Mark)> {
    let metadata = &object["metadata"];
    let text = metadata["annotations"][MARK].as_str()?;
    let mark = if payload(kind, object) == Some(text.to_owned()) { text.parse().ok()? } else { DAMAGED };
    let (namespace, name) = (metadata["namespace"].as_str()?, metadata["name"].as_str()?);
    Some((format!("{}/{namespace}/{name}", kind.resource), mark))
}

/// The mark in what an object is about.
fn payload(kind: &Kind, object: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match kind.resource {
        "configmaps" => text(&object["data"]["mark"]),
        "leases" => text(&object["spec"]["holderIdentity"]),
        "endpointslices" => object["endpoints"][0]["hostname"].as_str()?.strip_prefix('h').map(str::to_owned),
        _ => String::from_utf8(STANDARD.decode(object["data"]["mark"].as_str()?).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_two_writes_is_damaged() {
        for kind in &KINDS {
            let mut object = kind.body("a", 7, None);
            object["metadata"]["namespace"] = json!("n");
            if kind.resource == "secrets" {
                object["data"] = json!({"mark": STANDARD.encode("7")});
            }
            let name = format!("{}/n/a", kind.resource);
            assert_eq!(identity(kind, &object), Some((name.clone(), 7)));
            object["metadata"]["annotations"]["mark"] = json!("8");
            assert_eq!(identity(kind, &object), Some((name, DAMAGED)));
        }
    }
}
