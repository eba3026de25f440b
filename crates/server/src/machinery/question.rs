//! Questions: a create that is answered and not stored. What the answer is, the registry knows.

use bytes::Bytes;
use http::{Method, StatusCode};

use super::catalog::Resource;
use super::decode;
use super::failure::Failure;
use super::list;
use super::negotiate::Wanted;
use super::options::{Sort, WriteOptions};
use super::path::Target;
use super::query::Query;
use super::reply::Reply;
use super::show::Include;
use super::{Machinery, Request, create};
use crate::registry::{self, Asking};

/// Answers what the body of a POST asks. Nothing changes by it, so a dry run is like any other.
pub(crate) async fn ask(
    machinery: &Machinery,
    resource: &Resource,
    target: &Target,
    query: &Query,
    request: &Request,
    (wanted, include): (Wanted, Include),
) -> Result<Reply, Failure> {
    if request.method != Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let options = WriteOptions::read(Sort::Create, query, &request.headers)?;
    let decoded = decode::object(resource, &request.headers, &request.body, options.strictness)?;
    let mut question = decoded.object;
    create::in_namespace(resource, &mut question, &target.namespace)?;
    (resource.kind.default)(&mut question);
    decode::canonical(resource.kind, &mut question)?;
    let asking = Asking { machinery, user: &request.user, namespace: &target.namespace, name: &target.name };
    let mut answer = registry::answer(resource.kind, question, &asking).await?;
    decode::canonical(resource.kind, &mut answer)?;
    let json = serde_json::to_vec(&answer.into_value()).map_err(|error| Failure::internal(error.to_string()))?;
    let reply = list::show_one(resource, StatusCode::CREATED, &Bytes::from(json), wanted, include)?;
    Ok(reply.warned(&decoded.warnings))
}
