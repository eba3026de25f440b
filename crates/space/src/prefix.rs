//! `Prefix`: an aligned block of addresses of one family, `10.0.0.0/8` or `2001:db8::/32`.
//!
//! Everything is exact at the extremes: `/0` holds every address, a host prefix holds one, and no operation overflows at
//! the last address. Text is in [`crate::cidr`]; this module knows only numbers.

use std::fmt;

use thiserror::Error;

use crate::word::{Address, Family};

/// An aligned block of addresses: the bits below its length are zero.
///
/// Ordered by first address, then by length, so that a block comes right before those inside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    bits: A,
    length: u8,
}

/// Why a prefix, or a block of one, cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// The length is longer than the family's addresses.
    #[error("prefix length {length} is too long: {family} has at most {}", family.width())]
    TooLong {
        /// The family.
        family: Family,
        /// The length that was asked for.
        length: u8,
    },
    /// The address has bits set beyond the prefix length.
    #[error("the address has bits set beyond the prefix length {length}")]
    HostBits {
        /// The length that was asked for.
        length: u8,
    },
    /// A block of this length does not fit into the prefix.
    #[error("a /{length} is larger than the /{within} it should come from")]
    TooLarge {
        /// The length that was asked for.
        length: u8,
        /// The length of the prefix it should have come from.
        within: u8,
    },
    /// The prefix has fewer blocks of that length.
    #[error("block {index} is beyond the last block of the prefix")]
    BeyondLast {
        /// The index that was asked for.
        index: u128,
    },
}

impl<A: Address> Prefix<A> {
    /// Every address of the family.
    pub const ALL: Self = Self { bits: A::ZERO, length: 0 };

    /// The prefix of `length` at `bits`; refuses host bits.
    pub fn new(bits: A, length: u8) -> Result<Self, PrefixError> {
        let prefix = Self::enclosing_address(bits, length)?;
        if prefix.bits == bits { Ok(prefix) } else { Err(PrefixError::HostBits { length }) }
    }

    /// The prefix of `length` that `address` lies in.
    pub fn enclosing_address(address: A, length: u8) -> Result<Self, PrefixError> {
        if length > A::WIDTH {
            return Err(PrefixError::TooLong { family: A::FAMILY, length });
        }
        Ok(Self::cut(address, length))
    }

    /// The prefix that holds `address` alone.
    pub const fn host(address: A) -> Self {
        Self { bits: address, length: A::WIDTH }
    }

    /// For lengths known to be in range: clears the bits below `length`.
    #[inline]
    pub(crate) fn cut(bits: A, length: u8) -> Self {
        debug_assert!(length <= A::WIDTH);
        Self { bits: bits & !A::MAX.down(length), length }
    }

    /// The first address.
    #[inline]
    pub const fn first(&self) -> A {
        self.bits
    }

    /// The last address.
    #[inline]
    pub fn last(&self) -> A {
        self.bits | A::MAX.down(self.length)
    }

    /// The prefix length: how many leading bits all its addresses share.
    #[inline]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// How many addresses it holds; `u128::MAX` stands for 2^128.
    pub fn size(&self) -> u128 {
        blocks(A::WIDTH - self.length)
    }

    /// Whether `address` lies in it.
    #[inline]
    pub fn contains_address(&self, address: A) -> bool {
        self.common(address) >= self.length
    }

    /// Whether `other` lies in it; every prefix contains itself.
    #[inline]
    pub fn contains(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains_address(other.bits)
    }

    /// Whether they share an address. Prefixes are nested or apart, never anything between.
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.common(other.bits) >= self.length.min(other.length)
    }

    /// How many leading bits `bits` shares with this prefix's first address.
    #[inline]
    pub(crate) fn common(&self, bits: A) -> u8 {
        (self.bits ^ bits).leading_zeros()
    }

    /// The prefix of `length` around this one; none when `length` is longer than its own.
    pub fn enclosing(&self, length: u8) -> Option<Self> {
        (length <= self.length).then(|| Self::cut(self.bits, length))
    }

    /// The other half of the prefix one bit shorter; `/0` has none.
    pub fn sibling(&self) -> Option<Self> {
        let below = A::WIDTH - self.length;
        (self.length > 0).then(|| Self { bits: self.bits ^ A::ONE.up(below), length: self.length })
    }

    /// Its lower and upper half; a host prefix has none.
    pub fn halves(&self) -> Option<[Self; 2]> {
        let length = self.length + 1;
        (length <= A::WIDTH).then(|| {
            let upper = self.bits | A::ONE.up(A::WIDTH - length);
            [Self { bits: self.bits, length }, Self { bits: upper, length }]
        })
    }

    /// How many blocks of `length` it holds, zero when they are larger than it; `u128::MAX` stands for 2^128.
    pub fn blocks(&self, length: u8) -> u128 {
        if length > A::WIDTH {
            return 0;
        }
        length.checked_sub(self.length).map_or(0, blocks)
    }

    /// The block of `length` with this index, counted from the first address.
    pub fn block(&self, index: u128, length: u8) -> Result<Self, PrefixError> {
        if length > A::WIDTH {
            return Err(PrefixError::TooLong { family: A::FAMILY, length });
        }
        let Some(depth) = length.checked_sub(self.length) else {
            return Err(PrefixError::TooLarge { length, within: self.length });
        };
        if depth < 128 && index >> depth != 0 {
            return Err(PrefixError::BeyondLast { index });
        }
        Ok(Self { bits: self.bits | A::narrow(index).up(A::WIDTH - length), length })
    }

    /// The index of the block of `length` in which `address` lies; the inverse of [`Prefix::block`].
    pub fn block_index(&self, address: A, length: u8) -> Option<u128> {
        if !self.contains_address(address) || length < self.length || length > A::WIDTH {
            return None;
        }
        Some((address ^ self.bits).down(A::WIDTH - length).wide())
    }

    /// First and last address that a Service may have: not the network address and, in IPv4, not the broadcast address.
    /// A prefix too small to have any (`/31`, `/32`, `/128`) has none.
    pub fn usable(&self) -> Option<(A, A)> {
        let first = self.first().plus(A::ONE)?;
        let last = match A::FAMILY {
            Family::V4 => self.last().minus_wrapping(A::ONE),
            Family::V6 => self.last(),
        };
        (self.length < A::WIDTH && first <= last).then_some((first, last))
    }

    /// What is left of it when `excluded` is taken out: the fewest blocks that cover it, in order.
    pub fn without(&self, excluded: &[Self]) -> Vec<Self> {
        let mut left = Vec::new();
        self.cut_out(excluded, &mut left);
        left
    }

    fn cut_out(&self, excluded: &[Self], left: &mut Vec<Self>) {
        let inside: Vec<Self> = excluded.iter().copied().filter(|block| block.overlaps(self)).collect();
        if inside.is_empty() {
            left.push(*self);
        } else if !inside.iter().any(|block| block.contains(self)) {
            for half in self.halves().into_iter().flatten() {
                half.cut_out(&inside, left);
            }
        }
    }
}

/// 2^`bits`, or `u128::MAX` where that does not fit.
fn blocks(bits: u8) -> u128 {
    1_u128.checked_shl(u32::from(bits)).unwrap_or(u128::MAX)
}

/// Canonical text. It reads back as the same prefix, but for IPv6 prefixes inside `::ffff:0:0/96`: those mean IPv4.
impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bits.write_address(f)?;
        write!(f, "/{}", self.length)
    }
}

impl<A: Address> fmt::Debug for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
