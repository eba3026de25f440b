//! Random objects of every kind that has a protobuf encoding, made from the schema: zeros, nulls and empty things often,
//! because that is where encodings differ.

use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

use crate::kinds::KINDS;
use crate::schema::{self, Definition, Type};

const TEXTS: [&str; 6] = ["", "a", "b c", "ä\u{1f600}", "line\nbreak\"<", "0123456789abcdef0123456789abcdef"];
const NUMBERS: [i32; 8] = [0, 1, -1, 80, 127, 128, i32::MAX, i32::MIN];
const TIMES: [&str; 4] =
    ["2024-01-02T03:04:05Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2024-01-01T01:04:05.999+02:00"];
const MICRO_TIMES: [&str; 4] = [
    "2024-01-02T03:04:05.000000Z",
    "1970-01-01T00:00:00.000001Z",
    "1969-12-31T23:59:59.999999Z",
    "2024-01-01T01:04:05.123456+02:00",
];
const QUANTITIES: [&str; 12] =
    ["0", "1", "1500m", "1.5", "1024Mi", "12e1", "-5", "1000Ki", ".5", "0.1Ki", "99999999999999999999", "0.1n"];
const DEEPEST: usize = 8;

/// The kinds that are no resources, but travel all the same.
const OTHERS: [(&str, &str, &str); 18] = [
    ("authentication.k8s.io/v1", "SelfSubjectReview", "io.k8s.api.authentication.v1.SelfSubjectReview"),
    ("authentication.k8s.io/v1", "TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "io.k8s.api.authorization.v1.SelfSubjectAccessReview"),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "io.k8s.api.authorization.v1.SelfSubjectRulesReview"),
    ("v1", "Status", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
    ("discovery.k8s.io/v1", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
    ("v1", "CreateOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions"),
    ("v1", "ListOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions"),
    ("events.k8s.io/v1", "PatchOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions"),
    ("meta.k8s.io/v1", "PartialObjectMetadata", "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata"),
    ("meta.k8s.io/v1", "PartialObjectMetadataList", "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList"),
    ("meta.k8s.io/v1beta1", "PartialObjectMetadata", "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata"),
    (
        "meta.k8s.io/v1beta1",
        "PartialObjectMetadataList",
        "io.k8s.apimachinery.pkg.apis.meta.v1beta1.PartialObjectMetadataList",
    ),
    ("v1", "APIVersions", "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions"),
    ("v1", "APIGroup", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup"),
    ("v1", "APIGroupList", "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList"),
    ("v1", "APIResourceList", "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList"),
    ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList"),
];

/// A kind as it is named on the way, and its structure.
pub(super) struct Named {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) definition: &'static Definition,
}

/// All kinds: the built-in ones that are served, their lists, and the others.
pub(super) fn kinds() -> Vec<Named> {
    let served = KINDS.iter().filter(|kind| kind.is_built_in()).flat_map(|kind| {
        ["", "List"].map(|end| (kind.api_version(), format!("{}{end}", kind.kind), format!("{}{end}", kind.schema)))
    });
    let others = OTHERS.map(|(api_version, kind, schema)| (api_version.to_owned(), kind.to_owned(), schema.to_owned()));
    let named = |(api_version, kind, schema): (String, String, String)| {
        let definition = schema::definition(&schema).unwrap_or_else(|| panic!("{schema}"));
        Named { api_version, kind, definition }
    };
    served.chain(others).map(named).collect()
}

/// An object of that kind.
pub(super) fn object(choices: &mut Seeded, named: &Named) -> Value {
    let mut object = structure(choices, named.definition, 0);
    object["apiVersion"] = Value::from(named.api_version.as_str());
    object["kind"] = Value::from(named.kind.as_str());
    object
}

fn structure(choices: &mut Seeded, definition: &Definition, depth: usize) -> Value {
    let mut fields = Map::new();
    for field in definition.fields.values() {
        let percent = match (&field.ty, depth) {
            (_, 0) => 80,
            (Type::Struct(_) | Type::List(_) | Type::Map(_), DEEPEST..) => 0,
            _ => 30,
        };
        // What has no number would be lost on the way.
        if field.number > 0 && choices.below(100) < percent {
            fields.insert(field.name.clone(), value(choices, &field.ty, depth + 1));
        }
    }
    Value::Object(fields)
}

fn value(choices: &mut Seeded, ty: &Type, depth: usize) -> Value {
    if choices.below(20) == 0 {
        return Value::Null;
    }
    match ty {
        Type::Boolean => Value::from(choices.below(2) == 0),
        Type::Int64 if choices.below(4) == 0 => Value::from(choices.bits().cast_signed()),
        Type::Bytes if choices.below(2) == 0 => Value::from(base64(choices)),
        Type::Bytes => Value::from(choices.one_of(&["", "eA==", "AAEC/w=="])),
        Type::Time | Type::MicroTime if choices.below(2) == 0 => Value::from(time(choices, *ty == Type::MicroTime)),
        Type::Time => Value::from(choices.one_of(&TIMES)),
        Type::MicroTime => Value::from(choices.one_of(&MICRO_TIMES)),
        Type::Quantity => Value::from(choices.one_of(&QUANTITIES)),
        Type::IntOrString if choices.below(2) == 0 => Value::from(choices.one_of(&NUMBERS)),
        Type::Int32 | Type::Int64 => Value::from(choices.one_of(&NUMBERS)),
        Type::String | Type::IntOrString => Value::from(choices.one_of(&TEXTS)),
        Type::Json => json!({"f:a": {".": {}, "k:{\"x\":1}": {}}, "b<": [choices.below(3), 1.5, TEXTS[3]]}),
        Type::Struct(_) => structure(choices, schema::resolve(ty).unwrap(), depth),
        Type::List(item) => (0..choices.below(4)).map(|_| value(choices, item, depth)).collect(),
        Type::Map(item) => {
            let mut entries = Map::new();
            for _ in 0..choices.below(4) {
                let value = match &**item {
                    // In a map, protobuf cannot tell an empty list from none.
                    Type::List(item) => Value::Array(vec![value(choices, item, depth)]),
                    item => value(choices, item, depth),
                };
                entries.insert(choices.one_of(&TEXTS).to_owned(), value);
            }
            Value::Object(entries)
        }
        Type::Double | Type::Duration => panic!("no kind has {ty:?}"),
    }
}

/// Any time that a client may write, the ends of the calendar often.
fn time(choices: &mut Seeded, micros: bool) -> String {
    let year = match choices.below(4) {
        0 => choices.one_of(&[0, 1, 9999]),
        _ => choices.below(10_000),
    };
    let (month, day) = choices.one_of(&[(1, 1), (1, 2), (2, 28), (6, 30), (12, 30), (12, 31)]);
    let hour = choices.one_of(&["00", "0", "3", "12", "22", "23"]);
    let fraction = match choices.below(3) {
        _ if micros => choices.one_of(&[".000000", ".000001", ",999999"]),
        0 => choices.one_of(&[".5", ",000000001", ".9999999999"]),
        _ => "",
    };
    // A zone must not lead out of the calendar.
    let zones: &[&str] = match (year, month, day) {
        (0, 1, 1) => &["Z", "-00:30", "-24:00"],
        (9999, 12, 31) => &["Z", "+00:30", "+24:00"],
        _ => &["Z", "+00:00", "-00:30", "+24:60", "-23:59"],
    };
    format!("{year:04}-{month:02}-{day:02}T{hour}:{:02}:59{fraction}{}", choices.below(60), choices.one_of(zones))
}

/// Any base64 that a client may write: with line breaks, and with bits that do not count.
fn base64(choices: &mut Seeded) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let length = choices.below(9) as usize;
    // One character alone is not even a byte.
    let length = if length % 4 == 1 { length + 1 } else { length };
    let mut text: Vec<u8> = (0..length).map(|_| choices.one_of(ALPHABET)).collect();
    text.resize(length.next_multiple_of(4), b'=');
    for _ in 0..choices.below(3) {
        text.insert(choices.below(text.len() as u64 + 1) as usize, choices.one_of(b"\r\n"));
    }
    text.into_iter().map(char::from).collect()
}

/// The bytes with a few of them changed, lost or doubled, or without their end.
pub(super) fn damaged(choices: &mut Seeded, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=choices.below(3) {
        let at = choices.below(bytes.len() as u64) as usize;
        let odd = choices.one_of(&[0, 1, 0x0a, 0x12, 0x13, 0x14, 0x7f, 0x80, 0xff, bytes[at].wrapping_add(8)]);
        match choices.below(10) {
            0 if at > 0 => bytes.truncate(at),
            1 if bytes.len() > 1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, odd),
            _ => bytes[at] = odd,
        }
    }
    bytes
}
