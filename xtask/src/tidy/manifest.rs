//! The Cargo manifests, parsed. What they must say is up to the checks that read them.

use toml::{Table, Value};

use super::Finding;
use super::files::{Files, parent};

/// One Cargo.toml.
pub(super) struct Manifest<'a> {
    pub(super) path: &'a str,
    text: &'a str,
    pub(super) table: Table,
}

impl<'a> Manifest<'a> {
    fn parse(path: &'a str, text: &'a str) -> Result<Self, Finding> {
        match text.parse() {
            Ok(table) => Ok(Self { path, text, table }),
            Err(error) => {
                let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
                Err(Finding::new(
                    path,
                    line,
                    format!("not TOML ({}); write it so that cargo can read it", error.message()),
                ))
            }
        }
    }

    pub(super) fn folder(&self) -> &'a str {
        parent(self.path)
    }

    /// A value by its path through tables.
    pub(super) fn get(&self, keys: &[&str]) -> Option<&Value> {
        let (first, rest) = keys.split_first()?;
        rest.iter().try_fold(self.table.get(*first)?, |value, key| value.get(key))
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.get(&["package", "name"])?.as_str()
    }

    /// The line where a key or a table of that name begins, for pointing at it: the first such line, else 1.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let begins = |line: &str| {
            let rest = line.trim_start().trim_start_matches('[').strip_prefix(key)?;
            (!rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_')).then_some(())
        };
        self.text.lines().position(|line| begins(line).is_some()).map_or(1, |at| at + 1)
    }

    /// The tables of dependencies of one kind (`dependencies`, `dev-dependencies`, `build-dependencies`), also those
    /// for some targets only.
    pub(super) fn dependencies(&self, kind: &str) -> impl Iterator<Item = (&str, &Value)> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let everywhere = self.table.get(kind);
        let somewhere = targets.into_iter().flat_map(Table::values).filter_map(move |target| target.get(kind));
        let tables = everywhere.into_iter().chain(somewhere).filter_map(Value::as_table);
        tables.flatten().map(|(name, value)| (name.as_str(), value))
    }
}

/// Every manifest that can be read; [`check`] reports the others.
pub(super) fn all(files: &Files) -> impl Iterator<Item = Manifest<'_>> {
    parsed(files).filter_map(Result::ok)
}

/// The manifest at that path.
pub(super) fn at<'a>(files: &'a Files, path: &'a str) -> Option<Manifest<'a>> {
    Manifest::parse(path, files.get(path)?).ok()
}

/// Every manifest is TOML. Cargo says so for the workspace before tidy runs, but not for the fuzz targets.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    parsed(files).filter_map(Result::err).collect()
}

fn parsed(files: &Files) -> impl Iterator<Item = Result<Manifest<'_>, Finding>> {
    let named = |path: &str| path == "Cargo.toml" || path.ends_with("/Cargo.toml");
    files.iter().filter(move |(path, _)| named(path)).map(|(path, text)| Manifest::parse(path, text))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_broken_manifest_is_found() {
        let broken = "[package]\nname = fuzz\n";
        let findings = found(check, &[("fuzz/Cargo.toml", broken), ("Cargo.toml", "[workspace]\n")]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("fuzz/Cargo.toml:2: not TOML"), "{findings:?}");
    }

    #[test]
    fn dependencies_for_one_target_count() {
        let text = "[dependencies]\na = '1'\n[target.'cfg(unix)'.dependencies]\nb = '1'\n[dev-dependencies]\nc = '1'\n";
        let manifest = Manifest::parse("Cargo.toml", text).ok().unwrap();
        let names: Vec<_> = manifest.dependencies("dependencies").map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_key_is_pointed_at_by_its_whole_name() {
        let manifest = Manifest::parse("Cargo.toml", "[dependencies]\nab = '1'\na.workspace = true\n").ok().unwrap();
        assert_eq!(manifest.line_of("a"), 3);
        assert_eq!(manifest.line_of("dependencies"), 1);
    }
}
