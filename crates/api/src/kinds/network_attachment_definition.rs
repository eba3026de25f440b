//! `NetworkAttachmentDefinition`s: a network that pods can be attached to, with its CNI configuration.

use super::custom::{CUSTOM, PLAIN};
use crate::kind::{Kind, Stored};

pub(super) static KIND: Kind = Kind {
    group: "k8s.cni.cncf.io",
    kind: "NetworkAttachmentDefinition",
    plural: "network-attachment-definitions",
    singular: "network-attachment-definition",
    short_names: &["nad", "net-attach-def"],
    stored: Stored { prefix: "network-attachment-definitions.k8s.cni.cncf.io", api_version: "k8s.cni.cncf.io/v1" },
    schema: "io.cncf.cni.k8s.v1.NetworkAttachmentDefinition",
    custom: Some(&PLAIN),
    ..CUSTOM
};
