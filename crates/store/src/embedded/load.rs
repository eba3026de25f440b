//! Opening: the live state and the log are rebuilt by one scan of the history, in its order.
//!
//! The log is rebuilt too, so a watch goes on across a restart as if there had been none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadableTable, ReadableTableMetadata};

use super::file::{Contents, OpenError, explain_storage};
use super::record::{Place, Record};
use crate::hub::WatchLimits;
use crate::mirror::Mirror;
use crate::types::{Entry, Event, Key, Revision};

/// Everything a database has, in memory.
pub(crate) fn load(path: &Path, contents: &Contents, limits: WatchLimits) -> Result<Mirror, OpenError> {
    let mut loading = Loading { path, contents, limits, live: BTreeMap::new(), mirror: None, pending: Vec::new() };
    let mut records = 0;
    scan(path, contents, |place, record| {
        records += 1;
        loading.take_in(place, record)
    })?;
    let expected = contents.history.len().map_err(|error| explain_storage(path, error.into()))?;
    if records != expected {
        return Err(OpenError::corrupt(path, format!("it has {records} records and says it has {expected}")));
    }
    loading.finish()
}

/// Calls `visit` with every record in the order of places, each checked.
pub(crate) fn scan<'a>(
    path: &Path,
    contents: &Contents,
    mut visit: impl FnMut(Place, Record<'_>) -> Result<(), OpenError> + 'a,
) -> Result<(), OpenError> {
    let failed = |error: redb::StorageError| explain_storage(path, error.into());
    for row in contents.history.iter().map_err(failed)? {
        let (place, bytes) = row.map_err(failed)?;
        let place = place.value();
        let record = Record::read(place, bytes.value())
            .map_err(|damage| OpenError::corrupt(path, format!("the record {}: {damage}", name(place))))?;
        visit(place, record)?;
    }
    Ok(())
}

/// A place in words.
pub(crate) fn name((revision, index): Place) -> String {
    format!("{index} of revision {revision}")
}

struct Loading<'a> {
    path: &'a Path,
    contents: &'a Contents,
    limits: WatchLimits,
    /// What was there at the compaction.
    live: BTreeMap<Key, Arc<Entry>>,
    /// Begun with the first record after it.
    mirror: Option<Mirror>,
    /// The events of the transaction that is being read.
    pending: Vec<Arc<Event>>,
}

impl Loading<'_> {
    fn take_in(&mut self, place: Place, record: Record<'_>) -> Result<(), OpenError> {
        let (revision, index) = (Revision(place.0), place.1);
        if revision <= self.contents.compacted {
            let Some(value) = record.value else {
                self.live.remove(record.key);
                return Ok(());
            };
            let entry = Entry::read(record.key.into(), value, record.created, revision, index);
            self.live.insert(entry.key.clone(), Arc::new(entry));
            return Ok(());
        }
        if self.pending.last().is_some_and(|last| last.revision() != revision) {
            self.apply();
        }
        let before = self.mirror().get(record.key);
        let event = match (record.value, before) {
            (Some(value), before) => {
                let key = before.as_ref().map_or_else(|| record.key.into(), |before| before.key.clone());
                Event::put(Arc::new(Entry::read(key, value, record.created, revision, index)), before)
            }
            (None, Some(before)) => Event::delete(before, revision, index),
            (None, None) => {
                let what = format!("the record {} deletes {:?}, which is not there", name(place), record.key);
                return Err(OpenError::corrupt(self.path, what));
            }
        };
        self.pending.push(Arc::new(event));
        Ok(())
    }

    fn mirror(&mut self) -> &Mirror {
        self.mirror.get_or_insert_with(|| {
            let live = std::mem::take(&mut self.live);
            Mirror::new(self.limits, self.contents.compacted, live.into_values())
        })
    }

    fn apply(&mut self) {
        let events = std::mem::take(&mut self.pending);
        if let Some(last) = events.last() {
            let revision = last.revision();
            self.mirror().apply(events, revision).wake();
        }
    }

    fn finish(mut self) -> Result<Mirror, OpenError> {
        self.apply();
        let revision = self.contents.revision(self.path)?;
        self.mirror().apply(Vec::new(), revision).wake();
        self.mirror.ok_or_else(|| OpenError::corrupt(self.path, "nothing could be read"))
    }
}
