//! Any bytes are refused or read, and what was read can be written and is read the same again.

use api::protobuf::{Envelope, decode, encode};

/// What the fuzz target of that name does with an input.
pub(crate) fn run(data: &[u8]) {
    let Ok(envelope) = Envelope::open(data) else { return };
    let Ok(read) = envelope.or("v1", "Pod").decode() else { return };
    let written = match encode(&read.api_version, &read.kind, &read.value) {
        Ok(written) => written,
        Err(error) => panic!("what was read cannot be written: {error}"),
    };
    let again = match decode(&written) {
        Ok(again) => again,
        Err(error) => panic!("what was written cannot be read: {error}"),
    };
    // A pointer to no time is null, and null is no pointer.
    assert_eq!(encode(&again.api_version, &again.kind, &again.value).as_ref(), Ok(&written));
}
