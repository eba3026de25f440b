//! `IPPool`s of whereabouts: who holds which address of a range, by the offset in it.

use super::custom::{CUSTOM, PLAIN};
use crate::kind::{Kind, Stored};

pub(super) static KIND: Kind = Kind {
    group: "whereabouts.cni.cncf.io",
    version: "v1alpha1",
    kind: "IPPool",
    plural: "ippools",
    singular: "ippool",
    stored: Stored { prefix: "ippools.whereabouts.cni.cncf.io", api_version: "whereabouts.cni.cncf.io/v1alpha1" },
    schema: "io.cncf.cni.whereabouts.v1alpha1.IPPool",
    custom: Some(&PLAIN),
    ..CUSTOM
};

#[cfg(test)]
mod tests {
    use super::super::checking::check_creates;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_has_a_range_and_says_who_holds_what() {
        check_creates(
            &KIND,
            &[
                (json!({}), &[]),
                (json!({"spec": {"range": "10.0.0.0/8", "allocations": {"1": {"id": "a", "podref": "b"}}}}), &[]),
                (
                    json!({"spec": {"allocations": {"1": {"id": "a"}}}}),
                    &["spec.allocations.1.podref: Required value", "spec.range: Required value"],
                ),
                (json!({"spec": {"range": null}}), &["spec.allocations: Required value", "spec.range: Required value"]),
            ],
        );
    }
}
