//! The check of a store at rest: everything that can be wrong with a file is looked for, and nothing is changed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use redb::{ReadableTable, ReadableTableMetadata};

use super::file::{self, Contents, DirLock, OpenError, explain, explain_storage};
use super::load::name;
use super::record::{Place, Record};
use crate::types::Revision;

/// How many flaws are told in full; more of them say nothing new.
const TOLD: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The file that was looked at.
    pub path: PathBuf,
    /// The store's own number.
    pub id: u64,
    /// The newest revision.
    pub revision: Revision,
    /// How far its history was compacted.
    pub compacted: Revision,
    /// All records, of puts and deletes.
    pub records: usize,
    /// Bytes of all records.
    pub bytes: usize,
    /// Objects that are there, by the first segment of their keys.
    pub objects: BTreeMap<String, usize>,
    /// What is wrong and where, if something is.
    pub flaws: Vec<String>,
    /// How many more flaws there are than are told.
    pub untold: usize,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.flaws.is_empty()
    }

    /// The report, if nothing is wrong.
    pub(crate) fn sound(self) -> Result<Self, OpenError> {
        match self.flaws.first() {
            Some(flaw) => Err(OpenError::corrupt(&self.path, flaw.as_str())),
            None => Ok(self),
        }
    }

    fn flaw(&mut self, what: String) {
        if self.flaws.len() < TOLD {
            self.flaws.push(what);
        } else {
            self.untold += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects: usize = self.objects.values().sum();
        writeln!(f, "{}: store {:016x}", self.path.display(), self.id)?;
        writeln!(f, "revision {}, history since {}", self.revision, self.compacted)?;
        writeln!(f, "{objects} objects, {} records, {} bytes", self.records, self.bytes)?;
        for (kind, count) in &self.objects {
            writeln!(f, "  {count:>8} {kind}")?;
        }
        for flaw in &self.flaws {
            writeln!(f, "WRONG: {flaw}")?;
        }
        if self.untold > 0 {
            writeln!(f, "WRONG: and {} more", self.untold)?;
        }
        if self.is_sound() { writeln!(f, "sound") } else { Ok(()) }
    }
}

/// Looks at the store in a data directory, or at the one file that a backup is. The store must not be open.
pub fn check(path: &Path) -> Result<Report, OpenError> {
    let (_lock, path) = if path.is_dir() {
        let lock = DirLock::take_if_there(path)?;
        (lock, file::database_path(path))
    } else {
        (None, path.to_owned())
    };
    look_at(&path)
}

/// Looks at a file that nobody writes to.
pub(crate) fn look_at(path: &Path) -> Result<Report, OpenError> {
    file::guarded(path, || {
        let mut database = file::peek(path)?;
        let whole = database.check_integrity().map_err(|error| explain(path, error))?;
        let contents = Contents::of(path, &database)?;
        let mut report = Report {
            path: path.to_owned(),
            id: contents.id,
            revision: contents.revision(path)?,
            compacted: contents.compacted,
            ..Report::default()
        };
        if !whole {
            report.flaw("the pages of the file do not fit their checksums".to_owned());
        }
        look_at_history(path, &contents, &mut report)?;
        Ok(report)
    })
}

/// The last live record of a key.
struct Last {
    created: Revision,
    place: Place,
}

fn look_at_history(path: &Path, contents: &Contents, report: &mut Report) -> Result<(), OpenError> {
    let failed = |error: redb::StorageError| explain_storage(path, error.into());
    let mut live: HashMap<String, Last> = HashMap::new();
    let mut last: Option<Place> = None;
    for row in contents.history.iter().map_err(failed)? {
        let (place, bytes) = row.map_err(failed)?;
        let (place, bytes) = (place.value(), bytes.value());
        report.records += 1;
        report.bytes += bytes.len();
        if let Some(before) = last.replace(place).filter(|&before| before >= place) {
            report.flaw(format!("the record {} stands before {}", name(before), name(place)));
        }
        match Record::read(place, bytes) {
            Ok(record) => look_at_record(place, record, contents.compacted, &mut live, report),
            Err(damage) => report.flaw(format!("the record {}: {damage}", name(place))),
        }
    }
    let expected = contents.history.len().map_err(failed)?;
    if report.records as u64 != expected {
        report.flaw(format!("there are {} records where {expected} should be", report.records));
    }
    for key in live.keys() {
        let kind = key.split('/').next().unwrap_or_default();
        *report.objects.entry(kind.to_owned()).or_default() += 1;
    }
    Ok(())
}

/// Holds a record against the ones of its key before it.
fn look_at_record(
    place: Place,
    record: Record<'_>,
    compacted: Revision,
    live: &mut HashMap<String, Last>,
    report: &mut Report,
) {
    let (revision, key) = (Revision(place.0), record.key);
    let old = revision <= compacted;
    let before = live.remove(key);
    let fits = match &before {
        Some(before) => record.created == before.created,
        None if old => record.created <= revision,
        None => record.created == revision && record.value.is_some(),
    };
    if !fits {
        let before =
            before.as_ref().map_or("nothing".to_owned(), |before| format!("the record {}", name(before.place)));
        report.flaw(format!("the record {} of {key:?} does not follow from {before}", name(place)));
    }
    if let Some(before) = before.filter(|_| old) {
        report.flaw(format!("the record {} of {key:?} should have been compacted", name(before.place)));
    }
    if record.value.is_some() {
        live.insert(key.to_owned(), Last { created: record.created, place });
    } else if old {
        report.flaw(format!("the record {} of the deleted {key:?} should have been compacted", name(place)));
    }
}
