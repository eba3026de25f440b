//! Reading text: properties of any text, where `cidr.rs` has tables of some.

use std::net::{IpAddr, Ipv4Addr};

use Flaw::{HostBits, LeadingZeros, Mapped};
use proptest::prelude::*;
use space::{Address, Cidr, Flaw, Prefix, Reading, tolerant_address};

fn prefixes<A: Address>() -> impl Strategy<Value = Prefix<A>> {
    // Runs of zeros in all places, and mapped addresses.
    let bits = prop_oneof![
        any::<u128>(),
        any::<(u128, u128)>().prop_map(|(a, b)| a & b),
        0xffff_0000_0000..=0xffff_ffff_ffff_u128
    ];
    (bits, 0..=A::WIDTH).prop_map(|(bits, length)| {
        let prefix = Prefix::enclosing_address(A::narrow(bits), length);
        prefix.unwrap_or_else(|refusal| panic!("/{length}: {refusal}"))
    })
}

/// Nearly right text: the parts of addresses in any arrangement.
fn scraps() -> impl Strategy<Value = String> {
    const OCTETS: &str = "0?0?[0-9]{1,3}(\\.0?[0-9]{1,3}){2,4}";
    const DOTTED_TAIL: &str = "::(ffff:)?0?[0-9]{1,3}(\\.0?[0-9]{1,2}){3}";
    const GROUPS: &str = "(0{0,3}[0-9a-fA-F]{1,2}:|0:|:){1,8}[0-9a-fA-F]{0,4}";
    prop_oneof![
        (prop_oneof![OCTETS, DOTTED_TAIL, GROUPS], "(/0?[0-9]{1,3})?").prop_map(|(a, b)| a + &b),
        "[0-9a-f:./% ]{0,20}",
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn every_ipv4_prefix_reads_back_strictly(prefix in prefixes::<u32>()) {
        prop_assert_eq!(Cidr::strict(&prefix.to_string()), Ok(Cidr::V4(prefix)));
    }

    /// All but those inside `::ffff:0:0/96`: they read as the IPv4 prefix that they are.
    #[test]
    fn every_ipv6_prefix_reads_back_strictly(prefix in prefixes::<u128>()) {
        let text = prefix.to_string();
        let mapped = Prefix::new(0xffff << 32, 96).unwrap();
        if mapped.contains(&prefix) {
            let value = Cidr::V4(Prefix::new(prefix.first() as u32, prefix.length() - 96).unwrap());
            prop_assert_eq!(Cidr::tolerant(&text), Ok(Reading { value, flaws: vec![Mapped] }));
        } else {
            prop_assert_eq!(Cidr::strict(&text), Ok(Cidr::V6(prefix)));
        }
    }

    /// Four numbers, each with some zeros before it, plain or mapped: the meaning and the flaws are plain to see.
    #[test]
    fn dotted_text_has_the_flaws_that_were_put_in(
        octets in any::<[u8; 4]>(), zeros in any::<[bool; 5]>(), length in 0..=32_u8, is_mapped in any::<bool>(),
    ) {
        let zero = |at: usize| if zeros[at] { "00" } else { "" };
        let dotted: Vec<String> = octets.iter().zip(0..).map(|(octet, at)| format!("{}{octet}", zero(at))).collect();
        let (start, added) = if is_mapped { ("::ffff:", 96) } else { ("", 0) };
        let address = format!("{start}{}", dotted.join("."));
        let text = format!("{address}/{}{}", zero(4), length + added);

        let bits = u32::from_be_bytes(octets);
        let host_bits = bits.checked_shl(u32::from(length)).is_some_and(|below| below != 0);
        let flaws = |zeros: &[bool], host_bits: bool| -> Vec<Flaw> {
            let flaws = [(zeros.contains(&true), LeadingZeros), (is_mapped, Mapped), (host_bits, HostBits)];
            flaws.into_iter().filter_map(|(there, flaw)| there.then_some(flaw)).collect()
        };
        let value = Cidr::V4(Prefix::enclosing_address(bits, length).unwrap());
        prop_assert_eq!(Cidr::tolerant(&text), Ok(Reading { value, flaws: flaws(&zeros, host_bits) }));
        let value = IpAddr::V4(Ipv4Addr::from(octets));
        prop_assert_eq!(tolerant_address(&address), Ok(Reading { value, flaws: flaws(&zeros[..4], false) }));
    }

    /// Reading what was read changes nothing, and strict reading takes canonical text only.
    #[test]
    fn tolerant_reading_is_idempotent(text in scraps()) {
        if let Ok(Reading { value, flaws }) = Cidr::tolerant(&text) {
            prop_assert_eq!(Cidr::tolerant(&value.to_string()), Ok(Reading { value, flaws: vec![] }));
            prop_assert_eq!(flaws.is_empty(), text == value.to_string());
            prop_assert!(flaws.is_sorted());
        }
        if let Ok(Reading { value, flaws }) = tolerant_address(&text) {
            prop_assert_eq!(tolerant_address(&value.to_string()), Ok(Reading { value, flaws: vec![] }));
            prop_assert_eq!(flaws.is_empty(), text == value.to_string());
        }
    }
}
