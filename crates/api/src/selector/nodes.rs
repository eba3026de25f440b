//! Node selectors as they are matched: which nodes a term chooses, and by how many of its requirements.

use std::fmt;

use serde_json::Value;

use super::SelectorError;
use super::labels::{Operator, Requirement};
use crate::reading::{items, text, texts};

/// How the terms of a selector belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terms {
    /// One that holds is enough, and a term that asks for nothing chooses nothing: what Kubernetes says a node selector is.
    #[default]
    Any,
    /// All have to hold, and asking for nothing chooses everything: how node-ipam-controller reads it.
    All,
}

/// A choice of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSelector {
    terms: Vec<Term>,
    /// How many terms were written.
    written: usize,
    /// Whether a term without requirements holds.
    empty_holds: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    labels: Vec<Requirement>,
    names: Vec<Requirement>,
}

/// What a node must have, at least, to be chosen by a term: where to look for those that may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anchor {
    /// This label with this value.
    Label(String, String),
    /// This label.
    Key(String),
    /// This name.
    Name(String),
    /// Nothing in particular.
    Any,
}

impl NodeSelector {
    /// Reads a selector from its JSON.
    pub fn read(selector: &Value, terms: Terms) -> Result<Self, SelectorError> {
        let all = items(selector, "nodeSelectorTerms").iter().map(Term::read).collect::<Result<Vec<_>, _>>()?;
        let written = all.len();
        Ok(match terms {
            Terms::Any => Self { terms: all, written, empty_holds: false },
            Terms::All => {
                let mut one = Term::default();
                for term in all {
                    one.labels.extend(term.labels);
                    one.names.extend(term.names);
                }
                Self { terms: vec![one], written, empty_holds: true }
            }
        })
    }

    /// Whether it is another choice when its terms are read the other way.
    pub fn depends_on_terms(&self) -> bool {
        self.written != 1 || self.terms.iter().any(|term| term.len() == 0)
    }

    /// How many requirements the terms have that choose a node of that name with those labels; none if no term does.
    pub fn matched<'a>(&self, name: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<usize> {
        let chosen = self.terms.iter().filter(|term| (self.empty_holds || term.len() > 0) && term.holds(name, &label));
        chosen.fold(None, |sum, term| Some(sum.unwrap_or(0) + term.len()))
    }

    /// What a node must have, at least, to be chosen. Who has none of them is not.
    pub fn anchors(&self) -> Vec<Anchor> {
        self.terms.iter().filter(|term| self.empty_holds || term.len() > 0).flat_map(Term::anchors).collect()
    }
}

/// The canonical text: the requirements of all terms by key, whatever order they were written in.
impl fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<(&str, String)> =
            self.terms.iter().flat_map(Term::requirements).map(|one| (one.key(), one.to_string())).collect();
        all.sort_unstable();
        for (index, (_, requirement)) in all.iter().enumerate() {
            write!(f, "{}{requirement}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Term {
    fn read(term: &Value) -> Result<Self, SelectorError> {
        let labels = items(term, "matchExpressions").iter().map(|written| {
            let values = texts(written, "values").map(str::to_owned).collect();
            Requirement::new(text(written, "key").to_owned(), operator(written)?, values)
        });
        // A name is no label: it may be longer, and is not held against the rules for labels.
        let names = items(term, "matchFields").iter().map(|written| {
            let values = texts(written, "values").map(str::to_owned).collect();
            Ok(Requirement::unchecked(text(written, "key").to_owned(), operator(written)?, values))
        });
        Ok(Self { labels: labels.collect::<Result<_, _>>()?, names: names.collect::<Result<_, _>>()? })
    }

    fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.labels.iter().chain(&self.names)
    }

    fn len(&self) -> usize {
        self.labels.len() + self.names.len()
    }

    fn holds<'a>(&self, name: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.names.iter().all(|one| one.matches((one.key() == "metadata.name").then_some(name)))
            && self.labels.iter().all(|one| one.matches(label(one.key())))
    }

    /// One requirement that names what it wants is enough to find a term by; the first with a value finds the fewest nodes.
    fn anchors(&self) -> Vec<Anchor> {
        if let Some(one) = self.names.iter().find(|one| one.operator() == Operator::In) {
            return one.values().iter().map(|name| Anchor::Name(name.clone())).collect();
        }
        if let Some(one) = self.labels.iter().find(|one| one.operator() == Operator::In) {
            return one.values().iter().map(|value| Anchor::Label(one.key().to_owned(), value.clone())).collect();
        }
        let named = |one: &&Requirement| !matches!(one.operator(), Operator::NotIn | Operator::DoesNotExist);
        let anchor = self.labels.iter().find(named);
        vec![anchor.map_or(Anchor::Any, |one| Anchor::Key(one.key().to_owned()))]
    }
}

fn operator(requirement: &Value) -> Result<Operator, SelectorError> {
    Ok(match text(requirement, "operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        other => return Err(SelectorError(format!("{other:?} is not a valid node selector operator"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A requirement in a few words: `zone In a,b`.
    fn requirement(text: &str) -> Value {
        let mut words = text.split(' ');
        let (key, operator) = (words.next().unwrap(), words.next().unwrap());
        let values: Vec<&str> = words.next().map(|values| values.split(',').collect()).unwrap_or_default();
        json!({"key": key, "operator": operator, "values": values})
    }

    /// Terms are divided by `|`, their requirements by `&`; those of `metadata.name` are fields.
    fn selector(text: &str, terms: Terms) -> NodeSelector {
        let term = |text: &str| {
            let all: Vec<&str> = text.split('&').map(str::trim).filter(|one| !one.is_empty()).collect();
            let (names, labels): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|one| one.starts_with("metadata."));
            let of = |texts: Vec<&str>| texts.into_iter().map(requirement).collect::<Vec<_>>();
            json!({"matchExpressions": of(labels), "matchFields": of(names)})
        };
        let all: Vec<Value> = text.split('|').map(term).collect();
        NodeSelector::read(&json!({"nodeSelectorTerms": all}), terms).unwrap()
    }

    fn matched(selector: &NodeSelector, name: &str, labels: &[(&str, &str)]) -> Option<usize> {
        selector.matched(name, |key| labels.iter().find(|(own, _)| *own == key).map(|(_, value)| *value))
    }

    #[test]
    fn a_node_is_chosen_by_any_term_and_all_terms_that_hold_count() {
        let labels = [("zone", "a"), ("size", "9")];
        for (text, count) in [
            ("zone In a", Some(1)),
            ("zone In b", None),
            ("zone In b | size In 9", Some(1)),
            ("zone In a | size In 9", Some(2)),
            ("zone In a & size In 8", None),
            ("zone In a & size Gt 8 & rack DoesNotExist", Some(3)),
            ("size Lt 9 | size Gt 9", None),
            ("zone NotIn a | rack NotIn x", Some(1)),
            ("zone Exists", Some(1)),
            ("rack Exists", None),
            ("zone Gt 1", None),
            ("metadata.name In n", Some(1)),
            ("metadata.name NotIn n", None),
            ("metadata.name In n & zone In a", Some(2)),
            ("metadata.namespace In n", None),
            ("", None),
            (" | zone In a", Some(1)),
        ] {
            assert_eq!(matched(&selector(text, Terms::Any), "n", &labels), count, "{text}");
        }
    }

    #[test]
    fn terms_can_be_read_as_one() {
        let labels = [("zone", "a"), ("size", "9")];
        for (text, count) in [
            ("zone In a | size In 9", Some(2)),
            ("zone In a | size In 8", None),
            ("", Some(0)),
            ("zone In a | ", Some(1)),
        ] {
            assert_eq!(matched(&selector(text, Terms::All), "n", &labels), count, "{text}");
        }
    }

    #[test]
    fn one_term_is_the_same_in_both_ways() {
        for (text, depends) in [("zone In a & size In 9", false), ("zone In a | size In 9", true), ("", true)] {
            for terms in [Terms::Any, Terms::All] {
                assert_eq!(selector(text, terms).depends_on_terms(), depends, "{text}");
            }
        }
    }

    #[test]
    fn the_text_does_not_depend_on_the_order_of_terms() {
        let shown = |text: &str| selector(text, Terms::Any).to_string();
        assert_eq!(shown("zone In b,a | a Exists & size Gt 8"), "a,size>8,zone in (a,b)");
        assert_eq!(shown("size Gt 8 & a Exists | zone In a,b"), "a,size>8,zone in (a,b)");
    }

    #[test]
    fn whoever_is_chosen_has_an_anchor() {
        let anchors = |text: &str, terms| selector(text, terms).anchors();
        let label = |key: &str, value: &str| Anchor::Label(key.to_owned(), value.to_owned());
        assert_eq!(
            anchors("a Exists & zone In x,y | b Gt 1", Terms::Any),
            [label("zone", "x"), label("zone", "y"), Anchor::Key("b".to_owned())]
        );
        assert_eq!(anchors("zone In x & metadata.name In n", Terms::Any), [Anchor::Name("n".to_owned())]);
        assert_eq!(anchors("a NotIn x & b DoesNotExist | ", Terms::Any), [Anchor::Any]);
        assert_eq!(anchors("", Terms::All), [Anchor::Any]);
    }

    #[test]
    fn what_can_never_be_matched_is_said() {
        let read =
            |one: Value| NodeSelector::read(&json!({"nodeSelectorTerms": [{"matchExpressions": [one]}]}), Terms::Any);
        assert!(read(requirement("a Near x")).unwrap_err().to_string().contains("not a valid node selector operator"));
        assert!(read(requirement("a Gt x")).unwrap_err().to_string().contains("the value must be an integer"));
    }
}
