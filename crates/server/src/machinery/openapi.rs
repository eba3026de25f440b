//! `/openapi`: the documents that `api::openapi` makes, made once and kept as bytes.

use std::collections::HashMap;
use std::sync::LazyLock;

use api::Kind;
use bytes::Bytes;
use http::StatusCode;

use super::reply::{Content, Reply};

static KINDS: LazyLock<Vec<&'static Kind>> = LazyLock::new(|| api::kinds::all().collect());

static INDEX: LazyLock<Bytes> = LazyLock::new(|| api::openapi::index(&KINDS).to_string().into());

static DOCUMENTS: LazyLock<parking_lot::Mutex<HashMap<String, Bytes>>> = LazyLock::new(Default::default);

/// `/openapi/v2`, for which kubectl asks where it finds no kind in version 3 (a `List`): a document without definitions, with
/// which it leaves validation to the server. The bytes are a protobuf `Document`: its version, a title, no paths.
pub(crate) fn version_2() -> Reply {
    const DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x0d\x0a\x08Cadastre\x12\x010\x42\x00";
    let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    Reply::new(StatusCode::OK, media, Content::Whole(Bytes::from_static(DOCUMENT)))
}

/// The index, or the document of `api/v1` or `apis/GROUP/VERSION`.
pub(crate) fn answer(path: &[&str]) -> Option<Reply> {
    let (group, version) = match path {
        [] => return Some(Reply::json(StatusCode::OK, INDEX.clone())),
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    if !KINDS.iter().any(|kind| kind.group == group && kind.version == version) {
        return None;
    }
    let mut documents = DOCUMENTS.lock();
    let document = documents
        .entry(format!("{group}/{version}"))
        .or_insert_with(|| api::openapi::document(group, version, &KINDS).to_string().into());
    Some(Reply::json(StatusCode::OK, document.clone()))
}
