//! The books of who has which address: that of the runtime, who was answered, the journal of the node, and what the API shows of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cni::journal::{Holding, Image, Origin};
use cni::place::Place;
use serde_json::Value;

/// An interface of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attachment {
    pub(crate) container: String,
    ifname: String,
}

impl Attachment {
    pub(crate) fn new(container: &str, ifname: &str) -> Self {
        Self { container: container.to_owned(), ifname: ifname.to_owned() }
    }
}

/// Who has which addresses.
pub(crate) type Holdings = BTreeMap<Attachment, Vec<String>>;

/// What the journal in the folder of a network says is held.
pub(crate) fn journal(network: &Path) -> Result<Vec<(Attachment, Vec<String>)>> {
    read(network, |holding| holding.origin != Origin::Owed)
}

/// What it says has to be taken out of pools that all nodes share, and was not yet.
pub(crate) fn owed(network: &Path) -> Result<Vec<(Attachment, Vec<String>)>> {
    read(network, |holding| holding.origin == Origin::Owed)
}

fn read(network: &Path, chosen: impl Fn(&Holding<'_>) -> bool) -> Result<Vec<(Attachment, Vec<String>)>> {
    let name = network.file_name().and_then(|name| name.to_str()).context("a folder without a name")?;
    let place = Place::new(network.parent().unwrap_or(network), name);
    let image = Image::read(&place)?;
    let book = image.book();
    if let Some(at) = book.damage() {
        bail!("{} is damaged at byte {at}", place.journal().display());
    }
    let holdings = book.holdings().iter().filter(|holding| chosen(holding)).map(|holding| {
        let ips = holding.ips.iter().map(|ip| ip.to_string()).collect();
        (Attachment::new(&holding.container, &holding.ifname), ips)
    });
    Ok(holdings.collect())
}

/// How many addresses are held, if both books say the same, and nothing twice.
pub(crate) fn compare(known: &Holdings, journal: &[(Attachment, Vec<String>)]) -> Result<usize> {
    let mut wrong = Vec::new();
    let mut holders: BTreeMap<&str, &Attachment> = BTreeMap::new();
    for (attachment, ips) in journal {
        match known.get(attachment) {
            None => wrong.push(format!("leaked: {attachment:?} holds {ips:?}, and nobody knows of it")),
            Some(said) if said != ips => wrong.push(format!("{attachment:?} holds {ips:?}, and was told {said:?}")),
            Some(_) => {}
        }
        for ip in ips {
            if let Some(other) = holders.insert(ip, attachment) {
                wrong.push(format!("twice: {ip} is held by {other:?} and by {attachment:?}"));
            }
        }
    }
    for (attachment, ips) in known {
        if !journal.iter().any(|(held, _)| held == attachment) {
            wrong.push(format!("lost: {attachment:?} was told {ips:?}, and holds nothing"));
        }
    }
    if wrong.is_empty() { Ok(holders.len()) } else { bail!("{}", wrong.join("\n")) }
}

/// Who has an address, as an `IPPool` says it: container, pod, interface.
pub(crate) type Entry = [String; 3];

/// What `IPPool`s say, all of them together; no address may be in two.
pub(crate) fn shown(pools: &[Value]) -> Result<BTreeMap<IpAddr, Entry>> {
    let mut shown = BTreeMap::new();
    for pool in pools {
        let range = pool["spec"]["range"].as_str().unwrap_or_default();
        let first = range.split('/').next().and_then(|first| first.parse::<IpAddr>().ok());
        let first = first.with_context(|| format!("an IPPool has the range \"{range}\""))?;
        for (offset, entry) in pool["spec"]["allocations"].as_object().into_iter().flatten() {
            let offset: u128 = offset.parse().with_context(|| format!("{offset} is no offset"))?;
            let ip = match first {
                IpAddr::V4(first) => IpAddr::from((first.to_bits() + u32::try_from(offset)?).to_be_bytes()),
                IpAddr::V6(first) => IpAddr::from((first.to_bits() + offset).to_be_bytes()),
            };
            let who = ["id", "podref", "ifname"].map(|field| entry[field].as_str().unwrap_or_default().to_owned());
            ensure!(shown.insert(ip, who).is_none(), "twice: {ip} is in two IPPools");
        }
    }
    Ok(shown)
}

/// The name of the reservation of an address: as whereabouts has it, which puts a zero where a name would end with a dash.
pub(crate) fn reservation(network: &str, ip: IpAddr) -> String {
    let text = ip.to_string().replace(':', "-");
    let zero = if text.ends_with('-') { "0" } else { "" };
    format!("{network}-{text}{zero}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holding(pod: &str, ip: &str) -> (Attachment, Vec<String>) {
        (Attachment::new(pod, "net1"), vec![ip.to_owned()])
    }

    #[test]
    fn what_is_leaked_lost_changed_or_held_twice_is_found() {
        let known = Holdings::from([holding("a", "10.0.0.1/24"), holding("b", "10.0.0.2/24")]);
        let journal = |entries: &[(&str, &str)]| entries.iter().map(|(pod, ip)| holding(pod, ip)).collect::<Vec<_>>();
        let wrong = |entries: &[(&str, &str)]| compare(&known, &journal(entries)).unwrap_err().to_string();
        assert_eq!(compare(&known, &journal(&[("a", "10.0.0.1/24"), ("b", "10.0.0.2/24")])).unwrap(), 2);
        assert!(wrong(&[("a", "10.0.0.1/24"), ("b", "10.0.0.2/24"), ("c", "10.0.0.3/24")]).starts_with("leaked: "));
        assert!(wrong(&[("a", "10.0.0.1/24")]).starts_with("lost: "));
        assert!(wrong(&[("a", "10.0.0.9/24"), ("b", "10.0.0.2/24")]).contains("was told"));
        assert!(wrong(&[("a", "10.0.0.1/24"), ("b", "10.0.0.1/24")]).contains("twice: 10.0.0.1/24"));
    }

    #[test]
    fn pools_are_read_over_both_families_and_an_address_in_two_is_found() {
        let pool = |range: &str, offset: &str| {
            let entry = json!({"id": "c", "podref": "dev/p", "ifname": "net1"});
            json!({"spec": {"range": range, "allocations": {offset: entry}}})
        };
        let both = shown(&[pool("10.0.1.0/24", "258"), pool("fd00::/64", "18446744073709551615")]).unwrap();
        let ips: Vec<String> = both.keys().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.0.2.2", "fd00::ffff:ffff:ffff:ffff"]);
        assert_eq!(both[&ips[0].parse().unwrap()], ["c", "dev/p", "net1"].map(str::to_owned));
        assert!(shown(&[pool("10.0.0.0/16", "257"), pool("10.0.1.0/24", "1")]).is_err());
    }

    #[test]
    fn reservations_have_whereabouts_names() {
        let name = |ip: &str| reservation("net", ip.parse().unwrap());
        assert_eq!(name("10.0.0.1"), "net-10.0.0.1");
        assert_eq!(name("fd00::1"), "net-fd00--1");
        assert_eq!(name("fd00::"), "net-fd00--0");
    }
}
