//! What is as large as a body can hold is read, compared and told in about linear time, and little is said of it.

use serde_json::{Map, Value, json};

use super::House;
use crate::apply::ApplyError;
use crate::at_work::at_work;

const MANY: usize = 60_000;

#[track_caller]
fn in_about_linear_time<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = at_work();
    let done = work();
    let took = at_work().saturating_sub(begun);
    assert!(took.as_secs() < 8, "{what} took {took:?}");
    done
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "v1", "time": "2025-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

fn data(name: impl Fn(usize) -> String) -> Value {
    let data: Map<String, Value> = (0..MANY).map(|n| (name(n), json!("x"))).collect();
    json!({"data": data})
}

#[test]
fn fields_in_any_order_are_read_in_about_linear_time() {
    // In the order of their texts, which is that of the map, each comes before most of those that came before it.
    let keys: Map<String, Value> = (0..3 * MANY).map(|n| (format!("i:-{n}"), json!({}))).collect();
    let set = in_about_linear_time("reading", || super::Set::parse(&json!({"f:data": keys})).unwrap());
    assert_eq!(set.count(), 3 * MANY);
}

#[test]
fn many_managers_are_kept_account_of_in_about_linear_time() {
    for operation in ["Apply", "Update"] {
        let one = |n: usize| entry(&format!("m{n}"), operation, &json!({"f:data": {format!("f:k{n}"): {}}}));
        let entries: Value = (0..MANY / 4).map(one).collect();
        let mut house = House::new("ConfigMap");
        let first = data(|n| format!("z{n}"));
        in_about_linear_time(operation, || house.put("me", first, Some(entries)));
        in_about_linear_time(operation, || house.put("me", data(|n| format!("y{n}")), None));
        in_about_linear_time(operation, || house.apply("you", data(|n| format!("y{n}")), true).unwrap());
        in_about_linear_time(operation, || house.apply("you", json!({"data": {"k1": "x"}}), true).unwrap());
        let kept = house.at("/metadata/managedFields").as_array().unwrap().len();
        assert_eq!(kept > 1_000, operation == "Apply", "{kept}");
    }
}

#[test]
fn very_many_conflicts_are_counted_and_the_first_are_told() {
    let mut house = House::new("ConfigMap");
    house.put("one", data(|n| format!("k{n}")), None);
    let mut config = data(|n| format!("k{n}"));
    for value in config["data"].as_object_mut().unwrap().values_mut() {
        *value = json!("y");
    }
    let error = in_about_linear_time("an apply", || house.apply("two", config, false).unwrap_err());
    let message = error.to_string();
    assert!(
        message.starts_with(&format!(
            "Apply failed with {MANY} conflicts: conflicts with \"one\" using v1:\n- .data.k0\n"
        ))
    );
    let ApplyError::Conflict(conflicts) = error else { panic!("{message}") };
    assert_eq!((conflicts.iter().count(), message.lines().count()), (1_000, 1_001));
}

#[test]
fn a_long_name_above_many_conflicts_is_not_repeated_for_each_of_them() {
    let mut house = House::new("Service");
    let name = "x".repeat(64 * 1024);
    let port = |port: usize, target: &str| json!({"port": port, "protocol": name, "name": format!("n{port}"), "targetPort": target, "appProtocol": target});
    let spec = |target: &str| json!({"spec": {"ports": (1..20).map(|n| port(n, target)).collect::<Value>()}});
    house.put("one", spec("a"), None);
    let error = house.apply("two", spec("b"), false).unwrap_err();
    assert!(error.to_string().starts_with("Apply failed with 38 conflicts:"), "{:.100}", error.to_string());
    assert!(error.to_string().len() < 400 * 1024, "{}", error.to_string().len());
}
