//! Calls to a cluster of etcd members: which member is asked, how long it is waited for, and what a failure means.
//!
//! One member is preferred, and all calls and the watch go there until it fails or keeps somebody waiting; then the next
//! one is preferred. So a member that dies costs one failure, and a dead one is not asked again by every call. The client
//! knows the messages and nothing of keys, entries or the mirror.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::{Stream, stream};
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::failure::{Failure, Meaning};
use super::wire::{
    CompactRequest, CompactResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, WatchRequest, WatchResponse,
};

/// How long a connection may take to be made, TLS included.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A member that keeps a small call waiting for longer is no longer preferred; the call itself goes on waiting.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// How long a small call may take in all. etcd itself gives up on a proposal after 7 s with its default settings, and its
/// word on what happened is better than our silence.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a page may take to arrive, and how long it may take with attempts at all members.
const PAGE_WITHIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_mins(1));
/// How long a member may be silent before it is pinged. etcd ends connections that ping more often than every 5 s.
const PING_AFTER: Duration = Duration::from_secs(6);
/// How long the answer to a ping may take before the connection counts as lost.
const PONG_WITHIN: Duration = Duration::from_secs(3);
/// The pause between attempts once every member has failed, at first and at most.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));
/// The largest answer that is read. A page has many values, and what catches a watch up has many events.
const LARGEST_ANSWER: usize = i32::MAX as usize;
/// How many requests may wait to be sent on a stream of watches.
const WATCH_REQUESTS: usize = 16;

/// How a member is asked how it is.
const STATUS: Terms = Terms::question("/etcdserverpb.Maintenance/Status");

/// The members of one cluster.
pub(super) struct Client {
    members: Vec<Member>,
    preferred: watch::Sender<usize>,
}

struct Member {
    address: String,
    /// For calls. Two or four instead of one were measured and made no difference to 64 writers.
    calls: Channel,
    /// For the watch alone, so that a large answer never stands between an event and the mirror.
    watch: Channel,
}

/// Both directions of a stream of watches, and the member at its other end.
pub(super) struct WatchStream {
    pub(super) ask: mpsc::Sender<WatchRequest>,
    pub(super) hear: Streaming<WatchResponse>,
    pub(super) member: usize,
}

/// How a call is made, and what may be done when it fails.
#[derive(Clone, Copy)]
struct Terms {
    path: &'static str,
    /// Whether sending it twice does no harm.
    repeatable: bool,
    /// How long a member may take before another one is preferred.
    suspect: Duration,
    /// How long a member may take before the call is given up there.
    attempt: Duration,
    /// How long the call may take in all.
    total: Duration,
}

impl Terms {
    /// A call that changes something.
    const fn write(path: &'static str, repeatable: bool) -> Self {
        Self { path, repeatable, suspect: SUSPECT_AFTER, attempt: ANSWER_WITHIN, total: ANSWER_WITHIN }
    }

    /// A question with a small answer: a member that is slow with it is better left for another one at once.
    const fn question(path: &'static str) -> Self {
        Self { path, repeatable: true, suspect: SUSPECT_AFTER, attempt: SUSPECT_AFTER, total: ANSWER_WITHIN }
    }

    /// A question with an answer that takes its time to arrive.
    const fn page(path: &'static str) -> Self {
        Self { path, repeatable: true, suspect: ANSWER_WITHIN, attempt: PAGE_WITHIN.0, total: PAGE_WITHIN.1 }
    }
}

impl Client {
    /// A client of the members at these endpoints, each with its address as people know it. Connects to none of them yet.
    pub(super) fn new(endpoints: impl IntoIterator<Item = (String, Endpoint)>) -> Self {
        let members = endpoints.into_iter().map(|(address, endpoint)| Member::new(address, endpoint)).collect();
        Self { members, preferred: watch::Sender::new(0) }
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        self.call(Terms::page("/etcdserverpb.KV/Range"), request).await
    }

    /// A range of which hardly more than the header is wanted.
    pub(super) async fn glance(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        self.call(Terms::question("/etcdserverpb.KV/Range"), request).await
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.call(Terms::write("/etcdserverpb.KV/Txn", false), request).await
    }

    pub(super) async fn compact(&self, request: CompactRequest) -> Result<CompactResponse, Failure> {
        self.call(Terms::write("/etcdserverpb.KV/Compact", true), request).await
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, Failure> {
        self.call(STATUS, StatusRequest {}).await
    }

    /// How this member is. One attempt: no other can answer for it.
    pub(super) async fn status_of(&self, member: usize) -> Result<StatusResponse, Failure> {
        self.attempt(member, STATUS, StatusRequest {}, Instant::now() + STATUS.attempt).await
    }

    /// Opens a stream of watches on the preferred member and says the first thing on it. One attempt: whoever follows has
    /// a reason of its own to try again.
    pub(super) async fn watch(&self, first: WatchRequest) -> Result<WatchStream, Failure> {
        let at = self.preferred();
        let member = &self.members[at];
        let (ask, mut asked) = mpsc::channel(WATCH_REQUESTS);
        // The channel is new and has room.
        let _ = ask.try_send(first);
        let requests = stream::poll_fn(move |context| asked.poll_recv(context));
        let open = async {
            let mut grpc = grpc(member.watch.clone());
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            grpc.streaming(led(Request::new(requests)), path, ProstCodec::default()).await
        };
        let opened = timeout(SUSPECT_AFTER, open).await.unwrap_or_else(|_| Err(silent(SUSPECT_AFTER)));
        match opened {
            Ok(hear) => Ok(WatchStream { ask, hear: hear.into_inner(), member: at }),
            Err(status) => {
                self.leave(at);
                Err(Failure { member: member.address.clone(), status, sent: true })
            }
        }
    }

    /// The member that is asked now.
    pub(super) fn preferred(&self) -> usize {
        *self.preferred.borrow()
    }

    /// Completes when another member than this one is preferred.
    pub(super) async fn left(&self, member: usize) {
        // The sender lives as long as the client, so waiting cannot fail.
        let _ = self.preferred.subscribe().wait_for(|preferred| *preferred != member).await;
    }

    /// Stops preferring this member, unless somebody else did so already or there is no other.
    pub(super) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let moved = self.preferred.send_if_modified(|preferred| {
            let moves = *preferred == member && next != member;
            if moves {
                *preferred = next;
            }
            moves
        });
        if moved {
            tracing::warn!(
                from = self.members[member].address,
                to = self.members[next].address,
                "another etcd member is asked now"
            );
        }
    }

    /// What this member is called.
    pub(super) fn address(&self, member: usize) -> &str {
        &self.members[member].address
    }

    async fn call<Q, A>(&self, terms: Terms, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let deadline = Instant::now() + terms.total;
        let mut pause = PAUSE.0;
        let mut attempts = 0;
        loop {
            let at = self.preferred();
            let failure = match self.attempt(at, terms, request.clone(), deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if matches!(failure.meaning(), Meaning::Later | Meaning::Unsure) {
                self.leave(at);
            }
            if !failure.may_repeat(terms.repeatable) {
                return Err(failure);
            }
            attempts += 1;
            // Each member is tried at once; when all have failed, the cluster gets time to elect.
            if attempts >= self.members.len() {
                if Instant::now() + pause >= deadline {
                    return Err(failure);
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }

    async fn attempt<Q, A>(&self, at: usize, terms: Terms, request: Q, deadline: Instant) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let member = &self.members[at];
        let handover = Arc::new(Handover::default());
        let message = handed_over(handover.clone(), request);
        let call = async {
            let mut grpc = grpc(member.calls.clone());
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_static(terms.path);
            grpc.client_streaming(led(Request::new(message)), path, ProstCodec::default()).await
        };
        let mut call = std::pin::pin!(call);
        let failed = |status| Err(Failure { member: member.address.clone(), status, sent: !handover.give_up() });
        if let Ok(answer) = timeout(terms.suspect, &mut call).await {
            return answer.map(tonic::Response::into_inner).or_else(failed);
        }
        self.leave(at);
        let until = deadline.min(Instant::now() + terms.attempt.saturating_sub(terms.suspect));
        if until <= Instant::now() || handover.give_up() {
            return failed(silent(terms.suspect));
        }
        let answer = timeout_at(until, call).await.unwrap_or_else(|_| Err(silent(terms.attempt)));
        answer.map(tonic::Response::into_inner).or_else(failed)
    }
}

/// What became of a message: a connection takes it to send it on, or the caller gives it up, whoever comes first. One that
/// was given up has certainly not been carried out, and never will be, whatever else went wrong.
#[derive(Debug, Default)]
struct Handover(AtomicU8);

impl Handover {
    const OPEN: u8 = 0;
    const TAKEN: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// Whether the connection may send it.
    fn take(&self) -> bool {
        self.0.compare_exchange(Self::OPEN, Self::TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether it was not sent, and from now on will not be.
    fn give_up(&self) -> bool {
        let given_up = self.0.compare_exchange(Self::OPEN, Self::GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
        given_up != Err(Self::TAKEN)
    }
}

/// The one message of a call, which a connection takes when it is there to send it on; none if it was given up by then.
fn handed_over<Q>(handover: Arc<Handover>, message: Q) -> impl Stream<Item = Q> {
    stream::iter(std::iter::once_with(move || handover.take().then_some(message)).flatten())
}

impl Member {
    fn new(address: String, endpoint: Endpoint) -> Self {
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PONG_WITHIN)
            .tcp_nodelay(true);
        Self { address, calls: endpoint.connect_lazy(), watch: endpoint.connect_lazy() }
    }
}

fn grpc(channel: Channel) -> Grpc<Channel> {
    Grpc::new(channel).max_decoding_message_size(LARGEST_ANSWER)
}

/// The request with the wish that a member which has no leader refuses it. Otherwise it would wait for one and not say
/// whether the request is carried out in the end, and a watch on it would be silent.
fn led<T>(mut request: Request<T>) -> Request<T> {
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

fn silent(within: Duration) -> Status {
    Status::deadline_exceeded(format!("no answer within {} s", within.as_secs()))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_message_that_was_given_up_is_never_sent() {
        let handover = Arc::new(Handover::default());
        let message = handed_over(handover.clone(), "message");
        assert!(handover.give_up());
        assert_eq!(message.collect::<Vec<_>>().await, [""; 0]);
        assert!(handover.give_up(), "and stays so");
    }

    #[tokio::test]
    async fn a_message_that_was_sent_cannot_be_given_up() {
        let handover = Arc::new(Handover::default());
        assert_eq!(handed_over(handover.clone(), "message").collect::<Vec<_>>().await, ["message"]);
        assert!(!handover.give_up());
    }

    #[test]
    fn a_message_is_either_sent_or_given_up_when_both_are_tried_at_once() {
        for _ in 0..1000 {
            let handover = Handover::default();
            let (taken, given_up) = std::thread::scope(|scope| {
                let taken = scope.spawn(|| handover.take());
                let given_up = handover.give_up();
                (taken.join().unwrap(), given_up)
            });
            assert_ne!(taken, given_up);
        }
    }
}
