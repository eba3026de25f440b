//! `Extent`: the points that a range object has, addresses of one family or ports; and `Cover`: which ranges have a point.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::{Object, names};
use serde_json::Value;
use space::Range;
use store::Key;

use super::grants::Grant;
use super::service_cidrs::{self, Usable};

/// What a point is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sort {
    V4,
    V6,
    Ports,
}

/// Consecutive points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    V4(Range<u32>),
    V6(Range<u128>),
    Ports(Range<u16>),
}

impl Extent {
    /// What a part of a range has, as it is written; nothing if it can never give out anything.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some((first, last)) = names::port_range(text) {
            return Range::ports(first, last).ok().map(Self::Ports);
        }
        match service_cidrs::usable(text).ok()? {
            Usable::V4(range) => Some(Self::V4(range)),
            Usable::V6(range) => Some(Self::V6(range)),
        }
    }

    /// What a range object has.
    pub(crate) fn of(object: &Object) -> Vec<Self> {
        texts(object).iter().filter_map(|text| Self::read(text)).collect()
    }

    pub(crate) fn has(&self, grant: Grant) -> bool {
        let (sort, first, last) = self.bounds();
        let (own, point) = point(grant);
        sort == own && (first..=last).contains(&point)
    }

    /// Whether some point is in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let ((sort, first, last), (its, start, end)) = (self.bounds(), other.bounds());
        sort == its && first <= end && start <= last
    }

    fn bounds(&self) -> (Sort, u128, u128) {
        match self {
            Self::V4(range) => (Sort::V4, range.first().into(), range.last().into()),
            Self::V6(range) => (Sort::V6, range.first(), range.last()),
            Self::Ports(range) => (Sort::Ports, range.first().into(), range.last().into()),
        }
    }

    /// The smallest aligned block that has it all: which sort of points, how many of the low bits differ in it, and the others.
    fn block(&self) -> (Sort, u32, u128) {
        let (sort, first, last) = self.bounds();
        let bits = u128::BITS - (first ^ last).leading_zeros();
        (sort, bits, above(first, bits))
    }
}

/// The ranges of a range object, as they are written.
pub(crate) fn texts(object: &Object) -> Vec<String> {
    let cidrs = object.at(&["spec", "cidrs"]).and_then(Value::as_array).into_iter().flatten();
    let ports = object.at(&["spec", "ports"]);
    cidrs.chain(ports).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn point(grant: Grant) -> (Sort, u128) {
    match grant {
        Grant::Address(IpAddr::V4(address)) => (Sort::V4, u32::from(address).into()),
        Grant::Address(IpAddr::V6(address)) => (Sort::V6, address.into()),
        Grant::Port(port) => (Sort::Ports, port.into()),
    }
}

/// A number without its low bits.
fn above(number: u128, bits: u32) -> u128 {
    number.checked_shr(bits).unwrap_or(0)
}

/// Which ranges have a point. It takes as long as there are sizes of ranges, which are few, however many ranges there are.
#[derive(Debug, Default)]
pub(crate) struct Cover {
    blocks: HashMap<(Sort, u32, u128), Vec<(Extent, Key)>>,
    /// How many ranges there are of each size.
    sizes: BTreeMap<(Sort, u32), usize>,
}

impl Cover {
    pub(crate) fn add(&mut self, extent: Extent, key: &Key) {
        let (sort, bits, block) = extent.block();
        self.blocks.entry((sort, bits, block)).or_default().push((extent, Arc::clone(key)));
        *self.sizes.entry((sort, bits)).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, extent: Extent, key: &Key) {
        let (sort, bits, block) = extent.block();
        let Some(all) = self.blocks.get_mut(&(sort, bits, block)) else { return };
        let Some(place) = all.iter().position(|one| one.0 == extent && one.1 == *key) else { return };
        all.swap_remove(place);
        if all.is_empty() {
            self.blocks.remove(&(sort, bits, block));
        }
        if let Some(count) = self.sizes.get_mut(&(sort, bits)) {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&(sort, bits));
            }
        }
    }

    /// The ranges that have it.
    pub(crate) fn of(&self, grant: Grant) -> impl Iterator<Item = &Key> {
        let (sort, point) = point(grant);
        let sizes = self.sizes.range((sort, 0)..=(sort, u128::BITS));
        let blocks = sizes.filter_map(move |((sort, bits), _)| self.blocks.get(&(*sort, *bits, above(point, *bits))));
        blocks.flatten().filter(move |(extent, _)| extent.has(grant)).map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        text.parse().map_or_else(|_| Grant::Port(text.parse().unwrap()), Grant::Address)
    }

    #[test]
    fn a_point_is_found_in_every_range_that_has_it_and_in_no_other() {
        let all = ["10.0.0.0/8", "10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/24", "fd00::/64", "fd00::/120", "1-9", "5-70"];
        let points = [
            "10.0.0.0",
            "10.0.0.1",
            "10.0.0.255",
            "10.0.1.9",
            "10.9.0.0",
            "11.0.0.1",
            "fd00::",
            "fd00::1",
            "fd00::100",
            "1",
            "5",
            "9",
            "10",
            "64",
            "70",
            "71",
        ];
        let key = |n: usize| -> Key { format!("range/{n}").into() };
        let extents: Vec<Extent> = all.iter().map(|text| Extent::read(text).unwrap()).collect();
        let mut cover = Cover::default();
        for (n, extent) in extents.iter().enumerate() {
            cover.add(*extent, &key(n));
        }
        let check = |cover: &Cover, there: &dyn Fn(usize) -> bool| {
            for point in points.map(grant) {
                let mut found: Vec<&Key> = cover.of(point).collect();
                found.sort_unstable();
                let those = extents.iter().enumerate().filter(|(n, extent)| there(*n) && extent.has(point));
                assert_eq!(found, those.map(|(n, _)| key(n)).collect::<Vec<_>>().iter().collect::<Vec<_>>(), "{point}");
            }
        };
        check(&cover, &|_| true);
        for (gone, extent) in extents.iter().enumerate() {
            cover.remove(*extent, &key(gone));
            check(&cover, &|n| n > gone);
        }
        assert!(cover.blocks.is_empty() && cover.sizes.is_empty());
    }

    #[test]
    fn extents_overlap_that_have_a_point_in_common() {
        let overlap = |a: &str, b: &str| Extent::read(a).unwrap().overlaps(&Extent::read(b).unwrap());
        assert!(overlap("10.0.0.0/8", "10.9.0.0/24") && overlap("10.9.0.0/24", "10.0.0.0/8"));
        assert!(!overlap("10.0.0.0/24", "10.0.1.0/24") && !overlap("0.0.0.0/24", "1-9"));
        assert!(overlap("1-5", "5-9") && !overlap("1-5", "6-9"));
    }
}
