//! Secrets: bytes by key, of a type that may demand certain keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::config_map::{SIZE_LIMIT, decoded_size, validate_key, validate_unchanged};
use crate::field::{Errors, Path};
use crate::kind::{Column, Kind, Selectable, Stored};
use crate::object::Object;
use crate::reading::{child_mut, fill_text};
use crate::{encoded, meta, printing};

pub(super) static KIND: Kind = Kind {
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    stored: Stored { prefix: "secrets", api_version: "v1" },
    schema: "io.k8s.api.core.v1.Secret",
    default,
    validate,
    validate_update,
    selectable: &[Selectable { label: "type", value: |object| object.text(&["type"]).to_owned() }],
    columns: &[
        Column::NAME,
        Column::text("Type", "What the keys mean"),
        Column::text("Data", "How many keys it has"),
        Column::AGE,
    ],
    row: |object| {
        let count = data(object).map_or(0, Map::len);
        vec![object.name().into(), object.text(&["type"]).into(), count.into(), printing::age(object)]
    },
    ..Kind::BASE
};

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

fn data(object: &Object) -> Option<&Map<String, Value>> {
    object.fields().get("data").and_then(Value::as_object)
}

fn default(object: &mut Object) {
    fill_text(object.fields_mut(), "type", "Opaque");
    // Plain text is only a way to write: what is stored and shown is the encoded data.
    if let Some(Value::Object(plain)) = object.remove(&["stringData"])
        && !plain.is_empty()
        && let Some(data) = child_mut(object.fields_mut(), "data")
    {
        for (key, text) in plain {
            data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
        }
    }
}

fn validate(object: &Object, errors: &mut Errors) {
    let path = Path::new("data");
    let data = data(object);
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        validate_key(&path, key, errors);
        size += value.as_str().map_or(0, decoded_size);
    }
    if size > SIZE_LIMIT {
        errors.too_long(&path, SIZE_LIMIT);
    }
    let value = |key: &str| data.and_then(|data| data.get(key)).map(|value| value.as_str().unwrap_or_default());
    let mut demand = |key: &str| {
        if value(key).is_none() {
            errors.required(&path.key(key), "");
        }
    };
    match object.text(&["type"]) {
        "kubernetes.io/service-account-token" if object.text(&["metadata", "annotations", ACCOUNT_NAME]).is_empty() => {
            errors.required(&Path::new("metadata").child("annotations").key(ACCOUNT_NAME), "");
        }
        "kubernetes.io/dockercfg" => validate_json(&path, ".dockercfg", value(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_json(&path, ".dockerconfigjson", value(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            demand("username");
            demand("password");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").unwrap_or_default().is_empty() => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            demand("tls.crt");
            demand("tls.key");
        }
        _ => {}
    }
}

/// Notes a fault unless the value under that key is a JSON object.
fn validate_json(path: &Path, key: &str, encoded: Option<&str>, errors: &mut Errors) {
    let Some(encoded) = encoded else {
        errors.required(&path.key(key), "");
        return;
    };
    let bytes = encoded::decode(encoded).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(&bytes) {
        let first = String::from_utf8_lossy(&bytes).trim_start().chars().next();
        let detail = match first {
            _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
            Some(c) if !c.is_ascii_digit() && !"{[\"-tfn".contains(c) => {
                format!("invalid character '{c}' looking for beginning of value")
            }
            _ => error.to_string(),
        };
        errors.invalid(&path.key(key), &Value::from("<secret contents redacted>"), detail);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut Errors) {
    meta::immutable(&Path::new("type"), new.at(&["type"]), old.at(&["type"]), errors);
    validate_unchanged(new, old, &["data"], errors);
    validate(new, errors);
}

#[cfg(test)]
mod tests {
    use super::super::checking::{check_creates, created, update_faults};
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_text_is_encoded_and_wins_over_data() {
        let secret = created(&KIND, json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "plain"}}));
        assert_eq!(secret.at(&["data"]), Some(&json!({"a": "cGxhaW4=", "b": "eQ=="})));
        assert_eq!(secret.at(&["stringData"]), None);
        assert_eq!(secret.text(&["type"]), "Opaque");
    }

    #[test]
    fn a_type_demands_its_keys() {
        check_creates(
            &KIND,
            &[
                (json!({"type": "example.com/any"}), &[]),
                (
                    json!({"type": "kubernetes.io/tls"}),
                    &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
                ),
                (json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}), &[]),
                (
                    json!({"type": "kubernetes.io/basic-auth"}),
                    &["data[username]: Required value", "data[password]: Required value"],
                ),
                (json!({"type": "kubernetes.io/basic-auth", "data": {"password": "eA=="}}), &[]),
                (
                    json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}),
                    &["data[ssh-privatekey]: Required value"],
                ),
                (json!({"type": "kubernetes.io/dockercfg"}), &["data[.dockercfg]: Required value"]),
                (
                    json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}}),
                    &[
                        "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
                    ],
                ),
                (
                    json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
                    &[
                        "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
                    ],
                ),
                (json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}), &[]),
                (json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e3\n0=\n"}}), &[]),
                (
                    json!({"type": "kubernetes.io/service-account-token"}),
                    &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
                ),
            ],
        );
    }

    #[test]
    fn the_type_never_changes() {
        assert_eq!(
            update_faults(&KIND, json!({"type": "a"}), json!({})),
            ["type: Invalid value: \"a\": field is immutable"]
        );
        let old = json!({"immutable": true, "data": {"a": "eA=="}});
        assert_eq!(
            update_faults(&KIND, json!({"immutable": true}), old),
            ["data: Forbidden: field is immutable when `immutable` is set"]
        );
    }

    #[test]
    fn large_data_is_refused() {
        let text = "x".repeat(SIZE_LIMIT + 1);
        check_creates(
            &KIND,
            &[(json!({"stringData": {"a": text}}), &["data: Too long: may not be more than 1048576 bytes"])],
        );
    }
}
