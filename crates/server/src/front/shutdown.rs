//! How the end is announced: once to everybody, in two steps.

use tokio::sync::watch;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// There is none in sight.
    Serving,
    /// No new connections or requests; those that are there come to their end.
    Draining,
    /// What is still there is cut off.
    Cut,
}

/// Begins the shutdown. When the last one is dropped, the shutdown begins too.
#[derive(Clone, Debug)]
pub struct Trigger(watch::Sender<Phase>);

/// Tells when the shutdown begins. Handlers end their watches then, and readiness turns to no.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

impl Default for Trigger {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }
}

impl Trigger {
    /// What this triggers.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }

    /// Begins the shutdown.
    pub fn begin(&self) {
        self.reach(Phase::Draining);
    }

    /// Cuts off what is left.
    pub(super) fn cut(&self) {
        self.reach(Phase::Cut);
    }

    fn reach(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let further = *now < phase;
            *now = phase.max(*now);
            further
        });
    }
}

impl Shutdown {
    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() > Phase::Serving || self.0.has_changed().is_err()
    }

    /// Waits until it begins.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reached(Phase::Draining)
    }

    /// Waits until what is left is to be cut off.
    pub(super) fn cut(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reached(Phase::Cut)
    }

    fn reached(&self, phase: Phase) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.clone();
        async move {
            // A trigger that is gone can announce nothing any more: that is the end as well.
            let _ = receiver.wait_for(|now| *now >= phase).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_reaches_everybody_before_and_after() {
        let trigger = Trigger::default();
        let early = trigger.shutdown();
        let waiting = tokio::spawn(early.begun());
        assert!(!early.has_begun());
        trigger.begin();
        waiting.await.unwrap();
        let late = early.clone();
        late.begun().await;
        assert!(late.has_begun());
    }

    #[tokio::test]
    async fn the_cut_comes_after_the_beginning_and_stays() {
        let trigger = Trigger::default();
        let shutdown = trigger.shutdown();
        trigger.cut();
        trigger.begin();
        shutdown.begun().await;
        shutdown.cut().await;
    }

    #[tokio::test]
    async fn a_trigger_that_is_gone_is_a_beginning() {
        let trigger = Trigger::default();
        let shutdown = trigger.shutdown();
        drop(trigger);
        shutdown.begun().await;
        assert!(shutdown.has_begun());
    }
}
