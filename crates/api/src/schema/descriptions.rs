//! What is said of built-in structures and fields to those who ask the server, `kubectl explain` above all. Own kinds have
//! their descriptions in their table.
//!
//! The texts are in `descriptions/`. A line is a structure or, two spaces in, a field of the structure before it; empty lines
//! and lines that begin with `#` say nothing. Fields that mean the same in every structure are under `*`, once.
//!
//! ```text
//! io.k8s.api.core.v1.ServicePort: A port of a Service.
//!   port: The port that clients connect to.
//! ```

use std::collections::HashMap;

use super::{Definition, Field};

const TEXTS: &[&str] = &[
    include_str!("descriptions/about.txt"),
    include_str!("descriptions/meta.txt"),
    include_str!("descriptions/access.txt"),
    include_str!("descriptions/core.txt"),
    include_str!("descriptions/node.txt"),
    include_str!("descriptions/pod.txt"),
    include_str!("descriptions/scheduling.txt"),
    include_str!("descriptions/container.txt"),
    include_str!("descriptions/volume.txt"),
    include_str!("descriptions/network.txt"),
];

/// The structure that stands for all.
const ALL: &str = "*";

/// All descriptions, by structure and field; those of structures themselves have no field. Nobody keeps them: they are read
/// when a document is made.
pub(crate) struct Descriptions(HashMap<(&'static str, &'static str), &'static str>);

impl Descriptions {
    /// Reads them.
    pub(crate) fn read() -> Self {
        let mut said = HashMap::new();
        for text in TEXTS {
            let mut structure = "";
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let Some((name, description)) = line.split_once(": ") else { continue };
                if let Some(field) = name.strip_prefix("  ") {
                    said.insert((structure, field), description);
                } else {
                    structure = name;
                    said.insert((name, ""), description);
                }
            }
        }
        Self(said)
    }

    /// What is said of a structure by that name.
    pub(crate) fn named(&self, name: &str) -> Option<&'static str> {
        self.0.get(&(name, "")).copied()
    }

    /// What is said of a structure.
    pub(crate) fn definition<'a>(&self, definition: &'a Definition) -> Option<&'a str> {
        if definition.description.is_empty() { self.named(&definition.name) } else { Some(&definition.description) }
    }

    /// What is said of a field of a structure.
    pub(crate) fn field<'a>(&self, definition: &Definition, field: &'a Field) -> Option<&'a str> {
        if !field.description.is_empty() {
            return Some(&field.description);
        }
        self.0.get(&(definition.name.as_str(), field.name.as_str())).copied().or_else(|| self.of_all(&field.name))
    }

    /// What is said of a field wherever it is.
    pub(crate) fn of_all(&self, name: &str) -> Option<&'static str> {
        self.0.get(&(ALL, name)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures that have a description and no definition, because their values are no structures.
    const PLAIN: [&str; 6] = [
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    ];

    #[test]
    fn what_is_described_is_there() {
        for (definition, field) in Descriptions::read().0.keys() {
            if *definition == ALL || PLAIN.contains(definition) {
                continue;
            }
            let found = crate::schema::definition(definition);
            let is_there = found.is_some_and(|found| field.is_empty() || found.fields.contains_key(field));
            assert!(is_there, "{definition} {field} is described, but is not in the tables");
        }
    }

    #[test]
    fn every_line_is_read_and_says_something() {
        let mut said = 0;
        for text in TEXTS {
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let (_, description) = line.split_once(": ").unwrap_or_else(|| panic!("`{line}` says nothing"));
                assert!(
                    description.ends_with(['.', ')']) && description.trim() == description,
                    "`{line}`: a sentence ends with a dot"
                );
                said += 1;
            }
        }
        assert_eq!(Descriptions::read().0.len(), said, "a field is described twice");
    }
}
