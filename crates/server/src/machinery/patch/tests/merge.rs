//! Merge patch: RFC 7396, and where it is more lenient.

use super::*;
use crate::machinery::patch::PatchKind::Merge;

#[test]
fn objects_are_laid_over_and_everything_else_replaces() {
    for (object, patch, expected) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!({"a": [1]}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]})),
        (json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
    ] {
        assert_eq!(outcome(Merge, CONFIG_MAP, &object, &patch), expected, "{object} {patch}");
    }
}

#[test]
fn what_is_no_object_is_no_merge_patch() {
    for (body, expected) in [
        ("null", "Invalid JSON Patch"),
        ("[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("{", "error decoding patch: unexpected end of JSON input"),
        ("{x", "error decoding patch: invalid character 'x' looking for beginning of object key string"),
    ] {
        let error = apply(Merge, body.as_bytes(), &Map::new(), definition(POD)).unwrap_err();
        assert_eq!(error, PatchError::BadRequest(expected.to_owned()), "{body}");
    }
}

#[test]
fn fields_given_twice_are_told() {
    let body = br#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let patched = apply(Merge, body, &Map::new(), definition(POD)).unwrap();
    assert_eq!(Value::Object(patched.object.clone()), json!({"metadata": {"labels": {"a": "2"}}}));
    assert_eq!(patched.faults, ["duplicate field \"metadata.labels.a\""]);
    assert_eq!(patched.quoted(), r#"{"metadata":{"labels":{"a":"2"}}}"#);
}

#[test]
fn patching_twice_is_patching_once() {
    for_random_objects(|choices, schema, object| {
        let patch = generate::strategic_patch(choices, definition(schema), &object, false);
        let once = outcome(Merge, schema, &object, &patch);
        assert_eq!(outcome(Merge, schema, &once, &patch), once, "{object}\n{patch}");
    });
}

#[test]
fn nothing_is_changed_by_no_patch_and_by_the_object_itself() {
    for_random_objects(|_, schema, object| {
        assert_eq!(outcome(Merge, schema, &object, &json!({})), object);
        assert_eq!(outcome(Merge, schema, &object, &object), object);
    });
}

#[test]
fn another_reading_of_the_rfc_agrees_but_for_nulls_in_lists() {
    for_random_objects(|choices, schema, object| {
        let patch = generate::strategic_patch(choices, definition(schema), &object, false);
        let mut ours = outcome(Merge, schema, &object, &patch);
        let mut theirs = object;
        json_patch::merge(&mut theirs, &patch);
        crate::machinery::patch::merge::discard_nulls(&mut ours);
        crate::machinery::patch::merge::discard_nulls(&mut theirs);
        assert_eq!(ours, theirs, "{patch}");
    });
}
