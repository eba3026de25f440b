//! Pods on secondary networks, but for the pods: how a container runtime calls a plugin, nodes that are folders, and the real whereabouts
//! with its API server. For suites and benchmarks; knows neither.

pub(crate) mod node;
pub(crate) mod whereabouts;

use std::collections::BTreeMap;

/// The namespace of the pods.
const NAMESPACE: &str = "dev";
/// A network namespace that nobody has.
const NETNS: &str = "/run/netns/of-nobody";
/// The node that calls are on, where it does not matter.
pub(crate) const NODE: &str = "node-1";

/// The variables of a call for one attachment.
pub(crate) fn attachment(call: &str, pod: &str, container: &str, ifname: &str) -> BTreeMap<String, String> {
    let args = format!("IgnoreUnknown=true;K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME={pod}");
    [
        ("CNI_COMMAND", call),
        ("CNI_CONTAINERID", container),
        ("CNI_NETNS", NETNS),
        ("CNI_IFNAME", ifname),
        ("CNI_PATH", "/opt/cni/bin"),
        ("CNI_ARGS", &args),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
