//! Which resources are served, and where each is kept.

use std::collections::HashMap;
use std::sync::LazyLock;

use api::Kind;

/// A resource: a kind, and what is worked out of its declaration once.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: &'static Kind,
    /// `apiVersion` of its objects.
    pub(crate) api_version: String,
    /// What every encoded object of it begins with: `{"kind":"Service","apiVersion":"v1"`.
    pub(crate) front: String,
    /// What every stored object of it begins with. Differs from `front` if it is a view of another kind.
    pub(crate) stored_front: String,
    /// What can be asked of its objects, by name.
    questions: Vec<(&'static str, Resource)>,
}

impl Resource {
    fn new(kind: &'static Kind) -> Self {
        let front = |api_version: &str| format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\"", kind.kind);
        let api_version = kind.api_version();
        let questions = kind.questions.iter().map(|question| (question.name, Self::new(question.kind))).collect();
        Self { front: front(&api_version), stored_front: front(kind.stored.api_version), questions, api_version, kind }
    }

    /// Whether objects are served as the bytes that are stored.
    pub(crate) fn is_stored_form(&self) -> bool {
        self.front == self.stored_front && self.kind.conversion.is_none()
    }

    /// What is asked at that part of an object, if something is.
    pub(crate) fn question(&self, name: &str) -> Option<&Self> {
        self.questions.iter().find(|(known, _)| *known == name).map(|(_, resource)| resource)
    }

    /// The key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.kind.is_namespaced() {
            format!("{}/{namespace}/{name}", self.kind.stored.prefix)
        } else {
            format!("{}/{name}", self.kind.stored.prefix)
        }
    }

    /// What the keys of all objects begin with: of one namespace, or of all where it is empty.
    pub(crate) fn prefix(&self, namespace: &str) -> String {
        if self.kind.is_namespaced() && !namespace.is_empty() {
            format!("{}/{namespace}/", self.kind.stored.prefix)
        } else {
            format!("{}/", self.kind.stored.prefix)
        }
    }
}

/// A version of a group, with its resources in the order in which they are declared.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) resources: Vec<Resource>,
}

/// All resources.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// In order: the first version of a group is the preferred one.
    versions: Vec<Version>,
    index: HashMap<(&'static str, &'static str, &'static str), (usize, usize)>,
}

/// The catalog of all kinds that are declared.
pub(crate) fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(api::kinds::all()));
    &CATALOG
}

impl Catalog {
    fn new(kinds: impl IntoIterator<Item = &'static Kind>) -> Self {
        let mut versions: Vec<Version> = Vec::new();
        let mut index = HashMap::new();
        for kind in kinds {
            let same = |known: &Version| known.group == kind.group && known.name == kind.version;
            let at = versions.iter().position(same).unwrap_or_else(|| {
                versions.push(Version { group: kind.group, name: kind.version, resources: Vec::new() });
                versions.len() - 1
            });
            index.insert((kind.group, kind.version, kind.plural), (at, versions[at].resources.len()));
            versions[at].resources.push(Resource::new(kind));
        }
        Self { versions, index }
    }

    /// The resource of that name.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        let &(at, position) = self.index.get(&(group, version, plural))?;
        Some(&self.versions[at].resources[position])
    }

    /// All versions of all groups.
    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// One version of a group.
    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&Version> {
        self.versions.iter().find(|known| known.group == group && known.name == version)
    }

    /// The groups, each once, the core group first if it is there.
    pub(crate) fn groups(&self) -> Vec<&'static str> {
        let mut groups = Vec::new();
        for version in &self.versions {
            if !groups.contains(&version.group) {
                groups.push(version.group);
            }
        }
        groups
    }
}
