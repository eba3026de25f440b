//! The file that the configurations of all networks share: where it is, and how it fills in what one of them does not say.
//!
//! It is a bare `ipam` object. Nobody has to have one.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::field::find_mut;
use crate::failure::{Code, Failure};

/// Where it is looked for, besides where `configuration_path` says; the first that is there counts.
const PLACES: [&str; 4] = [
    "/etc/cni/net.d/cadastre.d/cadastre.conf",
    "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
    "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
    "/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];
/// The names that it has in a folder.
const NAMES: [&str; 2] = ["cadastre.conf", "whereabouts.conf"];
/// What it does not fill in: the type is the network's own, and whereabouts has never looked at the other one here.
const OWN: [&str; 2] = ["type", "enable_overlapping_ranges"];

/// The file that is there, and its text.
pub type Flat = Option<(PathBuf, String)>;

/// Looks for the file. `configuration_path` may be the file or the folder that it is in, or empty.
pub fn look(configuration_path: &str) -> Result<Flat, Failure> {
    let configured = Path::new(configuration_path);
    let named = (!configuration_path.is_empty()).then(|| configured.to_owned());
    let inside = NAMES.iter().filter(|_| !configuration_path.is_empty()).map(|name| configured.join(name));
    for path in named.into_iter().chain(inside).chain(PLACES.iter().map(PathBuf::from)) {
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(Failure::new(Code::Io, format!("cannot read {}: {error}", path.display()))),
        }
    }
    Ok(None)
}

/// Nothing is there, or a folder, or something that a path cannot lead through.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory)
}

/// Fills in what `ipam` does not say. Objects are filled in field by field, lists as a whole.
pub(super) fn merge(ipam: &mut Map<String, Value>, flat: &Flat) -> Result<(), Failure> {
    let Some((path, text)) = flat else { return Ok(()) };
    let refused = |why: String| Failure::new(Code::Config, format!("{}: {why}", path.display()));
    let tree: Value = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    let Value::Object(shared) = tree else { return Err(refused("an object was expected".to_owned())) };
    fill(ipam, shared, &OWN);
    Ok(())
}

fn fill(map: &mut Map<String, Value>, shared: Map<String, Value>, own: &[&str]) {
    for (key, value) in shared {
        if own.iter().any(|own| own.eq_ignore_ascii_case(&key)) {
            continue;
        }
        match (find_mut(map, &key), value) {
            (Some(Value::Object(said)), Value::Object(shared)) if !said.is_empty() => fill(said, shared, &[]),
            (Some(said), _) if !is_zero(said) => {}
            (Some(said), value) => *said = value,
            (None, value) => drop(map.insert(key, value)),
        }
    }
}

/// What says as much as nothing at all.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut ipam: Value, shared: &Value) -> Value {
        merge(ipam.as_object_mut().unwrap(), &Some(("flat".into(), shared.to_string()))).unwrap();
        ipam
    }

    #[test]
    fn what_a_network_says_comes_before_what_all_share() {
        let shared = json!({"range": "10.0.0.0/8", "Log_Level": "debug", "kubernetes": {"kubeconfig": "/k", "k8s_api_root": "r"},
            "exclude": ["10.0.0.0/24"], "type": "other", "enable_overlapping_ranges": false});
        let ipam = json!({"type": "cadastre", "Range": "10.9.0.0/16", "log_level": "", "kubernetes": {"kubeconfig": "/own"},
            "exclude": ["10.9.0.0/24", "10.9.1.0/24"]});
        let expected = json!({"type": "cadastre", "Range": "10.9.0.0/16", "log_level": "debug",
            "kubernetes": {"kubeconfig": "/own", "k8s_api_root": "r"}, "exclude": ["10.9.0.0/24", "10.9.1.0/24"]});
        assert_eq!(merged(ipam, &shared), expected);
        assert_eq!(merged(json!({"exclude": []}), &json!({"exclude": ["a"]})), json!({"exclude": ["a"]}));
    }

    #[test]
    fn a_file_that_is_no_object_is_told_by_name() {
        for (text, told) in [("[]", "an object was expected"), ("{", "EOF")] {
            let flat = Some(("/etc/flat.conf".into(), text.to_owned()));
            let failure = merge(&mut Map::new(), &flat).unwrap_err();
            assert_eq!(failure.code, Code::Config);
            assert!(failure.message.starts_with("/etc/flat.conf: ") && failure.message.contains(told), "{failure}");
        }
        assert!(merge(&mut Map::new(), &None).is_ok());
    }

    #[test]
    fn it_is_found_as_a_file_or_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whereabouts.conf");
        fs::write(&path, "{}").unwrap();
        for configured in [path.as_path(), folder.path()] {
            let found = look(configured.to_str().unwrap()).unwrap();
            assert_eq!(found, Some((path.clone(), "{}".to_owned())));
        }
    }
}
