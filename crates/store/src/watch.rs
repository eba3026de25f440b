//! A watch: the events under a prefix after a revision, first from the history, then as they happen.
//!
//! History is read from the mirror's log piece by piece, so a watch that starts far back holds no copy of it.

use std::fmt;
use std::sync::Arc;

use crate::hub::Reader;
use crate::mirror::Mirror;
use crate::types::{Ended, Event, RangeError, Revision, StoreError};

/// Events under a prefix, in order, each once, whole transactions at a time. Dropping it ends it.
pub struct Watch {
    mirror: Arc<Mirror>,
    prefix: Box<str>,
    /// Found and not handed out yet.
    ready: Vec<Arc<Event>>,
    place: Place,
}

enum Place {
    /// In the history: everything up to here was found.
    Past(Revision),
    /// At the end of it.
    Live(Reader),
}

impl Watch {
    pub(crate) fn start(mirror: Arc<Mirror>, prefix: &str, after: Revision) -> Result<Self, RangeError> {
        let mut watch = Self { mirror, prefix: prefix.into(), ready: Vec::new(), place: Place::Past(after) };
        // The first piece is read at once: most watches start near the end and are live with it.
        watch.read_on(after)?;
        Ok(watch)
    }

    fn read_on(&mut self, after: Revision) -> Result<(), RangeError> {
        let piece = self.mirror.piece(&self.prefix, after)?;
        self.ready = piece.events;
        self.place = piece.live.map_or(Place::Past(piece.upto), Place::Live);
        Ok(())
    }

    /// The next events, at least one; waits until there are some. Whole transactions, in order. Giving up the wait loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Ended> {
        loop {
            if !self.ready.is_empty() {
                return Ok(std::mem::take(&mut self.ready));
            }
            match &self.place {
                Place::Live(reader) => return reader.take().await,
                Place::Past(after) => {
                    self.read_on(*after).map_err(|error| match error {
                        RangeError::Store(StoreError::Closed) => Ended::Closed,
                        RangeError::Compacted { .. } | RangeError::Future { .. } | RangeError::Store(_) => {
                            Ended::Compacted
                        }
                    })?;
                    // A long history must not keep other tasks from running.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// `Some(r)`: every event up to `r` was handed out. `None`: there are some that wait to be read.
    pub fn progress(&mut self) -> Option<Revision> {
        // The revision first: the events up to it are in the rings by then, so a ring that is empty after this look has nothing
        // to come up to it.
        let revision = self.mirror.revision();
        match &self.place {
            Place::Live(reader) if self.ready.is_empty() && reader.caught_up() => Some(revision),
            _ => None,
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
