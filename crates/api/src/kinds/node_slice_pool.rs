//! `NodeSlicePool`s of whereabouts: which node holds which slice of a range.

use super::custom::{CUSTOM, PLAIN};
use crate::kind::{Kind, Stored};

pub(super) static KIND: Kind = Kind {
    group: "whereabouts.cni.cncf.io",
    version: "v1alpha1",
    kind: "NodeSlicePool",
    plural: "nodeslicepools",
    singular: "nodeslicepool",
    stored: Stored {
        prefix: "nodeslicepools.whereabouts.cni.cncf.io",
        api_version: "whereabouts.cni.cncf.io/v1alpha1",
    },
    schema: "io.cncf.cni.whereabouts.v1alpha1.NodeSlicePool",
    custom: Some(&PLAIN),
    ..CUSTOM
};

#[cfg(test)]
mod tests {
    use super::super::checking::check_creates;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_says_how_it_is_cut_and_who_has_which_slice() {
        let spec = json!({"range": "10.0.0.0/8", "sliceSize": "/20"});
        check_creates(
            &KIND,
            &[
                (
                    json!({"spec": spec, "status": {"allocations": [{"nodeName": "", "sliceRange": "10.0.0.0/20"}]}}),
                    &[],
                ),
                (
                    json!({"spec": {}, "status": {"allocations": [{"nodeName": "a"}]}}),
                    &[
                        "spec.range: Required value",
                        "spec.sliceSize: Required value",
                        "status.allocations[0].sliceRange: Required value",
                    ],
                ),
                (json!({"spec": spec, "status": {}}), &["status.allocations: Required value"]),
            ],
        );
    }
}
