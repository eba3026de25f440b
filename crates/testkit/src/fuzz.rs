//! What the fuzz targets do with their bytes. Here, so that a stable build can replay a corpus.

use std::fmt::{Debug, Display};

use space::{
    Address, Cidr, Fit, GrantRefusal, Pool, Prefix, PrefixError, Range, RangeRefusal, Reading, Register, StrictError,
    Unreadable, View, ViewRefusal, Word, address_band, port_band, strict_address, tolerant_address,
};

use crate::choices::Bytes;
use crate::{blocks as register, both, pool as points};

/// Any text gets an answer from both readers, the two agree, and what was read means the same when it is read again.
/// Bytes that are not text end it.
pub fn cidr(data: &[u8]) {
    let text = data.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    read(text, Cidr::tolerant, Cidr::strict);
    read(text, tolerant_address, strict_address);
}

fn read<T: Clone + PartialEq + Debug + Display>(
    text: &str,
    tolerant: fn(&str) -> Result<Reading<T>, Unreadable>,
    strict: fn(&str) -> Result<T, StrictError<T>>,
) {
    let Reading { value, flaws } = match tolerant(text) {
        Ok(reading) => reading,
        Err(unreadable) => return assert_eq!(strict(text), Err(StrictError::Unreadable(unreadable))),
    };
    let canonical = value.to_string();
    match flaws.first() {
        None => {
            assert_eq!(strict(text), Ok(value.clone()));
            assert_eq!(canonical, text, "read as canonical");
        }
        Some(&flaw) => {
            assert_eq!(strict(text), Err(StrictError::Flawed { flaw, canonical: value.clone() }));
            assert_ne!(canonical, text, "read as flawed");
        }
    }
    assert_eq!(tolerant(&canonical), Ok(Reading { value, flaws: Vec::new() }));
}

/// Any sequence of operations on a register ends like the same one on the naive register. The first byte is the family,
/// or both families.
pub fn blocks(data: &[u8]) {
    let Some((family, rest)) = data.split_first() else { return };
    match family % 3 {
        0 => register::run::<u32>(&mut Bytes(rest), usize::MAX),
        1 => register::run::<u128>(&mut Bytes(rest), usize::MAX),
        _ => both::run(&mut Bytes(rest), usize::MAX),
    }
}

/// Any sequence of operations on a pool ends like the same one on the naive pool. The first byte is the kind of points.
pub fn pool(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 3 {
        0 => points::run::<u16>(&mut Bytes(rest), usize::MAX),
        1 => points::run::<u32>(&mut Bytes(rest), usize::MAX),
        _ => points::run::<u128>(&mut Bytes(rest), usize::MAX),
    }
}

/// Any arguments, impossible ones as well, get an answer from every function that takes bits, lengths or indexes. The
/// first byte is the family.
pub fn prefix(data: &[u8]) {
    let Some((family, rest)) = data.split_first() else { return };
    let mut raw = Raw(rest);
    if family.is_multiple_of(2) { raw_arguments::<u32>(&mut raw) } else { raw_arguments::<u128>(&mut raw) }
}

/// Raw arguments from bytes; zeros when there are no more.
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn wide(&mut self) -> u128 {
        (0..16).fold(0, |wide, _| wide << 8 | u128::from(self.byte()))
    }

    /// Any bits: random ones, or few at one of the ends.
    fn bits<W: Word>(&mut self) -> W {
        match self.byte() % 4 {
            0 => W::narrow(u128::from(self.byte())),
            1 => !W::narrow(u128::from(self.byte())),
            2 => W::narrow(u128::from(self.byte())).up(W::WIDTH - 8),
            _ => W::narrow(self.wide()),
        }
    }

    /// Any length, in half of the cases one that is possible or barely not.
    fn length<A: Address>(&mut self) -> u8 {
        let length = self.byte();
        if self.byte().is_multiple_of(2) { length } else { length % (A::WIDTH + 2) }
    }

    /// Some prefix that there is.
    fn prefix<A: Address>(&mut self) -> Prefix<A> {
        let length = self.byte() % (A::WIDTH + 1);
        let Ok(prefix) = Prefix::enclosing_address(self.bits(), length) else { panic!("/{length} was refused") };
        prefix
    }

    fn fit<A: Address>(&mut self) -> Fit<A> {
        match self.byte() % 3 {
            0 => Fit::Best,
            1 => Fit::First,
            _ => Fit::Next(self.bits()),
        }
    }
}

fn raw_arguments<A: Address>(raw: &mut Raw) {
    for _ in 0..4 {
        make_prefixes::<A>(raw);
        cut_prefixes::<A>(raw);
        count_blocks::<A>(raw);
    }
    let holes = [raw.prefix(), raw.prefix(), raw.prefix()];
    let range = raw.prefix();
    without::<A>(range, &holes[..usize::from(raw.byte()) % 4]);
    views::<A>(raw);
    ranges::<A>(raw);
    ranges::<u16>(raw);
    bands::<A>(raw);
    registers::<A>(raw);
}

fn make_prefixes<A: Address>(raw: &mut Raw) {
    let (bits, length) = (raw.bits::<A>(), raw.length::<A>());
    let too_long = PrefixError::TooLong { family: A::FAMILY, length };
    match Prefix::enclosing_address(bits, length) {
        Ok(prefix) => {
            assert!(length <= A::WIDTH && prefix.length() == length, "{prefix}");
            assert!(prefix.contains_address(bits) && prefix.first() <= bits && bits <= prefix.last(), "{prefix}");
            let expected = if prefix.first() == bits { Ok(prefix) } else { Err(PrefixError::HostBits { length }) };
            assert_eq!(Prefix::new(bits, length), expected);
            let Ok(cidr) = Cidr::strict(&prefix.to_string()) else { panic!("{prefix} was not read") };
            assert_eq!(cidr.to_string(), format!("{prefix:?}"));
        }
        Err(refusal) => {
            assert!(length > A::WIDTH, "{refusal}");
            assert_eq!((refusal, Prefix::new(bits, length)), (too_long, Err(too_long)));
        }
    }
    let host = Prefix::host(bits);
    assert_eq!((host.first(), host.last(), host.length(), host.size()), (bits, bits, A::WIDTH, 1));
}

fn cut_prefixes<A: Address>(raw: &mut Raw) {
    let (prefix, other, length) = (raw.prefix::<A>(), raw.prefix::<A>(), raw.length::<A>());
    let nested = prefix.contains(&other) || other.contains(&prefix);
    assert_eq!((prefix.overlaps(&other), other.overlaps(&prefix)), (nested, nested), "{prefix} and {other}");
    let inside = prefix.contains_address(other.first()) && prefix.contains_address(other.last());
    assert_eq!(prefix.contains(&other), inside, "{other} in {prefix}");

    let around = prefix.enclosing(length);
    assert_eq!(around.is_some(), length <= prefix.length(), "/{length} around {prefix}");
    assert!(around.is_none_or(|around| around.contains(&prefix) && around.length() == length), "{prefix}");
    let sibling = prefix.sibling();
    assert_eq!(sibling.is_some(), prefix.length() > 0, "{prefix}");
    assert!(sibling.is_none_or(|sibling| !sibling.overlaps(&prefix) && sibling.sibling() == Some(prefix)), "{prefix}");
    let halves = prefix.halves();
    assert_eq!(halves.is_some(), prefix.length() < A::WIDTH, "{prefix}");
    if let Some([low, high]) = halves {
        assert_eq!((low.first(), high.last(), low.sibling()), (prefix.first(), prefix.last(), Some(high)), "{prefix}");
        assert_eq!(low.last().plus(A::ONE), Some(high.first()), "{prefix}");
    }
    if let Some((first, last)) = prefix.usable() {
        assert!(first <= last && prefix.first() < first && last <= prefix.last(), "{prefix}");
    }
}

fn count_blocks<A: Address>(raw: &mut Raw) {
    let (prefix, length) = (raw.prefix::<A>(), raw.length::<A>());
    let possible = (prefix.length()..=A::WIDTH).contains(&length);
    let blocks = prefix.blocks(length);
    assert_eq!(blocks > 0, possible, "/{length} in {prefix}");
    // In half of the cases an index that is likely to be there, or the last there is.
    let index = match raw.byte() % 4 {
        0 => blocks.wrapping_sub(1),
        1 => raw.wide() % blocks.max(1),
        _ => raw.wide(),
    };
    match prefix.block(index, length) {
        Ok(block) => {
            assert!(possible && (index < blocks || blocks == u128::MAX), "{index} of {blocks}");
            assert!(prefix.contains(&block) && block.length() == length, "{block} in {prefix}");
            assert_eq!(prefix.block_index(block.first(), length), Some(index));
            assert_eq!(prefix.block_index(block.last(), length), Some(index));
        }
        Err(PrefixError::TooLong { .. }) => assert!(length > A::WIDTH, "/{length}"),
        Err(PrefixError::TooLarge { .. }) => assert!(length < prefix.length(), "/{length} in {prefix}"),
        Err(PrefixError::BeyondLast { .. }) => assert!(possible && index >= blocks, "{index} of {blocks}"),
        Err(refusal @ PrefixError::HostBits { .. }) => panic!("a block was asked for: {refusal}"),
    }
    let address = raw.bits::<A>();
    match prefix.block_index(address, length) {
        Some(index) => {
            let block = prefix.block(index, length);
            assert!(block.is_ok_and(|block| block.contains_address(address)), "{block:?}");
        }
        None => assert!(!possible || !prefix.contains_address(address), "/{length} of {address} in {prefix}"),
    }
}

/// What is left is inside, in order, apart from the holes, and with them it is everything.
fn without<A: Address>(range: Prefix<A>, holes: &[Prefix<A>]) {
    let left = range.without(holes);
    assert!(left.is_sorted_by(|one, next| one.last() < next.first()), "{left:?}");
    assert!(left.iter().all(|piece| range.contains(piece) && !holes.iter().any(|hole| hole.overlaps(piece))));
    let mut all = left;
    all.extend(holes.iter().filter(|hole| hole.overlaps(&range)));
    assert!(range.without(&all).is_empty(), "{range} without {holes:?}");
}

fn views<A: Address>(raw: &mut Raw) {
    let (range, length) = (raw.prefix::<A>(), raw.length::<A>());
    let excluded = [raw.prefix(), raw.prefix(), raw.prefix()];
    let excluded = &excluded[..usize::from(raw.byte()) % 4];
    match View::new(range, length, excluded) {
        Ok(view) => {
            assert!((range.length()..=A::WIDTH).contains(&length), "/{length} in {range}");
            assert_eq!((view.range(), view.length(), view.pieces()), (range, length, &*range.without(excluded)));
            assert!(view.capacity() > 0 && view.capacity() <= range.blocks(length), "/{length} in {range}");
        }
        Err(ViewRefusal::TooLong { .. }) => assert!(length > A::WIDTH, "/{length}"),
        Err(ViewRefusal::TooLarge { .. }) => assert!(length < range.length(), "/{length} in {range}"),
        Err(ViewRefusal::NothingLeft { .. }) => assert!(!excluded.is_empty(), "/{length} in {range}"),
    }
}

/// Any ends make a range or are refused; a range in a pool can be counted and used up to its ends.
fn ranges<P: Word>(raw: &mut Raw) {
    let (first, last, band) = (raw.bits::<P>(), raw.bits::<P>(), raw.wide());
    let range = match Range::new(first, last, band) {
        Ok(range) => range,
        Err(refusal) => return assert_eq!(refusal == RangeRefusal::Empty, last < first, "{first} to {last}"),
    };
    assert_eq!((range.first(), range.last(), range.is_open()), (first, last, true));
    let mut pool = Pool::new();
    let id = pool.add_range(range);
    let Ok(before) = pool.counts(id) else { panic!("{first} to {last} is gone") };
    assert_eq!(before.size - 1, last.wide() - first.wide());
    assert!(before.band <= before.size && before.free == before.size, "{before:?}");
    let number = raw.byte();
    let Ok(granted) = pool.grant(|| u64::from(number) << 56) else { panic!("nothing from {first} to {last}") };
    assert!(first <= granted && granted <= last, "{granted} from {first} to {last}");
    let point = raw.bits::<P>();
    let free = point != granted && first <= point && point <= last;
    assert_eq!(pool.claim(point).is_ok(), free, "{point} from {first} to {last}");
    assert_eq!(pool.release(point).is_ok(), free || point == granted, "{point} was claimed");
    assert_eq!(pool.is_claimed(granted), point != granted);
}

fn bands<A: Address>(raw: &mut Raw) {
    let size = raw.wide();
    assert!(address_band(size) <= size && port_band(size) <= size, "bands of {size}");
    let prefix = raw.prefix::<A>();
    assert!(Range::service(prefix).is_ok() || prefix.usable().is_none() || prefix.size() > 1 << 96, "{prefix}");
    assert_eq!(Range::whole(prefix).is_ok(), prefix.size() <= 1 << 96, "{prefix}");
    let (first, last) = (raw.bits::<u16>(), raw.bits::<u16>());
    assert_eq!(Range::ports(first, last).is_ok(), first <= last, "{first} to {last}");
}

/// Asks a small register, of which a part is taken, for anything.
fn registers<A: Address>(raw: &mut Raw) {
    let mut register = Register::<A, u8>::new();
    let view = View::new(raw.prefix(), raw.length::<A>(), &[raw.prefix()]).ok();
    let view = view.map(|view| register.add_view(view));
    // 2^128 hosts are free, and none of any length beyond.
    ask(&register, Prefix::ALL, raw.length::<A>(), raw.fit::<A>());
    for owner in 0..raw.byte() % 8 {
        register.occupy(raw.prefix(), owner);
    }
    for owner in 0..4 {
        let (within, length, fit) = (raw.prefix::<A>(), raw.length::<A>(), raw.fit::<A>());
        ask(&register, within, length, fit);
        let found = register.find(within, length, fit);
        let granted = register.grant_within(within, length, fit, owner);
        match granted {
            Ok(block) => assert_eq!(found, Some(block)),
            Err(GrantRefusal::ImpossibleSize { .. }) => assert!(!(within.length()..=A::WIDTH).contains(&length)),
            Err(refusal) => assert_eq!((refusal, found), (GrantRefusal::Exhausted { length, range: within }, None)),
        }
        if let Some(view) = view {
            let length = raw.length::<A>();
            let found = register.find_in_view(view, length, fit);
            assert!(found.is_err() || length <= A::WIDTH, "{found:?}");
            assert_eq!(register.grant(view, length, fit, owner), found);
        }
        let (prefix, other) = (raw.prefix(), raw.byte());
        let free = register.is_free(prefix);
        assert_eq!(register.claim(prefix, owner).is_ok(), free, "claim {prefix}");
        let held = register.owners(prefix).any(|owner| *owner == other);
        assert_eq!(register.release(prefix, &other).is_ok(), held, "release {prefix}");
    }
    assert_eq!(register.audit(), Ok(()));
}

fn ask<A: Address>(register: &Register<A, u8>, within: Prefix<A>, length: u8, fit: Fit<A>) {
    let possible = (within.length()..=A::WIDTH).contains(&length);
    let found = register.find(within, length, fit);
    let count = register.count_free(within, length);
    assert_eq!(count > 0, found.is_some(), "/{length} in {within}: {count} free, found {found:?}");
    assert!(count <= within.blocks(length), "/{length} in {within}: {count} free");
    if let Some(block) = found {
        assert!(possible && block.length() == length, "/{length} in {within}: {block}");
        assert!(within.contains(&block) && register.is_free(block), "{block} in {within}");
    }
    let largest = register.largest_free(within);
    assert!(largest.is_none_or(|largest| (within.length()..=A::WIDTH).contains(&largest)), "{largest:?} in {within}");
    assert_eq!(found.is_some(), possible && largest.is_some_and(|largest| largest <= length), "/{length} in {within}");
}
