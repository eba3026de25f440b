//! Random choices that can be made again.

/// Numbers that follow from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len());
        &of[index]
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Runs what is to be run with so many seeds, or with the one that `CADASTRE_SEED` says.
pub(crate) fn for_seeds(count: u64, run: impl Fn(u64)) {
    let only = std::env::var("CADASTRE_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(1..=count, |seed: u64| seed..=seed) {
        println!("CADASTRE_SEED={seed}");
        run(seed);
    }
}
