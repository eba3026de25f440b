//! What the runtime says on stdin: the configuration of the network, its `ipam` part above all.
//!
//! It is read in two steps. [`Conf`] is what every command needs: which network, and where its state is. [`Settings`] is what giving
//! out addresses needs besides: ranges, gateway, routes. So a DEL succeeds under a configuration that no ADD could be served by.
//!
//! Keys are found whatever their case, and those that nobody knows are passed over, as whereabouts does; a field that cannot mean
//! anything is refused by its name.

mod field;
pub mod flat;
mod range;

use std::net::IpAddr;

use serde_json::{Map, Value};
use space::{Cidr, Family, tolerant_address};

use crate::environment::{bare_address, is_name};
use crate::failure::{Code, Failure};
use crate::journal::Ip;
use crate::version::Version;
use field::Object;
use flat::Flat;

pub use range::{RangeConf, Span, address, number};

/// The types of `ipam` that mean this plugin: our own, and the one that it stands in for.
pub const TYPES: [&str; 2] = ["cadastre", "whereabouts"];

/// The longest name of a network, in bytes: there is a folder of that name.
const LONGEST_NAME: usize = 255;

/// An attachment has at most this many addresses of ranges.
const MOST_RANGES: usize = 256;

/// Addresses rest at most this long, in seconds; what ended earlier is not remembered for sure.
const LONGEST_COOLDOWN: u64 = 86_400;

/// Where GC has the attachments that are still there. The second name is that of the specification's first text of 1.1.0, and libcni
/// says both.
const VALID: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// What every command needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    /// The name of the configuration.
    pub name: String,
    /// The version in which is answered.
    pub version: Version,
    /// The network: `network_name`, or else the name of the configuration.
    pub network: String,
    /// Whether the network has a name of its own, which is then in the names of its objects.
    pub is_named: bool,
    /// Where the state is, if the configuration says so.
    pub state_dir: String,
    /// Where the shared file is, or the folder that it is in.
    pub configuration_path: String,
    /// Whether addresses come from slices of the node.
    pub is_sliced: bool,
    /// The configuration, `ipam` filled in from the shared file.
    tree: Map<String, Value>,
}

/// In which order addresses are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest that is free.
    #[default]
    Lowest,
    /// The next behind the one that was given last.
    RoundRobin,
}

/// An address that is part of the answer and of no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Static {
    /// The address.
    pub ip: Ip,
    /// Its gateway.
    pub gateway: Option<IpAddr>,
}

/// What giving out addresses needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// An address is given from each.
    pub ranges: Vec<RangeConf>,
    /// The gateway of every address of its family.
    pub gateway: Option<IpAddr>,
    /// Gateways that the runtime names, each of the addresses in whose range it is.
    pub gateways: Vec<IpAddr>,
    /// Routes, as they are in the answer.
    pub routes: Vec<Value>,
    /// Name servers and the like, as they are in the answer.
    pub dns: Map<String, Value>,
    /// Addresses that are in the answer in any case.
    pub addresses: Vec<Static>,
    /// Addresses that the runtime asks for.
    pub requested: Vec<IpAddr>,
    /// In which order addresses are tried.
    pub order: Order,
    /// For how many seconds an address that came back is passed over, while there are others.
    pub cooldown: u64,
    /// After how many seconds without news from the agent nothing is given any more; zero: never.
    pub grant_max_age: u64,
    /// Whether other networks must not have the same addresses.
    pub overlapping: bool,
}

/// An attachment as GC lists it: container and interface.
pub type Attachment = (String, String);

impl Conf {
    /// Reads the configuration of one network; `look` finds the shared file, given `configuration_path`.
    pub fn read(text: &[u8], look: impl FnOnce(&str) -> Result<Flat, Failure>) -> Result<Self, Failure> {
        let tree: Value = serde_json::from_slice(text)
            .map_err(|error| Failure::new(Code::Decode, format!("the network configuration is no JSON: {error}")))?;
        let Value::Object(mut tree) = tree else {
            return Err(Failure::new(Code::Decode, "the network configuration is no JSON object"));
        };
        let root = Object::new(&tree, "");
        let name = root.text("name")?.to_owned();
        if name.is_empty() {
            return Err(Failure::new(Code::Config, "name: missing network name"));
        }
        if name.len() > LONGEST_NAME {
            return Err(Failure::new(Code::Config, format!("name: longer than {LONGEST_NAME} bytes")));
        }
        if !is_name(&name) {
            return Err(Failure::new(Code::Config, "name: invalid characters found in network name").with(name));
        }
        let said = root.text("cniVersion")?;
        let version = Version::read(said).ok_or_else(|| {
            let all: Vec<&str> = Version::all().collect();
            Failure::new(Code::IncompatibleVersion, "cniVersion: incompatible CNI versions")
                .with(format!("config is \"{said}\", plugin supports {all:?}"))
        })?;
        let Some(ipam) = root.object("ipam")? else {
            return Err(Failure::new(Code::Config, "ipam: missing"));
        };
        let kind = ipam.text("type")?;
        if !TYPES.contains(&kind) {
            let message =
                format!("ipam.type: only interested in networks whose IPAM type is one of {TYPES:?}, not \"{kind}\"");
            return Err(Failure::new(Code::Config, message));
        }
        let configured = ipam.text("configuration_path")?;
        let shared = look(configured)?;
        if let Some(Value::Object(ipam)) = field::find_mut(&mut tree, "ipam") {
            flat::merge(ipam, &shared)?;
        }
        Self::outline(tree, name, version)
    }

    fn outline(tree: Map<String, Value>, name: String, version: Version) -> Result<Self, Failure> {
        let root = Object::new(&tree, "");
        let ipam = ipam(&root)?;
        let own = ipam.text("network_name")?;
        if !own.is_empty() && !is_dns_name(own) {
            return Err(ipam.refuse(
                "network_name",
                format!(
                    "{own} is no DNS name: it is in the names of objects, so only lower case letters, digits, - and ."
                ),
            ));
        }
        let sliced = ipam.flag("fast_ipam")?;
        Ok(Self {
            network: if own.is_empty() { name.clone() } else { own.to_owned() },
            is_named: !own.is_empty(),
            name,
            version,
            state_dir: ipam.text("state_dir")?.to_owned(),
            configuration_path: ipam.text("configuration_path")?.to_owned(),
            is_sliced: sliced.unwrap_or(ipam.value("node_slice_size").is_some_and(|size| size != "")),
            tree,
        })
    }

    /// What giving out addresses needs. Addresses and gateways that the environment names come to those that the configuration does.
    pub fn settings(&self, ips: &[IpAddr], gateways: &[IpAddr]) -> Result<Settings, Failure> {
        let root = Object::new(&self.tree, "");
        let ipam = ipam(&root)?;
        let order = match ipam.text("allocation")? {
            "" | "lowest" => Order::Lowest,
            "roundrobin" => Order::RoundRobin,
            other => return Err(ipam.refuse("allocation", format!("{other} is neither \"lowest\" nor \"roundrobin\""))),
        };
        let cooldown = ipam.number("cooldown")?;
        if cooldown > LONGEST_COOLDOWN {
            return Err(ipam.refuse("cooldown", format!("{cooldown} s is too long: {LONGEST_COOLDOWN} s is the most")));
        }
        let gateway = Some(ipam.text("gateway")?).filter(|text| !text.is_empty());
        let gateway = gateway.map(|text| address_in(&ipam, "gateway", text)).transpose()?;
        let mut addresses = addresses(&ipam)?;
        for given in &mut addresses {
            let network = Cidr::tolerant(&given.ip.to_string()).ok().map(|read| read.value);
            let inside = |gateway: &&IpAddr| network.is_some_and(|network| contains(network, **gateway));
            given.gateway = gateways.iter().find(inside).copied().or(given.gateway);
        }
        let mut requested = ips.to_vec();
        requested.extend(requests(&root)?);
        let mut unique = Vec::with_capacity(requested.len());
        for ip in requested {
            if !unique.contains(&ip) {
                unique.push(ip);
            }
        }
        self.kubeconfig()?;
        let settings = Settings {
            ranges: ranges(&ipam)?,
            gateway,
            gateways: gateways.to_vec(),
            routes: routes(&ipam)?,
            dns: dns(&ipam)?,
            addresses,
            requested: unique,
            order,
            cooldown,
            grant_max_age: ipam.number("grant_max_age")?,
            overlapping: ipam.flag("enable_overlapping_ranges")?.unwrap_or(true),
        };
        settings.check_count(self.version, &ipam)?;
        Ok(settings)
    }

    /// Where the API server is found; empty if the configuration does not say so.
    pub fn kubeconfig(&self) -> Result<&str, Failure> {
        let root = Object::new(&self.tree, "");
        let kubernetes = ipam(&root)?.object("kubernetes")?;
        kubernetes.map_or(Ok(""), |object| object.text("kubeconfig"))
    }

    /// The name of the network in the names of its objects, if it has one there.
    pub fn prefix(&self) -> Option<&str> {
        self.is_named.then_some(self.network.as_str())
    }

    /// The addresses of `prevResult`; none if the configuration has none.
    pub fn previous(&self) -> Result<Option<Vec<IpAddr>>, Failure> {
        let root = Object::new(&self.tree, "");
        let Some(result) = root.object("prevResult")? else { return Ok(None) };
        let mut addresses = Vec::new();
        let mut add = |object: &Object<'_>, key: &str| {
            let text = object.text(key)?;
            addresses.push(bare_address(text).map_err(|why| object.refuse(key, format!("{text}: {why}")))?);
            Ok::<(), Failure>(())
        };
        for ip in result.objects("ips")? {
            add(&ip, "address")?;
        }
        for key in ["ip4", "ip6"] {
            if let Some(ip) = result.object(key)? {
                add(&ip, "ip")?;
            }
        }
        Ok(Some(addresses))
    }

    /// The attachments that GC leaves; none if the runtime did not list them, which is not the same as an empty list.
    pub fn valid_attachments(&self) -> Result<Option<Vec<Attachment>>, Failure> {
        let root = Object::new(&self.tree, "");
        let Some(key) = VALID.into_iter().find(|key| root.value(key).is_some()) else { return Ok(None) };
        let read = |object: Object<'_>| -> Result<Attachment, Failure> {
            Ok((object.text("containerID")?.to_owned(), object.text("ifname")?.to_owned()))
        };
        root.objects(key)?.into_iter().map(read).collect::<Result<_, _>>().map(Some)
    }
}

impl Settings {
    /// The gateway of an address that was given.
    pub fn gateway_of(&self, ip: Ip) -> Option<IpAddr> {
        let near = |gateway: &IpAddr| Cidr::tolerant(&ip.to_string()).is_ok_and(|read| contains(read.value, *gateway));
        let named = self.gateways.iter().copied().find(near);
        named.or(self.gateway.filter(|gateway| gateway.is_ipv4() == ip.address.is_ipv4()))
    }

    /// Until 0.2.0 an answer has room for one address of each family; a second one would be given and nobody told.
    fn check_count(&self, version: Version, ipam: &Object<'_>) -> Result<(), Failure> {
        if version >= Version::V0_3_0 {
            return Ok(());
        }
        let fixed = self.addresses.iter().map(|given| number(given.ip.address).0);
        for family in [Family::V4, Family::V6] {
            let from_ranges = self.ranges.iter().filter(|range| range.family() == family).count();
            if from_ranges + fixed.clone().filter(|other| *other == family).count() > 1 {
                let key = if from_ranges > 1 { "ipRanges" } else { "addresses" };
                let why =
                    format!("cniVersion {} has room for one {family} address; take 0.3.0 or later", version.text());
                return Err(ipam.refuse(key, why));
            }
        }
        Ok(())
    }
}

fn ipam<'a>(root: &Object<'a>) -> Result<Object<'a>, Failure> {
    root.object("ipam")?.ok_or_else(|| Failure::new(Code::Config, "ipam: missing"))
}

/// `range`, then each of `ipRanges`.
fn ranges(ipam: &Object<'_>) -> Result<Vec<RangeConf>, Failure> {
    let mut ranges: Vec<RangeConf> = RangeConf::read(ipam)?.into_iter().collect();
    let shared = if ranges.is_empty() { RangeConf::exclusions(ipam)? } else { Vec::new() };
    for object in ipam.objects("ipRanges")? {
        let range = RangeConf::read(&object)?;
        let mut range = range.ok_or_else(|| object.refuse("range", "missing"))?;
        let family = range.family();
        let mine = shared.iter().filter(|(other, _)| *other == family);
        range.excluded.extend(mine.map(|(_, span)| *span));
        if range.slice_length.is_none() {
            range.cut(ipam)?;
        }
        ranges.push(range);
    }
    if ranges.len() > MOST_RANGES {
        return Err(ipam.refuse("ipRanges", format!("{} are too many: {MOST_RANGES} is the most", ranges.len())));
    }
    Ok(ranges)
}

/// `runtimeConfig.ips`, which the capability `ips` gives, and `args.cni.ips`.
fn requests(root: &Object<'_>) -> Result<Vec<IpAddr>, Failure> {
    let runtime = root.object("runtimeConfig")?;
    let cni = root.object("args")?.map(|args| args.object("cni")).transpose()?.flatten();
    let mut requests = Vec::new();
    for object in runtime.into_iter().chain(cni) {
        for (path, text) in object.texts("ips")? {
            let read = bare_address(text).map_err(|why| object.refuse(&path, format!("{text}: {why}")))?;
            requests.push(read);
        }
    }
    Ok(requests)
}

fn addresses(ipam: &Object<'_>) -> Result<Vec<Static>, Failure> {
    let read = |object: Object<'_>| -> Result<Static, Failure> {
        let text = object.text("address")?;
        let refuse = |why| object.refuse("address", format!("{text}: {why}"));
        let length = Cidr::tolerant(text).map_err(refuse)?.value.length();
        let ip = Ip { address: bare_address(text).map_err(refuse)?, length };
        let gateway = Some(object.text("gateway")?).filter(|text| !text.is_empty());
        let gateway = gateway.map(|text| address_in(&object, "gateway", text)).transpose()?;
        Ok(Static { ip, gateway })
    };
    ipam.objects("addresses")?.into_iter().map(read).collect()
}

fn routes(ipam: &Object<'_>) -> Result<Vec<Value>, Failure> {
    for route in ipam.objects("routes")? {
        let destination = route.text("dst")?;
        Cidr::tolerant(destination).map_err(|why| route.refuse("dst", format!("{destination}: {why}")))?;
        let gateway = route.text("gw")?;
        if !gateway.is_empty() {
            address_in(&route, "gw", gateway)?;
        }
    }
    Ok(ipam.list("routes")?.cloned().unwrap_or_default())
}

fn dns(ipam: &Object<'_>) -> Result<Map<String, Value>, Failure> {
    let Some(dns) = ipam.object("dns")? else { return Ok(Map::new()) };
    dns.text("domain")?;
    for key in ["nameservers", "search", "options"] {
        dns.texts(key)?;
    }
    Ok(ipam.value("dns").and_then(Value::as_object).cloned().unwrap_or_default())
}

fn address_in(object: &Object<'_>, key: &str, text: &str) -> Result<IpAddr, Failure> {
    tolerant_address(text).map(|read| read.value).map_err(|why| object.refuse(key, format!("{text}: {why}")))
}

/// Whether a prefix has an address.
pub fn contains(cidr: Cidr, address: IpAddr) -> bool {
    let (family, at) = number(address);
    family == cidr.family() && Span::of(cidr).has(at)
}

/// Whether a text can be in the name of an object: a DNS-1123 subdomain.
pub fn is_dns_name(text: &str) -> bool {
    let label = |label: &str| {
        let edge =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
        let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        edge(label.chars().next()) && edge(label.chars().next_back()) && label.chars().all(inner)
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests;
