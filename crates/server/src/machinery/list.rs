//! Reading: one object, or a list of them in pages, at the revision that the client asks for.
//!
//! A list is made of the bytes that the objects were encoded to when they were written.

use std::sync::Arc;
use std::time::Duration;

use api::{Errors, Path};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Entry, Range, RangeError, Revision, Store};

use super::catalog::Resource;
use super::document;
use super::facts::Facts;
use super::failure::Failure;
use super::negotiate::{Encoding, Form, Wanted};
use super::protobuf_list;
use super::query::Query;
use super::reply::{Content, Reply};
use super::select::Selection;
use super::show::{self, Include, Stored};
use crate::front::{AT_ONCE_BYTES, Broken};

/// How long a read waits for a revision that this server has not seen yet.
pub(crate) const FRESH_LIMIT: Duration = Duration::from_secs(3);
/// How much of a long list is made at a time, so that a slow client does not hold all of it twice. With what stands around it, it
/// fits into what a connection encrypts and sends at once: a rest would be a write of its own.
pub(crate) const PIECE_BYTES: usize = AT_ONCE_BYTES - 1024;
/// The same of its beginning, so that the client has something to do early.
const FIRST_BYTES: usize = PIECE_BYTES / 4;
/// How many entries are looked at in one go while a page is filled through selectors.
const SCAN_ENTRIES: usize = 10_000;

/// Which state of the store a read is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The newest there is.
    Latest,
    /// Any that is at hand.
    Any,
    /// One not older than that.
    NotOlder(Revision),
    /// Exactly that.
    Exact(Revision),
}

/// Where a list goes on: written into the `continue` token.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Next {
    v: String,
    /// The revision of the first page; -1 where a list goes on at whatever is newest.
    rv: i64,
    /// The last key of the page before, relative to the prefix, and a zero byte.
    start: String,
    /// How many objects are left at that revision, so that no further page has to count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

impl Next {
    fn new(revision: Option<Revision>, prefix: &str, last: &str, left: Option<usize>) -> Self {
        let relative = last.strip_prefix(prefix).unwrap_or(last);
        let rv = revision.map_or(-1, |revision| i64::try_from(revision.0).unwrap_or(i64::MAX));
        Self { v: "meta.k8s.io/v1".to_owned(), rv, start: format!("/{relative}\0"), left }
    }

    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn read(token: &str) -> Result<Self, Failure> {
        let bad =
            |why: String| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| {
            bad(match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => {
                    format!("illegal base64 data at input byte {at}")
                }
                _ => format!("illegal base64 data at input byte {}", token.len()),
            })
        })?;
        let value = document::read(&bytes).map_err(bad)?.value;
        let next: Self = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        let usable = next.v == "meta.k8s.io/v1" && next.rv != 0 && next.rv >= -1 && next.start.starts_with('/');
        if usable { Ok(next) } else { Err(bad("it was not given out by this server".to_owned())) }
    }

    /// The last key of the page before.
    fn after(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.start.trim_start_matches('/').trim_end_matches('\0'))
    }
}

/// The options of a list.
struct Options {
    at: At,
    limit: Option<usize>,
    next: Option<Next>,
}

impl Options {
    fn read(query: &Query) -> Result<Self, Failure> {
        check(query)?;
        let limit = query.number("limit")?.filter(|&limit| limit > 0).and_then(|limit| usize::try_from(limit).ok());
        let version = query.get("resourceVersion");
        let next = match query.get("continue") {
            "" => None,
            token => Some(Next::read(token)?),
        };
        if next.is_some() && !matches!(version, "" | "0") {
            return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
        }
        let exact = query.get("resourceVersionMatch") == "Exact"
            || query.get("resourceVersionMatch").is_empty() && limit.is_some();
        let at = match (&next, version) {
            (Some(next), _) => u64::try_from(next.rv).map_or(At::Latest, |rv| At::Exact(Revision(rv))),
            (None, "") => At::Latest,
            (None, "0") => At::Any,
            (None, text) if exact => At::Exact(revision(text)?),
            (None, text) => At::NotOlder(revision(text)?),
        };
        Ok(Self { at, limit, next })
    }
}

/// Reads the `resourceVersion` of a get or a list.
fn revision(text: &str) -> Result<Revision, Failure> {
    parse_revision(text).map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))
}

/// Reads a `resourceVersion`, or says why it is none.
pub(crate) fn parse_revision(text: &str) -> Result<Revision, Errors> {
    text.parse().map(Revision).map_err(|_| {
        let mut errors = Errors::new();
        let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        errors.invalid(&Path::new("resourceVersion"), &json!(text), detail);
        errors
    })
}

/// Refuses options that do not go together.
fn check(query: &Query) -> Result<(), Failure> {
    let mut errors = Errors::new();
    let field = Path::new("resourceVersionMatch");
    let (version, wanted) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    if !wanted.is_empty() {
        if version.is_empty() {
            errors.forbidden(&field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(&field, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            errors.not_supported(&field, &json!(wanted), &["Exact", "NotOlderThan", ""]);
        }
        if wanted == "Exact" && version == "0" {
            errors.forbidden(&field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if query.has("sendInitialEvents") {
        errors.forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid_options("ListOptions", &errors)) }
}

/// Makes sure that what is in memory is as new as the client asks for.
async fn freshen(store: &Store, at: At) -> Result<(), Failure> {
    match at {
        At::Latest => store.settle().await.map(|_| ()).map_err(Failure::from),
        At::Any => Ok(()),
        At::NotOlder(revision) | At::Exact(revision) => fresh(store, revision).await,
    }
}

/// Waits until that revision is in memory.
pub(crate) async fn fresh(store: &Store, revision: Revision) -> Result<(), Failure> {
    if store.revision() >= revision || store.reached(revision, FRESH_LIMIT).await {
        return Ok(());
    }
    Err(Failure::future_revision(revision, store.revision()))
}

/// One object by its key.
pub(crate) async fn get(
    store: &Store,
    resource: &Resource,
    key: &str,
    name: &str,
    query: &Query,
) -> Result<Arc<Entry>, Failure> {
    let at = match query.get("resourceVersion") {
        "" => At::Latest,
        "0" => At::Any,
        text => At::NotOlder(revision(text)?),
    };
    freshen(store, at).await?;
    store.get(key).ok_or_else(|| Failure::not_found(resource.kind, name))
}

/// What a list found.
pub(crate) struct Found {
    pub(crate) entries: Vec<Arc<Entry>>,
    revision: Revision,
    next: Option<String>,
    remaining: Option<usize>,
}

/// The objects that a list is about.
pub(crate) async fn find(
    store: &Store,
    resource: &Resource,
    selection: &Selection,
    query: &Query,
) -> Result<Found, Failure> {
    let options = Options::read(query)?;
    freshen(store, options.at).await?;
    let mut after = options.next.as_ref().map(|next| next.after(&selection.prefix));
    let mut at = match options.at {
        At::Exact(revision) => Some(revision),
        _ => None,
    };
    // With selectors nobody is told how many are left.
    let known = options.next.as_ref().filter(|next| next.rv > 0).and_then(|next| next.left);
    let of = if selection.selects() { Some(0) } else { known };
    let mut entries = Vec::new();
    loop {
        let wanted = options.limit.map(|limit| limit - entries.len());
        let limit = if selection.is_all() { wanted } else { Some(SCAN_ENTRIES) };
        let range = Range { prefix: &selection.prefix, after: after.as_deref(), limit, at, of };
        let page = match store.range(range).await {
            Ok(page) => page,
            Err(RangeError::Compacted { .. }) => return Err(expired(options.next.as_ref(), &selection.prefix)),
            Err(RangeError::Future { current }) => {
                return Err(Failure::future_revision(at.unwrap_or(current), current));
            }
            Err(RangeError::Store(error)) => return Err(error.into()),
        };
        // All further looks are at the state of the first.
        at = Some(page.revision);
        let (looked_at, last) = (page.entries.len(), page.entries.last().map(|entry| entry.key.to_string()));
        let mut full = false;
        for (position, entry) in page.entries.into_iter().enumerate() {
            if selection.chooses(resource, &entry) {
                entries.push(entry);
            }
            if options.limit == Some(entries.len()) {
                let left = looked_at - position - 1 + page.remaining;
                full = left > 0;
                if full {
                    let last = entries.last().map(|entry| entry.key.to_string()).unwrap_or_default();
                    // A list that was already inconsistent stays so, and says so by its token.
                    let inconsistent = options.next.as_ref().is_some_and(|next| next.rv < 0);
                    let pinned = (!inconsistent).then_some(page.revision);
                    let remaining = (!selection.selects()).then_some(left);
                    let next = Next::new(pinned, &selection.prefix, &last, remaining.filter(|_| !inconsistent)).token();
                    return Ok(Found { entries, revision: page.revision, next: Some(next), remaining });
                }
                break;
            }
        }
        if full || page.remaining == 0 || options.limit == Some(entries.len()) {
            return Ok(Found { entries, revision: page.revision, next: None, remaining: None });
        }
        after = last;
    }
}

/// The page that was asked for is gone; the failure carries a token for what is left at whatever is newest.
fn expired(next: Option<&Next>, prefix: &str) -> Failure {
    let Some(next) = next else {
        return Failure::expired("The resourceVersion for the provided list is too old.");
    };
    let mut failure = Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    failure.details.continue_token = Some(Next::new(None, prefix, &next.after(prefix), None).token());
    failure
}

/// One object, in the form that the client wants.
pub(crate) fn show_one(
    resource: &Resource,
    status: StatusCode,
    value: &Bytes,
    wanted: Wanted,
    include: Include,
) -> Result<Reply, Failure> {
    let bytes = match wanted.form {
        Form::Object => show::json(resource, value)?,
        Form::Partial(version) => {
            let mut out = BytesMut::with_capacity(512);
            show::put_partial(Stored::bare(value), version, &mut out)?;
            out.freeze()
        }
        Form::Table(version) => {
            let mut out = BytesMut::with_capacity(2048);
            let revision = show::read(resource, value)?.resource_version().to_owned();
            put_head(resource, wanted.form, &json!({"resourceVersion": revision}), &mut out);
            let row = show::row(resource, value)?;
            show::put_row(resource, &row, Stored::bare(value), include, Timestamp::now(), version, &mut out)?;
            out.put_slice(b"]}");
            out.freeze()
        }
    };
    Reply::json(status, bytes).encoded(wanted.encoding)
}

/// The list of what was found, in the form that the client wants.
pub(crate) async fn show_all(
    resource: &'static Resource,
    found: Found,
    wanted: Wanted,
    include: Include,
) -> Result<Reply, Failure> {
    let mut metadata = json!({"resourceVersion": found.revision.to_string()});
    if let Some(next) = found.next {
        metadata["continue"] = json!(next);
    }
    if let Some(remaining) = found.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    if wanted.encoding == Encoding::Protobuf {
        return protobuf_list::show(resource, wanted.form, found.entries, &metadata).await;
    }
    let mut listing = Listing {
        resource,
        form: wanted.form,
        include,
        now: Timestamp::now(),
        entries: found.entries.into_iter(),
        metadata: Some(metadata),
        room: FIRST_BYTES,
        finished: false,
    };
    let first = listing.piece()?;
    if listing.finished {
        return Reply::json(StatusCode::OK, first).encoded(wanted.encoding);
    }
    if wanted.encoding == Encoding::Yaml {
        let mut whole = BytesMut::from(first.as_ref());
        while !listing.finished {
            whole.put_slice(&listing.piece()?);
        }
        return Reply::json(StatusCode::OK, whole.freeze()).encoded(wanted.encoding);
    }
    let rest = std::iter::from_fn(move || {
        if listing.finished {
            return None;
        }
        let piece = listing.piece().map_err(|failure| Broken(failure.message));
        listing.finished |= piece.is_err();
        Some(piece)
    });
    let pieces = futures_util::stream::iter(std::iter::once(Ok(first)).chain(rest));
    Ok(Reply::new(StatusCode::OK, "application/json", Content::Pieces(Box::pin(pieces))))
}

/// A list on its way out.
struct Listing {
    resource: &'static Resource,
    form: Form,
    include: Include,
    now: Timestamp,
    entries: std::vec::IntoIter<Arc<Entry>>,
    /// Of the list; taken when the head is written.
    metadata: Option<Value>,
    /// How much is made next.
    room: usize,
    finished: bool,
}

impl Listing {
    fn piece(&mut self) -> Result<Bytes, Failure> {
        let mut out = BytesMut::with_capacity(self.ahead() + 4096);
        let mut first = false;
        if let Some(metadata) = self.metadata.take() {
            put_head(self.resource, self.form, &metadata, &mut out);
            first = true;
        }
        let mut written = 0;
        for entry in self.entries.as_slice() {
            if written > 0 && out.len() + entry.value.len() > self.room {
                break;
            }
            if !first {
                out.put_u8(b',');
            }
            first = false;
            self.put(entry, &mut out)?;
            written += 1;
        }
        // Letting go of an entry waits for all that was written before it, so it is done once for all of them.
        self.entries.by_ref().take(written).for_each(drop);
        self.room = PIECE_BYTES;
        if self.entries.as_slice().is_empty() {
            out.put_slice(b"]}");
            self.finished = true;
        }
        Ok(out.freeze())
    }

    /// How many bytes the next piece has at most, if it has objects as they are.
    fn ahead(&self) -> usize {
        let mut bytes = 0;
        for entry in self.entries.as_slice() {
            bytes += entry.value.len();
            if bytes >= self.room {
                break;
            }
        }
        bytes
    }

    fn put(&self, entry: &Arc<Entry>, out: &mut BytesMut) -> Result<(), Failure> {
        match self.form {
            Form::Object => show::put_item(self.resource, &entry.value, out),
            Form::Partial(version) => {
                let facts = Facts::of(entry);
                show::put_partial(Stored { value: &entry.value, facts: Some(&facts) }, version, out)
            }
            Form::Table(version) => {
                let facts = Facts::of(entry);
                let row = facts.row(self.resource, &entry.value)?;
                let stored = Stored { value: &entry.value, facts: Some(&facts) };
                show::put_row(self.resource, &row, stored, self.include, self.now, version, out)
            }
        }
    }
}

/// The kind of a list, and its `apiVersion`.
pub(crate) fn list_kind(resource: &Resource, form: Form) -> (String, String) {
    match form {
        Form::Object => (format!("{}List", resource.kind.kind), resource.api_version.clone()),
        Form::Table(version) => ("Table".to_owned(), format!("meta.k8s.io/{version}")),
        Form::Partial(version) => ("PartialObjectMetadataList".to_owned(), format!("meta.k8s.io/{version}")),
    }
}

/// Appends a list up to its first item.
fn put_head(resource: &Resource, form: Form, metadata: &Value, out: &mut BytesMut) {
    let (kind, api_version) = list_kind(resource, form);
    out.put_slice(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes());
    show::put_value(out, metadata);
    match form {
        Form::Table(_) => {
            out.put_slice(b",\"columnDefinitions\":");
            show::put_value(out, &show::columns(resource));
            out.put_slice(b",\"rows\":[");
        }
        _ => out.put_slice(b",\"items\":["),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> String {
        Options::read(&Query::read(query)).err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        assert!(refused("resourceVersionMatch=Exact").contains("forbidden unless resourceVersion is provided"));
        assert!(refused("resourceVersionMatch=Exact&resourceVersion=0").contains("\"exact\" is forbidden"));
        assert!(refused("resourceVersionMatch=X&resourceVersion=5").contains("Unsupported value: \"X\""));
        assert!(refused("sendInitialEvents=true").contains("sendInitialEvents is forbidden for list"));
        assert!(refused("continue=nonsense").contains("continue key is not valid"));
        assert!(refused("resourceVersion=x").contains("invalid resource version"));
        assert_eq!(refused("limit=5&resourceVersion=7"), "");
    }

    #[test]
    fn a_revision_with_a_limit_is_exact_and_without_one_a_lower_bound() {
        let at = |query: &str| Options::read(&Query::read(query)).map(|options| options.at).unwrap();
        assert_eq!(at(""), At::Latest);
        assert_eq!(at("resourceVersion=0&limit=3"), At::Any);
        assert_eq!(at("resourceVersion=7&limit=3"), At::Exact(Revision(7)));
        assert_eq!(at("resourceVersion=7"), At::NotOlder(Revision(7)));
        assert_eq!(at("resourceVersion=7&limit=3&resourceVersionMatch=NotOlderThan"), At::NotOlder(Revision(7)));
    }

    #[test]
    fn a_token_leads_to_where_the_page_ended() {
        let next = Next::new(Some(Revision(1892)), "services/vv/", "services/vv/tr2", Some(3));
        assert_eq!(next.start, "/tr2\0");
        assert_eq!(Next::read(&next.token()).unwrap(), next);
        assert_eq!(next.after("services/vv/"), "services/vv/tr2");
    }
}
