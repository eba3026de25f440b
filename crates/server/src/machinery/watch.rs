//! Watching: events from a revision on, as lines of JSON or frames of protobuf that go out while they happen.
//!
//! The stream is polled by the connection, so a client that does not read stops it; what then waits for it is bounded by
//! the store, which cuts off a watcher that falls too far behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::{Errors, Path};
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use store::{Ended, Entry, Event, Range, RangeError, Revision, Store, Watch, What};
use tokio::time::Instant;

use super::Watching;
use super::catalog::Resource;
use super::failure::Failure;
use super::list::{fresh, parse_revision};
use super::negotiate::{self, Encoding, Form, Wanted};
use super::protobuf;
use super::query::Query;
use super::reply::{Content, Reply};
use super::select::Selection;
use super::show::{self, Include, Stored};
use crate::front::Shutdown;

/// How often a watch that sees nothing is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long before the end of a watch it is told once more how far it is.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts if the client does not say; it is up to twice as long, so that not all end at once.
const SHORTEST_DEFAULT: Duration = Duration::from_mins(30);
/// The longest that a watch lasts, whatever the client says: more than anybody waits, and less than a clock can count.
const LONGEST: Duration = Duration::from_hours(24 * 365);
/// How much is sent in one piece, and the rest of the event that goes beyond it.
const PIECE_BYTES: usize = 256 * 1024;

/// Starts a watch.
#[expect(clippy::too_many_arguments, reason = "they are the parts of one request")]
pub(crate) async fn start(
    store: &Store,
    resource: &'static Resource,
    selection: Selection,
    query: &Query,
    wanted: Wanted,
    include: Include,
    shutdown: Shutdown,
    watching: Watching,
) -> Result<Reply, Failure> {
    let encoding = negotiate::streamed(wanted)?;
    check(query)?;
    let lasts = match query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()) {
        None | Some(0) => SHORTEST_DEFAULT + spread(SHORTEST_DEFAULT),
        Some(seconds) => Duration::from_secs(seconds).min(LONGEST),
    };
    let version = query.get("resourceVersion");
    let bookmarks = query.flag("allowWatchBookmarks");
    let send_initial = query.optional_flag("sendInitialEvents");
    let mut initial = VecDeque::new();
    let mut ends_initial = false;
    let after = match (send_initial, version) {
        // Streaming the state and, with bookmarks, saying where it ends.
        (Some(true), _) => {
            match version {
                "" => drop(store.settle().await?),
                "0" => {}
                text => fresh(store, revision(text)?).await?,
            }
            ends_initial = bookmarks;
            snapshot(store, &selection, &mut initial).await?
        }
        (Some(false), "" | "0") => store.settle().await?,
        (None, "") => {
            store.settle().await?;
            snapshot(store, &selection, &mut initial).await?
        }
        (None, "0") => snapshot(store, &selection, &mut initial).await?,
        (_, text) => revision(text)?,
    };
    let mut lost = None;
    let watch = match store.watch(&selection.prefix, after) {
        Ok(watch) => Some(watch),
        Err(RangeError::Compacted { oldest }) => {
            lost = Some(Failure::expired(format!("too old resource version: {after} ({oldest})")));
            None
        }
        Err(RangeError::Future { .. }) => {
            fresh(store, after).await?;
            store.watch(&selection.prefix, after).ok()
        }
        Err(RangeError::Store(error)) => return Err(error.into()),
    };
    let now = Instant::now();
    let stream = Streaming {
        resource,
        selection,
        form: wanted.form,
        encoding,
        include,
        headed: false,
        watch,
        initial,
        taken: VecDeque::new(),
        ends_initial: ends_initial.then_some(after),
        lost,
        bookmarks,
        told: after,
        after,
        next_bookmark: now + BOOKMARK_EVERY.min(lasts.saturating_sub(BOOKMARK_BEFORE_END)),
        end: now + lasts,
        shutdown,
        _watching: watching,
    };
    let pieces = futures_util::stream::unfold(Some(stream), |stream| async move {
        let mut stream = stream?;
        let piece = stream.piece().await?;
        Some((Ok(piece), (!stream.is_over()).then_some(stream)))
    });
    let media = if encoding == Encoding::Protobuf { protobuf::WATCH_MEDIA_TYPE } else { encoding.media_type() };
    Ok(Reply::new(StatusCode::OK, media, Content::Live(Box::pin(pieces))))
}

/// Reads the `resourceVersion` of a watch. Clients know its fault without a reason.
fn revision(text: &str) -> Result<Revision, Failure> {
    parse_revision(text).map_err(|why| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", why.to_string()))
}

/// A part of that time that differs from watch to watch.
fn spread(time: Duration) -> Duration {
    let mut byte = [0_u8; 2];
    // Without random bits all watches last equally long, which is allowed too.
    let _ = getrandom::fill(&mut byte);
    time.mul_f64(f64::from(u16::from_le_bytes(byte)) / f64::from(u16::MAX))
}

/// Refuses options that do not go together.
fn check(query: &Query) -> Result<(), Failure> {
    let mut errors = Errors::new();
    let field = Path::new("resourceVersionMatch");
    let wanted = query.get("resourceVersionMatch");
    let initial = query.has("sendInitialEvents");
    if initial && wanted != "NotOlderThan" {
        errors.forbidden(&field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if !wanted.is_empty() {
        if !initial {
            errors
                .forbidden(&field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if wanted != "NotOlderThan" {
            errors.not_supported(&field, &json!(wanted), &["NotOlderThan"]);
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(&field, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid_options("ListOptions", &errors)) }
}

/// The state that a watch begins with, and its revision.
async fn snapshot(
    store: &Store,
    selection: &Selection,
    initial: &mut VecDeque<Arc<Entry>>,
) -> Result<Revision, Failure> {
    let range = Range { prefix: &selection.prefix, ..Range::default() };
    match store.range(range).await {
        Ok(page) => {
            initial.extend(page.entries);
            Ok(page.revision)
        }
        Err(RangeError::Store(error)) => Err(error.into()),
        Err(_) => Err(Failure::internal("the newest state of the store could not be read")),
    }
}

struct Streaming {
    resource: &'static Resource,
    selection: Selection,
    form: Form,
    encoding: Encoding,
    include: Include,
    /// Whether the columns of a table were sent: only the first event has them.
    headed: bool,
    watch: Option<Watch>,
    initial: VecDeque<Arc<Entry>>,
    /// Events that were taken from the watch and are still to be sent. They are shared with all who watch.
    taken: VecDeque<Arc<Event>>,
    /// The revision of the initial state, until its end was told.
    ends_initial: Option<Revision>,
    /// Why there is no watch.
    lost: Option<Failure>,
    bookmarks: bool,
    /// The revision that the client was told last.
    told: Revision,
    /// Events up to here are not sent.
    after: Revision,
    next_bookmark: Instant,
    end: Instant,
    shutdown: Shutdown,
    _watching: Watching,
}

impl Streaming {
    fn is_over(&self) -> bool {
        self.watch.is_none() && self.lost.is_none() && self.taken.is_empty()
    }

    /// The next piece of the stream; `None` at its end.
    async fn piece(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while let Some(entry) = self.initial.pop_front() {
            if self.selection.chooses(self.resource, &entry) {
                self.put_event("ADDED", &entry, &mut out);
            }
            if out.len() >= PIECE_BYTES {
                return Some(out.freeze());
            }
        }
        if let Some(revision) = self.ends_initial.take() {
            self.put_bookmark(revision, true, &mut out);
            return Some(out.freeze());
        }
        if !out.is_empty() {
            return Some(out.freeze());
        }
        if let Some(failure) = self.lost.take() {
            self.put_error(&failure, &mut out);
            return Some(out.freeze());
        }
        while out.is_empty() {
            self.wait(&mut out).await?;
            while out.len() < PIECE_BYTES
                && let Some(event) = self.taken.pop_front()
            {
                self.put_change(&event, &mut out);
            }
            if self.taken.is_empty() {
                self.keep_time(&mut out);
            }
        }
        Some(out.freeze())
    }

    /// Waits for the next thing to tell and appends it; `None` when the watch is over and nothing is left to tell.
    async fn wait(&mut self, out: &mut BytesMut) -> Option<()> {
        if !self.taken.is_empty() {
            return Some(());
        }
        let watch = self.watch.as_mut()?;
        tokio::select! {
            // Where there are always events, the others would never have their turn. The clock has it after each of them.
            biased;
            () = self.shutdown.begun() => self.watch = None,
            events = watch.next() => match events {
                Ok(events) => self.taken.extend(events),
                Err(Ended::Closed) => self.watch = None,
                Err(Ended::Lagged | Ended::Compacted) => {
                    self.watch = None;
                    let text = format!("too old resource version: {} (the watch fell too far behind)", self.told);
                    self.put_error(&Failure::expired(text), out);
                }
            },
            () = tokio::time::sleep_until(self.next_bookmark.min(self.end)) => {}
        }
        (self.watch.is_some() || !out.is_empty()).then_some(())
    }

    /// Does what is due by the clock, behind everything that was taken from the watch: tells how far the client is, and ends the
    /// watch.
    fn keep_time(&mut self, out: &mut BytesMut) {
        let now = Instant::now();
        let Some(watch) = self.watch.as_mut().filter(|_| now >= self.next_bookmark.min(self.end)) else { return };
        if self.bookmarks {
            // Under load there is always more to come. Then the client is at what it was told last.
            let revision = watch.progress().map_or(self.told, |revision| revision.max(self.told));
            self.put_bookmark(revision, false, out);
        }
        let last = self.end - BOOKMARK_BEFORE_END.min(self.end - now.min(self.end));
        self.next_bookmark = if now < last { (now + BOOKMARK_EVERY).min(last) } else { self.end };
        if now >= self.end {
            self.watch = None;
        }
    }

    /// Appends what the client sees of a change, if it sees anything.
    fn put_change(&mut self, event: &Event, out: &mut BytesMut) {
        if event.revision() <= self.after {
            return;
        }
        self.told = event.revision();
        if self.selection.is_all() && self.form == Form::Object && self.resource.is_stored_form() {
            let what = match event.what {
                What::Delete => "DELETED",
                What::Put if event.before.is_none() => "ADDED",
                What::Put => "MODIFIED",
            };
            self.put_object(what, &event.entry.value, out);
            return;
        }
        let is = event.what == What::Put && self.selection.chooses(self.resource, &event.entry);
        let was = event.before.as_ref().is_some_and(|before| self.selection.chooses(self.resource, before));
        match (was, is) {
            (false, true) => self.put_event("ADDED", &event.entry, out),
            (true, true) => self.put_event("MODIFIED", &event.entry, out),
            (true, false) if event.what == What::Delete => self.put_event("DELETED", &event.entry, out),
            (true, false) => {
                // It is gone from what the client sees: it gets the last state that it saw, at the new revision.
                if let Some(before) = &event.before {
                    let value = restamped(&before.value, event.revision());
                    self.put_object("DELETED", &value, out);
                }
            }
            (false, false) => {}
        }
    }

    fn put_event(&mut self, what: &str, entry: &Entry, out: &mut BytesMut) {
        self.told = self.told.max(entry.revision);
        self.put_object(what, &entry.value, out);
    }

    fn put_object(&mut self, what: &str, value: &Bytes, out: &mut BytesMut) {
        let start = out.len();
        let object = self.begin_event(what, out);
        let put = match self.form {
            Form::Object => show::json(self.resource, value).map(|bytes| out.put_slice(&bytes)),
            Form::Partial(version) => show::put_partial(Stored::bare(value), version, out),
            Form::Table(version) => self.put_table(value, version, out),
        };
        let put = put.and_then(|()| self.end_event(what, object, out));
        if let Err(failure) = put {
            out.truncate(start);
            self.put_error(&failure, out);
        }
    }

    /// Begins an event, whose object is to be appended as JSON; where that begins.
    fn begin_event(&self, what: &str, out: &mut BytesMut) -> usize {
        if self.encoding != Encoding::Protobuf {
            out.put_slice(b"{\"type\":\"");
            out.put_slice(what.as_bytes());
            out.put_slice(b"\",\"object\":");
        }
        out.len()
    }

    /// Ends an event, whose object begins there.
    fn end_event(&self, what: &str, object: usize, out: &mut BytesMut) -> Result<(), Failure> {
        if self.encoding == Encoding::Protobuf {
            let json = out.split_off(object);
            return protobuf::put_event(what, &json, out);
        }
        out.put_slice(b"}\n");
        Ok(())
    }

    fn put_table(&mut self, value: &Bytes, version: &str, out: &mut BytesMut) -> Result<(), Failure> {
        let revision = show::read(self.resource, value)?.resource_version().to_owned();
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{{\"resourceVersion\":\
             \"{revision}\"}},\"columnDefinitions\":"
        );
        out.put_slice(head.as_bytes());
        if self.headed {
            out.put_slice(b"null");
        } else {
            show::put_value(out, &show::columns(self.resource));
            self.headed = true;
        }
        out.put_slice(b",\"rows\":[");
        let row = show::row(self.resource, value)?;
        show::put_row(self.resource, &row, Stored::bare(value), self.include, Timestamp::now(), version, out)?;
        out.put_slice(b"]}");
        Ok(())
    }

    fn put_bookmark(&mut self, revision: Revision, ends_initial: bool, out: &mut BytesMut) {
        self.told = revision;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Object => {
                json!({"kind": self.resource.kind.kind, "apiVersion": self.resource.api_version, "metadata": metadata})
            }
            Form::Partial(version) => json!({
                "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
            }),
            // Readers of tables look for the revision in the only row.
            Form::Table(version) => {
                let object = json!({
                    "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
                });
                let cells: Vec<&str> = self.resource.kind.columns.iter().map(|_| "").collect();
                json!({
                    "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
                    "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": null,
                    "rows": [{"cells": cells, "object": object}],
                })
            }
        };
        self.put_told("BOOKMARK", &object, out);
    }

    fn put_error(&self, failure: &Failure, out: &mut BytesMut) {
        self.put_told("ERROR", &failure.status(), out);
    }

    /// Appends an event about something that is not in the store.
    fn put_told(&self, what: &str, told: &impl Serialize, out: &mut BytesMut) {
        let object = self.begin_event(what, out);
        show::put_value(out, told);
        // Nothing but what has protobuf is watched in it.
        if let Err(failure) = self.end_event(what, object, out) {
            tracing::error!("a watch was not told of {what}: {failure}");
        }
    }
}

/// An object that was read at one revision, as of another.
fn restamped(value: &Bytes, revision: Revision) -> Bytes {
    match api::Object::parse(value) {
        Ok(object) => show::with_revision(&object.encode(), &revision.to_string()).into(),
        Err(_) => value.clone(),
    }
}
