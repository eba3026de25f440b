//! The bytes of one record: what a write did to a key.
//!
//! ```text
//! kind 1 | created revision 8 | key length 4 | key | value | checksum 4      (numbers little-endian)
//! ```
//!
//! The checksum also covers the place of the record, its revision and number, which are not among its bytes: a record that
//! turns up in another place is as wrong as one with a flipped bit. A delete has no value; what it deleted is the record before.

use thiserror::Error;

use crate::types::Revision;

/// The name of a record: the revision of its transaction, and which of its writes it is.
pub(crate) type Place = (u64, u32);

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const HEAD: usize = 1 + 8 + 4;
const CHECKSUM: usize = 4;

/// What is kept of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The revision that created the object.
    pub(crate) created: Revision,
    pub(crate) key: &'a str,
    /// The unstamped value that was put; `None`: the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Damage {
    #[error("it is cut short")]
    Short,
    #[error("its checksum does not fit")]
    Checksum,
    #[error("it is neither a put nor a delete")]
    Kind,
    #[error("its key is no text")]
    Key,
}

impl<'a> Record<'a> {
    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        HEAD + self.key.len() + self.value.map_or(0, <[u8]>::len) + CHECKSUM
    }

    /// Writes it to `out`, which is as long as it is.
    pub(crate) fn write(&self, place: Place, out: &mut [u8]) {
        let (kind, value) = self.value.map_or((KIND_DELETE, [].as_slice()), |value| (KIND_PUT, value));
        let key_length = self.key.len() as u32;
        let parts: [&[u8]; 5] =
            [&[kind], &self.created.0.to_le_bytes(), &key_length.to_le_bytes(), self.key.as_bytes(), value];
        let mut at = 0;
        for part in parts {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let checksum = checksum(place, &out[..at]);
        out[at..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The record whose bytes were found at `place`.
    pub(crate) fn read(place: Place, bytes: &'a [u8]) -> Result<Self, Damage> {
        let (body, found) = bytes.split_last_chunk::<CHECKSUM>().ok_or(Damage::Short)?;
        if checksum(place, body) != u32::from_le_bytes(*found) {
            return Err(Damage::Checksum);
        }
        let (&[kind], rest) = body.split_first_chunk::<1>().ok_or(Damage::Short)?;
        let (created, rest) = rest.split_first_chunk::<8>().ok_or(Damage::Short)?;
        let (key_length, rest) = rest.split_first_chunk::<4>().ok_or(Damage::Short)?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize).ok_or(Damage::Short)?;
        let key = str::from_utf8(key).map_err(|_| Damage::Key)?;
        let value = match kind {
            KIND_PUT => Some(value),
            KIND_DELETE => None,
            _ => return Err(Damage::Kind),
        };
        Ok(Self { created: Revision(u64::from_le_bytes(*created)), key, value })
    }
}

fn checksum((revision, index): Place, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.to_le_bytes());
    hasher.update(&index.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: Record<'_> = Record { created: Revision(5), key: "a/b", value: Some(b"value") };
    const DELETE: Record<'_> = Record { created: Revision(5), key: "a/b", value: None };

    fn written(record: &Record<'_>, place: Place) -> Vec<u8> {
        let mut bytes = vec![0; record.len()];
        record.write(place, &mut bytes);
        bytes
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in [PUT, DELETE, Record { value: Some(b""), ..PUT }] {
            assert_eq!(Record::read((7, 1), &written(&record, (7, 1))), Ok(record));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = written(&PUT, (7, 1));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::read((7, 1), &bad), Err(Damage::Checksum), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(Record::read((7, 1), &good[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn a_record_in_the_place_of_another_is_noticed() {
        assert_eq!(Record::read((7, 2), &written(&PUT, (7, 1))), Err(Damage::Checksum));
        assert_eq!(Record::read((8, 1), &written(&PUT, (7, 1))), Err(Damage::Checksum));
    }
}
