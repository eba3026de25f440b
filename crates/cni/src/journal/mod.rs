//! The journal of a network on a node: who holds which address.
//!
//! It is the only thing that an ADD waits for. A commit is one frame, appended to a file and on the disk before anybody is told of it;
//! what was not finished when the machine stopped is not there. Now and then the file is written anew without what has ended, and
//! takes the place of the old one by renaming. docs/internals/cni.md has the layout, byte by byte.
//!
//! - [`record`]: what it says;
//! - [`frame`]: how that lies in the file;
//! - [`book`]: what it comes to;
//! - [`file`]: reading, appending, writing anew.
//!
//! It knows nothing of ranges, slices and configurations: those decide what is written, in `allocate`.

mod book;
mod file;
mod frame;
mod record;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::place::Place;

pub use book::{Book, Image};
pub use file::{Journal, Renewal};
pub use frame::Header;
pub use record::{BootId, End, Holding, Ip, Ips, LONGEST_TEXT, Netns, Origin, Reason, Record, Released};

/// No journal is larger, in bytes: a hundred thousand holdings fit, and an address each for every pod that a node can have is a
/// hundredth of that.
pub const LARGEST: usize = 64 << 20;

/// Why a journal could not be read or written.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there is no journal.
    #[error(
        "{} cannot be read: {why}. The agent writes it anew from the IPPools of this node; without it, move the file away when no pod \
         of this network is left on the node", path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Something that was committed is damaged.
    #[error(
        "{} is damaged at byte {at}, so an address may be in use that it does not show. The agent writes it anew from the IPPools of \
         this node; without it, move the file away when no pod of this network is left on the node", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        at: usize,
    },
}

impl JournalError {
    fn io(what: &'static str, place: &Place, source: io::Error) -> Self {
        Self::Io { what, path: place.journal(), source }
    }
}
