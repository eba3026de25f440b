//! Fields of a configuration: read by name whatever their case, held to their type, and named in every refusal.

use serde_json::{Map, Value};

use crate::failure::{Code, Failure};

/// An object of the configuration and where it is.
#[derive(Clone, Debug)]
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// `path` is empty for the configuration itself.
    pub(super) fn new(map: &'a Map<String, Value>, path: &str) -> Self {
        Self { map, path: path.to_owned() }
    }

    /// Where a field is.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A refusal of a field.
    pub(super) fn refuse(&self, key: &str, why: impl std::fmt::Display) -> Failure {
        Failure::new(Code::Config, format!("{}: {why}", self.path(key)))
    }

    /// The field of this name; null is the same as none.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        find(self.map, key).filter(|value| !value.is_null())
    }

    /// A text; none is empty.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, Failure> {
        self.typed(key, "text", Value::as_str).map(Option::unwrap_or_default)
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A number that is not negative; none is zero.
    pub(super) fn number(&self, key: &str) -> Result<u64, Failure> {
        self.typed(key, "a number that is not negative", Value::as_u64).map(Option::unwrap_or_default)
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Object<'a>>, Failure> {
        let map = self.typed(key, "an object", Value::as_object)?;
        Ok(map.map(|map| Object { map, path: self.path(key) }))
    }

    pub(super) fn list(&self, key: &str) -> Result<Option<&'a Vec<Value>>, Failure> {
        self.typed(key, "a list", Value::as_array)
    }

    /// The texts of a list, each with where it is; none is empty.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<(String, &'a str)>, Failure> {
        let items = self.list(key)?.map_or(&[][..], Vec::as_slice).iter().enumerate();
        let text = |(at, item): (usize, &'a Value)| -> Result<_, Failure> {
            let path = format!("{key}[{at}]");
            let text = item.as_str().ok_or_else(|| self.refuse(&path, wrong("text", item)))?;
            Ok((path, text))
        };
        items.map(text).collect()
    }

    /// The objects of a list; none is empty.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Object<'a>>, Failure> {
        let items = self.list(key)?.map_or(&[][..], Vec::as_slice).iter().enumerate();
        let object = |(at, item): (usize, &'a Value)| -> Result<_, Failure> {
            let path = format!("{key}[{at}]");
            let map = item.as_object().ok_or_else(|| self.refuse(&path, wrong("an object", item)))?;
            Ok(Object { map, path: self.path(&path) })
        };
        items.map(object).collect()
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.value(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.refuse(key, wrong(expected, value)))
    }
}

fn wrong(expected: &str, found: &Value) -> String {
    let mut found = found.to_string();
    if found.len() > 60 {
        found.truncate(found.floor_char_boundary(60));
        found.push('…');
    }
    format!("{expected} was expected, not {found}")
}

/// The value of a key, or else of one that differs only in its case.
pub(super) fn find<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).or_else(|| map.iter().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, value)| value))
}

/// The same, to change it.
pub(super) fn find_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Value> {
    if map.contains_key(key) {
        return map.get_mut(key);
    }
    map.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, value)| value)
}
