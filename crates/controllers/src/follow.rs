//! Follows what is there: lists it, then watches it, and lists it again when the watch cannot go on.

use std::time::Duration;

use futures_util::StreamExt;
use http::Request;
use http::header::ACCEPT;
use kube::Client;
use kube::core::WatchEvent;
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;

use crate::trouble::Trouble;

/// How long to wait after something failed, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long one page may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many objects are asked for at once, first and at most, and how many bytes they should come to: little is kept of them, and
/// what is needed to read them stays with us.
const FIRST_PAGE: usize = 50;
const LARGEST_PAGE: usize = 5_000;
const PAGE_BYTES: usize = 1 << 17;

/// How many seconds one watch lasts; then it goes on with another.
const WATCH_SECONDS: u64 = 290;
/// How long the end of a watch is waited for after that. A server that went away while nothing could be sent ends nothing, and who only
/// listens does not notice.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// An object as it is read, of which not all is kept.
pub trait Revisioned: Clone + DeserializeOwned + Send + 'static {
    /// What is kept of it.
    type Kept: Send + 'static;
    /// Whether only the metadata is asked for: of objects that are large, and change often for reasons that do not matter here.
    const IS_PARTIAL: bool = false;
    /// Its revision.
    fn revision(&self) -> &str;
    /// What is kept of it.
    fn keep(self) -> Self::Kept;
}

impl Revisioned for Value {
    type Kept = Self;

    fn revision(&self) -> &str {
        self["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    fn keep(self) -> Self {
        self
    }
}

/// The name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    /// About the list.
    metadata: PageMetadata,
    /// The objects; some servers say null for none.
    items: Option<Vec<T>>,
}

/// About a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    /// The revision that it shows.
    #[serde(default)]
    resource_version: String,
    /// Where the next page begins; nothing after the last.
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// What is there.
#[derive(Debug)]
pub enum Change<T> {
    /// All of it.
    All(Vec<T>),
    /// One of it, as it is now.
    One(T),
    /// One that is gone, as it was last.
    Gone(T),
}

/// What to do when the path is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Try again: it will be.
    Wait,
    /// There is nothing of it.
    Empty,
}

/// Where changes go.
pub struct Line<M> {
    /// Who takes them in.
    pub changes: Sender<M>,
    /// Times that a change had to wait because as many waited to be taken in as may.
    pub full: Counter,
}

impl<M> Clone for Line<M> {
    fn clone(&self) -> Self {
        Self { changes: self.changes.clone(), full: self.full.clone() }
    }
}

impl<M> Line<M> {
    /// Passes a change on; whether somebody listens.
    async fn send(&self, change: M) -> bool {
        if self.changes.capacity() == 0 {
            self.full.inc();
        }
        self.changes.send(change).await.is_ok()
    }
}

/// Why something could not be read, for people.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the server does not have it (our kinds come with `cadastre manifests crds`)".to_owned()
        }
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// Follows what is at a path until nobody listens any more. The path may end in a query that selects some of it.
pub async fn follow<T: Revisioned, M>(
    client: Client,
    path: String,
    absent: Absent,
    line: Line<M>,
    message: impl Fn(Change<T::Kept>) -> M,
) {
    let mut pause = FIRST_PAUSE;
    let mut trouble = Trouble::new(&path);
    while !line.changes.is_closed() {
        match list::<T>(&client, &path).await {
            Ok((items, revision)) => {
                trouble.is_over();
                pause = FIRST_PAUSE;
                if !line.send(message(Change::All(items))).await {
                    return;
                }
                watch::<T, M>(&client, &path, revision, &line, &message).await;
            }
            Err(kube::Error::Api(status)) if status.code == 404 && absent == Absent::Empty => {
                if !line.send(message(Change::All(Vec::new()))).await {
                    return;
                }
                pause = LONGEST_PAUSE;
            }
            Err(error) => trouble.is(&said(&error)),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What is kept of everything at a path, and the revision that it is at.
pub async fn list<T: Revisioned>(client: &Client, path: &str) -> Result<(Vec<T::Kept>, String), kube::Error> {
    let (mut items, mut limit, mut next) = (Vec::new(), FIRST_PAGE, String::new());
    loop {
        let request = list_request(path, T::IS_PARTIAL, limit, &next).map_err(kube::Error::HttpError)?;
        let text = timeout(PATIENCE, client.request_text(request)).await;
        let text = text.map_err(|late| kube::Error::Service(late.into()))??;
        let page: Page<T> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let read = page.items.unwrap_or_default();
        // Nodes of different clusters are of very different sizes.
        limit = (PAGE_BYTES * read.len().max(1) / text.len().max(1)).clamp(FIRST_PAGE, LARGEST_PAGE);
        items.extend(read.into_iter().map(T::keep));
        next = page.metadata.next.unwrap_or_default();
        if next.is_empty() {
            return Ok((items, page.metadata.resource_version));
        }
    }
}

/// Watches from a revision on, over any number of connections, until the server does not remember the revision.
async fn watch<T: Revisioned, M>(
    client: &Client,
    path: &str,
    mut revision: String,
    line: &Line<M>,
    message: &impl Fn(Change<T::Kept>) -> M,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Ok(request) = watch_request(path, T::IS_PARTIAL, &revision) else { return };
        let begun_at = Instant::now();
        let over = begun_at + Duration::from_secs(WATCH_SECONDS) + WATCH_GRACE;
        let begun = timeout(PATIENCE, client.request_events::<T>(request)).await;
        match begun.unwrap_or_else(|late| Err(kube::Error::Service(late.into()))) {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                while let Ok(Some(event)) = timeout_at(over, events.next()).await {
                    let (object, is_there) = match event {
                        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, true),
                        Ok(WatchEvent::Deleted(object)) => (object, false),
                        Ok(WatchEvent::Bookmark(bookmark)) => {
                            revision = bookmark.metadata.resource_version;
                            continue;
                        }
                        Ok(WatchEvent::Error(status)) if status.code == 410 => return,
                        Ok(WatchEvent::Error(_)) | Err(_) => break,
                    };
                    pause = FIRST_PAUSE;
                    object.revision().clone_into(&mut revision);
                    let kept = object.keep();
                    let change = if is_there { Change::One(kept) } else { Change::Gone(kept) };
                    if !line.send(message(change)).await {
                        return;
                    }
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 || status.code == 404 => return,
            Err(error) => debug!(path, %error, "could not be watched"),
        }
        if line.changes.is_closed() {
            return;
        }
        // A watch that lasted ended because its time was over: nothing was wrong, however little it told.
        if begun_at.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

type Read = Result<Request<Vec<u8>>, http::Error>;

fn list_request(path: &str, is_partial: bool, limit: usize, next: &str) -> Read {
    let next = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(next)) };
    let accept = accept(is_partial, "PartialObjectMetadataList");
    Request::get(format!("{path}{}limit={limit}{next}", joint(path))).header(ACCEPT, accept).body(Vec::new())
}

fn watch_request(path: &str, is_partial: bool, revision: &str) -> Read {
    let url = format!(
        "{path}{}watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
        joint(path),
        encoded(revision)
    );
    Request::get(url).header(ACCEPT, accept(is_partial, "PartialObjectMetadata")).body(Vec::new())
}

/// What is wanted: the whole of it, or if the server can the metadata alone.
fn accept(is_partial: bool, kind: &str) -> String {
    let partial = if is_partial { format!("application/json;as={kind};v=v1;g=meta.k8s.io,") } else { String::new() };
    format!("{partial}application/json")
}

/// What stands between a path and what is asked for besides.
fn joint(path: &str) -> char {
    if path.contains('?') { '&' } else { '?' }
}

/// A value in a query.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
