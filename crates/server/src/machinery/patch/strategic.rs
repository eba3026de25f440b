//! Strategic merge patch: a merge patch that knows the schema, so that lists whose items have keys are merged item by
//! item, and that can say more than values: its directives are fields whose names begin with `$`.
//!
//! | directive | where | meaning |
//! |---|---|---|
//! | `$patch: replace` | object | take this object, merge nothing |
//! | `$patch: delete` | object | empty the object |
//! | `$patch: delete` | item | remove the items with this item's key |
//! | `$patch: replace` | item | take this list (the other items), merge nothing |
//! | `$retainKeys: [..]` | object | remove the fields that are not listed |
//! | `$deleteFromPrimitiveList/x: [..]` | object | remove these items from the list `x` |
//! | `$setElementOrder/x: [..]` | object | the order that the items of `x` shall have |
//!
//! A directive that was followed is gone from the patch afterwards: what remains of it is quoted to the client if the
//! patched object turns out not to be one of its kind.

use std::collections::{HashMap, HashSet};
use std::mem;

use api::schema::{Definition, Patch};
use serde_json::Value;

use super::merge::discard_nulls;
use super::order::{Identity, Positions, keyed, unexpected, without_key};
use super::shape::Shape;
use super::{Fields, PatchError, golang};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";

/// A directive about a list that stands beside it: its name is the prefix, a slash and the list's name.
struct Beside {
    prefix: &'static str,
    malformed: &'static str,
}

const DELETE_FROM: Beside =
    Beside { prefix: "$deleteFromPrimitiveList", malformed: "invalid patch format of primitive list" };
const SET_ORDER: Beside =
    Beside { prefix: "$setElementOrder", malformed: "invalid patch format of setElementOrder list" };

impl Beside {
    /// The list that a field is about, if the field is this directive.
    fn list<'a>(&self, field: &'a str) -> Result<Option<&'a str>, PatchError> {
        match field.strip_prefix(self.prefix) {
            None => Ok(None),
            Some(rest) => rest.strip_prefix('/').map(Some).ok_or_else(|| bad(self.malformed)),
        }
    }
}

/// Applies `patch` to an object of the kind that `root` describes.
pub(super) fn apply(object: &mut Fields, patch: &mut Fields, root: &Definition) -> Result<(), PatchError> {
    merge(object, patch, Shape::Struct(root))
}

fn merge(original: &mut Fields, patch: &mut Fields, shape: Shape<'_>) -> Result<(), PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                original.clone_from(patch);
            }
            Some("delete") => original.clear(),
            _ => return Err(unknown_directive(directive, patch)),
        }
        return Ok(());
    }
    retain_keys(original, patch)?;
    set_orders(original, patch, shape)?;
    for (field, value) in patch.iter_mut() {
        let doomed = DELETE_FROM.list(field)?;
        let name = doomed.filter(|name| !name.is_empty()).unwrap_or(field);
        if value.is_null() {
            original.remove(name);
            continue;
        }
        match (original.get_mut(name), value) {
            (Some(Value::Object(fields)), Value::Object(patch)) => {
                let (inner, rules) = shape.object(name)?;
                if rules.replace {
                    fields.clone_from(patch);
                } else {
                    merge(fields, patch, inner)?;
                }
            }
            (Some(Value::Array(items)), Value::Array(patch)) => {
                let (item, rules) = shape.items(name)?;
                if doomed.is_some() && element_sort(&[items, patch]) == Ok(Sort::Plain) {
                    let doomed: HashSet<String> = patch.iter().map(Value::to_string).collect();
                    items.retain(|item| !doomed.contains(&item.to_string()));
                } else if doomed.is_some() || rules.merge {
                    *items = merge_list(mem::take(items), patch, item, rules)?.items;
                } else {
                    items.clone_from(patch);
                }
            }
            _ if doomed.is_some() => {}
            (_, value) => {
                discard_nulls(value);
                match taken(value) {
                    Some(value) => original.insert(name.to_owned(), value),
                    None => original.remove(name),
                };
            }
        }
    }
    Ok(())
}

/// `$retainKeys`: removes the fields that it does not list. The patch may set no other ones.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || bad("invalid patch format of retainKeys");
    let keys: HashSet<&str> = keys.as_array().ok_or_else(malformed)?.iter().filter_map(Value::as_str).collect();
    let is_beside = |name: &str| name.starts_with(DELETE_FROM.prefix) || name.starts_with(SET_ORDER.prefix);
    if patch.iter().any(|(name, value)| !value.is_null() && !is_beside(name) && !keys.contains(name.as_str())) {
        return Err(malformed());
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// `$setElementOrder/x`: merges the list `x` and puts it in order. Neither is left in the patch.
fn set_orders(original: &mut Fields, patch: &mut Fields, shape: Shape<'_>) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER.prefix)).cloned().collect();
    for directive in directives {
        let order = list(patch.remove(&directive))?.unwrap_or_default();
        let Some(name) = SET_ORDER.list(&directive)? else { continue };
        let live = list(original.get(name).cloned())?;
        let changes = list(patch.get(name).cloned())?;
        let (item, rules) = shape.items(name)?;
        check_order(changes.as_deref().unwrap_or_default(), &order, rules)?;
        let nothing = Vec::new();
        let sort = element_sort(&[live.as_ref().unwrap_or(&nothing), changes.as_ref().unwrap_or(&nothing)]);
        let identity = match sort {
            Ok(Sort::Object) => Identity::Key(rules.key.as_deref().unwrap_or_default()),
            _ => identity(rules),
        };
        let merged = match (live, changes) {
            (None, None) => continue,
            (Some(live), None) => Merged { order: identity.positions(&live)?, items: live },
            (None, Some(mut changes)) => {
                changes.retain_mut(discard_directives);
                Merged { order: identity.positions(&[])?, items: changes }
            }
            (Some(live), Some(mut changes)) if rules.merge => merge_list(live, &mut changes, item, rules)?,
            (Some(live), Some(changes)) => Merged { order: identity.positions(&live)?, items: changes },
        };
        if let Identity::Key(key) = identity {
            check_lookups(&merged.items, &order, key)?;
        }
        sort?;
        let arranged = identity.arrange(merged.items, &identity.positions(&order)?, &merged.order)?;
        original.insert(name.to_owned(), Value::Array(arranged));
        patch.remove(name);
    }
    Ok(())
}

/// The items of a patch have to be in the order that it sets, each of them, and none besides.
fn check_order(changes: &[Value], order: &[Value], rules: &Patch) -> Result<(), PatchError> {
    if changes.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in changes {
        let directive = item.get(DIRECTIVE);
        if let Identity::Key(_) = identity(rules)
            && !item.is_object()
        {
            return Err(unexpected("map[string]interface {}", item));
        }
        if directive.is_some_and(|directive| directive == "delete") {
            continue;
        }
        // Other directives need no place in the order, but clients know them to be refused behind its end.
        let mut found = directive.is_some() && rest.len() > 0;
        while !found && let Some(next) = rest.next() {
            found = match identity(rules) {
                Identity::Key(key) => keyed(item, key)?.1 == keyed(next, key)?.1,
                Identity::Item => item == next,
            };
        }
        if !found {
            return Err(contradiction(format!(
                "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                golang::shown_list(changes),
                SET_ORDER.prefix,
                golang::shown_list(order)
            )));
        }
    }
    Ok(())
}

/// Looking for an item in an order of keys ends where the order has something that is no object.
fn check_lookups(items: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    let Some(end) = order.iter().position(|item| !item.is_object()) else { return Ok(()) };
    let known: HashSet<_> = order[..end].iter().map(|item| item.get(key)).collect();
    if items.iter().all(|item| known.contains(&item.get(key))) {
        return Ok(());
    }
    Err(contradiction(format!("value for key {end} is not a map")))
}

/// A merged list, and the order that a `$setElementOrder` beside it takes for that of the live list.
struct Merged {
    items: Vec<Value>,
    order: Positions,
}

/// Merges the items of a patch into the live ones: by their keys if they are objects, else as a set.
fn merge_list(live: Vec<Value>, patch: &mut [Value], item: Shape<'_>, rules: &Patch) -> Result<Merged, PatchError> {
    let identity = identity(rules);
    if live.is_empty() && patch.is_empty() {
        return Ok(Merged { items: live, order: identity.positions(&[])? });
    }
    match (element_sort(&[&live, patch])?, identity) {
        (Sort::Plain, _) => {
            let mut seen = HashSet::new();
            let all = live.iter().chain(patch.iter()).cloned();
            let merged = all.filter(|item| seen.insert(item.to_string())).collect();
            let order = identity.positions(&live)?;
            let items = identity.arrange(merged, &identity.positions(patch)?, &order)?;
            Ok(Merged { items, order })
        }
        (Sort::Object, Identity::Item) => Err(without_merge_key(item)),
        (Sort::Object, Identity::Key(key)) => merge_objects(live, patch, item, key),
    }
}

fn merge_objects(live: Vec<Value>, patch: &mut [Value], item: Shape<'_>, key: &str) -> Result<Merged, PatchError> {
    let identity = Identity::Key(key);
    let before = live.len();
    let (doomed, replaces) = directives_of(patch, key)?;
    let is_plain = |item: &Value| item.get(DIRECTIVE).is_none();
    if replaces {
        let items: Vec<Value> = patch.iter().filter(|item| is_plain(item)).cloned().collect();
        let own = identity.positions(&items)?;
        return Ok(Merged {
            items: identity.arrange(items, &identity.positions(&[])?, &own)?,
            order: identity.positions(&live)?,
        });
    }
    let key_of = |item: &Value| item.get(key).map(Value::to_string);
    let mut items = live;
    items.retain(|item| key_of(item).is_none_or(|value| !doomed.contains(&value)));
    let kept = items.len();
    let mut places = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(value) = key_of(item) {
            places.entry(value).or_insert(place);
        }
    }
    let mut wanted = Vec::new();
    for change in patch.iter_mut().filter(|item| is_plain(item)) {
        let value = key_of(change).ok_or_else(|| without_key(change, key))?;
        wanted.push(change.clone());
        match (places.get(&value).and_then(|place| items.get_mut(*place)), change) {
            (Some(Value::Object(fields)), Value::Object(change)) => merge(fields, change, item)?,
            // A new item is taken as it is, nulls and directives with it.
            (_, change) => {
                places.insert(value, items.len());
                items.push(change.clone());
            }
        }
    }
    let order = identity.positions(&items[..before.min(items.len())])?;
    let live = identity.positions(&items[..kept])?;
    Ok(Merged { items: identity.arrange(items, &identity.positions(&wanted)?, &live)?, order })
}

/// The keys of the items that a patch removes by `$patch: delete`, and whether it has an item `$patch: replace`.
fn directives_of(patch: &[Value], key: &str) -> Result<(HashSet<String>, bool), PatchError> {
    let mut doomed = HashSet::new();
    let mut replaces = false;
    for item in patch {
        let Some((directive, fields)) = item.get(DIRECTIVE).zip(item.as_object()) else { continue };
        match directive.as_str() {
            Some("delete") => {
                doomed.insert(keyed(item, key)?.1.to_string());
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(contradiction("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(unknown_directive(directive, fields)),
        }
    }
    Ok((doomed, replaces))
}

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Object,
    Plain,
}

/// What the items of these lists are: all of them must be of one type, and no lists.
fn element_sort(lists: &[&[Value]]) -> Result<Sort, PatchError> {
    let mut items = lists.iter().copied().flatten();
    let first = items.next().ok_or_else(|| contradiction("no elements in any of the given slices".to_owned()))?;
    if first.is_array() {
        return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
    }
    let sort = golang::type_name(first);
    if first.is_null() || items.any(|item| golang::type_name(item) != sort) {
        let lists = golang::shown_lists(lists);
        return Err(contradiction(format!("list element types are not identical: {lists}")));
    }
    Ok(if first.is_object() { Sort::Object } else { Sort::Plain })
}

/// What of a value that the object did not have goes into it: everything but directives. Nothing if it is one itself.
fn taken(value: &mut Value) -> Option<Value> {
    let Value::Array(items) = value else { return discard_directives(value).then(|| value.clone()) };
    let kept = items.iter_mut().filter_map(|item| discard_directives(item).then(|| item.clone()));
    Some(Value::Array(kept.collect()))
}

/// Removes the objects that are directives from a value that is taken as a whole. False if the value itself is one.
fn discard_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => return false,
        Value::Object(fields) => fields.retain(|_, value| discard_directives(value)),
        Value::Array(items) => items.retain_mut(discard_directives),
        _ => {}
    }
    true
}

fn identity(rules: &Patch) -> Identity<'_> {
    rules.key.as_deref().filter(|key| !key.is_empty()).map_or(Identity::Item, Identity::Key)
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(unexpected("[]interface {}", &other)),
    }
}

fn unknown_directive(directive: &Value, fields: &Fields) -> PatchError {
    let shown = golang::shown(&Value::Object(fields.clone()));
    contradiction(format!("unknown patch type: {} in map: {shown}", golang::shown_as_text(directive)))
}

fn without_merge_key(item: Shape<'_>) -> PatchError {
    contradiction(format!("cannot merge lists without merge key for {}", item.sort()))
}

fn bad(why: &str) -> PatchError {
    PatchError::BadRequest(why.to_owned())
}

fn contradiction(why: String) -> PatchError {
    PatchError::Contradiction(why)
}
