//! Reservations of single addresses that hold across ranges (`OverlappingRangeIPReservation`): what is to be there for the holdings
//! of this node, and what others have put there instead.

use std::collections::BTreeMap;
use std::net::IpAddr;

use controllers::slice::node::NODE;
use serde_json::{Value, json};

use crate::pool::{API_VERSION, Allocation, revision};

/// A reservation as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenReservation {
    /// Its name.
    pub name: String,
    /// When it was like this.
    pub revision: u64,
    /// For which pod.
    pub podref: String,
    /// For which interface.
    pub ifname: String,
    /// In which container.
    pub id: String,
    /// The node that its label names.
    pub node: Option<String>,
}

impl SeenReservation {
    /// Reads an object.
    pub fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &object["spec"];
        Self {
            name: text(&object["metadata"]["name"]),
            revision: revision(object),
            podref: text(&spec["podref"]),
            ifname: text(&spec["ifname"]),
            id: text(&spec["containerid"]),
            node: object["metadata"]["labels"][NODE].as_str().map(str::to_owned),
        }
    }

    fn says(&self, holder: &Allocation) -> bool {
        self.podref == holder.podref && self.ifname == holder.ifname && self.id == holder.id
    }
}

/// What is to be there, by name: the address and who holds it.
pub type Reserved = BTreeMap<String, (IpAddr, Allocation)>;

/// Something to be done about a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make it, or see who has it.
    Make(Allocation),
    /// It is ours, and should say this.
    Change(u64, Allocation),
    /// It is ours, and is for nobody.
    Delete(u64),
}

/// What is to be done. Only those that carry the label of this node are seen; whatever else has the name shows when it is to be made.
/// `is_held` says of an address whether anybody holds it, in any network.
pub fn steps(
    wanted: &Reserved,
    seen: &BTreeMap<String, SeenReservation>,
    is_held: impl Fn(&str) -> bool,
) -> BTreeMap<String, Step> {
    let mut steps = BTreeMap::new();
    for (name, (_, holder)) in wanted {
        match seen.get(name) {
            None => drop(steps.insert(name.clone(), Step::Make(holder.clone()))),
            Some(seen) if seen.says(holder) => {}
            Some(seen) => drop(steps.insert(name.clone(), Step::Change(seen.revision, holder.clone()))),
        }
    }
    for (name, seen) in seen {
        if !wanted.contains_key(name) && !is_held(name) {
            steps.insert(name.clone(), Step::Delete(seen.revision));
        }
    }
    steps
}

/// Whether a reservation that was in the way is for the same attachment, so that it can be taken over.
pub fn is_ours(found: &SeenReservation, holder: &Allocation) -> bool {
    found.podref == holder.podref && (found.ifname == holder.ifname || found.ifname.is_empty())
}

/// The object, or with a revision a merge patch of it.
pub fn body(name: &str, node: &str, holder: &Allocation, revision: Option<u64>) -> Value {
    let mut metadata = json!({"name": name, "labels": {NODE: node}});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = json!(revision.to_string());
    }
    json!({
        "apiVersion": API_VERSION, "kind": "OverlappingRangeIPReservation", "metadata": metadata,
        "spec": {"podref": holder.podref, "ifname": holder.ifname, "containerid": holder.id},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pod: &str) -> Allocation {
        Allocation { id: "c".into(), podref: pod.into(), ifname: "net1".into() }
    }

    fn wanted(entries: &[(&str, &str)]) -> Reserved {
        entries.iter().map(|(name, pod)| ((*name).to_owned(), (IpAddr::from([10, 0, 0, 1]), holder(pod)))).collect()
    }

    fn seen(entries: &[(&str, &str)]) -> BTreeMap<String, SeenReservation> {
        let one = |(name, pod): &(&str, &str)| {
            let mut object = body(name, "n", &holder(pod), Some(5));
            object["metadata"]["name"] = json!(name);
            ((*name).to_owned(), SeenReservation::read(&object))
        };
        entries.iter().map(one).collect()
    }

    #[test]
    fn they_are_made_changed_and_deleted_as_the_holdings_are() {
        let steps = steps(
            &wanted(&[("same", "a/a"), ("new", "a/b"), ("passed-on", "a/c")]),
            &seen(&[("same", "a/a"), ("passed-on", "a/old"), ("over", "a/d"), ("unclear", "a/e")]),
            |name| name == "unclear",
        );
        let expected = [
            ("new".to_owned(), Step::Make(holder("a/b"))),
            ("over".to_owned(), Step::Delete(5)),
            ("passed-on".to_owned(), Step::Change(5, holder("a/c"))),
        ];
        assert_eq!(steps, expected.into());
    }

    #[test]
    fn one_that_is_in_the_way_is_ours_only_for_the_same_attachment() {
        let found = |pod: &str, ifname: &str| SeenReservation {
            podref: pod.into(),
            ifname: ifname.into(),
            ..SeenReservation::default()
        };
        assert!(is_ours(&found("a/b", "net1"), &holder("a/b")));
        assert!(is_ours(&found("a/b", ""), &holder("a/b")));
        assert!(!is_ours(&found("a/b", "net2"), &holder("a/b")));
        assert!(!is_ours(&found("a/x", "net1"), &holder("a/b")));
    }
}
