//! What makes a name, a label or an address acceptable, and how a bad one is described.
//!
//! Each function answers with the list of what is wrong, in the words that Kubernetes clients know; an empty list is a good
//! name. Nothing here knows which kind uses which rule.

use std::fmt;
use std::net::IpAddr;

use space::{Cidr, Flaw, Reading};

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

/// Faults of a DNS subdomain (RFC 1123): `a.b-c`.
pub fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    subdomain_in(&masked(name, prefix), "characters")
}

/// Faults of a DNS subdomain whose labels may have underscores, as search paths have: `_tcp.a_b.c`.
pub fn subdomain_with_underscores(name: &str) -> Vec<String> {
    const PATTERN: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
    let is_label = |label: &str| is_label(&label.strip_prefix('_').unwrap_or(label).replace('_', "-"));
    let mut faults = too_long(name, SUBDOMAIN_LENGTH, "characters");
    if !name.split('.').all(is_label) {
        faults.push(pattern_fault(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            PATTERN,
            &["example.com"],
        ));
    }
    faults
}

/// Faults of a DNS label (RFC 1123): `a-b`.
pub fn label(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut faults = too_long(&name, LABEL_LENGTH, "characters");
    if !is_label(&name) {
        faults.push(if is_subdomain(&name) {
            "must not contain dots".to_owned()
        } else {
            pattern_fault(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_PATTERN,
                &["my-name", "123-abc"],
            )
        });
    }
    faults
}

/// Faults of an older DNS label (RFC 1035), which begins with a letter.
pub fn label_1035(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut faults = too_long(&name, LABEL_LENGTH, "characters");
    if !is_label(&name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        faults.push(pattern_fault(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// Faults of a name that stands alone between two slashes of a path.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Faults of a label's key: `example.com/name` or `name`.
pub fn qualified_name(name: &str) -> Vec<String> {
    const WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    let pattern = || pattern_fault(WORDS, PATTERN, &["MyName", "my.name", "123-abc"]);

    let mut faults = Vec::new();
    let mut parts = name.split('/');
    let last = match (parts.next(), parts.next(), parts.next()) {
        (Some(only), None, _) => only,
        (Some(""), Some(last), None) => {
            faults.push("prefix part must be non-empty".to_owned());
            last
        }
        (Some(first), Some(last), None) => {
            faults.extend(subdomain_in(first, "bytes").into_iter().map(|fault| format!("prefix part {fault}")));
            last
        }
        _ => {
            let tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {tail}", pattern())];
        }
    };
    if last.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if last.len() > LABEL_LENGTH {
        faults.push(format!("name part must be no more than {LABEL_LENGTH} bytes"));
    }
    if !is_name_part(last) {
        faults.push(format!("name part {}", pattern()));
    }
    faults
}

/// Faults of a label's value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut faults = too_long(value, LABEL_LENGTH, "bytes");
    if !value.is_empty() && !is_name_part(value) {
        faults.push(pattern_fault(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// Faults of a key in a `ConfigMap` or a Secret.
pub fn config_key(key: &str) -> Vec<String> {
    let mut faults = too_long(key, SUBDOMAIN_LENGTH, "characters");
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        faults.push(pattern_fault(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if key == "." || key == ".." {
        faults.push(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

/// Faults of the name of an environment variable.
pub fn environment_name(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.is_empty() {
        faults.push("environment variable name must be non-empty".to_owned());
    }
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        faults.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    faults
}

/// Faults of the name of an HTTP header.
pub fn header_name(name: &str) -> Vec<String> {
    let good = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if good {
        return Vec::new();
    }
    let what = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern_fault(what, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// Faults of a port's name where it stands for an IANA service name: short, with a letter in it.
pub fn port_name(name: &str) -> Vec<String> {
    let mut faults = too_long(name, 15, "characters");
    let charset = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(charset) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// The fault of a port number, if it is none.
pub fn port_number(port: i64) -> Option<String> {
    (!(1..=65535).contains(&port)).then(|| between(1, 65535))
}

/// Faults of a port number that is a name: it is written in one way only.
pub fn canonical_port(text: &str) -> Vec<String> {
    let is_port = text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text);
    if is_port { Vec::new() } else { vec!["must be a port number between 1 and 65535".to_owned()] }
}

/// The first and the last port of a range: `30000-32767`.
pub fn port_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-')?;
    let port = |text: &str| canonical_port(text).is_empty().then(|| text.parse().ok()).flatten();
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some((first, last))
}

/// The words for a number outside its bounds.
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Faults of an address in a field that also takes other spellings than the canonical one.
pub fn address(text: &str) -> Vec<String> {
    let Ok(Reading { flaws, .. }) = space::tolerant_address(text) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    match flaws.first() {
        Some(Flaw::LeadingZeros) => vec!["must not have leading 0s".to_owned()],
        Some(Flaw::Mapped) => vec!["must not be an IPv4-mapped IPv6 address".to_owned()],
        _ => Vec::new(),
    }
}

/// Faults of an address that has to be written in its one canonical way; also the rule for names that are addresses.
pub fn canonical_address(text: &str, _prefix: bool) -> Vec<String> {
    let mut faults = address(text);
    if faults.is_empty()
        && let Ok(Reading { value, flaws }) = space::tolerant_address(text)
        && !flaws.is_empty()
    {
        faults.push(format!("must be in canonical form (\"{value}\")"));
    }
    faults
}

/// Faults of an address that traffic is sent to: it has to lead to another machine.
pub fn endpoint_address(text: &str) -> Vec<String> {
    let Some(address) = read_address(text) else { return vec!["must be a valid IP address".to_owned()] };
    let mut faults = Vec::new();
    if address.is_unspecified() {
        faults.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, multicast) = match address {
        IpAddr::V4(it) => (it.is_link_local(), it.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(it) => (it.is_unicast_link_local(), it.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if multicast {
        faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
}

/// Faults of a CIDR in a field that also takes other spellings than the canonical one.
pub fn cidr(text: &str) -> Vec<String> {
    let Ok(Reading { flaws, .. }) = Cidr::tolerant(text) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()];
    };
    let fault = match flaws.first() {
        Some(Flaw::LeadingZeros) => "must not have leading 0s in IP or prefix length",
        Some(Flaw::Mapped) => "must not have an IPv4-mapped IPv6 address",
        Some(Flaw::HostBits) => "must not have bits set beyond the prefix length",
        Some(Flaw::Spelling) | None => return Vec::new(),
    };
    vec![fault.to_owned()]
}

/// Faults of a CIDR that has to be written in its one canonical way.
pub fn canonical_cidr(text: &str) -> Vec<String> {
    let mut faults = cidr(text);
    if faults.is_empty()
        && let Ok(Reading { value, flaws }) = Cidr::tolerant(text)
        && !flaws.is_empty()
    {
        faults.push(format!("must be in canonical form (\"{value}\")"));
    }
    faults
}

/// What to say of an address that is accepted and should be written otherwise.
pub fn address_warning(field: impl fmt::Display, text: &str) -> Option<String> {
    let Reading { value, flaws } = space::tolerant_address(text).ok()?;
    match flaws.first()? {
        Flaw::Spelling => {
            Some(format!("{field}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{value}\")"))
        }
        _ => Some(format!("{field}: non-standard IP address {text:?} is invalid: use \"{value}\"")),
    }
}

/// What to say of a CIDR that is accepted and should be written otherwise.
pub fn cidr_warning(field: &str, text: &str) -> Option<String> {
    let Reading { value, flaws } = Cidr::tolerant(text).ok()?;
    flaws
        .first()
        .map(|_| format!("{field}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{value}\")"))
}

/// The address in a text, read by its meaning.
pub fn read_address(text: &str) -> Option<IpAddr> {
    space::tolerant_address(text).ok().map(|reading| reading.value)
}

fn subdomain_in(name: &str, unit: &str) -> Vec<String> {
    let mut faults = too_long(name, SUBDOMAIN_LENGTH, unit);
    if !is_subdomain(name) {
        faults.push(pattern_fault(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            &["example.com"],
        ));
    }
    faults
}

/// A prefix of a name may end in a dash, because something will follow it.
fn masked(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => {
            let mut masked: String = stem.chars().take(stem.chars().count() - 1).collect();
            masked.push('a');
            masked.into()
        }
        _ => name.into(),
    }
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().all(|byte| inner(byte) || byte == b'-')
        && name.bytes().next().is_some_and(inner)
        && name.bytes().next_back().is_some_and(inner)
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_name_part(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

fn too_long(text: &str, limit: usize, unit: &str) -> Vec<String> {
    if text.len() > limit { vec![format!("must be no more than {limit} {unit}")] } else { Vec::new() }
}

fn pattern_fault(words: &str, pattern: &str, examples: &[&str]) -> String {
    let examples = examples.iter().map(|one| format!("'{one}', ")).collect::<Vec<_>>().join(" or ");
    format!("{words} (e.g. {examples}regex used for validation is '{pattern}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: impl Fn(&str) -> Vec<String>, good: &[&str], bad: &[(&str, &str)]) {
        for name in good {
            assert_eq!(rule(name), Vec::<String>::new(), "{name:?}");
        }
        for (name, part) in bad {
            let faults = rule(name).join("; ");
            assert!(faults.contains(part), "{name:?}: {faults:?}");
        }
    }

    #[test]
    fn names_are_labels_or_subdomains_of_limited_length() {
        let long = "a".repeat(64);
        let longer = vec!["a".repeat(60); 5].join(".");
        check(
            |name| label(name, false),
            &["a", "1bad", "a-b"],
            &[
                ("a.b", "must not contain dots"),
                ("-a", "(e.g. 'my-name',  or '123-abc', regex used"),
                (&long, "no more than 63 characters"),
                ("", "RFC 1123 label"),
                ("A", "RFC 1123 label"),
            ],
        );
        check(
            |name| label_1035(name, false),
            &["a", "a-b"],
            &[
                ("1bad", "a DNS-1035 label must"),
                ("a.b", "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"),
            ],
        );
        check(
            |name| subdomain(name, false),
            &["a", "a.b-c.1"],
            &[
                ("a..b", "(e.g. 'example.com', regex used"),
                (&longer, "must be no more than 253 characters"),
                ("a_b", "RFC 1123 subdomain"),
            ],
        );
        check(
            |name| path_segment(name, false),
            &["a:b", "..a"],
            &[("..", "may not be '..'"), ("a/b%", "may not contain '/'; may not contain '%'")],
        );
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(!subdomain("a-", false).is_empty());
        assert!(subdomain("a-", true).is_empty());
        assert!(subdomain("-", true) == subdomain("-", false));
        assert!(label("a.-", true).is_empty(), "the character before the dash is masked with it");
    }

    #[test]
    fn label_keys_may_have_a_domain() {
        check(
            qualified_name,
            &["a", "A_b.c", "example.com/a"],
            &[
                ("", "name part must be non-empty; name part must consist"),
                ("/a", "prefix part must be non-empty"),
                ("A/a", "prefix part a lowercase RFC 1123 subdomain"),
                ("a/b/c", "a valid label key must consist of alphanumeric characters"),
                (
                    "-a",
                    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ),
            ],
        );
        check(
            label_value,
            &["", "a_B.c"],
            &[("a b", "a valid label must be an empty string"), (&"a".repeat(64), "no more than 63 bytes")],
        );
    }

    #[test]
    fn keys_and_port_names_have_their_own_rules() {
        check(
            config_key,
            &["a", ".a", "A_b"],
            &[
                ("", "a valid config key"),
                ("..", "must not be '..'"),
                ("..a", "must not start with '..'"),
                ("a/b", "config key"),
            ],
        );
        check(
            port_name,
            &["http", "1a"],
            &[
                ("", "must contain only"),
                ("80", "at least one letter"),
                ("a--b", "consecutive"),
                ("-a", "begin or end"),
                ("abcdefghijklmnop", "no more than 15 characters"),
            ],
        );
        check(environment_name, &["A", "a-b.c", "1"], &[("", "must be non-empty"), ("a=b", "other than '='")]);
    }

    #[test]
    fn addresses_say_how_they_should_be_written() {
        check(
            |text| canonical_address(text, false),
            &["10.0.0.1", "fd00::1"],
            &[
                ("x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
                ("010.0.0.1", "must not have leading 0s"),
                ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
                ("FD00::1", "must be in canonical form (\"fd00::1\")"),
            ],
        );
        check(
            canonical_cidr,
            &["10.0.0.0/8", "fd00::/64"],
            &[
                ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
                ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
                ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
                ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
                ("FD00::/64", "must be in canonical form (\"fd00::/64\")"),
            ],
        );
        check(
            endpoint_address,
            &["10.0.0.1", "fd00::1"],
            &[
                ("x", "must be a valid IP address"),
                ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
                ("127.1.2.3", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
                ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
                ("224.0.0.9", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
                ("ff12::1", "link-local multicast"),
            ],
        );
        assert_eq!(address("FD00::1"), Vec::<String>::new());
        assert_eq!(address_warning("spec.clusterIP", "10.0.0.1"), None);
        assert!(address_warning("spec.clusterIP", "FD00::1").unwrap().contains("RFC 5952"));
    }
}
