//! What the transcoder promises, without the judge.

use serde_json::{Map, Value, json};
use testkit::choices::{Choices, Seeded};

use super::generate::{self, Named};
use super::plan::{self, Message, Shape};
use super::{Envelope, Error, List, MOST_JSON, begin, decode, encode, encode_event, finish, knows};
use crate::kinds::KINDS;
use crate::schema;

/// Protobuf of an object with this in it, in its envelope.
fn wrapped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let (mut out, length) = begin(api_version, kind);
    out.extend_from_slice(raw);
    finish(out, length)
}

fn read(api_version: &str, kind: &str, raw: &[u8]) -> Result<Value, Error> {
    decode(&wrapped(api_version, kind, raw)).map(|decoded| decoded.value)
}

fn raw_of(api_version: &str, kind: &str, value: &Value) -> Vec<u8> {
    Envelope::open(&encode(api_version, kind, value).unwrap()).unwrap().raw.to_vec()
}

#[test]
fn every_built_in_kind_and_its_list_is_known_and_no_other() {
    for kind in KINDS {
        let (api_version, list) = (kind.api_version(), format!("{}List", kind.kind));
        assert_eq!(knows(&api_version, kind.kind), kind.is_built_in(), "{}", kind.kind);
        assert_eq!(knows(&api_version, &list), kind.is_built_in(), "{list}");
    }
    for (api_version, kind) in
        [("v1", "Status"), ("policy/v1", "DeleteOptions"), ("networking.k8s.io/v1", "PatchOptions")]
    {
        assert!(knows(api_version, kind), "{kind}");
    }
    for (api_version, kind) in [
        ("v1", "ServicePort"),
        ("v1", ""),
        ("", ""),
        ("x/v1", "Service"),
        ("core.k8s.io/v1", "Service"),
        ("meta.k8s.io/v2", "Status"),
        ("v1", "ObjectReference"),
    ] {
        assert!(!knows(api_version, kind), "{kind}");
        let error = encode(api_version, kind, &json!({})).unwrap_err();
        assert_eq!(error.to_string(), format!("no kind {kind:?} is registered for version {api_version:?}"));
    }
}

#[test]
fn every_field_that_has_a_number_has_a_place() {
    fn count(message: &Message) -> usize {
        let one = |shape: &Shape| match shape {
            Shape::Inlined(index) => count(plan::message(*index)),
            _ => 1,
        };
        message.fields.iter().map(|field| one(&field.shape)).sum()
    }
    for (index, definition) in schema::definitions().iter().enumerate().filter(|(_, it)| !it.custom) {
        let numbered = definition.fields.values().filter(|field| field.number > 0).count();
        assert_eq!(count(plan::message(index)), numbered, "{}", definition.name);
    }
}

#[test]
fn the_bytes_of_a_small_object_are_those_that_go_writes() {
    let object = json!({"metadata": {"name": "a"}, "data": {"y": "", "x": "1"}, "immutable": false});
    let written = encode("v1", "ConfigMap", &object).unwrap();
    let metadata = b"\x0a\x01a\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00";
    let mut expected = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x24\x0a\x11".to_vec();
    expected.extend_from_slice(metadata);
    expected.extend_from_slice(b"\x12\x06\x0a\x01x\x12\x011\x12\x05\x0a\x01y\x12\x00\x20\x00\x1a\x00\x22\x00");
    assert_eq!(written, expected, "{written:02x?}");
}

#[test]
fn what_is_written_reads_back_in_the_form_that_is_stored() {
    let begin = 20_261_116;
    for seed in begin..begin + 2_000 {
        let choices = &mut Seeded::new(seed);
        let mut kinds = generate::kinds();
        // It is never stored, and tells a list with nothing in it from none.
        kinds.retain(|named| named.kind != "APIResourceList");
        let Named { api_version, kind, definition } = &kinds[choices.below(kinds.len() as u64) as usize];
        let mut object =
            generate::object(choices, &Named { api_version: api_version.clone(), kind: kind.clone(), definition });
        let decoded = decode(&encode(api_version, kind, &object).unwrap()).unwrap();
        schema::canonical(definition, &mut object);
        assert_eq!((&decoded.api_version, &decoded.kind), (api_version, kind));
        assert_eq!(decoded.value, object, "seed {seed}");
    }
}

#[test]
fn whatever_a_client_may_store_can_be_written() {
    let kinds = generate::kinds();
    let begin = 20_261_117;
    for seed in begin..begin + 2_000 {
        let choices = &mut Seeded::new(seed);
        let named = &kinds[choices.below(kinds.len() as u64) as usize];
        let mut object = generate::object(choices, named);
        assert_eq!(schema::check(named.definition, &object).into_iter().next(), None, "seed {seed}");
        schema::canonical(named.definition, &mut object);
        let written = encode(&named.api_version, &named.kind, &object);
        assert!(written.is_ok(), "seed {seed}: {written:?}");
    }
}

#[test]
fn odd_spellings_that_are_taken_are_written() {
    let odd = json!({
        "metadata": {"creationTimestamp": "9999-12-31T23:59:59Z", "deletionTimestamp": "0000-01-01T00:00:00Z"},
        "data": {"a": "QR==", "b": "QUJD\n", "c": "Q\r\nUK="},
    });
    let definition = schema::definition("io.k8s.api.core.v1.Secret").unwrap();
    assert_eq!(schema::check(definition, &odd).into_iter().next(), None);
    let read = read("v1", "Secret", &raw_of("v1", "Secret", &odd)).unwrap();
    assert_eq!(read["metadata"], odd["metadata"]);
    assert_eq!(read["data"], json!({"a": "QQ==", "b": "QUJD", "c": "QUI="}));
}

#[test]
fn a_list_written_item_by_item_is_the_list_written_whole() {
    let is_list = |named: &&Named| named.definition.fields.contains_key("items");
    for (named, seed) in generate::kinds().iter().filter(is_list).zip(1..) {
        let list = generate::object(&mut Seeded::new(seed), named);
        let whole = encode(&named.api_version, &named.kind, &list).unwrap();
        let writer = List::new(&named.api_version, &named.kind, &list["metadata"]).unwrap();
        let mut items = Vec::new();
        for item in list["items"].as_array().into_iter().flatten() {
            let empty = json!({});
            writer.put(if item.is_null() { &empty } else { item }, &mut items).unwrap();
        }
        assert_eq!([writer.head(items.len()), items, writer.tail()].concat(), whole, "{}", named.kind);
    }
    assert!(matches!(List::new("v1", "Pod", &json!({})), Err(Error::Kind { .. })));
    assert!(matches!(List::new("v1", "ConfigMap", &json!({})), Err(Error::Kind { .. })));
    assert!(List::new("v1", "PodList", &json!({})).unwrap().put(&json!(1), &mut Vec::new()).is_err());
}

#[test]
fn an_event_is_framed_by_its_length() {
    assert_eq!(encode_event("ADDED", b"xyz"), b"\x00\x00\x00\x0e\x0a\x05ADDED\x12\x05\x0a\x03xyz");
    let long = encode_event("MODIFIED", &[7; 300]);
    assert_eq!(long[..4], u32::try_from(long.len() - 4).unwrap().to_be_bytes());
    assert_eq!(long[14..20], *b"\x12\xaf\x02\x0a\xac\x02");
}

#[test]
fn fields_that_come_twice_are_put_together_as_go_does() {
    let one = raw_of(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "a", "labels": {"x": "1", "y": "1"}, "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}], "activeDeadlineSeconds": 5},
        }),
    );
    let other = raw_of(
        "v1",
        "Pod",
        &json!({
            "metadata": {"name": "b", "labels": {"y": "2"}}, "spec": {"containers": [{"name": "d"}]},
        }),
    );
    let both = read("v1", "Pod", &[one, other].concat()).unwrap();
    assert_eq!(both["metadata"], json!({"name": "b", "labels": {"x": "1", "y": "2"}}));
    assert_eq!(
        both["spec"],
        json!({
            "containers": [{"name": "c", "resources": {}}, {"name": "d", "resources": {}}], "activeDeadlineSeconds": 5,
        })
    );
}

#[test]
fn fields_nobody_knows_are_skipped() {
    // A number, eight bytes, text, a group with a group in it, four bytes; then the type of a Secret.
    let unknown = b"\xf8\x07\x05\xf9\x0712345678\xfa\x07\x02ab\xfb\x07\x0b\x08\x01\x0c\xfc\x07\xfd\x071234";
    let raw = [&unknown[..], b"\x1a\x01t"].concat();
    assert_eq!(read("v1", "Secret", &raw).unwrap()["type"], "t");
    assert_eq!(
        read("v1", "Secret", b"\xfc\x07").unwrap_err().to_string(),
        "proto: Secret: wiretype end group for non-group"
    );
    assert_eq!(read("v1", "Secret", b"\xfb\x07\x0b").unwrap_err(), Error::Truncated, "a group that does not end");
}

#[test]
fn numbers_of_a_list_may_be_packed() {
    // The supplemental groups in the security context of a pod.
    let pod = |groups: &[u8]| {
        let context = [&[0x72, groups.len() as u8][..], groups].concat();
        let spec = [&[0x12, context.len() as u8][..], &context].concat();
        read("v1", "Pod", &spec).map(|pod| pod["spec"]["securityContext"]["supplementalGroups"].clone())
    };
    assert_eq!(pod(b"\x22\x03\x01\x96\x01").unwrap(), json!([1, 150]));
    assert_eq!(pod(b"\x20\x01\x20\x02").unwrap(), json!([1, 2]));
    assert_eq!(pod(b"\x22\x01\x01\x20\x02").unwrap(), json!([1, 2]));
}

#[test]
fn malformed_bytes_are_refused_in_go_s_words() {
    let secret = |raw: &[u8]| read("v1", "Secret", raw).unwrap_err().to_string();
    assert_eq!(secret(b"\x1a\x05ab"), "unexpected EOF");
    assert_eq!(secret(b"\x1a"), "unexpected EOF");
    assert_eq!(
        secret(b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        "proto: negative length found during unmarshaling"
    );
    assert_eq!(secret(b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "proto: integer overflow");
    assert_eq!(secret(b"\x18\x01"), "proto: wrong wireType = 0 for field Type");
    assert_eq!(secret(b"\x08\x01"), "proto: wrong wireType = 0 for field ObjectMeta");
    assert_eq!(secret(b"\x00\x01"), "proto: Secret: illegal tag 0 (wire type 0)");
    assert_eq!(secret(b"\xff\x07"), "proto: illegal wireType 7");
    let whole = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(whole(b""), "empty data");
    assert_eq!(whole(b"k8s\0"), "empty body");
    assert_eq!(whole(b"{}"), "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    let nothing = r#"in 'runtime.TypeMeta{APIVersion:"", Kind:""}'"#;
    assert_eq!(whole(b"k8s\0\x12\x00"), format!("Object 'Kind' is missing {nothing}"));
    let versions = ["", "apps/", "a/b/v1"].map(|version| whole(&wrapped(version, "DeleteOptions", b"")));
    assert!(versions.iter().all(|error| error.starts_with("Object 'apiVersion' is missing in ")), "{versions:?}");
    assert_eq!(whole(b"k8s\0\x08"), "proto: wrong wireType = 0 for field TypeMeta");
}

#[test]
fn an_envelope_that_does_not_say_what_is_in_it_has_what_the_receiver_expects() {
    let kind = |api_version: &str, kind: &str| {
        let bytes = wrapped(api_version, kind, b"");
        let envelope = Envelope::open(&bytes).unwrap().or("a/v1", "A");
        (envelope.api_version, envelope.kind)
    };
    let pair = |api_version: &str, kind: &str| (api_version.to_owned(), kind.to_owned());
    for nothing in ["", "b/", "a/b/c"] {
        assert_eq!(kind(nothing, ""), pair("a/v1", "A"), "{nothing:?}");
    }
    assert_eq!(kind("b/v2", ""), pair("b/v2", "A"));
    assert_eq!(kind("", "B"), pair("a/v1", "B"));
    assert_eq!(kind("/v1", "B"), pair("v1", "B"));
}

#[test]
fn no_object_gets_larger_than_the_limit() {
    // Containers of which nothing is said, as many as a body can hold.
    let pod = |containers: usize| {
        let spec = b"\x12\x00".repeat(containers);
        let mut raw = Vec::new();
        super::bytes_field(&mut raw, 2, &spec);
        read("v1", "Pod", &raw)
    };
    let fits = pod(1_000).unwrap();
    assert_eq!(fits["spec"]["containers"].as_array().unwrap().len(), 1_000);
    assert_eq!(pod(MOST_JSON / 2), Err(Error::TooLarge));
    let one = fits.to_string().len() / 1_000;
    assert!(pod(MOST_JSON / one + 1).is_err(), "what is not said counts too: {one}");
    let text = |length: usize| read("v1", "Secret", &[b"\x1a\x80\x80\x80\x01", &*vec![b'a'; length]].concat());
    assert!(text(1 << 21).is_ok());
    assert_eq!(text((1 << 21) - 1), Err(Error::Truncated));
}

#[test]
fn what_json_escapes_counts_as_it_is_written() {
    let long = |byte: u8, length: usize| {
        let bytes = vec![byte; length];
        let mut kind = Vec::new();
        super::bytes_field(&mut kind, 3, &bytes);
        let mut entry = Vec::new();
        super::bytes_field(&mut entry, 1, &bytes);
        let mut label = Vec::new();
        super::bytes_field(&mut label, 11, &entry);
        let mut metadata = Vec::new();
        super::bytes_field(&mut metadata, 1, &label);
        [kind, metadata].map(|raw| read("v1", "Secret", &raw))
    };
    for (byte, one) in [(b'a', 1), (b'"', 2), (b'\n', 2), (0x01, 6), (0x1f, 6), (0xff, 3)] {
        let length = serde_json::to_string(&super::decode::text(&[byte])).unwrap().len() - 2;
        assert_eq!(length, one, "{byte:#x}");
        for read in long(byte, MOST_JSON / one - 1_000) {
            assert!(read.is_ok_and(|read| read.to_string().len() < MOST_JSON), "{byte:#x}");
        }
        for read in long(byte, MOST_JSON / one + 1) {
            assert_eq!(read, Err(Error::TooLarge), "{byte:#x}");
        }
    }
    let mut data = b"\x0a\x01a".to_vec();
    super::bytes_field(&mut data, 2, &vec![0; MOST_JSON / 4 * 3]);
    let mut raw = Vec::new();
    super::bytes_field(&mut raw, 2, &data);
    assert_eq!(read("v1", "Secret", &raw), Err(Error::TooLarge), "base64 is longer than what it stands for");
}

#[test]
fn a_field_that_comes_very_often_is_not_copied_each_time() {
    // A long text in a probe's port, and then many times the port with nothing in it; the same with a manager's fields.
    let mut port = Vec::new();
    super::bytes_field(&mut port, 3, &vec![b'a'; 1 << 20]);
    let mut metadata = Vec::new();
    super::bytes_field(&mut metadata, 7, &[&b"\x0a\x80\x80\x40\x22"[..], &vec![b'a'; (1 << 20) - 2], b"\x22"].concat());
    metadata.extend(b"\x3a\x00".repeat(100_000));
    let mut get = b"\x12".to_vec();
    super::wire::bytes(&mut get, &[b"\x08\x01", &*port].concat());
    get.extend(b"\x12\x00".repeat(100_000));
    let begun = std::time::Instant::now();
    let raw = |number: u32, inner: &[u8]| {
        let mut out = Vec::new();
        super::bytes_field(&mut out, number, inner);
        out
    };
    let probe = raw(1, &raw(2, &get));
    let pod = read("v1", "Pod", &raw(2, &raw(2, &raw(10, &probe)))).unwrap();
    let fields = read("v1", "Secret", &raw(1, &raw(17, &metadata))).unwrap();
    let port = &pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"];
    assert_eq!(port.as_str().map(str::len), Some(1 << 20));
    assert_eq!(fields["metadata"]["managedFields"][0]["fieldsV1"].as_str().map(str::len), Some((1 << 20) - 2));
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
}

#[test]
fn an_object_cut_anywhere_is_refused_or_another_object() {
    for (named, seed) in generate::kinds().iter().zip(1..) {
        let bytes = encode(&named.api_version, &named.kind, &generate::object(&mut Seeded::new(seed), named)).unwrap();
        let read = (0..bytes.len()).filter(|end| decode(&bytes[..*end]).is_ok()).count();
        assert!(read < 8, "{} can be read from {read} of its {} beginnings", named.kind, bytes.len());
    }
}

#[test]
fn damaged_bytes_are_refused_or_read_and_what_was_read_can_be_written() {
    let (kinds, mut read) = (generate::kinds(), 0);
    for seed in 1..4_000 {
        let choices = &mut Seeded::new(seed);
        let named = &kinds[choices.below(kinds.len() as u64) as usize];
        let bytes = encode(&named.api_version, &named.kind, &generate::object(choices, named)).unwrap();
        let Ok(decoded) = decode(&generate::damaged(choices, &bytes)) else { continue };
        let written = encode(&decoded.api_version, &decoded.kind, &decoded.value).unwrap();
        let again = decode(&written).unwrap();
        // A pointer to no time is null, and null is no pointer: only what was written once is written the same again.
        assert_eq!(encode(&again.api_version, &again.kind, &again.value).unwrap(), written, "seed {seed}");
        read += 1;
    }
    assert!(read > 300, "{read}");
}

#[test]
fn times_that_json_cannot_tell_are_refused_and_no_time_is_null() {
    let time = |raw: &[u8]| {
        let metadata = [&[0x42, raw.len() as u8][..], raw, &[0x4a, raw.len() as u8], raw].concat();
        let read = read("v1", "Secret", &[&[0x0a, metadata.len() as u8][..], &metadata].concat())?;
        Ok::<_, Error>([read["metadata"]["creationTimestamp"].clone(), read["metadata"]["deletionTimestamp"].clone()])
    };
    assert_eq!(time(b"").unwrap(), [Value::Null, Value::Null]);
    assert_eq!(time(b"\x08\x00").unwrap(), [json!("1970-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")]);
    assert_eq!(time(b"\x08\x80\x92\xb8\xc3\x98\xfe\xff\xff\xff\x01").unwrap(), [Value::Null, Value::Null]);
    let far = time(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap_err();
    assert_eq!(far, Error::TimeOutOfRange { seconds: i64::MAX });
    let zero = json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z", "deletionTimestamp": null}});
    assert_eq!(raw_of("v1", "Secret", &zero), raw_of("v1", "Secret", &json!({})));
}

#[test]
fn text_that_is_none_has_a_mark_for_each_byte() {
    let read = read("v1", "Secret", b"\x1a\x06a\xe2\x82b\xff\xc3").unwrap();
    assert_eq!(read["type"], "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}");
}

#[test]
fn a_value_that_its_field_cannot_hold_is_refused() {
    let refused = [
        ("metadata", json!([])),
        ("metadata", json!({"labels": {"a": 1}})),
        ("metadata", json!({"generation": "1"})),
        ("metadata", json!({"generation": 1.5})),
        ("metadata", json!({"creationTimestamp": "yesterday"})),
        ("metadata", json!({"finalizers": "a"})),
        ("spec", json!({"containers": [{"ports": [{"containerPort": 1_u64 << 40}]}]})),
        ("spec", json!({"containers": [{"livenessProbe": {"httpGet": {"port": {}}}}]})),
        ("spec", json!({"overhead": {"cpu": "much"}})),
        ("spec", json!({"hostNetwork": "yes"})),
    ];
    for (field, value) in refused {
        let object = Value::Object(Map::from_iter([(field.to_owned(), value)]));
        assert!(matches!(encode("v1", "Pod", &object), Err(Error::Unfit { .. })), "{object}");
    }
    assert!(matches!(encode("v1", "Pod", &json!("x")), Err(Error::Unfit { .. })));
    assert!(matches!(encode("v1", "Secret", &json!({"data": {"a": "!"}})), Err(Error::Unfit { .. })));
}
