//! The committed inputs of the fuzz targets, replayed without a fuzzer; and random bytes where no long run goes.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::proptest;
use testkit::fuzz;

type Target = (&'static str, fn(&[u8]));
const TARGETS: [Target; 4] =
    [("cidr", fuzz::cidr), ("blocks", fuzz::blocks), ("pool", fuzz::pool), ("prefix", fuzz::prefix)];

/// The corpora that the tests of `api` and `server` replay.
const OF_OTHERS: [&str; 3] = ["protobuf", "apply", "patch"];

#[test]
fn every_committed_input_passes() {
    for (target, run) in TARGETS {
        let inputs = files(&corpus().join(target));
        assert!(!inputs.is_empty(), "the corpus of {target} is empty");
        for input in inputs {
            let _told = TellInput(&input);
            run(&fs::read(&input).unwrap_or_else(|error| panic!("{error}")));
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).chain(OF_OTHERS).collect();
    for folder in files(&corpus()) {
        assert!(known.iter().any(|target| folder.ends_with(target)), "nothing replays {}", folder.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_raw_argument_panics(bytes in vec(any::<u8>(), 0..700)) {
        fuzz::prefix(&bytes);
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// What is in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap_or_else(|error| panic!("{error}")).path()).collect();
    files.sort_unstable();
    files
}

/// Says on the way out of a failure which input it was.
struct TellInput<'a>(&'a Path);

impl Drop for TellInput<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input that failed: {}", self.0.display());
        }
    }
}
