//! The unsigned words everything here is made of: `u16` for ports, `u32` for IPv4, `u128` for IPv6.
//!
//! Two sealed traits, so that the engine is written once. `Word` is plain arithmetic that is exact at both ends (shifting
//! by the whole width gives zero instead of a panic); `Address` adds what only IP addresses have.

use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Not};

/// An unsigned integer that numbers points of a space: ports or addresses.
pub trait Word:
    Copy
    + Ord
    + Hash
    + Debug
    + Display
    + Default
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + BitOrAssign
    + Not<Output = Self>
    + Send
    + Sync
    + 'static
    + sealed::Sealed
{
    /// How many bits it has.
    const WIDTH: u8;
    /// The lowest point.
    const ZERO: Self;
    /// The number one.
    const ONE: Self;
    /// The highest point.
    const MAX: Self;

    /// `self << by`, zero when every bit is shifted out.
    #[must_use]
    fn up(self, by: u8) -> Self;
    /// `self >> by`, zero when every bit is shifted out.
    #[must_use]
    fn down(self, by: u8) -> Self;
    /// The sum, unless it passes the highest point.
    fn plus(self, other: Self) -> Option<Self>;
    /// The sum modulo the width.
    #[must_use]
    fn plus_wrapping(self, other: Self) -> Self;
    /// The difference modulo the width.
    #[must_use]
    fn minus_wrapping(self, other: Self) -> Self;
    /// The four bits that follow the first `skip`, as a number. `skip` is at most the width less four.
    fn digit(self, skip: u8) -> usize;
    /// The set bits that `keep` wants kept, asked with the index of each, lowest first.
    #[must_use]
    fn filter_ones(self, keep: impl FnMut(usize) -> bool) -> Self;
    /// How many leading bits are zero.
    fn leading_zeros(self) -> u8;
    /// How many trailing bits are zero.
    fn trailing_zeros(self) -> u8;
    /// Widened, always exact.
    fn wide(self) -> u128;
    /// The low bits of `wide`.
    fn narrow(wide: u128) -> Self;
}

mod sealed {
    /// Keeps `Word` to the three widths that the engine was proved for.
    pub trait Sealed {}
}

macro_rules! word {
    ($word:ty) => {
        impl sealed::Sealed for $word {}

        impl Word for $word {
            const WIDTH: u8 = <$word>::BITS as u8;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MAX: Self = <$word>::MAX;

            #[inline]
            fn up(self, by: u8) -> Self {
                self.checked_shl(u32::from(by)).unwrap_or(0)
            }
            #[inline]
            fn down(self, by: u8) -> Self {
                self.checked_shr(u32::from(by)).unwrap_or(0)
            }
            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            #[inline]
            fn plus_wrapping(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn minus_wrapping(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline]
            fn digit(self, skip: u8) -> usize {
                (self.wrapping_shl(u32::from(skip)) >> (<$word>::BITS - 4)) as usize
            }
            #[inline]
            fn filter_ones(self, mut keep: impl FnMut(usize) -> bool) -> Self {
                // In 64 bits at a time: wider arithmetic in the inner loop costs twice as much.
                let mut kept = 0;
                for shift in (0..<$word>::BITS).step_by(64) {
                    kept |= u128::from(filter_ones((self.wide() >> shift) as u64, shift as usize, &mut keep)) << shift;
                }
                Self::narrow(kept)
            }
            #[inline]
            fn leading_zeros(self) -> u8 {
                <$word>::leading_zeros(self) as u8
            }
            #[inline]
            fn trailing_zeros(self) -> u8 {
                <$word>::trailing_zeros(self) as u8
            }
            #[inline]
            fn wide(self) -> u128 {
                u128::from(self)
            }
            #[inline]
            fn narrow(wide: u128) -> Self {
                wide as $word
            }
        }
    };
}

word!(u16);
word!(u32);
word!(u128);

#[inline]
fn filter_ones(bits: u64, first: usize, keep: &mut impl FnMut(usize) -> bool) -> u64 {
    let (mut left, mut kept) = (bits, 0);
    while left != 0 {
        let rest = left & (left - 1);
        if keep(first + left.trailing_zeros() as usize) {
            kept |= left ^ rest;
        }
        left = rest;
    }
    kept
}

/// The two IP families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// 32-bit addresses.
    V4,
    /// 128-bit addresses.
    V6,
}

impl Family {
    /// The longest prefix of this family: 32 or 128.
    pub const fn width(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A word that is an IP address.
pub trait Address: Word {
    /// Which family it belongs to.
    const FAMILY: Family;

    /// Sixteen bits for each prefix length but 0.
    type PerLength: Copy + Debug + AsRef<[u16]> + AsMut<[u16]>;
    /// All of them zero.
    const NO_LENGTHS: Self::PerLength;

    /// Writes the canonical text (dotted decimal, or RFC 5952).
    fn write_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl Address for u32 {
    const FAMILY: Family = Family::V4;
    type PerLength = [u16; 32];
    const NO_LENGTHS: Self::PerLength = [0; 32];

    fn write_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&Ipv4Addr::from(self), f)
    }
}

impl Address for u128 {
    const FAMILY: Family = Family::V6;
    type PerLength = [u16; 128];
    const NO_LENGTHS: Self::PerLength = [0; 128];

    fn write_address(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&Ipv6Addr::from(self), f)
    }
}
