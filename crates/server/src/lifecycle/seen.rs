//! What the lifecycle reads of an entry: who it is, who owns it, and what keeps it.
//!
//! Only the metadata is read, and of most entries not even that: see [`concerns`].

use api::Object;
use serde::Deserialize;
use serde_json::Value;

use super::place::Place;
use crate::machinery::{FOREGROUND, ORPHAN, metadata_of, read_object};

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Whether the owner, deleted in the foreground, waits for the dependent.
    pub(super) block_owner_deletion: Option<bool>,
}

impl Owner {
    pub(super) fn is_blocked(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }
}

/// What is seen of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Seen {
    pub(super) uid: String,
    pub(super) resource_version: String,
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

impl Seen {
    /// Reads what is seen. An entry that cannot be read has no owner and is not being deleted: it is left alone.
    pub(super) fn of(value: &[u8]) -> Self {
        let metadata = metadata_of(value).unwrap_or_default();
        serde_json::from_slice(metadata).unwrap_or_default()
    }

    pub(super) fn owners(&self) -> &[Owner] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    pub(super) fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().iter().any(|own| own == name)
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// When its deletion was asked for, or will be done if it has a grace period.
    pub(super) fn deleted_at(&self) -> Option<&str> {
        self.deletion_timestamp.as_deref()
    }

    /// How many seconds it was given to wind down.
    pub(super) fn grace(&self) -> i64 {
        self.deletion_grace_period_seconds.unwrap_or(0)
    }

    /// What it waits for before it goes, if that is something about its dependents.
    pub(super) fn waits(&self) -> Option<Wait> {
        if !self.is_terminating() {
            None
        } else if self.has_finalizer(ORPHAN) {
            Some(Wait::Orphan)
        } else if self.has_finalizer(FOREGROUND) {
            Some(Wait::Foreground)
        } else {
            None
        }
    }
}

/// What a deleted owner waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// That dependents which block it are gone.
    Foreground,
    /// That no dependent refers to it.
    Orphan,
}

impl Wait {
    /// The finalizer that stands for it.
    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Foreground => FOREGROUND,
            Self::Orphan => ORPHAN,
        }
    }
}

/// Whether there can be something to see in an entry. Looking for two words is much faster than reading the metadata, and
/// most writes are of objects that nobody owns and nobody deletes.
pub(super) fn concerns(value: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(value, word).is_some();
    has(b"\"ownerReferences\"") || has(b"\"deletionTimestamp\"")
}

/// All of an object, as its place serves it.
pub(super) fn whole(place: &Place, value: &[u8]) -> Object {
    read_object(place.resource, value).unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
