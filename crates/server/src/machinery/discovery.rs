//! Discovery: which groups, versions and resources there are, plain and aggregated.

use api::Kind;
use api::kind::Subresource;
use serde_json::{Value, json};

use super::catalog::{Catalog, Version};
use super::negotiate::Encoding;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn verbs(kind: &Kind) -> Vec<&'static str> {
    if kind.is_question {
        return vec!["create"];
    }
    VERBS.into_iter().filter(|&verb| verb != "deletecollection" || kind.deletes_collection).collect()
}

/// The media type of aggregated discovery in that version.
pub(crate) fn aggregated_media_type(version: &str, encoding: Encoding) -> String {
    format!("{};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList", encoding.media_type())
}

/// `/api`
pub(crate) fn core_versions(catalog: &Catalog, address: &str) -> Value {
    let versions: Vec<&str> =
        catalog.versions().iter().filter(|version| version.group.is_empty()).map(|version| version.name).collect();
    json!({
        "kind": "APIVersions", "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`
pub(crate) fn groups(catalog: &Catalog) -> Value {
    let groups: Vec<Value> =
        catalog.groups().into_iter().filter(|name| !name.is_empty()).map(|name| described(catalog, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`
pub(crate) fn group(catalog: &Catalog, name: &str) -> Option<Value> {
    if name.is_empty() || !catalog.groups().contains(&name) {
        return None;
    }
    let mut group = described(catalog, name);
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

fn described(catalog: &Catalog, name: &str) -> Value {
    let versions: Vec<Value> = catalog
        .versions()
        .iter()
        .filter(|version| version.group == name)
        .map(|version| json!({"groupVersion": format!("{name}/{}", version.name), "version": version.name}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1`, `/apis/GROUP/VERSION`
pub(crate) fn resources(version: &Version) -> Value {
    let mut resources = Vec::new();
    for resource in &version.resources {
        let kind = resource.kind;
        let mut one = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.is_namespaced(), "kind": kind.kind,
            "verbs": verbs(kind),
        });
        if !kind.short_names.is_empty() {
            one["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            one["categories"] = json!(kind.categories);
        }
        resources.push(one);
        for &part in kind.subresources {
            resources.push(json!({
                "name": format!("{}/{}", kind.plural, part.name()), "singularName": "",
                "namespaced": kind.is_namespaced(), "kind": kind.kind, "verbs": part_verbs(part),
            }));
        }
        for question in kind.questions {
            let asked = question.kind;
            resources.push(json!({
                "name": format!("{}/{}", kind.plural, question.name), "singularName": "",
                "namespaced": kind.is_namespaced(), "group": asked.group, "version": asked.version, "kind": asked.kind,
                "verbs": ["create"],
            }));
        }
    }
    let group_version =
        if version.group.is_empty() { version.name.to_owned() } else { format!("{}/{}", version.group, version.name) };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !version.group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn part_verbs(part: Subresource) -> &'static [&'static str] {
    match part {
        Subresource::Status => &["get", "patch", "update"],
        Subresource::Finalize => &["update"],
    }
}

/// `/api` or `/apis`, aggregated: all groups (but the core group, or the core group alone) with all their resources.
pub(crate) fn aggregated(catalog: &Catalog, api_version: &str, core: bool) -> Value {
    let groups: Vec<Value> = catalog
        .groups()
        .into_iter()
        .filter(|name| name.is_empty() == core)
        .map(|name| {
            let versions: Vec<Value> = catalog
                .versions()
                .iter()
                .filter(|version| version.group == name)
                .map(|version| {
                    let resources: Vec<Value> =
                        version.resources.iter().map(|resource| aggregated_resource(resource.kind)).collect();
                    json!({"version": version.name, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{api_version}"), "metadata": {},
        "items": groups,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let named = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut resource = json!({
        "resource": kind.plural, "responseKind": named(kind), "verbs": verbs(kind), "singularResource": kind.singular,
        "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let parts = kind.subresources.iter().map(|&part| (part.name(), kind, part_verbs(part)));
    let questions = kind.questions.iter().map(|question| (question.name, question.kind, &["create"][..]));
    let parts: Vec<Value> = parts
        .chain(questions)
        .map(|(name, kind, verbs)| json!({"subresource": name, "responseKind": named(kind), "verbs": verbs}))
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}
