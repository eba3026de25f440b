//! What a `ClusterCIDR` says, for those who act on it, and what is wrong with one that cannot be acted on.
//!
//! Reading and judging are one, so that whatever is let in can be used.

use std::ops::RangeInclusive;

use serde_json::Value;
use space::{Address, Cidr, Flaw, Prefix, View};

use super::super::node_selector;
use crate::field::{Errors, Path};
use crate::reading::{flag, items, number, text, texts};
use crate::selector::{NodeSelector, Terms};
use crate::{meta, names};

/// Fewer addresses than 2 to the power of this are too few for a node.
pub(super) const FEWEST_HOST_BITS: u8 = 4;

/// How many blocks can be excluded from a range; each costs a look at every grant.
const MOST_EXCLUDED: usize = 64;

/// How many labels can be waited for.
const MOST_REQUIRED_LABELS: usize = 16;

/// How many addresses a pod can be counted for.
const MOST_ADDRESSES_PER_POD: i64 = 64;

/// What a `ClusterCIDR` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCidr {
    /// The nodes it is for; absent for all that no other one selects.
    pub selector: Option<NodeSelector>,
    /// The IPv4 range.
    pub ipv4: Option<FamilyRange<u32>>,
    /// The IPv6 range.
    pub ipv6: Option<FamilyRange<u128>>,
    /// Ranges with more of it come first.
    pub priority: i32,
    /// Whether no new node is served.
    pub suspend: bool,
    /// How the size of a block follows from its node.
    pub sizing: Option<Sizing>,
    /// The labels that a node must have before it is served.
    pub required_labels: Vec<String>,
    /// Whether the IPv6 block of a node comes before its IPv4 block.
    pub ipv6_first: bool,
}

/// The range of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyRange<A: Address> {
    /// The range.
    pub range: Prefix<A>,
    /// The size of its blocks, in bits.
    pub host_bits: u8,
    /// Whether [`Sizing`] is about its blocks: not if the family has a size of its own.
    pub sized: bool,
    /// What is never granted of it.
    pub excluded: Vec<Prefix<A>>,
}

/// How the size of a block follows from its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// What of the node counts.
    pub from: SizeFrom,
    /// The smallest and the largest size, in bits.
    pub bits: RangeInclusive<u8>,
}

/// What of a node the size of its block follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFrom {
    /// The pods it can run, and how many addresses each is counted for.
    PodCapacity(u32),
    /// Its annotation [`ClusterCidr::HOST_BITS_ANNOTATION`].
    Annotation,
}

impl ClusterCidr {
    /// What keeps a range from going while nodes hold blocks of it.
    pub const FINALIZER: &'static str = "networking.x-k8s.io/cluster-cidr-finalizer";
    /// The annotation of a node that says how large its block should be, in bits.
    pub const HOST_BITS_ANNOTATION: &'static str = "ipam.cadastre.dev/host-bits";

    /// Reads a spec; says everything that is wrong with it.
    pub fn read(spec: &Value, terms: Terms) -> Result<Self, Errors> {
        let mut errors = Errors::new();
        match read(spec, terms, &mut errors) {
            Some(read) if errors.is_empty() => Ok(read),
            _ => Err(errors),
        }
    }
}

fn root() -> Path {
    Path::new("spec")
}

/// What is said, if enough is, and all that is wrong with it. What is missing or of another type, the schema tells.
pub(super) fn read(spec: &Value, terms: Terms, errors: &mut Errors) -> Option<ClusterCidr> {
    let selector = read_selector(spec, terms, errors);
    if text(spec, "ipv4").is_empty() && text(spec, "ipv6").is_empty() {
        errors.invalid_whole(&root(), "A CIDR must be specified for ipv4 or ipv6.");
    }
    let excluded = read_excluded(spec, errors);
    let ipv4 = family(spec, &V4, &excluded, errors);
    let ipv6 = family(spec, &V6, &excluded, errors);
    let sizing = read_sizing(spec, (ipv4.as_ref(), ipv6.as_ref()), errors);
    let required_labels = read_required_labels(spec, errors);
    let ipv6_first = read_primary(spec, errors);
    if ipv4.is_none() && ipv6.is_none() {
        return None;
    }
    let priority = number(spec, "priority").and_then(|priority| i32::try_from(priority).ok()).unwrap_or(0);
    Some(ClusterCidr {
        selector,
        ipv4,
        ipv6,
        priority,
        suspend: flag(spec, "suspend"),
        sizing,
        required_labels,
        ipv6_first,
    })
}

fn read_selector(spec: &Value, terms: Terms, errors: &mut Errors) -> Option<NodeSelector> {
    let written = spec.get("nodeSelector").filter(|selector| selector.is_object())?;
    let (path, before) = (root().child("nodeSelector"), errors.len());
    node_selector::validate(&path, written, errors);
    match NodeSelector::read(written, terms) {
        Ok(selector) => Some(selector),
        Err(error) => {
            if errors.len() == before {
                errors.invalid_whole(&path, error);
            }
            None
        }
    }
}

/// The names of a family's fields, and how to take its prefixes out of both families'.
struct Family<A: Address> {
    name: &'static str,
    shown: &'static str,
    own_bits: &'static str,
    of: fn(Cidr) -> Option<Prefix<A>>,
}

const V4: Family<u32> =
    Family { name: "ipv4", shown: "IPv4", own_bits: "perNodeHostBitsIPv4", of: |cidr| cidr.v4().ok() };
const V6: Family<u128> =
    Family { name: "ipv6", shown: "IPv6", own_bits: "perNodeHostBitsIPv6", of: |cidr| cidr.v6().ok() };

fn family<A: Address>(
    spec: &Value,
    family: &Family<A>,
    excluded: &[Cidr],
    errors: &mut Errors,
) -> Option<FamilyRange<A>> {
    let Family { name, shown, own_bits, of } = family;
    let (written, own) = (text(spec, name), whole(spec, own_bits));
    if written.is_empty() {
        if own.is_some() {
            errors.forbidden(&root().child(own_bits), format!("may not be specified without `{name}`"));
        }
        return None;
    }
    let Some(range) = read_range(written).and_then(of) else {
        let detail = format!("{shown} must be a valid {shown} CIDR.");
        errors.invalid(&root().child(name), &Value::from(written), detail);
        return None;
    };
    let field = if own.is_some() { own_bits } else { "perNodeHostBits" };
    let bits = own.or_else(|| whole(spec, field))?;
    let host_bits = within(&root().child(field), bits, FEWEST_HOST_BITS..=A::WIDTH - range.length(), errors)?;
    let excluded: Vec<Prefix<A>> = excluded.iter().filter_map(|cidr| of(*cidr)).collect();
    if let Err(refusal) = View::new(range, A::WIDTH - host_bits, &excluded) {
        errors.invalid(&root().child("exclude"), &spec["exclude"], format!("{name} {range}: {refusal}"));
    }
    Some(FamilyRange { range, host_bits, sized: own.is_none(), excluded })
}

/// The range in a text. Host bits are let pass, as they always were; what others read otherwise is not.
fn read_range(written: &str) -> Option<Cidr> {
    let reading = Cidr::tolerant(written).ok()?;
    let ambiguous = reading.flaws.iter().any(|flaw| matches!(flaw, Flaw::LeadingZeros | Flaw::Mapped));
    (!ambiguous).then_some(reading.value)
}

fn read_excluded(spec: &Value, errors: &mut Errors) -> Vec<Cidr> {
    let path = root().child("exclude");
    let count = items(spec, "exclude").len();
    if count > MOST_EXCLUDED {
        errors.too_many(&path, count, MOST_EXCLUDED);
        return Vec::new();
    }
    let read = |(index, written): (usize, &str)| match Cidr::strict(written) {
        Ok(cidr) => Some(cidr),
        Err(error) => {
            errors.invalid(&path.index(index), &Value::from(written), format!("must be a CIDR: {error}"));
            None
        }
    };
    texts(spec, "exclude").enumerate().filter_map(read).collect()
}

fn read_sizing(
    spec: &Value,
    families: (Option<&FamilyRange<u32>>, Option<&FamilyRange<u128>>),
    errors: &mut Errors,
) -> Option<Sizing> {
    let (path, written) = (root().child("sizing"), spec.get("sizing").filter(|sizing| sizing.is_object())?);
    let v4 = families.0.filter(|family| family.sized).map(|family| 32 - family.range.length());
    let v6 = families.1.filter(|family| family.sized).map(|family| 128 - family.range.length());
    let Some(most) = v4.into_iter().chain(v6).min() else {
        // Families that could not be read have been told of.
        if families != (None, None) {
            errors.forbidden(&path, "may not be specified when every family has host bits of its own");
        }
        return None;
    };
    let bound = |name: &str, absent: u8, errors: &mut Errors| match whole(written, name) {
        Some(bits) => within(&path.child(name), bits, FEWEST_HOST_BITS..=most, errors),
        None => Some(absent),
    };
    let least = bound("minHostBits", FEWEST_HOST_BITS, errors);
    let largest = bound("maxHostBits", most, errors);
    let from = read_size_from(&path, written, errors);
    let (least, largest) = (least?, largest?);
    if least > largest {
        let detail = format!("must be less than or equal to `maxHostBits`, {largest}");
        errors.invalid(&path.child("minHostBits"), &Value::from(least), detail);
    }
    Some(Sizing { from: from?, bits: least..=largest })
}

fn read_size_from(path: &Path, written: &Value, errors: &mut Errors) -> Option<SizeFrom> {
    let per_pod = whole(written, "addressesPerPod");
    match text(written, "from") {
        "PodCapacity" => {
            let per_pod = per_pod.unwrap_or(1);
            if !(1..=MOST_ADDRESSES_PER_POD).contains(&per_pod) {
                let detail = names::between(1, MOST_ADDRESSES_PER_POD);
                errors.invalid(&path.child("addressesPerPod"), &Value::from(per_pod), detail);
            }
            u32::try_from(per_pod).ok().map(SizeFrom::PodCapacity)
        }
        "Annotation" => {
            if per_pod.is_some() {
                errors.forbidden(&path.child("addressesPerPod"), "may only be specified when `from` is 'PodCapacity'");
            }
            Some(SizeFrom::Annotation)
        }
        "" => None,
        other => {
            errors.not_supported(&path.child("from"), &Value::from(other), &["Annotation", "PodCapacity"]);
            None
        }
    }
}

fn read_required_labels(spec: &Value, errors: &mut Errors) -> Vec<String> {
    let path = root().child("requiredNodeLabels");
    let count = items(spec, "requiredNodeLabels").len();
    if count > MOST_REQUIRED_LABELS {
        errors.too_many(&path, count, MOST_REQUIRED_LABELS);
        return Vec::new();
    }
    for (index, key) in texts(spec, "requiredNodeLabels").enumerate() {
        meta::invalid_text(&path.index(index), key, names::qualified_name(key), errors);
    }
    texts(spec, "requiredNodeLabels").map(str::to_owned).collect()
}

fn read_primary(spec: &Value, errors: &mut Errors) -> bool {
    let (path, written) = (root().child("primaryFamily"), text(spec, "primaryFamily"));
    match written {
        "" | "IPv4" => {}
        "IPv6" => {
            if text(spec, "ipv4").is_empty() || text(spec, "ipv6").is_empty() {
                errors.forbidden(&path, "may only be 'IPv6' when both `ipv4` and `ipv6` are specified");
            }
        }
        other => errors.not_supported(&path, &Value::from(other), &["IPv4", "IPv6"]),
    }
    written == "IPv6"
}

/// A whole number, also one that is written as `8.0`.
fn whole(value: &Value, name: &str) -> Option<i64> {
    let fraction = || value.get(name).and_then(Value::as_f64).filter(|number| number.fract() == 0.0);
    number(value, name).or_else(|| fraction().map(|number| number as i64))
}

fn within(path: &Path, bits: i64, bounds: RangeInclusive<u8>, errors: &mut Errors) -> Option<u8> {
    let (least, most) = (i64::from(*bounds.start()), i64::from(*bounds.end()));
    if bits < least {
        errors.invalid(path, &Value::from(bits), format!("must be greater than or equal to {least}"));
    } else if bits > most {
        errors.invalid(path, &Value::from(bits), format!("must be less than or equal to {most}"));
    } else {
        return u8::try_from(bits).ok();
    }
    None
}
