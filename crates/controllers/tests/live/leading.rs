//! Who of several acts.

use std::time::Duration;

use controllers::election::{Candidate, Election};
use controllers::lead::{Ended, Term, lead};
use serde_json::json;
use tokio::sync::oneshot;

use crate::fixture::Fixture;

/// How often the Lease is looked at. A look and the release of the Lease may also take only so long, and a machine that is busy
/// with its disk can need more than a moment for the write.
const RETRY: Duration = Duration::from_secs(2);

fn election(identity: &str) -> Election {
    let (identity, namespace, name) = (identity.to_owned(), "kube-system".to_owned(), "l".to_owned());
    Election::new(Candidate { identity, namespace, name, lasts: 600_000, deadline: 300_000 })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_acts_and_another_takes_over_when_it_leaves() {
    let fixture = Fixture::new().await;
    let start = |identity: &'static str| {
        let client = fixture.client.clone();
        let ((stop, told), (acts, acting)) = (oneshot::channel::<()>(), oneshot::channel());
        let task = tokio::spawn(async move {
            let stopped = async move { drop(told.await) };
            lead(
                &client,
                election(identity),
                RETRY,
                stopped,
                || {},
                move |mut term: Term| async move {
                    let _ = acts.send(term.holds());
                    term.over().await;
                },
            )
            .await
        });
        (stop, acting, task)
    };
    let (stop_one, one_acts, one) = start("one");
    assert!(one_acts.await.unwrap());
    let (stop_other, mut other_acts, other) = start("other");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let held = fixture.until(lease, "l", |lease| lease["spec"]["renewTime"] != lease["spec"]["acquireTime"]).await;
    assert_eq!((&held["spec"]["holderIdentity"], &held["spec"]["leaseTransitions"]), (&json!("one"), &json!(0)));
    assert!(other_acts.try_recv().is_err(), "two act");
    drop(stop_one);
    assert_eq!(one.await.unwrap(), Ended::Told);
    assert!(other_acts.await.unwrap());
    drop(stop_other);
    assert_eq!(other.await.unwrap(), Ended::Told);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_given_up_when_the_last_write_has_ended_and_not_before() {
    let fixture = Fixture::new().await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let ((stop, told), (starts, begun)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    let ((write, writing), (end, ended)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    let client = fixture.client.clone();
    let task = tokio::spawn(async move {
        let stopped = async move { drop(told.await) };
        let work = move |mut term: Term| async move {
            let _ = starts.send(());
            term.over().await;
            let _ = write.send(());
            let _ = ended.await;
        };
        lead(&client, election("one"), RETRY, stopped, || {}, work).await
    });
    begun.await.unwrap();
    drop(stop);
    writing.await.unwrap();
    assert_eq!(fixture.get(&format!("{lease}/l")).await["spec"]["holderIdentity"], "one");
    drop(end);
    assert_eq!(task.await.unwrap(), Ended::Told);
    assert_eq!(fixture.get(&format!("{lease}/l")).await["spec"]["holderIdentity"], "");
}
