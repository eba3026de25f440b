//! Events of the node, written one after the other. They are for people: what they tell of is in the log and the metrics as well, so one
//! that cannot be written is tried for a while, and then left.

use std::time::Duration;

use controllers::writer::{Anything, Refused, Writer};
use jiff::Timestamp;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tracing::warn;

use super::wire;
use crate::network::Cause;

/// After so long one is tried again. Others wait meanwhile, so it is not for long.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];

/// Writes what is told, each with the UID of the node.
pub(super) async fn write(writer: Writer, node: String, mut told: Receiver<(Cause, String)>) {
    while let Some((cause, uid)) = told.recv().await {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let Some(why) = insist(|| writer.ask(wire::tell(&cause, &node, &uid, &time))).await {
            warn!(why, reason = cause.reason, "an event could not be written");
        }
    }
}

/// Asks until it is no use any more; why, if it was none. An event that is there already was told before.
async fn insist<F: Future<Output = Result<Anything, Refused>>>(mut ask: impl FnMut() -> F) -> Option<String> {
    let mut pauses = PAUSES.iter();
    loop {
        match ask().await {
            Ok(_) | Err(Refused::Conflict(_)) => return None,
            Err(Refused::Gone) => return Some("the namespace is not there".to_owned()),
            Err(Refused::Failed(why)) => match pauses.next() {
                Some(pause) => sleep(*pause).await,
                None => return Some(why),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it is asked, and what comes of it, if the answers are these and the last one again and again.
    async fn tries(answers: &[fn() -> Result<Anything, Refused>]) -> (usize, Option<String>) {
        let mut count = 0;
        let why = insist(|| {
            let answer = answers[count.min(answers.len() - 1)]();
            count += 1;
            async { answer }
        });
        let why = why.await;
        (count, why)
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_could_not_be_written_is_tried_again_and_not_for_ever() {
        let failed = || Err(Refused::Failed("away".to_owned()));
        let there = || Err(Refused::Conflict("it is there".to_owned()));
        let written = || Ok(Anything {});
        assert_eq!(tries(&[written]).await, (1, None));
        assert_eq!(tries(&[there]).await, (1, None));
        assert_eq!(tries(&[failed, failed, written]).await, (3, None));
        assert_eq!(tries(&[failed]).await, (1 + PAUSES.len(), Some("away".to_owned())));
    }
}
