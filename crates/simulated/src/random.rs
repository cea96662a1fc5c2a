//! Pseudo-random numbers, of which the seed determines all.

/// A generator: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or(0)
    }

    /// A number from `least` to `most`, small ones more often: each power of two is as probable as the next.
    pub fn scaled(&mut self, least: u64, most: u64) -> u64 {
        debug_assert!(least <= most);
        let bits = u64::from((most - least).max(1).ilog2()) + 1;
        let top = 1_u64 << self.below(bits + 1).min(62);
        least + self.below(top).min(most - least)
    }

    /// True once in `times` calls on average; never for 0.
    pub fn once_in(&mut self, times: u32) -> bool {
        times > 0 && self.below(u64::from(times)) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = self.below(from.len() as u64);
        from.get(index as usize)
    }
}
