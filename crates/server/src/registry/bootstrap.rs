//! What is always there: the namespaces that clients count on, the ranges that the command line names, and the Service by which
//! Pods reach the API.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use api::Object;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use space::Cidr;
use store::{Entry, Range, What};
use tracing::{info, warn};

use super::from_flags::{Known, LABEL, Plan, plan};
use super::grants::Grant;
use super::telling::{Told, reference, tell};
use super::{extent, namespaces, node_ports, service_cidrs};
use crate::Config;
use crate::access::{MASTERS, User};
use crate::front::Trigger;
use crate::machinery::{Content, Failure, Machinery, New, Request, catalog, insert};

/// The name of the range, and of the Service, that the cluster itself has.
pub(crate) const NAME: &str = "kubernetes";

/// The port of the Service by which Pods reach the API.
const PORT: u16 = 443;

/// Makes the ranges that are missing: what Services of a restored store have is to lie in them before anybody looks at it.
pub(crate) async fn prepare_ranges(machinery: &Machinery) -> Result<(), Failure> {
    let config = &machinery.config;
    // Events of ranges are in a namespace.
    for name in namespaces::ALWAYS {
        make(machinery, ("", "v1", namespaces::PREFIX), "", &namespace(name)).await?;
    }
    let own = service_cidr(NAME, config);
    if let Err(failure) = make(machinery, ("networking.k8s.io", "v1", "servicecidrs"), "", &own).await {
        // A store that is away for a moment is no fault of the range: the next try makes it.
        if !failure.code.is_server_error() {
            let note = "The default ServiceCIDR can not be created".to_owned();
            let own = Object::from_value(own).unwrap_or_default();
            complain_of_range(machinery, &own, "KubernetesDefaultServiceCIDRError", note).await;
        }
        return Err(failure);
    }
    join(machinery).await;
    if config.tended {
        stand_in(machinery).await?;
    }
    make(machinery, ("ipam.cadastre.dev", "v1alpha1", "nodeportranges"), "", &node_port_range(config)).await
}

/// Makes what is missing at a start.
pub(crate) async fn prepare(machinery: &Machinery) -> Result<(), Failure> {
    if let Some(why) = restore(machinery).await? {
        warn!(why, "the Service default/{NAME} cannot be made");
    }
    Ok(())
}

/// Makes what is missing, and holds what is there against the command line: a server with another one may have made it. Says why
/// `default/kubernetes` cannot be made, if it cannot: its address may belong to another Service, or lie in no range that there is. That is
/// no reason not to serve, but one to try again.
pub(crate) async fn restore(machinery: &Machinery) -> Result<Option<String>, Failure> {
    prepare_ranges(machinery).await?;
    agree_on_addresses(machinery).await;
    agree_on_ports(machinery).await;
    let made = make(machinery, ("", "v1", "services"), "default", &service(&machinery.config)).await;
    Ok(made.err().map(|failure| failure.message))
}

/// Makes a range of what the command line says, if the ranges that there are do not have it; and removes those that are there twice.
async fn stand_in(machinery: &Machinery) -> Result<(), Failure> {
    let prefix = format!("{}/", service_cidrs::PREFIX);
    let page = machinery.store.range(Range { prefix: &prefix, ..Range::default() }).await;
    let entries = page.map(|page| page.entries).unwrap_or_default();
    let objects = entries.iter().filter_map(|entry| Object::parse(&entry.value).ok());
    let there: Vec<Known> = objects.map(|object| Known::read(&object)).collect();
    let Plan { make: missing, remove } = plan(&machinery.config.service_ranges, &there);
    if let Some(name) = missing {
        let range = service_cidr(&name, &machinery.config);
        info!(name, cidrs = ?cidrs(&machinery.config), "no range has what the command line says; this one is made for it");
        make(machinery, ("networking.k8s.io", "v1", "servicecidrs"), "", &range).await?;
    }
    for name in remove {
        info!(name, "another range from the command line has all that this one has; it is removed");
        let path = format!("/apis/networking.k8s.io/v1/servicecidrs/{name}");
        if let Err(why) = send(machinery, Method::DELETE, path, "application/json", Bytes::new()).await {
            warn!(name, why, "the range cannot be removed");
        }
    }
    Ok(())
}

/// Whether that is the address of `default/kubernetes`.
pub(crate) fn is_first(config: &Config, grant: Grant) -> bool {
    first(config).is_some_and(|first| grant == Grant::Address(first))
}

/// Makes an object, unless it is there.
async fn make(
    machinery: &Machinery,
    (group, version, plural): (&str, &str, &str),
    namespace: &str,
    object: &Value,
) -> Result<(), Failure> {
    let Some(resource) = catalog().resource(group, version, plural) else { return Ok(()) };
    let object = Object::from_value(object.clone()).unwrap_or_default();
    if machinery.store.get(&resource.key(namespace, object.name())).is_some() {
        return Ok(());
    }
    let new = New { object, manager: Some("kube-apiserver") };
    match insert(&machinery.around, resource, namespace, new, false, &mut Vec::new()).await {
        Err(failure) if failure.reason != "AlreadyExists" => Err(failure),
        _ => Ok(()),
    }
}

/// Whether a change of a range is a reason to look at what the command line says: that range goes, or is gone, and something may be
/// lacking; or it is the one of the cluster, which somebody has just made, or which a second family is to join.
pub(crate) fn concerns(config: &Config, what: What, entry: &Entry) -> bool {
    let Ok(range) = Object::parse(&entry.value) else { return false };
    let is_new = entry.created == entry.revision;
    let is_one_of_two = || is_first_of(&extent::texts(&range), &cidrs(config));
    what == What::Delete || range.is_terminating() || range.name() == NAME && (is_new || is_one_of_two())
}

/// Whether the one lacks nothing but the second family.
fn is_first_of(there: &[String], wanted: &[String]) -> bool {
    there.len() == 1 && wanted.len() == 2 && there[0] == wanted[0]
}

/// Lets a second family join the range of the cluster if the command line names one now. A server that is started with one family
/// may have made it.
async fn join(machinery: &Machinery) {
    let Some(object) = own(machinery, service_cidrs::PREFIX) else { return };
    let (there, wanted) = (extent::texts(&object), cidrs(&machinery.config));
    if !is_first_of(&there, &wanted) {
        return;
    }
    let path = format!("/apis/networking.k8s.io/v1/servicecidrs/{NAME}");
    let Err(why) = merge(machinery, path, &json!({"spec": {"cidrs": wanted}})).await else { return };
    let (there, wanted) = (shown(&there), shown(&wanted));
    let note = format!("The default ServiceCIDR can not be upgraded from {there} to dual stack {wanted} : {why}");
    complain_of_range(machinery, &object, "KubernetesDefaultServiceCIDRError", note).await;
}

/// Nothing but a second family can change about a range, so people are told if it is not as the command line says.
async fn agree_on_addresses(machinery: &Machinery) {
    let Some(object) = own(machinery, service_cidrs::PREFIX) else { return };
    let (there, wanted) = (extent::texts(&object), cidrs(&machinery.config));
    if there == wanted {
        if let Some((reason, message)) = service_cidrs::not_ready(&object) {
            let note = format!("Configuration matches, but {message}");
            complain_of_range(machinery, &object, reason, note).await;
        }
        return;
    }
    // Why it is not both families was told.
    if is_first_of(&there, &wanted) {
        return;
    }
    let note = format!(
        "The default ServiceCIDR {} does not match the controller flag configurations {}",
        shown(&there),
        shown(&wanted)
    );
    complain_of_range(machinery, &object, "KubernetesDefaultServiceCIDRInconsistent", note).await;
}

fn shown(cidrs: &[String]) -> String {
    format!("[{}]", cidrs.join(" "))
}

/// Tells people if the range of node ports is not as the command line says. It stays as it is.
async fn agree_on_ports(machinery: &Machinery) {
    let Some(object) = own(machinery, node_ports::RANGES) else { return };
    let (first, last) = machinery.config.node_ports;
    let (there, wanted) = (extent::texts(&object).join(" "), format!("{first}-{last}"));
    if there != wanted {
        let note = format!("The default NodePortRange {there} does not match the flag configuration {wanted}");
        let regarding = reference(&object, "ipam.cadastre.dev/v1alpha1", "NodePortRange");
        complain(machinery, regarding, "cadastre", "DefaultNodePortRangeInconsistent", note).await;
    }
}

/// The range of the cluster itself.
fn own(machinery: &Machinery, prefix: &str) -> Option<Object> {
    let entry = machinery.store.get(&format!("{prefix}/{NAME}"))?;
    Object::parse(&entry.value).ok()
}

async fn complain_of_range(machinery: &Machinery, range: &Object, reason: &str, note: String) {
    let regarding = reference(range, "networking.k8s.io/v1", "ServiceCIDR");
    complain(machinery, regarding, "kubernetes-service-cidr-controller", reason, note).await;
}

async fn complain(machinery: &Machinery, regarding: Value, reporter: &'static str, reason: &str, note: String) {
    let (reason, occasion) = (reason.to_owned(), String::new());
    tell(
        &machinery.around,
        &Told { regarding, action: "Configuration", reporter, reason, note, occasion, is_shared: false },
    )
    .await;
}

async fn merge(machinery: &Machinery, path: String, change: &Value) -> Result<(), String> {
    send(machinery, Method::PATCH, path, "application/merge-patch+json", change.to_string().into()).await
}

async fn send(
    machinery: &Machinery,
    method: Method,
    path: String,
    media: &'static str,
    body: Bytes,
) -> Result<(), String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    let user = Arc::new(User::authenticated("system:cadastre", [MASTERS.to_owned()]));
    let request = Request { method, path, query: String::new(), headers, body: body.clone(), user };
    let reply = machinery.answer(request, std::future::ready(Ok(body)), &Trigger::default().shutdown()).await;
    match reply.content {
        _ if reply.status.is_success() => Ok(()),
        Content::Whole(bytes) => Err(String::from_utf8_lossy(&bytes).into_owned()),
        Content::Pieces(_) | Content::Live(_) => Err(reply.status.to_string()),
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn cidrs(config: &Config) -> Vec<String> {
    config.service_ranges.iter().map(ToString::to_string).collect()
}

fn service_cidr(name: &str, config: &Config) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name, "labels": {LABEL: "true"}}, "spec": {"cidrs": cidrs(config)},
    })
}

fn node_port_range(config: &Config) -> Value {
    let (first, last) = config.node_ports;
    json!({
        "apiVersion": "ipam.cadastre.dev/v1alpha1", "kind": "NodePortRange", "metadata": {"name": NAME},
        "spec": {"ports": format!("{first}-{last}")},
    })
}

/// The address of the Service by which Pods reach the API.
fn first(config: &Config) -> Option<IpAddr> {
    config.service_ranges.first().map(|range| match range {
        Cidr::V4(range) => IpAddr::from(Ipv4Addr::from(range.first() + 1)),
        Cidr::V6(range) => IpAddr::from(Ipv6Addr::from(range.first() + 1)),
    })
}

fn service(config: &Config) -> Value {
    let first = first(config);
    let reached = config.address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(6443_u16);
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "sessionAffinity": "None", "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP", "targetPort": reached}],
        },
    });
    if let Some(first) = first {
        service["spec"]["clusterIP"] = json!(first.to_string());
    }
    service
}
