//! Who has which addresses, as the objects say it: whether any two nodes share some, and what of a range is free. Knows nothing of
//! registers and views, and tries every block.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use space::{Cidr, Prefix};

/// Where addresses begin and end, of one family.
type Span = (bool, u128, u128);

/// The blocks of all nodes.
#[derive(Default)]
pub(super) struct Book {
    /// By their first address.
    blocks: BTreeMap<(bool, u128), (u128, String)>,
    nodes: BTreeMap<String, Vec<Span>>,
}

impl Book {
    /// A list of nodes, of whom no two may share an address.
    pub(super) fn of(nodes: &[Value]) -> Result<Self> {
        let mut book = Self::default();
        nodes.iter().try_for_each(|node| book.see(node))?;
        Ok(book)
    }

    /// A node is there, or is other than it was; an error if it shares addresses with another.
    pub(super) fn see(&mut self, node: &Value) -> Result<()> {
        let name = name_of(node)?;
        self.lose(name);
        let mut spans = Vec::new();
        for block in blocks_of(node)? {
            let span @ (family, first, last) = span(block);
            if let Some(other) = self.sharing(span) {
                bail!("{block} is {name}'s, and addresses of it are {other}'s");
            }
            self.blocks.insert((family, first), (last, name.to_owned()));
            spans.push(span);
        }
        self.nodes.insert(name.to_owned(), spans);
        Ok(())
    }

    /// A node is gone.
    pub(super) fn lose(&mut self, name: &str) {
        for (family, first, _) in self.nodes.remove(name).into_iter().flatten() {
            self.blocks.remove(&(family, first));
        }
    }

    /// Who has addresses of it. Blocks do not overlap, so the last that begins at or before its end is the only one to look at.
    fn sharing(&self, (family, first, last): Span) -> Option<&str> {
        let (&(own, _), (end, name)) = self.blocks.range(..=(family, last)).next_back()?;
        (own == family && *end >= first).then_some(name.as_str())
    }

    /// Those who have nothing.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, spans)| spans.is_empty()).map(|(name, _)| name.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a range has room for one more node, in each family that it has.
    pub(super) fn has_room(&self, spec: &Value) -> Result<bool> {
        let bits = spec["perNodeHostBits"].as_u64().and_then(|bits| u8::try_from(bits).ok()).context("no host bits")?;
        let is_free = |block: Cidr| self.sharing(span(block)).is_none();
        let mut room = true;
        for name in ["ipv4", "ipv6"] {
            let Some(text) = spec[name].as_str() else { continue };
            room &= blocks(text, bits)?.into_iter().any(is_free);
        }
        Ok(room)
    }
}

/// All blocks of a range; only for those that have few.
pub(super) fn blocks(range: &str, bits: u8) -> Result<BTreeSet<Cidr>> {
    const MOST: u128 = 1 << 16;
    let cut = |count: u128| {
        ensure!(count <= MOST, "{range} has too many blocks to try each");
        Ok(0..count)
    };
    match Cidr::strict(range)? {
        Cidr::V4(range) => {
            let range: Prefix<u32> = range;
            let length = 32 - bits;
            cut(range.blocks(length))?.map(|index| Ok(range.block(index, length)?.into())).collect()
        }
        Cidr::V6(range) => {
            let range: Prefix<u128> = range;
            let length = 128 - bits;
            cut(range.blocks(length))?.map(|index| Ok(range.block(index, length)?.into())).collect()
        }
    }
}

pub(super) fn name_of(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().context("an object without a name")
}

/// The blocks that a node says that it has.
pub(super) fn blocks_of(node: &Value) -> Result<Vec<Cidr>> {
    let all = node["spec"]["podCIDRs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    all.map(|text| Ok(Cidr::tolerant(text)?.value)).collect()
}

fn span(cidr: Cidr) -> Span {
    match cidr {
        Cidr::V4(block) => (false, block.first().into(), block.last().into()),
        Cidr::V6(block) => (true, block.first(), block.last()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, cidrs: &[&str]) -> Value {
        json!({"metadata": {"name": name}, "spec": {"podCIDRs": cidrs}})
    }

    #[test]
    fn whoever_shares_an_address_is_found() {
        for (one, other) in [
            ("10.0.0.0/24", "10.0.0.0/24"),
            ("10.0.0.0/24", "10.0.0.128/25"),
            ("10.0.0.128/25", "10.0.0.0/24"),
            ("10.0.0.0/8", "10.200.0.0/24"),
            ("fd00::/64", "fd00::ff:0/112"),
        ] {
            let said = Book::of(&[node("a", &[one]), node("b", &[other])]).err().map(|error| error.to_string());
            assert_eq!(said, Some(format!("{other} is b's, and addresses of it are a's")));
        }
        assert!(
            Book::of(&[node("a", &["10.0.0.0/24", "fd00::/64"]), node("b", &["10.0.1.0/24", "fd01::/64"])]).is_ok()
        );
    }

    #[test]
    fn what_is_gone_or_changed_is_free() {
        let mut book = Book::of(&[node("a", &["10.0.0.0/24"]), node("b", &[])]).unwrap();
        assert_eq!(book.waiting().collect::<Vec<_>>(), ["b"]);
        assert!(book.see(&node("b", &["10.0.0.0/25"])).is_err());
        book.lose("a");
        book.see(&node("b", &["10.0.0.0/25"])).unwrap();
        book.see(&node("b", &["10.0.0.0/24"])).unwrap();
        assert_eq!((book.waiting().count(), book.len()), (0, 1));
    }

    #[test]
    fn a_range_has_room_while_a_block_of_each_family_is_free() {
        let spec = json!({"perNodeHostBits": 8, "ipv4": "10.0.0.0/23", "ipv6": "fd00::/119"});
        let mut book = Book::default();
        assert!(book.has_room(&spec).unwrap());
        book.see(&node("a", &["10.0.0.64/26", "fd00::/119"])).unwrap();
        assert!(!book.has_room(&spec).unwrap());
        book.see(&node("a", &["10.0.0.64/26"])).unwrap();
        assert!(book.has_room(&spec).unwrap());
        book.see(&node("b", &["10.0.1.0/24"])).unwrap();
        assert!(!book.has_room(&spec).unwrap());
    }
}
