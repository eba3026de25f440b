//! Whether a value fits its shape, in the words that upstream has for what does not.

use serde_json::{Map, Value};

use super::element::Element;
use super::golang;
use super::shape::{Entries, Scalar, Shape, element};
use crate::schema::{ListKind, Type};

/// How many faults are told. A small body can be wrong in very many places.
const MOST_FAULTS: usize = 100;

/// How many bytes of paths and values are told; the fault that goes beyond is the last one.
const MOST_BYTES: usize = 256 * 1024;

/// What is wrong with a value: nothing, one fault, or `errors:` and a line for each.
pub(super) fn check(shape: Shape, value: &Value, duplicates: bool) -> Result<(), String> {
    let mut check = Check { duplicates, faults: Vec::new(), bytes: 0 };
    check.value(shape, value, None);
    match check.faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        faults => Err(format!("errors:\n  {}", faults.join("\n  "))),
    }
}

struct Check {
    /// Whether items of a list may be the same: what is stored is older than the rule against it.
    duplicates: bool,
    faults: Vec<String>,
    bytes: usize,
}

/// The way to a value, kept on the stack: nothing is written down until there is a fault.
#[derive(Clone, Copy)]
struct Way<'a> {
    before: Option<&'a Way<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Element(&'a Element),
}

impl Check {
    fn value(&mut self, shape: Shape, value: &Value, way: Option<&Way<'_>>) {
        match (shape, value) {
            (_, Value::Null) | (Shape::Anything, _) => {}
            (Shape::Scalar(scalar), value) => self.scalar(scalar, value, way),
            (Shape::Map { entries, .. }, Value::Object(fields)) => self.map(entries, fields, way),
            (Shape::List { items, kind }, Value::Array(list)) => self.list(items, kind, list, way),
            (Shape::Map { .. }, other) => self.say(way, || format!("expected map, got &{{{}}}", golang::plain(other))),
            (Shape::List { .. }, other) => {
                self.say(way, || format!("expected list, got &{{{}}}", golang::plain(other)));
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value, way: Option<&Way<'_>>) {
        match (scalar, value) {
            (Scalar::Text, Value::String(_))
            | (Scalar::Number, Value::Number(_))
            | (Scalar::Truth, Value::Bool(_))
            | (Scalar::Any, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {}
            (Scalar::Number, other) => {
                self.say(way, || format!("expected numeric (int or float), got {}", golang::type_name(other)));
            }
            (Scalar::Text, other) => self.say(way, || {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", golang::as_source(other))
            }),
            (Scalar::Truth, other) => {
                self.say(way, || format!("expected boolean, got &{{{}}}", golang::plain(other)));
            }
            (Scalar::Any, other) => {
                self.say(way, || format!("expected any scalar, got &{{{}}}", golang::plain(other)));
            }
        }
    }

    fn map(&mut self, entries: Entries, fields: &Map<String, Value>, way: Option<&Way<'_>>) {
        for (name, value) in fields {
            let way = Way { before: way, step: Step::Name(name) };
            let Some(shape) = entries.get(name) else {
                // Upstream looks no further in this structure.
                self.say(Some(&way), || "field not declared in schema".to_owned());
                return;
            };
            self.value(shape, value, Some(&way));
        }
    }

    fn list(&mut self, items: &'static Type, kind: &ListKind, list: &[Value], way: Option<&Way<'_>>) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in (0..).zip(list) {
            let element = if *kind == ListKind::Atomic {
                Element::Index(index)
            } else {
                match element(items, kind, item) {
                    Ok(element) => element.fractional(),
                    Err(why) => {
                        self.say(way, || format!("element {index}: {why}"));
                        return;
                    }
                }
            };
            if *kind != ListKind::Atomic && !self.duplicates && !seen.insert(element.clone()) {
                self.say(way, || format!("duplicate entries for key {}", shown(&element)));
            }
            self.value(Shape::of(items), item, Some(&Way { before: way, step: Step::Element(&element) }));
        }
    }

    fn say(&mut self, way: Option<&Way<'_>>, fault: impl FnOnce() -> String) {
        if self.faults.len() >= MOST_FAULTS || self.bytes >= MOST_BYTES {
            return;
        }
        let text = match way {
            None => fault(),
            Some(way) => format!("{}: {}", way.path(), fault()),
        };
        self.bytes += text.len();
        self.faults.push(text);
    }
}

impl Way<'_> {
    fn path(&self) -> String {
        let mut path = self.before.map_or_else(String::new, Way::path);
        match self.step {
            Step::Name(name) => path.extend([".", name]),
            Step::Element(element) => element.show(&mut path),
        }
        path
    }
}

fn shown(element: &Element) -> String {
    let mut path = String::new();
    element.show(&mut path);
    path
}
