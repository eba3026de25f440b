//! What a check has to work with: a namespace of its own, and clients whose connections nobody else uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::time::sleep;

use crate::host::{Host, Order};

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) namespace: String,
    /// Goes through the wire.
    pub(crate) wired: Client,
    /// Go straight to each of the replicas.
    pub(crate) direct: Vec<Client>,
}

impl World {
    pub(crate) async fn new(order: &Order, host: Host) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let wired = client(order, &order.wire).await?;
        let mut direct = Vec::new();
        for server in &order.servers {
            direct.push(client(order, server).await?);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        let namespace = format!("kube-rs-{now}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let named = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let object = Namespace { metadata: named, ..Namespace::default() };
        Api::all(wired.clone()).create(&PostParams::default(), &object).await?;
        Ok(Self { host, namespace, wired, direct })
    }

    /// `ConfigMaps` of the namespace, through the wire.
    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.wired.clone(), &self.namespace)
    }

    /// The same on the replica with that number, counted round.
    pub(crate) fn maps_on(&self, replica: usize) -> Api<ConfigMap> {
        Api::namespaced(self.direct[replica % self.direct.len()].clone(), &self.namespace)
    }
}

/// A client of the server at an address.
pub(crate) async fn client(order: &Order, address: &str) -> Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{address}"), "certificate-authority": order.authority}}],
        "users": [{"name": "u", "user": {"token": order.token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }))?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

/// A `ConfigMap` with a name and one datum.
pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// Waits until something holds, which whoever called limits in time.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        sleep(BETWEEN_LOOKS).await;
    }
}

/// The status of a refusal.
pub(crate) fn code<T: std::fmt::Debug>(came: Result<T, kube::Error>) -> Result<(u16, String)> {
    match came {
        Err(kube::Error::Api(status)) => Ok((status.code, status.reason)),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}
