//! What the ports of Services, endpoints and containers have in common.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::reading::{number, text};
use crate::{meta, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Notes a number in a field that is none of a port; an absent one is 0, which is none.
pub(super) fn validate_number(path: &Path, port: &Value, name: &str, errors: &mut Errors) {
    let number = number(port, name).unwrap_or(0);
    if let Some(fault) = names::port_number(number) {
        errors.invalid(&path.child(name), &Value::from(number), fault);
    }
}

/// Notes a protocol that is not known.
pub(super) fn validate_protocol(path: &Path, port: &Value, errors: &mut Errors) {
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(&path.child("protocol"), &Value::from(protocol), &PROTOCOLS);
    }
}

/// Notes what is wrong with the protocol of the application, if one is given.
pub(super) fn validate_app_protocol(path: &Path, port: &Value, errors: &mut Errors) {
    if let Some(name) = port.get("appProtocol").and_then(Value::as_str) {
        meta::invalid_text(&path.child("appProtocol"), name, names::qualified_name(name), errors);
    }
}

/// Notes what is wrong with a port that is given by its number or by its name.
pub(super) fn validate_number_or_name(path: &Path, port: Option<&Value>, errors: &mut Errors) {
    match port {
        Some(Value::String(name)) => meta::invalid_text(path, name, names::port_name(name), errors),
        other => {
            let number = other.and_then(Value::as_i64).unwrap_or(0);
            if let Some(fault) = names::port_number(number) {
                errors.invalid(path, &Value::from(number), fault);
            }
        }
    }
}
