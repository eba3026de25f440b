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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
    store: Store,
    scratch: PathBuf,
    places: Arc<Semaphore>,
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
        Self { server, store, scratch: scratch_of(data_dir), places: Arc::new(Semaphore::new(BACKUPS)) }
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
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let message = "another backup is being made; try again when it is done";
            return status::failed(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        };
        info!(user = user.name, "making a backup");
        match self.copy().await {
            Ok((file, length)) => send(file, length, place),
            Err(error) => {
                let message = format!("the backup could not be made: {error:#}");
                status::failed(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
            }
        }
    }

    /// A copy of the store that has no name any more: it is gone when it is sent, or when we are.
    async fn copy(&self) -> Result<(File, u64)> {
        files::make_folder(&self.scratch)?;
        let path = self.scratch.join("backup");
        self.store.backup(&path).await?;
        let file = File::open(&path).context("cannot read it")?;
        std::fs::remove_file(&path).context("cannot remove its name")?;
        let length = file.metadata().context("cannot read it")?.len();
        Ok((file, length))
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

fn send(file: File, length: u64, place: OwnedSemaphorePermit) -> Response<Body> {
    let (sender, body) = Body::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        pump(file, sender);
        drop(place);
    });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn pump(mut file: File, sender: Sender) {
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
