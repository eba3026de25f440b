//! `cargo xtask parts`: the real components that suites and benchmarks need, built from their modules and kept.
//!
//! A part is a program of somebody else, built from a released version with no change. It lies in the cache at
//! `parts/NAME-VERSION/NAME`, with the inputs of its build and what else is needed of its modules beside it; it is built again when they change. Whoever needs
//! parts calls [`ensure`].

mod check;
mod part;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

pub(crate) use part::Part;

use crate::{cache, go, process};

/// Which parts, and whether to try them.
#[derive(Args)]
pub(crate) struct Options {
    /// The parts to build; all of them if none is named
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
    /// Start them on loopback afterwards and show that they work together
    #[arg(long, conflicts_with = "parts")]
    check: bool,
}

/// Where the parts are.
pub(crate) struct Parts {
    folder: PathBuf,
}

/// Builds what was asked for and says where it is.
pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = if options.parts.is_empty() { &Part::ALL } else { options.parts.as_slice() };
    let parts = ensure(wanted)?;
    for part in wanted {
        println!("{:<24}{:<8}{}", part.name(), part.version(), parts.binary(*part).display());
    }
    if options.check { check::run(&parts) } else { Ok(()) }
}

/// The parts, after building those of `wanted` that are not in the cache yet.
///
/// A build is put in place as a whole when it is done, so one that is interrupted leaves nothing behind that would be
/// taken for a part. Of several processes that want the same part, one builds and the others wait for it.
pub(crate) fn ensure(wanted: &[Part]) -> Result<Parts> {
    let parts = Parts { folder: cache::dir()?.join("parts") };
    let modules = process::repo_root().join("xtask/parts");
    let missing = parts.missing(wanted, &modules)?;
    if missing.is_empty() {
        return Ok(parts);
    }
    let Some(go) = go::found() else {
        let names: Vec<_> = missing.iter().map(|part| part.name()).collect();
        bail!(
            "not built yet: {}; building needs Go, which is not installed (need {} or newer on PATH)",
            names.join(", "),
            go::VERSION
        );
    };
    fs::create_dir_all(&parts.folder).with_context(|| format!("could not create {}", parts.folder.display()))?;
    let _lock = lock(&parts.folder.join("lock"))?;
    // Asked again, because another process may have built them while this one waited.
    for part in parts.missing(wanted, &modules)? {
        parts.build(&go, part, &modules)?;
    }
    Ok(parts)
}

impl Parts {
    /// The program of a part. It is there if the part was among those given to [`ensure`].
    pub(crate) fn binary(&self, part: Part) -> PathBuf {
        self.folder_of(part).join(part.name())
    }

    /// The files of its modules that are kept beside a part, by their own names.
    pub(crate) fn kept(&self, part: Part) -> Vec<PathBuf> {
        let names = part.recipe().kept.iter().filter_map(|kept| Path::new(kept.path).file_name());
        names.map(|name| self.folder_of(part).join(name)).collect()
    }

    fn folder_of(&self, part: Part) -> PathBuf {
        self.folder.join(format!("{}-{}", part.name(), part.version()))
    }

    /// The inputs that the part in the cache was built from, as text.
    fn mark(&self, part: Part) -> PathBuf {
        self.folder_of(part).join("inputs")
    }

    /// Those of `wanted` that are not there or were built from other inputs.
    fn missing(&self, wanted: &[Part], modules: &Path) -> Result<Vec<Part>> {
        let mut missing = Vec::new();
        for part in wanted {
            let inputs = part.recipe().inputs(modules)?;
            let same = fs::read_to_string(self.mark(*part)).is_ok_and(|mark| mark == inputs);
            let whole = self.binary(*part).is_file() && self.kept(*part).iter().all(|file| file.is_file());
            if !(same && whole) {
                missing.push(*part);
            }
        }
        Ok(missing)
    }

    fn build(&self, go: &Path, part: Part, modules: &Path) -> Result<()> {
        let recipe = part.recipe();
        let label = format!("parts: {} {}", part.name(), part.version());
        eprintln!("{label}: building; a first build takes minutes");
        let started = Instant::now();
        let module = modules.join(recipe.module);
        let program = go::Program {
            verb: recipe.verb,
            module: &module,
            package: &recipe.package,
            flags: &recipe.flags,
            variables: recipe.variables,
        };
        self.install(part, &recipe.inputs(modules)?, |output| {
            go::build(go, &program, output)?;
            for (kept, file) in recipe.kept.iter().zip(self.kept(part)) {
                let from = go::module_folder(go, &module, kept.module)?.join(kept.path);
                let bytes = fs::read(&from).with_context(|| format!("could not read {}", from.display()))?;
                // Written, not copied: files of the module cache are not writable, and so copies of them are not.
                fs::write(&file, bytes).with_context(|| format!("could not write {}", file.display()))?;
            }
            Ok(())
        })?;
        eprintln!("{label}: built in {} s", started.elapsed().as_secs());
        Ok(())
    }

    /// Puts in place what `build` writes to the file it is given, and then the mark that says what it was built from.
    fn install(&self, part: Part, inputs: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let folder = self.folder_of(part);
        let not_kept = || format!("could not keep {} in {}", part.name(), folder.display());
        fs::create_dir_all(&folder).with_context(not_kept)?;
        let unfinished = folder.join("unfinished");
        build(&unfinished)?;
        let mark = self.mark(part);
        // Without its mark a part counts as missing, so no moment of this has a mark beside another build's program.
        if mark.exists() {
            fs::remove_file(&mark).with_context(not_kept)?;
        }
        fs::rename(&unfinished, self.binary(part)).with_context(not_kept)?;
        fs::write(&mark, inputs).with_context(not_kept)
    }
}

/// Holds the file's lock until it is dropped; says so when that means waiting. A process that dies lets go of it.
fn lock(path: &Path) -> Result<File> {
    let not_locked = || format!("could not lock {}", path.display());
    let file = File::create(path).with_context(not_locked)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => eprintln!("parts: another process is building them; waiting"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(not_locked),
    }
    file.lock().with_context(not_locked)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts in a folder of this test's own, removed when it ends.
    struct Scratch(Parts);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("cadastre-parts-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(Parts { folder })
        }

        /// Installs a part that was "built" by writing its text.
        fn install(&self, part: Part, inputs: &str) {
            let built = |output: &Path| Ok(fs::write(output, "program")?);
            self.0.install(part, inputs, built).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0.folder).unwrap();
        }
    }

    fn modules() -> PathBuf {
        process::repo_root().join("xtask/parts")
    }

    #[test]
    fn a_part_is_missing_until_it_is_built_from_these_inputs() {
        let scratch = Scratch::new("inputs");
        let missing = || scratch.0.missing(&[Part::Etcd], &modules()).unwrap();
        assert_eq!(missing(), [Part::Etcd]);
        scratch.install(Part::Etcd, "other inputs");
        assert_eq!(missing(), [Part::Etcd]);
        scratch.install(Part::Etcd, &Part::Etcd.recipe().inputs(&modules()).unwrap());
        assert_eq!(missing(), []);
        assert_eq!(fs::read_to_string(scratch.0.binary(Part::Etcd)).unwrap(), "program");
    }

    #[test]
    fn a_build_that_fails_leaves_what_was_there() {
        let scratch = Scratch::new("failed");
        let inputs = Part::Etcd.recipe().inputs(&modules()).unwrap();
        scratch.install(Part::Etcd, &inputs);
        let half = |output: &Path| {
            fs::write(output, "pro")?;
            bail!("no space")
        };
        scratch.0.install(Part::Etcd, "new inputs", half).unwrap_err();
        assert_eq!(fs::read_to_string(scratch.0.binary(Part::Etcd)).unwrap(), "program");
        assert_eq!(scratch.0.missing(&[Part::Etcd], &modules()).unwrap(), []);
    }

    #[test]
    fn a_part_without_its_program_is_missing() {
        let scratch = Scratch::new("gone");
        scratch.install(Part::Kubectl, &Part::Kubectl.recipe().inputs(&modules()).unwrap());
        fs::remove_file(scratch.0.binary(Part::Kubectl)).unwrap();
        assert_eq!(scratch.0.missing(&[Part::Kubectl], &modules()).unwrap(), [Part::Kubectl]);
    }
}
