//! The trie under the register: who holds which block, and which sizes are free below every node.
//!
//! A path-compressed trie with one hexadecimal digit of the address to a node (see [`node`]). It lives in three arenas
//! addressed by `u32`, so that a grant costs a few dozen bytes and no allocation of its own. It knows owners, free space
//! and space that is cooling down; it knows neither time nor views nor why anything is held.
//!
//! Invariants, checked by [`Trie::audit`]:
//! - a node other than the root has something in it, and does more than lead to one child;
//! - the summary of a node is what its places and children say, and its parent has noted every size in it. The root
//!   alone keeps no such notes: it is asked seldom, and every change would have to go up to it;
//! - a leaf is busy exactly when somebody holds something below it.

mod audit;
mod find;
mod finger;
mod node;
mod path;
mod upkeep;
mod walk;

pub use find::Fit;
use finger::Finger;
pub(crate) use finger::Source;
pub use walk::Claims;

use crate::arena::Arena;
use crate::prefix::Prefix;
use crate::word::Address;
use node::{Branch, Mood, NONE, Node, STRIDE, Summary, leaves};
use path::{End, Path, Way};

/// The root is the first node and never goes away.
const ROOT: u32 = 0;

/// One owner of one block; several on one block form a chain.
#[derive(Debug)]
struct Claim<O> {
    /// Empty only while the slot waits for its next use.
    owner: Option<O>,
    next: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trie<A: Address, O> {
    nodes: Arena<Node<A>>,
    branches: Arena<Branch<A>>,
    claims: Arena<Claim<O>>,
    /// How many places are cooling.
    cooling: usize,
    finger: Option<Box<Finger<A>>>,
}

/// What `occupy` found where it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupied {
    /// It is the only claim on any of it.
    Alone,
    /// There is another claim on some or all of it, be it of another owner or of the same one.
    Shared,
    /// This owner held exactly this block before: nothing changed.
    Already,
}

/// Why a block was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReleased {
    /// Nobody holds exactly this block.
    Unheld,
    /// Only others hold exactly this block.
    HeldByOthers,
}

impl<A: Address, O: Eq> Trie<A, O> {
    pub(crate) fn new() -> Self {
        let mut nodes = Arena::default();
        let mut root = Node::new(A::ZERO, 0);
        root.summarise_places();
        nodes.insert(root);
        Self { nodes, branches: Arena::default(), claims: Arena::default(), cooling: 0, finger: None }
    }

    /// How many claims there are, every owner of every block counted.
    pub(crate) fn claims(&self) -> usize {
        self.claims.used()
    }

    /// How many blocks are marked as cooling.
    pub(crate) fn cooling(&self) -> usize {
        self.cooling
    }

    /// Records that `owner` holds `prefix`, whatever else is held there.
    pub(crate) fn occupy(&mut self, prefix: Prefix<A>, owner: O) -> Occupied {
        self.forget_finger();
        self.occupy_from(&mut Path::from_root(), prefix, owner)
    }

    /// Occupies a block, from a node on the way to it. The path then leads to the node that decides it.
    fn occupy_from(&mut self, path: &mut Path, prefix: Prefix<A>, owner: O) -> Occupied {
        let way = self.walk_towards(prefix, path);
        match way.end {
            End::Decides => self.occupy_here(way, path, prefix, owner),
            End::NoChild => {
                let at = path.last();
                let was = self.nodes.get(at).state();
                let leaf = self.nodes.get(at).leaf(prefix.first());
                let new = self.new_holder(prefix, owner);
                self.hang(at, leaf, Some(new), Summary::default());
                self.climb(path, was);
                path.push(leaf, new);
                way.found(false)
            }
            End::OnEdgeTo(kid) => self.occupy_beside(way, kid, path, prefix, owner),
        }
    }

    /// The same on the compressed edge that leads from the last node of the path to `kid`: a node goes in where the way
    /// to the block leaves the edge, and decides the block itself or leads to a new node that does.
    fn occupy_beside(&mut self, way: Way, kid: u32, path: &mut Path, prefix: Prefix<A>, owner: O) -> Occupied {
        let at = path.last();
        let above = self.nodes.get(at);
        let (was, leaf) = (above.state(), above.leaf(prefix.first()));
        let child = self.nodes.get(kid);
        let before = child.state().seen_from(above.depth + STRIDE, child.depth);
        let depth = child.shared(prefix.first()).min(prefix.length() - 1) & !(STRIDE - 1);
        let fork = Node::new(prefix.first(), depth);
        let (kid_leaf, kid_held) = (fork.leaf(child.bits), child.state().held);

        let decides = fork.decides(prefix.length());
        let covers_kid = decides && leaves(fork.place(prefix)) & (1 << kid_leaf) != 0;
        let new_leaf = fork.leaf(prefix.first());
        let (fork, new) = if decides {
            (self.new_holder(prefix, owner), None)
        } else {
            (self.nodes.insert(fork), Some(self.new_holder(prefix, owner)))
        };
        self.hang(fork, kid_leaf, Some(kid), Summary::default());
        if new.is_some() {
            self.hang(fork, new_leaf, new, Summary::default());
        }
        self.hang(at, leaf, Some(fork), before);
        self.climb(path, was);
        path.push(leaf, fork);
        if let Some(new) = new {
            path.push(new_leaf, new);
        }
        way.found(covers_kid && kid_held)
    }

    /// The same at the node that decides the block.
    #[inline]
    fn occupy_here(&mut self, way: Way, path: &Path, prefix: Prefix<A>, owner: O) -> Occupied {
        let at = path.last();
        let node = self.nodes.get(at);
        let place = node.place(prefix);
        let head = node.claims[place];
        if self.chain(head).any(|claim| claim.owner.as_ref() == Some(&owner)) {
            return Occupied::Already;
        }
        let claim = self.claims.insert(Claim { owner: Some(owner), next: head });
        let node = self.nodes.get_mut(at);
        let in_the_way = leaves(place) & (node.covered(Mood::Free) | node.busy) != 0;
        node.claims[place] = claim;
        if head == NONE {
            let was = node.state();
            node.held |= 1 << place;
            self.places_changed(at, place);
            self.climb(path, was);
        }
        way.found(in_the_way)
    }

    /// Takes back exactly the claim of `owner` on exactly `prefix`. With `cool`, the block is marked as cooling when
    /// nobody holds exactly it any more. Returns whether that was the last claim on the block.
    pub(crate) fn release(&mut self, prefix: Prefix<A>, owner: &O, cool: bool) -> Result<bool, NotReleased> {
        self.forget_finger();
        let mut path = Path::from_root();
        if !self.walk_to(prefix, &mut path) {
            return Err(NotReleased::Unheld);
        }
        let at = path.last();
        let place = self.nodes.get(at).place(prefix);
        let head = self.nodes.get(at).claims[place];
        if head == NONE {
            return Err(NotReleased::Unheld);
        }
        let rest = self.unchain(head, owner).ok_or(NotReleased::HeldByOthers)?;
        let node = self.nodes.get_mut(at);
        let was = node.state();
        node.claims[place] = rest;
        if rest != NONE {
            return Ok(false);
        }
        node.held &= !(1 << place);
        if cool && node.cooling & (1 << place) == 0 {
            node.cooling |= 1 << place;
            self.cooling += 1;
        }
        self.places_changed(at, place);
        self.climb(&path, was);
        Ok(true)
    }

    /// Forgets that `prefix` is cooling down.
    pub(crate) fn warm(&mut self, prefix: Prefix<A>) {
        let mut path = Path::from_root();
        if !self.walk_to(prefix, &mut path) {
            return;
        }
        let node = self.nodes.get_mut(path.last());
        let place = node.place(prefix);
        if node.cooling & (1 << place) == 0 {
            return;
        }
        let was = node.state();
        node.cooling &= !(1 << place);
        self.places_changed(path.last(), place);
        self.climb(&path, was);
        // Only now: while it counts, the way up keeps both moods.
        self.cooling -= 1;
    }

    /// The claims of a chain.
    fn chain(&self, head: u32) -> impl Iterator<Item = &Claim<O>> {
        let mut next = head;
        std::iter::from_fn(move || {
            let claim = (next != NONE).then(|| self.claims.get(next))?;
            next = claim.next;
            Some(claim)
        })
    }

    /// Takes the claim of `owner` out of a chain; the new head, or nothing when the owner is not in it.
    fn unchain(&mut self, head: u32, owner: &O) -> Option<u32> {
        let mut before = NONE;
        let mut at = head;
        while at != NONE {
            let claim = self.claims.get_mut(at);
            let next = claim.next;
            if claim.owner.as_ref() == Some(owner) {
                // The slot keeps its place in the arena, not the owner.
                claim.owner = None;
                self.claims.remove(at);
                if before == NONE {
                    return Some(next);
                }
                self.claims.get_mut(before).next = next;
                return Some(head);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// The child below `leaf`.
    #[inline]
    fn kid(&self, node: &Node<A>, leaf: usize) -> Option<u32> {
        (node.kids & (1 << leaf) != 0).then(|| self.branches.get(node.branch).kids[leaf])
    }

    fn branch(&self, node: &Node<A>) -> Option<&Branch<A>> {
        (node.branch != NONE).then(|| self.branches.get(node.branch))
    }

    /// A new node that decides `prefix` and has one claim, on it.
    fn new_holder(&mut self, prefix: Prefix<A>, owner: O) -> u32 {
        let mut node = Node::new(prefix.first(), (prefix.length() - 1) & !(STRIDE - 1));
        let place = node.place(prefix);
        node.held = 1 << place;
        node.claims[place] = self.claims.insert(Claim { owner: Some(owner), next: NONE });
        node.summarise_places();
        self.nodes.insert(node)
    }
}
