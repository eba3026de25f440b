//! What the clients did and saw, as plain facts: the traffic writes them down, the checks read them.
//!
//! One writer owns an object and changes it only where it is as the writer knows it, so the history of an object is a chain:
//! each write names the revision that it builds on.

use std::time::Instant;

use super::client::Promise;

/// A revision of the server: what `resourceVersion` says.
pub(super) type Revision = u64;

/// Which write made a state: every write of a run has its own number.
pub(super) type Mark = u64;

/// What a writer did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Create,
    Update,
    Delete,
}

/// How a write ended, as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server said that it is done; for all but deletions, also at which revision.
    Done(Option<Revision>),
    /// Nobody said: it may have happened, or not.
    Unknown,
    /// It was refused, with this status, and did not happen.
    Refused(u16),
}

impl Fate {
    /// What became of a write that was answered with that status, which does not say that it was done.
    pub(super) fn answered(promise: Promise, status: u16) -> Self {
        match (promise, status) {
            (_, ..500) | (Promise::Ours, 503) => Self::Refused(status),
            _ => Self::Unknown,
        }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) object: String,
    pub(super) act: Act,
    pub(super) mark: Mark,
    /// The revision that it builds on; none for a creation.
    pub(super) base: Option<Revision>,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) fate: Fate,
}

/// What an object looked like: its revision and the write that made it; none if it was not there.
pub(super) type State = Option<(Revision, Mark)>;

/// One read of one object.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) object: String,
    pub(super) began: Instant,
    pub(super) state: State,
}

/// What a watch said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Modified,
    Deleted,
}

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Event {
        change: Change,
        object: String,
        revision: Revision,
        mark: Mark,
    },
    /// A bookmark: everything up to here was said.
    Bookmark(Revision),
}

/// What one watcher saw from the beginning to the end of a run, and how often it had to connect again.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    pub(super) seen: Vec<Seen>,
    pub(super) resumed: usize,
    /// How often that was because the server had ended the watch in order.
    pub(super) ended: usize,
    /// Why it could not go on, if it could not.
    pub(super) broken: Option<String>,
}

/// A list of everything: its revision, and the state of each object.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) revision: Revision,
    pub(super) objects: Vec<(String, Revision, Mark)>,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) writes: Vec<Write>,
    pub(super) looks: Vec<Look>,
    pub(super) watchers: Vec<Watched>,
    /// The state at the end, when nobody wrote any more.
    pub(super) end: Listed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_server_promises_with_503_that_nothing_was_done() {
        assert_eq!(Fate::answered(Promise::Ours, 503), Fate::Refused(503));
        assert_eq!(Fate::answered(Promise::Control, 503), Fate::Unknown);
        for promise in [Promise::Ours, Promise::Control] {
            assert_eq!(Fate::answered(promise, 409), Fate::Refused(409));
            assert_eq!((Fate::answered(promise, 500), Fate::answered(promise, 504)), (Fate::Unknown, Fate::Unknown));
        }
    }
}
