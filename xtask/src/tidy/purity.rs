//! The `space` crate stays pure: no I/O, no clock, no threads, no Kubernetes, no order that depends on a hash seed.
//!
//! This is what lets the same operations give the same register everywhere: in the model tests, in a replay, on
//! another machine.

use super::Finding;
use super::files::{Files, extension};
use super::manifest;
use super::rust::{Token, tokens};

const CRATE: &str = "crates/space";
const DEPENDENCIES: &[&str] = &["thiserror"];
/// Modules of the standard library that reach outside the program.
const MODULES: &[&str] = &["env", "fs", "io", "process", "thread", "time"];
/// Names that are impure wherever they come from.
const NAMES: &[&str] =
    &["HashMap", "HashSet", "Instant", "SystemTime", "TcpListener", "TcpStream", "ToSocketAddrs", "UdpSocket", "tokio"];

/// `space` depends on nothing that could do I/O, and names nothing that does.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut findings = dependencies(files);
    let sources = format!("{CRATE}/src/");
    for (path, text) in files.under(&sources).filter(|(path, _)| extension(path) == Some("rs")) {
        findings.extend(mentions(text).into_iter().map(|(line, name)| {
            let what =
                format!("`{name}` in `space`, which is pure and deterministic; take what it gives as an argument");
            Finding::new(path, line, what)
        }));
    }
    findings
}

fn dependencies(files: &Files) -> Vec<Finding> {
    let path = format!("{CRATE}/Cargo.toml");
    let Some(manifest) = manifest::at(files, &path) else { return Vec::new() };
    let names = ["dependencies", "build-dependencies"].into_iter().flat_map(|kind| manifest.dependencies(kind));
    let foreign = names.map(|(name, _)| name).filter(|name| !DEPENDENCIES.contains(name));
    foreign
        .map(|name| {
            let what = format!(
                "`space` may depend on {} only, not on `{name}`; use it in a crate above",
                DEPENDENCIES.join(", ")
            );
            Finding::new(&path, manifest.line_of(name), what)
        })
        .collect()
}

/// The impure names in a source file and their lines. Comments may say them: to explain why they are not used.
fn mentions(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        match token {
            Token::Word(name) if NAMES.contains(name) => found.push((*line, (*name).to_owned())),
            Token::Word(root @ ("std" | "core" | "alloc")) => {
                let modules = modules_after(&tokens[at + 1..]);
                let impure = modules.into_iter().filter(|(_, module)| MODULES.contains(module));
                found.extend(impure.map(|(line, module)| (line, format!("{root}::{module}"))));
            }
            _ => {}
        }
    }
    found
}

/// The first segments of the path that goes on here: `::fs`, or several in `::{fs, io::Read}`.
fn modules_after<'a>(tokens: &[(usize, Token<'a>)]) -> Vec<(usize, &'a str)> {
    match tokens {
        [(_, Token::Mark(':')), (_, Token::Mark(':')), (line, Token::Word(module)), ..] => vec![(*line, module)],
        [(_, Token::Mark(':')), (_, Token::Mark(':')), (_, Token::Mark('{')), group @ ..] => {
            let mut depth = 1_usize;
            let mut starts = true;
            let mut modules = Vec::new();
            for (line, token) in group {
                match token {
                    Token::Word(module) if starts && depth == 1 => modules.push((*line, *module)),
                    Token::Mark('{') => depth += 1,
                    Token::Mark('}') => depth -= 1,
                    _ => {}
                }
                starts = *token == Token::Mark(',');
                if depth == 0 {
                    break;
                }
            }
            modules
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn pure_code_passes() {
        let source = "//! No `HashMap`, no std::fs.\nuse std::{collections::BTreeMap, fmt, net::IpAddr};\n\
                      /* SystemTime */ const NAME: &str = \"std::io\"; fn instant(time: u64, fs: u8) {}\n";
        let manifest = "[dependencies]\nthiserror.workspace = true\n[dev-dependencies]\nproptest = '1'\n";
        assert!(found(check, &[("crates/space/src/lib.rs", source), ("crates/space/Cargo.toml", manifest)]).is_empty());
    }

    #[test]
    fn every_impure_name_is_found_on_its_line() {
        for name in MODULES.iter().map(|module| format!("std::{module}")).chain(NAMES.iter().map(ToString::to_string)) {
            let findings = found(check, &[("crates/space/src/trie/node.rs", &format!("//! Trie.\nuse {name}::x;\n"))]);
            assert_eq!(findings.len(), 1, "{name}");
            assert!(findings[0].starts_with(&format!("crates/space/src/trie/node.rs:2: `{name}`")), "{findings:?}");
        }
    }

    #[test]
    fn a_group_of_imports_hides_nothing() {
        let mentions = mentions("use std::{fmt::{io, self},\n fs, net, io::{Read, env}};");
        assert_eq!(mentions, [(2, "std::fs".to_owned()), (2, "std::io".to_owned())]);
    }

    #[test]
    fn other_crates_may() {
        assert!(found(check, &[("crates/store/src/lib.rs", "use std::fs;")]).is_empty());
    }

    #[test]
    fn a_dependency_is_found() {
        for kind in ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"] {
            let findings = found(check, &[("crates/space/Cargo.toml", &format!("[{kind}]\nserde = '1'\n"))]);
            assert_eq!(findings.len(), 1, "{kind}");
            assert!(findings[0].starts_with("crates/space/Cargo.toml:2: "), "{findings:?}");
        }
    }
}
