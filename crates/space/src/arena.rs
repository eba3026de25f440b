//! An arena: slots numbered by `u32`, reused in the order that keeps the warm ones in use.

/// Grows by doubling, never shrinks, and hands a freed slot out again before it takes a new one.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// How many slots are in use.
    pub(crate) fn used(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> &T {
        &self.slots[at as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.slots[at as usize]
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.slots[at as usize] = value;
            return at;
        }
        // The register would be hundreds of gigabytes before this number ran out.
        self.slots.push(value);
        (self.slots.len() - 1) as u32
    }

    /// Frees a slot. What was in it stays until the slot is used again, so it must own nothing by then.
    pub(crate) fn remove(&mut self, at: u32) {
        self.vacant.push(at);
    }
}
