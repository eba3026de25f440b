//! Text in, typed answers out: CIDRs and addresses of either family, read tolerantly or strictly.
//!
//! Clusters are full of text that is nearly right: `010.0.0.0/8`, `10.1.2.3/8`, `::ffff:10.0.0.0/104`. Reading tolerantly
//! gives the meaning and the list of [`Flaw`]s; reading strictly refuses the first flaw. Leading zeros are decimal, never
//! octal; an IPv4-mapped address means the IPv4 address, unless its prefix is shorter than the mapping itself. What cannot be read at all is [`Unreadable`] in both ways.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::prefix::Prefix;
use crate::word::Family;

/// A prefix of either family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cidr {
    /// An IPv4 prefix.
    V4(Prefix<u32>),
    /// An IPv6 prefix.
    V6(Prefix<u128>),
}

/// Something about a text that has a clear meaning and is still not how it should be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// A decimal number starts with a zero.
    LeadingZeros,
    /// An IPv4 address is written as an IPv4-mapped IPv6 address.
    Mapped,
    /// The address has bits set beyond the prefix length.
    HostBits,
    /// Any other spelling than the canonical one (upper case, an uncompressed run of zeros).
    Spelling,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeadingZeros => "a number has leading zeros",
            Self::Mapped => "it is an IPv4-mapped IPv6 address",
            Self::HostBits => "bits are set beyond the prefix length",
            Self::Spelling => "it is not in canonical form",
        })
    }
}

/// Why a text is no address or CIDR at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// There is no `/`.
    #[error("it has no prefix length (expected ADDRESS/LENGTH)")]
    NoLength,
    /// The address part is neither IPv4 nor IPv6.
    #[error("the address part is neither an IPv4 nor an IPv6 address")]
    NotAnAddress,
    /// The length part is no decimal number.
    #[error("the prefix length is not a number")]
    NotALength,
    /// The length is longer than the family's addresses.
    #[error("the prefix length is too long: {0} has at most {width}", width = .0.width())]
    TooLong(Family),
}

/// Why a strict reading refused a text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StrictError<T: fmt::Display + fmt::Debug> {
    /// It means nothing.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It means something, but is written otherwise.
    #[error("{flaw} (write {canonical})")]
    Flawed {
        /// The first thing that is wrong.
        flaw: Flaw,
        /// What it means.
        canonical: T,
    },
    /// It is right, but of the other family.
    #[error("{found} is {}, expected {expected}", other(*expected))]
    WrongFamily {
        /// The family that was expected.
        expected: Family,
        /// What was read.
        found: T,
    },
}

fn other(family: Family) -> Family {
    match family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    }
}

/// What a text means, and what is wrong with how it is written, in the order of [`Flaw`]. [`Flaw::Spelling`] is named only
/// when it is the one thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<T> {
    /// What it means.
    pub value: T,
    /// What is wrong with it; empty for canonical text.
    pub flaws: Vec<Flaw>,
}

impl<T: fmt::Display + fmt::Debug> Reading<T> {
    fn strict(self) -> Result<T, StrictError<T>> {
        match self.flaws.first() {
            None => Ok(self.value),
            Some(&flaw) => Err(StrictError::Flawed { flaw, canonical: self.value }),
        }
    }
}

impl Cidr {
    /// Reads a CIDR and refuses any flaw.
    pub fn strict(text: &str) -> Result<Self, StrictError<Self>> {
        Self::tolerant(text)?.strict()
    }

    /// Reads a CIDR by its meaning and lists its flaws. Host bits are cleared.
    pub fn tolerant(text: &str) -> Result<Reading<Self>, Unreadable> {
        let (address_text, length_text) = text.split_once('/').ok_or(Unreadable::NoLength)?;
        let mut raw = RawAddress::read(address_text)?;
        let (length, length_padded) = read_number(length_text).ok_or(Unreadable::NotALength)?;
        raw.leading_zeros |= length_padded;

        let written = raw.address;
        let family = if written.is_ipv4() { Family::V4 } else { Family::V6 };
        let length = u8::try_from(length).ok().filter(|length| *length <= family.width());
        let length = length.ok_or(Unreadable::TooLong(family))?;
        let (value, host_bits) = match written {
            IpAddr::V4(address) => cut_v4(address, length),
            // A mapped prefix longer than the mapping itself is an IPv4 prefix in disguise.
            IpAddr::V6(address) => match (address.to_ipv4_mapped(), length.checked_sub(96)) {
                (Some(mapped), Some(length)) => cut_v4(mapped, length),
                _ => cut_v6(address, length),
            },
        };
        let canonical = || value.to_string() == text;
        Ok(Reading { value, flaws: raw.flaws(host_bits, canonical) })
    }

    /// The family.
    pub const fn family(&self) -> Family {
        match self {
            Self::V4(_) => Family::V4,
            Self::V6(_) => Family::V6,
        }
    }

    /// The prefix length.
    pub const fn length(&self) -> u8 {
        match self {
            Self::V4(prefix) => prefix.length(),
            Self::V6(prefix) => prefix.length(),
        }
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::V4(one), Self::V4(other)) => one.overlaps(other),
            (Self::V6(one), Self::V6(other)) => one.overlaps(other),
            _ => false,
        }
    }

    /// The IPv4 prefix, or a refusal that says what it is instead.
    pub fn v4(self) -> Result<Prefix<u32>, StrictError<Self>> {
        match self {
            Self::V4(prefix) => Ok(prefix),
            Self::V6(_) => Err(StrictError::WrongFamily { expected: Family::V4, found: self }),
        }
    }

    /// The IPv6 prefix, or a refusal that says what it is instead.
    pub fn v6(self) -> Result<Prefix<u128>, StrictError<Self>> {
        match self {
            Self::V6(prefix) => Ok(prefix),
            Self::V4(_) => Err(StrictError::WrongFamily { expected: Family::V6, found: self }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => fmt::Display::fmt(prefix, f),
            Self::V6(prefix) => fmt::Display::fmt(prefix, f),
        }
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads an address and refuses any flaw.
pub fn strict_address(text: &str) -> Result<IpAddr, StrictError<IpAddr>> {
    tolerant_address(text)?.strict()
}

/// Reads an address by its meaning and lists its flaws.
pub fn tolerant_address(text: &str) -> Result<Reading<IpAddr>, Unreadable> {
    let raw = RawAddress::read(text)?;
    let value = raw.address.to_canonical();
    // Four numbers have no other spelling than those with needless zeros.
    Ok(Reading { value, flaws: raw.flaws(false, || raw.address.is_ipv4() || value.to_string() == text) })
}

fn cut_v4(address: Ipv4Addr, length: u8) -> (Cidr, bool) {
    let bits = u32::from(address);
    let prefix = Prefix::cut(bits, length);
    (Cidr::V4(prefix), prefix.first() != bits)
}

fn cut_v6(address: Ipv6Addr, length: u8) -> (Cidr, bool) {
    let bits = u128::from(address);
    let prefix = Prefix::cut(bits, length);
    (Cidr::V6(prefix), prefix.first() != bits)
}

/// An address as it was written, before anything was made of it.
struct RawAddress {
    address: IpAddr,
    leading_zeros: bool,
}

impl RawAddress {
    fn read(text: &str) -> Result<Self, Unreadable> {
        let Some((head, tail)) = text.rsplit_once(':') else {
            let (address, leading_zeros) = read_dotted(text).ok_or(Unreadable::NotAnAddress)?;
            return Ok(Self { address: IpAddr::V4(address), leading_zeros });
        };
        // Only the dotted tail of an IPv6 address has decimal numbers; the standard reader refuses zeros before them.
        let (text, leading_zeros) = match read_dotted(tail) {
            Some((tail, true)) => (format!("{head}:{tail}"), true),
            _ => (text.to_owned(), false),
        };
        let address: Ipv6Addr = text.parse().map_err(|_| Unreadable::NotAnAddress)?;
        Ok(Self { address: IpAddr::V6(address), leading_zeros })
    }

    fn flaws(&self, host_bits: bool, canonical: impl FnOnce() -> bool) -> Vec<Flaw> {
        let mapped = matches!(self.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        let mut flaws = Vec::new();
        flaws.extend(self.leading_zeros.then_some(Flaw::LeadingZeros));
        flaws.extend(mapped.then_some(Flaw::Mapped));
        flaws.extend(host_bits.then_some(Flaw::HostBits));
        // The flaws above spoil the spelling by themselves; it is news only when it is the one thing wrong.
        if flaws.is_empty() && !canonical() {
            flaws.push(Flaw::Spelling);
        }
        flaws
    }
}

/// Four decimal numbers, and whether any starts with a needless zero.
fn read_dotted(text: &str) -> Option<(Ipv4Addr, bool)> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    let mut any_padded = false;
    for octet in &mut octets {
        let (number, padded) = read_number(parts.next()?)?;
        *octet = u8::try_from(number).ok()?;
        any_padded |= padded;
    }
    parts.next().is_none().then(|| (Ipv4Addr::from(octets), any_padded))
}

/// A decimal number, and whether it starts with a needless zero. Signs and spaces are no digits.
fn read_number(text: &str) -> Option<(u16, bool)> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = text.bytes().fold(0_u16, |sum, byte| sum.saturating_mul(10).saturating_add(u16::from(byte - b'0')));
    Some((number, text.len() > 1 && text.starts_with('0')))
}

impl From<Prefix<u32>> for Cidr {
    fn from(prefix: Prefix<u32>) -> Self {
        Self::V4(prefix)
    }
}

impl From<Prefix<u128>> for Cidr {
    fn from(prefix: Prefix<u128>) -> Self {
        Self::V6(prefix)
    }
}
