//! Holds what is read and written against the code that kube-apiserver is made of, on random objects and damaged bytes.
//!
//! The judge is the Go program in `xtask/peers/protobuf`; `CADASTRE_PROTOBUF_JUDGE` names it as built. `CADASTRE_SEED` and
//! `CADASTRE_ROUNDS` choose where a run begins and how long it is. Building the judge needs Go and `cargo test` alone must
//! not, so all this is behind the feature `protobuf-judge`.

use std::env;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use testkit::choices::{Choices, Seeded};
use testkit::judge::Judge;

use super::generate::{self, Named};
use super::{Decoded, Envelope, Error, begin, decode, encode, encode_event, finish};

#[test]
fn what_is_read_and_written_is_what_the_judge_reads_and_writes() {
    let judge = env::var_os("CADASTRE_PROTOBUF_JUDGE").expect("CADASTRE_PROTOBUF_JUDGE names the judge");
    let number = |name: &str, absent: u64| env::var(name).map_or(absent, |text| text.parse().unwrap());
    let (seed, rounds) = (number("CADASTRE_SEED", 1), number("CADASTRE_ROUNDS", 20_000));
    let mut judge = Bench(Judge::start(Path::new(&judge)).unwrap());
    let kinds = generate::kinds();
    let mut counts = Counts::default();
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let choices = &mut Seeded::new(seed);
        let named = &kinds[choices.below(kinds.len() as u64) as usize];
        let again = format!("CADASTRE_SEED={seed} CADASTRE_ROUNDS=1: a {}", named.kind);
        let bytes = judge.writes(&again, named, &generate::object(choices, named));
        judge.reads(&again, &bytes, &mut counts);
        judge.reads(&again, &merged(choices, named, &bytes), &mut counts);
        judge.reads(&again, &generate::damaged(choices, &bytes), &mut counts);
        judge.sends(&again, choices.one_of(&["ADDED", "BOOKMARK", "ERROR"]), &bytes);
    }
    eprintln!("judged alike: {rounds} written, {counts:?}");
}

/// How often something was read, and how often that was refused.
#[derive(Debug, Default)]
struct Counts {
    read: u64,
    refused: u64,
}

/// The object with another of its kind after it in the same message: their fields come twice.
fn merged(choices: &mut Seeded, named: &Named, bytes: &[u8]) -> Vec<u8> {
    let other = encode(&named.api_version, &named.kind, &generate::object(choices, named)).unwrap();
    let (mut out, length) = begin(&named.api_version, &named.kind);
    for bytes in [bytes, &other] {
        out.extend_from_slice(Envelope::open(bytes).unwrap().raw);
    }
    finish(out, length)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    hex: String,
    value: Value,
    error: String,
    panic: String,
}

impl Answer {
    fn agrees(&self, ours: &Result<Decoded, Error>) -> bool {
        match ours {
            // What the judge panics at, it has no opinion on.
            _ if !self.panic.is_empty() => true,
            // Options are read in whatever version they come; which versions there are is not known here.
            _ if self.error.starts_with("no kind ") => {
                ours.as_ref().map_or(true, |ours| ours.kind.ends_with("Options"))
            }
            Ok(ours) => self.error.is_empty() && self.value == ours.value,
            // The judge knows kinds that are not served, times that JSON has no text for, and JSON that is none to serde.
            Err(Error::Kind { .. } | Error::TimeOutOfRange { .. } | Error::Json) => true,
            // Odd bytes are quoted in another way.
            Err(Error::Missing { missing, .. }) => {
                self.error.starts_with(&format!("Object '{missing}' is missing in "))
            }
            // The field's name in Go is a guess.
            Err(Error::WireType { wire_type, .. }) => {
                self.error.starts_with(&format!("proto: wrong wireType = {wire_type} for field "))
            }
            Err(error) => self.error.contains(&error.to_string()),
        }
    }
}

/// The judge, and what it is asked.
struct Bench(Judge);

impl Bench {
    fn ask(&mut self, question: &Value) -> Answer {
        // Go copies JSON that is in bytes, whatever the bytes are.
        serde_json::from_str(&String::from_utf8_lossy(&self.0.ask(question).unwrap())).unwrap()
    }

    /// The bytes of an object, which must be the judge's.
    fn writes(&mut self, again: &str, named: &Named, object: &Value) -> Vec<u8> {
        let ours = encode(&named.api_version, &named.kind, object).unwrap();
        let theirs = self.ask(&json!({"json": object}));
        assert_eq!(hex(&ours), theirs.hex, "{again}\nobject: {object}\nthe judge: {}{}", theirs.error, theirs.panic);
        ours
    }

    fn reads(&mut self, again: &str, bytes: &[u8], counts: &mut Counts) {
        let ours = decode(bytes);
        let theirs = self.ask(&json!({"hex": hex(bytes)}));
        assert!(theirs.agrees(&ours), "{again}\nbytes: {}\nours: {ours:?}\nthe judge's: {theirs:?}", hex(bytes));
        counts.read += 1;
        counts.refused += u64::from(ours.is_err());
    }

    fn sends(&mut self, again: &str, event: &str, object: &[u8]) {
        let theirs = self.ask(&json!({"event": event, "hex": hex(object)}));
        assert_eq!(hex(&encode_event(event, object)), theirs.hex, "{again}, sent as {event}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
