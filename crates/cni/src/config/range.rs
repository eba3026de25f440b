//! A range of a network: its prefix, the part of it that is given out, and what is left out of that.

use std::net::IpAddr;

use space::{Cidr, Family, tolerant_address};

use super::field::Object;
use crate::failure::Failure;

/// Consecutive addresses of one family, as numbers; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first.
    pub first: u128,
    /// The last.
    pub last: u128,
}

impl Span {
    /// A single address.
    pub const fn point(address: u128) -> Self {
        Self { first: address, last: address }
    }

    /// The addresses of a prefix.
    pub fn of(cidr: Cidr) -> Self {
        match cidr {
            Cidr::V4(prefix) => Self { first: prefix.first().into(), last: prefix.last().into() },
            Cidr::V6(prefix) => Self { first: prefix.first(), last: prefix.last() },
        }
    }

    /// What both have.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }

    /// Whether it has this address.
    pub const fn has(self, address: u128) -> bool {
        self.first <= address && address <= self.last
    }

    /// The addresses of a prefix that hosts can have: neither its first nor its last, unless it has but one or two.
    fn usable(cidr: Cidr) -> Self {
        let all = Self::of(cidr);
        if cidr.length() + 1 >= cidr.family().width() {
            return all;
        }
        Self { first: all.first + 1, last: all.last - 1 }
    }
}

/// The number and the family of an address.
pub fn number(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(v4) => (Family::V4, u32::from(v4).into()),
        IpAddr::V6(v6) => (Family::V6, v6.into()),
    }
}

/// The address of a number.
pub fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4((number as u32).into()),
        Family::V6 => IpAddr::V6(number.into()),
    }
}

/// A range of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeConf {
    /// Its prefix. The addresses that are given have its length.
    pub cidr: Cidr,
    /// What is given out of it.
    pub span: Span,
    /// What is not, though it is inside.
    pub excluded: Vec<Span>,
    /// The prefix length of a node's slice of it, if the configuration says one.
    pub slice_length: Option<u8>,
}

impl RangeConf {
    /// Reads `range`, `range_start`, `range_end`, `exclude` and `node_slice_size` of an object; none if it has no `range`.
    pub(super) fn read(object: &Object<'_>) -> Result<Option<Self>, Failure> {
        let text = object.text("range")?;
        let (start, end) = (object.text("range_start")?, object.text("range_end")?);
        let excluded = Self::exclusions(object)?;
        if text.is_empty() {
            return Ok(None);
        }
        let refuse = |why: &dyn std::fmt::Display| object.refuse("range", format!("{text}: {why}"));
        let (first, cidr_text) = text.split_once('-').map_or((None, text), |(first, rest)| (Some(first), rest));
        let cidr = Cidr::tolerant(cidr_text.trim()).map_err(|why| refuse(&why))?.value;
        let mut span = Span::usable(cidr);
        if let Some(first) = first {
            let last = cidr_text.split_once('/').map_or(cidr_text, |(last, _)| last);
            let end_of = |text: &str| inside(cidr, text).map_err(|why| refuse(&why));
            let (first, last) = (end_of(first.trim())?, end_of(last.trim())?);
            if first > last {
                return Err(refuse(&"the first address is behind the last"));
            }
            narrow(&mut span, Some(first), Some(last));
        } else {
            let bound = |key: &str, text: &str| -> Result<Option<u128>, Failure> {
                let address = (!text.is_empty()).then(|| tolerant_address(text)).transpose();
                let address = address.map_err(|why| object.refuse(key, format!("{text}: {why}")))?;
                Ok(address
                    .map(|read| number(read.value))
                    .filter(|(family, _)| *family == cidr.family())
                    .map(|both| both.1))
            };
            narrow(&mut span, bound("range_start", start)?, bound("range_end", end)?);
        }
        let mine = excluded.into_iter().filter(|(family, _)| *family == cidr.family());
        let mut range = Self { cidr, span, excluded: mine.map(|(_, span)| span).collect(), slice_length: None };
        range.cut(object)?;
        Ok(Some(range))
    }

    /// The exclusions of an object, each a prefix or an address.
    pub(super) fn exclusions(object: &Object<'_>) -> Result<Vec<(Family, Span)>, Failure> {
        let read = |(path, text): (String, &str)| {
            if text.contains('/') {
                Cidr::tolerant(text).map(|read| (read.value.family(), Span::of(read.value)))
            } else {
                tolerant_address(text).map(|read| number(read.value)).map(|(family, at)| (family, Span::point(at)))
            }
            .map_err(|why| object.refuse(&path, format!("{text}: {why}")))
        };
        object.texts("exclude")?.into_iter().map(read).collect()
    }

    /// Takes over the size of a slice that `object` says, if it says one.
    ///
    /// A length that an IPv6 range cannot be cut by is that of an IPv4 slice: the IPv6 slice has as many addresses. So one size serves
    /// both families.
    pub(super) fn cut(&mut self, object: &Object<'_>) -> Result<(), Failure> {
        let text = object.text("node_slice_size")?;
        if text.is_empty() {
            return Ok(());
        }
        let refuse = |why: String| object.refuse("node_slice_size", why);
        let digits = text.strip_prefix('/').unwrap_or(text);
        let said = Some(digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let said = said.and_then(|digits| digits.parse::<u8>().ok());
        let said = said.ok_or_else(|| refuse(format!("{text} is no prefix length, such as \"/26\"")))?;
        let (shortest, longest) = (self.cidr.length(), self.cidr.family().width());
        let fits = |length: &u8| (shortest..=longest).contains(length);
        let as_v4 = |said: u8| said.checked_add(96).filter(|_| self.cidr.family() == Family::V6 && said <= 32);
        let length = Some(said).filter(fits).or_else(|| as_v4(said).filter(fits));
        let outside =
            || refuse(format!("no slice of {} is a /{said}: it can be a /{shortest} to /{longest}", self.cidr));
        self.slice_length = Some(length.ok_or_else(outside)?);
        Ok(())
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.cidr.family()
    }
}

/// Takes what lies inside of what is left; what does not is as if it was not said.
fn narrow(span: &mut Span, first: Option<u128>, last: Option<u128>) {
    if let Some(first) = first.filter(|first| span.has(*first)) {
        span.first = first;
    }
    if let Some(last) = last.filter(|last| span.has(*last)) {
        span.last = last;
    }
}

/// The number of an address that must lie in `cidr`.
fn inside(cidr: Cidr, text: &str) -> Result<u128, String> {
    let (family, at) = number(tolerant_address(text).map_err(|why| format!("{text}: {why}"))?.value);
    if family != cidr.family() || !Span::of(cidr).has(at) {
        return Err(format!("{text} is not in {cidr}"));
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(tree: &Value) -> Result<Option<RangeConf>, Failure> {
        RangeConf::read(&Object::new(tree.as_object().unwrap(), "ipam"))
    }

    fn ends(tree: &Value) -> (String, String, String) {
        let range = read(tree).unwrap().unwrap();
        let text = |at| address(range.family(), at).to_string();
        (range.cidr.to_string(), text(range.span.first), text(range.span.last))
    }

    #[test]
    fn a_range_is_read_by_its_meaning() {
        for (text, cidr, first, last) in [
            ("192.168.2.225/28", "192.168.2.224/28", "192.168.2.225", "192.168.2.238"),
            ("192.168.0.0/16", "192.168.0.0/16", "192.168.0.1", "192.168.255.254"),
            ("10.0.0.8/30", "10.0.0.8/30", "10.0.0.9", "10.0.0.10"),
            ("10.0.0.8/31", "10.0.0.8/31", "10.0.0.8", "10.0.0.9"),
            ("10.0.0.8/32", "10.0.0.8/32", "10.0.0.8", "10.0.0.8"),
            ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.1", "255.255.255.254"),
            ("192.168.1.11-192.168.1.23/24", "192.168.1.0/24", "192.168.1.11", "192.168.1.23"),
            ("192.168.001.011-192.168.001.023/24", "192.168.1.0/24", "192.168.1.11", "192.168.1.23"),
            ("192.168.001.0/24", "192.168.1.0/24", "192.168.1.1", "192.168.1.254"),
            ("10.0.0.5-10.0.0.5/24", "10.0.0.0/24", "10.0.0.5", "10.0.0.5"),
            ("fd::1/116", "fd::/116", "fd::1", "fd::ffe"),
            ("fd00::/128", "fd00::/128", "fd00::", "fd00::"),
            ("fd00::/127", "fd00::/127", "fd00::", "fd00::1"),
            ("::/0", "::/0", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"),
            (
                "2001:db8:480:603d:304:403::-2001:db8:480:603d:304:403::4/64",
                "2001:db8:480:603d::/64",
                "2001:db8:480:603d:304:403::",
                "2001:db8:480:603d:304:403:0:4",
            ),
            (
                "2001:db8:5422:5::-2001:db8:5422:5:7fff:ffff:ffff:ffff/64",
                "2001:db8:5422:5::/64",
                "2001:db8:5422:5::1",
                "2001:db8:5422:5:7fff:ffff:ffff:ffff",
            ),
        ] {
            assert_eq!(ends(&json!({"range": text})), (cidr.into(), first.into(), last.into()), "{text}");
        }
    }

    #[test]
    fn start_and_end_count_where_they_are_inside() {
        for (start, end, first, last) in [
            ("192.168.1.6", "", "192.168.1.6", "192.168.1.254"),
            ("192.168.1.006", "192.168.001.010", "192.168.1.6", "192.168.1.10"),
            ("192.168.0.6", "192.168.2.10", "192.168.1.1", "192.168.1.254"),
            ("192.168.1.0", "192.168.1.255", "192.168.1.1", "192.168.1.254"),
            ("192.168.1.20", "192.168.1.10", "192.168.1.20", "192.168.1.254"),
            ("fd00::1", "", "192.168.1.1", "192.168.1.254"),
        ] {
            let tree = json!({"range": "192.168.1.0/24", "range_start": start, "range_end": end});
            assert_eq!(ends(&tree), ("192.168.1.0/24".into(), first.into(), last.into()), "{start} {end}");
        }
    }

    #[test]
    fn exclusions_are_prefixes_or_addresses_of_the_family() {
        let tree =
            json!({"range": "10.0.0.0/24", "exclude": ["10.0.0.0/28", "10.0.0.99", "fd00::/64", "010.0.0.200/30"]});
        let spans = read(&tree).unwrap().unwrap().excluded;
        let from = |from: u128, to: u128| Span { first: 0x0a00_0000 + from, last: 0x0a00_0000 + to };
        assert_eq!(spans, [from(0, 15), from(99, 99), from(200, 203)]);
    }

    #[test]
    fn one_size_of_slices_serves_both_families() {
        for (range, size, length) in [
            ("10.0.0.0/8", "/26", 26),
            ("10.0.0.0/8", "26", 26),
            ("10.0.0.0/26", "/26", 26),
            ("10.0.0.0/8", "/32", 32),
            ("fd00::/64", "/80", 80),
            ("fd00::/64", "/26", 122),
            ("fd00::/64", "/32", 128),
            ("fd00::/16", "/26", 26),
        ] {
            let tree = json!({"range": range, "node_slice_size": size});
            assert_eq!(read(&tree).unwrap().unwrap().slice_length, Some(length), "{range} {size}");
        }
    }

    #[test]
    fn each_flaw_is_told_with_its_field() {
        let expected = "was expected, not";
        for (tree, told) in [
            (json!({"range": 5}), format!("ipam.range: text {expected} 5")),
            (
                json!({"range": "10.0.0.0"}),
                "ipam.range: 10.0.0.0: it has no prefix length (expected ADDRESS/LENGTH)".into(),
            ),
            (
                json!({"range": "10.0.0.9-10.0.0.1/24"}),
                "ipam.range: 10.0.0.9-10.0.0.1/24: the first address is behind the last".into(),
            ),
            (
                json!({"range": "10.0.1.9-10.0.0.1/24"}),
                "ipam.range: 10.0.1.9-10.0.0.1/24: 10.0.1.9 is not in 10.0.0.0/24".into(),
            ),
            (
                json!({"range": "fd00::1-10.0.0.1/24"}),
                "ipam.range: fd00::1-10.0.0.1/24: fd00::1 is not in 10.0.0.0/24".into(),
            ),
            (
                json!({"range": "10.0.0.0/24", "range_start": "x"}),
                "ipam.range_start: x: the address part is neither an IPv4 nor an IPv6 address".into(),
            ),
            (
                json!({"range": "10.0.0.0/24", "exclude": ["10.0.0.1", "10.0.0.0/x"]}),
                "ipam.exclude[1]: 10.0.0.0/x: the prefix length is not a number".into(),
            ),
            (json!({"exclude": "all"}), format!("ipam.exclude: a list {expected} \"all\"")),
            (json!({"exclude": [1]}), format!("ipam.exclude[0]: text {expected} 1")),
            (
                json!({"range": "10.0.0.0/24", "node_slice_size": "abc"}),
                "ipam.node_slice_size: abc is no prefix length, such as \"/26\"".into(),
            ),
            (
                json!({"range": "10.0.0.0/24", "node_slice_size": "/8"}),
                "ipam.node_slice_size: no slice of 10.0.0.0/24 is a /8: it can be a /24 to /32".into(),
            ),
            (
                json!({"range": "fd00::/64", "node_slice_size": "/33"}),
                "ipam.node_slice_size: no slice of fd00::/64 is a /33: it can be a /64 to /128".into(),
            ),
            (
                json!({"range": "10.0.0.0/24", "node_slice_size": "+26"}),
                "ipam.node_slice_size: +26 is no prefix length, such as \"/26\"".into(),
            ),
        ] {
            assert_eq!(read(&tree).unwrap_err().message, told);
        }
        assert_eq!(read(&json!({})).unwrap(), None);
    }
}
