//! The crates are an arrow: each may use only those before it in [`ORDER`].
//!
//! A crate that is not in the order has no place in the architecture yet; one in the order that does not exist is a
//! crate still to come.

use toml::Value;

use super::Finding;
use super::files::Files;
use super::manifest::{self, Manifest};

const ORDER: &[&str] = &["space", "api", "store", "server", "controllers", "cni", "agent", "cadastre", "testkit"];
/// Last in the order, because it may know every crate; yet the tests of every crate may use it.
const TEST_ONLY: &str = "testkit";

/// Every dependency between our crates points backwards in the order.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let workspace = manifest::at(files, "Cargo.toml");
    crates(files).flat_map(|manifest| check_crate(&manifest, workspace.as_ref())).collect()
}

fn crates(files: &Files) -> impl Iterator<Item = Manifest<'_>> {
    let of_a_crate = |folder: &str| folder.strip_prefix("crates/").is_some_and(|name| !name.contains('/'));
    manifest::all(files).filter(move |manifest| of_a_crate(manifest.folder()))
}

fn check_crate(manifest: &Manifest<'_>, workspace: Option<&Manifest<'_>>) -> Vec<Finding> {
    let name = manifest.folder().trim_start_matches("crates/");
    let Some(rank) = rank(name) else {
        let what = format!(
            "crate `{name}` has no place in the order ({}); give it one in xtask/src/tidy/layers.rs and ARCHITECTURE.md",
            ORDER.join(", ")
        );
        return vec![Finding::new(manifest.path, 1, what)];
    };
    let mut findings = Vec::new();
    if manifest.name() != Some(name) {
        let what =
            format!("the package in crates/{name} has another name; call it `{name}`, as the order of crates does");
        findings.push(Finding::new(manifest.path, manifest.line_of("name"), what));
    }
    for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
        for (key, value) in manifest.dependencies(kind) {
            let package = package(key, value, workspace);
            let for_tests = kind == "dev-dependencies" && package == TEST_ONLY;
            let backwards = self::rank(package).is_none_or(|other| other < rank);
            if !backwards && !for_tests {
                let what = format!(
                    "`{name}` may not use `{package}`, which comes after it ({}); move the code it needs before it",
                    ORDER.join(", ")
                );
                findings.push(Finding::new(manifest.path, manifest.line_of(key), what));
            }
        }
    }
    findings
}

fn rank(name: &str) -> Option<usize> {
    ORDER.iter().position(|other| *other == name)
}

/// The package that a dependency means: the key, unless it is a rename here or in the workspace.
fn package<'a>(key: &'a str, value: &'a Value, workspace: Option<&'a Manifest<'_>>) -> &'a str {
    let inherited = || workspace?.get(&["workspace", "dependencies", key, "package"]);
    value.get("package").or_else(inherited).and_then(Value::as_str).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    fn crate_with(name: &str, rest: &str) -> (String, String) {
        (format!("crates/{name}/Cargo.toml"), format!("[package]\nname = '{name}'\n{rest}"))
    }

    fn found_in(name: &str, rest: &str) -> Vec<String> {
        let (path, text) = crate_with(name, rest);
        let workspace =
            "[workspace.dependencies]\nstore.path = 'crates/store'\nalias = { package = 'server', path = '' }\n";
        found(check, &[(&path, &text), ("Cargo.toml", workspace)])
    }

    #[test]
    fn a_crate_may_use_those_before_it_and_any_from_elsewhere() {
        let rest = "[dependencies]\nspace.workspace = true\napi.workspace = true\nserde = '1'\n";
        assert!(found_in("store", rest).is_empty());
    }

    #[test]
    fn a_crate_may_not_use_one_after_it_nor_itself() {
        for (dependency, line) in [("store", 4), ("testkit", 4), ("api", 4)] {
            let findings = found_in("api", &format!("[dependencies]\n{dependency}.workspace = true\n"));
            assert_eq!(findings.len(), 1, "{dependency}");
            assert!(
                findings[0].starts_with(&format!("crates/api/Cargo.toml:{line}: `api` may not use")),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn every_kind_of_dependency_and_every_rename_counts() {
        for rest in [
            "[dev-dependencies]\nstore.workspace = true\n",
            "[build-dependencies]\nstore.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nstore.workspace = true\n",
            "[dependencies]\nother = { package = 'store', path = '../store' }\n",
            "[dependencies]\nalias.workspace = true\n",
        ] {
            assert_eq!(found_in("api", rest).len(), 1, "{rest}");
        }
    }

    #[test]
    fn the_tests_of_every_crate_may_use_the_testkit() {
        assert!(found_in("space", "[dev-dependencies]\ntestkit.workspace = true\n").is_empty());
    }

    #[test]
    fn a_crate_without_a_place_or_with_another_name_is_found() {
        assert!(found_in("helpers", "")[0].contains("no place in the order"));
        let misnamed = found(check, &[("crates/api/Cargo.toml", "[package]\nname = 'apis'\n")]);
        assert!(misnamed[0].starts_with("crates/api/Cargo.toml:2: "), "{misnamed:?}");
    }
}
