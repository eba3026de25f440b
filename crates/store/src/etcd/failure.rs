//! What went wrong with a call to etcd, and what follows from it: whether it can have been carried out, and whether trying
//! again can help.

use tonic::{Code, Status};

use super::options::innermost;

/// A call that was not answered, or answered with an error.
#[derive(Debug)]
pub(super) struct Failure {
    /// Which member was asked.
    pub(super) member: String,
    pub(super) status: Status,
    /// Whether the message was handed to a connection.
    pub(super) sent: bool,
}

/// What a failure means to whoever made the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It was not carried out; the next attempt may be.
    Later,
    /// It may have been carried out.
    Unsure,
    /// It was not carried out: the revision is older than what is left of the history.
    Compacted,
    /// It was not carried out: the revision is yet to come.
    Future,
    /// It was not carried out: it is larger than etcd takes.
    TooLarge,
    /// It was not carried out: the database has reached its quota.
    Full,
    /// It was not carried out, and will not be for a reason that the text says.
    Refused,
}

impl Failure {
    pub(super) fn meaning(&self) -> Meaning {
        let text = self.status.message();
        if !self.sent {
            return Meaning::Later;
        }
        // A limit of the transport below etcd, which refuses before etcd sees the request.
        if text.starts_with("grpc: received message larger than max") {
            return Meaning::TooLarge;
        }
        // Only what etcd says itself is known to be about the request: the same codes are also used for connections that
        // broke and answers that could not be read.
        let Some(said) = text.strip_prefix("etcdserver: ") else {
            return if self.status.code() == Code::Unimplemented { Meaning::Refused } else { Meaning::Unsure };
        };
        match (self.status.code(), said) {
            // This member cannot, or not now; another may, or this one later.
            (Code::Unavailable, "no leader")
            | (Code::ResourceExhausted, "too many requests")
            | (Code::FailedPrecondition, "rpc not supported for learner") => Meaning::Later,
            (Code::OutOfRange, "mvcc: required revision has been compacted") => Meaning::Compacted,
            (Code::OutOfRange, "mvcc: required revision is a future revision") => Meaning::Future,
            (Code::InvalidArgument, "request is too large" | "too many operations in txn request") => Meaning::TooLarge,
            (Code::ResourceExhausted, "mvcc: database space exceeded") => Meaning::Full,
            (
                Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::ResourceExhausted
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::NotFound,
                _,
            ) => Meaning::Refused,
            _ => Meaning::Unsure,
        }
    }

    /// Whether the call may be made again, when making it twice does no harm (`repeatable`) or does.
    pub(super) fn may_repeat(&self, repeatable: bool) -> bool {
        match self.meaning() {
            Meaning::Later => true,
            Meaning::Unsure => repeatable,
            Meaning::Compacted | Meaning::Future | Meaning::TooLarge | Meaning::Full | Meaning::Refused => false,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "etcd at {}: {}", self.member, self.status.message())?;
        // What tonic says of a connection is only that there was a failure; the reason is at the end of the chain.
        match std::error::Error::source(&self.status) {
            Some(source) => write!(formatter, ": {}", innermost(source)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: Code, text: &str) -> Meaning {
        Failure { member: "m".to_owned(), status: Status::new(code, text), sent: true }.meaning()
    }

    #[test]
    fn what_was_never_sent_was_never_done() {
        let failure = Failure { member: "m".to_owned(), status: Status::deadline_exceeded("no answer"), sent: false };
        assert_eq!(failure.meaning(), Meaning::Later);
        assert!(failure.may_repeat(false));
    }

    #[test]
    fn only_what_etcd_says_of_the_request_is_certain() {
        for (code, text) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unknown, "etcdserver: something new"),
            (Code::Cancelled, "h2 protocol error"),
            (Code::ResourceExhausted, "h2 protocol error: too many resets"),
            (Code::OutOfRange, "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes"),
            (Code::DeadlineExceeded, "no answer within 10 s"),
        ] {
            assert_eq!(meaning(code, text), Meaning::Unsure, "{text}");
        }
    }

    #[test]
    fn a_refusal_is_known_by_its_reason() {
        for (code, text, expected) in [
            (Code::Unavailable, "etcdserver: no leader", Meaning::Later),
            (Code::ResourceExhausted, "etcdserver: too many requests", Meaning::Later),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", Meaning::Compacted),
            (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision", Meaning::Future),
            (Code::InvalidArgument, "etcdserver: request is too large", Meaning::TooLarge),
            (Code::ResourceExhausted, "grpc: received message larger than max (9 vs. 8)", Meaning::TooLarge),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Meaning::Full),
            (Code::PermissionDenied, "etcdserver: permission denied", Meaning::Refused),
            (Code::InvalidArgument, "etcdserver: user name is empty", Meaning::Refused),
        ] {
            assert_eq!(meaning(code, text), expected, "{text}");
        }
    }

    #[test]
    fn a_write_is_repeated_only_if_it_was_certainly_not_done() {
        let failed = |text| Failure { member: "m".to_owned(), status: Status::unavailable(text), sent: true };
        assert!(failed("etcdserver: no leader").may_repeat(false));
        assert!(!failed("etcdserver: request timed out").may_repeat(false));
        assert!(failed("etcdserver: request timed out").may_repeat(true), "reading twice does no harm");
    }
}
