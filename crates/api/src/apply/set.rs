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

    /// The fields that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::kept(self.beside(other).filter_map(|side| match side {
            Side::Left(_) | Side::Right(_) => None,
            Side::Both(one, other) => Some(Node {
                element: one.element.clone(),
                member: one.member && other.member,
                below: one.below.intersection(&other.below),
            }),
        }))
    }

    /// The fields that are in this one only.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self::kept(self.beside(other).filter_map(|side| match side {
            Side::Left(node) => Some(node.clone()),
            Side::Right(_) => None,
            Side::Both(one, other) => Some(Node {
                element: one.element.clone(),
                member: one.member && !other.member,
                below: one.below.difference(&other.below),
            }),
        }))
    }

    /// The fields that are in this one only, and not below one that is in the other.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        Self::kept(self.beside(other).filter_map(|side| match side {
            Side::Left(node) => Some(node.clone()),
            Side::Right(_) => None,
            Side::Both(_, other) if other.member => None,
            Side::Both(one, other) => Some(Node {
                element: one.element.clone(),
                member: one.member,
                below: one.below.recursive_difference(&other.below),
            }),
        }))
    }

    /// The paths of its fields as messages have them, each level before what is below it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths("", &mut paths);
        paths
    }

    fn add_paths(&self, before: &str, paths: &mut Vec<String>) {
        let path = |node: &Node| {
            let mut path = before.to_owned();
            node.element.show(&mut path);
            path
        };
        paths.extend(self.0.iter().filter(|node| node.member).map(path));
        for node in self.0.iter().filter(|node| !node.below.is_empty()) {
            node.below.add_paths(&path(node), paths);
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
        let mut set = Self::default();
        let mut member = false;
        for (name, fields) in fields {
            if name == "." {
                member = true;
            } else if let Some(element) = Element::parse(name)? {
                let (member, below) = Self::parse_node(fields)?;
                let node = set.node(element);
                node.member |= member;
                // Two spellings of one element: the later one counts.
                if !below.is_empty() {
                    node.below = below;
                }
            }
        }
        Ok((member || set.is_empty(), set))
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

    /// Adds what is at an element and below it, unless that is nothing. Elements usually come in order.
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
