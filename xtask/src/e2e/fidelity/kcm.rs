//! The suite `kcm`: the real kube-controller-manager works against the server as it does in a cluster.
//!
//! It speaks protobuf, elects a leader, lists and watches every kind it finds in discovery, and writes by server-side
//! apply; ours is started without its own lifecycle, so all that is seen here was done by the controllers.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::real::Kubectl;

use super::cluster::{Care, Cluster};
use crate::e2e::Place;
use crate::e2e::report::{Outcome, Report};
use crate::e2e::servers::Servers;

pub(in crate::e2e) const SUITE: &str = "kcm";

/// How long something may take that a controller does. Most take a second; the garbage collector looks for new kinds and
/// fills its caches first.
const PATIENCE: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// What is tried, in this order: the first waits until the controllers have begun.
const CASES: [Case; 9] = [
    Case { name: "the leader's lease is renewed", run: lease },
    Case { name: "a namespace is furnished", run: furnished },
    Case { name: "an account that is deleted comes back", run: account_returns },
    Case { name: "dependents go with their owner in the background", run: background },
    Case { name: "an owner waits for its dependents in the foreground", run: foreground },
    Case { name: "orphans stay and lose their owner", run: orphans },
    Case { name: "a namespace is emptied and says what it waits for", run: emptied },
    Case { name: "a Service gets its slices", run: slices },
    Case { name: "a range is finalized, judged by server-side apply, and goes when it is free", run: range },
];

struct Case {
    name: &'static str,
    run: fn(&Asked<'_>) -> Result<()>,
}

/// Runs the cases on one server.
pub(in crate::e2e) fn run(servers: &Servers, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let cluster = Cluster::start(servers, place, Care::Controllers, &folder)?;
    let asked = Asked { kubectl: &cluster.kubectl };
    for Case { name, run } in CASES {
        let began = Instant::now();
        let outcome =
            run(&asked).map_or_else(|error| Outcome::Failed(format!("{error:#}")), |()| Outcome::Ok(String::new()));
        report.case(SUITE, place, name, &outcome, began.elapsed());
    }
    Ok(())
}

/// The server, asked by kubectl.
struct Asked<'a> {
    kubectl: &'a Kubectl,
}

impl Asked<'_> {
    /// What kubectl says; an error if it fails.
    fn tell(&self, line: &str) -> Result<String> {
        let args: Vec<_> = line.split_whitespace().collect();
        let said = self.kubectl.run(&args)?;
        ensure!(said.success(), "kubectl {line}: {}", said.stderr.trim());
        Ok(said.stdout)
    }

    /// Creates what the manifest says.
    fn create(&self, manifest: &str) -> Result<()> {
        let said = self.kubectl.run_with_input(&["create", "-f", "-"], manifest)?;
        ensure!(said.success(), "could not create: {}\n{manifest}", said.stderr.trim());
        Ok(())
    }

    /// One field of an object by its JSON path; nothing if there is no such object.
    fn field(&self, object: &str, path: &str) -> Result<String> {
        self.tell(&format!("get {object} --ignore-not-found --show-managed-fields -o jsonpath={path}"))
    }

    /// Waits until the field is as `holds` says.
    fn until(&self, object: &str, path: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        loop {
            let value = self.field(object, path)?;
            if holds(&value) {
                return Ok(value);
            }
            ensure!(began.elapsed() < PATIENCE, "{path} of {object} still is `{value}` after {PATIENCE:?}");
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn until_gone(&self, object: &str) -> Result<()> {
        self.until(object, "{.metadata.uid}", str::is_empty).map(drop)
    }

    /// A namespace that the controllers have furnished: Pods and service accounts can be made in it.
    fn namespace(&self, name: &str) -> Result<()> {
        self.tell(&format!("create namespace {name}"))?;
        self.until(&format!("serviceaccount default -n {name}"), "{.metadata.uid}", |uid| !uid.is_empty()).map(drop)
    }

    /// A `ConfigMap`, perhaps with an owner.
    fn config_map(&self, namespace: &str, name: &str, owner: Option<&str>) -> Result<()> {
        let owner = match owner {
            None => String::new(),
            Some(owner) => {
                let uid = self.field(&format!("configmap {owner} -n {namespace}"), "{.metadata.uid}")?;
                let kind = "apiVersion: v1, kind: ConfigMap, blockOwnerDeletion: true";
                format!(", ownerReferences: [{{{kind}, name: {owner}, uid: {uid}}}]")
            }
        };
        self.create(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}{owner}}}\n"
        ))
    }

    /// An owner and two that depend on it.
    fn family(&self, namespace: &str) -> Result<()> {
        self.namespace(namespace)?;
        self.config_map(namespace, "owner", None)?;
        self.config_map(namespace, "one", Some("owner"))?;
        self.config_map(namespace, "other", Some("owner"))
    }
}

fn lease(asked: &Asked<'_>) -> Result<()> {
    let (lease, renewed) = ("lease kube-controller-manager -n kube-system", "{.spec.renewTime}");
    let first = asked.until(lease, renewed, |time| !time.is_empty())?;
    let second = asked.until(lease, renewed, |time| time != first)?;
    asked.until(lease, renewed, |time| time != second)?;
    let changes = asked.field(lease, "{.spec.leaseTransitions}")?;
    ensure!(changes == "0", "the lease changed hands {changes} times");
    Ok(())
}

fn furnished(asked: &Asked<'_>) -> Result<()> {
    asked.namespace("furnished")?;
    let published = r"{.data.ca\.crt}";
    let begins = |data: &str| data.starts_with("-----BEGIN CERTIFICATE-----");
    asked.until("configmap kube-root-ca.crt -n furnished", published, begins)?;
    Ok(())
}

fn account_returns(asked: &Asked<'_>) -> Result<()> {
    asked.namespace("account")?;
    let account = "serviceaccount default -n account";
    let first = asked.field(account, "{.metadata.uid}")?;
    asked.tell(&format!("delete {account} --wait=false"))?;
    asked.until(account, "{.metadata.uid}", |uid| !uid.is_empty() && uid != first)?;
    Ok(())
}

fn background(asked: &Asked<'_>) -> Result<()> {
    asked.family("background")?;
    asked.config_map("background", "alone", None)?;
    asked.tell("delete configmap owner -n background --cascade=background")?;
    asked.until_gone("configmap one -n background")?;
    asked.until_gone("configmap other -n background")?;
    let alone = asked.field("configmap alone -n background", "{.metadata.uid}")?;
    ensure!(!alone.is_empty(), "an object without an owner is gone");
    Ok(())
}

fn foreground(asked: &Asked<'_>) -> Result<()> {
    asked.family("foreground")?;
    let held = r#"--patch={"metadata":{"finalizers":["example.com/held"]}}"#;
    asked.tell(&format!("patch configmap one -n foreground {held}"))?;
    asked.tell("delete configmap owner -n foreground --cascade=foreground --wait=false")?;
    asked.until_gone("configmap other -n foreground")?;
    asked.until("configmap one -n foreground", "{.metadata.deletionTimestamp}", |time| !time.is_empty())?;
    let waits = asked.field("configmap owner -n foreground", "{.metadata.finalizers}")?;
    ensure!(waits == r#"["foregroundDeletion"]"#, "the owner has the finalizers `{waits}`");
    asked.tell(r#"patch configmap one -n foreground --patch={"metadata":{"finalizers":null}}"#)?;
    asked.until_gone("configmap owner -n foreground")?;
    asked.until_gone("configmap one -n foreground")
}

fn orphans(asked: &Asked<'_>) -> Result<()> {
    asked.family("orphans")?;
    asked.tell("delete configmap owner -n orphans --cascade=orphan --wait=false")?;
    asked.until_gone("configmap owner -n orphans")?;
    for name in ["one", "other"] {
        let left =
            asked.field(&format!("configmap {name} -n orphans"), "{.metadata.uid}{.metadata.ownerReferences}")?;
        ensure!(!left.is_empty() && !left.contains('['), "{name} is left as `{left}`");
    }
    Ok(())
}

fn emptied(asked: &Asked<'_>) -> Result<()> {
    asked.namespace("emptied")?;
    asked.config_map("emptied", "plain", None)?;
    asked.create(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: held, namespace: emptied, finalizers: [example.com/held]}\n",
    )?;
    asked.tell("delete namespace emptied --wait=false")?;
    asked.until_gone("configmap plain -n emptied")?;
    let condition = r#"{.status.conditions[?(@.type=="NamespaceFinalizersRemaining")].message}"#;
    asked.until("namespace emptied", condition, |message| {
        message.contains("example.com/held in 1 resource instances")
    })?;
    ensure!(asked.field("namespace emptied", "{.status.phase}")? == "Terminating");
    asked.tell(r#"patch secret held -n emptied --patch={"metadata":{"finalizers":null}}"#)?;
    asked.until_gone("namespace emptied")
}

fn slices(asked: &Asked<'_>) -> Result<()> {
    asked.namespace("slices")?;
    asked.tell("create service clusterip web --tcp=80 -n slices")?;
    let slices = "endpointslices -n slices -l kubernetes.io/service-name=web";
    asked.until(slices, "{.items[*].addressType}", |families| families == "IPv4")?;
    asked.tell("delete service web -n slices")?;
    asked.until(slices, "{.items[*].metadata.name}", str::is_empty)?;
    Ok(())
}

fn range(asked: &Asked<'_>) -> Result<()> {
    asked.create(
        "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: extra}\nspec: {cidrs: [10.97.0.0/24]}\n",
    )?;
    let (extra, ready) = ("servicecidr extra", r#"{.status.conditions[?(@.type=="Ready")].status}"#);
    asked.until(extra, ready, |status| status == "True")?;
    let finalizers = asked.field(extra, "{.metadata.finalizers}")?;
    ensure!(finalizers == r#"["networking.k8s.io/service-cidr-finalizer"]"#, "the finalizers are `{finalizers}`");
    let entry = r#"{.metadata.managedFields[?(@.subresource=="status")]['manager','operation']}"#;
    let manager = asked.field(extra, entry)?;
    ensure!(manager == "service-cidr-controller Apply", "its status is managed by `{manager}`");

    let parent = "parentRef: {group: '', resource: services, namespace: default, name: somebody}";
    let label =
        "labels: {ipaddress.kubernetes.io/managed-by: ipallocator.k8s.io, ipaddress.kubernetes.io/ip-family: IPv4}";
    asked.create(&format!(
        "apiVersion: networking.k8s.io/v1\nkind: IPAddress\nmetadata: {{name: 10.97.0.7, {label}}}\nspec: {{{parent}}}\n"
    ))?;
    asked.tell("delete servicecidr extra --wait=false")?;
    asked.until(extra, ready, |status| status == "False")?;
    let reason = asked.field(extra, r#"{.status.conditions[?(@.type=="Ready")].reason}"#)?;
    ensure!(reason == "Terminating", "it is not ready because of `{reason}`");
    asked.tell("delete ipaddress 10.97.0.7")?;
    asked.until_gone(extra)
}
