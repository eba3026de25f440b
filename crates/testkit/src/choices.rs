//! Where drivers get their choices from: a seeded generator, or somebody else's bytes.

/// A stream of choices.
pub trait Choices {
    /// The next 64 bits, or nothing when the stream has ended.
    fn next(&mut self) -> Option<u64>;

    /// A number below `bound`, zero when the stream has ended. Not exactly uniform, which no driver needs.
    fn below(&mut self, bound: u64) -> u64 {
        self.next().map_or(0, |bits| bits % bound.max(1))
    }

    /// One of `options`.
    fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize]
    }
}

/// An endless stream from a seed (the `splitmix64` generator: one addition and two multiplications a number).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Choices for Seeded {
    fn next(&mut self) -> Option<u64> {
        Some(self.bits())
    }
}

/// A stream of bytes from elsewhere, one byte a choice: a fuzzer that changes one byte changes one choice.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Choices for Bytes<'_> {
    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u64::from(*first))
    }
}
