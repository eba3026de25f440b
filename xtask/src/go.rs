//! Go: finding it, and building programs with it.
//!
//! Only some tasks need Go (the real parts and the peers), and what to do without it differs; each says so itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, process};

/// The Go that the modules in this repository ask for, for sentences that say what is missing.
pub(crate) const VERSION: &str = "1.26";

/// One program to build.
pub(crate) struct Program<'a> {
    /// What `go` is told to do: `build`, or `test -c` for the tests of a package.
    pub(crate) verb: &'a [&'a str],
    /// Where the go.mod is that names the versions.
    pub(crate) module: &'a Path,
    /// The package of its `main`, as `go build` takes it, or of its tests.
    pub(crate) package: &'a str,
    /// Flags besides those that every build here has.
    pub(crate) flags: &'a [String],
    /// Variables that the build needs.
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

/// The `go` command, where there is one.
pub(crate) fn found() -> Option<PathBuf> {
    cache::tool("go")
}

/// Builds our own program `xtask/peers/NAME`, which calls the peers' code, and says where it is.
pub(crate) fn peer(go: &Path, name: &str) -> Result<PathBuf> {
    let folder = cache::dir()?.join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let binary = folder.join(name);
    let module = process::repo_root().join("xtask/peers").join(name);
    build(go, &Program { verb: &["build"], module: &module, package: ".", flags: &[], variables: &[] }, &binary)?;
    Ok(binary)
}

/// Where Go keeps the files of a module that the go.mod in the folder `module` names. They are brought if they are not there: what was
/// built of that go.mod may have needed others only.
pub(crate) fn module_folder(go: &Path, module: &Path, name: &str) -> Result<PathBuf> {
    let said = process::output(Command::new(go).current_dir(module).args(["mod", "download", "-json", name]))?;
    let said: serde_json::Value = serde_json::from_str(&said).with_context(|| format!("go says of {name}: {said}"))?;
    let folder = said["Dir"].as_str().filter(|folder| !folder.is_empty());
    Ok(folder.with_context(|| format!("go has no folder of {name}: {said}"))?.into())
}

/// Builds the program into the file `output`. Go's own cache makes a second build of the same thing quick.
pub(crate) fn build(go: &Path, program: &Program<'_>, output: &Path) -> Result<()> {
    let mut build = Command::new(go);
    build.current_dir(program.module).envs(program.variables.iter().copied());
    // Asking git for the commit fails in a checkout that belongs to another user, and the answer is not used.
    build.args(program.verb).arg("-buildvcs=false").args(program.flags).arg("-o").arg(output).arg(program.package);
    process::run(&mut build)
}
