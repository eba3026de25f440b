//! Both families side by side, and grants that take a block of each or none.
//!
//! A dual-stack node needs an IPv4 and an IPv6 block. Taking one and then failing at the other leaks the first on every
//! retry, so both are found before either is taken.

use thiserror::Error;

use crate::prefix::Prefix;
use crate::register::{GrantRefusal, Moment, Register, ReleaseRefusal};
use crate::trie::Fit;
use crate::view::ViewId;
use crate::word::Address;

/// The registers of one cluster.
#[derive(Debug)]
pub struct Registers<O> {
    /// IPv4.
    pub v4: Register<u32, O>,
    /// IPv6.
    pub v6: Register<u128, O>,
}

/// A wish for one block of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<A> {
    /// Where it should come from.
    pub view: ViewId,
    /// Its prefix length.
    pub length: u8,
    /// Which of the free ones.
    pub fit: Fit<A>,
}

/// What one owner was granted: a block for each wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The IPv4 block, if one was wished for.
    pub v4: Option<Prefix<u32>>,
    /// The IPv6 block, if one was wished for.
    pub v6: Option<Prefix<u128>>,
}

/// Why nothing was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReservationRefusal {
    /// The IPv4 block cannot be had.
    #[error("IPv4: {0}")]
    V4(GrantRefusal<u32>),
    /// The IPv6 block cannot be had.
    #[error("IPv6: {0}")]
    V6(GrantRefusal<u128>),
}

/// Why a reservation was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReturnRefusal {
    /// The IPv4 block is not this owner's.
    #[error("IPv4: {0}")]
    V4(ReleaseRefusal<u32>),
    /// The IPv6 block is not this owner's.
    #[error("IPv6: {0}")]
    V6(ReleaseRefusal<u128>),
}

impl<O: Eq> Default for Registers<O> {
    fn default() -> Self {
        Self { v4: Register::new(), v6: Register::new() }
    }
}

impl<O: Eq + Clone> Registers<O> {
    /// Two empty registers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Grants a block for each wish, or nothing at all.
    pub fn reserve(
        &mut self,
        v4: Option<Wish<u32>>,
        v6: Option<Wish<u128>>,
        owner: &O,
    ) -> Result<Reservation, ReservationRefusal> {
        let v4 = v4.map(|wish| find(&self.v4, wish)).transpose().map_err(ReservationRefusal::V4)?;
        let v6 = v6.map(|wish| find(&self.v6, wish)).transpose().map_err(ReservationRefusal::V6)?;
        if let Some(block) = v4 {
            self.v4.occupy(block, owner.clone());
        }
        if let Some(block) = v6 {
            self.v6.occupy(block, owner.clone());
        }
        Ok(Reservation { v4, v6 })
    }

    /// Gives a whole reservation back, or nothing of it where a part is not this owner's. With `until`, its blocks cool down.
    pub fn give_back(
        &mut self,
        reservation: Reservation,
        owner: &O,
        until: Option<Moment>,
    ) -> Result<(), ReturnRefusal> {
        let Self { v4, v6 } = self;
        if let Some(block) = reservation.v4.filter(|block| !v4.owners(*block).any(|holder| holder == owner)) {
            // Refused, and nothing has changed yet.
            return release(v4, block, owner, until).map_err(ReturnRefusal::V4);
        }
        if let Some(block) = reservation.v6 {
            release(v6, block, owner, until).map_err(ReturnRefusal::V6)?;
        }
        if let Some(block) = reservation.v4 {
            release(v4, block, owner, until).map_err(ReturnRefusal::V4)?;
        }
        Ok(())
    }
}

fn release<A: Address, O: Eq>(
    register: &mut Register<A, O>,
    block: Prefix<A>,
    owner: &O,
    until: Option<Moment>,
) -> Result<(), ReleaseRefusal<A>> {
    match until {
        Some(until) => register.release_cooling(block, owner, until),
        None => register.release(block, owner),
    }
}

fn find<A: Address, O: Eq>(register: &Register<A, O>, wish: Wish<A>) -> Result<Prefix<A>, GrantRefusal<A>> {
    register.find_in_view(wish.view, wish.length, wish.fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;

    /// Registers with one view each: four IPv4 blocks and two IPv6 blocks.
    fn small() -> (Registers<&'static str>, Option<Wish<u32>>, Option<Wish<u128>>) {
        let mut registers = Registers::new();
        let v4 = View::new(Prefix::new(10 << 24, 24).unwrap(), 26, &[]).unwrap();
        let v6 = View::new(Prefix::new(0xfd << 120, 63).unwrap(), 64, &[]).unwrap();
        let v4 = Wish { view: registers.v4.add_view(v4), length: 26, fit: Fit::Best };
        let v6 = Wish { view: registers.v6.add_view(v6), length: 64, fit: Fit::Best };
        (registers, Some(v4), Some(v6))
    }

    #[test]
    fn a_reservation_has_a_block_of_each_family() {
        let (mut registers, v4, v6) = small();
        let got = registers.reserve(v4, v6, &"node").unwrap();
        assert_eq!(got.v4.unwrap().to_string(), "10.0.0.0/26");
        assert_eq!(got.v6.unwrap().to_string(), "fd00::/64");
        registers.give_back(got, &"node", Some(Moment(9))).unwrap();
        assert_eq!((registers.v4.claims(), registers.v6.claims()), (0, 0));
        assert_eq!((registers.v4.cooling().count(), registers.v6.cooling().count()), (1, 1));
    }

    #[test]
    fn a_refusal_of_one_family_takes_nothing_of_the_other() {
        let (mut registers, v4, v6) = small();
        registers.reserve(v4, v6, &"a").unwrap();
        registers.reserve(v4, v6, &"b").unwrap();
        // Two IPv4 blocks are left and no IPv6 block: trying again and again must not use the IPv4 blocks up.
        for _ in 0..10 {
            let refused = registers.reserve(v4, v6, &"c").unwrap_err();
            assert_eq!(refused.to_string(), "IPv6: no free /64 is left in fd00::/63");
        }
        assert_eq!(registers.v4.claims(), 2);
        registers.reserve(v4, None, &"c").unwrap();
        registers.reserve(v4, None, &"d").unwrap();
        let refused = registers.reserve(v4, None, &"e").unwrap_err();
        assert_eq!(refused.to_string(), "IPv4: no free /26 is left in 10.0.0.0/24");
    }

    #[test]
    fn a_reservation_goes_back_whole_or_not_at_all() {
        let (mut registers, v4, v6) = small();
        let got = registers.reserve(v4, v6, &"a").unwrap();
        assert!(registers.give_back(got, &"stranger", None).is_err());
        registers.v6.release(got.v6.unwrap(), &"a").unwrap();
        assert!(registers.give_back(got, &"a", None).is_err());
        assert_eq!(registers.v4.claims(), 1, "the IPv4 block went although the IPv6 block could not");
    }
}
