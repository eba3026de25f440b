//! In which order the items of a merged list go: as the patch has them where it says so, else as the live list had
//! them.

use std::collections::HashMap;

use serde_json::Value;

use super::{Fields, PatchError, golang};

/// What tells the items of a list apart: themselves, or the value of a key that each has.
#[derive(Clone, Copy)]
pub(super) enum Identity<'a> {
    /// Numbers, texts: the item itself.
    Item,
    /// Objects: the value under the merge key.
    Key(&'a str),
}

/// Where each item of an order stands, by what identifies it; of those with the same identity the first one counts.
pub(super) struct Positions(HashMap<String, usize>);

impl Identity<'_> {
    /// What identifies an item; an item without the key is an error.
    fn of(self, item: &Value) -> Result<String, PatchError> {
        match self {
            Self::Item => Ok(item.to_string()),
            Self::Key(key) => keyed(item, key).map(|(_, value)| value.to_string()),
        }
    }

    /// Where each of these items stands.
    pub(super) fn positions(self, items: &[Value]) -> Result<Positions, PatchError> {
        let mut positions = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            positions.entry(self.of(item)?).or_insert(index);
        }
        Ok(Positions(positions))
    }

    /// Orders the items of a merged list: those that `wanted` has follow its order, the others keep the order of
    /// `live`, and go before the first of the wanted ones that came after them in `live`.
    pub(super) fn arrange(
        self,
        merged: Vec<Value>,
        wanted: &Positions,
        live: &Positions,
    ) -> Result<Vec<Value>, PatchError> {
        let mut chosen = Vec::new();
        let mut others = Vec::new();
        for item in merged {
            let identity = self.of(&item)?;
            let lived = live.0.get(&identity).copied();
            match wanted.0.get(&identity) {
                Some(place) => chosen.push((*place, lived, item)),
                // What neither order knows comes last.
                None => others.push((lived.unwrap_or(usize::MAX), lived, item)),
            }
        }
        // Both sorts are stable.
        chosen.sort_by_key(|(place, ..)| *place);
        others.sort_by_key(|(place, ..)| *place);
        Ok(interleave(others, chosen))
    }
}

type Placed = (usize, Option<usize>, Value);

fn interleave(others: Vec<Placed>, chosen: Vec<Placed>) -> Vec<Value> {
    let mut all = Vec::with_capacity(others.len() + chosen.len());
    let mut others = others.into_iter().peekable();
    let mut chosen = chosen.into_iter().peekable();
    loop {
        let other_first = match (others.peek(), chosen.peek()) {
            (Some((_, Some(other), _)), Some((_, Some(chosen), _))) => other < chosen,
            (Some(_), None) => true,
            (_, Some(_)) => false,
            (None, None) => return all,
        };
        let next = if other_first { others.next() } else { chosen.next() };
        all.extend(next.map(|(.., item)| item));
    }
}

/// An item that has to be an object with that key: its fields and the key's value.
pub(super) fn keyed<'a>(item: &'a Value, key: &str) -> Result<(&'a Fields, &'a Value), PatchError> {
    let fields = item.as_object().ok_or_else(|| unexpected("map[string]interface {}", item))?;
    fields.get(key).map(|value| (fields, value)).ok_or_else(|| without_key(item, key))
}

pub(super) fn without_key(item: &Value, key: &str) -> PatchError {
    PatchError::Contradiction(format!("map: {} does not contain declared merge key: {key}", golang::shown(item)))
}

pub(super) fn unexpected(expected: &str, got: &Value) -> PatchError {
    PatchError::Contradiction(format!("expected a {expected}, but received a {}", golang::type_name(got)))
}
