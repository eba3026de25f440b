//! The stamp: the revision inside an object's own bytes.
//!
//! An object carries its revision in itself, but the revision is known only when it is written. So whoever encodes an object
//! leaves the room empty, `"resourceVersion":""`, and the first such place is filled in when the entry enters memory: once, so
//! that lists and watches copy bytes and encode nothing. On disk and in etcd the room stays empty, because what is kept there
//! must not depend on when it was written. A value without the room is left alone; the store does not know JSON otherwise.
//!
//! The encoder must see to it that the room is the first of its kind: metadata before anything a user could fill with a field
//! of that name. Inside a JSON string the quotes are escaped, so text cannot look like the room.

use std::num::NonZeroU32;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;

use crate::types::Revision;

/// The room, as encoders leave it.
const ROOM: &[u8] = br#""resourceVersion":"""#;

/// The most digits a revision has.
const MOST_DIGITS: usize = 20;

/// The value with `revision` in its room, and where its digits begin; `None` if it left no room.
pub(crate) fn fill(unstamped: &[u8], revision: Revision) -> Option<(Bytes, NonZeroU32)> {
    let at = memmem::find(unstamped, ROOM)? + ROOM.len() - 1;
    // Values are far below 4 GiB; one that was not could still be kept, only without its stamp.
    let mark = u32::try_from(at).ok().and_then(NonZeroU32::new)?;
    Some((splice(&unstamped[..at], revision, &unstamped[at..]), mark))
}

/// The same value with `new` where `old` was filled in at `mark`.
pub(crate) fn refill(stamped: &Bytes, mark: NonZeroU32, old: Revision, new: Revision) -> Bytes {
    let at = mark.get() as usize;
    splice(&stamped[..at], new, &stamped[at + digits(old)..])
}

fn splice(head: &[u8], revision: Revision, tail: &[u8]) -> Bytes {
    let mut text = [0; MOST_DIGITS];
    let count = digits(revision);
    let mut rest = revision.0;
    for digit in text[..count].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut whole = BytesMut::with_capacity(head.len() + count + tail.len());
    whole.put_slice(head);
    whole.put_slice(&text[..count]);
    whole.put_slice(tail);
    whole.freeze()
}

fn digits(revision: Revision) -> usize {
    revision.0.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_room_is_filled() {
        let value = r#"{"metadata":{"resourceVersion":""},"data":{"resourceVersion":""}}"#;
        let (filled, _) = fill(value.as_bytes(), Revision(10)).unwrap();
        assert_eq!(filled, r#"{"metadata":{"resourceVersion":"10"},"data":{"resourceVersion":""}}"#);
    }

    #[test]
    fn a_value_without_room_is_left_alone() {
        assert_eq!(fill(b"{\"resourceVersion\":\"7\"}", Revision(1)), None);
    }

    #[test]
    fn every_length_of_revision_can_replace_every_other() {
        let value = br#"{"resourceVersion":"","x":1}"#;
        let revisions = [0, 1, 9, 10, 99, 100, 123_456_789, u64::MAX].map(Revision);
        for old in revisions {
            let (stamped, mark) = fill(value, old).unwrap();
            for new in revisions {
                let again = refill(&stamped, mark, old, new);
                assert_eq!(again, format!(r#"{{"resourceVersion":"{new}","x":1}}"#));
            }
        }
    }
}
