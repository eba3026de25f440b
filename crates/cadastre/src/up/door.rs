//! What `cadastre up` serves besides the API: a copy of the store for its administrator.
//!
//! It is here and not in the API because it is about the file that the store is kept in, of which the API knows nothing.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use server::Server;
use server::access::{Attributes, User, authorize, files};
use server::front::{Body, Sender, Serve, Shutdown, status};
use store::Store;
use tempfile::TempPath;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tracing::info;

use crate::backup;

/// Backups at one time: each takes the room of the whole store in the data directory.
const BACKUPS: usize = 1;

/// The size of a piece on its way from the file to the client.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that wait for the client.
const PIECES: usize = 4;

/// The API, and the backup beside it.
pub(super) struct Door {
    server: Server,
    backups: Backups,
}

/// Makes backups of the store.
struct Backups {
    store: Store,
    scratch: PathBuf,
    places: Arc<Semaphore>,
}

/// A copy of the store that has no name any more: it is gone when it is sent, or when we are.
struct Backup {
    file: File,
    length: u64,
    _place: OwnedSemaphorePermit,
}

fn scratch_of(data_dir: &Path) -> PathBuf {
    data_dir.join("scratch")
}

/// Removes what a backup left behind that was cut short by the end of the process.
pub(super) fn clear_scratch(data_dir: &Path) -> Result<()> {
    let scratch = scratch_of(data_dir);
    match std::fs::remove_dir_all(&scratch) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", scratch.display()))
        }
        _ => Ok(()),
    }
}

impl Door {
    pub(super) fn new(server: Server, store: Store, data_dir: &Path) -> Self {
        Self { server, backups: Backups::new(store, data_dir) }
    }

    async fn backup(&self, method: &Method, user: &User) -> Response<Body> {
        let verb = method.as_str().to_ascii_lowercase();
        let asks = Attributes { verb: &verb, path: backup::PATH, ..Attributes::default() };
        if let Err(denied) = authorize(user, &asks) {
            return status::refused(&denied.into());
        }
        if method != Method::POST {
            let message = "the server does not allow this method on the requested resource";
            return status::failed(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        }
        let Some(copy) = self.backups.begin() else {
            let message = "another backup is being made; try again when it is done";
            return status::failed(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        };
        info!(user = user.name, "making a backup");
        match copy.await.context("it stopped").flatten() {
            Ok(copy) => send(copy),
            Err(error) => {
                let message = format!("the backup could not be made: {error:#}");
                status::failed(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
            }
        }
    }
}

impl Backups {
    fn new(store: Store, data_dir: &Path) -> Self {
        Self { store, scratch: scratch_of(data_dir), places: Arc::new(Semaphore::new(BACKUPS)) }
    }

    /// Begins a copy, if there is a place for it. It is a task of its own, which comes to its end and gives the place back
    /// also when the client has gone: a copy that was left alone halfway would stand in the way of the next one.
    fn begin(&self) -> Option<JoinHandle<Result<Backup>>> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (store, scratch) = (self.store.clone(), self.scratch.clone());
        Some(tokio::spawn(async move {
            files::make_folder(&scratch)?;
            // Removed however this ends.
            let name = TempPath::try_from_path(scratch.join("backup")).context("cannot name it")?;
            store.backup(&name).await?;
            let file = File::open(&name).context("cannot read it")?;
            name.close().context("cannot remove its name")?;
            let length = file.metadata().context("cannot read it")?.len();
            Ok(Backup { file, length, _place: place })
        }))
    }
}

impl Serve for Door {
    async fn serve(&self, request: Request<Incoming>, user: Arc<User>, shutdown: &Shutdown) -> Response<Body> {
        if request.uri().path() == backup::PATH {
            return self.backup(request.method(), &user).await;
        }
        self.server.serve(request, user, shutdown).await
    }
}

fn send(copy: Backup) -> Response<Body> {
    let (sender, body) = Body::channel(PIECES);
    let length = copy.length;
    tokio::task::spawn_blocking(move || pump(&copy.file, sender));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn pump(mut file: &File, sender: Sender) {
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        match file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return sender.blocking_break(error.to_string()),
        }
        if sender.blocking_send(Bytes::from(piece)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use store::embedded::Options;
    use store::{Txn, Write};
    use tempfile::TempDir;

    use super::*;

    fn left(scratch: &Path) -> usize {
        std::fs::read_dir(scratch).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn a_client_that_leaves_halfway_is_not_in_the_way_of_the_next() {
        let home = TempDir::new().unwrap();
        let store = Store::open(home.path(), Options::default()).unwrap();
        for number in 0..20 {
            let write = Write::Put { key: format!("a/{number}").into(), value: vec![b'x'; 1_000_000].into() };
            store.txn(Txn { compares: Vec::new(), writes: vec![write] }).await.unwrap();
        }
        let backups = Backups::new(store, home.path());
        let mut abandoned = backups.begin().unwrap();
        while left(&backups.scratch) == 0 {
            tokio::task::yield_now().await;
            // It came to its end while this test had to wait for its turn: another one is left halfway.
            if abandoned.is_finished() {
                drop(abandoned.await);
                abandoned = backups.begin().unwrap();
            }
        }
        drop(abandoned);
        assert!(backups.begin().is_none(), "it is still being made");
        drop(backups.places.acquire().await.unwrap());
        let copy = backups.begin().unwrap().await.unwrap().unwrap();
        assert!(copy.length > 20_000_000);
        assert_eq!(left(&backups.scratch), 0);
        assert!(backups.begin().is_none(), "it is not sent yet");
        drop(copy);
        assert!(backups.begin().is_some());
    }
}
