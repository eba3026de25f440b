//! Any text gets an answer from both readers, the two agree, and what was read means the same when it is read again.
#![no_main]

use std::fmt::{Debug, Display};

use libfuzzer_sys::fuzz_target;
use space::{Cidr, Reading, StrictError, Unreadable, strict_address, tolerant_address};

fuzz_target!(|text: &str| {
    read(text, Cidr::tolerant, Cidr::strict);
    read(text, tolerant_address, strict_address);
});

fn read<T: Clone + PartialEq + Debug + Display>(
    text: &str,
    tolerant: fn(&str) -> Result<Reading<T>, Unreadable>,
    strict: fn(&str) -> Result<T, StrictError<T>>,
) {
    let Reading { value, flaws } = match tolerant(text) {
        Ok(reading) => reading,
        Err(unreadable) => return assert_eq!(strict(text), Err(StrictError::Unreadable(unreadable))),
    };
    let canonical = value.to_string();
    match flaws.first() {
        None => {
            assert_eq!(strict(text), Ok(value.clone()));
            assert_eq!(canonical, text, "read as canonical");
        }
        Some(&flaw) => {
            assert_eq!(strict(text), Err(StrictError::Flawed { flaw, canonical: value.clone() }));
            assert_ne!(canonical, text, "read as flawed");
        }
    }
    assert_eq!(tolerant(&canonical), Ok(Reading { value, flaws: Vec::new() }));
}
