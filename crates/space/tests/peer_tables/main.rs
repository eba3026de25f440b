//! The peers' arithmetic as vectors: the same ranges, sizes and expected answers, asked of ours.
//!
//! The facts are from kube-controller-manager 1.36 (`nodeipam/ipam`: `cidrset` and the range allocator), from
//! node-ipam-controller (`multicidrset` and the multi-CIDR range allocator) and from kube-apiserver 1.36 (the allocators of
//! Service addresses and node ports). Where we answer otherwise on purpose, the table says so and why.

/// Calls a check in the family of its first argument, a range.
macro_rules! by_family {
    ($check:ident ( $range:expr $(, $argument:expr)* )) => {
        if $range.contains(':') { $check::<u128>($range $(, $argument)*) } else { $check::<u32>($range $(, $argument)*) }
    };
}

mod blocks;
mod services;
mod set;
mod views;

use space::{Address, Cidr, Prefix};

/// Reads a text as the peers do: host bits are cleared.
trait Text: Address {
    fn prefix(text: &str) -> Prefix<Self>;

    fn address(text: &str) -> Self {
        Self::prefix(&format!("{text}/{}", Self::WIDTH)).first()
    }
}

fn read(text: &str) -> Cidr {
    Cidr::tolerant(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}")).value
}

impl Text for u32 {
    fn prefix(text: &str) -> Prefix<Self> {
        read(text).v4().unwrap_or_else(|refusal| panic!("{refusal}"))
    }
}

impl Text for u128 {
    fn prefix(text: &str) -> Prefix<Self> {
        read(text).v6().unwrap_or_else(|refusal| panic!("{refusal}"))
    }
}
