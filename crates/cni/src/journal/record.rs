//! What a journal says: who holds which addresses, and that a holding ended. In memory, and as bytes.
//!
//! Records read from a journal borrow its bytes: an ADD reads hundreds of them to write one, and would spend more time on copies than
//! on anything else.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No text in a record is longer than this, in bytes.
pub const LONGEST_TEXT: usize = 4096;

/// Which boot of the machine: `/proc/sys/kernel/random/boot_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BootId(pub [u8; 16]);

impl BootId {
    /// What is said where the boot is not known. It is the same as any other.
    pub const UNKNOWN: Self = Self([0; 16]);

    /// Reads thirty-two hexadecimal digits; hyphens and space around them do not count.
    pub fn read(text: &str) -> Option<Self> {
        let mut digits = text.trim().chars().filter(|letter| *letter != '-');
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            let high = digits.next()?.to_digit(16)?;
            let low = digits.next()?.to_digit(16)?;
            *byte = (high << 4 | low) as u8;
        }
        digits.next().is_none().then_some(Self(bytes))
    }

    /// Whether the machine has booted since: what was said then is about namespaces that cannot be there any more.
    pub fn is_before(self, now: Self) -> bool {
        self != now && self != Self::UNKNOWN && now != Self::UNKNOWN
    }
}

/// An address with the prefix length of the range that it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ip {
    /// The address.
    pub address: IpAddr,
    /// The length of the range's prefix.
    pub length: u8,
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// The addresses of a holding, one for each range, in the order of the ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ips<'a>(Cow<'a, [u8]>);

/// An address in a record: family, prefix length, and sixteen bytes of which IPv4 uses the first four.
const IP_BYTES: usize = 18;

impl Ips<'_> {
    /// These.
    pub fn of(ips: &[Ip]) -> Self {
        let mut bytes = Vec::with_capacity(ips.len() * IP_BYTES);
        for ip in ips {
            let mut address = [0; 16];
            let family = match ip.address {
                IpAddr::V4(v4) => {
                    address[..4].copy_from_slice(&v4.octets());
                    4
                }
                IpAddr::V6(v6) => {
                    address = v6.octets();
                    6
                }
            };
            bytes.extend([family, ip.length]);
            bytes.extend(address);
        }
        Ips(Cow::Owned(bytes))
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Ip> {
        self.0.as_chunks::<IP_BYTES>().0.iter().map(|bytes| {
            let [family, length, address @ ..] = *bytes;
            let v6 = u128::from_be_bytes(address);
            let address: IpAddr =
                if family == 4 { Ipv4Addr::from((v6 >> 96) as u32).into() } else { Ipv6Addr::from(v6).into() };
            Ip { address, length }
        })
    }
}

/// The namespace that an attachment is in. A number of zero: it could not be looked at when the address was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Netns<'a> {
    /// Where the runtime said it is.
    pub path: Cow<'a, str>,
    /// The device of the file there.
    pub device: u64,
    /// The number of the file there.
    pub inode: u64,
}

/// Who said that the addresses are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An ADD on this node.
    Add,
    /// Somebody else, in an `IPPool`: the agent put it here so that nobody is given the address.
    Foreign,
    /// An ADD on this node, of a network without slices: `IPPool`s that all nodes share have the addresses too.
    Shared,
    /// Nobody, or nobody yet: entries of this attachment may be in shared `IPPool`s, and are to be taken out of them. So it is while an
    /// ADD is under way, and from a DEL on until the API server has heard of it.
    Owed,
}

impl Origin {
    /// Whether the addresses are of slices of this node: nobody else gives them, and nobody else has to hear that they are free.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Add | Self::Foreign)
    }
}

/// By their numbers in the journal.
const ORIGINS: [Origin; 4] = [Origin::Add, Origin::Foreign, Origin::Shared, Origin::Owed];

/// An attachment and the addresses that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding<'a> {
    /// Which record this is. Numbers only grow.
    pub sequence: u64,
    /// When it was written: milliseconds since 1970.
    pub at: u64,
    /// In which boot.
    pub boot: BootId,
    /// Who said it.
    pub origin: Origin,
    /// The container, as `CNI_CONTAINERID` names it; foreign ones may have none.
    pub container: Cow<'a, str>,
    /// The interface in it.
    pub ifname: Cow<'a, str>,
    /// The name of the CNI configuration. Several may share a network, and GC speaks of one of them only.
    pub conf: Cow<'a, str>,
    /// The pod, `namespace/name`.
    pub pod: Cow<'a, str>,
    /// The pod's UID, if the runtime told.
    pub uid: Cow<'a, str>,
    /// The namespace. What is owed has one only while an ADD is under way for it.
    pub netns: Netns<'a>,
    /// Where the pools are that all nodes share, as [`crate::pool::object::Home`] writes it; empty for what is of slices.
    pub home: Cow<'a, str>,
    /// The addresses.
    pub ips: Ips<'a>,
}

impl Holding<'_> {
    /// Whether it is of this attachment.
    pub fn is_of(&self, container: &str, ifname: &str) -> bool {
        self.container == container && self.ifname == ifname
    }

    /// Whether an ADD is about to take what is owed here.
    pub fn is_under_way(&self) -> bool {
        self.origin == Origin::Owed && !self.netns.path.is_empty()
    }
}

/// Why a holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The runtime said DEL.
    Del,
    /// The runtime said GC and did not list it.
    Gc,
    /// Its pod came again in another sandbox, and took the addresses over.
    Replaced,
    /// Its namespace is gone.
    NetnsGone,
    /// The machine has booted since.
    Rebooted,
    /// Its pod is gone, as the API says.
    PodGone,
    /// Somebody else took it out of an `IPPool`.
    Foreign,
}

const REASONS: [Reason; 7] =
    [Reason::Del, Reason::Gc, Reason::Replaced, Reason::NetnsGone, Reason::Rebooted, Reason::PodGone, Reason::Foreign];

/// That a holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Which record this is.
    pub sequence: u64,
    /// When it was written: milliseconds since 1970.
    pub at: u64,
    /// Which holding ended.
    pub of: u64,
    /// Why.
    pub reason: Reason,
}

/// What is remembered of a holding that ended: to let its addresses rest, and to go on after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released<'a> {
    /// Which record the holding was.
    pub sequence: u64,
    /// When it ended: milliseconds since 1970.
    pub at: u64,
    /// The addresses.
    pub ips: Ips<'a>,
}

impl Released<'_> {
    /// How many bytes its record has.
    pub(super) fn size(&self) -> usize {
        1 + 8 + 8 + 2 + self.ips.0.len()
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "most records are holdings, and none is kept for long")]
pub enum Record<'a> {
    /// Addresses are held.
    Hold(Holding<'a>),
    /// They are not any more.
    End(End),
    /// They were, a while ago. Only where a journal was written anew.
    Released(Released<'a>),
}

const HOLD: u8 = 1;
const END: u8 = 2;
const RELEASED: u8 = 3;

impl<'a> Record<'a> {
    /// Appends the bytes of the record. Texts are cut at [`LONGEST_TEXT`]; the plugin refuses longer ones before it comes to this.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Self::Hold(holding) => holding.encode(into),
            Self::End(end) => {
                into.push(END);
                for number in [end.sequence, end.at, end.of] {
                    into.extend(number.to_le_bytes());
                }
                into.push(1 + REASONS.iter().position(|reason| *reason == end.reason).unwrap_or_default() as u8);
            }
            Self::Released(released) => {
                into.push(RELEASED);
                for number in [released.sequence, released.at] {
                    into.extend(number.to_le_bytes());
                }
                put_ips(into, &released.ips);
            }
        }
    }

    /// Takes the next record off `bytes`; none if what is there is no record.
    pub fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let [kind] = take(bytes)?;
        match kind {
            HOLD => Holding::decode(bytes).map(Self::Hold),
            END => {
                let [sequence, at, of] = numbers(bytes)?;
                let [reason] = take(bytes)?;
                Some(Self::End(End { sequence, at, of, reason: *REASONS.get(usize::from(reason).checked_sub(1)?)? }))
            }
            RELEASED => {
                let [sequence, at] = numbers(bytes)?;
                Some(Self::Released(Released { sequence, at, ips: take_ips(bytes)? }))
            }
            _ => None,
        }
    }
}

impl<'a> Holding<'a> {
    fn encode(&self, into: &mut Vec<u8>) {
        into.push(HOLD);
        for number in [self.sequence, self.at, self.netns.device, self.netns.inode] {
            into.extend(number.to_le_bytes());
        }
        into.extend(self.boot.0);
        into.push(ORIGINS.iter().position(|origin| *origin == self.origin).unwrap_or_default() as u8);
        put_ips(into, &self.ips);
        let texts = [&self.container, &self.ifname, &self.conf, &self.pod, &self.uid, &self.netns.path, &self.home];
        let cut = texts.map(|text| &text[..text.floor_char_boundary(LONGEST_TEXT)]);
        for text in cut {
            into.extend((text.len() as u16).to_le_bytes());
        }
        for text in cut {
            into.extend(text.as_bytes());
        }
    }

    fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let [sequence, at, device, inode] = numbers(bytes)?;
        let boot = BootId(take(bytes)?);
        let [origin] = take(bytes)?;
        let origin = *ORIGINS.get(usize::from(origin))?;
        let ips = take_ips(bytes)?;
        // The texts are one text until here, so that it is held to UTF-8 once: most of them are too short for that to be quick.
        let mut lengths = [0; 7];
        for length in &mut lengths {
            *length = usize::from(u16::from_le_bytes(take(bytes)?));
        }
        let (texts, rest) = bytes.split_at_checked(lengths.iter().sum())?;
        *bytes = rest;
        let mut texts = str::from_utf8(texts).ok()?;
        let mut next = lengths.into_iter().map(|length| {
            let (text, rest) = texts.split_at_checked(length)?;
            texts = rest;
            Some(Cow::Borrowed(text))
        });
        let mut text = || next.next().flatten();
        let [container, ifname, conf, pod, uid] = [text()?, text()?, text()?, text()?, text()?];
        let (netns, home) = (Netns { path: text()?, device, inode }, text()?);
        Some(Self { sequence, at, boot, origin, container, ifname, conf, pod, uid, netns, home, ips })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = u64::from_le_bytes(take(bytes)?);
    }
    Some(numbers)
}

fn put_ips(into: &mut Vec<u8>, ips: &Ips<'_>) {
    into.extend(((ips.0.len() / IP_BYTES) as u16).to_le_bytes());
    into.extend(ips.0.iter());
}

fn take_ips<'a>(bytes: &mut &'a [u8]) -> Option<Ips<'a>> {
    let count = usize::from(u16::from_le_bytes(take(bytes)?));
    let (ips, rest) = bytes.split_at_checked(count * IP_BYTES)?;
    *bytes = rest;
    let sound = |ip: &[u8; IP_BYTES]| match ip {
        [4, length, _, _, _, _, rest @ ..] => *length <= 32 && *rest == [0; 12],
        [6, length, ..] => *length <= 128,
        _ => false,
    };
    ips.as_chunks().0.iter().all(sound).then_some(Ips(Cow::Borrowed(ips)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding() -> Holding<'static> {
        let ips = [
            Ip { address: "10.1.2.3".parse().unwrap(), length: 8 },
            Ip { address: "2001:db8::ffff:1".parse().unwrap(), length: 64 },
        ];
        Holding {
            sequence: 7,
            at: 1_700_000_000_123,
            boot: BootId::read("1c9a3bd8-4c0d-4d5c-8c63-6a3f6e9a3c11").unwrap(),
            origin: Origin::Add,
            container: "c1".into(),
            ifname: "net1".into(),
            conf: "conf".into(),
            pod: "default/web-0".into(),
            uid: "".into(),
            netns: Netns { path: "/var/run/netns/cni-1".into(), device: 4, inode: 4_026_532_000 },
            home: "".into(),
            ips: Ips::of(&ips),
        }
    }

    fn records() -> Vec<Record<'static>> {
        let released = Released { sequence: 7, at: 8, ips: holding().ips };
        let ends = REASONS.iter().map(|reason| Record::End(End { sequence: 9, at: 10, of: 7, reason: *reason }));
        let foreign = Holding { origin: Origin::Foreign, ips: Ips::of(&[]), ..holding() };
        let shared = Holding { origin: Origin::Shared, home: "kube-system/net".into(), ..holding() };
        let mut records: Vec<_> = [holding(), foreign, shared].map(Record::Hold).into();
        records.push(Record::Released(released));
        records.extend(ends);
        records
    }

    #[test]
    fn every_record_reads_back_as_it_was_written() {
        let mut bytes = Vec::new();
        for record in records() {
            record.encode(&mut bytes);
        }
        let mut rest = bytes.as_slice();
        for record in records() {
            assert_eq!(Record::decode(&mut rest), Some(record));
        }
        assert!(rest.is_empty());
        assert_eq!(Record::decode(&mut rest), None);
    }

    #[test]
    fn what_is_remembered_knows_its_size() {
        let released = Released { sequence: 7, at: 8, ips: holding().ips };
        let (size, mut bytes) = (released.size(), Vec::new());
        Record::Released(released).encode(&mut bytes);
        assert_eq!(bytes.len(), size);
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_none() {
        for record in records() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..cut]), None, "{record:?} at {cut}");
            }
        }
    }

    #[test]
    fn no_bytes_make_reading_panic() {
        let mut bytes = Vec::new();
        Record::Hold(holding()).encode(&mut bytes);
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 3, 7, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                if let Some(Record::Hold(holding)) = Record::decode(&mut bytes.as_slice()) {
                    assert!(holding.ips.iter().count() <= 2);
                }
            }
        }
    }

    #[test]
    fn addresses_say_their_family_themselves() {
        let text: Vec<String> = holding().ips.iter().map(|ip| ip.to_string()).collect();
        assert_eq!(text, ["10.1.2.3/8", "2001:db8::ffff:1/64"]);
    }

    #[test]
    fn boots_are_told_apart_only_when_both_are_known() {
        let [one, other] = [BootId([1; 16]), BootId([2; 16])];
        assert!(one.is_before(other));
        assert!(!one.is_before(one) && !one.is_before(BootId::UNKNOWN) && !BootId::UNKNOWN.is_before(one));
        for text in ["", "1c9a3bd8", "zc9a3bd8-4c0d-4d5c-8c63-6a3f6e9a3c11", "1c9a3bd8-4c0d-4d5c-8c63-6a3f6e9a3c1100"] {
            assert_eq!(BootId::read(text), None, "{text}");
        }
    }
}
