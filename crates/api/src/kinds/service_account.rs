//! `ServiceAccount`s: who the programs in a cluster are.

use serde_json::{Value, json};

use crate::kind::{Kind, Question, Stored};
use crate::object::Object;
use crate::reading::text;

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) static KIND: Kind = Kind {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    questions: &[Question { name: "token", kind: &super::token_request::KIND }],
    stored: Stored { prefix: "serviceaccounts", api_version: "v1" },
    schema: "io.k8s.api.core.v1.ServiceAccount",
    answers_deleted: true,
    prepare_create: Some(keep_secret_names),
    prepare_update: |new, _| keep_secret_names(new),
    warnings,
    ..Kind::BASE
};

/// Of the secrets that are referred to, only the names mean anything.
fn keep_secret_names(object: &mut Object) {
    let Some(secrets) = object.fields_mut().get_mut("secrets").and_then(Value::as_array_mut) else { return };
    for secret in secrets {
        *secret = match text(secret, "name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

fn warnings(new: &Object, old: Option<&Object>) -> Vec<String> {
    let has = |object: &Object| object.at(&["metadata", "annotations", MOUNTABLE]).is_some();
    if has(new) && !old.is_some_and(has) {
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::checking::created;
    use super::*;

    #[test]
    fn secrets_are_named_and_nothing_more() {
        let account = created(&KIND, json!({"secrets": [{"name": "a", "namespace": "b", "uid": "c"}, {}]}));
        assert_eq!(account.at(&["secrets"]), Some(&json!([{"name": "a"}, {}])));
    }

    #[test]
    fn the_deprecated_annotation_is_warned_of_when_it_comes() {
        let object = Object::from_value(json!({"metadata": {"annotations": {MOUNTABLE: "true"}}})).unwrap();
        assert_eq!(warnings(&object, None).len(), 1);
        assert_eq!(warnings(&object, Some(&object)), [""; 0]);
        assert_eq!(warnings(&Object::default(), None), [""; 0]);
    }
}
