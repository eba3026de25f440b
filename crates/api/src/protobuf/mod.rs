//! The protobuf encoding of the built-in kinds: to JSON values and back, by the field numbers in the tables of `schema`.
//!
//! An object travels in an envelope: four bytes that tell the encoding, then a message with the kind's name and the bytes
//! of the object. [`decode`] gives the JSON that upstream's Go structures would be written as after reading the same
//! bytes, and [`encode`] the bytes that they would be written as after reading the same JSON.
//! `docs/internals/protobuf.md` has the rules.
//!
//! Nothing here knows what a value means, or which kinds are served.

mod decode;
mod encode;
mod leaf;
mod plan;
mod wire;

#[cfg(test)]
mod generate;
#[cfg(feature = "protobuf-judge")]
#[cfg(test)]
mod judged;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::plan::{Item, Shape};
use self::wire::{Length, bytes_field, tag, varint, wire_type};

/// What every encoded object begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// How large an object that is read may be as JSON: as large as a body in JSON. What is not said in protobuf is written in
/// JSON all the same, so that without a limit two bytes become a kilobyte.
pub const MOST_JSON: usize = 3 * 1024 * 1024;

/// What is wrong with bytes that should be an object, or with an object that should be bytes. Where upstream has a text
/// for it, that is the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are no bytes.
    #[error("empty data")]
    Empty,
    /// The bytes begin with something else.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// There is nothing after the beginning.
    #[error("empty body")]
    EmptyBody,
    /// The bytes end too early.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length that Go has no number for.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A group, which nothing has any more, ends where none began.
    #[error("proto: unexpected end of group")]
    UnexpectedEndGroup,
    /// A message begins with the end of a group.
    #[error("proto: {message}: wiretype end group for non-group")]
    EndGroup {
        /// The message.
        message: &'static str,
    },
    /// A field with a number that none can have.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// The message.
        message: &'static str,
        /// The number.
        number: i32,
        /// The number together with what says how the field is written.
        tag: u64,
    },
    /// A field is written in a way that there is not.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A field is written in a way that its type is not.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// How it is written.
        wire_type: u8,
        /// The field.
        field: String,
    },
    /// The text of a quantity that is none.
    #[error("{0}")]
    Quantity(&'static str),
    /// A number or a text that is neither.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// Bytes that should be JSON and are not.
    #[error("invalid JSON in a field of raw JSON")]
    Json,
    /// A time that JSON has no text for.
    #[error("{seconds} seconds since 1970 is outside of the years 0 to 9999")]
    TimeOutOfRange {
        /// The time.
        seconds: i64,
    },
    /// The envelope does not say what is in it.
    #[error("Object '{missing}' is missing in 'runtime.TypeMeta{{APIVersion:{api_version:?}, Kind:{kind:?}}}'")]
    Missing {
        /// `Kind` or `apiVersion`.
        missing: &'static str,
        /// The group and version that it says, which may be no version at all.
        api_version: String,
        /// The kind that it says.
        kind: String,
    },
    /// The object would be larger than [`MOST_JSON`].
    #[error("the object is larger than {MOST_JSON} bytes as JSON")]
    TooLarge,
    /// A kind that has no protobuf encoding here.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind {
        /// Its group and version.
        api_version: String,
        /// Its name.
        kind: String,
    },
    /// A value that its field cannot hold; `schema::check` would have said so.
    #[error("the value of {field} is not of the field's type")]
    Unfit {
        /// The field.
        field: String,
    },
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// All of it, `apiVersion` and `kind` included.
    pub value: Value,
}

/// What an object travels in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Its group and version; empty if the sender left it to the receiver.
    pub api_version: String,
    /// Its kind; empty if the sender left it to the receiver.
    pub kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens the envelope, and does not look at the object.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let body = bytes.strip_prefix(&MAGIC).ok_or(Error::Prefix)?;
        if body.is_empty() {
            return Err(Error::EmptyBody);
        }
        let mut envelope = Self { api_version: String::new(), kind: String::new(), raw: &[] };
        decode::each_field(body, "Unknown", |reader, field| {
            match field.number {
                1 => envelope.read_type(field.bytes(reader, "TypeMeta")?)?,
                2 => envelope.raw = field.bytes(reader, "Raw")?,
                3 | 4 => {
                    field.bytes(reader, if field.number == 3 { "ContentEncoding" } else { "ContentType" })?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(envelope)
    }

    fn read_type(&mut self, data: &[u8]) -> Result<(), Error> {
        decode::each_field(data, "TypeMeta", |reader, field| {
            match field.number {
                1 => self.api_version = decode::text(field.bytes(reader, "APIVersion")?),
                2 => self.kind = decode::text(field.bytes(reader, "Kind")?),
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    /// The same, of that kind where it does not say: then it is in the receiver's version.
    #[must_use]
    pub fn or(mut self, api_version: &str, kind: &str) -> Self {
        if self.kind.is_empty() {
            kind.clone_into(&mut self.kind);
        }
        // What is no version says nothing.
        match self.api_version.split_once('/').unwrap_or(("", &self.api_version)) {
            (_, version) if version.is_empty() || version.contains('/') => {
                api_version.clone_into(&mut self.api_version);
            }
            ("", version) => self.api_version = version.to_owned(),
            _ => {}
        }
        self
    }

    /// Reads the object as what the envelope says it is.
    pub fn decode(self) -> Result<Decoded, Error> {
        let Self { api_version, kind, raw } = self;
        let version = api_version.split_once('/').map_or(&*api_version, |(_, version)| version);
        if kind.is_empty() {
            return Err(Error::Missing { missing: "Kind", api_version, kind });
        }
        if version.is_empty() || version.contains('/') {
            return Err(Error::Missing { missing: "apiVersion", api_version, kind });
        }
        let root = root(&api_version, &kind)?;
        let mut fields = Map::new();
        decode::object(plan::message(root), raw, &mut fields, &mut decode::Room(MOST_JSON))?;
        fields.insert("apiVersion".to_owned(), Value::from(api_version.as_str()));
        fields.insert("kind".to_owned(), Value::from(kind.as_str()));
        Ok(Decoded { api_version, kind, value: Value::Object(fields) })
    }
}

/// Reads an object in its envelope.
pub fn decode(bytes: &[u8]) -> Result<Decoded, Error> {
    Envelope::open(bytes)?.decode()
}

/// Whether objects of that kind can be read and written here.
pub fn knows(api_version: &str, kind: &str) -> bool {
    plan::root(api_version, kind).is_some()
}

/// Writes an object in its envelope. What the object says of its kind does not count.
pub fn encode(api_version: &str, kind: &str, value: &Value) -> Result<Vec<u8>, Error> {
    let root = root(api_version, kind)?;
    let fields = value.as_object().ok_or_else(|| Error::Unfit { field: kind.to_owned() })?;
    let (mut out, length) = begin(api_version, kind);
    encode::object(&mut out, plan::message(root), Some(fields))?;
    Ok(finish(out, length))
}

/// A list that is written item by item, so that its items need not be there all at once.
///
/// What comes before the items says how long all of it is, so they have to be measured first.
pub struct List {
    /// The envelope up to the length of the list.
    front: Vec<u8>,
    /// The metadata, on the side of the items where Go has it.
    before: Vec<u8>,
    after: Vec<u8>,
    number: u32,
    item: usize,
}

impl List {
    /// A list of that kind (`ServiceList`) with its metadata.
    pub fn new(api_version: &str, kind: &str, metadata: &Value) -> Result<Self, Error> {
        let not_a_list = || Error::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let fields = &*plan::message(root(api_version, kind)?).fields;
        let (place, number, item) = fields
            .iter()
            .zip(0..)
            .find_map(|(field, place)| match field.shape {
                Shape::List(Item::Message(item)) if field.name == "items" => Some((place, field.number, item)),
                _ => None,
            })
            .ok_or_else(not_a_list)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (field, at) in fields.iter().zip(0..).filter(|(_, at)| *at != place) {
            let metadata = Some(metadata).filter(|_| field.name == "metadata");
            encode::field(if at < place { &mut before } else { &mut after }, field, metadata)?;
        }
        Ok(Self { front: front(api_version, kind), before, after, number, item })
    }

    /// Appends an item. After an error what was appended is good for nothing.
    pub fn put(&self, item: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
        let fields = item.as_object().ok_or_else(|| Error::Unfit { field: "items".to_owned() })?;
        tag(out, self.number, wire_type::BYTES);
        let length = Length::reserve(out);
        encode::object(out, plan::message(self.item), Some(fields))?;
        length.fill(out);
        Ok(())
    }

    /// What comes before the items, which take that many bytes.
    pub fn head(&self, items: usize) -> Vec<u8> {
        let mut out = self.front.clone();
        varint(&mut out, (self.before.len() + items + self.after.len()) as u64);
        out.extend_from_slice(&self.before);
        out
    }

    /// What comes after the items.
    pub fn tail(&self) -> Vec<u8> {
        let mut out = self.after.clone();
        put_rest(&mut out);
        out
    }
}

/// Writes a frame of a watch: its length in four bytes, then the event. The object comes as [`encode`] gives it.
pub fn encode_event(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + event_type.len() + 24);
    out.extend_from_slice(&[0; 4]);
    bytes_field(&mut out, 1, event_type.as_bytes());
    tag(&mut out, 2, wire_type::BYTES);
    let length = Length::reserve(&mut out);
    bytes_field(&mut out, 1, object);
    length.fill(&mut out);
    let size = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out
}

fn root(api_version: &str, kind: &str) -> Result<usize, Error> {
    let unknown = || Error::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    plan::root(api_version, kind).ok_or_else(unknown)
}

/// Begins an envelope; the object comes next.
fn begin(api_version: &str, kind: &str) -> (Vec<u8>, Length) {
    let mut out = front(api_version, kind);
    let length = Length::reserve(&mut out);
    (out, length)
}

/// An envelope up to the length of the object.
fn front(api_version: &str, kind: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(&MAGIC);
    tag(&mut out, 1, wire_type::BYTES);
    let length = Length::reserve(&mut out);
    bytes_field(&mut out, 1, api_version.as_bytes());
    bytes_field(&mut out, 2, kind.as_bytes());
    length.fill(&mut out);
    tag(&mut out, 2, wire_type::BYTES);
    out
}

/// Closes an envelope.
fn finish(mut out: Vec<u8>, length: Length) -> Vec<u8> {
    length.fill(&mut out);
    put_rest(&mut out);
    out
}

/// Appends what follows the object: the encoding and the type of the content, which are the usual ones and not named.
fn put_rest(out: &mut Vec<u8>) {
    bytes_field(out, 3, b"");
    bytes_field(out, 4, b"");
}
