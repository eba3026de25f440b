//! A `ClusterCIDR` as it is known, and the size of the block that it would give a node.

use std::sync::Arc;

use api::Object;
use api::kinds::{ClusterCidr, FamilyRange, SizeFrom, Sizing};
use api::selector::Terms;
use serde_json::Value;
use space::{Address, ReservationRefusal};
use thiserror::Error;

use super::trimmed::Node;

/// A block has this many addresses that no pod gets: of the network, of its gateway, of its broadcast.
const KEPT_ADDRESSES: u64 = 3;

/// Names a `ClusterCIDR` in the index; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeKey(pub(super) u64);

/// The prefix lengths of the blocks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lengths {
    /// Of its IPv4 block, if it gets one.
    pub v4: Option<u8>,
    /// Of its IPv6 block, if it gets one.
    pub v6: Option<u8>,
}

/// Why a range does not serve a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Its owner wants no more nodes in it.
    #[error("it is suspended")]
    Suspended,
    /// It is being deleted.
    #[error("it is being deleted")]
    Terminating,
    /// Its finalizer is not stored yet, so it could go while the node gets its block.
    #[error("its finalizer is not stored yet")]
    Unprotected,
    /// The node lacks a label that it must have first.
    #[error("the node has no label {0} yet")]
    MissingLabel(String),
    /// The size should follow from the capacity of the node, which is not known.
    #[error("the node does not say yet how many pods it can run")]
    UnknownCapacity,
    /// The size should follow from an annotation that is no number.
    #[error("the node's annotation {annotation} is {0:?}, not a number of bits", annotation = ClusterCidr::HOST_BITS_ANNOTATION)]
    UnreadableSize(String),
    /// Nothing of that size is left.
    #[error("{0}")]
    Full(ReservationRefusal, Lengths),
}

impl Refusal {
    /// Whether the node has to wait for this very range: what is missing is on its way, and a block is for life.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::Unprotected | Self::MissingLabel(_) | Self::UnknownCapacity | Self::UnreadableSize(_))
    }
}

/// A `ClusterCIDR` as it was last seen.
#[derive(Clone, Debug)]
pub struct Range {
    /// Its name.
    pub name: Arc<str>,
    /// Which of all the objects that ever had this name it is.
    pub uid: Arc<str>,
    /// Its revision.
    pub resource_version: Box<str>,
    /// How often its spec changed.
    pub generation: i64,
    /// What keeps it.
    pub finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// What it says, or what is wrong with that.
    pub spec: Result<ClusterCidr, String>,
    /// Its status as text, with its fields in order: what has many small parts takes many times as much when it is taken apart.
    pub status: Box<str>,
}

impl Range {
    /// Reads the object.
    pub fn read(object: &Object, terms: Terms) -> Self {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let spec = match ClusterCidr::read(spec, terms) {
            Ok(read) => Ok(read),
            // What the schema would have told is no fault of its own here.
            Err(errors) if errors.is_empty() => Err("spec.perNodeHostBits: Required value".to_owned()),
            Err(errors) => Err(errors.to_string()),
        };
        Self {
            name: object.name().into(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            generation: object.generation(),
            finalizers: object.finalizers().map(str::to_owned).collect(),
            terminating: object.is_terminating(),
            spec,
            status: object.at(&["status"]).map(Value::to_string).unwrap_or_default().into(),
        }
    }

    /// Whether it cannot go without us.
    pub fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|name| name == ClusterCidr::FINALIZER)
    }

    /// Why it serves nobody at present, if so.
    pub fn closed(&self, spec: &ClusterCidr) -> Option<Refusal> {
        if self.terminating {
            Some(Refusal::Terminating)
        } else if spec.suspend {
            Some(Refusal::Suspended)
        } else if !self.is_protected() {
            Some(Refusal::Unprotected)
        } else {
            None
        }
    }
}

/// The lengths of the blocks that a node gets from a range.
pub fn lengths(spec: &ClusterCidr, node: &Node) -> Result<Lengths, Refusal> {
    if let Some(missing) = spec.required_labels.iter().find(|key| node.label(key).is_none()) {
        return Err(Refusal::MissingLabel(missing.clone()));
    }
    let wanted = match &spec.sizing {
        None => None,
        Some(Sizing { from: SizeFrom::PodCapacity(each), bits }) => {
            let addresses = node.pods.ok_or(Refusal::UnknownCapacity)?.saturating_mul(u64::from(*each));
            let needed = addresses.saturating_add(KEPT_ADDRESSES).checked_next_power_of_two();
            let needed = needed.map_or(u64::BITS, u64::trailing_zeros) as u8;
            Some(needed.clamp(*bits.start(), *bits.end()))
        }
        Some(Sizing { from: SizeFrom::Annotation, bits }) => match node.host_bits.as_deref() {
            None => None,
            Some(text) => {
                let wanted: u8 = text.trim().parse().map_err(|_| Refusal::UnreadableSize(text.to_owned()))?;
                Some(wanted.clamp(*bits.start(), *bits.end()))
            }
        },
    };
    Ok(Lengths {
        v4: spec.ipv4.as_ref().map(|family| length(family, wanted)),
        v6: spec.ipv6.as_ref().map(|family| length(family, wanted)),
    })
}

fn length<A: Address>(family: &FamilyRange<A>, wanted: Option<u8>) -> u8 {
    A::WIDTH - wanted.filter(|_| family.sized).unwrap_or(family.host_bits)
}

/// Whether blocks of that length are what a family of this range gives: then a block in it is one of its own.
pub fn gives<A: Address>(spec: &ClusterCidr, family: &FamilyRange<A>, length: u8) -> bool {
    let bits = A::WIDTH - length;
    let sizes = spec.sizing.as_ref().filter(|_| family.sized).map(|sizing| &sizing.bits);
    bits == family.host_bits || sizes.is_some_and(|sizes| sizes.contains(&bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(more: &[(&str, Value)]) -> ClusterCidr {
        let mut spec = json!({"perNodeHostBits": 8, "ipv4": "10.0.0.0/16", "ipv6": "fd00::/48"});
        for (name, value) in more {
            spec[*name] = value.clone();
        }
        ClusterCidr::read(&spec, Terms::Any).unwrap()
    }

    fn sizes(more: &[(&str, Value)], node: &Node) -> Result<(u8, u8), Refusal> {
        lengths(&spec(more), node).map(|lengths| (lengths.v4.unwrap(), lengths.v6.unwrap()))
    }

    #[test]
    fn each_family_has_its_own_length() {
        let node = Node::new("n", "u");
        assert_eq!(sizes(&[], &node), Ok((24, 120)));
        assert_eq!(sizes(&[("perNodeHostBitsIPv6", json!(64))], &node), Ok((24, 64)));
    }

    #[test]
    fn a_block_has_room_for_the_pods_of_its_node() {
        let sized =
            |each: u32| [("sizing", json!({"from": "PodCapacity", "addressesPerPod": each, "maxHostBits": 10}))];
        let node = |pods: u64| Node { pods: Some(pods), ..Node::new("n", "u") };
        for (pods, each, bits) in
            [(110, 1, 7), (125, 1, 7), (126, 1, 8), (110, 2, 8), (253, 1, 8), (254, 1, 9), (0, 1, 4), (5_000, 1, 10)]
        {
            assert_eq!(sizes(&sized(each), &node(pods)), Ok((32 - bits, 128 - bits)), "{pods} pods, {each} each");
        }
        assert_eq!(sizes(&sized(64), &node(u64::MAX)), Ok((22, 118)));
        assert_eq!(sizes(&sized(1), &Node::new("n", "u")), Err(Refusal::UnknownCapacity));
        let own = [sized(1)[0].clone(), ("perNodeHostBitsIPv6", json!(64))];
        assert_eq!(sizes(&own, &node(500)), Ok((23, 64)), "a family with bits of its own is not sized");
    }

    #[test]
    fn a_node_can_ask_for_a_size_within_bounds() {
        let sized = [("sizing", json!({"from": "Annotation", "minHostBits": 6, "maxHostBits": 10}))];
        let node = |text: &str| Node { host_bits: Some(text.into()), ..Node::new("n", "u") };
        for (text, bits) in [("7", 7), ("5", 6), ("12", 10)] {
            assert_eq!(sizes(&sized, &node(text)), Ok((32 - bits, 128 - bits)), "{text}");
        }
        assert_eq!(sizes(&sized, &Node::new("n", "u")), Ok((24, 120)));
        let refusal = sizes(&sized, &node("large")).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the node's annotation ipam.cadastre.dev/host-bits is \"large\", not a number of bits"
        );
        assert!(refusal.is_for_now());
    }

    #[test]
    fn a_node_waits_for_the_labels_it_must_have() {
        let spec = [("requiredNodeLabels", json!(["zone"]))];
        let missing = sizes(&spec, &Node::new("n", "u"));
        assert_eq!(missing, Err(Refusal::MissingLabel("zone".to_owned())));
        assert_eq!(sizes(&spec, &Node::new("n", "u").labelled([("zone", "")])), Ok((24, 120)));
    }

    #[test]
    fn a_block_of_another_size_is_not_of_this_range() {
        let fixed = spec(&[]);
        let sized = spec(&[("sizing", json!({"from": "Annotation", "minHostBits": 6, "maxHostBits": 7}))]);
        let given = |spec: &ClusterCidr| {
            let family = spec.ipv4.as_ref().unwrap();
            (20..=28).filter(|length| gives(spec, family, *length)).collect::<Vec<_>>()
        };
        assert_eq!((given(&fixed), given(&sized)), (vec![24], vec![24, 25, 26]));
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why() {
        let read = |spec: Value| Range::read(&Object::from_value(json!({"spec": spec})).unwrap(), Terms::Any).spec;
        assert_eq!(read(json!({"ipv4": "10.0.0.0/8"})).unwrap_err(), "spec.perNodeHostBits: Required value");
        let fault = read(json!({"ipv4": "10.0.0.0/8", "perNodeHostBits": 2})).unwrap_err();
        assert_eq!(fault, "spec.perNodeHostBits: Invalid value: 2: must be greater than or equal to 4");
    }
}
