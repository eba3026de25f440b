//! What kube-apiserver 1.36.3 is known to do wrong, so that ours is right to differ.

use anyhow::Result;

use super::side::{Side, Taken};
use super::steps::Step;

/// The fault of the real server that explains a difference, if one does.
pub(super) fn find(step: &Step, ours: &Taken, theirs: &Taken, real: &mut Side) -> Result<Option<&'static str>> {
    // A Service that is to become headless and of a family that the cluster does not have: the request ends in a panic.
    if theirs.code == 0 && ours.code == 422 {
        return Ok(Some("K1"));
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

/// The address that is said to be taken.
fn refused(message: &str) -> Option<&str> {
    let rest = message.split_once("failed to allocate IP ")?.1;
    rest.strip_suffix(": provided IP is already allocated")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_refusal() {
        let message = "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.2\"]: failed to allocate IP 10.96.0.2: provided IP is already allocated";
        assert_eq!(refused(message), Some("10.96.0.2"));
        assert_eq!(refused("range is full"), None);
    }
}
