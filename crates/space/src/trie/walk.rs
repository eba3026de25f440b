//! Reading the trie in address order: who holds what, inside a block or around it.

use super::node::{LEAVES, NONE, STRIDE, leaves, places_below};
use super::path::Path;
use super::{ROOT, Trie};
use crate::prefix::Prefix;
use crate::word::Address;

/// Claims in address order; a block comes before those inside it, and owners of one block newest first.
pub struct Claims<'a, A: Address, O> {
    trie: &'a Trie<A, O>,
    /// Places still to visit, the next one last.
    places: Vec<(u32, u8)>,
    /// The block whose owners come next, and where their chain goes on.
    block: Prefix<A>,
    chain: u32,
}

impl<'a, A: Address, O: Eq> Iterator for Claims<'a, A, O> {
    type Item = (Prefix<A>, &'a O);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.chain != NONE {
                let claim = self.trie.claims.get(self.chain);
                self.chain = claim.next;
                if let Some(owner) = &claim.owner {
                    return Some((self.block, owner));
                }
                continue;
            }
            let (at, place) = self.places.pop()?;
            self.visit(at, usize::from(place));
        }
    }
}

impl<A: Address, O: Eq> Claims<'_, A, O> {
    /// Turns to the claims of a place, and leaves what is below it for later.
    fn visit(&mut self, at: u32, place: usize) {
        let node = self.trie.nodes.get(at);
        if node.held & (1 << place) != 0 {
            self.block = node.block(place);
            self.chain = node.claims[place];
        }
        if place >= LEAVES {
            let kid = self.trie.kid(node, place - LEAVES);
            self.places.extend(kid.map(|kid| (kid, 1)));
            return;
        }
        for below in [2 * place + 1, 2 * place] {
            if node.held & places_below(below) != 0 || node.kids & leaves(below) != 0 {
                self.places.push((at, below as u8));
            }
        }
    }
}

impl<A: Address, O: Eq> Trie<A, O> {
    /// All claims.
    pub(crate) fn iter(&self) -> Claims<'_, A, O> {
        self.start(Some((ROOT, 1)))
    }

    /// The claims on `prefix` and on blocks inside it.
    pub(crate) fn inside(&self, prefix: Prefix<A>) -> Claims<'_, A, O> {
        let mut at = ROOT;
        loop {
            let node = self.nodes.get(at);
            if node.decides(prefix.length()) {
                let place = node.place(prefix);
                let any = node.held & places_below(place) != 0 || node.kids & leaves(place) != 0;
                return self.start(any.then_some((at, place as u8)));
            }
            let Some(kid) = self.kid(node, node.leaf(prefix.first())) else {
                return self.start(None);
            };
            let child = self.nodes.get(kid);
            if child.shared(prefix.first()) < child.depth.min(prefix.length()) {
                return self.start(None);
            }
            if prefix.length() <= child.depth {
                return self.start(Some((kid, 1)));
            }
            at = kid;
        }
    }

    /// The claims on blocks that `prefix` lies in, itself not counted, the largest first.
    pub(crate) fn around(&self, prefix: Prefix<A>) -> Vec<(Prefix<A>, &O)> {
        let mut found = Vec::new();
        self.for_each_around(prefix, |block, owner| found.push((block, owner)));
        found
    }

    /// Calls `each` with every owner of a block that shares an address with `prefix`.
    pub(crate) fn for_each_overlapping<'a>(&'a self, prefix: Prefix<A>, mut each: impl FnMut(&'a O)) {
        self.for_each_around(prefix, |_, owner| each(owner));
        self.inside(prefix).for_each(|(_, owner)| each(owner));
    }

    fn for_each_around<'a>(&'a self, prefix: Prefix<A>, mut each: impl FnMut(Prefix<A>, &'a O)) {
        let mut at = ROOT;
        loop {
            let node = self.nodes.get(at);
            let deepest = prefix.length().min(node.depth + STRIDE);
            // The block of the node itself is a place of its parent, but for the root.
            let lengths = node.depth + u8::from(at != ROOT)..=deepest;
            for length in lengths.filter(|length| node.held != 0 && *length != prefix.length()) {
                let block = Prefix::cut(prefix.first(), length);
                let owners = self.chain(node.claims[node.place(block)]).filter_map(|claim| claim.owner.as_ref());
                owners.for_each(|owner| each(block, owner));
            }
            if node.decides(prefix.length()) {
                return;
            }
            let Some(kid) = self.kid(node, node.leaf(prefix.first())) else { return };
            let child = self.nodes.get(kid);
            if prefix.length() <= child.depth || child.shared(prefix.first()) < child.depth {
                return;
            }
            at = kid;
        }
    }

    /// The owners of exactly `prefix`.
    pub(crate) fn owners(&self, prefix: Prefix<A>) -> impl Iterator<Item = &O> {
        let mut path = Path::from_root();
        let there = self.walk_to(prefix, &mut path);
        let node = self.nodes.get(path.last());
        let head = if there { node.claims[node.place(prefix)] } else { NONE };
        self.chain(head).filter_map(|claim| claim.owner.as_ref())
    }

    fn start(&self, from: Option<(u32, u8)>) -> Claims<'_, A, O> {
        Claims { trie: self, places: from.into_iter().collect(), block: Prefix::ALL, chain: NONE }
    }
}
