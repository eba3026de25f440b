//! Service addresses and node ports: what is usable, where the band ends, what is in range.

use space::{Pool, PoolRefusal, Range, RangeId, RangeRefusal, Word, address_band, port_band};
use testkit::choices::Seeded;

use crate::Text;

/// A pool of one range.
fn pool<P: Word>(range: Result<Range<P>, RangeRefusal>) -> (Pool<P>, RangeId) {
    let mut pool = Pool::new();
    let range = range.unwrap_or_else(|refusal| panic!("{refusal}"));
    let id = pool.add_range(range);
    (pool, id)
}

/// Grants from the pool until nothing but its band is left, then until nothing is; both in order.
fn grant_all<P: Word>(pool: &mut Pool<P>) -> (Vec<P>, Vec<P>) {
    let mut random = Seeded::new(1);
    let (mut dynamic, mut band) = (Vec::new(), Vec::new());
    while pool.free().0 > 0 {
        dynamic.extend(pool.grant(|| random.bits()));
    }
    while pool.free().1 > 0 {
        band.extend(pool.grant(|| random.bits()));
    }
    assert_eq!(pool.grant(|| random.bits()), Err(PoolRefusal::Exhausted));
    dynamic.sort_unstable();
    band.sort_unstable();
    (dynamic, band)
}

/// Range, and how many of its addresses a Service may have.
const USABLE: &[(&str, u128)] = &[
    ("192.168.1.0/24", 254),
    ("192.168.1.240/30", 2),
    ("192.168.1.0/32", 0),
    ("192.168.1.0/31", 0),
    ("0.0.0.0/1", (1 << 31) - 2),
    ("0.0.0.0/0", (1 << 32) - 2),
    ("2001:db2::/112", 65535),
    ("2001:db8:1::/116", 4095),
    ("2001:db8::/128", 0),
    ("2001:db8::/127", 1),
    ("2001:db8::/65", (1 << 63) - 1),
    ("2001:db8::/64", (1 << 64) - 1),
    // The peer refuses IPv6 ranges shorter than /64 and counts no further than 2^64 - 1. We count exactly, up to a /32.
    ("2001:db8::/63", (1 << 65) - 1),
    ("2001:db8::/32", (1 << 96) - 1),
];

#[test]
fn a_service_range_has_the_addresses_between_its_base_and_in_ipv4_its_broadcast_address() {
    fn check<A: Text>(text: &str, count: u128) {
        let prefix = A::prefix(text);
        if count == 0 {
            assert_eq!((prefix.usable(), Range::service(prefix)), (None, Err(RangeRefusal::Empty)), "{text}");
            return;
        }
        let first = A::narrow(prefix.first().wide() + 1);
        let last = A::narrow(first.wide() + (count - 1));
        assert_eq!(prefix.usable(), Some((first, last)), "{text}");
        let (pool, id) = pool(Range::service(prefix));
        let counts = pool.counts(id).unwrap();
        assert_eq!((counts.size, counts.free, counts.claimed), (count, count, 0), "{text}");
    }
    for &(range, count) in USABLE {
        by_family!(check(range, count));
    }
    // The widest of the peer's table, which its allocator would refuse too.
    let widest = u128::prefix("2001:db8::/1");
    assert_eq!(widest.usable(), Some((1, (1 << 127) - 1)));
    assert_eq!(Range::service(widest), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::new(0, 1_u128 << 96, 0), Err(RangeRefusal::TooLarge));
    assert_eq!(Range::new(0, (1_u128 << 96) - 1, 0).map(|range| range.last()), Ok((1 << 96) - 1));
}

#[test]
fn the_last_address_of_a_range_has_all_host_bits_set() {
    fn check<A: Text>(range: &str, last: &str) {
        assert_eq!(A::prefix(range).last(), A::address(last), "{range}");
    }
    let table = [
        ("192.168.0.0/24", "192.168.0.255"),
        ("10.0.0.0/12", "10.15.255.255"),
        ("fd00:1:2:3::/64", "fd00:1:2:3:ffff:ffff:ffff:ffff"),
        ("00fc::/112", "fc::ffff"),
        ("fc00::/112", "fc00::ffff"),
    ];
    for (range, last) in table {
        by_family!(check(range, last));
    }
}

#[test]
fn an_address_is_found_by_its_distance_from_another() {
    fn check<A: Text>(range: &str, from: &str, offset: u128, expected: &str) {
        let range = A::prefix(range);
        let index = range.block_index(A::address(from), A::WIDTH).unwrap() + offset;
        assert_eq!(range.block(index, A::WIDTH).unwrap().first(), A::address(expected), "{from} and {offset}");
        assert_eq!(range.block_index(A::address(expected), A::WIDTH), Some(index));
    }
    let (v4, v6, wide) = ("192.168.0.0/24", "fd00:1:2:3::/64", "fd54:ceea:51ad:2f00::/64");
    let table = [
        (v4, "192.168.0.0", 0, "192.168.0.0"),
        (v4, "192.168.0.11", 0, "192.168.0.11"),
        (v4, "192.168.0.0", 1, "192.168.0.1"),
        (v4, "192.168.0.11", 1, "192.168.0.12"),
        (v4, "192.168.0.0", 128, "192.168.0.128"),
        (v4, "192.168.0.0", 255, "192.168.0.255"),
        ("0.0.0.0/16", "0.0.1.8", 138, "0.0.1.146"),
        (v6, "fd00:1:2:3::", 1, "fd00:1:2:3::1"),
        (v6, "fd00:1:2:3::a", 1, "fd00:1:2:3::b"),
        (v6, "fd00:1:2:3::", 1025, "fd00:1:2:3::401"),
        (v6, "fd00:1:2:3::", (1 << 63) - 1, "fd00:1:2:3:7fff:ffff:ffff:ffff"),
        ("fc::/112", "00fc::1", 255, "fc::100"),
        ("2001:db8:1::/116", "2001:db8:1::101", 255, "2001:db8:1::200"),
        (wide, "fd54:ceea:51ad:2f00::", 0, "fd54:ceea:51ad:2f00::"),
        (wide, "fd54:ceea:51ad:2f00::", 1, "fd54:ceea:51ad:2f00::1"),
        (wide, "fd54:ceea:51ad:2f00::", 0x1f, "fd54:ceea:51ad:2f00::1f"),
        (wide, "fd54:ceea:51ad:2f00::", (1 << 51) - 2, "fd54:ceea:51ad:2f00:7:ffff:ffff:fffe"),
        (wide, "fd54:ceea:51ad:2f00::", 1 << 63, "fd54:ceea:51ad:2f00:8000::"),
        (wide, "fd54:ceea:51ad:2f00::", (1 << 64) - 2, "fd54:ceea:51ad:2f00:ffff:ffff:ffff:fffe"),
        (wide, "fd54:ceea:51ad:2f00::", (1 << 64) - 1, "fd54:ceea:51ad:2f00:ffff:ffff:ffff:ffff"),
    ];
    for (range, from, offset, expected) in table {
        by_family!(check(range, from, offset, expected));
    }
}

#[test]
fn the_static_band_of_a_service_range_has_the_size_of_kep_3070() {
    fn check<A: Text>(range: &str, band: u128) {
        let prefix = A::prefix(range);
        assert_eq!(address_band(prefix.size()), band, "{range}");
        if prefix.usable().is_some() && prefix.size() <= 1 << 96 {
            let (pool, id) = pool(Range::service(prefix));
            let counts = pool.counts(id).unwrap();
            assert_eq!((counts.band, pool.free()), (band, (counts.size - band, band)), "{range}");
        }
    }
    let table = [
        ("192.168.1.1/32", 0),
        ("fd00::1/128", 0),
        ("192.168.1.1/30", 0),
        ("fd00::1/126", 0),
        ("192.168.1.1/28", 0),
        ("192.168.1.1/27", 16),
        ("fd00::1/124", 0),
        ("fd00::1/122", 16),
        ("192.168.1.1/24", 16),
        ("192.168.1.1/22", 64),
        ("fd00::1/118", 64),
        ("192.168.1.1/20", 256),
        ("192.168.1.1/8", 256),
        ("fd00::1/64", 256),
        ("fd00::1/12", 256),
    ];
    for (range, band) in table {
        by_family!(check(range, band));
    }
}

#[test]
fn the_static_band_of_a_port_range_has_the_size_of_kep_3668() {
    let table = [(2768, 86), (10, 0), (16, 0), (17, 16), (128, 16), (129, 16), (2048, 64), (4096, 128), (8192, 128)];
    for (size, band) in table {
        assert_eq!(port_band(u128::from(size)), band, "{size} ports");
        let (pool, id) = pool(Range::ports(30000, 30000 + (size - 1)));
        let counts = pool.counts(id).unwrap();
        assert_eq!((counts.size, counts.band), (u128::from(size), band), "{size} ports");
    }
}

#[test]
fn the_band_at_the_low_end_is_used_last_and_a_released_point_is_the_next() {
    // 126 usable addresses, of which the first 16 are the band.
    let base = u32::address("192.168.1.0");
    let (mut addresses, _) = pool(Range::service(u32::prefix("192.168.1.0/25")));
    let (dynamic, band) = grant_all(&mut addresses);
    assert_eq!(dynamic, (base + 17..=base + 126).collect::<Vec<_>>());
    assert_eq!(band, (base + 1..=base + 16).collect::<Vec<_>>());
    for released in [base + 10, base + 77] {
        addresses.release(released).unwrap();
        assert_eq!(
            grant_all(&mut addresses),
            if released == base + 10 { (vec![], vec![released]) } else { (vec![released], vec![]) }
        );
    }

    let (mut ports, _) = pool(Range::ports(30000, 30128));
    let (dynamic, band) = grant_all(&mut ports);
    assert_eq!(dynamic, (30016..=30128).collect::<Vec<_>>());
    assert_eq!(band, (30000..=30015).collect::<Vec<_>>());
    ports.release(30053).unwrap();
    assert_eq!(grant_all(&mut ports), (vec![30053], vec![]));

    let (mut ports, _) = pool(Range::ports(30000, 32767));
    assert_eq!(grant_all(&mut ports).1, (30000..=30085).collect::<Vec<_>>());
}

#[test]
fn points_outside_the_range_or_claimed_are_refused() {
    fn check<A: Text>(range: &str, free: u128, released: &str, claimed: &str, outside: &[&str]) {
        let (mut pool, id) = pool(Range::service(A::prefix(range)));
        let (dynamic, band) = grant_all(&mut pool);
        assert_eq!((dynamic.len() + band.len()) as u128, free);
        pool.release(A::address(released)).unwrap();
        for text in outside {
            assert_eq!(pool.claim(A::address(text)), Err(PoolRefusal::OutOfRange), "{text}");
        }
        assert_eq!(pool.claim(A::address(claimed)), Err(PoolRefusal::Claimed));
        let counts = pool.counts(id).unwrap();
        assert_eq!((counts.free, counts.claimed), (1, free - 1));
        assert_eq!(pool.claim(A::address(released)), Ok(()));
        assert_eq!(pool.counts(id).unwrap().free, 0);
    }
    let outside = ["192.168.0.1", "192.168.1.0", "192.168.1.255", "192.168.2.2"];
    check::<u32>("192.168.1.0/24", 254, "192.168.1.5", "192.168.1.1", &outside);
    let outside = ["2001:db8::1", "2001:db8:1::", "2001:db8:2::2"];
    check::<u128>("2001:db8:1::/116", 4095, "2001:db8:1::5", "2001:db8:1::1", &outside);

    let (mut ports, id) = pool(Range::ports(10000, 10200));
    assert_eq!(ports.counts(id).unwrap().free, 201);
    ports.claim(10001).unwrap();
    assert_eq!(ports.claim(10001), Err(PoolRefusal::Claimed));
    for port in [1, 9999, 10201, 20000] {
        assert_eq!(ports.claim(port), Err(PoolRefusal::OutOfRange), "{port}");
    }
    assert_eq!((ports.counts(id).unwrap().free, ports.claims()), (200, 1));
}

#[test]
fn only_claims_inside_a_range_count_in_it() {
    let (mut pool, id) = pool(Range::service(u32::prefix("192.168.1.0/24")));
    for text in ["192.168.1.10", "192.168.1.20", "192.168.2.10", "10.0.0.1"] {
        pool.adopt(u32::address(text)).unwrap();
    }
    let counts = pool.counts(id).unwrap();
    assert_eq!((counts.claimed, counts.free, pool.claims()), (2, 252, 4));
}

/// A cast to 64 signed bits once made the peer pick addresses outside a /64.
#[test]
fn picks_from_a_64_stay_in_its_dynamic_part() {
    let (pool, _) = pool(Range::service(u128::prefix("fd54:ceea:51ad:2f00::/64")));
    let first = u128::address("fd54:ceea:51ad:2f00::101");
    let last = u128::address("fd54:ceea:51ad:2f00:ffff:ffff:ffff:ffff");
    let mut random = Seeded::new(1);
    for start in [0, 1, 1 << 63, (1 << 63) - 1, u64::MAX - 256, u64::MAX].into_iter().cycle().take(1_000) {
        let mut start = Some(start);
        let picked = pool.pick(|| start.take().unwrap_or_else(|| random.bits())).unwrap();
        assert!((first..=last).contains(&picked), "{picked:x}");
    }
}
