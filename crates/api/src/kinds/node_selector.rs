//! Node selectors: a choice of nodes by labels, as `ClusterCIDR`s and pods use it.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::reading::{items, text, texts};
use crate::{meta, names};

/// A node selector in one line: requirements that all hold are joined by commas, terms of which one holds by bars.
pub(super) fn shown(selector: &Value) -> String {
    let requirement = |requirement: &Value| {
        let key = text(requirement, "key");
        let values = texts(requirement, "values").collect::<Vec<_>>().join(",");
        match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            "Gt" => format!("{key}>{values}"),
            "Lt" => format!("{key}<{values}"),
            other => format!("{key} {other} {values}"),
        }
    };
    let term = |term: &Value| {
        let all = items(term, "matchExpressions").iter().chain(items(term, "matchFields"));
        all.map(requirement).collect::<Vec<_>>().join(",")
    };
    items(selector, "nodeSelectorTerms").iter().map(term).collect::<Vec<_>>().join(" | ")
}

/// Notes what is wrong with a node selector.
pub(super) fn validate(path: &Path, selector: &Value, errors: &mut Errors) {
    let path = path.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_term(&path.index(index), term, errors);
    }
}

fn validate_term(path: &Path, term: &Value, errors: &mut Errors) {
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        validate_requirement(&path, requirement, errors);
        for (index, value) in texts(requirement, "values").enumerate() {
            meta::invalid_text(&path.child("values").index(index), value, names::label_value(value), errors);
        }
    }
    validate_fields(path, term, errors);
}

/// Notes what is wrong with a term that nodes should match and need not. Values that no label can have are not wrong: they just
/// match nothing.
pub(super) fn validate_preference(path: &Path, term: &Value, errors: &mut Errors) {
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        validate_requirement(&path.child("matchExpressions").index(index), requirement, errors);
    }
    validate_fields(path, term, errors);
}

fn validate_fields(path: &Path, term: &Value, errors: &mut Errors) {
    for (index, requirement) in items(term, "matchFields").iter().enumerate() {
        validate_field(&path.child("matchFields").index(index), requirement, errors);
    }
}

fn validate_requirement(path: &Path, requirement: &Value, errors: &mut Errors) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.child("values"), detail);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&path.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), &Value::from(other), "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    meta::invalid_text(&path.child("key"), key, names::qualified_name(key), errors);
}

fn validate_field(path: &Path, requirement: &Value, errors: &mut Errors) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                errors.required(
                    &path.child("values"),
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                );
            }
        }
        other => errors.invalid(&path.child("operator"), &Value::from(other), "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        return errors.invalid(&path.child("key"), &Value::from(key), "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        meta::invalid_text(&path.child("values").index(index), value, names::subdomain(value, false), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(selector: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&Path::new("s"), selector, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_requirement_has_an_operator_and_the_values_it_takes() {
        let of = |operator: &str, values: &[&str]| {
            faults(
                &json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}]}),
            )
        };
        let at = "s.nodeSelectorTerms[0].matchExpressions[0]";
        assert_eq!(of("In", &["x"]), [""; 0]);
        assert_eq!(of("Exists", &[]), [""; 0]);
        assert_eq!(of("Gt", &["1"]), [""; 0]);
        assert_eq!(
            of("NotIn", &[]),
            [format!("{at}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'")]
        );
        assert_eq!(
            of("Exists", &["x"]),
            [format!("{at}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'")]
        );
        assert_eq!(
            of("Lt", &[]),
            [format!("{at}.values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'")]
        );
        assert_eq!(of("X", &[]), [format!("{at}.operator: Invalid value: \"X\": not a valid selector operator")]);
    }

    #[test]
    fn a_field_is_the_name_and_has_one_value() {
        let of = |key: &str, operator: &str, values: &[&str]| {
            faults(
                &json!({"nodeSelectorTerms": [{"matchFields": [{"key": key, "operator": operator, "values": values}]}]}),
            )
        };
        let at = "s.nodeSelectorTerms[0].matchFields[0]";
        assert_eq!(of("metadata.name", "In", &["x"]), [""; 0]);
        assert_eq!(
            of("metadata.name", "In", &[]),
            [format!(
                "{at}.values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )]
        );
        assert_eq!(
            of("spec.x", "In", &["x"]),
            [format!("{at}.key: Invalid value: \"spec.x\": not a valid field selector key")]
        );
        assert_eq!(
            of("metadata.name", "Exists", &[]),
            [format!("{at}.operator: Invalid value: \"Exists\": not a valid selector operator")]
        );
    }

    #[test]
    fn a_selector_fits_in_one_line() {
        let of =
            |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let selector = json!({"nodeSelectorTerms": [
            {"matchExpressions": [of("a", "NotIn", &["x", "y"]), of("b", "Exists", &[]), of("c", "DoesNotExist", &[])]},
            {"matchExpressions": [of("d", "Gt", &["1"]), of("e", "Lt", &["2"])], "matchFields": [of("metadata.name", "In", &["n"])]},
        ]});
        assert_eq!(shown(&selector), "a notin (x,y),b,!c | d>1,e<2,metadata.name in (n)");
        assert_eq!(shown(&Value::Null), "");
    }

    #[test]
    fn there_is_at_least_one_term_and_keys_are_labels() {
        assert_eq!(
            faults(&json!({})),
            ["s.nodeSelectorTerms: Required value: must have at least one node selector term"]
        );
        let bad = faults(&json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a=b", "operator": "Exists"}]}]}));
        assert!(
            bad[0].starts_with("s.nodeSelectorTerms[0].matchExpressions[0].key: Invalid value: \"a=b\": name part")
        );
    }
}
