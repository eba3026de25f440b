//! What kube-apiserver 1.36.3 is known to do wrong, or to do otherwise by a row of docs/reference/compatibility.md, so that ours is
//! right to differ.

use anyhow::Result;
use serde_json::{Value, json};

use super::side::{Side, Taken};
use super::steps::Step;
use crate::e2e::method::Method;

/// The fault of the real server that explains a difference, if one does.
pub(super) fn find(step: &Step, ours: &Taken, theirs: &Taken, real: &mut Side) -> Result<Option<&'static str>> {
    if theirs.code == 0 && ours.code == 422 && step.method != Method::Post {
        let (there, families) = (real.spec(&step.name)?, real.families()?);
        return Ok(panics(&step.body["spec"], &there, &families).then_some("K1"));
    }
    if shows_no_list(ours, theirs) {
        return Ok(Some("addresses-of-external-names"));
    }
    // A refusal of the second family leaves the address of the first behind, and somebody else asks for that.
    if let Some(address) = refused(theirs.message())
        && real.has_leaked(address)?
    {
        return Ok(Some("B3"));
    }
    // Of two addresses that cannot be had, any is named.
    let both = step.body["spec"]["clusterIPs"].as_array().is_some_and(|list| list.len() == 2);
    let same = |taken: &Taken| taken.code == 422 && taken.message().contains("failed to allocate IP");
    Ok((both && same(ours) && same(theirs)).then_some("choice of the family that it names"))
}

/// Whether this is K1: a Service that has an address is to become headless, and of a family that the cluster does not have. The real
/// server then asks an allocator that is not there, and hangs up.
fn panics(asked: &Value, there: &Value, families: &[&str]) -> bool {
    let none = json!("None");
    let headless = asked["clusterIP"] == none || asked["clusterIPs"].as_array().is_some_and(|all| all.contains(&none));
    let has_address = there["clusterIP"].as_str().is_some_and(|address| !address.is_empty() && address != "None");
    // What is not asked for stays as it is.
    let said = |name: &str| if asked[name].is_null() { there[name].clone() } else { asked[name].clone() };
    let dual = said("ipFamilyPolicy").as_str().is_some_and(|policy| policy != "SingleStack");
    let other = said("ipFamilies")
        .as_array()
        .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|family| !families.contains(&family)));
    headless && has_address && families.len() == 1 && (dual || other)
}

/// Whether all that differs is that the real server shows the address which an `ExternalName` names as a list, too.
fn shows_no_list(ours: &Taken, theirs: &Taken) -> bool {
    let mut body = theirs.body.clone();
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    let list = spec.remove("clusterIPs");
    let is_shown = spec.get("type") == Some(&json!("ExternalName")) && list == Some(json!([spec.get("clusterIP")]));
    is_shown && ours.code == theirs.code && ours.body == body
}

/// The address that is said to be taken.
fn refused(message: &str) -> Option<&str> {
    let rest = message.split_once("failed to allocate IP ")?.1;
    rest.strip_suffix(": provided IP is already allocated")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_the_real_server_panic_is_excused_by_k1() {
        let there = json!({"clusterIP": "10.96.0.2", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
        let known = json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "PreferDualStack"});
        assert!(panics(&known, &there, &["IPv4"]));
        assert!(panics(&json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}), &there, &["IPv4"]));
        assert!(!panics(&known, &there, &["IPv4", "IPv6"]), "the cluster has both families");
        assert!(!panics(&known, &json!({"clusterIP": "None"}), &["IPv4"]), "it is headless already");
        assert!(!panics(&known, &Value::Null, &["IPv4"]), "it is not there");
        assert!(!panics(&json!({"clusterIP": "None"}), &there, &["IPv4"]), "it stays of its family");
        assert!(!panics(&json!({"ipFamilyPolicy": "PreferDualStack"}), &there, &["IPv4"]), "it stays with an address");
    }

    #[test]
    fn only_the_list_of_an_external_name_is_excused() {
        let taken = |code, spec: Value| Taken { code, body: json!({"spec": spec}) };
        let ours = taken(200, json!({"type": "ExternalName", "clusterIP": "fd00:96::2"}));
        let listed = |kind: &str| json!({"type": kind, "clusterIP": "fd00:96::2", "clusterIPs": ["fd00:96::2"]});
        assert!(shows_no_list(&ours, &taken(200, listed("ExternalName"))));
        assert!(!shows_no_list(&ours, &taken(201, listed("ExternalName"))));
        assert!(!shows_no_list(
            &taken(200, json!({"type": "NodePort", "clusterIP": "fd00:96::2"})),
            &taken(200, listed("NodePort"))
        ));
    }

    #[test]
    fn the_address_is_read_from_the_refusal() {
        let message = "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.2\"]: failed to allocate IP 10.96.0.2: provided IP is already allocated";
        assert_eq!(refused(message), Some("10.96.0.2"));
        assert_eq!(refused("range is full"), None);
    }
}
