//! Where the value of a variable or a file comes from: a field of the pod, what a container may use, a key of something else.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::reading::{items, text};
use crate::{meta, names};

/// The fields that can become files.
pub(super) const IN_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The fields that can become variables.
const IN_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Notes what is wrong with the variables of a container, from both lists.
pub(super) fn validate(path: &Path, container: &Value, errors: &mut Errors) {
    validate_variables(&path.child("env"), items(container, "env"), errors);
    validate_whole(&path.child("envFrom"), items(container, "envFrom"), errors);
}

fn validate_variables(path: &Path, variables: &[Value], errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            meta::invalid_text(&path.child("name"), name, names::environment_name(name), errors);
        }
        let Some(from) = variable.get("valueFrom").filter(|from| from.is_object()) else { continue };
        validate_from(&path.child("valueFrom"), from, !text(variable, "value").is_empty(), errors);
    }
}

fn validate_from(path: &Path, from: &Value, has_value: bool, errors: &mut Errors) {
    let there = |name: &str| from.get(name).filter(|source| source.is_object());
    let mut sources = 0;
    if let Some(field) = there("fieldRef") {
        sources += 1;
        validate_field(&path.child("fieldRef"), field, &IN_VARIABLES, errors);
    }
    if let Some(resource) = there("resourceFieldRef") {
        sources += 1;
        validate_resource(&path.child("resourceFieldRef"), resource, false, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = there(name) {
            sources += 1;
            validate_key(&path.child(name), key, errors);
        }
    }
    sources += usize::from(there("fileKeyRef").is_some());
    let why = match sources {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.invalid(path, &Value::from(""), why);
}

fn validate_key(path: &Path, reference: &Value, errors: &mut Errors) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    meta::invalid_text(&path.child("name"), name, names::subdomain(name, false), errors);
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        meta::invalid_text(&path.child("key"), key, names::config_key(key), errors);
    }
}

/// Notes what is wrong with the objects whose keys all become variables.
fn validate_whole(path: &Path, sources: &[Value], errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let at = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            meta::invalid_text(&at.child("prefix"), prefix, names::environment_name(prefix), errors);
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = source.get(kind).filter(|reference| reference.is_object()) else { continue };
            found += 1;
            let (at, name) = (at.child(kind).child("name"), text(reference, "name"));
            if name.is_empty() {
                errors.required(&at, "");
            } else {
                meta::invalid_text(&at, name, names::subdomain(name, true), errors);
            }
        }
        match found {
            0 => errors.invalid(path, &Value::from(""), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, &Value::from(""), "may not have more than one field specified at a time"),
        }
    }
}

/// Notes what is wrong with a reference to a field of the pod, which has to be one of those.
pub(super) fn validate_field(path: &Path, reference: &Value, allowed: &[&str], errors: &mut Errors) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"), "");
    }
    let at = path.child("fieldPath");
    if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(&at, &Value::from(field), why);
    }
    let (name, key) = match field.strip_suffix("']").and_then(|begin| begin.split_once("['")) {
        Some((name, key)) => (name, Some(key)),
        None => (field, None),
    };
    let subscripted = ["metadata.annotations", "metadata.labels"].contains(&name);
    let known = match key {
        Some(_) => subscripted,
        None => IN_FILES.contains(&name) || IN_VARIABLES.contains(&name),
    };
    match key {
        _ if !known => {
            let why = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(&at, &Value::from(field), why);
        }
        Some(key) if name == "metadata.annotations" => {
            let key = key.to_lowercase();
            meta::invalid_text(path, &key, names::qualified_name(&key), errors);
        }
        Some(key) => meta::invalid_text(path, key, names::qualified_name(key), errors),
        None if !allowed.contains(&name) => errors.not_supported(&at, &Value::from(name), allowed),
        None => {}
    }
}

/// Notes what is wrong with a reference to what a container may use. A volume has to say of which container.
pub(super) fn validate_resource(path: &Path, reference: &Value, of_volume: bool, errors: &mut Errors) {
    let resource = text(reference, "resource");
    if of_volume && text(reference, "containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource)
        && !["limits.hugepages-", "requests.hugepages-"].iter().any(|begin| resource.starts_with(begin))
    {
        errors.not_supported(&path.child("resource"), &Value::from(resource), &RESOURCES);
    }
    let divisor = text(reference, "divisor");
    if let Some((units, shown)) = divisors(resource)
        && !["", "0"].contains(&divisor)
        && !units.contains(&divisor)
    {
        let listed = if units.len() == 2 { units.join(" and ") } else { units.join(", ") };
        let why = format!("only divisor's values {listed} are supported with the {shown} resource");
        errors.invalid(&path.child("divisor"), &Value::from(resource), why);
    }
}

/// In which units an amount can be given, and how messages name it.
fn divisors(resource: &str) -> Option<(&'static [&'static str], &'static str)> {
    const BYTES: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    match resource.split_once('.')?.1 {
        "cpu" => Some((&["1m", "1"], "cpu")),
        "memory" => Some((BYTES, "memory")),
        "ephemeral-storage" => Some((BYTES, "local ephemeral storage")),
        name if name.starts_with("hugepages-") => Some((BYTES, "hugepages")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(container: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&Path::new("c"), container, &mut errors);
        errors.iter().map(|error| error.to_string().replacen("c.", "", 1)).collect()
    }

    #[test]
    fn a_variable_has_a_name_and_one_source() {
        let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
        assert_eq!(
            faults(&json!({"env": [
                {"name": ""}, {"name": "a=b"}, {"name": "c", "valueFrom": {}},
                {"name": "d", "value": "x", "valueFrom": {"fieldRef": field}},
                {"name": "e", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}, "configMapKeyRef": {"name": "s", "key": "k"}}},
            ]})),
            [
                "env[0].name: Required value",
                "env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
                "env[3].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                "env[4].valueFrom.secretKeyRef.key: Required value",
                "env[4].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ]
        );
    }

    #[test]
    fn fields_and_resources_are_known() {
        let with = |from: Value| faults(&json!({"env": [{"name": "a", "valueFrom": from}]}));
        let field = |path: &str| with(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}}));
        let path = "env[0].valueFrom.fieldRef";
        for good in ["metadata.name", "status.podIPs", "metadata.labels['a/b']", "metadata.annotations['A']"] {
            assert_eq!(field(good), [""; 0], "{good}");
        }
        assert_eq!(
            field("spec.x"),
            [format!(
                "{path}.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x"
            )]
        );
        assert!(
            field("metadata.labels")[0]
                .starts_with(&format!("{path}.fieldPath: Unsupported value: \"metadata.labels\""))
        );
        assert!(field("metadata.labels['a b']")[0].starts_with(&format!("{path}: Invalid value: \"a b\"")));
        let resource =
            |name: &str, divisor: &str| with(json!({"resourceFieldRef": {"resource": name, "divisor": divisor}}));
        assert_eq!(resource("limits.cpu", "1m"), [""; 0]);
        assert!(
            resource("limits.cpu", "3")[0]
                .contains("only divisor's values 1m and 1 are supported with the cpu resource")
        );
        assert!(resource("limits.x", "0")[0].contains("Unsupported value: \"limits.x\""));
    }

    #[test]
    fn whole_objects_are_named() {
        assert_eq!(
            faults(&json!({"envFrom": [{"configMapRef": {"name": "c"}}, {"prefix": "=", "secretRef": {}}, {}]})),
            [
                "envFrom[1].prefix: Invalid value: \"=\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                "envFrom[1].secretRef.name: Required value",
                "envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            ]
        );
    }
}
