//! Pods: what they get that is not in them. A new one has an account, and with it a token, and a priority.

use std::time::Duration;

use api::{Kind, Object};
use serde_json::{Value, json};
use store::Store;
use tokio::time::sleep;

use super::{Behaviour, identity};
use crate::machinery::Failure;

/// Where Pods are stored.
pub(crate) const PREFIX: &str = "pods";

/// Where a container finds its token.
const TOKENS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long the token in a pod is good, in seconds. Kubernetes knows by the odd number that nobody asked for it.
const TOKEN_LIFE: i64 = 3607;

/// How often and how long the account `default` is waited for, which comes a moment after its namespace.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// The priorities that have names. There are no others, because their kind is not served.
const CLASSES: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const PREEMPTION: &str = "PreemptLowerPriority";

/// The behaviour of Pods.
pub(super) struct Pods;

impl Behaviour for Pods {
    fn refuse_create(&self, kind: &Kind, pod: &Object) -> Result<(), Failure> {
        let overhead = pod.at(&["spec", "overhead"]).and_then(Value::as_object);
        if overhead.is_some_and(|overhead| !overhead.is_empty()) {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(Failure::forbidden(kind, pod.name(), why));
        }
        Ok(())
    }
}

/// Completes a new pod, or refuses one that asks for something that is not there.
pub(super) async fn complete(store: &Store, kind: &Kind, namespace: &str, pod: &mut Object) -> Result<(), Failure> {
    let name = pod.text(&["spec", "serviceAccountName"]).to_owned();
    let Some(account) = account(store, namespace, &name).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(Failure::not_admitted(kind, pod, why));
    };
    let wants = |object: &Object, path: &[&str]| object.at(path).and_then(Value::as_bool);
    let mounts = wants(pod, &["spec", "automountServiceAccountToken"])
        .or(wants(&account, &["automountServiceAccountToken"]))
        .unwrap_or(true);
    if mounts {
        mount(pod);
    }
    let is_empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if is_empty(pod.at(&["spec", "imagePullSecrets"]))
        && let Some(secrets) = account.at(&["imagePullSecrets"]).filter(|secrets| !is_empty(Some(secrets)))
    {
        pod.set(&["spec", "imagePullSecrets"], secrets.clone());
    }
    rank(kind, pod)?;
    let class = pod.text(&["spec", "runtimeClassName"]);
    if !class.is_empty() {
        let why = format!("pod rejected: RuntimeClass {class:?} not found");
        return Err(Failure::not_admitted(kind, pod, why));
    }
    Ok(())
}

async fn account(store: &Store, namespace: &str, name: &str) -> Result<Option<Object>, Failure> {
    for attempt in 0..TRIES {
        if let Some(account) = identity::present(store, "serviceaccounts", namespace, name).await? {
            return Ok(Some(account));
        }
        let comes = name == "default" && store.get(&format!("namespaces/{namespace}")).is_some();
        if !comes || attempt + 1 == TRIES {
            break;
        }
        sleep(PAUSE).await;
    }
    Ok(None)
}

/// Gives every container the token of the account, unless it has something at that place already.
fn mount(pod: &mut Object) {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let known = volumes.iter().filter_map(|volume| volume["name"].as_str());
    let known = known.filter(|name| name.starts_with("kube-api-access-")).map(str::to_owned).next();
    let name = known.clone().unwrap_or_else(|| crate::machinery::generated("kube-api-access-"));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let Some(mut containers) = pod.at(&["spec", list]).and_then(Value::as_array).cloned() else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts.iter().all(|mount| mount["mountPath"] != TOKENS) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKENS}));
                mounted = true;
            }
        }
        pod.set(&["spec", list], containers.into());
    }
    if !mounted || known.is_some() {
        return;
    }
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFE, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]);
    let mut volumes = volumes;
    volumes.push(json!({"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}));
    pod.set(&["spec", "volumes"], volumes.into());
}

/// Fills in the priority that goes with the class.
fn rank(kind: &Kind, pod: &mut Object) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::not_admitted(kind, pod, why));
    let class = pod.text(&["spec", "priorityClassName"]);
    let priority = match CLASSES.iter().find(|(name, _)| *name == class) {
        Some((_, priority)) => *priority,
        None if class.is_empty() => 0,
        None => return refused(format!("no PriorityClass with name {class} was found")),
    };
    let computed = "must not be provided in pod spec; priority admission controller computed";
    if let Some(given) = pod.at(&["spec", "priority"]).and_then(Value::as_i64).filter(|given| *given != priority) {
        return refused(format!(
            "the integer value of priority ({given}) {computed} {priority} from the given PriorityClass name"
        ));
    }
    let policy = pod.text(&["spec", "preemptionPolicy"]);
    if !policy.is_empty() && policy != PREEMPTION {
        return refused(format!(
            "the string value of PreemptionPolicy ({policy}) {computed} {PREEMPTION} from the given PriorityClass name"
        ));
    }
    pod.set(&["spec", "priority"], json!(priority));
    pod.set(&["spec", "preemptionPolicy"], json!(PREEMPTION));
    Ok(())
}
