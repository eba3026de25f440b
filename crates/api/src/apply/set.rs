//! `Set`: a set of fields, kept as the tree of the ways to them.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::Element;

/// A set of fields. That a field is in it says nothing of the fields below and above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set(Vec<Node>);

/// What a set has at an element and below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// Whether the field here is in the set.
    pub(super) member: bool,
    pub(super) below: Set,
}

/// Room for paths: a set can have very many, and one long name can be part of each of them.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) paths: usize,
    pub(super) bytes: usize,
}

impl Room {
    fn is_full(&self) -> bool {
        self.paths == 0 || self.bytes == 0
    }
}

/// A node of one of two sets, or of both.
enum Side<'a> {
    Left(&'a Node),
    Right(&'a Node),
    Both(&'a Node, &'a Node),
}

impl Set {
    /// The set of the fields at these paths of names: `of(&[&["status"]])`.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let Some((last, parents)) = path.split_last() else { continue };
            let mut at = &mut set;
            for name in parents {
                at = &mut at.node(Element::Field((*name).to_owned())).below;
            }
            at.node(Element::Field((*last).to_owned())).member = true;
        }
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that are in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let nodes = self.beside(other).map(|side| match side {
            Side::Left(node) | Side::Right(node) => node.clone(),
            Side::Both(one, other) => Node {
                element: one.element.clone(),
                member: one.member || other.member,
                below: one.below.union(&other.below),
            },
        });
        Self(nodes.collect())
    }

    /// The fields that are in any of them. Two and two, so that no field is copied for every set after its own.
    pub(super) fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let pairs = sets.chunks(2).map(|pair| match pair {
                [one, other] => one.union(other),
                [one] => one.clone(),
                _ => Self::default(),
            });
            sets = pairs.collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// The fields that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::kept(self.with(other).filter_map(|(one, other)| {
            other.map(|other| Node {
                element: one.element.clone(),
                member: one.member && other.member,
                below: one.below.intersection(&other.below),
            })
        }))
    }

    /// The fields that are in this one only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self::kept(self.with(other).map(|(one, other)| match other {
            None => one.clone(),
            Some(other) => Node {
                element: one.element.clone(),
                member: one.member && !other.member,
                below: one.below.difference(&other.below),
            },
        }))
    }

    /// The fields that are in this one only, and not below one that is in the other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        Self::kept(self.with(other).filter_map(|(one, other)| match other {
            None => Some(one.clone()),
            Some(other) if other.member => None,
            Some(other) => Some(Node {
                element: one.element.clone(),
                member: one.member,
                below: one.below.recursive_difference(&other.below),
            }),
        }))
    }

    /// How many fields are in it.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|node| usize::from(node.member) + node.below.count()).sum()
    }

    /// The paths of its fields as messages have them, each level before what is below it.
    pub fn paths(&self) -> Vec<String> {
        self.first_paths(&mut Room { paths: usize::MAX, bytes: usize::MAX })
    }

    /// The first of these paths, as long as there is room for them.
    pub(super) fn first_paths(&self, room: &mut Room) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths("", room, &mut paths);
        paths
    }

    fn add_paths(&self, before: &str, room: &mut Room, paths: &mut Vec<String>) {
        let path = |node: &Node| {
            let mut path = before.to_owned();
            node.element.show(&mut path);
            path
        };
        for node in self.0.iter().filter(|node| node.member) {
            if room.is_full() {
                return;
            }
            let path = path(node);
            room.paths -= 1;
            room.bytes = room.bytes.saturating_sub(path.len());
            paths.push(path);
        }
        for node in self.0.iter().filter(|node| !node.below.is_empty()) {
            if room.is_full() {
                return;
            }
            node.below.add_paths(&path(node), room, paths);
        }
    }

    /// Reads the `fieldsV1` of an entry of `managedFields`.
    pub fn parse(fields: &Value) -> Result<Self, String> {
        Ok(Self::parse_node(fields)?.1)
    }

    /// Whether the field here is in the set, and what is below it.
    fn parse_node(fields: &Value) -> Result<(bool, Self), String> {
        let empty = Map::new();
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            other => return Err(format!("{other} has no fields")),
        };
        let mut nodes: Vec<Node> = Vec::new();
        let mut member = false;
        for (name, fields) in fields {
            if name == "." {
                member = true;
            } else if let Some(element) = Element::parse(name)? {
                let (member, below) = Self::parse_node(fields)?;
                nodes.push(Node { element, member, below });
            }
        }
        // The names are in the order of their texts, the elements in that of their values. In order all at once, because
        // to put each where it belongs moves all that is behind it.
        nodes.sort_by(|one, other| one.element.cmp(&other.element));
        nodes.dedup_by(|later, first| {
            let same = later.element == first.element;
            if same {
                first.member |= later.member;
                // Two spellings of one element: the later one counts.
                if !later.below.is_empty() {
                    std::mem::swap(&mut first.below, &mut later.below);
                }
            }
            same
        });
        Ok((member || nodes.is_empty(), Self(nodes)))
    }

    /// The set as `fieldsV1`.
    pub fn to_fields(&self) -> Value {
        let fields = self.0.iter().map(|node| {
            let mut below = node.below.to_fields();
            if let (true, Value::Object(fields)) = (node.member && !node.below.is_empty(), &mut below) {
                fields.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (node.element.name(), below)
        });
        Value::Object(fields.collect())
    }

    /// What it has at that element.
    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.0.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.0.get(at)
    }

    /// Its nodes, each made into another one with the same element.
    pub(super) fn map_nodes(&self, made: impl Fn(&Node) -> Node) -> Self {
        Self(self.0.iter().map(made).collect())
    }

    /// Adds what is at an element and below it, unless that is nothing. Elements come in order, but for
    /// a few fields of a structure.
    pub(super) fn add(&mut self, element: Element, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        if self.0.last().is_none_or(|last| last.element < element) {
            self.0.push(Node { element, member, below });
        } else {
            let node = self.node(element);
            node.member |= member;
            node.below = if node.below.is_empty() { below } else { node.below.union(&below) };
        }
    }

    /// The node of that element, made where it is absent.
    fn node(&mut self, element: Element) -> &mut Node {
        let at = match self.0.binary_search_by(|node| node.element.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, Node { element, member: false, below: Self::default() });
                at
            }
        };
        &mut self.0[at]
    }

    /// The nodes that have something.
    fn kept(nodes: impl Iterator<Item = Node>) -> Self {
        Self(nodes.filter(|node| node.member || !node.below.is_empty()).collect())
    }

    /// Each node of this one, with the other's node of the same element. Leaps over what only the other has: it may be
    /// much larger, and be asked for each of many sets.
    fn with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a Node, Option<&'a Node>)> {
        let mut rest = other.0.as_slice();
        self.0.iter().map(move |node| {
            let before = |other: &Node| other.element < node.element;
            let mut leap = 1;
            while rest.get(leap - 1).is_some_and(before) {
                leap *= 2;
            }
            let skipped = leap / 2 + rest[leap / 2..rest.len().min(leap)].partition_point(before);
            rest = &rest[skipped..];
            (node, rest.first().filter(|other| other.element == node.element))
        })
    }

    /// The nodes of both, side by side.
    fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Side<'a>> {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (left.peek(), right.peek()) {
                (Some(one), Some(other)) => one.element.cmp(&other.element),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            match order {
                Ordering::Less => left.next().map(Side::Left),
                Ordering::Greater => right.next().map(Side::Right),
                Ordering::Equal => left.next().zip(right.next()).map(|(one, other)| Side::Both(one, other)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(fields: &Value) -> Set {
        Set::parse(fields).unwrap()
    }

    #[test]
    fn a_level_is_told_before_what_is_below_it() {
        let set = set(&json!({"f:a": {"f:b": {}, "k:{\"x\":1}": {".": {}, "f:x": {}}}, "f:c": {}}));
        assert_eq!(set.paths(), [".c", ".a.b", ".a[x=1]", ".a[x=1].x"]);
    }

    #[test]
    fn what_is_no_set_is_refused_and_what_is_unknown_is_left_out() {
        for wrong in [json!([]), json!(1), json!({"f:a": 1}), json!({"a": {}}), json!({"f:a": {"i:x": {}}})] {
            assert!(Set::parse(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(set(&json!({"x:a": {}, "f:b": null})), Set::of(&[&["b"]]));
        assert!(set(&json!({})).is_empty() && set(&json!({".": {}})).is_empty());
    }

    #[test]
    fn a_parent_does_not_stand_for_its_children_but_in_the_recursive_difference() {
        let (parent, child) = (Set::of(&[&["a"]]), Set::of(&[&["a", "b"]]));
        assert_eq!(child.difference(&parent), child);
        assert_eq!(parent.difference(&child), parent);
        assert!(child.recursive_difference(&parent).is_empty());
        assert!(child.intersection(&parent).is_empty());
    }

    fn sets() -> impl Strategy<Value = Set> {
        let elements = prop_oneof![
            "[a-c]".prop_map(Element::Field),
            (0..3_i64).prop_map(|port| Element::Key(vec![("port".into(), json!(port))])),
            "[<\"a]".prop_map(|text| Element::Value(json!(text))),
            (0..3_i64).prop_map(Element::Index),
        ];
        let paths = prop::collection::vec(prop::collection::vec(elements, 1..4), 0..12);
        paths.prop_map(|paths| {
            let mut set = Set::default();
            for path in paths {
                let (last, parents) = path.split_last().unwrap();
                let at = parents.iter().fold(&mut set, |at, element| &mut at.node(element.clone()).below);
                at.node(last.clone()).member = true;
            }
            set
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sets_obey_the_laws_of_sets(a in sets(), b in sets(), c in sets()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.union(&b).difference(&c), a.difference(&c).union(&b.difference(&c)));
            prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
            prop_assert!(a.difference(&a).is_empty());
        }

        #[test]
        fn a_recursive_difference_is_part_of_the_difference(a in sets(), b in sets()) {
            let (all, plain) = (a.recursive_difference(&b), a.difference(&b));
            prop_assert!(all.difference(&plain).is_empty());
            prop_assert!(a.recursive_difference(&a).is_empty());
        }

        #[test]
        fn what_is_written_reads_back_the_same(a in sets()) {
            prop_assert_eq!(Set::parse(&a.to_fields()).unwrap(), a);
        }
    }
}
