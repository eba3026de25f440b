//! What a journal comes to: every holding that has not ended, and what ended lately.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::mem;

use super::JournalError;
use super::frame::{self, FRAME_HEAD, Header, Tail};
use super::record::{Holding, Ips, Origin, Record, Released};
use crate::place::Place;

/// The bytes of a journal as they were at one moment.
#[derive(Debug, Default)]
pub struct Image {
    bytes: Vec<u8>,
    header: Option<Header>,
}

impl Image {
    /// Reads the journal of a network. One that is not there is empty. Whoever acts on what it says holds the lock; others may read
    /// it without, and see every commit that was finished.
    pub fn read(place: &Place) -> Result<Self, JournalError> {
        match File::open(place.journal()) {
            Ok(file) => Self::of_file(place, &file),
            Err(missing) if missing.kind() == ErrorKind::NotFound => Ok(Self::none()),
            Err(source) => Err(JournalError::io("read", place, source)),
        }
    }

    pub(super) fn of_file(place: &Place, file: &File) -> Result<Self, JournalError> {
        let bytes = whole(file).map_err(|source| JournalError::io("read", place, source))?;
        let header = Header::decode(&bytes);
        let header = header.map_err(|why| JournalError::Unreadable { path: place.journal(), why })?;
        Ok(Self { bytes, header: Some(header) })
    }

    /// That of a journal that is not there.
    pub(super) const fn none() -> Self {
        Self { bytes: Vec::new(), header: None }
    }

    /// What its header says; none if there is no journal.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// How long the file was.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// What it comes to.
    pub fn book(&self) -> Book<'_> {
        // Room for all that can be there: growing would copy what was read, again and again.
        let most = self.bytes.len() / SMALLEST;
        let mut book = Book {
            holdings: Vec::with_capacity(most),
            released: Vec::new(),
            next: self.header.map_or(1, |header| header.sequence),
            live: 0,
            tail: Tail { end: 0, torn: false, damage: None },
        };
        // What ended stays where it is until all is read: taking it out at once would move all that follows, every time.
        let mut sizes = Vec::with_capacity(most);
        book.tail = frame::frames(&self.bytes, |mut records| {
            while !records.is_empty() {
                let before = records.len();
                let Some(record) = Record::decode(&mut records) else { return false };
                if !book.enter(record, before - records.len(), &mut sizes) {
                    return false;
                }
            }
            true
        });
        book.live = sizes.iter().sum();
        let mut sizes = sizes.into_iter();
        book.holdings.retain(|_| sizes.next() != Some(ENDED));
        book
    }
}

/// Of what ended, the newest are remembered when the journal is written anew: enough for addresses to rest.
const REMEMBERED: usize = 512;
/// A holding has more bytes than this, whatever its texts are; the memory for more of them is never touched.
const SMALLEST: usize = 100;
/// The size of a holding that has ended.
const ENDED: usize = 0;

/// Who holds what.
#[derive(Debug)]
pub struct Book<'a> {
    /// What has not ended, in the order in which it was written.
    holdings: Vec<Holding<'a>>,
    released: Vec<Released<'a>>,
    next: u64,
    /// How many bytes the holdings have in the journal.
    live: usize,
    pub(super) tail: Tail,
}

impl<'a> Book<'a> {
    /// Takes up a record; false if it cannot stand where it does.
    fn enter(&mut self, record: Record<'a>, size: usize, sizes: &mut Vec<usize>) -> bool {
        match record {
            Record::Hold(holding) => {
                if self.holdings.last().is_some_and(|last| last.sequence >= holding.sequence) {
                    return false;
                }
                self.next = self.next.max(holding.sequence.saturating_add(1));
                sizes.push(size);
                self.holdings.push(holding);
            }
            Record::End(end) => {
                self.next = self.next.max(end.sequence.saturating_add(1));
                let found = self.holdings.binary_search_by_key(&end.of, |holding| holding.sequence);
                // A holding whose record is damaged ends without having been seen to begin.
                if let Ok(at) = found
                    && sizes[at] != ENDED
                {
                    sizes[at] = ENDED;
                    let ips = mem::replace(&mut self.holdings[at].ips, Ips::of(&[]));
                    self.released.push(Released { sequence: end.of, at: end.at, ips });
                }
            }
            Record::Released(released) => self.released.push(released),
        }
        true
    }

    /// What has not ended, in the order in which it was written.
    pub fn holdings(&self) -> &[Holding<'a>] {
        &self.holdings
    }

    /// What ended, as far back as the journal goes, in the order in which it ended.
    pub fn released(&self) -> &[Released<'a>] {
        &self.released
    }

    /// What this attachment holds. What is owed it does not hold.
    pub fn of(&self, container: &str, ifname: &str) -> Option<&Holding<'a>> {
        self.holdings.iter().rev().find(|holding| holding.origin != Origin::Owed && holding.is_of(container, ifname))
    }

    /// A book of what somebody else knows, in the order of its numbers; nothing is written by it.
    pub fn gathered(holdings: Vec<Holding<'a>>, released: Vec<Released<'a>>) -> Self {
        let next = holdings.last().map_or(1, |last| last.sequence.saturating_add(1));
        Self { holdings, released, next, live: 0, tail: Tail { end: 0, torn: false, damage: None } }
    }

    /// The first number that no record has.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Where the journal is damaged, if it is: something that was committed can no longer be read, so an address may be in use that
    /// nobody here seems to hold.
    pub fn damage(&self) -> Option<usize> {
        self.tail.damage
    }

    /// What is remembered of what ended when the journal is written anew.
    pub(super) fn remembered(&self) -> &[Released<'a>] {
        &self.released[self.released.len().saturating_sub(REMEMBERED)..]
    }

    /// How many bytes the frames of a journal would have that is written anew.
    pub(super) fn kept(&self) -> usize {
        let frames = self.holdings.len() + self.remembered().len();
        let released: usize = self.remembered().iter().map(Released::size).sum();
        self.live + released + frames * FRAME_HEAD
    }
}

/// All of a file whose size is known, in one call.
fn whole(file: &File) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if size > super::LARGEST {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has {size} bytes")));
    }
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match (&*file).read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
