//! A socket on the node through which the plugin reaches the API server: plain HTTP, passed on over the connection that the agent has
//! anyway. The plugin is a new process for every pod, and would spend more time on a connection of its own than on its request.
//!
//! Only whereabouts' objects can be reached, and only by who may open the socket: the user that the agent runs as. What many plugins ask
//! for at the same time goes as one request (`combine`); apart from that, what is asked and answered is not looked at.

mod combine;

use std::convert::Infallible;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::InvalidUri;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use kube::client::Body;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::debug;

use self::combine::{Answer, Call, Lines, Refusal};
use crate::meters::Meters;

/// The socket in the state directory.
pub const SOCKET: &str = cni::api::AGENT_SOCKET;
/// What may be reached.
const PREFIX: &str = "/apis/whereabouts.cni.cncf.io/v1alpha1/";
/// How many connections there may be at one time; more wait.
const CONNECTIONS: usize = 64;
/// How long a client may take for its request.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take. The plugin must not be gone by then: it would ask the server itself, and that would be asked twice.
const PATIENCE: Duration = cni::api::AGENT_PATIENCE.saturating_sub(Duration::from_millis(500));
/// How large a request and an answer may be.
const LARGEST_REQUEST: usize = 4 << 20;
const LARGEST_ANSWER: usize = 16 << 20;
/// What is passed on of the heads of requests and answers.
const REQUEST_HEADERS: [HeaderName; 2] = [header::ACCEPT, header::CONTENT_TYPE];
const ANSWER_HEADERS: [HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum RelayError {
    /// Somebody listens there.
    #[error("another agent serves {}; stop it, or give this one another --state-dir", .0.display())]
    Taken(PathBuf),
    /// The system refused.
    #[error("cannot make the socket {}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens in a state directory. A socket that nobody listens on any more is replaced.
pub async fn listen(state_dir: &Path) -> Result<UnixListener, RelayError> {
    let (path, new) = (state_dir.join(SOCKET), state_dir.join(format!("{SOCKET}.new")));
    if UnixStream::connect(&path).await.is_ok() {
        return Err(RelayError::Taken(path));
    }
    // It takes its name when nobody else can open it any more.
    let made = (|| {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&new)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, &path)?;
        Ok(listener)
    })();
    made.map_err(|source| RelayError::Io { path, source })
}

/// Passes requests on until the task is dropped.
pub async fn serve(listener: UnixListener, client: Client, meters: Meters) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let lines = Lines::new(PATIENCE, move |call| send(client.clone(), call));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (lines, meters) = (Arc::clone(&lines), meters.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let (lines, meters) = (&lines, &meters);
                async move {
                    let passed = async { lines.pass(call(request).await?).await };
                    Ok::<_, Infallible>(answer(passed.await, meters))
                }
            });
            let mut server = http1::Builder::new();
            let server = server.timer(TokioTimer::new()).header_read_timeout(CLIENT_PATIENCE).max_buf_size(64 * 1024);
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

fn answer(answer: Answer, meters: &Meters) -> Response<Full<Bytes>> {
    meters.relayed(answer.is_ok());
    answer.unwrap_or_else(|(status, why)| {
        let mut response = Response::new(Full::from(format!("{why}\n")));
        *response.status_mut() = status;
        response
    })
}

/// Reads a request, if it may be passed on.
async fn call(request: Request<Incoming>) -> Result<Call, Refusal> {
    let (parts, body) = request.into_parts();
    if !is_allowed(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default()) {
        return Err((StatusCode::FORBIDDEN, format!("only what is below {PREFIX} is passed on, and no watches")));
    }
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let body = timeout(CLIENT_PATIENCE, Limited::new(body, LARGEST_REQUEST).collect()).await;
    let body = body.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the request does not end".to_owned()))?;
    let body = body.map_err(|error| (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?.to_bytes();
    Ok(Call { method: parts.method, target, headers: copy(&parts.headers, &REQUEST_HEADERS), body })
}

/// Passes a request on.
async fn send(client: Client, call: Call) -> Answer {
    let mut passed = Request::new(Body::from(call.body));
    *passed.method_mut() = call.method;
    *passed.uri_mut() =
        call.target.parse().map_err(|error: InvalidUri| (StatusCode::BAD_REQUEST, error.to_string()))?;
    *passed.headers_mut() = call.headers;
    let unreachable =
        |error: &dyn std::error::Error| (StatusCode::BAD_GATEWAY, format!("the API server cannot be reached: {error}"));
    let (head, body) = client.send(passed).await.map_err(|error| unreachable(&error))?.into_parts();
    let body = Limited::new(body, LARGEST_ANSWER).collect().await;
    let body = body.map_err(|error| (StatusCode::BAD_GATEWAY, format!("the answer is not whole: {error}")))?.to_bytes();
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = copy(&head.headers, &ANSWER_HEADERS);
    Ok(response)
}

fn is_allowed(method: &Method, path: &str, query: &str) -> bool {
    let is_below =
        path.starts_with(PREFIX) && !path.split('/').any(|part| matches!(part, "." | "..")) && !path.contains('%');
    let is_watch = query.split('&').any(|pair| pair.split('=').next() == Some("watch"));
    is_below && !is_watch && *method != Method::CONNECT
}

/// What is passed on of a head.
fn copy(from: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    names.iter().filter_map(|name| Some((name.clone(), from.get(name)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whereabouts_objects_are_reached() {
        let pools = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools";
        assert!(is_allowed(&Method::GET, pools, "limit=5") && is_allowed(&Method::PATCH, pools, ""));
        for (path, query) in [
            ("/api/v1/secrets", ""),
            ("/apis/whereabouts.cni.cncf.io/v1alpha1/../../../api/v1/secrets", ""),
            ("/apis/whereabouts.cni.cncf.io/v1alpha1/%2e%2e/secrets", ""),
            ("/apis/whereabouts.cni.cncf.io/v1alpha1", ""),
            (pools, "watch=true"),
            (pools, "limit=5&watch"),
        ] {
            assert!(!is_allowed(&Method::GET, path, query), "{path}?{query}");
        }
    }

    #[tokio::test]
    async fn a_socket_that_nobody_serves_is_replaced_and_one_that_is_served_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let listener = listen(folder.path()).await.unwrap();
        let mode = fs::metadata(folder.path().join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(listen(folder.path()).await, Err(RelayError::Taken(_))));
        drop(listener);
        listen(folder.path()).await.unwrap();
    }
}
