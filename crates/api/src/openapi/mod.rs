//! The `OpenAPI` v3 documents: one for each group and version, and small ones for the paths above them.
//!
//! Made from the kinds' declarations, the schema tables and the descriptions alone. kubectl reads them before it creates or
//! applies anything (does a PATCH take `fieldValidation`? how does a list merge?) and to explain a kind. What the real
//! kube-apiserver publishes of the same paths and structures is the same but for the descriptions: `cargo xtask e2e openapi`.

mod about;
mod parameters;
mod paths;
mod schemas;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::schema::Definition;

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// The name of the schema of a patch, which can be anything.
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
/// What every schema is referred to by, before its name.
const SCHEMAS: &str = "#/components/schemas/";

/// The names of the documents, which are the paths they are about: `api/v1`, `apis`, `apis/networking.k8s.io`, `version`.
pub fn names(kinds: &[&Kind]) -> BTreeSet<String> {
    let groups = kinds.iter().filter(|kind| !kind.group.is_empty()).map(|kind| format!("apis/{}", kind.group));
    let versions = kinds.iter().map(|kind| root(kind.group, kind.version));
    ["api", "apis", "version"].map(str::to_owned).into_iter().chain(groups).chain(versions).collect()
}

/// The document of that name, if there is one. Kinds of other groups and versions are left out.
pub fn document(name: &str, kinds: &[&Kind]) -> Option<Value> {
    if !names(kinds).contains(name) {
        return None;
    }
    let (group, version) = match name.split('/').collect::<Vec<_>>()[..] {
        ["api", version] => ("", version),
        ["apis", group] => (group, ""),
        ["apis", group, version] => (group, version),
        _ => ("", ""),
    };
    let kinds: Vec<&Kind> =
        kinds.iter().copied().filter(|kind| kind.group == group && kind.version == version).collect();
    let first = match (name, version) {
        ("api", _) => about::core_versions(),
        ("apis", _) => about::groups(),
        ("version", _) => about::version(),
        (_, "") => about::group(group),
        _ => about::resources(group, version),
    };
    let of_kinds = kinds.iter().flat_map(|kind| paths::of(kind, name));
    let paths = Value::Object(std::iter::once(first).chain(of_kinds).collect::<Map<_, _>>());
    let mut referred = BTreeSet::new();
    references(&paths, &mut referred);
    let schemas = schemas::of(referred, &Served { group, version, kinds: &kinds });
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Cadastre", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "description": "A token, sent as `Bearer` and the token.",
                    "name": "authorization",
                    "in": "header",
                },
            },
        },
    }))
}

/// The schema of a structure with everything in it, as a `CustomResourceDefinition` has it.
pub(crate) fn whole(definition: &Definition) -> Value {
    schemas::whole(definition)
}

/// What a document is about.
struct Served<'a> {
    group: &'a str,
    version: &'a str,
    kinds: &'a [&'a Kind],
}

impl Served<'_> {
    /// The kinds that a schema stands for, as `x-kubernetes-group-version-kind` has them.
    fn kinds_of(&self, schema: &str) -> Vec<Value> {
        let mut found = Vec::new();
        let questions = self.kinds.iter().flat_map(|kind| kind.questions).map(|question| question.kind);
        for kind in self.kinds.iter().copied().chain(questions) {
            if kind.schema == schema {
                found.push(group_version_kind(kind.group, kind.version, kind.kind));
            } else if list_schema(kind) == schema {
                found.push(group_version_kind(kind.group, kind.version, &format!("{}List", kind.kind)));
            }
        }
        let (_, name) = schema.rsplit_once('.').unwrap_or_default();
        // These are the same in every group. Only the options of a delete say so.
        if schema == STATUS || schema == DELETE_OPTIONS || about::is_discovery(schema) {
            found.push(group_version_kind("", "v1", name));
        }
        if schema == DELETE_OPTIONS && !self.group.is_empty() {
            found.push(group_version_kind(self.group, self.version, name));
        }
        found
    }
}

/// `api/v1`, `apis/networking.k8s.io/v1`.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "kind": kind, "version": version })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
}

/// The names of all schemas that are referred to.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(SCHEMAS)));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// The name of the schema of a kind's lists.
fn list_schema(kind: &Kind) -> String {
    format!("{}List", kind.schema)
}

/// `core_v1`, `networking_v1`, `whereaboutsCniCncfIo_v1alpha1`.
fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_tag(group))
}

/// `core`, `networking`, `whereaboutsCniCncfIo`.
fn group_tag(group: &str) -> String {
    let words = group_words(group);
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// The group in the names of operations: `Core`, `Networking` for networking.k8s.io, `WhereaboutsCniCncfIo`.
fn group_words(group: &str) -> String {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "Core".to_owned(),
        group => group.split(['.', '-']).map(capitalized).collect(),
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{self, KINDS};

    fn made(group: &str, version: &str) -> Value {
        document(&root(group, version), &all()).unwrap()
    }

    fn all() -> Vec<&'static Kind> {
        kinds::all().collect()
    }

    #[test]
    fn every_kind_has_its_paths_and_its_schema() {
        for kind in KINDS {
            let document = made(kind.group, kind.version);
            let schema = &document["components"]["schemas"][kind.schema];
            assert_eq!(
                schema["x-kubernetes-group-version-kind"],
                json!([group_version_kind(kind.group, kind.version, kind.kind)]),
                "{}",
                kind.kind
            );
            let mut patches = 0;
            for (path, item) in document["paths"].as_object().unwrap() {
                let patch = &item["patch"];
                if patch["x-kubernetes-group-version-kind"] == group_version_kind(kind.group, kind.version, kind.kind) {
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
    fn every_reference_leads_somewhere_and_nothing_is_left_over() {
        for name in names(&all()) {
            let document = document(&name, &all()).unwrap();
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            let there: BTreeSet<_> =
                document["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found, there, "{name}");
        }
    }

    #[test]
    fn a_question_can_only_be_asked() {
        let document = made("authorization.k8s.io", "v1");
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 5, "the questions, and the resources of the version");
        for (path, item) in paths.iter().filter(|(path, _)| !path.ends_with('/')) {
            assert!(item["post"].is_object() && item["get"].is_null() && !path.contains("{name}"), "{path}");
        }
        let core = made("", "v1");
        let post = &core["paths"]["/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"]["post"];
        assert_eq!(post["x-kubernetes-group-version-kind"]["kind"], "TokenRequest");
        assert_eq!(post["operationId"], "createCoreV1NamespacedServiceAccountToken");
        let request = &core["components"]["schemas"]["io.k8s.api.authentication.v1.TokenRequest"];
        assert_eq!(request["x-kubernetes-group-version-kind"][0]["group"], "authentication.k8s.io");
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let document = made("", "v1");
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
    fn there_is_a_document_for_each_path_above_the_resources() {
        let names = names(&all());
        for name in ["api", "api/v1", "apis", "apis/networking.k8s.io", "apis/networking.k8s.io/v1beta1", "version"] {
            assert!(names.contains(name), "{name}");
            let document = document(name, &all()).unwrap();
            let get = &document["paths"][format!("/{name}/")]["get"];
            assert_eq!(get["responses"]["401"]["description"], "Unauthorized", "{name}");
        }
        for name in ["", "apis/", "apis/networking.k8s.io/v2", "api/v1/pods", "apis//v1"] {
            assert_eq!(document(name, &all()), None, "{name}");
        }
    }

    #[test]
    fn what_all_operations_of_a_path_take_is_said_once() {
        let document = made("", "v1");
        let names = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let item = &document["paths"]["/api/v1/namespaces/{name}/finalize"];
        let all = ["dryRun", "fieldManager", "fieldValidation", "name", "pretty"];
        assert_eq!(
            (names(&item["parameters"]), names(&item["put"]["parameters"])),
            (all.map(str::to_owned).to_vec(), vec![])
        );
        let item = &document["paths"]["/api/v1/nodes/{name}"];
        assert_eq!(names(&item["parameters"]), ["name", "pretty"]);
        assert_eq!(names(&item["patch"]["parameters"]), ["dryRun", "fieldManager", "fieldValidation", "force"]);
    }

    #[test]
    fn a_delete_is_documented_with_what_it_answers() {
        let document = made("", "v1");
        let answer = |path: &str| {
            let content =
                &document["paths"][format!("/api/v1/{path}/{{name}}")]["delete"]["responses"]["200"]["content"];
            content["application/json"]["schema"]["$ref"]
                .as_str()
                .unwrap_or_default()
                .rsplit('.')
                .next()
                .map(str::to_owned)
        };
        assert_eq!(answer("namespaces/{namespace}/pods").as_deref(), Some("Pod"));
        assert_eq!(answer("namespaces/{namespace}/configmaps").as_deref(), Some("Status"));
        assert_eq!(answer("namespaces").as_deref(), Some("Status"), "as it always was");
    }

    #[test]
    fn only_built_in_kinds_have_protobuf_and_strategic_patches() {
        for kind in KINDS {
            let document = made(kind.group, kind.version).to_string();
            for ty in ["application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf;stream=watch"] {
                assert_eq!(document.contains(ty), kind.is_built_in(), "{ty} in {}", kind.api_version());
            }
        }
    }

    #[test]
    fn the_parts_of_a_custom_kind_stand_in_it() {
        let document = made("whereabouts.cni.cncf.io", "v1alpha1");
        let pool = &document["components"]["schemas"]["io.cncf.cni.whereabouts.v1alpha1.NodeSlicePool"];
        assert_eq!(pool["properties"]["spec"]["properties"]["range"]["type"], "string");
        let schema = json!([{ "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }]);
        assert_eq!(pool["properties"]["metadata"]["allOf"], schema);
    }

    #[test]
    fn everything_is_described() {
        fn undescribed(schema: &Value, place: &str, found: &mut Vec<String>) {
            if schema["description"].as_str().is_none_or(str::is_empty) {
                found.push(place.to_owned());
            }
            for inner in [schema, &schema["items"], &schema["additionalProperties"]] {
                for (name, property) in inner["properties"].as_object().into_iter().flatten() {
                    undescribed(property, &format!("{place}.{name}"), found);
                }
            }
        }
        let mut found = Vec::new();
        for name in names(&all()) {
            let document = document(&name, &all()).unwrap();
            for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
                undescribed(schema, name, &mut found);
            }
        }
        found.sort();
        found.dedup();
        assert!(found.is_empty(), "{} without a description:\n{}", found.len(), found.join("\n"));
    }

    #[test]
    fn a_field_is_published_with_what_clients_need_to_merge_it() {
        let document = made("", "v1");
        let schemas = &document["components"]["schemas"];
        assert_eq!(
            schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"],
            json!({
                "type": "array",
                "description": schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]["description"],
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
        assert_eq!(schemas["io.k8s.api.core.v1.SeccompProfile"]["x-kubernetes-unions"][0]["discriminator"], "type");
    }
}
