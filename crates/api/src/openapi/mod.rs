//! The `OpenAPI` v3 documents of the kinds, one for each group and version, and the index of them.
//!
//! Made from the kinds' declarations and the schema tables alone. kubectl reads them before it creates or applies anything
//! (does a PATCH take `fieldValidation`? how does a list merge?) and to explain a kind.

mod paths;
mod schemas;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// The index: where the document of each group and version is.
pub fn index(kinds: &[&Kind]) -> Value {
    let versions: BTreeSet<_> = kinds.iter().map(|kind| (kind.group, kind.version)).collect();
    let paths: Map<_, _> = versions
        .into_iter()
        .map(|(group, version)| {
            let path = root(group, version);
            // Clients keep what is under this address for good, so it changes with what is there.
            let mut hasher = DefaultHasher::new();
            document(group, version, kinds).to_string().hash(&mut hasher);
            let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// The document of a group and version. Kinds of others are left out.
pub fn document(group: &str, version: &str, kinds: &[&Kind]) -> Value {
    let kinds: Vec<&Kind> =
        kinds.iter().copied().filter(|kind| kind.group == group && kind.version == version).collect();
    let paths: Map<_, _> = kinds.iter().flat_map(|kind| paths::of(kind, &root(group, version))).collect();
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Cadastre", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas::of(&kinds) },
    })
}

/// `api/v1`, `apis/networking.k8s.io/v1`.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The kind as `x-kubernetes-group-version-kind` has it.
fn group_version_kind(kind: &Kind, name: &str) -> Value {
    json!({ "group": kind.group, "kind": name, "version": kind.version })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The name of the schema of a kind's lists.
fn list_schema(kind: &Kind) -> String {
    format!("{}List", kind.schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;

    /// Every `$ref` in a document.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_kind_has_its_paths_and_its_schema() {
        for kind in KINDS {
            let document = document(kind.group, kind.version, KINDS);
            let schema = &document["components"]["schemas"][kind.schema];
            assert_eq!(
                schema["x-kubernetes-group-version-kind"],
                json!([group_version_kind(kind, kind.kind)]),
                "{}",
                kind.kind
            );
            let mut patches = 0;
            for (path, item) in document["paths"].as_object().unwrap() {
                let patch = &item["patch"];
                if patch["x-kubernetes-group-version-kind"] == group_version_kind(kind, kind.kind) {
                    patches += 1;
                    let names: Vec<_> =
                        patch["parameters"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
                    assert!(names.contains(&&json!("fieldValidation")), "{path}: kubectl refuses to work without it");
                }
            }
            assert_eq!(patches, 1 + usize::from(kind.has(crate::kind::Subresource::Status)), "{}", kind.kind);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let all: Vec<_> = crate::kinds::all().collect();
        for kind in &all {
            let document = document(kind.group, kind.version, &all);
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            for reference in found {
                let pointer = reference.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{reference} in {}", kind.api_version());
            }
        }
    }

    #[test]
    fn a_question_can_only_be_asked() {
        let document = document("authorization.k8s.io", "v1", crate::kinds::QUESTIONS);
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 4);
        for (path, item) in paths {
            assert!(item["post"].is_object() && item["get"].is_null() && !path.contains("{name}"), "{path}");
        }
        let core = super::document("", "v1", KINDS);
        let post = &core["paths"]["/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"]["post"];
        assert_eq!(post["x-kubernetes-group-version-kind"]["kind"], "TokenRequest");
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let document = document("", "v1", KINDS);
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (verb, operation) in item.as_object().unwrap().iter().filter(|(verb, _)| *verb != "parameters") {
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{verb} {path}");
            }
        }
        assert!(ids.contains("patchCoreV1NamespacedServiceStatus"), "{ids:?}");
        assert!(ids.contains("deleteCoreV1CollectionNode"), "{ids:?}");
    }

    #[test]
    fn the_index_leads_to_each_document() {
        let index = index(KINDS);
        let url = |path: &str| index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_default().to_owned();
        assert!(url("api/v1").starts_with("/openapi/v3/api/v1?hash="), "{index}");
        assert!(url("apis/networking.x-k8s.io/v1").starts_with("/openapi/v3/apis/networking.x-k8s.io/v1?hash="));
        let fewer: Vec<&Kind> = KINDS.iter().copied().filter(|kind| kind.kind != "Pod").collect();
        assert_ne!(
            super::index(&fewer)["paths"]["api/v1"],
            index["paths"]["api/v1"],
            "another document, another address"
        );
    }

    #[test]
    fn a_field_is_published_with_what_clients_need_to_merge_it() {
        let document = document("", "v1", KINDS);
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"],
            json!({
                "type": "array",
                "items": { "default": {}, "allOf": [{ "$ref": "#/components/schemas/io.k8s.api.core.v1.ServicePort" }] },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "port",
            })
        );
        let port = &schemas["io.k8s.api.core.v1.ServicePort"];
        assert_eq!(port["required"], json!(["port"]));
        assert_eq!(port["properties"]["protocol"]["default"], json!("TCP"));
        assert_eq!(schemas["io.k8s.api.core.v1.Volume"]["properties"]["name"]["default"], json!(""));
        assert_eq!(schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"], json!("atomic"));
    }
}
