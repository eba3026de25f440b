//! Every source file is compiled by something. A file that no `mod` names any more rots in silence.
//!
//! Follows the modules from the roots of each package: the targets that its manifest names and those that cargo finds
//! by itself.

use std::collections::BTreeSet;

use toml::Value;

use super::Finding;
use super::files::{Files, extension, joined, parent};
use super::manifest::{self, Manifest};
use super::rust::{Token, tokens};

/// A kind of target: its table in the manifest, the folder where cargo looks for it, and the key that forbids cargo
/// to look.
struct Kind {
    table: &'static str,
    folder: &'static str,
    auto: &'static str,
}

const KINDS: &[Kind] = &[
    Kind { table: "bin", folder: "src/bin", auto: "autobins" },
    Kind { table: "test", folder: "tests", auto: "autotests" },
    Kind { table: "bench", folder: "benches", auto: "autobenches" },
    Kind { table: "example", folder: "examples", auto: "autoexamples" },
];

/// Every `.rs` file is a target of a package, or a module of one.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let roots =
        manifest::all(files).filter(|manifest| manifest.name().is_some()).flat_map(|package| roots(&package, files));
    let reached = reachable(roots.collect(), files);
    let dead = files.having("rs").filter(|(path, _)| !reached.contains(*path));
    let what = "nothing compiles this file; name it by `mod` or in its Cargo.toml, or delete it";
    dead.map(|(path, _)| Finding::new(path, 1, what)).collect()
}

/// The files that cargo hands to the compiler for this package.
fn roots(package: &Manifest<'_>, files: &Files) -> Vec<String> {
    let mut roots: Vec<String> = ["src/lib.rs", "src/main.rs", "build.rs"].map(str::to_owned).to_vec();
    let named = [package.get(&["package", "build"]), package.get(&["lib", "path"])];
    roots.extend(named.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    for kind in KINDS {
        let targets = package.table.get(kind.table).and_then(Value::as_array);
        for target in targets.into_iter().flatten() {
            if let Some(path) = target.get("path").and_then(Value::as_str) {
                roots.push(path.to_owned());
            } else if let Some(name) = target.get("name").and_then(Value::as_str) {
                roots.push(format!("{}/{name}.rs", kind.folder));
                roots.push(format!("{}/{name}/main.rs", kind.folder));
            }
        }
        if package.get(&["package", kind.auto]).and_then(Value::as_bool) != Some(false) {
            roots.extend(found_by_cargo(package, kind, files));
        }
    }
    roots.iter().filter_map(|root| joined(package.folder(), root)).collect()
}

/// Cargo takes `FOLDER/NAME.rs` and `FOLDER/NAME/main.rs` for targets.
fn found_by_cargo(package: &Manifest<'_>, kind: &Kind, files: &Files) -> Vec<String> {
    let Some(folder) = joined(package.folder(), kind.folder) else { return Vec::new() };
    let prefix = format!("{folder}/");
    let is_target = |below: &str| match below.split_once('/') {
        None => extension(below) == Some("rs"),
        Some((_, file)) => file == "main.rs",
    };
    let below = files.under(&prefix).filter_map(|(path, _)| path.strip_prefix(&prefix));
    below.filter(|below| is_target(below)).map(|below| format!("{}/{below}", kind.folder)).collect()
}

/// A file that is compiled, and the folder where the files of its modules are.
struct Source {
    path: String,
    modules: String,
}

impl Source {
    /// A root, a `mod.rs` and a file named by `#[path]` have their modules beside them.
    fn beside(path: String) -> Self {
        Self { modules: parent(&path).to_owned(), path }
    }
}

fn reachable(roots: Vec<String>, files: &Files) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut sources: Vec<Source> = roots.into_iter().map(Source::beside).collect();
    while let Some(source) = sources.pop() {
        if let Some(text) = files.get(&source.path)
            && reached.insert(source.path.clone())
        {
            sources.extend(declared(&source, text));
        }
    }
    reached
}

/// The files that the `mod` items of a source may mean, whether they exist or not.
fn declared(source: &Source, text: &str) -> Vec<Source> {
    let tokens: Vec<Token<'_>> = tokens(text).into_iter().map(|(_, token)| token).collect();
    let mut found = Vec::new();
    // One entry for every open brace: the folder that an inline module adds, or nothing for any other block.
    let mut open: Vec<Option<&str>> = Vec::new();
    let mut path = None;
    let mut at = 0;
    while let Some(rest) = tokens.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            [Token::Mark('#'), Token::Mark('['), Token::Word("path"), Token::Mark('='), Token::Str(file), ..] => {
                path = Some(*file);
                5
            }
            [Token::Word("mod"), Token::Word(name), Token::Mark(';'), ..] => {
                found.extend(files_of(source, &open, name, path.take()));
                3
            }
            [Token::Word("mod"), Token::Word(name), Token::Mark('{'), ..] => {
                open.push(Some(path.take().unwrap_or(name)));
                3
            }
            [token, ..] => {
                match token {
                    Token::Mark('{') => open.push(None),
                    Token::Mark('}') => drop(open.pop()),
                    _ => {}
                }
                1
            }
            [] => 1,
        };
    }
    found
}

/// The files that `mod name;` may mean inside the inline modules that are open there.
fn files_of(source: &Source, open: &[Option<&str>], name: &str, path: Option<&str>) -> Vec<Source> {
    let inline: Vec<&str> = open.iter().flatten().copied().collect();
    let Some(folder) = joined(&source.modules, &inline.join("/")) else { return Vec::new() };
    if let Some(path) = path {
        // Outside of inline modules the path is relative to the file, even to one whose modules lie in a folder.
        let base = if inline.is_empty() { parent(&source.path) } else { &folder };
        return joined(base, path).map(Source::beside).into_iter().collect();
    }
    let beside = joined(&folder, &format!("{name}.rs")).zip(joined(&folder, name));
    let beside = beside.map(|(path, modules)| Source { path, modules });
    let inside = joined(&folder, &format!("{name}/mod.rs")).map(Source::beside);
    beside.into_iter().chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const PACKAGE: (&str, &str) = ("a/Cargo.toml", "[package]\nname = 'a'\n");

    /// The paths of the dead files in a package of these sources.
    fn dead(manifest: &str, sources: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![("a/Cargo.toml", manifest)];
        files.extend(sources);
        let findings = found(check, &files);
        findings.into_iter().filter_map(|finding| finding.split_once(':').map(|(path, _)| path.to_owned())).collect()
    }

    #[test]
    fn everything_that_is_named_passes() {
        let sources = [
            ("a/src/lib.rs", "mod d { fn f() {} mod e { mod g; } }\nmod b;\n#[cfg(x)]\npub(crate) mod c;\n"),
            ("a/src/b.rs", "mod h;"),
            ("a/src/b/h.rs", ""),
            ("a/src/c/mod.rs", "mod i;\n#[path = \"../other/odd.rs\"]\nmod j;"),
            ("a/src/c/i.rs", ""),
            ("a/src/d/e/g.rs", ""),
            ("a/src/other/odd.rs", "mod k;"),
            ("a/src/other/k.rs", ""),
        ];
        assert_eq!(dead(PACKAGE.1, &sources), [""; 0]);
    }

    #[test]
    fn a_path_is_relative_to_the_file_or_to_the_inline_module() {
        let sources = [
            ("a/src/lib.rs", "mod b;"),
            ("a/src/b.rs", "#[path = \"beside.rs\"] mod x;\nmod c { #[path = \"inside.rs\"] mod y; }"),
            ("a/src/beside.rs", ""),
            ("a/src/b/c/inside.rs", ""),
        ];
        assert_eq!(dead(PACKAGE.1, &sources), [""; 0]);
    }

    #[test]
    fn what_cargo_finds_by_itself_passes() {
        let roots = ["src/main.rs", "build.rs", "src/bin/b.rs", "src/bin/c/main.rs", "tests/t.rs", "tests/u/main.rs"];
        for root in roots.into_iter().chain(["benches/b.rs", "examples/e.rs"]) {
            assert_eq!(dead(PACKAGE.1, &[(&format!("a/{root}"), "")]), [""; 0], "{root}");
        }
    }

    #[test]
    fn what_the_manifest_names_passes() {
        let manifest = "[package]\nname = 'a'\nautotests = false\nbuild = 'make.rs'\n[lib]\npath = 'lib.rs'\n\
                        [[bin]]\nname = 'f'\npath = 'fuzz_targets/f.rs'\n[[test]]\nname = 't'\n";
        let sources = ["make.rs", "lib.rs", "fuzz_targets/f.rs", "tests/t.rs"].map(|path| format!("a/{path}"));
        let sources: Vec<_> = sources.iter().map(|path| (path.as_str(), "")).collect();
        assert_eq!(dead(manifest, &sources), [""; 0]);
    }

    #[test]
    fn what_nothing_names_is_found() {
        let lib = ("a/src/lib.rs", "// mod b;\nconst S: &str = \"mod b;\";\nmod b { }\nmod c { mod d; }\n");
        for orphan in
            ["a/src/b.rs", "a/src/d.rs", "a/src/c.rs", "a/fuzz_targets/f.rs", "a/tests/support/mod.rs", "tools/x.rs"]
        {
            assert_eq!(dead(PACKAGE.1, &[lib, (orphan, "")]), [orphan]);
        }
    }

    #[test]
    fn a_module_of_a_dead_file_is_dead_too() {
        let sources = [("a/src/lib.rs", ""), ("a/src/b.rs", "mod c;"), ("a/src/b/c.rs", "")];
        assert_eq!(dead(PACKAGE.1, &sources), ["a/src/b.rs", "a/src/b/c.rs"]);
    }

    #[test]
    fn a_target_that_cargo_may_not_look_for_is_dead() {
        let manifest = "[package]\nname = 'a'\nautotests = false\n";
        assert_eq!(dead(manifest, &[("a/tests/t.rs", "")]), ["a/tests/t.rs"]);
    }
}
