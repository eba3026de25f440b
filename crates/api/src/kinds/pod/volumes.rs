//! The rules for the volumes of a pod: a name, and one source, of which the usual ones are looked into.

use std::collections::HashSet;

use serde_json::Value;

use super::sources;
use crate::field::{Errors, Path};
use crate::reading::{items, number, text};
use crate::{meta, names};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// What can be at a path of the node.
const PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Where the data of a volume may come from, in the order in which they are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Notes what is wrong with the volumes of the pod of that name; the names of those that are right.
pub(super) fn validate<'a>(pod: &str, spec: &'a Value, errors: &mut Errors) -> HashSet<&'a str> {
    let mut good = HashSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let path = Path::new("spec").child("volumes").index(index);
        let before = errors.len();
        let (mut found, named) = (false, text(volume, "name"));
        for name in SOURCES {
            let Some(source) = volume.get(name).filter(|source| !source.is_null()) else { continue };
            if found {
                errors.forbidden(&path.child(name), "may not specify more than 1 volume type");
            } else {
                validate_source(&path.child(name), name, source, errors);
                if name == "ephemeral" && !pod.is_empty() && !named.is_empty() {
                    validate_claim(&path, pod, named, errors);
                }
            }
            found = true;
        }
        if !found {
            errors.required(&path, "must specify a volume type");
        }
        if named.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            meta::invalid_text(&path.child("name"), named, names::label(named, false), errors);
        }
        if good.contains(named) {
            errors.duplicate(&path.child("name"), &Value::from(named));
        }
        if errors.len() == before {
            good.insert(named);
        }
    }
    good
}

/// The claim that will be made for an ephemeral volume is named after it and its pod.
fn validate_claim(path: &Path, pod: &str, volume: &str, errors: &mut Errors) {
    let claim = format!("{pod}-{volume}");
    for why in names::subdomain(&claim, false) {
        errors.invalid(&path.child("name"), &Value::from(volume), format!("PVC name {claim:?}: {why}"));
    }
}

fn validate_source(path: &Path, name: &str, source: &Value, errors: &mut Errors) {
    let needed = |field: &str, errors: &mut Errors| {
        if text(source, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    };
    match name {
        "hostPath" => validate_host_path(path, source, errors),
        "secret" | "configMap" => {
            needed(if name == "secret" { "secretName" } else { "name" }, errors);
            validate_mode(&path.child("defaultMode"), number(source, "defaultMode"), errors);
            validate_items(path, source, errors);
        }
        "downwardAPI" => {
            validate_mode(&path.child("defaultMode"), number(source, "defaultMode"), errors);
            for file in items(source, "items") {
                validate_file(path, file, errors);
            }
        }
        "projected" => {
            validate_mode(&path.child("defaultMode"), number(source, "defaultMode"), errors);
            validate_projected(path, source, errors);
        }
        "persistentVolumeClaim" => needed("claimName", errors),
        "nfs" => {
            needed("server", errors);
            needed("path", errors);
            if !text(source, "path").starts_with('/') {
                errors.invalid(&path.child("path"), &Value::from(text(source, "path")), "must be an absolute path");
            }
        }
        _ => {}
    }
}

fn validate_host_path(path: &Path, source: &Value, errors: &mut Errors) {
    let file = text(source, "path");
    if file.is_empty() {
        return errors.required(&path.child("path"), "");
    }
    no_steps_back(&path.child("path"), file, errors);
    let kind = text(source, "type");
    if !PATH_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), &Value::from(kind), &PATH_TYPES);
    }
}

fn validate_mode(path: &Path, mode: Option<i64>, errors: &mut Errors) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, &Value::from(mode), MODE);
    }
}

/// Keys, and the files that they become.
fn validate_items(path: &Path, source: &Value, errors: &mut Errors) {
    for (index, item) in items(source, "items").iter().enumerate() {
        validate_item(&path.child("items").index(index), item, errors);
    }
}

fn validate_item(path: &Path, item: &Value, errors: &mut Errors) {
    if text(item, "key").is_empty() {
        errors.required(&path.child("key"), "");
    }
    validate_file_path(path, item, errors);
    validate_mode(&path.child("mode"), number(item, "mode"), errors);
}

fn validate_file_path(path: &Path, item: &Value, errors: &mut Errors) {
    let file = text(item, "path");
    if file.is_empty() {
        errors.required(&path.child("path"), "");
    }
    within(&path.child("path"), file, errors);
    if file.starts_with("..") && !file.starts_with("../") {
        errors.invalid(&path.child("path"), &Value::from(file), "must not start with '..'");
    }
}

/// A file with a fact about the pod. Clients know its faults without its place in the list.
fn validate_file(path: &Path, file: &Value, errors: &mut Errors) {
    validate_file_path(path, file, errors);
    let there = |name: &str| file.get(name).filter(|source| source.is_object());
    match (there("fieldRef"), there("resourceFieldRef")) {
        (Some(field), resource) => {
            sources::validate_field(&path.child("fieldRef"), field, &sources::IN_FILES, errors);
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, &Value::from("resource"), why);
            }
        }
        (None, Some(resource)) => sources::validate_resource(&path.child("resourceFieldRef"), resource, true, errors),
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(&path.child("mode"), number(file, "mode"), errors);
}

fn validate_projected(path: &Path, volume: &Value, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, source) in items(volume, "sources").iter().enumerate() {
        let at = path.child("sources").index(index);
        let there = |name: &str| source.get(name).filter(|source| source.is_object());
        for name in ["secret", "configMap"] {
            let Some(source) = there(name) else { continue };
            let (at, shown) = (at.child(name), text(source, "name"));
            if shown.is_empty() {
                errors.required(&at.child("name"), "");
            }
            for (index, item) in items(source, "items").iter().enumerate() {
                validate_item(&at.child("items").index(index), item, errors);
                if !text(item, "path").is_empty() && !taken.insert(text(item, "path")) {
                    errors.invalid(path, &Value::from(shown), "conflicting duplicate paths");
                }
            }
        }
        for file in there("downwardAPI").into_iter().flat_map(|source| items(source, "items")) {
            validate_file(&at.child("downwardAPI"), file, errors);
            if !text(file, "path").is_empty() && !taken.insert(text(file, "path")) {
                errors.invalid(path, &Value::from(text(file, "path")), "conflicting duplicate paths");
            }
        }
        if let Some(token) = there("serviceAccountToken") {
            let (at, seconds) = (at.child("serviceAccountToken"), number(token, "expirationSeconds").unwrap_or(0));
            if seconds < 600 {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(&at.child("expirationSeconds"), &Value::from(seconds), why);
            }
            if seconds > 1 << 32 {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(&at.child("expirationSeconds"), &Value::from(seconds), why);
            }
            validate_file_path(path, token, errors);
        }
        let sources =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        if sources.iter().filter(|name| there(name).is_some()).count() > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

/// Notes a path that leads out of the folder it is in.
pub(super) fn within(path: &Path, file: &str, errors: &mut Errors) {
    if file.starts_with('/') {
        errors.invalid(path, &Value::from(file), "must be a relative path");
    }
    no_steps_back(path, file, errors);
}

fn no_steps_back(path: &Path, file: &str, errors: &mut Errors) {
    if file.split('/').any(|part| part == "..") {
        errors.invalid(path, &Value::from(file), "must not contain '..'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(volumes: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate("pod", &json!({ "volumes": volumes }), &mut errors);
        errors.iter().map(|error| error.to_string().replacen("spec.volumes", "", 1)).collect()
    }

    #[test]
    fn volumes_have_a_name_and_one_source() {
        assert_eq!(
            faults(&json!([
                {"name": "v", "emptyDir": {}, "hostPath": {"path": "../x"}}, {"name": "v", "secret": {}},
                {"name": "w", "configMap": {"name": "x", "defaultMode": 1000}}, {"name": "x", "emptyDir": {}},
                {"name": "x", "emptyDir": {}}, {"hostPath": {"path": "/a/../b", "type": "X"}}, {"name": "z"},
            ])),
            [
                "[0].hostPath: Forbidden: may not specify more than 1 volume type",
                "[1].secret.secretName: Required value",
                "[2].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive",
                "[4].name: Duplicate value: \"x\"",
                "[5].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "[5].hostPath.type: Unsupported value: \"X\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
                "[5].name: Required value",
                "[6]: Required value: must specify a volume type",
            ]
        );
    }

    #[test]
    fn the_claim_of_an_ephemeral_volume_has_a_name_too() {
        let told = faults(&json!([{"name": "a", "ephemeral": {}}, {"name": "B", "ephemeral": {}}]));
        assert!(told[0].starts_with("[1].name: Invalid value: \"B\": PVC name \"pod-B\": a lowercase"), "{told:?}");
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn files_stay_in_their_volume() {
        assert_eq!(
            faults(&json!([
                {"name": "a", "configMap": {"name": "c", "items": [{"key": "a", "path": "../b"}, {"key": "", "path": "/c", "mode": -1}]}},
                {"name": "b", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "spec.x"}}, {"path": "..q"}]}},
                {"name": "c", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
                    {"secret": {"name": "s", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x"}]}, "configMap": {"name": "c"}},
                ]}},
            ])),
            [
                "[0].configMap.items[0].path: Invalid value: \"../b\": must not contain '..'",
                "[0].configMap.items[1].key: Required value",
                "[0].configMap.items[1].path: Invalid value: \"/c\": must be a relative path",
                "[0].configMap.items[1].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
                "[1].downwardAPI.fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
                "[1].downwardAPI.path: Invalid value: \"..q\": must not start with '..'",
                "[1].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
                "[2].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "[2].projected.path: Required value",
                "[2].projected: Invalid value: \"s\": conflicting duplicate paths",
                "[2].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
            ]
        );
    }
}
