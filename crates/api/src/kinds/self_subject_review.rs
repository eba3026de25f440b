//! Self subject reviews: who am I?

use crate::kind::{Kind, Scope, Stored};

pub(super) static KIND: Kind = Kind {
    group: "authentication.k8s.io",
    kind: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
    scope: Scope::Cluster,
    is_question: true,
    stored: Stored { prefix: "", api_version: "authentication.k8s.io/v1" },
    schema: "io.k8s.api.authentication.v1.SelfSubjectReview",
    ..Kind::BASE
};
