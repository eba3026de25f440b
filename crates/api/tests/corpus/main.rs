//! The committed inputs of the fuzz targets of this crate, replayed without a fuzzer.

mod apply;
mod protobuf;

use std::fs;
use std::path::Path;

type Target = (&'static str, fn(&[u8]));
const TARGETS: [Target; 2] = [("protobuf", protobuf::run), ("apply", apply::run)];

#[test]
fn every_committed_input_passes() {
    for (target, run) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let inputs = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut replayed = 0;
        for input in inputs {
            let path = input.unwrap_or_else(|error| panic!("{error}")).path();
            // A failure shows what was written last.
            eprintln!("replaying {}", path.display());
            run(&fs::read(&path).unwrap_or_else(|error| panic!("{error}")));
            replayed += 1;
        }
        assert!(replayed > 0, "the corpus of {target} is empty");
    }
}
