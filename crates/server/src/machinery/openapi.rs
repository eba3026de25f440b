//! `/openapi/v3`: the documents that `api::openapi` makes, made once and kept as bytes.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;

use super::reply::Reply;

static INDEX: LazyLock<Bytes> = LazyLock::new(|| api::openapi::index(api::kinds::KINDS).to_string().into());

static DOCUMENTS: LazyLock<parking_lot::Mutex<HashMap<String, Bytes>>> = LazyLock::new(Default::default);

/// The index, or the document of `api/v1` or `apis/GROUP/VERSION`.
pub(crate) fn answer(path: &[&str]) -> Option<Reply> {
    let (group, version) = match path {
        [] => return Some(Reply::json(StatusCode::OK, INDEX.clone())),
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    if !api::kinds::KINDS.iter().any(|kind| kind.group == group && kind.version == version) {
        return None;
    }
    let mut documents = DOCUMENTS.lock();
    let document = documents
        .entry(format!("{group}/{version}"))
        .or_insert_with(|| api::openapi::document(group, version, api::kinds::KINDS).to_string().into());
    Some(Reply::json(StatusCode::OK, document.clone()))
}
