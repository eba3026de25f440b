//! Shell scripts in the place of parts, for tests of how parts are started rather than of what they do.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An executable file of that name that runs the script.
///
/// A shell writes it and not this process: while this process has a file open for writing, a child that another test
/// forks at that moment has it too, and a file that somebody can write to cannot be executed.
pub(super) fn write(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#]).arg(&path).arg(script);
    assert!(shell.status().unwrap().success());
    path
}
