//! The agent's connection as the plugin's way to the API server: what is owed to shared pools is settled by the same code, whoever does.
//! It waits for each answer, so it is used where waiting does no harm.

use std::time::Duration;

use cni::api::{Answer, Verb, Way};
use cni::failure::{Code, Failure};
use http::{Request, header};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Nobody is kept waiting by what is owed, so there is time; but an agent that ends waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Waiting {
    pub(super) client: Client,
    pub(super) runtime: Handle,
}

impl Way for Waiting {
    fn send(&mut self, verb: Verb, path: &str, body: &Value) -> Result<Answer, Failure> {
        let unsent = |error: &dyn std::fmt::Display| {
            Failure::new(Code::TryLater, format!("the API server cannot be reached: {error}"))
        };
        let (method, content_type) = verb.of_http();
        let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
        let mut bytes = Vec::new();
        if verb != Verb::Get {
            request = request.header(header::CONTENT_TYPE, content_type);
            bytes = body.to_string().into_bytes();
        }
        let request = request.body(Body::from(bytes)).map_err(|error| unsent(&error))?;
        let answered = self.runtime.block_on(timeout(PATIENCE, async {
            let (head, body) = self.client.send(request).await?.into_parts();
            Ok::<_, kube::Error>(Answer { status: head.status.as_u16(), body: body.collect_bytes().await?.to_vec() })
        }));
        let answer = answered.map_err(|late| unsent(&late))?.map_err(|error| unsent(&error))?;
        if answer.status == 429 || answer.status >= 500 {
            return Err(unsent(&format!("it says {}", answer.status)));
        }
        Ok(answer)
    }
}
