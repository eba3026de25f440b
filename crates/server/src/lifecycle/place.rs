//! `Place`: what a key of the store names, and its path in the API.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::machinery::{Resource, catalog};

/// An object's place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) resource: &'static Resource,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The resources as which objects are stored, by the first part of their keys.
static STORED: LazyLock<HashMap<&'static str, &'static Resource>> = LazyLock::new(|| {
    let all = catalog().versions().iter().flat_map(|version| &version.resources);
    let stored = all.filter(|resource| !resource.kind.is_question && resource.is_stored_form());
    stored.map(|resource| (resource.kind.stored.prefix, resource)).collect()
});

impl Place {
    /// What that key names; nothing if it is none of a kind that is served.
    pub(super) fn of(key: &str) -> Option<Self> {
        let mut parts = key.split('/');
        let resource = *STORED.get(parts.next()?)?;
        let namespace = if resource.kind.is_namespaced() { parts.next()? } else { "" };
        let name = parts.next()?;
        parts.next().is_none().then(|| Self { resource, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub(super) fn key(&self) -> String {
        self.resource.key(&self.namespace, &self.name)
    }

    /// Where requests about the object go, or about a part of it.
    pub(super) fn path(&self, part: &str) -> String {
        let slash = if part.is_empty() { "" } else { "/" };
        format!("{}/{}{slash}{part}", collection(self.resource, &self.namespace), self.name)
    }
}

/// Where new objects of a resource are sent.
pub(super) fn collection(resource: &Resource, namespace: &str) -> String {
    let kind = resource.kind;
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    if kind.is_namespaced() {
        format!("{root}/{}/namespaces/{namespace}/{}", resource.api_version, kind.plural)
    } else {
        format!("{root}/{}/{}", resource.api_version, kind.plural)
    }
}

/// The namespace that a key is in, if its kind lives in one.
pub(super) fn namespace_of(key: &str) -> Option<&str> {
    let (prefix, rest) = key.split_once('/')?;
    STORED.get(prefix).filter(|resource| resource.kind.is_namespaced())?;
    rest.split_once('/').map(|(namespace, _)| namespace)
}

/// The resources that are stored in namespaces.
pub(super) fn namespaced() -> impl Iterator<Item = &'static Resource> {
    STORED.values().copied().filter(|resource| resource.kind.is_namespaced())
}

/// The resource that an owner reference names.
pub(super) fn referred(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let all = catalog().versions().iter().flat_map(|version| &version.resources);
    all.into_iter().find(|resource| resource.api_version == api_version && resource.kind.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_place_name_the_same_object() {
        for (key, path) in [
            ("configmaps/a/b", "/api/v1/namespaces/a/configmaps/b"),
            ("namespaces/a", "/api/v1/namespaces/a"),
            ("nodes/a", "/api/v1/nodes/a"),
        ] {
            let place = Place::of(key).unwrap();
            assert_eq!((place.path("").as_str(), place.key().as_str()), (path, key));
        }
        assert!(Place::of("nonsense/a").is_none() && Place::of("configmaps/a").is_none());
        assert_eq!(namespace_of("configmaps/a/b"), Some("a"));
        assert_eq!(namespace_of("nodes/a"), None);
    }

    #[test]
    fn every_kind_has_one_place() {
        for kind in api::kinds::KINDS {
            assert!(STORED.contains_key(kind.stored.prefix), "{}", kind.plural);
        }
    }
}
