//! JSON patch: RFC 6902, and where it is more lenient.

use super::*;
use crate::machinery::patch::PatchKind::Json;

#[test]
fn operations_do_what_they_say() {
    let object = json!({"a": {"b": [1, 2, 3]}, "c~/d": "x", "n": null});
    let with = |path: &[&str], value: Value| {
        let mut object = object.clone();
        path.iter().fold(&mut object, |at, name| &mut at[*name]).clone_from(&value);
        object
    };
    for (operations, expected) in [
        (json!([]), object.clone()),
        (json!(null), object.clone()),
        (json!([{"op": "add", "path": "/e", "value": {"f": 1}}]), with(&["e"], json!({"f": 1}))),
        (json!([{"op": "add", "path": "/e"}]), with(&["e"], json!(null))),
        (json!([{"op": "add", "path": "/a/b/1", "value": 9}]), with(&["a", "b"], json!([1, 9, 2, 3]))),
        (json!([{"op": "add", "path": "/a/b/3", "value": 9}]), with(&["a", "b"], json!([1, 2, 3, 9]))),
        (json!([{"op": "add", "path": "/a/b/-", "value": 9}]), with(&["a", "b"], json!([1, 2, 3, 9]))),
        (json!([{"op": "add", "path": "/a/b/-1", "value": 9}]), with(&["a", "b"], json!([1, 2, 3, 9]))),
        (json!([{"op": "remove", "path": "/a/b/0"}]), with(&["a", "b"], json!([2, 3]))),
        (json!([{"op": "remove", "path": "/a/b/-1"}]), with(&["a", "b"], json!([1, 2]))),
        (json!([{"op": "replace", "path": "/a/b/1", "value": 9}]), with(&["a", "b"], json!([1, 9, 3]))),
        (json!([{"op": "replace", "path": "/new", "value": 9}]), with(&["new"], json!(9))),
        (json!([{"op": "replace", "path": "/c~0~1d", "value": 9}]), with(&["c~/d"], json!(9))),
        (json!([{"op": "replace", "path": "", "value": {"x": 1}}]), json!({"x": 1})),
        (json!([{"op": "copy", "from": "/a/b/0", "path": "/e"}]), with(&["e"], json!(1))),
        (json!([{"op": "copy", "from": "/absent", "path": "/e"}]), with(&["e"], json!(null))),
        (json!([{"op": "move", "from": "/a/b/0", "path": "/a/b/2"}]), with(&["a", "b"], json!([2, 3, 1]))),
        (json!([{"op": "test", "path": "/a", "value": {"b": [1, 2, 3]}}]), object.clone()),
        (json!([{"op": "test", "path": "/absent", "value": null}, {"op": "test", "path": "/n"}]), object.clone()),
        (json!([{"op": "test", "path": "", "value": object}]), object.clone()),
    ] {
        assert_eq!(outcome(Json, CONFIG_MAP, &object, &operations), expected, "{operations}");
    }
}

#[test]
fn an_operation_that_cannot_be_done_fails_the_whole_patch_without_details() {
    let object = json!({"a": {"b": [1, 2, 3]}, "n": null});
    for operation in [
        json!({"op": "add", "path": "/x/y", "value": 1}),
        json!({"op": "add", "path": "/n/y", "value": 1}),
        json!({"op": "add", "path": "", "value": {}}),
        json!({"op": "add", "path": "a", "value": 1}),
        json!({"op": "add", "path": "/a/b/4", "value": 1}),
        json!({"op": "add", "path": "/a/b/-5", "value": 1}),
        json!({"op": "add", "path": "/a/b/x", "value": 1}),
        json!({"op": "remove", "path": "/absent"}),
        json!({"op": "remove", "path": "/a/b/3"}),
        json!({"op": "remove", "path": "/a/b/0/0"}),
        json!({"op": "replace", "path": "/a/b/3", "value": 1}),
        json!({"op": "replace", "path": "", "value": []}),
        json!({"op": "move", "from": "/absent", "path": "/e"}),
        json!({"op": "move", "path": "/e"}),
        json!({"op": "copy", "from": "/a/b/9223372036854775807", "path": "/e"}),
        json!({"op": "copy", "from": "/a/b/-9223372036854775808", "path": "/e"}),
        json!({"op": "test", "path": "/a/b/0", "value": 2}),
        json!({"op": "test", "path": "/a/b/0", "value": 1.0}),
        json!({"op": "test", "path": "/a/b/0"}),
        json!({"op": "test", "path": "", "value": {}}),
        json!({"op": "odd", "path": "/a"}),
        json!({"path": "/a"}),
        json!({"op": "add", "value": 1}),
        json!(null),
    ] {
        let error = refusal(Json, CONFIG_MAP, &object, &json!([operation]));
        assert!(matches!(error, PatchError::Unprocessable(_)), "{operation}: {error:?}");
        assert_eq!(error.to_string(), "the server rejected our request due to an error in our request");
    }
}

#[test]
fn a_body_that_is_no_list_of_operations_is_a_bad_request() {
    for (body, expected) in [
        ("{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("[1]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (r#"[{"op":1}]"#, "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            r#"[{"op":"add","path":[]}]"#,
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
        ("", "unexpected end of JSON input"),
    ] {
        let error = apply(Json, body.as_bytes(), &Map::new(), definition(POD)).unwrap_err();
        assert_eq!(error, PatchError::BadRequest(format!("error decoding patch: {expected}")), "{body}");
    }
}

#[test]
fn a_patch_has_a_limited_number_of_operations() {
    let operations = |count: usize| -> Value { vec![json!({"op": "add", "path": "/a", "value": 1}); count].into() };
    assert_eq!(outcome(Json, POD, &json!({}), &operations(10_000)), json!({"a": 1}));
    assert_eq!(
        refusal(Json, POD, &json!({}), &operations(10_001)).to_string(),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_cannot_become_more_than_was_there_by_much() {
    let object = json!({"a": {"text": "x".repeat(1000)}});
    let doubling: Vec<Value> =
        (0..40).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/c{n}")})).collect();
    let error = refusal(Json, CONFIG_MAP, &object, &doubling.into());
    let PatchError::Unprocessable(why) = error else { panic!("{error:?}") };
    assert!(why.ends_with("which is more than 3145728"), "{why}");
    let once = |size: usize| {
        let object = json!({"a": "x".repeat(size)});
        patched(Json, CONFIG_MAP, &object, &json!([{"op": "copy", "from": "/a", "path": "/b"}]))
    };
    assert!(once(3 * 1024 * 1024 - 2).is_ok() && once(3 * 1024 * 1024 - 1).is_err(), "quotes count");
}

#[test]
fn no_operation_makes_an_object_deeper_than_one_that_can_be_read() {
    let nested = |levels: usize| -> Value { (0..levels).fold(json!(1), |inner, _| json!({"a": inner})) };
    let path = |steps: usize| "/a".repeat(steps);
    let object = nested(100);
    for (operation, reached) in [
        (json!({"op": "add", "path": path(100), "value": nested(27)}), Some(127)),
        (json!({"op": "add", "path": path(100), "value": nested(28)}), None),
        (json!({"op": "replace", "path": path(100), "value": nested(27)}), Some(127)),
        (json!({"op": "replace", "path": path(100), "value": nested(28)}), None),
        (json!({"op": "copy", "from": path(73), "path": path(100)}), Some(127)),
        (json!({"op": "copy", "from": path(72), "path": path(100)}), None),
        (json!({"op": "move", "from": path(90), "path": path(40)}), Some(50)),
    ] {
        let outcome = patched(Json, CONFIG_MAP, &object, &json!([operation]));
        let depth = outcome.ok().map(|patched| Value::Object(patched.object)).map(|value| {
            assert!(serde_json::from_str::<Value>(&value.to_string()).is_ok(), "what is stored can be read");
            let inner = |value: &Value| value.get("a").cloned();
            std::iter::successors(inner(&value), inner).count()
        });
        assert_eq!(depth, reached, "{operation}");
    }
    let two = |levels: usize| json!({"a": nested(99), "b": nested(levels)});
    let down = json!([{"op": "move", "from": "/b", "path": path(100)}]);
    assert!(patched(Json, CONFIG_MAP, &two(27), &down).is_ok());
    assert!(patched(Json, CONFIG_MAP, &two(28), &down).is_err());
    // Sixteen doublings would make 65,536 levels, and no stack has room for those.
    let doubling: Vec<Value> = (0..16).map(|n| json!({"op": "copy", "from": "/a", "path": path(1 << n)})).collect();
    assert!(patched(Json, CONFIG_MAP, &nested(1), &doubling.into()).is_err());
}

#[test]
fn what_an_operation_has_no_use_for_is_told() {
    let body = br#"[{"op":"add","path":"/a","value":1,"odd":2,"op":"add"}]"#;
    let patched = apply(Json, body, &Map::new(), definition(POD)).unwrap();
    let expected = ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].odd\""];
    assert_eq!(patched.faults, expected);
    let many: Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!(n))).collect();
    let mut patch = json!([many, many]);
    (patch[0]["op"], patch[0]["path"]) = (json!("test"), json!("/a"));
    (patch[1]["op"], patch[1]["path"]) = (json!("test"), json!("/a"));
    assert_eq!(super::patched(Json, POD, &json!({}), &patch).unwrap().faults.len(), 100);
}

#[test]
fn what_another_reading_of_the_rfc_accepts_has_the_same_outcome() {
    let mut accepted = 0;
    for_random_objects(|choices, schema, object| {
        let patch = generate::operations(choices, &object);
        let Ok(operations) = serde_json::from_value::<json_patch::Patch>(patch.clone()) else { return };
        let mut theirs = object.clone();
        // Its `patch`, which undoes what a failed patch has done, can panic at that.
        if json_patch::patch_unsafe(&mut theirs, &operations).is_ok() && !touches_root(&patch) {
            accepted += 1;
            assert_eq!(outcome(Json, schema, &object, &patch), theirs, "{object}\n{patch}");
        }
    });
    assert!(accepted > ROUNDS / 8, "only {accepted} patches were comparable");
}

/// The RFC lets the whole document be added, moved and copied; here, an object stays the object that it is.
fn touches_root(patch: &Value) -> bool {
    let operations = patch.as_array().into_iter().flatten();
    operations.into_iter().any(|it| it["path"] == "" || it["from"] == "")
}
