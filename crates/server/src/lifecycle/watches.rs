//! `Watches`: what is followed of the store. Everything, where everything is tended; else only what the server looks after in any
//! case, so that all other writes cost nothing here.

use std::sync::Arc;

use futures_util::future::select_all;
use store::{Ended, Event, RangeError, Revision, Store, Watch};

use super::index::EVENTS;
use super::ranges::SERVICES;

/// The watches, of which each tells its own in order. What is decided is decided on what is in memory, so their order among one
/// another does not matter.
pub(super) struct Watches(Vec<Watch>);

impl Watches {
    /// Follows what happens after a revision.
    pub(super) fn begin(store: &Store, everything: bool, after: Revision) -> Result<Self, RangeError> {
        if everything {
            return Ok(Self(vec![store.watch("", after)?]));
        }
        let prefixes = SERVICES.iter().map(|prefix| format!("{prefix}/")).chain([EVENTS.to_owned()]);
        prefixes.map(|prefix| store.watch(&prefix, after)).collect::<Result<_, _>>().map(Self)
    }

    /// The next events of one of them; waits until there are some. Giving up the wait loses nothing.
    pub(super) async fn next(&mut self) -> Result<Vec<Arc<Event>>, Ended> {
        if let [only] = self.0.as_mut_slice() {
            return only.next().await;
        }
        select_all(self.0.iter_mut().map(|watch| Box::pin(watch.next()))).await.0
    }
}
