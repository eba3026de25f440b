//! The real whereabouts on a real kube-apiserver. Who asks it has a namespace, so that several who ask cannot meet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use testkit::real::{Etcd, KubeApiserver, Kubectl, Plugin};

use crate::parts::{Part, Parts};

/// What it needs.
pub(crate) const PARTS: [Part; 4] = [Part::Etcd, Part::KubeApiserver, Part::Kubectl, Part::Whereabouts];

/// whereabouts, and what it works with. Dropping it ends the servers.
pub(crate) struct Whereabouts {
    binary: PathBuf,
    kubectl: Kubectl,
    folder: PathBuf,
    server: KubeApiserver,
    _etcd: Etcd,
}

impl Whereabouts {
    /// Starts the servers and tells them whereabouts' kinds.
    pub(crate) fn start(parts: &Parts, folder: &Path) -> Result<Self> {
        let etcd = Etcd::start(&parts.binary(Part::Etcd), &folder.join("etcd"))?;
        let (server, kubectl) = (parts.binary(Part::KubeApiserver), parts.binary(Part::Kubectl));
        let server = KubeApiserver::start(&server, &kubectl, etcd.url(), &folder.join("apiserver"), &[])?;
        let kubectl = Kubectl::new(&kubectl, server.kubeconfig(), &folder.join("home"));
        let binary = parts.binary(Part::Whereabouts);
        let whereabouts = Self { binary, kubectl, folder: folder.to_path_buf(), server, _etcd: etcd };
        for file in parts.kept(Part::Whereabouts) {
            whereabouts.asked(&["create", "-f", &file.display().to_string()], "")?;
        }
        whereabouts.asked(&["wait", "--for=condition=Established", "crd", "--all"], "")?;
        Ok(whereabouts)
    }

    /// Makes namespaces, and what else is in `objects`.
    pub(crate) fn create(&self, namespaces: &[&str], objects: Vec<Value>) -> Result<()> {
        let namespace = |name: &&str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let items: Vec<Value> = namespaces.iter().map(namespace).chain(objects).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.asked(&["create", "-f", "-"], &list.to_string()).map(drop)
    }

    fn asked(&self, args: &[&str], input: &str) -> Result<String> {
        let said = self.kubectl.run_with_input(args, input)?;
        ensure!(said.success(), "kubectl {}: {}", args.join(" "), said.stderr);
        Ok(said.stdout)
    }

    /// A file that leads to one namespace of the server.
    pub(crate) fn kubeconfig(&self, namespace: &str) -> Result<PathBuf> {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server.url(), "certificate-authority": self.server.ca(),
            }}],
            "users": [{"name": "admin", "user": {"token": self.server.token()}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": namespace}}],
        });
        let path = self.folder.join(format!("{namespace}.kubeconfig"));
        fs::write(&path, text.to_string())?;
        Ok(path)
    }

    /// The plugin on a node.
    pub(crate) fn plugin(&self, node: &str) -> Plugin {
        Plugin::new(&self.binary).with("NODENAME", node)
    }

    /// What the `ipam` of a configuration needs to lead to a namespace; `flat` is the file that all networks share, without which
    /// whereabouts does nothing.
    pub(crate) fn ipam(&self, namespace: &str, flat: &Map<String, Value>) -> Result<Map<String, Value>> {
        let path = self.folder.join(format!("{namespace}.conf"));
        fs::write(&path, Value::from(flat.clone()).to_string())?;
        let kubernetes = json!({"kubeconfig": self.kubeconfig(namespace)?});
        let ipam = [("configuration_path", json!(path)), ("kubernetes", kubernetes), ("log_level", json!("error"))];
        Ok(ipam.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
    }

    /// The entries of an `IPPool`: the pods, by their offsets.
    pub(crate) fn entries(&self, namespace: &str, pool: &str) -> Result<BTreeMap<String, String>> {
        let text = self.asked(&["get", "ippool", pool, "-n", namespace, "-o", "json"], "")?;
        let tree: Value = serde_json::from_str(&text)?;
        let entries = tree["spec"]["allocations"].as_object().into_iter().flatten();
        let pod = |entry: &Value| entry["podref"].as_str().unwrap_or_default().to_owned();
        Ok(entries.map(|(offset, entry)| (offset.clone(), pod(entry))).collect())
    }

    /// The `OverlappingRangeIPReservation`s of a namespace.
    pub(crate) fn reservations(&self, namespace: &str) -> Result<Vec<String>> {
        self.names("overlappingrangeipreservations", namespace)
    }

    /// The `IPPool`s of a namespace.
    pub(crate) fn pools(&self, namespace: &str) -> Result<Vec<String>> {
        self.names("ippools", namespace)
    }

    fn names(&self, plural: &str, namespace: &str) -> Result<Vec<String>> {
        let names = self.asked(&["get", plural, "-n", namespace, "-o", "name"], "")?;
        let names = names.lines().filter_map(|line| line.split_once('/'));
        Ok(names.map(|(_, name)| name.to_owned()).collect())
    }
}

/// The `NodeSlicePool` that gives nodes their slices of a range.
pub(crate) fn slice_pool(namespace: &str, network: &str, range: &str, size: &str, given: &[(String, String)]) -> Value {
    let given = given.iter().map(|(node, slice)| json!({"nodeName": node, "sliceRange": slice}));
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "NodeSlicePool",
        "metadata": {"name": network, "namespace": namespace},
        "spec": {"range": range, "sliceSize": size},
        "status": {"allocations": given.collect::<Vec<_>>()},
    })
}
