//! Access and rules reviews: what somebody may do, in the words of `access`.

use std::collections::BTreeMap;

use api::selector::LabelSelector;
use api::{Kind, Object};
use serde_json::{Value, json};

use super::{Asking, invalid};
use crate::access::{Attributes, User, authorize, path_rules, resource_rules};
use crate::machinery::{Failure, catalog};

/// May I do this?
pub(super) fn of_self(kind: &Kind, mut review: Object, asking: &Asking<'_>) -> Result<Object, Failure> {
    check(kind, &review)?;
    let status = decided(&review, asking.user);
    review.set(&["status"], status);
    Ok(review)
}

/// May somebody do this?
pub(super) fn of_subject(kind: &Kind, mut review: Object) -> Result<Object, Failure> {
    check(kind, &review)?;
    let texts = |value: Option<&Value>| -> Vec<String> {
        let list = value.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = review.at(&["spec", "extra"]).and_then(Value::as_object).into_iter().flatten();
    let extra: BTreeMap<_, _> = extra.map(|(name, values)| (name.clone(), texts(Some(values)))).collect();
    let user = User {
        name: review.text(&["spec", "user"]).to_owned(),
        uid: review.text(&["spec", "uid"]).to_owned(),
        groups: texts(review.at(&["spec", "groups"])),
        extra,
    };
    let status = decided(&review, &user);
    review.set(&["status"], status);
    Ok(review)
}

/// What may I do there? No rule of ours is for one namespace, so it matters only that one is named.
pub(super) fn rules(review: &Object, asking: &Asking<'_>) -> Result<Object, Failure> {
    if review.text(&["spec", "namespace"]).is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let served = catalog().versions().iter().flat_map(|version| &version.resources);
    let served = served.filter(|resource| !resource.kind.is_question);
    let resources: Vec<Value> =
        resource_rules(asking.user, served.map(|resource| (resource.kind.group, resource.kind.plural)))
            .into_iter()
            .map(|rule| json!({"verbs": rule.verbs, "apiGroups": [rule.group], "resources": rule.resources}))
            .collect();
    let paths: Vec<Value> = path_rules(asking.user)
        .into_iter()
        .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}))
        .collect();
    let answer = json!({
        "kind": review.kind(), "apiVersion": review.api_version(), "metadata": {}, "spec": {},
        "status": {"resourceRules": resources, "nonResourceRules": paths, "incomplete": false},
    });
    Ok(Object::from_value(answer).unwrap_or_default())
}

/// Clients know these refusals without the kind in them.
fn check(kind: &Kind, review: &Object) -> Result<(), Failure> {
    invalid(kind, "", review).map_err(|mut failure| {
        failure.message = failure.message.replacen(kind.kind, "", 1);
        failure.details.kind.clear();
        failure
    })
}

fn decided(review: &Object, user: &User) -> Value {
    let text = |part: &str, name: &str| review.text(&["spec", part, name]).to_owned();
    let resource = |name: &str| text("resourceAttributes", name);
    let is_resource = review.at(&["spec", "resourceAttributes"]).is_some_and(Value::is_object);
    let allowed = if is_resource {
        let asks = Attributes {
            verb: &resource("verb"),
            group: &resource("group"),
            resource: &resource("resource"),
            subresource: &resource("subresource"),
            namespace: &resource("namespace"),
            name: &resource("name"),
            path: "",
            is_resource,
        };
        authorize(user, &asks).is_ok()
    } else {
        let (verb, path) = (text("nonResourceAttributes", "verb"), text("nonResourceAttributes", "path"));
        authorize(user, &Attributes { verb: &verb, path: &path, ..Attributes::default() }).is_ok()
    };
    let mut status = json!({ "allowed": allowed });
    let ignored: Vec<String> =
        [("fieldSelector", understood_fields as fn(&Value) -> Understood), ("labelSelector", understood_labels)]
            .iter()
            .filter_map(|(name, understood)| {
                let selector = review.at(&["spec", "resourceAttributes", name]).filter(|one| one.is_object())?;
                let how = match understood(selector) {
                    Understood::All => return None,
                    Understood::Some => "partially ignored",
                    Understood::Nothing => "ignored",
                };
                Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
            })
            .collect();
    if !ignored.is_empty() {
        status["evaluationError"] = json!(ignored.join("; "));
    }
    status
}

/// How much of a selector was understood. None of our rules looks at selectors; who asks with one is told what it is worth.
#[derive(Clone, Copy)]
enum Understood {
    All,
    Some,
    Nothing,
}

fn understood(selector: &Value, raw: fn(&str) -> bool, requirement: fn(&Value) -> bool) -> Understood {
    let parts = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
    if parts.is_empty() {
        let text = selector["rawSelector"].as_str().unwrap_or_default();
        return if raw(text) { Understood::All } else { Understood::Nothing };
    }
    match parts.iter().filter(|part| requirement(part)).count() {
        count if count == parts.len() => Understood::All,
        0 => Understood::Nothing,
        _ => Understood::Some,
    }
}

fn understood_fields(selector: &Value) -> Understood {
    let raw = |text: &str| text.split(',').all(|term| term.is_empty() || term.contains('='));
    understood(selector, raw, |part| {
        matches!(part["operator"].as_str(), Some("In" | "NotIn"))
            && part["values"].as_array().is_some_and(|values| values.len() == 1)
    })
}

fn understood_labels(selector: &Value) -> Understood {
    let raw = |text: &str| LabelSelector::parse(text).is_ok();
    understood(selector, raw, |part| {
        matches!(part["operator"].as_str(), Some("In" | "NotIn" | "Exists" | "DoesNotExist"))
    })
}
