//! What the peers call a CIDR set: a register with one view, and one owner for everything.

use space::{Address, Counts, Fit, GrantRefusal, Occupied, Prefix, Register, ReleaseRefusal, View, ViewId};

use crate::Text;

/// The peers have no owners; where one is needed, it is this.
pub(crate) const NODE: &str = "node";

/// A register with one view.
pub(crate) struct Set<A: Address> {
    pub(crate) register: Register<A, &'static str>,
    pub(crate) view: ViewId,
    pub(crate) range: Prefix<A>,
    pub(crate) length: u8,
}

impl<A: Text> Set<A> {
    pub(crate) fn new(range: &str, length: u8, excluded: &[&str]) -> Self {
        let (range, mut register) = (A::prefix(range), Register::new());
        let excluded: Vec<_> = excluded.iter().map(|text| A::prefix(text)).collect();
        let view = View::new(range, length, &excluded).unwrap_or_else(|refusal| panic!("{range}: {refusal}"));
        let view = register.add_view(view);
        Self { register, view, range, length }
    }

    pub(crate) fn occupy(&mut self, text: &str) -> Occupied {
        self.register.occupy(A::prefix(text), NODE)
    }

    pub(crate) fn release(&mut self, text: &str) -> Result<(), ReleaseRefusal<A>> {
        self.register.release(A::prefix(text), &NODE)
    }

    pub(crate) fn grant(&mut self, fit: Fit<A>) -> Result<Prefix<A>, GrantRefusal<A>> {
        self.register.grant(self.view, self.length, fit, NODE)
    }

    /// Grants until there is no more.
    pub(crate) fn grant_all(&mut self, fit: Fit<A>) -> Vec<Prefix<A>> {
        let blocks = std::iter::from_fn(|| self.grant(fit).ok()).collect();
        assert_eq!(self.grant(fit), Err(self.exhausted()));
        blocks
    }

    pub(crate) fn exhausted(&self) -> GrantRefusal<A> {
        GrantRefusal::Exhausted { length: self.length, range: self.range }
    }

    /// The kept counts, after a look whether a recount agrees.
    pub(crate) fn counts(&self) -> Counts {
        let counts = self.register.counts(self.view).unwrap_or_else(|| panic!("the view is gone"));
        assert_eq!(Some(counts), self.register.recount(self.view));
        assert_eq!(counts.allocated + counts.free, counts.capacity);
        counts
    }

    /// Every way to choose; the peers know next fit only, and start at the first block.
    pub(crate) fn fits(range: &str) -> [Fit<A>; 3] {
        [Fit::Best, Fit::First, Fit::Next(A::prefix(range).first())]
    }
}
