//! The lints are the workspace's in every member: a crate that forgets to say so is checked by none of them.

use toml::Value;

use super::Finding;
use super::files::Files;
use super::manifest::{self, Manifest};

/// Every member of the workspace has `[lints] workspace = true`.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let Some(workspace) = manifest::at(files, "Cargo.toml") else { return Vec::new() };
    let inherits =
        |manifest: &Manifest<'_>| manifest.get(&["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
    manifest::all(files)
        .filter(|manifest| is_member(manifest, &workspace) && !inherits(manifest))
        .map(|manifest| {
            let what = "the workspace's lints do not hold here; add `[lints]` with `workspace = true`";
            Finding::new(manifest.path, manifest.line_of("lints"), what)
        })
        .collect()
}

/// Members are listed as folders or as `folder/*`, the one pattern we use.
fn is_member(manifest: &Manifest<'_>, workspace: &Manifest<'_>) -> bool {
    let folder = manifest.folder();
    let members = workspace.get(&["workspace", "members"]).and_then(Value::as_array);
    let listed =
        members.into_iter().flatten().filter_map(Value::as_str).any(|member| match member.strip_suffix("/*") {
            Some(parent) => folder.rsplit_once('/').is_some_and(|(above, _)| above == parent),
            None => member == folder,
        });
    listed || (folder.is_empty() && manifest.name().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const WORKSPACE: (&str, &str) = ("Cargo.toml", "[workspace]\nmembers = ['crates/*', 'xtask']\n");

    #[test]
    fn members_that_inherit_and_strangers_pass() {
        let inherits = "[package]\nname = 'a'\n[lints]\nworkspace = true\n";
        let stranger = "[package]\nname = 'fuzz'\n";
        let files = [
            WORKSPACE,
            ("crates/a/Cargo.toml", inherits),
            ("xtask/Cargo.toml", inherits),
            ("fuzz/Cargo.toml", stranger),
        ];
        assert!(found(check, &files).is_empty());
    }

    #[test]
    fn members_that_do_not_inherit_are_found() {
        let silent = "[package]\nname = 'a'\n";
        let own = "[package]\nname = 'xtask'\n[lints.rust]\nunsafe_code = 'forbid'\n";
        let findings = found(check, &[WORKSPACE, ("crates/a/Cargo.toml", silent), ("xtask/Cargo.toml", own)]);
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("crates/a/Cargo.toml:1: "), "{findings:?}");
        assert!(findings[1].starts_with("xtask/Cargo.toml:3: "), "{findings:?}");
    }
}
