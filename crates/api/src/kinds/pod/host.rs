//! The rules for what a pod asks of the machine it runs on: a name of its own for it, and settings of the kernel.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::reading::{flag, items, text};
use crate::{meta, names};

const LONGEST_NAME: usize = 64;
const LONGEST_SETTING: usize = 253;
/// As clients are told it.
const SETTING: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// A name that replaces the hostname must be the only one, and one that a machine can have.
pub(super) fn validate_name(spec: &Value, errors: &mut Errors) {
    let Some(name) = spec.get("hostnameOverride").and_then(Value::as_str) else { return };
    let path = Path::new("spec").child("hostnameOverride");
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if flag(spec, other) {
            errors.forbidden(&path, format_args!("may not be specified when {other} is true"));
        }
    }
    if name.len() > LONGEST_NAME {
        errors.too_long(&path, LONGEST_NAME);
    }
    meta::invalid_text(&path, name, names::subdomain(name, false), errors);
}

/// A pod with users of its own shares nothing else with the machine either. The odd names of two fields are as clients know them.
pub(super) fn validate_users(spec: &Value, errors: &mut Errors) {
    if spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true) {
        return;
    }
    let path = Path::new("spec");
    let why = "when `hostUsers` is false";
    for (field, told) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, field) {
            errors.forbidden(&path.child(told), why);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            if !items(container, "volumeDevices").is_empty() {
                errors.forbidden(&path.child(list).index(index).child("volumeDevices"), why);
            }
        }
    }
}

/// Settings of the kernel are named as the kernel does it, each once.
pub(super) fn validate_settings(spec: &Value, errors: &mut Errors) {
    let Some(context) = spec.get("securityContext") else { return };
    let mut seen = HashSet::new();
    for (index, setting) in items(context, "sysctls").iter().enumerate() {
        let path = Path::new("spec").child("securityContext").child("sysctls").index(index).child("name");
        let name = text(setting, "name");
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_setting(name) {
            let detail = format!("must have at most {LONGEST_SETTING} characters and match regex {SETTING}");
            errors.invalid(&path, &Value::from(name), detail);
        } else if seen.contains(name) {
            errors.duplicate(&path, &Value::from(name));
        }
        seen.insert(name);
    }
}

fn is_setting(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let segment = |segment: &str| {
        let bytes = segment.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|byte| plain(*byte)))
            && bytes.iter().all(|byte| plain(*byte) || b"-_".contains(byte))
    };
    name.len() <= LONGEST_SETTING && name.split(['.', '/']).all(segment)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::checking::create_faults;
    use super::super::KIND;
    use super::*;

    fn faults(mut spec: Value) -> Vec<String> {
        spec["containers"] = json!([{"name": "a", "image": "x"}]);
        create_faults(&KIND, json!({"spec": spec}))
    }

    #[test]
    fn a_pod_with_users_of_its_own_shares_nothing_with_its_machine() {
        let spec = json!({
            "hostNetwork": true, "hostPID": true, "hostIPC": true,
            "containers": [{}, {"volumeDevices": [{"name": "v"}]}], "initContainers": [{"volumeDevices": [{"name": "v"}]}],
        });
        let found = |users: Value| {
            let mut spec = spec.clone();
            spec["hostUsers"] = users;
            let mut errors = Errors::new();
            validate_users(&spec, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!((found(json!(true)), found(json!(null))), (Vec::new(), Vec::new()));
        let fields =
            ["hostNetwork", "HostPID", "HostIPC", "initContainers[0].volumeDevices", "containers[1].volumeDevices"];
        let why = fields.map(|field| format!("spec.{field}: Forbidden: when `hostUsers` is false"));
        assert_eq!(found(json!(false)), why);
    }

    #[test]
    fn a_name_that_replaces_the_hostname_is_the_only_one_and_a_good_one() {
        assert_eq!(faults(json!({"hostnameOverride": "a.b"})), [""; 0]);
        assert_eq!(
            faults(json!({"hostnameOverride": "a", "setHostnameAsFQDN": true, "hostNetwork": true})),
            [
                "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            ]
        );
        let long = "a".repeat(65);
        assert_eq!(
            faults(json!({ "hostnameOverride": long })),
            ["spec.hostnameOverride: Too long: may not be more than 64 bytes"]
        );
        let [bad] = faults(json!({"hostnameOverride": "A"})).try_into().unwrap();
        assert!(
            bad.starts_with("spec.hostnameOverride: Invalid value: \"A\": a lowercase RFC 1123 subdomain"),
            "{bad}"
        );
    }

    #[test]
    fn settings_of_the_kernel_have_names_and_are_given_once() {
        let settings = |names: &[&str]| {
            let settings: Vec<_> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
            faults(json!({"securityContext": {"sysctls": settings}}))
        };
        assert_eq!(settings(&["kernel.shmmax", "net/ipv4/a.b", "a-b_c"]), [""; 0]);
        let wrong = |index: usize, name: &str| {
            format!(
                "spec.securityContext.sysctls[{index}].name: Invalid value: \"{name}\": must have at most 253 characters \
                 and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            )
        };
        assert_eq!(settings(&["foo-", "bar..", "A"]), [wrong(0, "foo-"), wrong(1, "bar.."), wrong(2, "A")]);
        assert_eq!(
            settings(&["a", "a", ""]),
            [
                "spec.securityContext.sysctls[1].name: Duplicate value: \"a\"",
                "spec.securityContext.sysctls[2].name: Required value",
            ]
        );
    }
}
