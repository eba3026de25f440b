//! How a journal lies in its file: a header, then frames, then zeros that are there to be written over.
//!
//! A frame is what one commit wrote: it is there whole or not at all, because its checksum covers all of it. Reading stops at the
//! first bytes that are no frame. If nothing but remains of one unfinished write follows, that is where the journal ends. If sound
//! frames follow, something has damaged what was committed, and that is told: what was there may have been an address in use.

use super::record::BootId;

/// What a journal begins with.
const MAGIC: [u8; 8] = *b"CADASTRE";
/// The only version there is.
const VERSION: u32 = 1;
/// The bytes of the header.
pub(super) const HEADER: usize = 64;
/// What a frame begins with, so that the next one can be found behind a damaged one.
const FRAME_MAGIC: [u8; 4] = *b"CdFr";
/// The bytes of a frame before its records: what it begins with, the length of its records, their checksum.
pub(super) const FRAME_HEAD: usize = 12;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which journal this is: made once, at random, and kept when the journal is written anew.
    pub id: [u8; 16],
    /// The boot in which this file was written.
    pub boot: BootId,
    /// The first number that no record had when this file was written.
    pub sequence: u64,
    /// How many times the journal was written anew.
    pub rewrites: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..48].copy_from_slice(&self.boot.0);
        bytes[48..56].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[56..].copy_from_slice(&self.rewrites.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header, or says what is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Err(format!("it has {} bytes, and {HEADER} are the least", bytes.len()));
        };
        let mut rest = header.as_slice();
        if part(&mut rest) != MAGIC {
            return Err("it does not begin as a journal does".to_owned());
        }
        let version = u32::from_le_bytes(part(&mut rest));
        if version != VERSION {
            return Err(format!("it has version {version}, and only {VERSION} is known"));
        }
        let checksum = u32::from_le_bytes(part(&mut rest));
        if crc32fast::hash(rest) != checksum {
            return Err("the checksum of its header is wrong".to_owned());
        }
        let (id, boot) = (part(&mut rest), BootId(part(&mut rest)));
        let [sequence, rewrites] = [part(&mut rest), part(&mut rest)].map(u64::from_le_bytes);
        Ok(Self { id, boot, sequence, rewrites })
    }
}

/// The next `N` bytes of a header, of which there are enough.
fn part<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let mut part = [0; N];
    let (taken, after) = rest.split_at(N.min(rest.len()));
    part[..taken.len()].copy_from_slice(taken);
    *rest = after;
    part
}

/// A frame around the records that `write` appends.
pub(super) fn framed(into: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let head = into.len();
    into.extend([0; FRAME_HEAD]);
    write(into);
    let length = ((into.len() - head - FRAME_HEAD) as u32).to_le_bytes();
    let checksum = checksum(length, &into[head + FRAME_HEAD..]);
    into[head..head + 4].copy_from_slice(&FRAME_MAGIC);
    into[head + 4..head + 8].copy_from_slice(&length);
    into[head + 8..head + FRAME_HEAD].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(length: [u8; 4], records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(records);
    hasher.finalize()
}

/// The records of the frame at the beginning of `bytes`, if a sound one is there.
fn frame(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<FRAME_HEAD>()?;
    let [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3] = *head;
    if [m0, m1, m2, m3] != FRAME_MAGIC {
        return None;
    }
    let length = [l0, l1, l2, l3];
    let records = rest.get(..u32::from_le_bytes(length) as usize)?;
    (checksum(length, records) == u32::from_le_bytes([c0, c1, c2, c3])).then_some(records)
}

/// How the frames of a journal end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Behind the last sound frame: where the next one goes.
    pub(super) end: usize,
    /// There is something other than zeros behind that: a write that was not finished.
    pub(super) torn: bool,
    /// Where damaged bytes begin that have sound frames behind them.
    pub(super) damage: Option<usize>,
}

/// Passes the records of every sound frame to `each`, which says whether it could read them.
pub(super) fn frames<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8]) -> bool) -> Tail {
    let mut tail = Tail { end: HEADER.min(bytes.len()), torn: false, damage: None };
    let mut at = tail.end;
    loop {
        let rest = &bytes[at..];
        if let Some(records) = frame(rest) {
            if !each(records) {
                tail.damage.get_or_insert(at);
            }
            at += FRAME_HEAD + records.len();
            tail.end = at;
        } else if let Some(skipped) = next_frame(rest) {
            tail.damage.get_or_insert(at);
            at += skipped;
        } else {
            tail.torn = rest.iter().any(|byte| *byte != 0);
            return tail;
        }
    }
}

/// How far behind the beginning of `bytes` the next sound frame is.
fn next_frame(bytes: &[u8]) -> Option<usize> {
    // Zeros, which is what mostly follows, are passed over at once.
    let start = bytes.iter().position(|byte| *byte != 0)?;
    (start.max(1)..bytes.len()).find(|at| bytes[*at] == FRAME_MAGIC[0] && frame(&bytes[*at..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Header = Header { id: [7; 16], boot: BootId([8; 16]), sequence: 9, rewrites: 10 };

    fn journal(frames: &[&[u8]], zeros: usize) -> Vec<u8> {
        let mut bytes = FIRST.encode().to_vec();
        for records in frames {
            framed(&mut bytes, |into| into.extend(*records));
        }
        bytes.resize(bytes.len() + zeros, 0);
        bytes
    }

    fn read(bytes: &[u8]) -> (Vec<&[u8]>, Tail) {
        let mut found = Vec::new();
        let tail = frames(bytes, |records| {
            found.push(records);
            true
        });
        (found, tail)
    }

    #[test]
    fn a_header_reads_back_and_each_flaw_of_one_is_told() {
        let bytes = FIRST.encode();
        assert_eq!(Header::decode(&bytes), Ok(FIRST));
        for cut in 0..HEADER {
            assert!(Header::decode(&bytes[..cut]).is_err());
        }
        for at in 0..HEADER {
            let mut bytes = bytes;
            bytes[at] ^= 0x10;
            assert!(Header::decode(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn frames_end_at_zeros_or_at_the_end_of_the_file() {
        for zeros in [0, 1, 11, 12, 500] {
            let bytes = journal(&[b"one", b"", b"three"], zeros);
            let (found, tail) = read(&bytes);
            assert_eq!(found, [b"one".as_slice(), b"", b"three"]);
            assert_eq!(tail, Tail { end: bytes.len() - zeros, torn: false, damage: None });
        }
    }

    #[test]
    fn a_last_frame_that_was_cut_is_torn_and_not_there() {
        let whole = journal(&[b"one", b"two"], 0);
        let first = journal(&[b"one"], 0).len();
        for cut in first..whole.len() {
            for zeros in [0, 100] {
                let mut bytes = whole[..cut].to_vec();
                bytes.resize(cut + zeros, 0);
                let (found, tail) = read(&bytes);
                assert_eq!(found, [b"one"]);
                assert_eq!(tail, Tail { end: first, torn: cut > first, damage: None }, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_changed_bit_is_torn_in_the_last_frame_and_damage_in_any_other() {
        let bytes = journal(&[b"one", b"two", b"three"], 20);
        let [first, second] = [journal(&[b"one"], 0).len(), journal(&[b"one", b"two"], 0).len()];
        for at in first..bytes.len() - 20 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            let (found, tail) = read(&bytes);
            if at < second {
                assert_eq!((found, tail.damage), (vec![b"one".as_slice(), b"three"], Some(first)), "byte {at}");
            } else {
                assert_eq!((found, tail.end, tail.torn), (vec![b"one".as_slice(), b"two"], second, true), "byte {at}");
            }
        }
    }

    #[test]
    fn records_that_cannot_be_read_are_damage() {
        let bytes = journal(&[b"one", b"two"], 0);
        let tail = frames(&bytes, |records| records != b"one");
        assert_eq!((tail.damage, tail.end), (Some(HEADER), bytes.len()));
    }
}
