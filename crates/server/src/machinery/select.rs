//! Which objects of a resource a request is about: a namespace, a name, selectors.

use api::selector::{FieldSelector, LabelSelector};
use store::Entry;

use super::catalog::Resource;
use super::facts::Facts;
use super::failure::Failure;
use super::path::Target;
use super::query::Query;

/// What a list, a watch or a collective delete is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// What the keys begin with; the whole key if it is about one name.
    pub(crate) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    /// Whether the fields have to be looked at although the key is known.
    looks_at_fields: bool,
}

impl Selection {
    /// Reads the selectors of a request.
    pub(crate) fn read(resource: &Resource, target: &Target, query: &Query) -> Result<Self, Failure> {
        let bad = |error: api::selector::SelectorError| Failure::bad_request(error.to_string());
        let labels = LabelSelector::parse(query.get("labelSelector")).map_err(bad)?;
        let fields = FieldSelector::parse(query.get("fieldSelector"), resource.kind).map_err(bad)?;
        let selected = fields.exact("metadata.name");
        if !target.name.is_empty() && !fields.is_empty() && selected != Some(target.name.as_str()) {
            return Err(Failure::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        let name = if target.name.is_empty() { selected.unwrap_or_default() } else { &target.name };
        let single = !name.is_empty() && (!resource.kind.is_namespaced() || !target.namespace.is_empty());
        let prefix = if single { resource.key(&target.namespace, name) } else { resource.prefix(&target.namespace) };
        let looks_at_fields = !(fields.is_empty() || single && fields.only("metadata.name"));
        Ok(Self { prefix, labels, fields, looks_at_fields })
    }

    /// Whether it is about everything under its prefix.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_empty() && !self.looks_at_fields
    }

    /// Whether there are selectors in it, be they about one name.
    pub(crate) fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether it is about that object.
    pub(crate) fn chooses(&self, resource: &Resource, entry: &Entry) -> bool {
        (self.labels.is_empty() || self.labels.matches(Some(Facts::of(entry).labels())))
            && (!self.looks_at_fields
                || Facts::of(entry).fields(resource, &entry.value).is_ok_and(|values| self.fields.matches(&values)))
    }
}
