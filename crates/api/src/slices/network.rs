//! A network whose nodes have slices, as the configuration of a `NetworkAttachmentDefinition` says it.
//!
//! Only what decides about slices is read: names, ranges, sizes, and which nodes. The rest is the plugin's business, and what it
//! would refuse is not refused here.

use std::net::IpAddr;

use serde_json::{Map, Value};
use space::{Address, Cidr, Family, Prefix, Unreadable, View};
use thiserror::Error;

use super::usable::Limits;
use crate::field::Path;
use crate::names;
use crate::selector::LabelSelector;

/// The plugins that can have slices.
const TYPES: [&str; 2] = ["cadastre", "whereabouts"];

/// How large a slice is where nobody says so: 64 addresses, and a range has at least sixteen of them.
const USUAL_HOST_BITS: u8 = 6;
const FEWEST_SLICES_BITS: u8 = 4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicedNetwork {
    /// Its name: `network_name`, or the name of the configuration.
    pub name: String,
    /// Whether it has a `network_name`; names of `IPPool`s begin with it then.
    pub is_named: bool,
    /// Its ranges, each once, in the order of the configuration.
    pub ranges: Vec<SlicedRange>,
    /// The nodes that get slices; absent, all do.
    pub selector: Option<LabelSelector>,
    /// Whether its addresses must be unlike those of all other networks of its name.
    pub overlapping: bool,
    /// Its gateway, which no pod gets.
    pub gateway: Option<IpAddr>,
}

/// A range of either family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlicedRange {
    /// IPv4.
    V4(Slicing<u32>),
    /// IPv6.
    V6(Slicing<u128>),
}

/// How a range is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slicing<A: Address> {
    /// The range.
    pub range: Prefix<A>,
    /// The prefix length of a slice.
    pub length: u8,
    /// Blocks in which no slice has an address that a pod could get.
    pub useless: Vec<Prefix<A>>,
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {why}")]
pub struct Fault {
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl SlicedRange {
    /// The range.
    pub fn range(&self) -> Cidr {
        match self {
            Self::V4(slicing) => slicing.range.into(),
            Self::V6(slicing) => slicing.range.into(),
        }
    }

    /// The prefix length of a slice.
    pub fn length(&self) -> u8 {
        match self {
            Self::V4(slicing) => slicing.length,
            Self::V6(slicing) => slicing.length,
        }
    }

    /// Whether a block lies in the range, and not where no slice can be used.
    pub fn contains(&self, block: Cidr) -> bool {
        match (self, block) {
            (Self::V4(slicing), Cidr::V4(block)) => slicing.contains(block),
            (Self::V6(slicing), Cidr::V6(block)) => slicing.contains(block),
            _ => false,
        }
    }
}

impl<A: Address> Slicing<A> {
    fn contains(&self, block: Prefix<A>) -> bool {
        self.range.contains(&block) && !self.useless.iter().any(|useless| useless.contains(&block))
    }
}

impl SlicedNetwork {
    /// Reads the configuration of a definition of that name; nothing if no slices are asked for.
    pub fn read(config: &str, definition: &str) -> Result<Option<Self>, Fault> {
        if config.trim().is_empty() {
            return Ok(None);
        }
        let Ok(Value::Object(config)) = serde_json::from_str(config) else {
            return Err(fault(&Path::new("spec.config"), "it is no JSON object"));
        };
        let Some((ipam, path)) = ipam(&config) else { return Ok(None) };
        let ipam = Fields { fields: ipam, path };
        let size = ipam.text("node_slice_size")?;
        if !ipam.truth("fast_ipam")?.unwrap_or(!size.is_empty()) {
            return Ok(None);
        }
        let own = ipam.text("network_name")?;
        let listed = get(&config, "name").and_then(Value::as_str).unwrap_or_default();
        let named = [(own, ipam.path.child("network_name")), (listed, Path::new("name"))];
        let (name, path) =
            named.into_iter().find(|(name, _)| !name.is_empty()).unwrap_or((definition, Path::new("metadata.name")));
        if let Some(why) = names::subdomain(name, false).first() {
            return Err(fault(&path, &format!("{name:?} cannot be the name of objects: {why}")));
        }
        let (ranges, selector) = (ipam.ranges(size)?, ipam.selector()?);
        let overlapping = ipam.truth("enable_overlapping_ranges")?.unwrap_or(true);
        let gateway = ipam.gateway()?;
        Ok(Some(Self { name: name.to_owned(), is_named: !own.is_empty(), ranges, selector, overlapping, gateway }))
    }

    /// The field in which two definitions of one network differ, if they do; one network is cut one way.
    pub fn differs(&self, other: &Self) -> Option<&'static str> {
        let cut = |network: &Self| network.ranges.iter().map(|one| (one.range(), one.length())).collect::<Vec<_>>();
        let (own, theirs) = (cut(self), cut(other));
        let ranges = |cut: &[(Cidr, u8)]| cut.iter().map(|(range, _)| *range).collect::<Vec<_>>();
        if ranges(&own) != ranges(&theirs) {
            Some("range")
        } else if own != theirs {
            Some("node_slice_size")
        } else if self.selector != other.selector {
            Some("node_selector")
        } else if self.overlapping != other.overlapping {
            Some("enable_overlapping_ranges")
        } else {
            None
        }
    }
}

/// The ranges that a configuration names, with its `network_name` if it has one, whether they are cut or not: pods may have addresses
/// of each from an `IPPool` of all nodes. What cannot be read names none.
pub fn named_ranges(config: &str) -> Vec<(Option<String>, Cidr)> {
    let Ok(Value::Object(config)) = serde_json::from_str(config) else { return Vec::new() };
    let listed = get(&config, "plugins").and_then(Value::as_array);
    let plugins = listed.map_or_else(|| vec![&config], |all| all.iter().filter_map(Value::as_object).collect());
    let mut all = Vec::new();
    for plugin in plugins {
        let Some(fields) = get(plugin, "ipam").and_then(Value::as_object).filter(|ipam| is_ours(ipam)) else {
            continue;
        };
        let ipam = Fields { fields, path: Path::new("ipam") };
        let network = Some(ipam.text("network_name").unwrap_or_default()).filter(|name| !name.is_empty());
        let ranges = ipam.written().unwrap_or_default();
        all.extend(ranges.iter().filter_map(|range| Some((network.map(str::to_owned), range.cidr().ok()?))));
    }
    all
}

fn is_ours(ipam: &Map<String, Value>) -> bool {
    get(ipam, "type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind))
}

/// The part about addresses that is ours, and where it is: of the configuration itself, or of the first plugin of a list that has
/// one.
fn ipam(config: &Map<String, Value>) -> Option<(&Map<String, Value>, Path)> {
    let ours = |plugin: &'_ Map<String, Value>| is_ours(get(plugin, "ipam")?.as_object()?).then_some(());
    let of = |plugin| get(plugin, "ipam").and_then(Value::as_object);
    match get(config, "plugins").and_then(Value::as_array) {
        None => ours(config).and_then(|()| Some((of(config)?, Path::new("ipam")))),
        Some(plugins) => plugins.iter().enumerate().find_map(|(index, plugin)| {
            let plugin = plugin.as_object()?;
            ours(plugin).and_then(|()| Some((of(plugin)?, Path::new("plugins").index(index).child("ipam"))))
        }),
    }
}

/// A field by its name, in whatever case it is written: the program that most of these files were written for does not mind.
fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn fault(path: &Path, why: &str) -> Fault {
    Fault { field: path.to_string(), why: why.to_owned() }
}

/// Fields, and where they are.
struct Fields<'a> {
    fields: &'a Map<String, Value>,
    path: Path,
}

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        get(self.fields, name)
    }

    fn fault(&self, name: &str, why: &str) -> Fault {
        fault(&self.path.child(name), why)
    }

    /// The text of a field; absent, it is empty.
    fn text(&self, name: &str) -> Result<&'a str, Fault> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.fault(name, "it is no text")),
        }
    }

    fn truth(&self, name: &str) -> Result<Option<bool>, Fault> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(_) => Err(self.fault(name, "it is neither true nor false")),
        }
    }

    fn selector(&self) -> Result<Option<LabelSelector>, Fault> {
        let text = match self.get("node_selector") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Object(labels)) => {
                let one = |(key, value): (&String, &Value)| {
                    let value = value.as_str().ok_or_else(|| self.fault("node_selector", "a label is no text"))?;
                    Ok(format!("{key}={value}"))
                };
                labels.iter().map(one).collect::<Result<Vec<_>, Fault>>()?.join(",")
            }
            Some(_) => return Err(self.fault("node_selector", "it is neither text nor labels")),
        };
        let selector = LabelSelector::parse(&text).map_err(|why| self.fault("node_selector", &why.to_string()))?;
        Ok((!selector.is_empty()).then_some(selector))
    }

    /// The ranges in the order that addresses are given from them: the one of its own, then those that are listed.
    fn written(&self) -> Result<Vec<RangeFields<'_>>, Fault> {
        let mut written = Vec::new();
        if !self.text("range")?.is_empty() {
            let of = Fields { fields: self.fields, path: self.path.clone() };
            written.push(RangeFields { of, listed: false, shared: None });
        }
        // What is excluded beside a range is of that range alone; without one, it is of all that are listed.
        let shared = written.is_empty().then_some(self);
        match self.get("ipRanges") {
            None | Some(Value::Null) => {}
            Some(Value::Array(listed)) => {
                for (index, one) in listed.iter().enumerate() {
                    let path = self.path.child("ipRanges").index(index);
                    let fields = one.as_object().ok_or_else(|| fault(&path, "it is no object"))?;
                    written.push(RangeFields { of: Fields { fields, path }, listed: true, shared });
                }
            }
            Some(_) => return Err(self.fault("ipRanges", "it is no list")),
        }
        Ok(written)
    }

    /// How each of them is cut.
    fn ranges(&self, size: &str) -> Result<Vec<SlicedRange>, Fault> {
        let written = self.written()?;
        if written.is_empty() {
            return Err(
                self.fault("range", "there is none to cut; what nodes add from files of their own does not count")
            );
        }
        let gateway = self.gateway()?;
        let mut ranges: Vec<SlicedRange> = Vec::new();
        for fields in &written {
            let own = if fields.listed { fields.of.text("node_slice_size")? } else { "" };
            let size =
                if own.is_empty() { Size { text: size, fields: self } } else { Size { text: own, fields: &fields.of } };
            let range = match fields.cidr()? {
                Cidr::V4(range) => SlicedRange::V4(fields.slicing(range, &size, gateway)?),
                Cidr::V6(range) => SlicedRange::V6(fields.slicing(range, &size, gateway)?),
            };
            if !ranges.iter().any(|other| (other.range(), other.length()) == (range.range(), range.length())) {
                ranges.push(range);
            }
        }
        Ok(ranges)
    }

    /// What cannot be read is refused by the plugin, and not for all nodes.
    fn gateway(&self) -> Result<Option<IpAddr>, Fault> {
        Ok(space::tolerant_address(self.text("gateway")?).ok().map(|reading| reading.value))
    }

    /// What is excluded here, each a range or an address.
    fn exclusions(&self) -> Result<Vec<Cidr>, Fault> {
        let listed = match self.get("exclude") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err(self.fault("exclude", "it is no list")),
        };
        let read = |(index, one): (usize, &Value)| {
            let text = one.as_str().unwrap_or_default();
            let block = Cidr::tolerant(text).map(|reading| reading.value);
            let address = || space::tolerant_address(text).map(|reading| single(reading.value));
            block.or_else(|why| {
                let path = self.path.child("exclude").index(index);
                address().map_err(|_| fault(&path, &format!("{one} is no range: {why}")))
            })
        };
        listed.iter().enumerate().map(read).collect()
    }
}

/// How large slices are, as it is written.
struct Size<'a> {
    text: &'a str,
    fields: &'a Fields<'a>,
}

impl Size<'_> {
    /// The prefix length of a slice. One that an IPv6 range cannot be cut by is said for IPv4, and the slice has as many addresses: so
    /// one size serves both families. The plugin reads it in the same way.
    fn length<A: Address>(&self, range: Prefix<A>) -> Result<u8, Fault> {
        let refused = |why: String| self.fields.fault("node_slice_size", &why);
        if self.text.is_empty() {
            let fewest = range.length().saturating_add(FEWEST_SLICES_BITS).min(A::WIDTH);
            return Ok(fewest.max(A::WIDTH - USUAL_HOST_BITS));
        }
        let digits = self.text.strip_prefix('/').unwrap_or(self.text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let said: Option<u8> = digits.parse().ok().filter(|_| is_number);
        let said = said.ok_or_else(|| refused(format!("{:?} is no prefix length, such as \"/26\"", self.text)))?;
        let fits = |length: &u8| (range.length()..=A::WIDTH).contains(length);
        let as_many = Family::V4.width().checked_sub(said).map(|host_bits| A::WIDTH - host_bits);
        let length = Some(said).filter(fits).or(as_many.filter(fits));
        length.ok_or_else(|| {
            refused(if said > A::WIDTH {
                format!("/{said} is longer than an address of {range}")
            } else {
                format!("a slice of /{said} is larger than the range {range}")
            })
        })
    }
}

/// Where a range is written: in the part about addresses itself, or as one of a list in it.
struct RangeFields<'a> {
    of: Fields<'a>,
    listed: bool,
    /// Where exclusions are written that count for it besides its own.
    shared: Option<&'a Fields<'a>>,
}

impl RangeFields<'_> {
    /// The range: a CIDR, or `first-last/length`.
    fn cidr(&self) -> Result<Cidr, Fault> {
        let text = self.of.text("range")?;
        let cidr = match text.split_once('-') {
            None => Cidr::tolerant(text),
            Some((_, rest)) => Cidr::tolerant(rest.trim()),
        };
        let refused = |why: Unreadable| self.of.fault("range", &format!("{text:?} is no range: {why}"));
        Ok(cidr.map_err(refused)?.value)
    }

    fn slicing<A: Address>(
        &self,
        range: Prefix<A>,
        size: &Size<'_>,
        gateway: Option<IpAddr>,
    ) -> Result<Slicing<A>, Fault> {
        let length = size.length(range)?;
        let mut limits = Limits::of(range);
        self.cut(range, &mut limits)?;
        limits.excluded = self.excluded(range)?;
        limits.excluded.extend(gateway.and_then(|gateway| host::<A>(gateway)).filter(|host| range.contains(host)));
        let useless = limits.useless(range, length);
        if let Err(why) = View::new(range, length, &useless) {
            return Err(self.of.fault("exclude", &format!("no slice of {range} is left: {why}")));
        }
        Ok(Slicing { range, length, useless })
    }

    /// Cuts off what is before the first and after the last address. Like the plugin, it ignores a `range_start` or `range_end` that is
    /// outside of the range, and refuses whatever is no address, and ends in the range itself that are outside of it.
    fn cut<A: Address>(&self, range: Prefix<A>, limits: &mut Limits<A>) -> Result<(), Fault> {
        let (lowest, highest) = (limits.first, limits.last);
        let text = self.of.text("range")?;
        if let Some((first, rest)) = text.split_once('-') {
            let last = rest.split_once('/').map_or(rest, |(last, _)| last);
            let end = |text: &str| {
                let address = space::tolerant_address(text).ok().and_then(|read| host::<A>(read.value));
                let address = address.map(|host| host.first()).filter(|address| range.contains_address(*address));
                address.ok_or_else(|| self.of.fault("range", &format!("{text:?} is no address of {range}")))
            };
            let (first, last) = (end(first.trim())?, end(last.trim())?);
            if first > last {
                return Err(self.of.fault("range", &format!("{text:?} ends before it begins")));
            }
            let usable = |address: &A| (lowest..=highest).contains(address);
            limits.first = Some(first).filter(usable).unwrap_or(lowest);
            limits.last = Some(last).filter(usable).unwrap_or(highest);
            // Beside ends that are said in the range itself, the fields for them say nothing.
            return Ok(());
        }
        let inside = |name: &str| {
            let text = self.of.text(name)?;
            if text.is_empty() {
                return Ok(None);
            }
            let address = space::tolerant_address(text);
            let address = address.map_err(|_| self.of.fault(name, &format!("{text:?} is no address")))?.value;
            Ok(host::<A>(address).map(|host| host.first()).filter(|address| (lowest..=highest).contains(address)))
        };
        if let Some(first) = inside("range_start")? {
            limits.first = first;
        }
        if let Some(last) = inside("range_end")?.filter(|last| *last >= limits.first) {
            limits.last = last;
        }
        debug_assert!(range.contains_address(limits.first) && range.contains_address(limits.last));
        Ok(())
    }

    /// The exclusions that lie in the range, or around it.
    fn excluded<A: Address>(&self, range: Prefix<A>) -> Result<Vec<Prefix<A>>, Fault> {
        let mut all = self.of.exclusions()?;
        all.extend(self.shared.map(Fields::exclusions).transpose()?.unwrap_or_default());
        Ok(all.into_iter().filter_map(prefix::<A>).filter(|block| block.overlaps(&range)).collect())
    }
}

/// The block, if it is of that family.
fn prefix<A: Address>(block: Cidr) -> Option<Prefix<A>> {
    let (family, first, length) = match block {
        Cidr::V4(block) => (Family::V4, u128::from(block.first()), block.length()),
        Cidr::V6(block) => (Family::V6, block.first(), block.length()),
    };
    (family == A::FAMILY).then(|| Prefix::new(A::narrow(first), length).ok()).flatten()
}

/// The block of one address, if it is of that family.
fn host<A: Address>(address: IpAddr) -> Option<Prefix<A>> {
    prefix(single(address))
}

/// The block of one address.
fn single(address: IpAddr) -> Cidr {
    match address {
        IpAddr::V4(address) => Prefix::host(u32::from(address)).into(),
        IpAddr::V6(address) => Prefix::host(u128::from(address)).into(),
    }
}

#[cfg(test)]
mod tests;
