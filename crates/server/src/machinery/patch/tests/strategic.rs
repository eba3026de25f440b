//! Strategic merge patch: its directives, the order of its lists, its refusals.

use super::*;
use crate::machinery::patch::PatchKind::Strategic;

fn check(schema: &str, cases: &[(&str, Value, Value, Value)]) {
    for (name, object, patch, expected) in cases {
        assert_eq!(outcome(Strategic, schema, object, patch), *expected, "{name}");
    }
}

fn spec(fields: Value) -> Value {
    Value::Object([("spec".to_owned(), fields)].into_iter().collect())
}

#[test]
fn fields_are_merged_and_null_removes() {
    let object =
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"type": "NodePort", "clusterIP": "None"}});
    check(
        SERVICE,
        &[
            ("nothing", object.clone(), json!({}), object.clone()),
            ("null is nothing", object.clone(), json!(null), object.clone()),
            (
                "a value, a null, an absent null",
                object.clone(),
                json!({"metadata": {"labels": {"a": null, "b": "3", "c": null}}, "spec": {"type": null}}),
                json!({"metadata": {"labels": {"b": "3"}}, "spec": {"clusterIP": "None"}}),
            ),
            (
                "an object that was not there loses its nulls",
                json!({}),
                json!({"metadata": {"labels": {"a": null, "b": "2"}, "name": null}}),
                json!({"metadata": {"labels": {"b": "2"}}}),
            ),
            ("another type replaces", json!({"spec": "x"}), spec(json!({"type": "a"})), spec(json!({"type": "a"}))),
            (
                "an object is replaced by text",
                object.clone(),
                json!({"metadata": null, "spec": "x"}),
                json!({"spec": "x"}),
            ),
        ],
    );
}

#[test]
fn lists_with_a_key_are_merged_by_it() {
    let ports = |ports: Value| spec(json!({ "ports": ports }));
    let object = ports(json!([{"port": 80, "name": "a", "nodePort": 1}, {"port": 443}]));
    check(
        SERVICE,
        &[
            (
                "an item is merged into the one with its key",
                object.clone(),
                ports(json!([{"port": 80, "name": "b", "nodePort": null}])),
                ports(json!([{"port": 80, "name": "b"}, {"port": 443}])),
            ),
            (
                "what the patch names keeps the patch's order",
                object.clone(),
                ports(json!([{"port": 443, "name": "s"}, {"port": 80}])),
                ports(json!([{"port": 443, "name": "s"}, {"port": 80, "name": "a", "nodePort": 1}])),
            ),
            (
                "a new item goes before those that the patch does not name",
                object.clone(),
                ports(json!([{"port": 90}])),
                ports(json!([{"port": 90}, {"port": 80, "name": "a", "nodePort": 1}, {"port": 443}])),
            ),
            (
                "a key of another type is another key",
                ports(json!([{"port": 80}])),
                ports(json!([{"port": 80.0}])),
                ports(json!([{"port": 80.0}, {"port": 80}])),
            ),
            ("both empty", ports(json!([])), ports(json!([])), ports(json!([]))),
            (
                "an item is deleted",
                object.clone(),
                ports(json!([{"port": 80, "$patch": "delete"}, {"port": 7, "$patch": "delete"}])),
                ports(json!([{"port": 443}])),
            ),
            (
                "all items with the key are",
                ports(json!([{"port": 80, "name": "a"}, {"port": 81}, {"port": 80, "name": "b"}])),
                ports(json!([{"port": 80, "$patch": "delete"}])),
                ports(json!([{"port": 81}])),
            ),
            (
                "the list is replaced",
                object.clone(),
                ports(json!([{"port": 1, "name": "x"}, {"$patch": "replace"}])),
                ports(json!([{"port": 1, "name": "x"}])),
            ),
            ("the list is emptied", object.clone(), ports(json!([{"$patch": "replace"}])), ports(json!([]))),
            (
                "a list that was not there takes no directives",
                json!({}),
                ports(json!([{"port": 1, "$patch": "delete"}, {"port": 2, "name": null}])),
                ports(json!([{"port": 2}])),
            ),
        ],
    );
}

#[test]
fn lists_in_lists_are_merged_too() {
    let env = |env: Value| spec(json!({"containers": [{"name": "c", "image": "i", "env": env}]}));
    let changes = json!([{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}]);
    let patch = json!({"spec": {"containers": [{"name": "c", "env": changes}]}});
    let expected = env(json!([{"name": "B", "value": "2"}, {"name": "C"}]));
    check(POD, &[("env", env(json!([{"name": "A"}, {"name": "B", "value": "1"}, {"name": "C"}])), patch, expected)]);
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let object = json!({"spec": {"tolerations": [{"key": "a"}], "containers": [{"name": "c", "args": ["1"]}]}});
    let patch = json!({"spec": {"tolerations": [{"key": "b"}], "containers": [{"name": "c", "args": ["2", "2"]}]}});
    check(POD, &[("atomic", object, patch.clone(), patch)]);
}

#[test]
fn lists_of_plain_values_are_merged_as_sets() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let delete = |list: Value| json!({"metadata": {"$deleteFromPrimitiveList/finalizers": list}});
    let object = finalizers(json!(["a", "b", "c"]));
    check(
        CONFIG_MAP,
        &[
            ("added", object.clone(), finalizers(json!(["d"])), finalizers(json!(["d", "a", "b", "c"]))),
            ("there already", object.clone(), finalizers(json!(["c", "a"])), finalizers(json!(["b", "c", "a"]))),
            ("deleted", object.clone(), delete(json!(["b", "x", "b"])), finalizers(json!(["a", "c"]))),
            (
                "nothing to delete from",
                json!({"data": {}}),
                delete(json!(["b"])),
                json!({"data": {}, "metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}),
            ),
            ("no such list", json!({"metadata": {}}), delete(json!(["b"])), json!({"metadata": {}})),
            (
                "deleted and added",
                object,
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["d"]}}),
                finalizers(json!(["d", "b", "c"])),
            ),
        ],
    );
}

#[test]
fn the_order_that_is_set_is_kept_and_the_server_s_own_items_stay_where_they_were() {
    let list = |names: &str| -> Value { names.chars().map(|name| json!({"port": u32::from(name)})).collect() };
    for (live, changes, order, expected) in [
        ("abcd", "", "dcba", "dcba"),
        ("abcd", "", "ca", "bcad"),
        ("abcd", "", "db", "acdb"),
        ("abcd", "xy", "xay", "xaybcd"),
        ("abcd", "x", "abx", "abxcd"),
        ("", "cab", "cab", "cab"),
    ] {
        let live = spec(json!({"ports": list(live)}));
        let mut patch = json!({"$setElementOrder/ports": list(order)});
        if !changes.is_empty() {
            patch["ports"] = list(changes);
        }
        let live = if live["spec"]["ports"] == json!([]) { json!({"spec": {}}) } else { live };
        let outcome = outcome(Strategic, SERVICE, &live, &spec(patch));
        assert_eq!(outcome["spec"]["ports"], list(expected), "{live} {order}");
    }
    let object = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {"$setElementOrder/finalizers": ["c", "x", "a"], "finalizers": ["x"]}});
    assert_eq!(outcome(Strategic, NODE, &object, &patch), json!({"metadata": {"finalizers": ["b", "c", "x", "a"]}}));
}

#[test]
fn a_new_item_takes_the_place_of_a_deleted_one() {
    let object = spec(json!({"ports": [{"port": 1}, {"port": 2}, {"port": 3}]}));
    let patch = spec(json!({
        "$setElementOrder/ports": [{"port": 9}, {"port": 3}],
        "ports": [{"port": 9}, {"port": 2, "$patch": "delete"}],
    }));
    let expected = spec(json!({"ports": [{"port": 1}, {"port": 9}, {"port": 3}]}));
    check(SERVICE, &[("replaced port", object, patch, expected)]);
}

#[test]
fn objects_can_be_replaced_emptied_and_cut_down() {
    let object = spec(json!({"selector": {"a": "1", "b": "2"}, "type": "NodePort"}));
    check(
        SERVICE,
        &[
            (
                "replace",
                object.clone(),
                spec(json!({"selector": {"c": "3", "$patch": "replace"}})),
                spec(json!({"selector": {"c": "3"}, "type": "NodePort"})),
            ),
            (
                "delete",
                object.clone(),
                spec(json!({"selector": {"c": "3", "$patch": "delete"}})),
                spec(json!({"selector": {}, "type": "NodePort"})),
            ),
            ("replace everything", object.clone(), json!({"$patch": "replace", "kind": "x"}), json!({"kind": "x"})),
            ("delete everything", object.clone(), json!({"$patch": "delete", "kind": "x"}), json!({})),
            (
                "retain keys",
                object.clone(),
                spec(json!({"$retainKeys": ["type", "clusterIP"], "clusterIP": "None", "selector": null})),
                spec(json!({"type": "NodePort", "clusterIP": "None"})),
            ),
        ],
    );
    let object = spec(json!({"volumes": [{"name": "v", "emptyDir": {}}]}));
    let patch =
        spec(json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}));
    let expected = spec(json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}));
    check(POD, &[("a volume of another sort", object, patch, expected)]);
}

#[test]
fn a_patch_that_makes_no_sense_is_refused_with_its_own_text() {
    let object = json!({
        "metadata": {"finalizers": ["a"], "labels": {"x": "y"}},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    });
    let bad = |why: &str| PatchError::BadRequest(why.to_owned());
    let contradiction = |why: &str| PatchError::Contradiction(why.to_owned());
    let order = "The order in patch list:\n[map[port:80] map[port:1]]\n \
                 doesn't match $setElementOrder list:\n[map[port:1] map[port:80]]\n";
    for (patch, expected) in [
        (
            json!({"spec": {"ports": [{"name": "nokey"}]}}),
            contradiction("map: map[name:nokey] does not contain declared merge key: port"),
        ),
        (
            json!({"spec": {"ports": [{"$patch": "delete"}]}}),
            contradiction("map: map[$patch:delete] does not contain declared merge key: port"),
        ),
        (
            json!({"spec": {"ports": [{"port": 80, "$patch": "merge"}]}}),
            contradiction("merging lists cannot yet be specified in the patch"),
        ),
        (
            json!({"spec": {"ports": [{"port": 80, "$patch": "odd"}]}}),
            contradiction("unknown patch type: odd in map: map[$patch:odd port:80]"),
        ),
        (
            json!({"spec": {"selector": {"$patch": 1}}}),
            contradiction("unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ),
        (
            json!({"spec": {"selector": {"$patch": null}}}),
            contradiction("unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        ),
        (
            json!({"spec": {"ports": ["x"]}}),
            contradiction("list element types are not identical: [[map[port:80]] [x]]"),
        ),
        (
            json!({"metadata": {"finalizers": [null]}}),
            contradiction("list element types are not identical: [[a] [<nil>]]"),
        ),
        (
            json!({"metadata": {"finalizers": [1.5]}}),
            contradiction("list element types are not identical: [[a] [1.5]]"),
        ),
        (
            spec(json!({"$setElementOrder/ports": [{"port": 1}, {"port": 80}], "ports": [{"port": 80}, {"port": 1}]})),
            contradiction(order),
        ),
        (
            json!({"spec": {"$setElementOrder/ports": {}}}),
            contradiction("expected a []interface {}, but received a map[string]interface {}"),
        ),
        (json!({"spec": {"$setElementOrder/ports": [1]}}), contradiction("value for key 0 is not a map")),
        (
            json!({"spec": {"$setElementOrder/ports": [{"port": 80}, 1]}}),
            contradiction("expected a map[string]interface {}, but received a int64"),
        ),
        (
            json!({"spec": {"$setElementOrder/type": []}}),
            contradiction("expected slice or array type, but got: struct"),
        ),
        (
            json!({"spec": {"$setElementOrder/odd": []}}),
            contradiction("unable to find api field in struct ServiceSpec for the json field \"odd\""),
        ),
        (
            json!({"spec": {"selector": {"$setElementOrder/b": []}}}),
            contradiction("merging an object in json but data type is not struct, instead is: map"),
        ),
        (json!({"spec": {"$setElementOrder": []}}), bad("invalid patch format of setElementOrder list")),
        (json!({"spec": {"$deleteFromPrimitiveListports": []}}), bad("invalid patch format of primitive list")),
        (json!({"spec": {"$retainKeys": ["type"], "clusterIP": "None"}}), bad("invalid patch format of retainKeys")),
        (json!({"spec": {"$retainKeys": "type"}}), bad("invalid patch format of retainKeys")),
        (json!([]), bad("json: cannot unmarshal array into Go value of type map[string]interface {}")),
        (json!("x"), bad("json: cannot unmarshal string into Go value of type map[string]interface {}")),
    ] {
        assert_eq!(refusal(Strategic, SERVICE, &object, &patch), expected, "{patch}");
    }
    let lists = json!({"metadata": {"finalizers": [["a"]]}});
    let unprocessable = refusal(Strategic, SERVICE, &lists, &lists);
    assert_eq!(unprocessable, PatchError::Unprocessable("lists of lists are not supported".to_owned()));
    assert_eq!(unprocessable.to_string(), "the server rejected our request due to an error in our request");
}

#[test]
fn what_is_quoted_of_a_patch_has_lost_the_directives_that_were_followed() {
    let object = json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
    let patch = json!({"spec": {
        "$setElementOrder/ports": [{"port": 80}], "ports": [{"port": 80, "name": "x"}],
        "$retainKeys": ["ports", "odd", "selector"], "odd": 1e21, "selector": {"a": null},
    }});
    let patched = patched(Strategic, SERVICE, &object, &patch).unwrap();
    assert_eq!(patched.quoted(), "map[spec:map[odd:1e+21 selector:map[a:<nil>]]]");
}

#[test]
fn patching_twice_is_patching_once_if_the_patch_is_an_object() {
    for_random_objects(|choices, schema, object| {
        let patch = generate::object(choices, definition(schema), 0);
        let once = outcome(Strategic, schema, &object, &patch);
        assert_eq!(outcome(Strategic, schema, &once, &patch), once, "{object}\n{patch}");
    });
}

#[test]
fn patching_an_object_with_itself_changes_nothing() {
    for_random_objects(|_, schema, object| {
        assert_eq!(outcome(Strategic, schema, &object, &object), object);
    });
}

#[test]
fn null_removes_any_field() {
    for_random_objects(|_, schema, mut object| {
        for name in object.as_object().unwrap().keys().cloned().collect::<Vec<_>>() {
            let patched = outcome(Strategic, schema, &object, &json!({ &name: null }));
            object.as_object_mut().unwrap().remove(&name);
            assert_eq!(patched, object);
        }
    });
}

#[test]
fn no_patch_is_too_odd_to_be_answered() {
    let mut refused = 0;
    for_random_objects(|choices, schema, object| {
        let patch = generate::strategic_patch(choices, definition(schema), &object, true);
        refused += u64::from(patched(Strategic, schema, &object, &patch).is_err());
    });
    assert!(
        (ROUNDS / 20..ROUNDS).contains(&refused),
        "{refused} refused: the patches are not as odd as they should be"
    );
}

/// Looking for each item from the beginning of the order takes a minute for these, and a set a fraction of a second.
#[test]
fn a_long_order_that_ends_in_nonsense_is_refused_without_delay() {
    let names = |range: std::ops::Range<usize>| range.map(|n| json!({"name": n.to_string()}));
    let live: Vec<Value> = names(0..20_000).collect();
    let mut order: Vec<Value> = names(0..20_000).rev().skip(1).collect();
    order.push(json!("x"));
    let object = json!({"spec": {"containers": live}});
    let patch = json!({"spec": {"$setElementOrder/containers": order}});
    let begun = std::time::Instant::now();
    let error = refusal(Strategic, POD, &object, &patch);
    assert_eq!(error, PatchError::Contradiction("value for key 19999 is not a map".to_owned()));
    assert!(begun.elapsed().as_secs() < 30, "it took {:?}", begun.elapsed());
}
