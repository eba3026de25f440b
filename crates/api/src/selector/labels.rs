//! Label selectors: `app=web,tier in (a, b),!old`.

use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use crate::field::{Errors, Path};
use crate::names;

/// A choice of objects by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, each once.
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    /// Reads a selector: `app=web,tier in (a, b),!old`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser { tokens: scan(text), next: 0 }.selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Whether it chooses everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether it chooses an object with those labels.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.requirements.iter().all(|requirement| {
            requirement.matches(labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str))
        })
    }
}

/// The canonical text: requirements by key, values sorted.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    pub(super) fn new(key: String, operator: Operator, values: Vec<String>) -> Result<Self, SelectorError> {
        let requirement = Self::unchecked(key, operator, values);
        let Self { key, values, .. } = &requirement;
        let mut errors = Errors::new();
        let path = Path::new("values");
        let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        for (index, value) in values.iter().enumerate() {
            let shown = Value::from(value.as_str());
            if compares && value.parse::<i64>().is_err() {
                errors.invalid(&path.index(index), &shown, "for 'Gt', 'Lt' operators, the value must be an integer");
            }
        }
        for (index, value) in values.iter().enumerate() {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.invalid(&path.index(index).key(key), &Value::from(value.as_str()), faults.join("; "));
            }
        }
        if errors.is_empty() { Ok(requirement) } else { Err(SelectorError(errors.to_string())) }
    }

    /// The same of what is no label, or is known to be right.
    pub(super) fn unchecked(key: String, operator: Operator, mut values: Vec<String>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { key, operator, values }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn operator(&self) -> Operator {
        self.operator
    }

    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    pub(super) fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        let number = |text: &str| text.parse::<i64>().ok();
        let compare = |holds: fn(&i64, &i64) -> bool| {
            let pair = label.and_then(number).zip(self.values.first().and_then(|value| number(value)));
            pair.is_some_and(|(label, bound)| holds(&label, &bound))
        };
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => compare(i64::gt),
            Operator::LessThan => compare(i64::lt),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A word or a sign of a label selector. `in` and `notin` are signs only where an operator may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) => text,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        // A zero byte ends a selector as the end of its text does.
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if rest.is_empty() || rest.starts_with('\0') {
            tokens.push(Token::End);
            return tokens;
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
            continue;
        }
        let end = rest.find(|c: char| " \t\r\n\0=!(),<>".contains(c)).unwrap_or(rest.len());
        tokens.push(Token::Word(rest[..end].to_owned()));
        rest = &rest[end..];
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Sign("!") => {}
                other @ Token::Sign(_) => return Err(found(other, ", expected: !, identifier, or 'end of string'")),
            }
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Sign(",") => match self.peek() {
                    Token::Word(_) | Token::Sign("!") => {}
                    other => return Err(found(other, ", expected: identifier after ','")),
                },
                other => return Err(found(&other, ", expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = *self.peek() == Token::Sign("!");
        if negated {
            self.next += 1;
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(found(&other, ", expected: identifier")),
        };
        let faults = names::qualified_name(&key);
        if !faults.is_empty() {
            return Err(SelectorError(format!(
                "<nil>: Invalid value: {}: {}",
                Value::from(key.as_str()),
                faults.join("; ")
            )));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.take() {
            Token::Word(word) if word == "in" => Operator::In,
            Token::Word(word) if word == "notin" => Operator::NotIn,
            Token::Sign("=") => Operator::Equals,
            Token::Sign("==") => Operator::DoubleEquals,
            Token::Sign("!=") => Operator::NotEquals,
            Token::Sign(">") => Operator::GreaterThan,
            Token::Sign("<") => Operator::LessThan,
            other => return Err(found(&other, ", expected: in, notin, =, ==, !=, gt, lt")),
        };
        let values = if matches!(operator, Operator::In | Operator::NotIn) { self.set()? } else { vec![self.value()?] };
        Requirement::new(key, operator, values)
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(String::new());
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            other => Err(found(&other, ", expected: identifier")),
        }
    }

    /// The values in parentheses; nothing between two commas is the empty value.
    fn set(&mut self) -> Result<Vec<String>, SelectorError> {
        let open = self.take();
        if open != Token::Sign("(") {
            return Err(found(&open, " expected: '('"));
        }
        let mut values = Vec::new();
        match self.peek() {
            Token::Sign(")") => {
                self.next += 1;
                return Ok(vec![String::new()]);
            }
            Token::Word(_) | Token::Sign(",") => {}
            other => return Err(found(other, ", expected: ',', ')' or identifier")),
        }
        loop {
            match self.take() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Sign(",") => {}
                        Token::Sign(")") => break,
                        other => return Err(found(other, ", expected: ',' or ')'")),
                    }
                }
                Token::Sign(",") => {
                    let last = *self.peek() == Token::Sign(")");
                    if values.is_empty() || last || *self.peek() == Token::Sign(",") {
                        values.push(String::new());
                    }
                    if last {
                        break;
                    }
                }
                other => return Err(found(&other, ", expected: ',', or identifier")),
            }
        }
        self.next += 1;
        Ok(values)
    }
}

fn found(token: &Token, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}'{expected}", token.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors_have_one_canonical_text() {
        for (text, canonical) in [
            ("", ""),
            ("a", "a"),
            ("!a", "!a"),
            ("a=b", "a=b"),
            ("a==b", "a==b"),
            (" b != c , a in ( z,y ,y) ", "a in (y,z),b!=c"),
            ("a notin ()", "a notin ()"),
            ("a in (,b,)", "a in (,b)"),
            ("a in (,b)", "a in (,b)"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("a=", "a="),
            ("a=,b", "a=,b"),
            ("in in (notin)", "in in (notin)"),
            ("a>1,b<2", "a>1,b<2"),
            ("example.com/a=b", "example.com/a=b"),
        ] {
            assert_eq!(LabelSelector::parse(text).map(|it| it.to_string()).as_deref(), Ok(canonical), "{text:?}");
        }
    }

    #[test]
    fn a_bad_label_selector_says_where_it_went_wrong() {
        for (text, message) in [
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a==)", "unable to parse requirement: found ')', expected: identifier"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("a=b#", "unable to parse requirement: values[0][a]: Invalid value: \"b#\": a valid label must be"),
            ("a#=b", "unable to parse requirement: <nil>: Invalid value: \"a#\": name part must consist of"),
        ] {
            let error = LabelSelector::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn label_selectors_choose_by_every_requirement() {
        let labels = json!({"app": "web", "tier": "a", "n": "5"});
        for (text, chosen) in [
            ("", true),
            ("app=web,tier=a", true),
            ("app=web,tier=b", false),
            ("app!=web", false),
            ("none!=web", true),
            ("tier in (a,b)", true),
            ("none in (a)", false),
            ("none notin (a)", true),
            ("app,!none", true),
            ("!app", false),
            ("n>4,n<6", true),
            ("n>5", false),
            ("app>4", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(labels.as_object()), chosen, "{text:?}");
        }
        assert!(!LabelSelector::parse("a").unwrap().matches(None));
    }
}
