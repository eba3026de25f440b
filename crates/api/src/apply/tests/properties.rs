//! What is true of any applies.
//!
//! A property that fails prints the smallest seed with which it does; `CADASTRE_SEED=17 cargo test -p api --lib apply` runs that one
//! again.

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};

use super::generate::{self, chance};
use super::{House, keep_times, stored};
use crate::apply::shape::{Entries, Shape};
use crate::apply::{ApplyError, Element, Set, Write, create, update};
use crate::object::Object;
use crate::schema::{ListKind, definition};

const KINDS: [&str; 7] = ["ConfigMap", "Service", "Node", "Pod", "ServiceCIDR", "EndpointSlice", "ClusterCIDR"];

const IGNORED: [&[&[&str]]; 3] = [&[], &[&["status"]], &[&["spec"], &["metadata", "labels"]]];

/// A house with some object in it, and a configuration that can be applied to it.
fn house(seed: u64) -> (House, Value) {
    house_with(seed, |_, _| {})
}

/// The same, of objects and configurations that were made fit.
fn house_with(seed: u64, fit: fn(Shape, &mut Value)) -> (House, Value) {
    let mut choices = Seeded::new(seed);
    let mut house = House::new(choices.one_of(&KINDS));
    let shape = Shape::root(definition(house.kind.schema).unwrap());
    for _ in 0..choices.below(4) {
        // An item that leaves out its key belongs to its manager without it, so another who names the key takes it along.
        let mut object = stored(house.kind, generate::config(&mut choices, house.kind)).into_value();
        fit(shape, &mut object);
        let manager = choices.one_of(&["x", "y"]);
        if choices.below(2) == 0 {
            house.put(manager, object, None);
        } else {
            let _ = house.apply(manager, object, true);
        }
    }
    let mut config = generate::config(&mut choices, house.kind);
    if let (Some(live), true) = (&house.live, chance(&mut choices, 50)) {
        config = generate::between(&mut choices, &Value::Object(live.fields().clone()), &config);
    }
    // What is null is not stored, and is another thing when it is applied again.
    drop_nulls(&mut config);
    fit(shape, &mut config);
    (house, config)
}

/// Any, or the one that `CADASTRE_SEED` names.
fn seeds() -> BoxedStrategy<u64> {
    match std::env::var("CADASTRE_SEED") {
        Ok(seed) => Just(seed.parse().unwrap()).boxed(),
        Err(_) => any::<u64>().boxed(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_apply_is_idempotent(seed in seeds()) {
        let (mut house, config) = house(seed);
        // One that was generated with the same item twice is refused, and stays refused.
        if house.apply("me", config.clone(), true).is_ok() {
            // What was made of a configuration in which nothing can be owned has no account.
            begin_account(&mut house, &config);
            let before = house.live.clone().unwrap();
            // What is applied and not stored, a zero or a null, looks like a change until the object is in its stored form.
            house.apply("me", config, false).unwrap();
            let mut after = house.live.clone().unwrap();
            keep_times(&before, &mut after);
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn who_creates_an_object_has_what_who_changes_nothing_to_it_has(seed in seeds()) {
        let mut choices = Seeded::new(seed);
        let house = House::new(choices.one_of(&KINDS));
        let ignored = Set::of(choices.one_of(&IGNORED));
        let time = "2026-01-01T00:00:00Z";
        let write = Write { kind: house.kind, manager: "me", subresource: "", time, ignored: &ignored };
        let mut created = stored(house.kind, generate::config(&mut choices, house.kind));
        created.set(&["metadata", "uid"], json!("u"));
        let mut updated = created.clone();
        update(&write, None, &mut updated);
        let text = create(&write, &created);
        let stored = created.encode_with(text.as_deref());
        if let Some(text) = text {
            created.set(&["metadata", "managedFields"], serde_json::from_slice(&text).unwrap());
        }
        prop_assert_eq!(&created, &updated);
        prop_assert_eq!(stored, updated.encode());
    }

    #[test]
    fn what_one_manager_applies_and_withdraws_leaves_nothing(seed in seeds()) {
        // A structure that holds nothing but such lists is taken for absent, and goes: another test has what upstream does then.
        let (mut house, config) = house_with(seed, drop_empty_lists);
        if house.live.is_some() {
            begin_account(&mut house, &json!({}));
        }
        let before = house.live.clone().filter(has_account);
        if let Some(before) = before && house.apply("me", config, false).is_ok() {
            house.apply("me", json!({}), false).unwrap();
            prop_assert_eq!(comparable(&house, house.live.as_ref().unwrap(), &before), comparable(&house, &before, &before));
        }
    }

    #[test]
    fn any_configuration_gets_an_answer_and_a_bad_one_is_unfit(seed in seeds()) {
        let (mut house, mut config) = house(seed);
        generate::spoil(&mut Seeded::new(seed), &mut config);
        match house.apply("me", config.clone(), true) {
            Ok(_) => prop_assert!(house.apply("me", config.clone(), false).is_ok()),
            Err(ApplyError::Unfit(_)) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
        config["odd"] = json!(1);
        let outcome = house.apply("me", config, true);
        prop_assert!(matches!(outcome, Err(ApplyError::Unfit(_))), "{outcome:?}");
    }

    #[test]
    fn a_refused_apply_is_a_conflict_or_unfit_and_forcing_it_leaves_no_conflict(seed in seeds()) {
        let (mut house, config) = house(seed);
        match house.apply("me", config.clone(), false) {
            Ok(_) | Err(ApplyError::Unfit(_)) => {}
            Err(ApplyError::Conflict(_)) => {
                house.apply("me", config.clone(), true).unwrap();
                prop_assert!(house.apply("me", config, false).is_ok());
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

fn has_account(object: &Object) -> bool {
    object.at(&["metadata", "managedFields"]).is_some()
}

/// Where no account is kept, the next apply begins one, and that stays: so it is on kube-apiserver 1.36.3. Nothing else changes.
fn begin_account(house: &mut House, config: &Value) {
    let before = house.live.clone().unwrap();
    if has_account(&before) {
        return;
    }
    house.apply("me", config.clone(), false).unwrap();
    let mut after = house.live.clone().unwrap();
    after.remove(&["metadata", "managedFields"]);
    assert_eq!(after, before);
}

/// The object without times, with its lists in one order, which an apply may change, and without what is empty, if nobody owned it
/// `before`: who withdraws all that is in a structure takes the structure along. With Go types it goes even if somebody owned it
/// as such: upstream makes null of it, and stores nothing.
fn comparable(house: &House, object: &Object, before: &Object) -> Value {
    let definition = definition(house.kind.schema).unwrap();
    let entries = before.at(&["metadata", "managedFields"]).and_then(Value::as_array).into_iter().flatten();
    let owned =
        entries.map(|entry| Set::parse(&entry["fieldsV1"]).unwrap()).fold(Set::default(), |all, set| all.union(&set));
    let mut object = Value::Object(object.fields().clone());
    for entry in object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry.as_object_mut().unwrap().remove("time");
        let fields = entry["fieldsV1"].to_string();
        entry["fieldsV1"] = json!(fields);
    }
    let nobodys = Set::default();
    simplify(&mut object, if definition.custom { &owned } else { &nobodys });
    object
}

/// Takes out what is empty and not owned.
fn simplify(value: &mut Value, owned: &Set) {
    let nobodys = Set::default();
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let node = owned.get(&Element::Field(name.clone()));
                simplify(value, node.map_or(&nobodys, |node| &node.below));
                !value.is_null() && (*value != json!({}) || node.is_some_and(|node| node.member))
            });
        }
        Value::Array(items) => {
            for item in &mut *items {
                simplify(item, &nobodys);
            }
            items.sort_by_key(Value::to_string);
        }
        _ => {}
    }
}

/// Takes out lists without items whose items would have owners of their own, where kinds keep what is empty.
fn drop_empty_lists(shape: Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Map { entries: Entries::Fields(definition), .. }, Value::Object(fields)) if definition.custom => {
            let entries = Entries::Fields(definition);
            fields.retain(|name, value| match entries.get(name) {
                Some(Shape::List { kind, .. }) if *kind != ListKind::Atomic => *value != json!([]),
                Some(shape) => {
                    drop_empty_lists(shape, value);
                    true
                }
                None => true,
            });
        }
        _ => {}
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
