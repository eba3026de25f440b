//! What the query of a write says about it: whether it is only tried, how strictly its body is read, and who it is by.

use api::meta::{self, LONGEST_MANAGER, is_print};
use api::{Errors, Path};
use http::{HeaderMap, header};
use serde_json::json;

use super::decode::Strictness;
use super::failure::Failure;
use super::query::Query;

/// How something is to be written.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    /// Whether the write is only tried.
    pub(crate) dry_run: bool,
    pub(crate) strictness: Strictness,
    /// Who gets to own what the write changes: what the request says, or what the client calls itself.
    pub(crate) manager: String,
    /// Whether an apply takes what others own.
    pub(crate) force: bool,
}

/// The writes that have options, as messages name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Create,
    Update,
    Patch,
    Apply,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    /// Reads the options of a write, or says all that is wrong with them.
    pub(crate) fn read(sort: Sort, query: &Query, headers: &HeaderMap) -> Result<Self, Failure> {
        let mut errors = Errors::new();
        let named = query.get("fieldManager");
        let force = query.optional_flag("force");
        if sort == Sort::Apply && named.is_empty() {
            errors.required(&Path::new("fieldManager"), "is required for apply patch");
        }
        if sort == Sort::Patch && force.is_some() {
            errors.forbidden(&Path::new("force"), "may not be specified for non-apply patch");
        }
        meta::validate_manager(|| Path::new("fieldManager"), named, &mut errors);
        let dry_run = is_dry_run(query.all("dryRun"), &mut errors);
        let strictness = Strictness::read(query, &mut errors);
        if !errors.is_empty() {
            return Err(Failure::invalid_options(sort.name(), &errors));
        }
        let manager = if named.is_empty() { client(headers) } else { named.to_owned() };
        Ok(Self { dry_run, strictness, manager, force: force.unwrap_or(false) })
    }
}

/// Whether a write is only tried, for what its request says about that. Nothing but `All` can be.
pub(crate) fn is_dry_run<'a>(asked: impl Iterator<Item = &'a str>, errors: &mut Errors) -> bool {
    let asked: Vec<&str> = asked.collect();
    if asked.iter().any(|&value| value != "All") {
        errors.not_supported(&Path::new("dryRun"), &json!(asked), &["All"]);
    }
    !asked.is_empty()
}

/// What a client calls itself: its user agent up to the first slash, as far as that can be printed and is not too long.
fn client(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let agent = agent.as_deref().unwrap_or_default();
    let mut name = String::new();
    for c in agent.split('/').next().unwrap_or_default().chars().filter(|c| is_print(*c)) {
        if name.len() + c.len_utf8() > LONGEST_MANAGER {
            break;
        }
        name.push(c);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sort: Sort, query: &str, agent: &str) -> Result<WriteOptions, String> {
        let headers = HeaderMap::from_iter([(header::USER_AGENT, agent.parse().unwrap())]);
        WriteOptions::read(sort, &Query::read(query), &headers).map_err(|failure| failure.message)
    }

    #[test]
    fn the_manager_is_who_the_request_says_or_what_the_client_calls_itself() {
        let manager = |query: &str, agent: &str| read(Sort::Create, query, agent).unwrap().manager;
        assert_eq!(manager("fieldManager=me", "kubectl/v1.36.3 (linux/amd64)"), "me");
        assert_eq!(manager("", "kubectl/v1.36.3 (linux/amd64)"), "kubectl");
        assert_eq!(manager("", "curl"), "curl");
        assert_eq!(manager("", "a\tb c/1"), "ab c");
        assert_eq!(manager("", &"x".repeat(200)).len(), LONGEST_MANAGER);
    }

    #[test]
    fn all_that_is_wrong_with_the_options_is_told_at_once() {
        assert_eq!(
            read(Sort::Apply, "dryRun=x&fieldValidation=y", "").unwrap_err(),
            "PatchOptions.meta.k8s.io \"\" is invalid: [fieldManager: Required value: is required for apply patch, \
             dryRun: Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \"y\": \
             supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
        assert_eq!(
            read(Sort::Patch, "force=false", "").unwrap_err(),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert_eq!(
            read(Sort::Update, &format!("fieldManager={}", "x".repeat(129)), "").unwrap_err(),
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
        );
        let unprintable = read(Sort::Create, "fieldManager=%C3%A4%E2%80%8B", "").unwrap_err();
        assert!(unprintable.ends_with(": invalid character U+200B (at position 2)"), "{unprintable}");
    }
}
