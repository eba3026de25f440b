//! A server that tends its store, and waiting for what it does.

use std::ops::Deref;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};
use server::Config;
use server::access::pki::Pki;

use crate::fixture::{Answer, CONFIG_MAPS, Fixture};

/// A server that tends its store.
pub(crate) struct Tended(Fixture);

impl Deref for Tended {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

/// The certificate of an authority that is there for these tests.
pub(crate) static AUTHORITY: LazyLock<String> = LazyLock::new(authority);

/// The certificate of a new authority.
pub(crate) fn authority() -> String {
    let folder = tempfile::tempdir().unwrap();
    Pki::open(folder.path(), SystemTime::now()).unwrap().authority().to_owned()
}

pub(crate) fn config() -> Config {
    Config { authority: AUTHORITY.clone(), ..Config::default() }
}

impl Tended {
    pub(crate) async fn new() -> Self {
        Self::with(config(), store::embedded::Options::default()).await
    }

    pub(crate) async fn with(config: Config, options: store::embedded::Options) -> Self {
        let tended = Self(Fixture::with(config, options).await);
        tended.tend();
        tended
    }

    /// Tends the store; once more, if it is tended already.
    pub(crate) fn tend(&self) {
        tokio::spawn(self.server.tend(self.trigger.shutdown()));
    }

    /// Waits until the answer at a URL is as it should be.
    pub(crate) async fn until(&self, url: &str, right: impl Fn(&Answer) -> bool) -> Answer {
        until(&self.0, url, right).await
    }

    /// Waits until there is nothing at a URL.
    pub(crate) async fn gone(&self, url: &str) {
        self.until(url, |answer| answer.code == 404).await;
    }

    /// Waits until there is something at a URL.
    pub(crate) async fn there(&self, url: &str) -> Value {
        self.until(url, |answer| answer.code == 200).await.json()
    }

    /// Waits until everything that happened before was looked at: tasks come in order, and this one is seen to be done.
    pub(crate) async fn calm(&self) {
        let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
        let body = json!({"metadata": {"generateName": "calm-", "ownerReferences": [none]}});
        let made = self.post(CONFIG_MAPS, &body).await.expect(201);
        self.gone(&format!("{CONFIG_MAPS}/{}", made["metadata"]["name"].as_str().unwrap())).await;
    }

    /// Makes a `ConfigMap` in `default` with those owners.
    pub(crate) async fn owned(&self, name: &str, owners: &[Value]) -> Value {
        let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
        self.post(CONFIG_MAPS, &body).await.expect(201)
    }

    /// Deletes a `ConfigMap` of `default` with that policy.
    pub(crate) async fn delete_with(&self, name: &str, policy: &str) -> Answer {
        self.send(Method::DELETE, &format!("{}?propagationPolicy={policy}", at(name)), &[], "").await
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) {
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.expect(201);
    }
}

/// Waits until the answer of a server at a URL is as it should be, whichever server makes it so.
pub(crate) async fn until(fixture: &Fixture, url: &str, right: impl Fn(&Answer) -> bool) -> Answer {
    let store = fixture.server.store();
    let mut watch = store.watch("", store.revision()).unwrap();
    loop {
        let answer = fixture.get(url).await;
        if right(&answer) {
            return answer;
        }
        let change = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
        let change = change.unwrap_or_else(|_| panic!("{url} stays as it is: {}", answer.text()));
        if change.is_err() {
            // A store that cuts off the slow cuts off this watch too. What it missed is in the next answer.
            watch = store.watch("", store.revision()).unwrap();
        }
    }
}

/// Where a `ConfigMap` of `default` is.
pub(crate) fn at(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

/// A reference to an object.
pub(crate) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
    })
}

/// A reference to an object that is not to go before whoever refers to it.
pub(crate) fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}
