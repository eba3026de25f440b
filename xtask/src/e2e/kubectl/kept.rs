//! What the control said, kept in the cache with all that it depends on: the versions and flags of the control, and the case.
//!
//! Kept as it was said. Masks are put on when it is compared, so a change of theirs needs no new answer.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::super::servers;
use super::run::Ending;
use super::script::Case;
use crate::cache;

#[derive(Serialize, Deserialize)]
struct Kept {
    inputs: String,
    endings: Vec<Ending>,
}

/// What the control said of this case, if it was asked this.
pub(super) fn read(case: &Case) -> Result<Option<Vec<Ending>>> {
    let Ok(text) = fs::read_to_string(path(case)?) else { return Ok(None) };
    // A file of another make is like none.
    let kept = serde_json::from_str::<Kept>(&text).ok().filter(|kept| kept.inputs == inputs(case));
    Ok(kept.map(|kept| kept.endings))
}

/// Keeps what the control said. Whole or not at all: runs may share a cache.
pub(super) fn write(case: &Case, endings: &[Ending]) -> Result<()> {
    let path = path(case)?;
    let folder = path.parent().context("the cache has no folder")?;
    fs::create_dir_all(folder)?;
    let draft = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&draft, &Kept { inputs: inputs(case), endings: endings.to_vec() })?;
    draft.persist(&path).with_context(|| format!("could not write {}", path.display()))?;
    Ok(())
}

fn path(case: &Case) -> Result<PathBuf> {
    Ok(cache::dir()?.join("e2e/control").join(format!("{}.json", case.namespace)))
}

fn inputs(case: &Case) -> String {
    format!("{}{}", servers::control_inputs(), case.text)
}
