//! Addresses as whereabouts' objects write them: as an offset in a slice, and as the name of a reservation.

use std::net::IpAddr;

use cni::config::{Span, address, contains, number};
use cni::pool::object::reservation_name;
use space::Cidr;

/// Where an address is in a slice, counted from its first; exact over all 128 bits.
pub fn offset(slice: Cidr, ip: IpAddr) -> Option<String> {
    contains(slice, ip).then(|| (number(ip).1 - Span::of(slice).first).to_string())
}

/// The address that an offset means; none if it is no number or leads out of the slice. A number has one spelling: an entry is taken out
/// by its offset as we write it, which would leave `03` where it is.
pub fn at(slice: Cidr, offset: &str) -> Option<IpAddr> {
    let span = Span::of(slice);
    let counted: u128 = offset.parse().ok()?;
    let is_plain = !offset.starts_with('+') && (offset == "0" || !offset.starts_with('0'));
    let number = span.first.checked_add(counted).filter(|number| is_plain && span.has(*number))?;
    Some(address(slice.family(), number))
}

/// The name of the reservation of an address, in a network that has a `network_name` or in one whose name is empty. It is the plugin's:
/// reservations of networks with and without slices stand in each other's way, or hold nothing.
pub fn reservation(network_name: &str, ip: IpAddr) -> String {
    reservation_name(Some(network_name).filter(|name| !name.is_empty()), ip)
}

/// How many addresses a slice has; all of IPv6 counts as one less than it has.
pub fn capacity(slice: Cidr) -> u128 {
    let span = Span::of(slice);
    (span.last - span.first).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_exact_over_all_bits() {
        for (slice, ip, text) in [
            ("10.0.4.0/22", "10.0.4.0", "0"),
            ("10.0.4.0/22", "10.0.7.255", "1023"),
            ("fd00::/64", "fd00::ffff:ffff:ffff:ffff", "18446744073709551615"),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "340282366920938463463374607431768211455"),
            ("255.255.255.255/32", "255.255.255.255", "0"),
        ] {
            let (slice, ip): (_, IpAddr) = (Cidr::strict(slice).unwrap(), ip.parse().unwrap());
            assert_eq!(offset(slice, ip).as_deref(), Some(text));
            assert_eq!(at(slice, text), Some(ip));
        }
        let slice = Cidr::strict("10.0.4.0/22").unwrap();
        assert_eq!(offset(slice, "10.0.8.0".parse().unwrap()), None);
        assert_eq!(offset(slice, "fd00::".parse().unwrap()), None);
        for text in ["1024", "-1", "", "x", "01", "+1", "00", "340282366920938463463374607431768211456"] {
            assert_eq!(at(slice, text), None, "{text}");
        }
    }

    #[test]
    fn reservations_have_the_names_that_whereabouts_gives_them() {
        let name = |network, ip: &str| reservation(network, ip.parse().unwrap());
        assert_eq!(name("", "10.0.0.1"), "10.0.0.1");
        assert_eq!(name("net", "10.0.0.1"), "net-10.0.0.1");
        assert_eq!((name("", "fd00::1"), name("", "fd00::")), ("fd00--1".to_owned(), "fd00--0".to_owned()));
        assert_eq!(name("net", "::1"), "net---1");
        // Here whereabouts has none that a server takes.
        assert_eq!((name("", "::1"), name("", "::")), ("0--1".to_owned(), "0--0".to_owned()));
    }

    /// The plugin writes it and the agent or the controller of slices looks for it, and they have nothing in common but this.
    #[test]
    fn pools_and_reservations_have_one_name_whoever_says_it() {
        for range in ["10.0.0.0/8", "fd00::/64", "::/126", "0.0.0.0/0"].map(|text| Cidr::strict(text).unwrap()) {
            for network in [None, Some("net")] {
                let said = api::slices::shared_pool_name(network, range);
                assert_eq!(said, cni::pool::object::pool_name(network, range));
            }
        }
        for ip in ["10.0.0.1", "fd00::1", "fd00::", "::1", "::"].map(|text| text.parse().unwrap()) {
            for network in [None, Some("net")] {
                let said = reservation(network.unwrap_or_default(), ip);
                assert_eq!(said, reservation_name(network, ip));
                assert_eq!(cni::pool::object::reserved_address(network, &said), Some(ip));
            }
        }
    }

    #[test]
    fn a_slice_has_as_many_addresses_as_it_has() {
        let of = |text| capacity(Cidr::strict(text).unwrap());
        assert_eq!((of("10.0.0.0/28"), of("10.0.0.1/32"), of("fd00::/64")), (16, 1, 1 << 64));
        assert_eq!(of("::/0"), u128::MAX);
    }
}
