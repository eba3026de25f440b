//! The conformance suite: what every backend promises, as cases that anybody can run against a store.
//!
//! A case is given a [`Ground`], on which it opens a store that nobody else uses, and says what it found wrong. `cargo test`
//! runs the suite on the embedded backend; the end-to-end task runs the same on a real etcd.

mod ranges;
mod restarts;
mod traffic;
mod transactions;
mod watches;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Compare, Entry, Event, Outcome, Revision, Store, Txn, Watch, Write};

/// How long a case waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a case found: nothing wrong, or what.
pub type Verdict = Result<(), String>;

/// A future as the suite passes it around.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a case works.
pub trait Ground: Send + Sync {
    /// Opens the store of this ground; again after it was closed. The first time it is empty.
    fn open(&self) -> Answer<'_, Result<Store, String>>;
}

/// One promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    /// Finds out whether it is kept.
    pub run: for<'a> fn(&'a dyn Ground) -> Answer<'a, Verdict>,
}

/// Says what is wrong if something is.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}
use ensure;

/// Lists functions as cases under their own names.
macro_rules! cases {
    ($($module:ident: $($name:ident)+;)+) => {
        /// The suite.
        pub const CASES: &[Case] = &[$($(
            Case { name: stringify!($name), run: |ground| Box::pin($module::$name(ground)) },
        )+)+];

        #[cfg(test)]
        mod on_embedded {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    let ground = super::embedded_ground::Embedded::default();
                    super::$module::$name(&ground).await.unwrap();
                }
            )+)+
        }
    };
}

cases! {
    transactions:
        a_put_is_read_back_with_its_revision_in_it
        a_lost_compare_changes_nothing
        a_transaction_happens_at_one_revision
        what_changes_nothing_takes_no_revision
        a_delete_answers_with_the_last_state
        an_object_made_again_is_a_new_one
        one_of_many_creates_wins
        no_increment_is_lost
        what_is_malformed_is_refused
        what_was_answered_can_be_read;
    ranges:
        a_range_shows_one_revision
        pages_join_to_the_whole
        a_prefix_covers_whole_segments
        compaction_forgets_the_past_and_nothing_else
        the_future_cannot_be_read;
    watches:
        ordered
        unique
        atomic
        reliable
        resumable
        bookmarkable
        a_watch_sees_only_its_prefix
        an_event_tells_what_was_before
        a_watch_cannot_start_in_a_compacted_past;
    restarts:
        a_restart_keeps_what_was_acknowledged
        a_watch_goes_on_after_a_restart_or_says_that_it_cannot
        a_closed_store_ends_its_watches_and_refuses_writes;
}

fn put(key: &str, value: impl Into<Bytes>) -> Write {
    Write::Put { key: key.into(), value: value.into() }
}

fn delete(key: &str) -> Write {
    Write::Delete { key: key.into() }
}

/// An object as the server would encode it.
fn object(text: &str) -> String {
    format!(r#"{{"metadata":{{"resourceVersion":""}},"text":"{text}"}}"#)
}

/// The same as it is read.
fn stamped(text: &str, revision: Revision) -> String {
    format!(r#"{{"metadata":{{"resourceVersion":"{revision}"}},"text":"{text}"}}"#)
}

type Entries = Vec<Option<Arc<Entry>>>;

/// Writes without a condition.
async fn write(store: &Store, writes: Vec<Write>) -> Result<(Revision, Entries), String> {
    match store.txn(Txn { compares: Vec::new(), writes }).await {
        Ok(Outcome::Committed { revision, entries }) => Ok((revision, entries)),
        other => Err(format!("a write without a condition came to {other:?}")),
    }
}

/// Writes if all compares hold; `None` if they did not.
async fn write_if(store: &Store, compares: Vec<Compare>, writes: Vec<Write>) -> Result<Option<Revision>, String> {
    match store.txn(Txn { compares, writes }).await {
        Ok(Outcome::Committed { revision, .. }) => Ok(Some(revision)),
        Ok(Outcome::Refused { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The next events of a watch, which must come.
async fn next(watch: &mut Watch) -> Result<Vec<Arc<Event>>, String> {
    match tokio::time::timeout(PATIENCE, watch.next()).await {
        Ok(Ok(events)) if events.is_empty() => Err("a watch handed out nothing".to_owned()),
        Ok(Ok(events)) => Ok(events),
        Ok(Err(ended)) => Err(format!("the watch ended: {ended}")),
        Err(_) => Err("the watch had nothing for too long".to_owned()),
    }
}

#[cfg(test)]
mod embedded_ground {
    use tempfile::TempDir;

    use super::{Answer, Ground, Store};

    pub(super) struct Embedded(TempDir);

    impl Default for Embedded {
        fn default() -> Self {
            Self(TempDir::new().unwrap())
        }
    }

    impl Ground for Embedded {
        fn open(&self) -> Answer<'_, Result<Store, String>> {
            let opened = Store::open(self.0.path(), crate::embedded::Options::default());
            Box::pin(std::future::ready(opened.map_err(|error| error.to_string())))
        }
    }
}
