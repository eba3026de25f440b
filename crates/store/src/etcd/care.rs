//! What has to be done for a store on etcd from time to time: forgetting old history, here and there, and looking after the
//! health of the member that is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::failure::Meaning;
use super::txn::remote;
use super::version::keeps_its_promises;
use super::wire::CompactRequest;
use super::{ConnectError, Shared};
use crate::retention::{Ageing, Retention};
use crate::types::Revision;

/// How often there is a look at what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a member is asked how it is.
const EXAMINE_EVERY: Duration = Duration::from_secs(10);

/// Takes care until it is dropped.
pub(super) async fn care(shared: Arc<Shared>, retention: Retention, compact_every: Option<Duration>) {
    let mut ageing = Ageing::new(retention);
    let mut examine_at = Instant::now();
    // What was the newest revision at the last look is old at the next.
    let mut compact_at = compact_every.map(|every| (Instant::now() + every, shared.mirror.revision()));
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = look.tick().await;
        if let Some(to) = ageing.due(now.into_std(), &shared.mirror) {
            shared.mirror.compact(to);
        }
        if now >= examine_at {
            examine_at = now + EXAMINE_EVERY;
            examine(&shared).await;
        }
        if let (Some(every), Some((at, old))) = (compact_every, compact_at)
            && now >= at
        {
            compact_at = Some((now + every, shared.mirror.revision()));
            if let Err(why) = compact(&shared, old).await {
                tracing::warn!(
                    why,
                    revision = old.0,
                    "etcd could not be compacted; the next time is in {} s",
                    every.as_secs()
                );
            }
        }
    }
}

/// Has etcd forget its history up to a revision. What others have forgotten already is done.
pub(super) async fn compact(shared: &Shared, to: Revision) -> Result<(), String> {
    match shared.client.compact(CompactRequest { revision: remote(to) }).await {
        Err(failure) if failure.meaning() != Meaning::Compacted => Err(failure.to_string()),
        _ => Ok(()),
    }
}

async fn examine(shared: &Shared) {
    // Whether it has fallen back is found by asking where it is.
    let _ = shared.ask().await;
    // A member that does not answer is noticed by the follower.
    if let Ok(status) = shared.client.status().await {
        shared.figures.size(status.size);
        let trouble = if keeps_its_promises(&status.version) {
            (!status.errors.is_empty()).then(|| format!("etcd says: {}", status.errors.join("; ")))
        } else {
            Some(ConnectError::TooOld(status.version).to_string())
        };
        shared.trouble.alarm(trouble);
    }
}
