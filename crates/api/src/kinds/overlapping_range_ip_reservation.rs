//! `OverlappingRangeIPReservation`s of whereabouts: an address that is taken in every range that holds it.

use super::custom::{CUSTOM, PLAIN};
use crate::crd::Custom;
use crate::kind::{Kind, Stored};

pub(super) static KIND: Kind = Kind {
    group: "whereabouts.cni.cncf.io",
    version: "v1alpha1",
    kind: "OverlappingRangeIPReservation",
    plural: "overlappingrangeipreservations",
    singular: "overlappingrangeipreservation",
    stored: Stored {
        prefix: "overlappingrangeipreservations.whereabouts.cni.cncf.io",
        api_version: "whereabouts.cni.cncf.io/v1alpha1",
    },
    schema: "io.cncf.cni.whereabouts.v1alpha1.OverlappingRangeIPReservation",
    custom: Some(&Custom { required: &["spec"], ..PLAIN }),
    ..CUSTOM
};

#[cfg(test)]
mod tests {
    use super::super::checking::check_creates;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reservation_says_for_whom_it_is() {
        check_creates(
            &KIND,
            &[
                (json!({"spec": {"podref": "a/b"}}), &[]),
                (json!({}), &["spec: Required value"]),
                (json!({"spec": {"ifname": "eth0"}}), &["spec.podref: Required value"]),
            ],
        );
    }
}
