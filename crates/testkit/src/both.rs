//! Drives the registers of both families and two naive ones side by side: what is reserved and given back together.

use space::{
    Address, Fit, GrantRefusal, Prefix, Register, Registers, ReleaseRefusal, Reservation, ReservationRefusal,
    ReturnRefusal, View, ViewId, Wish,
};

use crate::choices::Choices;
use crate::naive::{NaiveRegister, count, free_blocks};

/// Few owners, so that they meet.
type Owner = u8;
const OWNERS: u64 = 4;

/// The registers and a naive twin for each.
#[derive(Debug)]
struct Pair {
    real: Registers<Owner>,
    v4: Naive<u32>,
    v6: Naive<u128>,
    /// What was reserved, also after it was given back.
    reserved: Vec<(Reservation, Owner)>,
}

/// The naive register of one family and the views on it.
#[derive(Debug)]
struct Naive<A: Address> {
    claims: NaiveRegister<A, Owner>,
    views: Vec<(ViewId, View<A>)>,
    gone: ViewId,
}

/// Runs operations until the choices end or `operations` were done, each compared. Panics at the first difference.
pub fn run(choices: &mut impl Choices, operations: usize) {
    let mut real = Registers::new();
    // Small, unlike and overlapping: one family runs out before the other, and grants of one view show in the next.
    let v4 = Naive::new(&mut real.v4, [(0, 29, 31), (0, 28, 30), (4, 30, 32)]);
    let v6 = Naive::new(&mut real.v6, [(0, 125, 127), (8, 127, 128), (0, 124, 126)]);
    let mut pair = Pair { real, v4, v6, reserved: Vec::new() };
    for _ in 0..operations {
        let Some(operation) = choices.next() else { break };
        pair.operate(operation, choices);
        pair.v4.compare(&pair.real.v4);
        pair.v6.compare(&pair.real.v6);
    }
}

impl Pair {
    /// One operation on both.
    fn operate(&mut self, operation: u64, choices: &mut impl Choices) {
        match operation % 8 {
            0..=3 => self.reserve(choices),
            4 | 5 => self.give_back(choices),
            6 => self.give_back_a_mixture(choices),
            _ => self.release_one(choices),
        }
    }

    fn reserve(&mut self, choices: &mut impl Choices) {
        let owner = choices.below(OWNERS) as Owner;
        let v4 = (choices.below(4) > 0).then(|| self.v4.wish(choices));
        let v6 = (choices.below(4) > 0).then(|| self.v6.wish(choices));
        let expected = self.reservable(v4, v6);
        assert_eq!(self.real.reserve(v4, v6, &owner), expected, "reserve {v4:?} and {v6:?}");
        if let Ok(reservation) = expected {
            reservation.v4.map(|block| self.v4.claims.occupy(block, owner));
            reservation.v6.map(|block| self.v6.claims.occupy(block, owner));
            self.reserved.push((reservation, owner));
        }
    }

    /// What both wishes come to. The IPv4 refusal is told first.
    fn reservable(&self, v4: Option<Wish<u32>>, v6: Option<Wish<u128>>) -> Result<Reservation, ReservationRefusal> {
        let v4 = v4.map(|wish| self.v4.grantable(wish)).transpose().map_err(ReservationRefusal::V4)?;
        let v6 = v6.map(|wish| self.v6.grantable(wish)).transpose().map_err(ReservationRefusal::V6)?;
        Ok(Reservation { v4, v6 })
    }

    /// Gives back what was reserved, possibly twice, or tries to as somebody else.
    fn give_back(&mut self, choices: &mut impl Choices) {
        let at = choices.below(self.reserved.len() as u64) as usize;
        let Some((reservation, owner)) = self.reserved.get(at).copied() else { return };
        let owner = if choices.below(8) == 0 { choices.below(OWNERS) as Owner } else { owner };
        let returned = self.give_back_as(reservation, owner);
        if returned && choices.below(2) == 0 {
            self.reserved.swap_remove(at);
        }
    }

    /// The IPv4 block of one reservation with the IPv6 block of another.
    fn give_back_a_mixture(&mut self, choices: &mut impl Choices) {
        let many = self.reserved.len() as u64;
        let (one, other) = (choices.below(many) as usize, choices.below(many) as usize);
        let (Some((one, owner)), Some((other, _))) = (self.reserved.get(one), self.reserved.get(other)) else { return };
        self.give_back_as(Reservation { v4: one.v4, v6: other.v6 }, *owner);
    }

    fn give_back_as(&mut self, reservation: Reservation, owner: Owner) -> bool {
        let expected = self.returnable(reservation, owner);
        assert_eq!(self.real.give_back(reservation, &owner, None), expected, "give back {reservation:?} as {owner}");
        if expected.is_ok() {
            let released = reservation.v4.map_or(Ok(()), |block| self.v4.claims.release(block, owner, None));
            assert_eq!(released, Ok(()));
            let released = reservation.v6.map_or(Ok(()), |block| self.v6.claims.release(block, owner, None));
            assert_eq!(released, Ok(()));
        }
        expected.is_ok()
    }

    fn returnable(&self, reservation: Reservation, owner: Owner) -> Result<(), ReturnRefusal> {
        reservation.v4.map_or(Ok(()), |block| self.v4.claims.releasable(block, owner)).map_err(ReturnRefusal::V4)?;
        reservation.v6.map_or(Ok(()), |block| self.v6.claims.releasable(block, owner)).map_err(ReturnRefusal::V6)?;
        Ok(())
    }

    /// Takes one block back alone, so that a reservation is not whole any more.
    fn release_one(&mut self, choices: &mut impl Choices) {
        if choices.below(2) == 0 {
            self.v4.release_one(&mut self.real.v4, choices);
        } else {
            self.v6.release_one(&mut self.real.v6, choices);
        }
    }
}

impl<A: Address> Naive<A> {
    /// Puts views on a register: first address, length of the range, length of the blocks.
    fn new(real: &mut Register<A, Owner>, views: [(u128, u8, u8); 3]) -> Self {
        let views = views.map(|(first, range, length)| {
            let view = Prefix::new(A::narrow(first), range).map(|range| View::new(range, length, &[]));
            let Ok(Ok(view)) = view else { panic!("no view of {first}/{range} in /{length}") };
            (real.add_view(view.clone()), view)
        });
        let gone = real.add_view(views[0].1.clone());
        assert!(real.remove_view(gone).is_some());
        Self { claims: NaiveRegister::default(), views: views.to_vec(), gone }
    }

    /// A block of one of the views, sometimes one that cannot be.
    fn wish(&self, choices: &mut impl Choices) -> Wish<A> {
        let fit = choices.one_of(&[Fit::Best, Fit::First, Fit::Next(A::narrow(6)), Fit::Next(A::MAX)]);
        let at = choices.below(self.views.len() as u64) as usize;
        let (view, length) = (self.views[at].0, self.views[at].1.length());
        match choices.below(20) {
            0 => Wish { view: self.gone, length, fit },
            1 => Wish { view, length: A::WIDTH + 1, fit },
            2 => Wish { view, length: 1, fit },
            _ => Wish { view, length, fit },
        }
    }

    fn grantable(&self, wish: Wish<A>) -> Result<Prefix<A>, GrantRefusal<A>> {
        let named = self.views.iter().find(|(id, _)| *id == wish.view);
        let (_, view) = named.ok_or(GrantRefusal::UnknownView)?;
        self.claims.grantable(view.range(), &[], wish.length, wish.fit)
    }

    fn release_one(&mut self, real: &mut Register<A, Owner>, choices: &mut impl Choices) {
        let at = choices.below(self.claims.claims.len() as u64) as usize;
        if let Some((block, owner)) = self.claims.claims.get(at).copied() {
            let expected: Result<(), ReleaseRefusal<A>> = self.claims.release(block, owner, None);
            assert_eq!(real.release(block, &owner), expected);
        }
    }

    fn compare(&self, real: &Register<A, Owner>) {
        assert_eq!(real.audit(), Ok(()));
        let claims = real.iter().map(|(block, owner)| (block, *owner));
        assert!(claims.eq(self.claims.claims_where(|_| true)), "claims of {}", A::FAMILY);
        for (id, view) in &self.views {
            let free = free_blocks(view.range(), &self.claims.in_the_way(&[], false));
            let Some(counts) = real.counts(*id) else { panic!("view {id:?} is gone") };
            assert_eq!(counts.free, count(&free, view.length()), "free of {}", view.range());
        }
    }
}
