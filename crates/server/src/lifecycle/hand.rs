//! `Hand`: how the lifecycle changes something: by requests, which are held against the same rules as everybody's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use store::{Entry, Store, What};

use super::place::{Place, collection};
use crate::access::{MASTERS, User};
use crate::front::Shutdown;
use crate::machinery::{Content, Failure, Machinery, Request, Resource};
use crate::registry::bootstrap::{concerns, is_first, restore};
use crate::registry::grants::Grant;
use crate::registry::{Surroundings, service_cidrs};

/// The user that the server itself is.
const USER: &str = "system:cadastre";

/// Who does upstream what is done here. Clients know the manager of these fields by that name.
const AGENT: &str = "kube-controller-manager";

/// Why a request was not done.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) code: StatusCode,
    pub(super) message: String,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message }
    }
}

impl Refused {
    /// Whether what was to be done is done, or no longer to be done, because of somebody else: the object is gone, is there
    /// already, has changed, or its namespace takes nothing in. If something is left to do, an event will say so.
    pub(super) fn is_lost_race(&self) -> bool {
        matches!(self.code, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::FORBIDDEN)
    }

    /// Whether the same request can succeed later.
    pub(super) fn passes(&self) -> bool {
        self.code.is_server_error() || self.code == StatusCode::TOO_MANY_REQUESTS
    }
}

/// Sends requests as the server itself.
#[derive(Clone)]
pub(super) struct Hand {
    machinery: Arc<Machinery>,
    user: Arc<User>,
    shutdown: Shutdown,
}

impl Hand {
    pub(super) fn new(machinery: Arc<Machinery>, shutdown: Shutdown) -> Self {
        let user = Arc::new(User::authenticated(USER, [MASTERS.to_owned()]));
        Self { machinery, user, shutdown }
    }

    pub(super) fn store(&self) -> &Store {
        &self.machinery.store
    }

    /// How long Events stay.
    pub(super) fn event_ttl(&self) -> Duration {
        self.machinery.config.event_ttl
    }

    /// The certificates by which clients in the cluster know the server; empty if it has none.
    pub(super) fn authority(&self) -> &str {
        &self.machinery.config.authority
    }

    pub(super) async fn create(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<(), Refused> {
        self.send(Method::POST, collection(resource, namespace), "application/json", object).await
    }

    pub(super) async fn replace(&self, place: &Place, part: &str, object: &Value) -> Result<(), Refused> {
        self.send(Method::PUT, place.path(part), "application/json", object).await
    }

    /// What writes are done in.
    pub(super) fn around(&self) -> &Surroundings {
        &self.machinery.around
    }

    /// Whether the server does what elsewhere is left to controllers.
    pub(super) fn is_tended(&self) -> bool {
        self.machinery.around.tended
    }

    /// Whether that is the address of `default/kubernetes`.
    pub(super) fn is_first(&self, grant: Grant) -> bool {
        is_first(&self.machinery.config, grant)
    }

    /// Whether what the command line says of ranges is to be looked at after this change.
    pub(super) fn concerns_ranges(&self, what: What, entry: &Entry) -> bool {
        service_cidrs::is_at(&entry.key) && concerns(&self.machinery.config, what, entry)
    }

    /// Makes again what is always there. Says why something of it cannot be made now, if it cannot.
    pub(super) async fn prepare(&self) -> Result<Option<String>, Refused> {
        restore(&self.machinery).await.map_err(Refused::from)
    }

    /// Changes an object by a merge patch.
    pub(super) async fn patch(&self, place: &Place, part: &str, patch: &Value) -> Result<(), Refused> {
        self.send(Method::PATCH, place.path(part), "application/merge-patch+json", patch).await
    }

    /// Deletes an object as those `DeleteOptions` say, and counts it under that reason.
    pub(super) async fn delete(&self, place: &Place, options: &Value, reason: &'static str) -> Result<(), Refused> {
        self.send(Method::DELETE, place.path(""), "application/json", options).await?;
        self.machinery.metrics.collected(reason);
        Ok(())
    }

    /// Shows how many namespaces are being emptied.
    pub(super) fn show_emptying(&self, count: usize) {
        self.machinery.metrics.emptying.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    async fn send(&self, method: Method, path: String, media: &'static str, body: &Value) -> Result<(), Refused> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        let body = Bytes::from(body.to_string());
        let user = Arc::clone(&self.user);
        let request = Request { method, path, query: String::new(), headers, body: body.clone(), user };
        let reply = self.machinery.answer(request, std::future::ready(Ok(body)), &self.shutdown).await;
        if reply.status.is_success() {
            return Ok(());
        }
        let message = match &reply.content {
            Content::Whole(bytes) => serde_json::from_slice::<Value>(bytes)
                .ok()
                .and_then(|status| status["message"].as_str().map(str::to_owned))
                .unwrap_or_default(),
            _ => String::new(),
        };
        Err(Refused { code: reply.status, message })
    }
}
