//! The ranges of Services on the command line, read as kube-apiserver reads them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use space::Cidr;
use thiserror::Error;

/// The fewest addresses that a range of Service IPs may have.
const FEWEST_ADDRESSES: u128 = 8;

/// The shortest prefix of IPv6 that gives out addresses.
const SHORTEST_V6: u8 = 64;

/// Where Service IPs come from: one range, or one of each family, the preferred first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceRanges(Vec<Cidr>);

/// Why ranges of Service IPs cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ServiceRangesError {
    #[error("--service-cluster-ip-range must contain at least one valid cidr")]
    None,
    #[error("service-cluster-ip-range[{index}] is not a valid cidr: {text:?}")]
    NotACidr { index: usize, text: String },
    #[error("--service-cluster-ip-range must not contain more than two entries")]
    TooMany,
    #[error("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family")]
    SameFamily,
    #[error("the service cluster IP range must be at least {FEWEST_ADDRESSES} IP addresses")]
    TooSmall,
    #[error(
        "the service cluster IP range {0} gives out no addresses: a prefix of IPv6 must be /{SHORTEST_V6} or longer"
    )]
    TooLarge(Cidr),
}

impl FromStr for ServiceRanges {
    type Err = ServiceRangesError;

    fn from_str(text: &str) -> Result<Self, ServiceRangesError> {
        if text.trim().is_empty() {
            return Err(ServiceRangesError::None);
        }
        let mut ranges = Vec::new();
        for (index, part) in text.split(',').enumerate() {
            let reading = Cidr::tolerant(part.trim())
                .map_err(|_| ServiceRangesError::NotACidr { index, text: part.to_owned() })?;
            ranges.push(reading.value);
        }
        match ranges.as_slice() {
            [one, two] if one.family() == two.family() => return Err(ServiceRangesError::SameFamily),
            [_] | [_, _] => {}
            _ => return Err(ServiceRangesError::TooMany),
        }
        if ranges.iter().any(|range| size(range) < FEWEST_ADDRESSES) {
            return Err(ServiceRangesError::TooSmall);
        }
        let is_large = |range: &Cidr| matches!(range, Cidr::V6(range) if range.length() < SHORTEST_V6);
        if let Some(range) = ranges.iter().find(|range| is_large(range)) {
            return Err(ServiceRangesError::TooLarge(*range));
        }
        Ok(Self(ranges))
    }
}

impl ServiceRanges {
    /// The ranges, the preferred first.
    pub(crate) fn ranges(&self) -> Vec<Cidr> {
        self.0.clone()
    }

    /// The first usable address of each range: that of the API server itself, as Pods know it.
    pub(crate) fn first_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().map(|range| match range {
            Cidr::V4(range) => Ipv4Addr::from(range.first() + 1).into(),
            Cidr::V6(range) => Ipv6Addr::from(range.first() + 1).into(),
        })
    }
}

/// Ports from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The first and the last port.
    pub(crate) fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }
}

/// Why a range of ports cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum PortRangeError {
    #[error("unable to parse port range: {0}")]
    Unreadable(String),
    #[error("the port range cannot be greater than 65535: {0}")]
    TooHigh(String),
    #[error("end port cannot be less than start port: {0}")]
    Backwards(String),
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    /// Reads `FROM-TO`, `FROM+MORE` or a single port.
    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let text = text.trim();
        let number = |part: &str| part.parse::<u32>().map_err(|_| PortRangeError::Unreadable(text.to_owned()));
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (number(first)?, number(last)?)
        } else if let Some((first, more)) = text.split_once('+') {
            let first = number(first)?;
            (first, first.saturating_add(number(more)?))
        } else {
            (number(text)?, number(text)?)
        };
        let port = |number| u16::try_from(number).map_err(|_| PortRangeError::TooHigh(text.to_owned()));
        let range = Self { first: port(first)?, last: port(last)? };
        if range.last < range.first { Err(PortRangeError::Backwards(text.to_owned())) } else { Ok(range) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

fn size(range: &Cidr) -> u128 {
    match range {
        Cidr::V4(range) => range.size(),
        Cidr::V6(range) => range.size(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_or_one_of_each_family_is_read() {
        let first = |text: &str| {
            let ranges: ServiceRanges = text.parse().unwrap();
            ranges.first_addresses().map(|address| address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(first("10.0.0.0/24"), ["10.0.0.1"]);
        assert_eq!(first("fd00::/108, 10.96.0.0/12"), ["fd00::1", "10.96.0.1"]);
        assert_eq!(first("10.0.0.7/24"), ["10.0.0.1"], "host bits do not count");
    }

    #[test]
    fn what_cannot_be_is_refused_in_the_words_that_operators_know() {
        let said = |text: &str| text.parse::<ServiceRanges>().unwrap_err().to_string();
        assert_eq!(said(""), "--service-cluster-ip-range must contain at least one valid cidr");
        assert!(said("10.0.0.0").starts_with("service-cluster-ip-range[0] is not a valid cidr"));
        assert!(said("10.0.0.0/24,x").starts_with("service-cluster-ip-range[1] is not a valid cidr"));
        assert_eq!(
            said("10.0.0.0/24,fd00::/64,fd01::/64"),
            "--service-cluster-ip-range must not contain more than two entries"
        );
        assert_eq!(
            said("10.0.0.0/24,10.1.0.0/24"),
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"
        );
        assert_eq!(said("10.0.0.0/30"), "the service cluster IP range must be at least 8 IP addresses");
        assert_eq!(
            said("10.0.0.0/24,fd00::/63"),
            "the service cluster IP range fd00::/63 gives out no addresses: a prefix of IPv6 must be /64 or longer"
        );
    }

    #[test]
    fn ports_are_read_in_three_notations() {
        let read = |text: &str| text.parse::<PortRange>().map(|range| range.to_string());
        assert_eq!(read("30000-32767").as_deref(), Ok("30000-32767"));
        assert_eq!(read("30000+10").as_deref(), Ok("30000-30010"));
        assert_eq!(read("30000").as_deref(), Ok("30000-30000"));
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(said("30000-70000"), "the port range cannot be greater than 65535: 30000-70000");
        assert_eq!(said("2-1"), "end port cannot be less than start port: 2-1");
        assert_eq!(said("1-2+3"), "unable to parse port range: 1-2+3");
        assert_eq!(said(""), "unable to parse port range: ");
    }
}
