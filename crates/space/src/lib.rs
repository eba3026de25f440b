//! The register itself: prefixes, owners, free blocks, single addresses and ports.
//!
//! Everything that Cadastre grants is a claim in one of two structures:
//!
//! - a **block** (a node's pod CIDR, a node slice) is a claim in a [`Register`], one for each family. It knows every owner
//!   of every block, of any mix of sizes, and finds free space by size. [`View`]s are windows on it that keep count.
//! - a **point** (a Service IP, a node port, a pod's IP) is a claim in a [`Pool`] over any number of ranges. It picks a
//!   uniformly random free one, however full the ranges are.
//!
//! Read in this order: [`Prefix`] and [`Cidr`] (what a block is, and its text), the register and its views, the trie under
//! it, the pool. Nothing here does I/O, reads a clock, uses randomness that it was not given, or depends on the order of a
//! hash map: the same calls give the same answers. Refusals are values; bad input changes nothing.
//!
//! ```
//! use space::{Cidr, Fit, Register, View};
//!
//! let mut register = Register::new();
//! let range = Cidr::strict("10.0.0.0/16")?.v4()?;
//! let view = register.add_view(View::new(range, 24, &[])?);
//!
//! // Blocks of other sizes, from other views or adopted from outside, never overlap what is granted here.
//! register.occupy(Cidr::strict("10.0.0.0/25")?.v4()?, "legacy");
//! let block = register.grant(view, 24, Fit::Best, "node-1")?;
//! assert_eq!(block.to_string(), "10.0.1.0/24");
//! assert_eq!(register.counts(view).map(|counts| counts.free), Some(254));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arena;
mod both;
mod cidr;
mod pool;
mod prefix;
mod register;
mod trie;
mod view;
mod word;

pub use both::{Registers, Reservation, ReservationRefusal, ReturnRefusal, Wish};
pub use cidr::{Cidr, Flaw, Reading, StrictError, Unreadable, strict_address, tolerant_address};
pub use pool::{
    LARGEST_RANGE_BITS, Pool, PoolRefusal, Range, RangeCounts, RangeId, RangeRefusal, address_band, port_band,
};
pub use prefix::{Prefix, PrefixError};
pub use register::{COOLING_LIMIT, GrantRefusal, Moment, Register, ReleaseRefusal};
pub use trie::{Claims, Fit, Occupied};
pub use view::{Counts, View, ViewId, ViewRefusal};
pub use word::{Address, Family, Word};
