//! How the journal is written by a call: what ends, what begins, and when. Knows nothing of who decides that.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Code, Failure};
use crate::journal::{Book, BootId, End, Image, Journal, Reason, Record, Renewal};
use crate::node;

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The records by which these holdings end, after those of `book`.
pub fn ended(book: &Book<'_>, ends: &[(u64, Reason)], at: u64) -> Vec<Record<'static>> {
    let numbered = ends.iter().zip(book.next()..);
    numbered.map(|((of, reason), sequence)| Record::End(End { sequence, at, of: *of, reason: *reason })).collect()
}

/// Brings records to the disk, all or none. A journal that is not there yet is made.
pub(crate) fn commit(
    journal: Journal<'_>,
    image: &Image,
    book: &Book<'_>,
    records: &[Record<'_>],
    running: BootId,
) -> Result<(), Failure> {
    let unnamed = || node::random().map_err(|error| Failure::new(Code::Io, format!("no random numbers: {error}")));
    let id = image.header().map_or_else(unnamed, |header| Ok(header.id))?;
    Ok(journal.commit(book, records, Renewal { id, boot: running })?)
}
