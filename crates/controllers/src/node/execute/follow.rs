//! Follows what is there: lists it, then watches it, and lists it again when the watch cannot go on.

use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use kube::core::WatchEvent;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::wire::{self, Page, Revisioned};

/// How long to wait after something failed, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long one page may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is there.
#[derive(Debug)]
pub(super) enum Change<T> {
    /// All of it.
    All(Vec<T>),
    /// One of it, as it is now.
    One(T),
    /// One that is gone, as it was last.
    Gone(T),
}

/// What to do when the path is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// Try again: it will be.
    Wait,
    /// There is nothing of it.
    Empty,
}

/// Follows what is at a path until nobody listens any more.
pub(super) async fn follow<T: Revisioned, M>(
    client: Client,
    path: &'static str,
    absent: Absent,
    listener: Sender<M>,
    message: impl Fn(Change<T>) -> M,
) {
    let mut pause = FIRST_PAUSE;
    while !listener.is_closed() {
        match list::<T>(&client, path).await {
            Ok((items, revision)) => {
                pause = FIRST_PAUSE;
                if listener.send(message(Change::All(items))).await.is_err() {
                    return;
                }
                watch(&client, path, revision, &listener, &message).await;
            }
            Err(kube::Error::Api(status)) if status.code == 404 && absent == Absent::Empty => {
                if listener.send(message(Change::All(Vec::new()))).await.is_err() {
                    return;
                }
                pause = LONGEST_PAUSE;
            }
            Err(error) => debug!(path, %error, "could not be listed"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Everything at a path, and the revision that it is at.
pub(super) async fn list<T: Revisioned>(client: &Client, path: &str) -> Result<(Vec<T>, String), kube::Error> {
    let (mut items, mut next) = (Vec::new(), String::new());
    loop {
        let request = wire::list(path, &next).map_err(kube::Error::HttpError)?;
        let page: Page<T> =
            timeout(PATIENCE, client.request(request)).await.map_err(|late| kube::Error::Service(late.into()))??;
        items.extend(page.items.unwrap_or_default());
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
    listener: &Sender<M>,
    message: &impl Fn(Change<T>) -> M,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Ok(request) = wire::watch(path, &revision) else { return };
        match client.request_events::<T>(request).await {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                while let Some(event) = events.next().await {
                    let change = match event {
                        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Change::One(object),
                        Ok(WatchEvent::Deleted(object)) => Change::Gone(object),
                        Ok(WatchEvent::Bookmark(bookmark)) => {
                            revision = bookmark.metadata.resource_version;
                            continue;
                        }
                        Ok(WatchEvent::Error(status)) if status.code == 410 => return,
                        Ok(WatchEvent::Error(_)) | Err(_) => break,
                    };
                    pause = FIRST_PAUSE;
                    if let Change::One(object) | Change::Gone(object) = &change {
                        revision = object.revision().to_owned();
                    }
                    if listener.send(message(change)).await.is_err() {
                        return;
                    }
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 || status.code == 404 => return,
            Err(error) => debug!(path, %error, "could not be watched"),
        }
        if listener.is_closed() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
