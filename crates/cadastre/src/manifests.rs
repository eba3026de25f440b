//! `cadastre manifests`: what a cluster needs before our controllers can work in it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write as _};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use controllers::node::waybill;
use serde_json::{Value, json};

/// Print what a cluster needs before our controllers can work in it.
///
/// For clusters whose API server is another one than `cadastre up`, which has all of it built in.
#[derive(Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    manifest: Manifest,
}

const EXAMPLES: &str = "\
Examples:
  Declare the ClusterCIDR resource:
    cadastre manifests crds --for node | kubectl apply --server-side -f -
  Declare all kinds, in place of definitions of whereabouts and Multus that are there:
    cadastre manifests crds | kubectl apply --server-side --force-conflicts -f -
  Let Pods with the service accounts cadastre-node-ipam and cadastre-slices of kube-system run `cadastre controller node` and `slice`:
    cadastre manifests rbac | kubectl apply -f -";

#[derive(Subcommand)]
enum Manifest {
    /// The `CustomResourceDefinition`s, as YAML: `ClusterCIDR`, for `cadastre controller node`, and whereabouts' kinds and
    /// `NetworkAttachmentDefinition`, for `cadastre controller slice`
    ///
    /// They take the place of node-ipam-controller's, whereabouts' and Multus', whose objects stay as they are. The rules in them
    /// need Kubernetes 1.32 or later.
    Crds {
        /// Only those that this controller needs
        #[arg(long = "for", value_name = "CONTROLLER")]
        controller: Option<Controller>,
    },
    /// Service accounts for `cadastre controller node`, for `cadastre controller slice` and for the agents of nodes, and what they may do,
    /// as YAML
    Rbac {
        /// The namespace of the service accounts and of the Leases that say who acts
        #[arg(long, short, value_name = "NAME", default_value = "kube-system")]
        namespace: String,
    },
}

/// A controller that needs kinds of its own.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Controller {
    /// `cadastre controller node`
    Node,
    /// `cadastre controller slice`, and agents
    Slice,
}

/// The names of what `rbac` prints, by whom it is for.
const NODES: &str = "cadastre-node-ipam";
const SLICES: &str = "cadastre-slices";
const AGENT: &str = "cadastre-agent";

/// The group of `ClusterCIDR`s.
const RANGES: &str = "networking.x-k8s.io";
/// The group of pools and reservations.
const WHEREABOUTS: &str = "whereabouts.cni.cncf.io";

pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.manifest {
        Manifest::Crds { controller } => print(crds(*controller)),
        Manifest::Rbac { namespace } => print(rbac(namespace)),
    }
}

/// The definitions that a controller needs, or all.
fn crds(controller: Option<Controller>) -> impl Iterator<Item = Value> {
    let of = |crd: &Value| if crd["spec"]["group"] == RANGES { Controller::Node } else { Controller::Slice };
    api::crd::all().filter(move |crd| controller.is_none_or(|controller| controller == of(crd)))
}

fn print(objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for object in objects {
        let text = serde_saphyr::to_string(&object).context("cannot write YAML")?;
        match write!(out, "---\n{text}") {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("cannot write")?,
        }
    }
    Ok(())
}

const GROUP: &str = "rbac.authorization.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
/// To tell, and to count what is told again.
const EVENTS: &[&str] = &["get", "create", "patch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// Somebody who asks the API server, with a service account of that name.
struct Account<'a> {
    name: &'static str,
    /// What it may do everywhere.
    rules: Vec<Value>,
    /// The namespaces that it has Leases in.
    leases: BTreeSet<&'a str>,
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// All that `rbac` prints.
fn rbac(namespace: &str) -> Vec<Value> {
    // Node IPAM has the Lease that says who acts, and the one that the waybill is kept in.
    let nodes = Account { name: NODES, rules: node_rules(), leases: BTreeSet::from([namespace, waybill::NAMESPACE]) };
    let slices = Account { name: SLICES, rules: slice_rules(), leases: BTreeSet::from([namespace]) };
    let agent = Account { name: AGENT, rules: agent_rules(), leases: BTreeSet::new() };
    [nodes, slices, agent].iter().flat_map(|account| account.objects(namespace)).collect()
}

/// What the rim of node IPAM asks for, and nothing else.
fn node_rules() -> Vec<Value> {
    vec![
        rule("", &["nodes"], &["get", "list", "watch", "patch"]),
        rule("", &["events"], EVENTS),
        rule(RANGES, &["clustercidrs"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule(RANGES, &["clustercidrs/status"], &["patch"]),
        rule("networking.k8s.io", &["servicecidrs"], READ),
    ]
}

/// What the rim of the controller of slices asks for, and nothing else.
fn slice_rules() -> Vec<Value> {
    vec![
        rule("", &["nodes", "pods"], READ),
        rule("", &["events"], EVENTS),
        rule("k8s.cni.cncf.io", &["network-attachment-definitions"], READ),
        rule(WHEREABOUTS, &["nodeslicepools"], &["get", "list", "watch", "create", "update", "delete"]),
        rule(WHEREABOUTS, &["ippools"], &["get", "list", "watch", "patch", "delete"]),
        rule(WHEREABOUTS, &["overlappingrangeipreservations"], &["get", "list", "delete", "deletecollection"]),
    ]
}

/// What the agent of a node asks for: it writes what pods of its node have.
fn agent_rules() -> Vec<Value> {
    vec![
        rule("", &["nodes", "pods"], READ),
        rule("", &["events"], EVENTS),
        rule(WHEREABOUTS, &["nodeslicepools"], READ),
        rule(WHEREABOUTS, &["ippools", "overlappingrangeipreservations"], WRITE),
    ]
}

impl Account<'_> {
    /// The account and its roles.
    fn objects(&self, namespace: &str) -> Vec<Value> {
        let whole = json!({"name": self.name});
        let part = |namespace: &str| json!({"name": self.name, "namespace": namespace});
        let mut everywhere = object("ClusterRole", &whole);
        everywhere["rules"] = Value::from(self.rules.clone());
        let mut all = vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": part(namespace)}),
            everywhere,
            self.bound(object("ClusterRoleBinding", &whole), "ClusterRole", namespace),
        ];
        for of_lease in &self.leases {
            let mut here = object("Role", &part(of_lease));
            here["rules"] = json!([rule("coordination.k8s.io", &["leases"], &["get", "create", "update"])]);
            all.extend([here, self.bound(object("RoleBinding", &part(of_lease)), "Role", namespace)]);
        }
        all
    }

    fn bound(&self, mut binding: Value, kind: &str, namespace: &str) -> Value {
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": self.name});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": self.name, "namespace": namespace}]);
        binding
    }
}

fn object(kind: &str, metadata: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every account may do what is in its rules, and is who its roles are bound to.
    #[test]
    fn every_account_has_its_roles() {
        let all = rbac("here");
        let of = |kind: &str, name: &str| {
            let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
            all.iter().filter(is_it).collect::<Vec<_>>()
        };
        for (name, leases) in [(NODES, 2), (SLICES, 1), (AGENT, 0)] {
            assert_eq!(of("ServiceAccount", name)[0]["metadata"]["namespace"], "here");
            assert_eq!((of("ClusterRole", name).len(), of("Role", name).len()), (1, leases), "{name}");
            let bindings = [of("ClusterRoleBinding", name), of("RoleBinding", name)].concat();
            assert_eq!(bindings.len(), 1 + leases, "{name}");
            for binding in bindings {
                let kind = binding["kind"].as_str().unwrap().strip_suffix("Binding").unwrap();
                assert_eq!((&binding["roleRef"]["kind"], &binding["roleRef"]["name"]), (&json!(kind), &json!(name)));
                let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "here"});
                assert_eq!(binding["subjects"], json!([subject]));
            }
        }
    }

    #[test]
    fn every_kind_is_for_one_controller() {
        let names = |controller: Option<Controller>| {
            let name = |crd: Value| crd["metadata"]["name"].as_str().unwrap().to_owned();
            crds(controller).map(name).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(Some(Controller::Node)), BTreeSet::from(["clustercidrs.networking.x-k8s.io".to_owned()]));
        let slices = names(Some(Controller::Slice));
        assert_eq!(slices.len() + 1, names(None).len());
        assert!(slices.contains("nodeslicepools.whereabouts.cni.cncf.io"), "{slices:?}");
    }

    /// Rules name resources that there are, by groups that have them.
    #[test]
    fn rules_are_about_kinds_that_are_declared() {
        let declared: BTreeSet<(String, String)> = api::crd::all()
            .map(|crd| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]))
            })
            .collect();
        for rule in [node_rules(), slice_rules(), agent_rules()].concat() {
            let group = rule["apiGroups"][0].as_str().unwrap();
            for resource in rule["resources"].as_array().unwrap() {
                let plural = resource.as_str().unwrap().split('/').next().unwrap();
                let is_declared = declared.contains(&(group.to_owned(), plural.to_owned()));
                assert!(is_declared || ["", "networking.k8s.io"].contains(&group), "{group} has no {resource}");
            }
        }
    }
}
