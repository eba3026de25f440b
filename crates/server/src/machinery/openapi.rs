//! `/openapi`: the documents that `api::openapi` makes.
//!
//! A document is made when it is asked for the first time, and kept as bytes from then on. Its address in the index has the
//! hash of its content, so clients keep what they find there for good.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use api::Kind;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Map, json};

use super::negotiate;
use super::query::Query;
use super::reply::{Content, Reply};

/// All that has a path of its own.
static KINDS: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| api::kinds::all().collect());

/// The index, which needs the hash of every document, but none of the documents afterwards.
static INDEX: LazyLock<Bytes> = LazyLock::new(|| {
    let paths: Map<_, _> = api::openapi::names(&KINDS)
        .into_iter()
        .filter_map(|name| {
            let url = Document::made(&name)?.url(&name);
            Some((name, json!({ "serverRelativeURL": url })))
        })
        .collect();
    json!({ "paths": paths }).to_string().into()
});

static DOCUMENTS: LazyLock<Mutex<HashMap<String, Document>>> = LazyLock::new(Default::default);

#[derive(Clone)]
struct Document {
    json: Bytes,
    hash: String,
}

impl Document {
    fn made(name: &str) -> Option<Self> {
        let json: Bytes = api::openapi::document(name, &KINDS)?.to_string().into();
        let mut hasher = DefaultHasher::new();
        json.hash(&mut hasher);
        Some(Self { json, hash: format!("{:016X}", hasher.finish()) })
    }

    fn kept(name: &str) -> Option<Self> {
        let mut documents = DOCUMENTS.lock();
        if let Some(document) = documents.get(name) {
            return Some(document.clone());
        }
        let document = Self::made(name)?;
        documents.insert(name.to_owned(), document.clone());
        Some(document)
    }

    fn url(&self, name: &str) -> String {
        format!("/openapi/v3/{name}?hash={}", self.hash)
    }

    /// The document; or where it is by now, if the client has an old address; or that the client has it already.
    fn reply(&self, name: &str, hash: &str, headers: &HeaderMap) -> Reply {
        let tag = format!("\"{}\"", self.hash);
        if !hash.is_empty() && hash != self.hash {
            let mut moved = Reply::json(StatusCode::MOVED_PERMANENTLY, Bytes::new());
            set(&mut moved, header::ETAG, &tag);
            set(&mut moved, header::LOCATION, &self.url(name));
            return moved;
        }
        let mut reply = if has_already(headers, &tag) {
            let mut unchanged = Reply::json(StatusCode::NOT_MODIFIED, Bytes::new());
            unchanged.headers.remove(header::CONTENT_TYPE);
            unchanged
        } else {
            Reply::json(StatusCode::OK, self.json.clone())
        };
        set(&mut reply, header::ETAG, &tag);
        if !hash.is_empty() {
            set(&mut reply, header::CACHE_CONTROL, "public, immutable");
            set(&mut reply, header::EXPIRES, &in_a_year());
        }
        reply
    }
}

/// Whether the client said that it has the content with that tag.
fn has_already(headers: &HeaderMap, tag: &str) -> bool {
    let named = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = named.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// A year from now, which is as long as caches are told to keep anything.
fn in_a_year() -> String {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let then = now.checked_add(jiff::Span::new().years(1)).unwrap_or(now);
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn set(reply: &mut Reply, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers.insert(name, value);
    }
}

/// `/openapi/v2`, for which kubectl asks where it finds no kind in version 3 (a `List`): a document without definitions, with
/// which it leaves validation to the server. The bytes are a protobuf `Document`: its version, a title, no paths.
pub(crate) fn version_2(headers: &HeaderMap) -> Reply {
    const DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x0d\x0a\x08Cadastre\x12\x010\x42\x00";
    const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    const MEDIA_TODAY: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let mut reply = if negotiate::takes(headers, &[MEDIA, MEDIA_TODAY]) {
        Reply::new(StatusCode::OK, MEDIA, Content::Whole(Bytes::from_static(DOCUMENT)))
    } else {
        Reply::text(StatusCode::NOT_ACCEPTABLE, "")
    };
    reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

/// The index, or the document of `api/v1`, `apis/GROUP/VERSION` and the paths above them.
pub(crate) fn answer(path: &[&str], query: &Query, headers: &HeaderMap) -> Option<Reply> {
    if path.is_empty() {
        return Some(Reply::json(StatusCode::OK, INDEX.clone()));
    }
    let name = path.join("/");
    let document = Document::kept(&name)?;
    // No client of Kubernetes asks for the documents in protobuf, so they are JSON or nothing.
    let mut reply = if negotiate::takes_json(headers) {
        document.reply(&name, query.get("hash"), headers)
    } else {
        Reply::text(StatusCode::NOT_ACCEPTABLE, "")
    };
    reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, asks: &[(&'static str, &str)]) -> (StatusCode, HeaderMap, usize) {
        let mut headers = HeaderMap::new();
        for (name, value) in asks {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let path = ["apis", "coordination.k8s.io", "v1"];
        let reply = answer(&path, &Query::read(query), &headers).unwrap();
        let Content::Whole(bytes) = reply.content else { panic!("a document is whole") };
        (reply.status, reply.headers, bytes.len())
    }

    fn url() -> String {
        let index: serde_json::Value = serde_json::from_slice(&INDEX).unwrap();
        index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_at_an_address_with_its_hash_is_kept_for_good() {
        let url = url();
        let (path, query) = url.split_once('?').unwrap();
        assert_eq!(path, "/openapi/v3/apis/coordination.k8s.io/v1");
        let (status, headers, length) = asked(query, &[]);
        assert_eq!((status, headers["cache-control"].to_str().unwrap()), (StatusCode::OK, "public, immutable"));
        assert!(length > 10_000 && headers["expires"].to_str().unwrap().ends_with(" GMT"), "{headers:?}");
        assert_eq!(headers["vary"], "Accept");
        assert_eq!(headers["etag"].to_str().unwrap().trim_matches('"'), query.trim_start_matches("hash="));
        let (status, headers, _) = asked("", &[]);
        assert_eq!((status, headers["cache-control"].to_str().unwrap()), (StatusCode::OK, "no-cache, private"));
        assert!(headers.contains_key("etag") && !headers.contains_key("expires"));
    }

    #[test]
    fn an_old_address_leads_to_the_new_one() {
        let (status, headers, length) = asked("hash=ABC", &[]);
        assert_eq!((status, length), (StatusCode::MOVED_PERMANENTLY, 0));
        assert_eq!(headers["location"].to_str().unwrap(), url());
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let tag = asked("", &[]).1["etag"].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let (status, headers, length) = asked("", &[("if-none-match", &known)]);
            assert_eq!((status, length), (StatusCode::NOT_MODIFIED, 0), "{known}");
            assert!(!headers.contains_key("content-type") && headers["etag"].to_str().unwrap() == tag);
        }
        assert_eq!(asked("", &[("if-none-match", "\"x\"")]).0, StatusCode::OK);
    }

    #[test]
    fn a_document_is_json_or_nothing() {
        let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        for (accept, status) in [
            ("application/json", 200),
            ("*/*", 200),
            (&format!("{protobuf}, application/json;q=0.5"), 200),
            (protobuf, 406),
            ("application/yaml", 406),
        ] {
            let (answered, headers, length) = asked("", &[("accept", accept)]);
            assert_eq!((answered.as_u16(), length > 0), (status, status == 200), "{accept}");
            assert_eq!(headers["vary"], "Accept");
        }
    }

    #[test]
    fn version_2_is_protobuf_or_nothing() {
        let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        for (accept, status) in [
            (None, 200),
            (Some(protobuf), 200),
            (Some("application/json, */*;q=0.1"), 200),
            (Some("application/json"), 406),
            (Some("application/yaml;q=0.5, text/html"), 406),
        ] {
            let headers = accept.map(|accept| (header::ACCEPT, accept.parse().unwrap()));
            let reply = version_2(&HeaderMap::from_iter(headers));
            assert_eq!(
                (reply.status.as_u16(), &reply.headers["vary"]),
                (status, &HeaderValue::from_static("Accept")),
                "{accept:?}"
            );
        }
    }

    #[test]
    fn what_is_not_served_has_no_document() {
        for path in [&["apis", "nope", "v1"][..], &["api", "v1", "pods"], &["v1"]] {
            assert!(answer(path, &Query::read(""), &HeaderMap::new()).is_none(), "{path:?}");
        }
    }
}
