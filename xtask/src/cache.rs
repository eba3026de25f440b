//! Where tasks keep what is slow to get and safe to lose: tools they installed and downloads.
//!
//! It lies outside the clone, so that fresh clones (CI, a second work tree) share it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The cache folder: `$CADASTRE_CACHE`, else `$HOME/.cache/cadastre`. Created if absent.
pub(crate) fn dir() -> Result<PathBuf> {
    let dir = located(env::var_os("CADASTRE_CACHE"), env::var_os("HOME"))
        .context("no cache folder: set CADASTRE_CACHE (or HOME) to where tools may be kept")?;
    std::fs::create_dir_all(&dir).with_context(|| format!("could not create the cache folder {}", dir.display()))?;
    Ok(dir)
}

/// The program of that name: on PATH, else in the cache's `tools/bin`.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let cached = dir().ok().map(|cache| cache.join("tools/bin"));
    first_holding(name, env::split_paths(&path).chain(cached))
}

fn located(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let set = |value: &OsString| !value.is_empty();
    cache
        .filter(set)
        .map(PathBuf::from)
        .or_else(|| home.filter(set).map(|home| Path::new(&home).join(".cache/cadastre")))
}

fn first_holding(name: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_home() {
        let at = |cache: Option<&str>, home: Option<&str>| located(cache.map(Into::into), home.map(Into::into));
        assert_eq!(at(Some("/c"), Some("/h")), Some("/c".into()));
        assert_eq!(at(None, Some("/h")), Some("/h/.cache/cadastre".into()));
        assert_eq!(at(Some(""), Some("/h")), Some("/h/.cache/cadastre".into()), "an empty variable is an unset one");
        assert_eq!(at(None, None), None);
    }

    #[test]
    fn the_first_folder_that_has_the_tool_wins() {
        let root = crate::process::repo_root();
        let folders = || [root.join("no-such-folder"), root.join("xtask"), root.clone()].into_iter();
        assert_eq!(first_holding("Cargo.toml", folders()), Some(root.join("xtask/Cargo.toml")));
        assert_eq!(first_holding("no-such-file", folders()), None);
    }
}
