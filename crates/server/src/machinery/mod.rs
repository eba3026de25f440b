//! The API machinery: from a request to the store and back. It knows kinds only by their declarations.
//!
//! The way of a request: `path` says what it names, `access` whether it may, `negotiate` what the client wants to get,
//! then one of `list`, `watch`, `create`, `update` and `delete` does it, `show` writes objects out, and `failure` says
//! why something was not done.

mod apply;
mod catalog;
mod create;
mod decode;
mod delete;
mod discovery;
mod document;
mod facts;
mod failure;
mod health;
mod list;
mod metrics;
mod negotiate;
mod openapi;
mod options;
mod patch;
mod path;
mod protobuf;
mod protobuf_list;
mod query;
mod question;
mod reply;
mod select;
mod show;
mod update;
mod watch;
mod write;
mod yaml;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::Subresource;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::json;
use store::Store;
use tokio::time::timeout;

pub(crate) use self::catalog::{Resource, catalog};
pub(crate) use self::create::{New, encode_new, generated, insert};
pub(crate) use self::delete::{FOREGROUND, ORPHAN, encode_terminating};
pub(crate) use self::facts::Facts;
pub use self::failure::{Cause, Details, Failure, Status};
use self::negotiate::Wanted;
pub(crate) use self::negotiate::takes_gzip;
use self::patch::PatchKind;
use self::path::{Path, Target};
use self::query::Query;
pub use self::reply::{Content, Pieces, Reply};
use self::select::Selection;
use self::show::Include;
pub(crate) use self::show::{metadata as metadata_of, read as read_object};
use self::write::Done;
pub(crate) use self::write::{apply_as, at as seconds, now, now_text, sign};
use crate::Config;
use crate::access::{Attributes, User, authorize};
use crate::front::Shutdown;
use crate::registry::{self, Surroundings};

/// A request.
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The path of the URL.
    pub path: String,
    /// The part of the URL after the question mark.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub user: Arc<User>,
}

/// The machinery over a store.
pub(crate) struct Machinery {
    pub(crate) store: Store,
    /// The same store, with what writes have to know besides.
    pub(crate) around: Surroundings,
    pub(crate) config: Config,
    pub(crate) metrics: metrics::Metrics,
}

impl Machinery {
    pub(crate) fn new(store: Store, config: Config) -> Self {
        let around = Surroundings::new(store.clone(), &config.service_ranges, config.tended);
        let metrics = metrics::Metrics::new(&config.collectors);
        Self { store, around, config, metrics }
    }

    /// Answers a request, whose body is what comes out of the future.
    pub(crate) async fn answer(
        &self,
        mut request: Request,
        body: impl Future<Output = Result<Bytes, Failure>>,
        shutdown: &Shutdown,
    ) -> Reply {
        let started = Instant::now();
        let query = Query::read(&request.query);
        let path = path::read(&request.path);
        let verb = verb(&request.method, &path, &query);
        let done = async {
            let limit = self.time_for(&query)?;
            allowed(&request, &path, verb)?;
            // Who may not do it does not get to fill our memory with it either.
            if !matches!(request.method, Method::GET | Method::HEAD) {
                let body = timeout(self.config.request_timeout, body).await;
                request.body = body.map_err(|_| {
                    Failure::timeout("the body of the request did not arrive within the allotted timeout")
                })??;
            }
            // A watch answers at once and then goes on as long as it likes: only the beginning of an answer is timed.
            match timeout(limit, self.dispatch(&request, &path, &query, shutdown)).await {
                Ok(done) => done,
                Err(_) => Err(Failure::timeout("request did not complete within the allotted timeout")),
            }
        };
        let reply = match done.await {
            Ok(reply) => reply,
            Err(failure) => Reply::refusal(failure, &request.headers),
        };
        let labels = metrics::Labels { verb, resource: label(&path), code: reply.status.as_u16() };
        self.metrics.count(&labels, started.elapsed());
        reply
    }

    /// How long a request may take: what the client gives it, but no longer than the server does. Nothing is no limit.
    fn time_for(&self, query: &Query) -> Result<Duration, Failure> {
        let most = self.config.request_timeout;
        Ok(query.timeout()?.filter(|asked| !asked.is_zero()).map_or(most, |asked| asked.min(most)))
    }

    async fn dispatch(
        &self,
        request: &Request,
        path: &Path,
        query: &Query,
        shutdown: &Shutdown,
    ) -> Result<Reply, Failure> {
        let get = || if request.method == Method::GET { Ok(()) } else { Err(Failure::method_not_allowed()) };
        match path {
            Path::Resource(target) => {
                let resource = catalog()
                    .resource(&target.group, &target.version, &target.resource)
                    .ok_or_else(Failure::no_such_resource)?;
                let mut reply = match self.resource(request, resource, target, query, shutdown).await {
                    Ok(reply) => reply,
                    Err(failure) => {
                        let is_dry_run = query.all("dryRun").any(|value| !value.is_empty());
                        if let Some(unmet) = failure.details.unmet.as_ref().filter(|_| !is_dry_run) {
                            registry::unmet(&self.around, unmet).await;
                        }
                        Reply::refusal(failure, &request.headers)
                    }
                };
                if !resource.kind.deprecation.is_empty() {
                    reply = reply.warned_first(resource.kind.deprecation);
                }
                Ok(reply)
            }
            Path::CoreVersions | Path::Groups => {
                get()?;
                let core = *path == Path::CoreVersions;
                if let Some((version, encoding)) = negotiate::aggregated_discovery(&request.headers) {
                    let all = discovery::aggregated(catalog(), version, core);
                    let mut reply = Reply::value(StatusCode::OK, &all).encoded(encoding)?;
                    let media = discovery::aggregated_media_type(version, encoding);
                    reply
                        .headers
                        .insert(header::CONTENT_TYPE, HeaderValue::try_from(media).map_err(Failure::internal)?);
                    reply.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
                    return Ok(reply);
                }
                let plain = if core {
                    discovery::core_versions(catalog(), &self.config.address)
                } else {
                    discovery::groups(catalog())
                };
                Reply::value(StatusCode::OK, &plain).encoded(negotiate::plain(&request.headers)?)
            }
            Path::Group(name) => {
                get()?;
                let group = discovery::group(catalog(), name).ok_or_else(Failure::no_such_resource)?;
                Reply::value(StatusCode::OK, &group).encoded(negotiate::plain(&request.headers)?)
            }
            Path::Version { group, version } => {
                get()?;
                let version = catalog().version(group, version).ok_or_else(Failure::no_such_resource)?;
                Reply::value(StatusCode::OK, &discovery::resources(version))
                    .encoded(negotiate::plain(&request.headers)?)
            }
            Path::Other => {
                get()?;
                self.other(request, query, shutdown).ok_or_else(Failure::no_such_resource)
            }
        }
    }

    /// Paths that are about the server itself.
    fn other(&self, request: &Request, query: &Query, shutdown: &Shutdown) -> Option<Reply> {
        let Request { path, headers, .. } = request;
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            ["version"] => Some(Reply::value(StatusCode::OK, &version())),
            ["metrics"] => {
                let ledger = &self.around.ledger;
                let given =
                    metrics::Given { ranges: &ledger.usage(), ports: ledger.port_usage(), meters: ledger.meters() };
                let text = self.metrics.text(&self.store.stats(), &self.config.counters, &given);
                let mut reply = Reply::text(StatusCode::OK, text);
                let media = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
                reply.headers.insert(header::CONTENT_TYPE, media);
                Some(reply)
            }
            [endpoint @ ("livez" | "readyz" | "healthz")] => {
                health::report(endpoint, "", self.checks(endpoint, shutdown), query)
            }
            [endpoint @ ("livez" | "readyz" | "healthz"), one] => {
                health::report(endpoint, one, self.checks(endpoint, shutdown), query)
            }
            [".well-known", "openid-configuration"] => {
                let issuer = self.config.issuer.as_ref()?;
                Some(Reply::value(StatusCode::OK, &issuer.description(&self.config.address)))
            }
            ["openid", "v1", "jwks"] => {
                let mut reply = Reply::value(StatusCode::OK, &self.config.issuer.as_ref()?.keys());
                let media = HeaderValue::from_static("application/jwk-set+json");
                reply.headers.insert(header::CONTENT_TYPE, media);
                Some(reply)
            }
            ["openapi", "v2"] => Some(openapi::version_2(headers)),
            ["openapi", "v3", rest @ ..] => openapi::answer(rest, query, headers),
            _ => None,
        }
    }

    fn checks(&self, endpoint: &str, shutdown: &Shutdown) -> Vec<health::Check> {
        let mut checks = vec![health::Check { name: "ping", fault: None }];
        // A store that is away does not come back by restarting the server: it is alive all the same.
        if endpoint != "livez" {
            checks.push(health::Check { name: "store", fault: self.store.health().err() });
            let fault = shutdown.has_begun().then(|| "the server is shutting down".to_owned());
            checks.push(health::Check { name: "shutdown", fault });
        }
        checks
    }

    async fn resource(
        &self,
        request: &Request,
        mut resource: &'static Resource,
        target: &Target,
        query: &Query,
        shutdown: &Shutdown,
    ) -> Result<Reply, Failure> {
        // What is asked of an object is looked at like what is asked by itself.
        let asked = resource.question(&target.subresource);
        if let Some(asked) = asked {
            resource = asked;
        }
        let kind = resource.kind;
        let part = match target.subresource.as_str() {
            "" => None,
            _ if asked.is_some() => None,
            name => Some(
                kind.subresources
                    .iter()
                    .copied()
                    .find(|part| part.name() == name)
                    .ok_or_else(Failure::no_such_resource)?,
            ),
        };
        let nowhere = kind.is_namespaced() && target.namespace.is_empty() || !target.name.is_empty();
        if kind.is_question && asked.is_none() && nowhere {
            return Err(Failure::no_such_resource());
        }
        if !kind.is_namespaced() && !target.namespace.is_empty() {
            return Err(Failure::no_such_resource());
        }
        if kind.is_namespaced() && target.namespace.is_empty() && !target.name.is_empty() {
            return Err(Failure::no_such_resource());
        }
        let given = negotiate::Given { protobuf: kind.is_built_in(), table: !kind.is_question };
        let wanted = negotiate::wanted(&request.headers, given)?;
        let include = Include::read(wanted.form, query.get("includeObject"))?;
        let Request { headers, body, .. } = request;
        let (store, around, name) = (&self.store, &self.around, target.name.as_str());
        if kind.is_question {
            return question::ask(self, resource, target, query, request, (wanted, include)).await;
        }
        match (&request.method, name.is_empty()) {
            (&Method::GET | &Method::HEAD, _) if query.flag("watch") && part.is_none() => {
                let selection = Selection::read(resource, target, query)?;
                self.metrics.watches.inc();
                let watches = Watching(self.metrics.watches.clone());
                watch::start(store, resource, selection, query, wanted, include, shutdown.clone(), watches).await
            }
            (&Method::GET | &Method::HEAD, true) => {
                let selection = Selection::read(resource, target, query)?;
                let found = list::find(store, resource, &selection, query).await?;
                list::show_all(resource, found, wanted, include).await
            }
            (&Method::GET | &Method::HEAD, false) if part != Some(Subresource::Finalize) => {
                let key = resource.key(&target.namespace, name);
                let entry = list::get(store, resource, &key, name, query).await?;
                list::show_one(resource, StatusCode::OK, &entry.value, wanted, include)
            }
            (&Method::POST, true) => {
                if kind.is_namespaced() && target.namespace.is_empty() {
                    return Err(Failure::method_not_allowed());
                }
                let done = create::create(around, resource, target, query, headers, body).await?;
                answer_write(resource, done, wanted, include)
            }
            (&Method::PUT, false) => {
                let done = update::replace(around, resource, target, part, query, headers, body).await?;
                answer_write(resource, done, wanted, include)
            }
            (&Method::PATCH, false) if part != Some(Subresource::Finalize) => {
                let done = if negotiate::content_type(headers) == apply::MEDIA_TYPE {
                    apply::apply(around, resource, target, part, query, headers, body).await?
                } else {
                    let patch = patch_kind(resource, headers)?;
                    update::patch(around, resource, target, part, query, headers, patch, body).await?
                };
                answer_write(resource, done, wanted, include)
            }
            (&Method::DELETE, false) if part.is_none() => {
                let options = delete::DeleteOptions::read(query, headers, body)?;
                let done = delete::delete(around, resource, &target.namespace, name, &options).await?;
                answer_delete(resource, &done, wanted, include)
            }
            (&Method::DELETE, true) if kind.deletes_collection => {
                if kind.is_namespaced() && target.namespace.is_empty() {
                    return Err(Failure::method_not_allowed());
                }
                let options = delete::DeleteOptions::read(query, headers, body)?;
                let selection = Selection::read(resource, target, query)?;
                let mut found = list::find(store, resource, &selection, query).await?;
                found.entries = delete::delete_all(around, resource, found.entries, &options).await?;
                list::show_all(resource, found, wanted, include).await
            }
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

/// The resource that a request is counted under. One that does not exist is no label: anybody could make any number of them.
fn label(path: &Path) -> &'static str {
    match path {
        Path::Resource(target) => catalog()
            .resource(&target.group, &target.version, &target.resource)
            .map_or("", |resource| resource.kind.plural),
        _ => "",
    }
}

/// Counts a watch as long as it is kept.
pub(crate) struct Watching(prometheus_client::metrics::gauge::Gauge);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What a request does, in the words of authorization.
fn verb(method: &Method, path: &Path, query: &Query) -> &'static str {
    let one = matches!(path, Path::Resource(target) if !target.name.is_empty());
    let resource = matches!(path, Path::Resource(_));
    match *method {
        Method::GET | Method::HEAD if resource && query.flag("watch") => "watch",
        Method::GET | Method::HEAD if resource && !one => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST if resource => "create",
        Method::PUT if resource => "update",
        Method::PATCH => "patch",
        Method::DELETE if resource && !one => "deletecollection",
        Method::DELETE => "delete",
        Method::POST => "post",
        Method::PUT => "put",
        _ => "other",
    }
}

fn allowed(request: &Request, path: &Path, verb: &str) -> Result<(), Failure> {
    let mut attributes = Attributes { verb, path: &request.path, ..Attributes::default() };
    if let Path::Resource(target) = path {
        attributes.is_resource = true;
        attributes.group = &target.group;
        attributes.resource = &target.resource;
        attributes.subresource = &target.subresource;
        attributes.namespace = &target.namespace;
        attributes.name = &target.name;
    }
    authorize(&request.user, &attributes).map_err(|denied| {
        let mut failure = Failure::new(StatusCode::FORBIDDEN, "Forbidden", denied.message);
        failure.details.group = denied.group;
        failure.details.kind = denied.resource;
        failure.details.name = denied.name;
        failure
    })
}

/// The format of a patch, or why it is none that the kind takes.
fn patch_kind(resource: &Resource, headers: &HeaderMap) -> Result<PatchKind, Failure> {
    let strategic = !decode::definition(resource.kind)?.custom;
    let mut accepted = PatchKind::accepted(strategic);
    match PatchKind::of(negotiate::content_type(headers)) {
        Some(kind) if accepted.any(|one| one == kind) => Ok(kind),
        // Clients know one text for kinds that are built in and another one for custom ones.
        _ if strategic => {
            Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type"))
        }
        _ => {
            let accepted = PatchKind::accepted(strategic).map(PatchKind::media_type).chain([apply::MEDIA_TYPE]);
            Err(Failure::unsupported_media_type(&accepted.collect::<Vec<_>>().join(", ")))
        }
    }
}

fn answer_write(
    resource: &Resource,
    (status, done, warnings): (StatusCode, Done, Vec<String>),
    wanted: Wanted,
    include: Include,
) -> Result<Reply, Failure> {
    Ok(list::show_one(resource, status, done.value(), wanted, include)?.warned(&warnings))
}

/// A delete answers with the object where it stays, or where its kind says so; else with a Status.
fn answer_delete(resource: &Resource, done: &Done, wanted: Wanted, include: Include) -> Result<Reply, Failure> {
    let kind = resource.kind;
    if matches!(done, Done::Gone(_)) && !kind.answers_deleted {
        let last = show::read(resource, done.value())?;
        let details = Details {
            name: last.name().to_owned(),
            group: kind.group.to_owned(),
            kind: kind.plural.to_owned(),
            uid: last.uid().to_owned(),
            ..Details::default()
        };
        return Reply::value(StatusCode::OK, &Status::success(&details)).encoded(wanted.encoding);
    }
    list::show_one(resource, StatusCode::OK, done.value(), wanted, include)
}

/// The version of Kubernetes whose API this is, and what serves it.
fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.3+cadastre-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    })
}

/// The processor, as clients know it from Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::Trigger;

    #[tokio::test]
    async fn nobody_sends_a_body_who_may_not_do_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), store::embedded::Options::default()).unwrap();
        let machinery = Machinery::new(store, Config::default());
        for method in [Method::POST, Method::DELETE] {
            let request = Request {
                method,
                path: "/api/v1/namespaces/default/configmaps".to_owned(),
                query: String::new(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
                user: Arc::new(User::anonymous()),
            };
            let reply = machinery.answer(request, std::future::pending(), &Trigger::default().shutdown()).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN);
        }
    }
}
