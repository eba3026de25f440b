//! `Definition`: what is kept of a `NetworkAttachmentDefinition`.

use api::Object;
use api::slices::{Fault, SlicedNetwork, named_ranges};
use space::Cidr;

use super::intent::Subject;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Which it is.
    pub subject: Subject,
    /// When it was made.
    pub created: String,
    /// The network that it asks slices of, if it does, or what is wrong with it.
    pub reading: Result<Option<SlicedNetwork>, Fault>,
    /// The ranges that it names, cut or not, each with the `network_name` if there is one.
    pub ranges: Vec<(Option<String>, Cidr)>,
}

/// The order of definitions: the first decides for its network. Times are texts that sort like times.
pub type Rank<'a> = (&'a str, &'a str, &'a str);

impl Definition {
    /// Reads the object.
    pub fn read(object: &Object) -> Self {
        let subject = Subject {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        };
        let config = object.text(&["spec", "config"]);
        let reading = SlicedNetwork::read(config, object.name());
        let created = object.text(&["metadata", "creationTimestamp"]).to_owned();
        Self { subject, created, reading, ranges: named_ranges(config) }
    }

    /// How it is named where it is known.
    pub fn key(&self) -> String {
        key(&self.subject.namespace, &self.subject.name)
    }

    /// Where it stands among the definitions of its network: the oldest first.
    pub fn rank(&self) -> Rank<'_> {
        (&self.created, &self.subject.namespace, &self.subject.name)
    }

    /// The network, if there is one.
    pub fn network(&self) -> Option<&SlicedNetwork> {
        self.reading.as_ref().ok()?.as_ref()
    }
}

/// How a definition is named where it is known.
pub fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
