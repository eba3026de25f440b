//! Reading text: what each text means, what is wrong with it, and what is said about it.
//!
//! The meanings are those of Go and Kubernetes: tolerant reading gives the network of `ParseCIDRSloppy` and the address of
//! `ParseIPSloppy` (k8s.io/utils/net), strict reading takes what `netip` would write itself, host bits and IPv4-mapped
//! addresses left out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use Flaw::{HostBits, LeadingZeros, Mapped, Spelling};
use Unreadable::{NoLength, NotALength, NotAnAddress, TooLong};
use space::{Cidr, Family, Flaw, Prefix, StrictError, Unreadable, strict_address, tolerant_address};

/// Checks both ways of reading a CIDR that means something.
fn check_cidr(text: &str, canonical: &str, flaws: &[Flaw]) {
    let reading = Cidr::tolerant(text).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
    assert_eq!(reading.value.to_string(), canonical, "the meaning of {text:?}");
    assert_eq!(reading.flaws, flaws, "the flaws of {text:?}");
    let strict = match flaws.first() {
        None => Ok(reading.value),
        Some(&flaw) => Err(StrictError::Flawed { flaw, canonical: reading.value }),
    };
    assert_eq!(Cidr::strict(text), strict, "{text:?}, strictly");
    assert_eq!(Cidr::strict(canonical), Ok(reading.value), "the canonical form of {text:?}");
}

/// Checks both ways of reading an address that means something.
fn check_address(text: &str, canonical: &str, flaws: &[Flaw]) {
    let reading = tolerant_address(text).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
    assert_eq!(reading.value.to_string(), canonical, "the meaning of {text:?}");
    assert_eq!(reading.flaws, flaws, "the flaws of {text:?}");
    let strict = match flaws.first() {
        None => Ok(reading.value),
        Some(&flaw) => Err(StrictError::Flawed { flaw, canonical: reading.value }),
    };
    assert_eq!(strict_address(text), strict, "{text:?}, strictly");
    assert_eq!(strict_address(canonical), Ok(reading.value), "the canonical form of {text:?}");
}

#[test]
fn text_becomes_the_numbers_it_stands_for() {
    let (v4, v6) = (Prefix::new(0x0a01_0000, 16).unwrap(), Prefix::new(0x2001_0db8 << 96, 32).unwrap());
    assert_eq!(Cidr::strict("10.1.0.0/16"), Ok(Cidr::V4(v4)));
    assert_eq!(Cidr::strict("2001:db8::/32"), Ok(Cidr::V6(v6)));
    assert_eq!(Cidr::tolerant("::ffff:10.1.2.3/112").unwrap().value, Cidr::V4(v4));
    assert_eq!((Cidr::from(v4).family(), Cidr::from(v4).length()), (Family::V4, 16));
    assert_eq!((Cidr::from(v6).family(), Cidr::from(v6).length()), (Family::V6, 32));
    assert_eq!(strict_address("10.1.2.3"), Ok(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3))));
    assert_eq!(strict_address("2001:db8::1"), Ok(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))));
    assert_eq!(tolerant_address("::ffff:10.1.2.3").unwrap().value, IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)));
}

#[test]
fn canonical_cidrs_have_no_flaw() {
    let table = [
        "0.0.0.0/0",
        "0.0.0.0/32",
        "10.0.0.0/8",
        "192.168.5.208/28",
        "255.255.255.255/32",
        "::/0",
        "::/128",
        "::1/128",
        "2001:db8::/32",
        "64:ff9b::/96",
        "1:2:3:4:5:6:7:8/128",
        // One zero group alone is not shortened.
        "1:2:3:0:5:6:7:8/128",
        // Of two runs the longer is shortened, of equal ones the first.
        "1:0:0:2::/128",
        "1:0:0:2::3/128",
        "1::2:0:0:3/128",
        // Around the IPv4-mapped addresses, and just beside them.
        "::fffe:0:0/95",
        "::fffe:a00:0/104",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    ];
    for text in table {
        check_cidr(text, text, &[]);
    }
}

#[test]
fn flawed_cidrs_have_a_meaning_and_every_flaw_in_order() {
    let table: &[(&str, &str, &[Flaw])] = &[
        // Leading zeros are decimal, never octal, in every octet and in the length.
        ("010.0.0.0/8", "10.0.0.0/8", &[LeadingZeros]),
        ("10.010.0.0/16", "10.10.0.0/16", &[LeadingZeros]),
        ("10.0.0.00/8", "10.0.0.0/8", &[LeadingZeros]),
        ("099.088.0.0/16", "99.88.0.0/16", &[LeadingZeros]),
        ("10.0.0.0/08", "10.0.0.0/8", &[LeadingZeros]),
        ("0.0.0.0/00", "0.0.0.0/0", &[LeadingZeros]),
        ("000000000000000010.0.0.0/000000000000000008", "10.0.0.0/8", &[LeadingZeros]),
        ("2001:db8::/032", "2001:db8::/32", &[LeadingZeros]),
        ("64:ff9b::192.0.02.0/120", "64:ff9b::c000:200/120", &[LeadingZeros]),
        // Host bits.
        ("10.1.2.3/8", "10.0.0.0/8", &[HostBits]),
        ("255.255.255.255/31", "255.255.255.254/31", &[HostBits]),
        ("0.0.0.1/0", "0.0.0.0/0", &[HostBits]),
        ("2001:db8::1/32", "2001:db8::/32", &[HostBits]),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", &[HostBits]),
        ("::1/0", "::/0", &[HostBits]),
        // IPv4-mapped: from /96 on it is an IPv4 prefix, spelled in decimal or not.
        ("::ffff:10.0.0.0/104", "10.0.0.0/8", &[Mapped]),
        ("::ffff:a00:0/104", "10.0.0.0/8", &[Mapped]),
        ("0:0:0:0:0:FFFF:10.0.0.0/104", "10.0.0.0/8", &[Mapped]),
        ("::ffff:0.0.0.0/96", "0.0.0.0/0", &[Mapped]),
        ("::ffff:1.2.3.4/128", "1.2.3.4/32", &[Mapped]),
        ("::ffff:255.255.255.255/128", "255.255.255.255/32", &[Mapped]),
        // Below /96 it reaches beyond the mapped addresses and stays IPv6; the mapped address then always has host bits.
        ("::ffff:10.0.0.0/95", "::fffe:0:0/95", &[Mapped, HostBits]),
        ("::ffff:0:0/81", "::8000:0:0/81", &[Mapped, HostBits]),
        ("::ffff:0:0/80", "::/80", &[Mapped, HostBits]),
        ("::ffff:10.0.0.0/0", "::/0", &[Mapped, HostBits]),
        // Any other spelling.
        ("2001:DB8::/32", "2001:db8::/32", &[Spelling]),
        ("2001:0db8::/32", "2001:db8::/32", &[Spelling]),
        ("2001:db8:0:0:0:0:0:0/32", "2001:db8::/32", &[Spelling]),
        ("2001:db8::0/32", "2001:db8::/32", &[Spelling]),
        ("0::/0", "::/0", &[Spelling]),
        ("1:2:3:4:5:6:7::/128", "1:2:3:4:5:6:7:0/128", &[Spelling]),
        ("::2:3:4:5:6:7:8/128", "0:2:3:4:5:6:7:8/128", &[Spelling]),
        ("1:0:0:2:0:0:0:0/128", "1:0:0:2::/128", &[Spelling]),
        ("::1.2.3.4/128", "::102:304/128", &[Spelling]),
        ("64:ff9b::192.0.2.0/120", "64:ff9b::c000:200/120", &[Spelling]),
        // Together, in the order of the flaws; the spelling is no news then.
        ("010.1.2.3/8", "10.0.0.0/8", &[LeadingZeros, HostBits]),
        ("10.1.2.3/08", "10.0.0.0/8", &[LeadingZeros, HostBits]),
        ("::ffff:010.0.0.0/104", "10.0.0.0/8", &[LeadingZeros, Mapped]),
        ("::ffff:10.0.0.0/0104", "10.0.0.0/8", &[LeadingZeros, Mapped]),
        ("::ffff:10.1.2.3/104", "10.0.0.0/8", &[Mapped, HostBits]),
        ("::ffff:0.0.0.1/96", "0.0.0.0/0", &[Mapped, HostBits]),
        ("::FFFF:010.01.2.3/0104", "10.0.0.0/8", &[LeadingZeros, Mapped, HostBits]),
        ("::ffff:01.2.3.4/90", "::ffc0:0:0/90", &[LeadingZeros, Mapped, HostBits]),
        ("2001:DB8::1/032", "2001:db8::/32", &[LeadingZeros, HostBits]),
        ("2001:DB8::1/32", "2001:db8::/32", &[HostBits]),
        ("::01.2.3.4/120", "::102:300/120", &[LeadingZeros, HostBits]),
    ];
    for (text, canonical, flaws) in table {
        check_cidr(text, canonical, flaws);
    }
}

#[test]
fn addresses_are_read_like_the_address_part_of_a_cidr() {
    let table: &[(&str, &str, &[Flaw])] = &[
        ("0.0.0.0", "0.0.0.0", &[]),
        ("10.1.2.3", "10.1.2.3", &[]),
        ("255.255.255.255", "255.255.255.255", &[]),
        ("::", "::", &[]),
        ("::1", "::1", &[]),
        ("2001:db8::1", "2001:db8::1", &[]),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &[]),
        ("010.001.02.3", "10.1.2.3", &[LeadingZeros]),
        ("00.0.0.0", "0.0.0.0", &[LeadingZeros]),
        ("::ffff:10.1.2.3", "10.1.2.3", &[Mapped]),
        ("::FFFF:a01:203", "10.1.2.3", &[Mapped]),
        ("::ffff:010.1.2.3", "10.1.2.3", &[LeadingZeros, Mapped]),
        ("::1.2.3.4", "::102:304", &[Spelling]),
        ("::1.2.3.04", "::102:304", &[LeadingZeros]),
        ("2001:DB8::1", "2001:db8::1", &[Spelling]),
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1", &[Spelling]),
    ];
    for (text, canonical, flaws) in table {
        check_address(text, canonical, flaws);
    }
}

/// What is no address, alone or before a `/`.
const NO_ADDRESSES: &[&str] = &[
    "",
    ":",
    ":::",
    ".",
    "...",
    "10",
    "10.0.0",
    "10.0.0.0.0",
    "10.0.0.",
    ".10.0.0",
    "10..0.0",
    "256.0.0.0",
    "10.0.0.256",
    "10.0.0.99999999999999999999999",
    "-1.0.0.0",
    "+1.0.0.0",
    "0x0a.0.0.0",
    "10.0.0.a",
    " 10.0.0.0",
    "10.0.0.0 ",
    "10. 0.0.0",
    "10.0.0.0\n",
    "10,0,0,0",
    // Digits of other scripts.
    "１０.0.0.0",
    "١.0.0.0",
    "2001:db8:：1",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    // The `::` must stand for something, and once.
    "1:2:3:4::5:6:7:8",
    "::1:2:3:4:5:6:7:8",
    "1::2::3",
    ":1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:",
    "2001:db8::g",
    "2001:db8::-1",
    "2001:db8::12345",
    // Longer than four digits even if zeros: RFC 4291 has no such group, though Kubernetes' sloppy reader takes it.
    "2001:00db8::1",
    "2001:db8::1 ",
    "[2001:db8::1]",
    // Zones name an interface of one machine.
    "fe80::1%eth0",
    "fe80::1%25eth0",
    "fe80::%",
    "::ffff:1.2.3.4%eth0",
    // Dotted tails.
    "::ffff:1.2.3",
    "::ffff:1.2.3.4.5",
    "::ffff:1.2.3.256",
    "::ffff:01.2.3.256",
    "::1.2.3.4:5",
    "1.2.3.4::",
    "1:2:3:4:5:6:7:1.2.3.4",
    "1:2:3:4:5:6:7:01.2.3.4",
    "1:2:3:4:5:1.2.3.4",
    ":01.2.3.4",
    "localhost",
];

#[test]
fn what_is_no_address_is_refused_alone_and_in_a_cidr() {
    for text in NO_ADDRESSES {
        assert_eq!(tolerant_address(text), Err(NotAnAddress), "{text:?}");
        assert_eq!(strict_address(text), Err(StrictError::Unreadable(NotAnAddress)), "{text:?}");
        assert_eq!(Cidr::tolerant(text), Err(NoLength), "{text:?} without a length");
        // The address is judged first, so a bad length beside it does not hide what is wrong.
        for length in ["8", "999", "x"] {
            let text = format!("{text}/{length}");
            assert_eq!(Cidr::tolerant(&text), Err(NotAnAddress), "{text:?}");
            assert_eq!(Cidr::strict(&text), Err(StrictError::Unreadable(NotAnAddress)), "{text:?}");
        }
    }
    // A CIDR is no address either.
    assert_eq!(tolerant_address("10.0.0.0/8"), Err(NotAnAddress));
    assert_eq!(tolerant_address("2001:db8::/32"), Err(NotAnAddress));
}

#[test]
fn lengths_that_are_no_number_or_too_long_are_refused() {
    let no_lengths = [
        "",
        " ",
        "8 ",
        " 8",
        "+8",
        "-8",
        "-0",
        "8.0",
        "0x8",
        "8a",
        "a",
        "8/8",
        "/8",
        "/",
        "٨",
        "８",
        "255.0.0.0",
        "8\n",
    ];
    for length in no_lengths {
        for address in ["10.0.0.0", "2001:db8::", "::ffff:10.0.0.0", "010.1.2.3"] {
            let text = format!("{address}/{length}");
            assert_eq!(Cidr::tolerant(&text), Err(NotALength), "{text:?}");
            assert_eq!(Cidr::strict(&text), Err(StrictError::Unreadable(NotALength)), "{text:?}");
        }
    }
    let too_long = [
        ("10.0.0.0/33", Family::V4),
        ("10.0.0.0/033", Family::V4),
        ("10.0.0.0/128", Family::V4),
        // Numbers that would come round to a short length in 8, 16, 32 or 64 bits.
        ("10.0.0.0/264", Family::V4),
        ("10.0.0.0/65544", Family::V4),
        ("10.0.0.0/4294967304", Family::V4),
        ("10.0.0.0/18446744073709551624", Family::V4),
        ("10.0.0.0/999999", Family::V4),
        ("2001:db8::/129", Family::V6),
        ("2001:db8::/288", Family::V6),
        ("2001:db8::/999999", Family::V6),
        ("::ffff:10.0.0.0/129", Family::V6),
    ];
    for (text, family) in too_long {
        assert_eq!(Cidr::tolerant(text), Err(TooLong(family)), "{text:?}");
        assert_eq!(Cidr::strict(text), Err(StrictError::Unreadable(TooLong(family))), "{text:?}");
    }
}

#[test]
fn strict_refusals_say_what_is_wrong_and_what_to_write() {
    let table = [
        ("10.0.0.0", "it has no prefix length (expected ADDRESS/LENGTH)"),
        ("10.0.0/8", "the address part is neither an IPv4 nor an IPv6 address"),
        ("10.0.0.0/x", "the prefix length is not a number"),
        ("10.0.0.0/33", "the prefix length is too long: IPv4 has at most 32"),
        ("::/129", "the prefix length is too long: IPv6 has at most 128"),
        ("010.0.0.0/8", "a number has leading zeros (write 10.0.0.0/8)"),
        ("::ffff:10.0.0.0/104", "it is an IPv4-mapped IPv6 address (write 10.0.0.0/8)"),
        ("10.1.2.3/8", "bits are set beyond the prefix length (write 10.0.0.0/8)"),
        ("2001:DB8::/32", "it is not in canonical form (write 2001:db8::/32)"),
    ];
    for (text, message) in table {
        assert_eq!(Cidr::strict(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let address = strict_address("::ffff:010.0.0.1").unwrap_err();
    assert_eq!(address.to_string(), "a number has leading zeros (write 10.0.0.1)");
}

#[test]
fn the_wrong_family_is_refused_by_name() {
    let (v4, v6) = (Cidr::strict("10.0.0.0/8").unwrap(), Cidr::strict("2001:db8::/32").unwrap());
    assert_eq!(v4.v4(), Ok(Prefix::new(10 << 24, 8).unwrap()));
    assert_eq!(v6.v6(), Ok(Prefix::new(0x2001_0db8 << 96, 32).unwrap()));
    assert_eq!(v4.v6(), Err(StrictError::WrongFamily { expected: Family::V6, found: v4 }));
    assert_eq!(v6.v4(), Err(StrictError::WrongFamily { expected: Family::V4, found: v6 }));
    assert_eq!(v4.v6().unwrap_err().to_string(), "10.0.0.0/8 is IPv4, expected IPv6");
    assert_eq!(v6.v4().unwrap_err().to_string(), "2001:db8::/32 is IPv6, expected IPv4");
}
