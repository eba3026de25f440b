//! Writes that have an end, made only while the Lease is held, and what came of them.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::lead::Term;

/// How much longer we wait for a write than the server may take for it.
const GRACE: Duration = Duration::from_secs(2);

/// Anything: what is answered to a write, and not looked at.
#[derive(Clone, Deserialize)]
pub struct Anything {}

/// A write that should be made.
pub struct Asked {
    method: Method,
    path: String,
    media: &'static str,
    body: Vec<u8>,
}

impl Asked {
    /// A request with a body of that media type.
    pub fn new(method: Method, path: String, media: &'static str, body: &Value) -> Self {
        Self { method, path, media, body: body.to_string().into_bytes() }
    }

    /// As it is sent. The server gives up after that time, so that nothing is written long after we did.
    fn request(self, manager: &str, timeout: Duration) -> Result<Request<Vec<u8>>, http::Error> {
        Request::builder()
            .method(self.method)
            .uri(format!("{}?fieldManager={manager}&timeout={}ms", self.path, timeout.as_millis()))
            .header(http::header::CONTENT_TYPE, self.media)
            // What was written is not looked at: the watch shows it.
            .header(
                http::header::ACCEPT,
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
            )
            .body(self.body)
    }
}

/// Why a write was not made.
#[derive(Debug)]
pub enum Refused {
    /// What should have been written to is not there, or is another one.
    Gone,
    /// Somebody else wrote first, or the name is taken.
    Conflict(String),
    /// It was refused, or nobody knows.
    Failed(String),
}

/// Makes writes.
#[derive(Clone)]
pub struct Writer {
    /// Of which server.
    pub client: Client,
    /// How long.
    pub term: Term,
    /// How long the server may take.
    pub timeout: Duration,
    /// Who writes, in `managedFields`.
    pub manager: &'static str,
}

impl Writer {
    /// Writes, and says what was answered.
    pub async fn ask<T: DeserializeOwned>(&self, asked: Asked) -> Result<T, Refused> {
        let request = asked.request(self.manager, self.timeout).map_err(|error| Refused::Failed(error.to_string()))?;
        if !self.term.holds() {
            return Err(Refused::Failed("the Lease is not held any more".to_owned()));
        }
        match timeout(self.timeout + GRACE, self.client.request::<T>(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Refused::Gone),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Refused::Conflict(status.message)),
            Ok(Err(kube::Error::Api(status))) => Err(Refused::Failed(status.message)),
            Ok(Err(error)) => Err(Refused::Failed(error.to_string())),
            Err(_) => Err(Refused::Failed("no answer in time".to_owned())),
        }
    }

    /// What is at a path, if anything.
    pub async fn look(&self, path: &str) -> Result<Option<Value>, kube::Error> {
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let answer = timeout(self.timeout + GRACE, self.client.request::<Value>(request));
        match answer.await.map_err(|late| kube::Error::Service(late.into()))? {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}
