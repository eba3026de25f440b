//! The rules for what a pod and its containers may do on their node, and for what they look up names with.

use serde_json::Value;

use super::{host, volumes};
use crate::field::{Errors, Path};
use crate::reading::{flag, items, number, text, texts};
use crate::{meta, names};

const MOST_NAMESERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCHES: usize = 2048;

/// What concerns the pod as a whole.
pub(super) fn validate_pod(spec: &Value, errors: &mut Errors) {
    let Some(context) = spec.get("securityContext") else { return };
    let path = Path::new("spec").child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&path.child(name), number(context, name), errors);
    }
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        validate_id(&path.child("supplementalGroups").index(index), group.as_i64(), errors);
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), &Value::from(true), why);
    }
    host::validate_settings(spec, errors);
    supported(&path, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    validate_profiles(&path, context, errors);
    supported(&path, context, "supplementalGroupsPolicy", &["Merge", "Strict"], errors);
}

/// What concerns one container.
pub(super) fn validate_container(path: &Path, container: &Value, host_users: bool, errors: &mut Errors) {
    let Some(context) = container.get("securityContext").filter(|context| context.is_object()) else { return };
    let path = path.child("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        validate_id(&path.child(name), number(context, name), errors);
    }
    supported(&path, context, "procMount", &["Default", "Unmasked"], errors);
    if host_users && text(context, "procMount") == "Unmasked" {
        errors.invalid(
            &path.child("procMount"),
            &Value::from("Unmasked"),
            "`hostUsers` must be false to use `Unmasked`",
        );
    }
    validate_profiles(&path, context, errors);
}

fn validate_id(path: &Path, id: Option<i64>, errors: &mut Errors) {
    let most = i64::from(i32::MAX);
    if let Some(id) = id
        && !(0..=most).contains(&id)
    {
        errors.invalid(path, &Value::from(id), names::between(0, most));
    }
}

fn supported(path: &Path, context: &Value, name: &str, values: &[&str], errors: &mut Errors) {
    if let Some(value) = context.get(name).and_then(Value::as_str)
        && !values.contains(&value)
    {
        errors.not_supported(&path.child(name), &Value::from(value), values);
    }
}

fn validate_profiles(path: &Path, context: &Value, errors: &mut Errors) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    let profile = |name: &str| context.get(name).filter(|profile| profile.is_object());
    if let Some(seccomp) = profile("seccompProfile") {
        let (path, kind) = (path.child("seccompProfile"), text(seccomp, "type"));
        if kind.is_empty() {
            errors.required(&path.child("type"), "type is required when seccompProfile is set");
        } else if !TYPES.contains(&kind) {
            errors.not_supported(&path.child("type"), &Value::from(kind), &TYPES);
        }
        match seccomp.get("localhostProfile").and_then(Value::as_str) {
            None if kind == "Localhost" => {
                errors.required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost");
            }
            Some(file) if kind == "Localhost" => volumes::within(&path.child("localhostProfile"), file, errors),
            Some(_) => {
                let shown =
                    format!("{{\"Type\":{kind:?},\"LocalhostProfile\":{:?}}}", text(seccomp, "localhostProfile"));
                let why = "can only be set when seccomp type is Localhost";
                errors.invalid_shown(&path.child("localhostProfile"), &shown, why);
            }
            None => {}
        }
    }
    if let Some(armor) = profile("appArmorProfile") {
        let (path, kind) = (path.child("appArmorProfile"), text(armor, "type"));
        let file = armor.get("localhostProfile").and_then(Value::as_str);
        match (kind, file) {
            ("Localhost", None | Some("")) => {
                errors.required(&path.child("localhostProfile"), "must be set when AppArmor type is Localhost");
            }
            ("Localhost", Some(file)) if file.trim() != file => {
                let why = "must not be padded with whitespace";
                errors.invalid(&path.child("localhostProfile"), &Value::from(file), why);
            }
            ("RuntimeDefault" | "Unconfined", Some(file)) => {
                let why = "can only be set when AppArmor type is Localhost";
                errors.invalid(&path.child("localhostProfile"), &Value::from(file), why);
            }
            ("", _) => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
            (kind, _) if !TYPES.contains(&kind) => {
                errors.not_supported(&path.child("type"), &Value::from(kind), &TYPES);
            }
            _ => {}
        }
    }
}

/// How a pod looks up names.
pub(super) fn validate_dns(spec: &Value, errors: &mut Errors) {
    let path = Path::new("spec").child("dnsConfig");
    let config = spec.get("dnsConfig").filter(|config| config.is_object());
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if items(config, "nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&path.child("nameservers"), why);
        }
    }
    let Some(config) = config else { return };
    let (servers, searches): (Vec<_>, Vec<_>) =
        (texts(config, "nameservers").collect(), texts(config, "searches").collect());
    if servers.len() > MOST_NAMESERVERS {
        let why = format!("must not have more than {MOST_NAMESERVERS} nameservers");
        errors.invalid(&path.child("nameservers"), &Value::from(servers.clone()), why);
    }
    for (index, server) in servers.iter().enumerate() {
        meta::invalid_text(&path.child("nameservers").index(index), server, names::address(server), errors);
    }
    if searches.len() > MOST_SEARCHES {
        let why = format!("must not have more than {MOST_SEARCHES} search paths");
        errors.invalid(&path.child("searches"), &Value::from(searches.clone()), why);
    }
    if searches.join(" ").len() > LONGEST_SEARCHES {
        let why =
            format!("must not have more than {LONGEST_SEARCHES} characters (including spaces) in the search list");
        errors.invalid(&path.child("searches"), &Value::from(searches.clone()), why);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        meta::invalid_text(
            &path.child("searches").index(index),
            search,
            names::subdomain_with_underscores(search),
            errors,
        );
    }
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&path.child("options").index(index), "must not be empty");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_pod(spec, &mut errors);
        validate_dns(spec, &mut errors);
        for container in items(spec, "containers") {
            validate_container(&Path::new("c"), container, true, &mut errors);
        }
        errors.iter().map(|error| error.to_string().replacen("spec.", "", 1)).collect()
    }

    #[test]
    fn users_groups_and_settings_are_within_their_limits() {
        let range = "must be between 0 and 2147483647, inclusive";
        assert_eq!(
            faults(&json!({
                "securityContext": {
                    "runAsUser": -1, "supplementalGroups": [1, -2], "fsGroupChangePolicy": "X",
                    "seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "X"},
                },
                "containers": [{"securityContext": {"runAsGroup": -1, "procMount": "Unmasked", "seccompProfile": {"type": "Localhost", "localhostProfile": "/x"}}}],
            })),
            [
                format!("securityContext.runAsUser: Invalid value: -1: {range}"),
                format!("securityContext.supplementalGroups[1]: Invalid value: -2: {range}"),
                "securityContext.fsGroupChangePolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnRootMismatch\"".to_owned(),
                "securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost".to_owned(),
                "securityContext.appArmorProfile.type: Unsupported value: \"X\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"".to_owned(),
                format!("c.securityContext.runAsGroup: Invalid value: -1: {range}"),
                "c.securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`".to_owned(),
                "c.securityContext.seccompProfile.localhostProfile: Invalid value: \"/x\": must be a relative path".to_owned(),
            ]
        );
    }

    #[test]
    fn names_are_looked_up_somewhere() {
        assert_eq!(
            faults(&json!({"dnsPolicy": "None"})),
            ["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]
        );
        let found = faults(&json!({"dnsConfig": {
            "nameservers": ["1.1.1.1", "x", "1.1.1.3", "1.1.1.4"], "searches": ["a_b.c.", ".", "Bad"], "options": [{}],
        }}));
        assert_eq!(
            found[0],
            "dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"x\",\"1.1.1.3\",\"1.1.1.4\"]: must not have more than 3 nameservers"
        );
        assert!(
            found[1].starts_with("dnsConfig.nameservers[1]: Invalid value: \"x\"")
                && found[2].starts_with("dnsConfig.searches[2]"),
            "{found:?}"
        );
        assert_eq!(found[3..], ["dnsConfig.options[0]: Required value: must not be empty"]);
    }
}
