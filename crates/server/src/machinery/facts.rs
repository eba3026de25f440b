//! What the machinery looks at most in an entry, read once and kept with it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use api::{Row, selector};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use store::Entry;

use super::catalog::Resource;
use super::failure::Failure;
use super::show;

/// The facts of an entry.
#[derive(Default, Deserialize)]
pub(crate) struct Facts {
    #[serde(default)]
    labels: Map<String, Value>,
    #[serde(rename = "deletionTimestamp")]
    deletion: Option<IgnoredAny>,
    /// Of the stored form, once somebody asked for a table.
    #[serde(skip)]
    row: OnceLock<Row>,
    /// The values that field selectors look at, of the stored form, once somebody used one.
    #[serde(skip)]
    fields: OnceLock<Box<[String]>>,
}

impl Facts {
    /// The facts of an entry.
    pub(crate) fn of(entry: &Entry) -> Arc<Self> {
        entry.memo(|entry| {
            let metadata = show::metadata(&entry.value).unwrap_or_default();
            serde_json::from_slice(metadata).unwrap_or_default()
        })
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> &Map<String, Value> {
        &self.labels
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.deletion.is_some()
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
