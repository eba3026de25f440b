//! Networks without slices: all nodes share their ranges, and `IPPool`s say who has which address, as in whereabouts.
//!
//! No lease is held. An address is taken by one patch that tests that nobody has it, and given back by one that tests that it is still
//! ours; a second object reserves it among networks whose ranges overlap. The node's journal is its memory of that: what is about to be
//! taken is written there first, as *owed*, so whatever happens on the way, somebody knows what to take out of the pools again. It
//! becomes a holding when all is done, and owed again when it ends, until the API server has heard of it.
//!
//! - [`object`]: the objects, their names and the patches;
//! - [`choose`]: which addresses, a function of pools and journal;
//! - `server`: both over the API;
//! - [`give`], [`release`]: an attachment comes, and goes.

pub mod choose;
pub mod give;
pub mod object;
pub mod release;
mod server;

use std::fs;
use std::path::PathBuf;

use crate::config::Conf;
use crate::failure::{Code, Failure};
use crate::journal::BootId;
use crate::place::Place;

/// A network on this node.
#[derive(Clone, Debug)]
pub struct Site<'c> {
    /// Its configuration.
    pub conf: &'c Conf,
    /// Where the agent's socket and the folders of all networks are.
    pub state_dir: PathBuf,
    /// Its folder.
    pub place: Place,
    /// The boot.
    pub boot: BootId,
}

impl Site<'_> {
    /// Nobody else makes the folder of a network without slices.
    fn make_folder(&self) -> Result<(), Failure> {
        let folder = self.place.folder();
        fs::create_dir_all(folder)
            .map_err(|error| Failure::new(Code::Io, format!("cannot create {}: {error}", folder.display())))
    }
}
