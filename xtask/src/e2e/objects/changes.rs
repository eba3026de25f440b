//! Reading `changes.txt`, and making objects of it.

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use testkit::choices::{Choices as _, Seeded};

const TEXT: &str = include_str!("changes.txt");

/// A kind: where its objects are created, what they begin as, and what can be changed about that.
pub(super) struct Kind {
    pub(super) path: String,
    base: Value,
    pub(super) changes: Vec<Change>,
}

/// A path, and what is put there.
pub(super) struct Change {
    pub(super) path: String,
    pub(super) value: Value,
}

/// All kinds.
pub(super) fn kinds() -> Result<Vec<Kind>> {
    parse(TEXT)
}

fn parse(text: &str) -> Result<Vec<Kind>> {
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let paragraphs = text.split(|line| line.is_empty()).filter(|lines| !lines.is_empty());
    let kinds = paragraphs.map(|lines| {
        let [path, base, changes @ ..] = lines else { anyhow::bail!("a kind needs a path and an object: {lines:?}") };
        ensure!(path.starts_with('/'), "{path} is no path");
        let base = serde_json::from_str(base).with_context(|| format!("the object of {path}"))?;
        let changes = changes.iter().map(|line| {
            let (path, value) = line.split_once(' ').with_context(|| format!("no value: {line}"))?;
            let value = serde_json::from_str(value).with_context(|| line.to_string())?;
            Ok(Change { path: path.to_owned(), value })
        });
        Ok(Kind { path: (*path).to_owned(), base, changes: changes.collect::<Result<_>>()? })
    });
    kinds.collect()
}

impl Kind {
    /// Its plural, from its path.
    pub(super) fn name(&self) -> String {
        self.path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// So many changes, or a few less, in the order of the file.
    pub(super) fn chosen(&self, count: u64, choices: &mut Seeded) -> Vec<&Change> {
        let all = self.changes.len() as u64;
        let mut chosen: Vec<u64> = (0..count).map(|_| choices.below(all)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().filter_map(|index| self.changes.get(usize::try_from(index).ok()?)).collect()
    }

    /// The object with those changes.
    pub(super) fn object(&self, changes: &[&Change]) -> Value {
        let mut object = self.base.clone();
        for change in changes {
            put(&mut object, &change.path, &change.value);
        }
        object
    }
}

/// Puts a value at a path. What is on the way and no object is made one, but a list stays; past its end nothing is put.
fn put(object: &mut Value, path: &str, value: &Value) {
    let mut slot = object;
    for part in path.split('.') {
        if slot.is_array()
            && let Ok(index) = part.parse::<usize>()
        {
            let Some(item) = slot.get_mut(index) else { return };
            slot = item;
            continue;
        }
        if !slot.is_object() {
            *slot = Value::Object(Map::new());
        }
        slot = &mut slot[part];
    }
    *slot = value.clone();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_file_can_be_read_and_has_every_kind_once() {
        let kinds = kinds().unwrap();
        let mut names: Vec<_> = kinds.iter().map(Kind::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), kinds.len());
        assert!(kinds.iter().all(|kind| kind.changes.len() > 3));
    }

    #[test]
    fn changes_go_where_their_paths_lead() {
        let kinds = parse("# a\n\n/x\n{\"a\": [{\"b\": 1}]}\na.0.b 2\na.1.b 3\nc.d null\n").unwrap();
        let all: Vec<_> = kinds[0].changes.iter().collect();
        assert_eq!(kinds[0].object(&all), json!({"a": [{"b": 2}], "c": {"d": null}}));
        assert!(parse("/x\nnonsense\n").is_err() && parse("/x\n{}\na\n").is_err());
    }

    #[test]
    fn a_seed_chooses_the_same_again() {
        let kinds = kinds().unwrap();
        let chosen = |seed| -> Vec<String> {
            kinds[0].chosen(5, &mut Seeded::new(seed)).iter().map(|change| change.path.clone()).collect()
        };
        assert_eq!(chosen(7), chosen(7));
        assert!((0..20).any(|seed| chosen(seed) != chosen(7)));
    }
}
