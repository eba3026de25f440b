//! The paths and documents that say what there is: versions, groups, resources, and the version of the server.

use serde_json::{Value, json};

use super::paths::content;
use super::{capitalized, group_tag, group_words, root, tag};

const VERSIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions";
const GROUPS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList";
const GROUP: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
const RESOURCES: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
const INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

/// Whether a schema is that of an answer about what there is, which is a kind like others.
pub(super) fn is_discovery(schema: &str) -> bool {
    [VERSIONS, GROUPS, GROUP, RESOURCES].contains(&schema)
}

/// `/api/`
pub(super) fn core_versions() -> (String, Value) {
    ("/api/".to_owned(), item("core", "getCoreAPIVersions", "The versions of the core group.", VERSIONS))
}

/// `/apis/`
pub(super) fn groups() -> (String, Value) {
    ("/apis/".to_owned(), item("apis", "getAPIVersions", "The groups that are served.", GROUPS))
}

/// `/apis/GROUP/`
pub(super) fn group(group: &str) -> (String, Value) {
    let id = format!("get{}APIGroup", group_words(group));
    (format!("/apis/{group}/"), item(&group_tag(group), &id, "The versions of this group.", GROUP))
}

/// `/api/VERSION/`, `/apis/GROUP/VERSION/`
pub(super) fn resources(group: &str, version: &str) -> (String, Value) {
    let id = format!("get{}{}APIResources", group_words(group), capitalized(version));
    let item = item(&tag(group, version), &id, "The resources of this version.", RESOURCES);
    (format!("/{}/", root(group, version)), item)
}

/// `/version/`
pub(super) fn version() -> (String, Value) {
    let mut item = item("version", "getCodeVersion", "What the server is built from.", INFO);
    item["get"]["responses"]["200"]["content"] = content(["application/json"], INFO);
    ("/version/".to_owned(), item)
}

/// A path that can only be read.
fn item(tag: &str, id: &str, says: &str, schema: &str) -> Value {
    let content = content(["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"], schema);
    json!({
        "get": {
            "tags": [tag],
            "description": says,
            "operationId": id,
            "responses": {
                "200": { "description": "OK", "content": content },
                "401": { "description": "Unauthorized" },
            },
        },
    })
}
