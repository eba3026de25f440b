//! What the kinds have in common that Kubernetes knows as custom resources: their writes name the revision they are based
//! on, and their generation counts. Which of their fields must be there, and of which type, is in their schema.

use std::collections::HashSet;

use crate::crd::Custom;
use crate::kind::{Column, Kind};
use crate::names;
use crate::object::Object;

/// A custom resource with nothing special about it.
pub(super) const CUSTOM: Kind = Kind {
    unconditional_update: false,
    counts_generation: true,
    warnings,
    columns: &[Column::NAME, Column { ty: "date", ..Column::AGE }],
    ..Kind::BASE
};

/// How one is declared to other servers whose schema says all that there is to say.
pub(super) const PLAIN: Custom = Custom { columns: &[], required: &[], constraints: &[] };

/// A bad finalizer of a custom resource is only warned of, when it comes.
fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let known: HashSet<_> = old.into_iter().flat_map(Object::finalizers).collect();
    let advice = |name: &str| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    };
    let mut warnings = Vec::new();
    for name in object.finalizers().filter(|name| !known.contains(name)) {
        let mut faults = names::qualified_name(name);
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            faults.push(advice(name));
        }
        warnings.extend(faults.iter().map(|fault| format!("metadata.finalizers: {name:?}: {fault}")));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_new_finalizer_without_a_domain_is_warned_of() {
        let with = |names: &[&str]| Object::from_value(json!({"metadata": {"finalizers": names}})).unwrap();
        let advice = "to avoid accidental conflicts with other finalizer writers";
        assert_eq!(
            warnings(&with(&["a", "a.b", "a.b/c", "orphan"]), None),
            [
                format!("metadata.finalizers: \"a\": prefer a domain-qualified finalizer name {advice}"),
                format!(
                    "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name including a path (/) {advice}"
                ),
            ]
        );
        assert_eq!(warnings(&with(&["a"]), Some(&with(&["a"]))), [""; 0]);
    }
}
