//! What the machinery looks at most in an entry, read once and kept with it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use api::{Row, selector};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use store::Entry;

use super::catalog::Resource;
use super::failure::Failure;
use super::show;

/// The facts of an entry.
#[derive(Default)]
pub(crate) struct Facts {
    labels: Map<String, Value>,
    is_terminating: bool,
    /// Where its metadata are, once somebody asked for them alone: what is in them is looked through to find their end.
    metadata: OnceLock<Range<u32>>,
    /// Of the stored form, once somebody asked for a table.
    row: OnceLock<Row>,
    /// The values that field selectors look at, of the stored form, once somebody used one.
    fields: OnceLock<Box<[String]>>,
}

impl Facts {
    /// The facts of an entry.
    pub(crate) fn of(entry: &Entry) -> Arc<Self> {
        entry.memo(|entry| {
            let mut facts = Self::default();
            let metadata = show::from_metadata_on(&entry.value).unwrap_or_default();
            // What follows is not read, so this ends with an error, which says nothing.
            let _ = serde_json::Deserializer::from_slice(metadata).deserialize_map(Reading(&mut facts));
            facts
        })
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> &Map<String, Value> {
        &self.labels
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    /// The metadata of the entry, whose bytes these are; none if they are no object.
    pub(crate) fn metadata<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        if let Some(place) = self.metadata.get() {
            return value.get(place.start as usize..place.end as usize);
        }
        let metadata = show::metadata(value)?;
        let start = value.len() - show::from_metadata_on(value)?.len();
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(start + metadata.len())) {
            self.metadata.get_or_init(|| start..end);
        }
        Some(metadata)
    }

    /// The row of the entry, whose bytes these are. Only that of the stored form is kept.
    pub(crate) fn row(&self, resource: &Resource, value: &[u8]) -> Result<Cow<'_, Row>, Failure> {
        kept(&self.row, resource, || show::row(resource, value))
    }

    /// The values of the entry that field selectors look at, likewise.
    pub(crate) fn fields(&self, resource: &Resource, value: &[u8]) -> Result<Cow<'_, Box<[String]>>, Failure> {
        kept(&self.fields, resource, || Ok(selector::values(&show::read(resource, value)?, resource.kind)))
    }
}

/// Reads metadata up to `managedFields`, which are last, longer than all the rest, and hold no facts.
struct Reading<'a>(&'a mut Facts);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Name {
    Labels,
    DeletionTimestamp,
    ManagedFields,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut metadata: A) -> Result<(), A::Error> {
        while let Some(name) = metadata.next_key()? {
            match name {
                Name::Labels => self.0.labels = metadata.next_value()?,
                Name::DeletionTimestamp => {
                    self.0.is_terminating = metadata.next_value::<Option<IgnoredAny>>()?.is_some();
                }
                Name::ManagedFields => break,
                Name::Other => drop(metadata.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// What is in the place or else made for it; other views than the stored one are made anew each time.
fn kept<'a, T: Clone>(
    place: &'a OnceLock<T>,
    resource: &Resource,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<Cow<'a, T>, Failure> {
    if !resource.is_stored_form() {
        return make().map(Cow::Owned);
    }
    if let Some(kept) = place.get() {
        return Ok(Cow::Borrowed(kept));
    }
    let fresh = make()?;
    Ok(Cow::Borrowed(place.get_or_init(|| fresh)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_far_as_there_can_be_some() {
        let object = br#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","deletionTimestamp":"t","labels":{"a":"b"},"managedFields":[{"manager"#;
        let mut facts = Facts::default();
        let metadata = show::from_metadata_on(object).unwrap();
        let _ = serde_json::Deserializer::from_slice(metadata).deserialize_map(Reading(&mut facts));
        assert!(facts.is_terminating());
        assert_eq!(facts.labels()["a"], "b");
    }

    #[test]
    fn metadata_are_the_same_when_they_are_asked_for_again() {
        let object = br#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","annotations":{"}":"\"}"}},"spec":{"metadata":{}}}"#;
        let facts = Facts::default();
        let expected: &[u8] = br#"{"name":"a","annotations":{"}":"\"}"}}"#;
        for _ in 0..2 {
            assert_eq!(facts.metadata(object), Some(expected));
        }
        assert_eq!(Facts::default().metadata(b"{"), None);
    }
}
