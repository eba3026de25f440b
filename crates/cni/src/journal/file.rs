//! The file of a journal: opened under the lock, appended to, written anew.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use super::book::{Book, Image};
use super::frame::{FRAME_HEAD, HEADER, Header, framed};
use super::record::{BootId, Holding, Record, Released};
use super::{JournalError, LARGEST};
use crate::lock::Lock;
use crate::place::{Place, replace};

/// Zeros are written ahead of the frames, this many bytes at a time. A frame written over them changes nothing about the file but its
/// bytes, so that the system has nothing else to bring to the disk, and on a full disk there is still room for a DEL.
const ROOM: usize = 16 << 10;
/// The journal is written anew when it would be smaller by more than this and than half of what it would be.
const SLACK: usize = 64 << 10;

/// The journal of a network, open to be written. The lock is held as long as it is.
#[derive(Debug)]
pub struct Journal<'l> {
    place: Place,
    file: Option<File>,
    header: Option<Header>,
    size: usize,
    _lock: &'l Lock,
}

/// What a journal is written anew for.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    /// The id of a journal that has none yet: random.
    pub id: [u8; 16],
    /// The boot.
    pub boot: BootId,
}

impl<'l> Journal<'l> {
    /// Opens the journal of a network and reads it. One that is not there is empty, and is made by the first commit.
    pub fn open(place: &Place, lock: &'l Lock) -> Result<(Self, Image), JournalError> {
        let opened = match OpenOptions::new().read(true).write(true).open(place.journal()) {
            Ok(file) => Some(file),
            Err(missing) if missing.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(JournalError::io("open", place, source)),
        };
        let image = opened.as_ref().map_or_else(|| Ok(Image::none()), |file| Image::of_file(place, file))?;
        let header = image.header().copied();
        Ok((Self { place: place.clone(), file: opened, header, size: image.size(), _lock: lock }, image))
    }

    /// Commits `records` as one: when this returns, they are on the disk, all of them. If it fails, none of them is there.
    ///
    /// `book` is what the journal came to before. Mostly this appends; when too much has ended, the journal is written anew.
    pub fn commit(self, book: &Book<'_>, records: &[Record<'_>], renewal: Renewal) -> Result<(), JournalError> {
        let Some(file) = &self.file else { return self.write_anew(book, records, renewal) };
        let spare = book.tail.end.saturating_sub(HEADER + book.kept());
        if spare > SLACK.max(book.kept() / 2) && book.damage().is_none() {
            // A disk that is too full for a second file may still have room for a frame in the first.
            if self.write_anew(book, records, renewal).is_ok() {
                return Ok(());
            }
        }
        append(file, &self.place, self.size, book, records)
    }

    /// Puts a journal with nothing but `records` in the place of whatever is there, readable or not: the agent mends a damaged one so, from
    /// what the API has. Numbers below `sequence` were used before.
    pub fn begin(
        place: &Place,
        _lock: &Lock,
        sequence: u64,
        records: &[Record<'_>],
        renewal: Renewal,
    ) -> Result<(), JournalError> {
        let header = Header { id: renewal.id, boot: renewal.boot, sequence, rewrites: 0 };
        put(place, &anew(header, &Image::none().book(), records))
    }

    fn write_anew(&self, book: &Book<'_>, records: &[Record<'_>], renewal: Renewal) -> Result<(), JournalError> {
        let header = Header {
            id: self.header.map_or(renewal.id, |header| header.id),
            boot: renewal.boot,
            sequence: book.next(),
            rewrites: self.header.map_or(0, |header| header.rewrites + 1),
        };
        put(&self.place, &anew(header, book, records))
    }
}

/// Writes a whole journal in the place of the one that is there.
fn put(place: &Place, bytes: &[u8]) -> Result<(), JournalError> {
    let written =
        if bytes.len() > LARGEST { Err(ErrorKind::FileTooLarge.into()) } else { replace(&place.journal(), bytes) };
    written.map_err(|source| JournalError::io("write", place, source))
}

/// A journal with what `book` holds, in frames of one record each, and `records` in one frame.
fn anew(header: Header, book: &Book<'_>, records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = header.encode().to_vec();
    let released = book.remembered().iter().map(|released: &Released<'_>| Record::Released(released.clone()));
    let held = book.holdings().iter().map(|holding: &Holding<'_>| Record::Hold(holding.clone()));
    for record in released.chain(held) {
        framed(&mut bytes, |into| record.encode(into));
    }
    if !records.is_empty() {
        framed(&mut bytes, |into| records.iter().for_each(|record| record.encode(into)));
    }
    bytes.resize(bytes.len() + ROOM, 0);
    bytes
}

fn append(
    file: &File,
    place: &Place,
    size: usize,
    book: &Book<'_>,
    records: &[Record<'_>],
) -> Result<(), JournalError> {
    let end = book.tail.end;
    let mut bytes = Vec::with_capacity(ROOM + FRAME_HEAD);
    framed(&mut bytes, |into| records.iter().for_each(|record| record.encode(into)));
    let frame = bytes.len();
    let named = |source| JournalError::io("write", place, source);
    if end + frame > LARGEST {
        return Err(named(io::Error::from(ErrorKind::FileTooLarge)));
    }
    let mut size = size;
    if book.tail.torn {
        // What is left of an unfinished write must not come to stand behind this frame.
        file.set_len(end as u64).map_err(named)?;
        size = end;
    }
    if end + frame > size {
        bytes.resize(frame + ROOM, 0);
    }
    let write = |bytes: &[u8]| file.write_all_at(bytes, end as u64).and_then(|()| file.sync_data());
    let written = match write(&bytes) {
        // The disk is nearly full: the frame alone may fit.
        Err(full) if full.kind() == ErrorKind::StorageFull && bytes.len() > frame => write(&bytes[..frame]),
        written => written,
    };
    written.map_err(|source| {
        // Nobody is told of these records, so they must not be there. If this fails too, the disk takes nothing any more, and what
        // the next one reads is what the disk has.
        drop(file.set_len(end as u64).and_then(|()| file.sync_data()));
        named(source)
    })
}
