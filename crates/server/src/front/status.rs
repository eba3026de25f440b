//! Answers that need no API: the request does not get as far as a handler, or the handler fell over.

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use super::body::Body;
use crate::access::{Denied, Refused};

/// The answer to a request that does not come in.
pub fn refused(refused: &Refused) -> Response<Body> {
    let message = refused.to_string();
    match refused {
        Refused::Unauthenticated(_) => failed(StatusCode::UNAUTHORIZED, "Unauthorized", &message),
        Refused::Denied(denied) => status(StatusCode::FORBIDDEN, "Forbidden", &message, Some(denied)),
        Refused::Malformed(_) => failed(StatusCode::BAD_REQUEST, "BadRequest", &message),
    }
}

/// The answer to a request whose handler panicked.
pub(super) fn panicked() -> Response<Body> {
    let message = "Internal error occurred: the server failed while it handled the request; its log says more";
    failed(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
}

/// The answer to a request that came to nothing, as a Status without details.
pub fn failed(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    status(code, reason, message, None)
}

fn status(code: StatusCode, reason: &str, message: &str, denied: Option<&Denied>) -> Response<Body> {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason, "code": code.as_u16(),
    });
    if let Some(denied) = denied {
        status["details"] = json!({ "name": denied.name, "group": denied.group, "kind": denied.resource });
    }
    let mut response = Response::new(Body::whole(format!("{status}\n")));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
