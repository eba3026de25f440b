//! Which addresses of a range pods may have, and which slices therefore nobody can use.

use space::{Address, Prefix};

/// What of a range is in no hands: its first and last address, the ends that are cut off, exclusions and the gateway.
#[derive(Clone, Debug)]
pub(super) struct Limits<A: Address> {
    /// The first address that pods may have.
    pub(super) first: A,
    /// The last one.
    pub(super) last: A,
    /// Blocks between them that pods may not have.
    pub(super) excluded: Vec<Prefix<A>>,
}

impl<A: Address> Limits<A> {
    /// All of a range but the address of the network and the last one; of a range too small to have others, all.
    pub(super) fn of(range: Prefix<A>) -> Self {
        let (first, last) = (range.first(), range.last());
        let inner = first.plus(A::ONE).zip((last > A::ZERO).then(|| last.minus_wrapping(A::ONE)));
        let (first, last) = inner.filter(|(first, last)| first <= last).unwrap_or((first, last));
        Self { first, last, excluded: Vec::new() }
    }

    /// The largest blocks of a range that have no address for pods, if they are at least a slice large. What is smaller leaves
    /// something of its slice.
    pub(super) fn useless(&self, range: Prefix<A>, length: u8) -> Vec<Prefix<A>> {
        let mut unusable = self.excluded.clone();
        self.outside(range, &mut unusable);
        // Two exclusions side by side may fill a slice that neither fills alone: what is left twice removed joins them.
        let joined = range.without(&range.without(&unusable));
        joined.into_iter().filter(|block| block.length() <= length).collect()
    }

    /// The blocks of `part` that lie before the first or after the last address.
    fn outside(&self, part: Prefix<A>, into: &mut Vec<Prefix<A>>) {
        if part.last() < self.first || part.first() > self.last {
            into.push(part);
        } else if part.first() < self.first || part.last() > self.last {
            for half in part.halves().into_iter().flatten() {
                self.outside(half, into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use space::Cidr;

    fn v4(text: &str) -> Prefix<u32> {
        Cidr::strict(text).unwrap().v4().unwrap()
    }

    fn useless(range: &str, length: u8, ends: Option<(&str, &str)>, excluded: &[&str]) -> String {
        let range = v4(range);
        let mut limits = Limits::of(range);
        if let Some((first, last)) = ends {
            (limits.first, limits.last) = (v4(&format!("{first}/32")).first(), v4(&format!("{last}/32")).first());
        }
        limits.excluded = excluded.iter().map(|text| v4(text)).collect();
        limits.useless(range, length).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_slice_is_useless_only_when_none_of_its_addresses_can_be_had() {
        assert_eq!(useless("10.0.0.0/24", 28, None, &[]), "");
        assert_eq!(useless("10.0.0.0/24", 28, None, &["10.0.0.16/28", "10.0.0.32/29"]), "10.0.0.16/28");
        assert_eq!(useless("10.0.0.0/24", 28, None, &["10.0.0.32/29", "10.0.0.40/29"]), "10.0.0.32/28");
        assert_eq!(useless("10.0.0.0/24", 28, None, &["10.0.0.128/25"]), "10.0.0.128/25");
        // The rest of the first slice is excluded, its first address nobody can have anyway.
        let first = ["10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/30", "10.0.0.8/29"];
        assert_eq!(useless("10.0.0.0/24", 28, None, &first), "10.0.0.0/28");
    }

    #[test]
    fn the_ends_of_a_range_count_where_slices_are_single_addresses() {
        assert_eq!(useless("10.0.0.0/30", 32, None, &[]), "10.0.0.0/32 10.0.0.3/32");
        assert_eq!(useless("10.0.0.0/30", 31, None, &[]), "");
        for small in ["10.0.0.0/31", "10.0.0.0/32"] {
            assert_eq!(useless(small, 32, None, &[]), "");
        }
        assert_eq!(useless("0.0.0.0/0", 32, None, &[]), "0.0.0.0/32 255.255.255.255/32");
    }

    #[test]
    fn what_lies_before_the_start_and_after_the_end_is_useless() {
        let ends = Some(("10.0.0.20", "10.0.0.70"));
        assert_eq!(useless("10.0.0.0/24", 28, ends, &[]), "10.0.0.0/28 10.0.0.80/28 10.0.0.96/27 10.0.0.128/25");
    }
}
