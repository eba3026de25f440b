//! Protobuf's own layer: varints, tags and lengths, read and written. Knows no message.
//!
//! What is malformed is told as Go's generated code tells it, and at the same byte: what that code takes, this takes too.

use super::Error;

/// How the bytes after a tag are to be read.
pub(super) mod wire_type {
    /// A number of up to ten bytes.
    pub(in super::super) const VARINT: u8 = 0;
    /// A length, and as many bytes.
    pub(in super::super) const BYTES: u8 = 2;
    pub(super) const FIXED64: u8 = 1;
    pub(super) const GROUP: u8 = 3;
    pub(super) const END_GROUP: u8 = 4;
    pub(super) const FIXED32: u8 = 5;
}

use wire_type::{BYTES, END_GROUP, FIXED32, FIXED64, GROUP, VARINT};

/// What stands before a field: its number, and how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire_type: u8,
}

impl Tag {
    /// The number that the field holds; `name` is what Go calls the field.
    pub(super) fn number(self, reader: &mut Reader<'_>, name: &str) -> Result<i64, Error> {
        self.expect(VARINT, || name.to_owned())?;
        reader.varint().map(u64::cast_signed)
    }

    /// The bytes that the field holds.
    pub(super) fn bytes<'a>(self, reader: &mut Reader<'a>, name: &str) -> Result<&'a [u8], Error> {
        self.expect(BYTES, || name.to_owned())?;
        reader.bytes()
    }

    /// Refuses a field that is written in another way than its type is.
    pub(super) fn expect(self, wire_type: u8, name: impl FnOnce() -> String) -> Result<(), Error> {
        if self.wire_type == wire_type {
            return Ok(());
        }
        Err(Error::WireType { wire_type: self.wire_type, field: name() })
    }
}

/// A message that is being read.
pub(super) struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Where it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes back, or on, to a place that [`Reader::at`] or [`Reader::end`] gave.
    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.data.len()
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.data.get(self.at).ok_or(Error::Truncated)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Overflow)
    }

    /// The tag of the next field of a message, which is named if the tag makes no sense.
    pub(super) fn tag(&mut self, message: &'static str) -> Result<Tag, Error> {
        let whole = self.varint()?;
        let wire_type = (whole & 7) as u8;
        if wire_type == END_GROUP {
            return Err(Error::EndGroup { message });
        }
        // Go keeps 32 bits of the number, with their sign.
        let number = ((whole >> 3) as u32).cast_signed();
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Tag { number, wire_type }),
            _ => Err(Error::IllegalTag { message, number, tag: whole }),
        }
    }

    /// The number in a tag, whatever else is in it: how Go reads the entries of maps.
    pub(super) fn entry_number(&mut self) -> Result<u32, Error> {
        self.varint().map(|tag| (tag >> 3) as u32)
    }

    /// Reads a length; where that many bytes end.
    pub(super) fn end(&mut self) -> Result<usize, Error> {
        let length = self.varint()?.cast_signed();
        let at = i64::try_from(self.at).unwrap_or(i64::MAX);
        let end = at.checked_add(length).filter(|_| length >= 0).ok_or(Error::NegativeLength)?;
        usize::try_from(end).ok().filter(|end| *end <= self.data.len()).ok_or(Error::Truncated)
    }

    /// A length, and as many bytes.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let end = self.end()?;
        let bytes = self.data.get(self.at..end).ok_or(Error::Truncated)?;
        self.at = end;
        Ok(bytes)
    }

    /// Skips the field whose tag begins here. Groups may be nested without end: they are counted, not entered.
    pub(super) fn skip(&mut self) -> Result<(), Error> {
        let mut depth = 0_usize;
        while !self.is_done() {
            let wire_type = (self.varint()? & 7) as u8;
            match wire_type {
                VARINT => {
                    self.varint()?;
                }
                FIXED64 => self.at += 8,
                BYTES => {
                    let length = self.varint()?.cast_signed();
                    let length = usize::try_from(length).map_err(|_| Error::NegativeLength)?;
                    let end = self.at.checked_add(length).filter(|end| isize::try_from(*end).is_ok());
                    self.at = end.ok_or(Error::NegativeLength)?;
                }
                GROUP => depth += 1,
                END_GROUP => depth = depth.checked_sub(1).ok_or(Error::UnexpectedEndGroup)?,
                FIXED32 => self.at += 4,
                _ => return Err(Error::IllegalWireType(wire_type)),
            }
            if depth == 0 {
                return if self.at > self.data.len() { Err(Error::Truncated) } else { Ok(()) };
            }
        }
        Err(Error::Truncated)
    }
}

/// Writes a number.
pub(super) fn varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let (bytes, size) = varint_bytes(value);
    out.extend(bytes.into_iter().take(size));
}

/// Writes the tag of a field.
pub(super) fn tag(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

/// Writes bytes with their length before them.
pub(super) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a field of bytes.
pub(super) fn bytes_field(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    tag(out, number, BYTES);
    bytes(out, content);
}

/// The place of a length that is known only when what it is the length of was written.
#[must_use]
pub(super) struct Length(usize);

impl Length {
    /// Leaves room for a small one.
    pub(super) fn reserve(out: &mut Vec<u8>) -> Self {
        out.push(0);
        Self(out.len())
    }

    /// Writes it: what came after it moves if it is not small. Moving is cheaper than counting first.
    pub(super) fn fill(self, out: &mut Vec<u8>) {
        let Self(begin) = self;
        let (number, size) = varint_bytes((out.len() - begin) as u64);
        drop(out.splice(begin - 1..begin, number.into_iter().take(size)));
    }
}

/// A number as it is written, and how many of the bytes it takes.
fn varint_bytes(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut size = 0;
    for byte in &mut bytes {
        size += 1;
        if value < 0x80 {
            *byte = value as u8;
            break;
        }
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    (bytes, size)
}
