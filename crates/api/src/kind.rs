//! `Kind`: what the server has to know of a resource kind, declared in one place.
//!
//! The server's machinery reads these declarations and knows no kind by name; a new kind is a file in `kinds/` with one
//! of these in it.

use crate::crd::Custom;
use crate::field::Errors;
use crate::object::Object;
use crate::row::Cell;

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// A part of an object with a path of its own under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `/status`: writes change `status` alone, and writes of the object leave it alone.
    Status,
    /// `/finalize`: writes change `spec.finalizers` alone (Namespaces).
    Finalize,
}

impl Subresource {
    /// Its name in paths and in discovery.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
        }
    }
}

/// What can be asked of an object, at a path of its own under it: `/token` of a `ServiceAccount`.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Its name in paths and in discovery.
    pub name: &'static str,
    /// The kind of what is asked; it is a question too.
    pub kind: &'static Kind,
}

/// Where a kind is stored. Kinds that are views of one another (versions, or the two kinds of Events) share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The first part of the keys: `services`, `clustercidrs.networking.x-k8s.io`.
    pub prefix: &'static str,
    /// `apiVersion` of the objects in the store.
    pub api_version: &'static str,
}

/// How a kind that is not stored as it is served comes from the stored form and goes to it.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// From the stored form to this kind. `apiVersion` and `kind` are set by the caller.
    pub from_stored: fn(Object) -> Object,
    /// From this kind to the stored form. `apiVersion` and `kind` are set by the caller.
    pub to_stored: fn(Object) -> Object,
}

/// A printer column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head: `Cluster-IP`.
    pub name: &'static str,
    /// The type of its cells: `string`, `integer`, `date`.
    pub ty: &'static str,
    /// The format of its cells: `name` for the name, else empty.
    pub format: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// 0 for always, 1 for `-o wide` only.
    pub priority: i32,
}

impl Column {
    /// The column that every kind begins with.
    pub const NAME: Self =
        Self { name: "Name", ty: "string", format: "name", description: "Name of the object", priority: 0 };
    /// The column that most kinds end with.
    pub const AGE: Self = Self::text("Age", "How long ago it was created");

    /// A column of text.
    pub const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, ty: "string", format: "", description, priority: 0 }
    }

    /// A column of text for `-o wide`.
    pub const fn wide(name: &'static str, description: &'static str) -> Self {
        Self { name, ty: "string", format: "", description, priority: 1 }
    }
}

/// A field that a field selector may name, and its value in an object.
#[derive(Clone, Copy, Debug)]
pub struct Selectable {
    /// Its name: `spec.clusterIP`.
    pub label: &'static str,
    /// Its value in an object; empty if it has none.
    pub value: fn(&Object) -> String,
}

/// How an object without a name gets one from its `generateName`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `generateName` and five random characters.
    Suffix,
    /// `generateName` as it is (an `IPAddress`: a random address would be nobody's).
    Verbatim,
}

/// Everything that is declared of a kind. Begin with [`Kind::BASE`] and say what differs.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a declaration: each flag answers a question of its own")]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// The kind: `Service`.
    pub kind: &'static str,
    /// Its name in paths: `services`.
    pub plural: &'static str,
    /// Its singular: `service`.
    pub singular: &'static str,
    /// Its short names.
    pub short_names: &'static [&'static str],
    /// The categories it belongs to: `all`.
    pub categories: &'static [&'static str],
    /// Whether it lives in a namespace.
    pub scope: Scope,
    /// Its subresources.
    pub subresources: &'static [Subresource],
    /// What can be asked of its objects.
    pub questions: &'static [Question],
    /// Whether its objects are questions: they can only be created, are answered in their status, and are not stored.
    pub is_question: bool,
    /// Where it is stored; a question nowhere, so it has no prefix.
    pub stored: Stored,
    /// How it differs from its stored form, if it does by more than `apiVersion`.
    pub conversion: Option<Conversion>,
    /// The name of its schema in [`crate::schema`]: `io.k8s.api.core.v1.Service`.
    pub schema: &'static str,
    /// How it gets its name from `generateName`.
    pub naming: Naming,
    /// What is wrong with a name; the flag says that it is only a prefix of one (`generateName`).
    pub name_faults: fn(&str, bool) -> Vec<String>,
    /// Whether a write may leave out the revision it is based on.
    pub unconditional_update: bool,
    /// Whether a PUT to an absent object makes it.
    pub create_on_update: bool,
    /// Whether `metadata.generation` counts changes of the object outside metadata and status.
    pub counts_generation: bool,
    /// Whether it counts changes of labels too.
    pub counts_labels: bool,
    /// Whether a delete answers with the object instead of a Status.
    pub answers_deleted: bool,
    /// Whether all objects of a collection can be deleted with one request (`deletecollection`).
    pub deletes_collection: bool,
    /// Whether a write of `/status` may change labels, annotations and other metadata too.
    pub status_writes_metadata: bool,
    /// The fields that nobody gets to own by a write of `/status`: it does not change them, whatever it says.
    pub status_ignores: &'static [&'static [&'static str]],
    /// How many seconds a deleted object stays for its owner to wind down, given what the request says: 0 for none.
    pub grace: fn(&Object, Option<i64>) -> i64,
    /// Fills in what was left out. Runs on every object that comes in.
    pub default: fn(&mut Object),
    /// What a create ignores of the request (a given status, say), and what it sets by itself.
    pub prepare_create: Option<fn(&mut Object)>,
    /// Whether that leaves an object in the stored form which was in it.
    pub prepares_stored_form: bool,
    /// What an update ignores of the request, and what it carries over from the old object.
    pub prepare_update: fn(&mut Object, &Object),
    /// What a write of `/status` carries over from the old object.
    pub prepare_status: fn(&mut Object, &Object),
    /// What is wrong with a new object, metadata aside.
    pub validate: fn(&Object, &mut Errors),
    /// What is wrong with a change of an object (new, old), metadata aside. Rules for new objects have to be called here.
    pub validate_update: fn(&Object, &Object, &mut Errors),
    /// What is wrong with a change of `status` (new, old).
    pub validate_status: fn(&Object, &Object, &mut Errors),
    /// What a client should be told although the object is accepted (new, old if there is one).
    pub warnings: fn(&Object, Option<&Object>) -> Vec<String>,
    /// What a client is told with every answer about this kind, reads included, if it should use another one; else empty.
    pub deprecation: &'static str,
    /// The fields that field selectors may name besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [Selectable],
    /// Its printer columns.
    pub columns: &'static [Column],
    /// The cells of an object, one for each column.
    pub row: fn(&Object) -> Vec<Cell>,
    /// How it is declared to servers that do not have it built in, if controllers need it there.
    pub custom: Option<&'static Custom>,
}

impl Kind {
    /// A kind with nothing special about it: namespaced, without subresources, columns Name and Age.
    pub const BASE: Self = Self {
        group: "",
        version: "v1",
        kind: "",
        plural: "",
        singular: "",
        short_names: &[],
        categories: &[],
        scope: Scope::Namespaced,
        subresources: &[],
        questions: &[],
        is_question: false,
        stored: Stored { prefix: "", api_version: "v1" },
        conversion: None,
        schema: "",
        naming: Naming::Suffix,
        name_faults: crate::names::subdomain,
        unconditional_update: true,
        create_on_update: false,
        counts_generation: false,
        counts_labels: false,
        answers_deleted: false,
        deletes_collection: true,
        status_writes_metadata: true,
        status_ignores: &[&["spec"]],
        grace: |_, _| 0,
        default: |_| {},
        prepare_create: None,
        prepares_stored_form: false,
        prepare_update: |_, _| {},
        prepare_status: |_, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        warnings: |_, _| Vec::new(),
        deprecation: "",
        selectable: &[],
        columns: &[Column::NAME, Column::AGE],
        row: |object| vec![object.name().into(), crate::printing::age(object)],
        custom: None,
    };

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `plural.group`, or the plural alone in the core group: how messages name the resource.
    pub fn qualified_plural(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `Kind.group`, or the kind alone in the core group: how messages of invalid objects name it. A view is judged, and
    /// named, as what it is stored as.
    pub fn qualified_kind(&self) -> String {
        qualified(self.kind, self.stored_group())
    }

    /// The group of what is stored.
    pub fn stored_group(&self) -> &'static str {
        self.stored.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Whether it lives in a namespace.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether Kubernetes has it by itself; the others are known there as custom resources, and some rules differ.
    pub fn is_built_in(&self) -> bool {
        self.schema.starts_with("io.k8s.")
    }

    /// The fields that a write of this part, or of the object itself, does not change, whatever it says.
    pub fn ignored_by(&self, part: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match part {
            Some(Subresource::Status) => self.status_ignores,
            _ if self.has(Subresource::Status) => &[&["status"]],
            _ => &[],
        }
    }

    /// Whether it has that subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_write_ignores_follows_from_its_part() {
        let kind = Kind { subresources: &[Subresource::Status, Subresource::Finalize], ..Kind::BASE };
        let status: &[&[&str]] = &[&["status"]];
        assert_eq!((kind.ignored_by(None), kind.ignored_by(Some(Subresource::Finalize))), (status, status));
        assert_eq!(kind.ignored_by(Some(Subresource::Status)), [["spec"]]);
        assert!(Kind::BASE.ignored_by(None).is_empty());
    }
}
