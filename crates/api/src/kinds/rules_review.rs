//! Rules reviews: what may I do in a namespace?

use crate::kind::{Kind, Scope, Stored};

pub(super) static KIND: Kind = Kind {
    group: "authorization.k8s.io",
    kind: "SelfSubjectRulesReview",
    plural: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    scope: Scope::Cluster,
    is_question: true,
    stored: Stored { prefix: "", api_version: "authorization.k8s.io/v1" },
    schema: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    ..Kind::BASE
};
