//! The files that tidy looks at, loaded once: path from the root of the repository to text.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Every file that is or could be committed. A file that is not UTF-8 is here too, its odd bytes replaced: links
/// point to images, and a host name in a binary is as public as one in a text.
pub(super) struct Files(BTreeMap<String, String>);

impl Files {
    /// Loads what git tracks or would track; without git or a checkout (a source archive), everything that is there.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let full = root.join(&path);
            // Git also lists what was deleted but not yet committed, and links to folders.
            if full.is_file() {
                let bytes = std::fs::read(&full).with_context(|| format!("could not read {}", full.display()))?;
                files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(Self(files))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files with that extension.
    pub(super) fn having(&self, wanted: &str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| extension(path) == Some(wanted))
    }

    /// The files below a folder, given with its closing slash.
    pub(super) fn under(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| path.starts_with(folder))
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    pub(super) fn is_file(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Git knows no empty folders, and neither do we. The root is the empty path.
    pub(super) fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || self.under(&format!("{path}/")).next().is_some()
    }
}

#[cfg(test)]
impl From<&[(&str, &str)]> for Files {
    fn from(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }
}

/// The folder of a path and a path below it, with `.` and `..` resolved; `None` when it leaves the repository.
pub(super) fn joined(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// What comes after the last dot of the name.
pub(super) fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}

/// The folder that holds the path; empty for the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    // Asking inside a source archive that lies in some other checkout would list that checkout's idea of it.
    if !root.join(".git").exists() {
        return None;
    }
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = process::output(&mut git).ok()?;
    Some(listing.split_terminator('\0').map(str::to_owned).collect())
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        for entry in std::fs::read_dir(&full).with_context(|| format!("could not list {}", full.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if !entry.file_type()?.is_dir() {
                paths.push(path);
            } else if name != "target" && name != ".git" {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_the_sources_and_skips_what_was_built() {
        let root = std::env::temp_dir().join(format!("cadastre-tidy-{}", std::process::id()));
        for path in ["a.md", "b/c.rs", "target/debug/x.rs", "b/target/y.rs", ".git/HEAD", ".ci/run"] {
            let full = root.join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, "text").unwrap();
        }
        let mut paths = walked(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        paths.sort();
        assert_eq!(paths, [".ci/run", "a.md", "b/c.rs"]);
    }

    #[test]
    fn a_folder_is_where_files_are() {
        let files = Files::from(&[("a/b/c", "")][..]);
        assert!(files.is_folder("a/b") && files.is_folder("a") && files.is_folder(""));
        assert!(!files.is_folder("a/b/c") && !files.is_folder("a/"), "a file and a misspelt folder are none");
    }

    #[test]
    fn joining_resolves_dots_and_stays_inside() {
        assert_eq!(joined("docs/adr", "../x.md").as_deref(), Some("docs/x.md"));
        assert_eq!(joined("", "./a//b/").as_deref(), Some("a/b"));
        assert_eq!(joined("docs", "..").as_deref(), Some(""));
        assert_eq!(joined("docs", "../../x"), None);
    }
}
