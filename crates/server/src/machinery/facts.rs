//! What the machinery looks at most in an entry, read once and kept with it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use api::Row;
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
        if !resource.is_stored_form() {
            return show::row(resource, value).map(Cow::Owned);
        }
        if let Some(row) = self.row.get() {
            return Ok(Cow::Borrowed(row));
        }
        let row = show::row(resource, value)?;
        Ok(Cow::Borrowed(self.row.get_or_init(|| row)))
    }
}
