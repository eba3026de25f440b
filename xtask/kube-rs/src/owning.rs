//! A controller that looks after what it owns, and a lease that one holds at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::{Controller, watcher};
use kube::{Resource, ResourceExt};

use crate::informing::Check;
use crate::world::{World, map, until};

pub(crate) const CHECKS: &[Check] = &[
    ("controller: what it owns is as it should be, over cuts and replicas", |world| controller(world).boxed_local()),
    ("lease: by compare and swap, one holds it at a time on all replicas", |world| lease(world).boxed_local()),
];

const PARENTS: usize = 12;
const TURNS: usize = 15;
const FINALIZER: &str = "example.com/kept";

struct Context {
    maps: Api<ConfigMap>,
    cleaned: AtomicUsize,
}

/// Each parent has a child of its own with the same data; and is cleaned up after before it goes.
async fn controller(world: World) -> Result<String> {
    let parents = || watcher::Config::default().labels("role=parent");
    let context = Arc::new(Context { maps: world.maps(), cleaned: AtomicUsize::new(0) });
    let running = Controller::new(world.maps(), parents())
        .owns(world.maps(), watcher::Config::default().labels("role=child"))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), context.clone());
    let reconciled = Arc::new(AtomicUsize::new(0));
    let counted = reconciled.clone();
    let running = tokio::spawn(running.for_each(move |came| {
        counted.fetch_add(usize::from(came.is_ok()), Ordering::Relaxed);
        std::future::ready(())
    }));
    let labelled = |name: &str, value: &str| {
        let mut object = map(name, value);
        object.metadata.labels = Some([("role".to_owned(), "parent".to_owned())].into());
        object
    };
    for number in 0..PARENTS {
        let object = labelled(&format!("p{number}"), "one");
        world.maps_on(number).create(&PostParams::default(), &object).await?;
        world.host.ask(if number % 2 == 0 { "cut" } else { "switch" }).await?;
    }
    settled(&world, "one").await;
    for number in 0..PARENTS {
        let maps = world.maps_on(number);
        let mut object = maps.get(&format!("p{number}")).await?;
        object.data = map("", "two").data;
        // The controller may have added its finalizer meanwhile.
        object.metadata.resource_version = None;
        maps.replace(&format!("p{number}"), &PostParams::default(), &object).await?;
        if number % 3 == 0 {
            maps.delete(&format!("p{number}-child"), &DeleteParams::default()).await?;
            world.host.ask("cut").await?;
        }
    }
    settled(&world, "two").await;
    let all = ListParams::default().labels("role=parent");
    world.maps().delete_collection(&DeleteParams::default(), &all).await?;
    until(async || world.maps().list(&all).await.is_ok_and(|list| list.items.is_empty())).await;
    running.abort();
    let cleaned = context.cleaned.load(Ordering::Relaxed);
    ensure!(cleaned >= PARENTS, "only {cleaned} were cleaned up after");
    Ok(format!("{} reconciled, {cleaned} cleaned up after", reconciled.load(Ordering::Relaxed)))
}

/// Waits until each parent has a child with that value.
async fn settled(world: &World, value: &str) {
    let children = ListParams::default().labels("role=child");
    until(async || {
        let Ok(list) = world.maps().list(&children).await else { return false };
        let right = list.items.iter().filter(|child| child.data == map("", value).data);
        right.count() == PARENTS
    })
    .await;
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

async fn reconcile(parent: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failed> {
    let done = finalizer(&context.maps, FINALIZER, parent, |event| look_after(event, context.clone()));
    done.await.map_err(|why| Failed(why.to_string()))
}

async fn look_after(event: Event<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let maps = &context.maps;
    match event {
        Event::Apply(parent) => {
            let name = format!("{}-child", parent.name_any());
            let mut child = map(&name, "");
            child.data.clone_from(&parent.data);
            child.metadata.labels = Some([("role".to_owned(), "child".to_owned())].into());
            child.metadata.owner_references = parent.controller_owner_ref(&()).map(|owner| vec![owner]);
            match maps.get_opt(&name).await? {
                None => drop(maps.create(&PostParams::default(), &child).await?),
                Some(there) if there.data == child.data => {}
                Some(there) => {
                    child.metadata.resource_version = there.resource_version();
                    maps.replace(&name, &PostParams::default(), &child).await?;
                }
            }
        }
        Event::Cleanup(_) => drop(context.cleaned.fetch_add(1, Ordering::Relaxed)),
    }
    Ok(Action::await_change())
}

/// Two take turns: whoever finds the lease free takes it, on top of what was read.
async fn lease(world: World) -> Result<String> {
    let api = |replica: usize| -> Api<Lease> {
        Api::namespaced(world.direct[replica % world.direct.len()].clone(), &world.namespace)
    };
    let empty = Lease {
        metadata: ObjectMeta { name: Some("seat".to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec { lease_transitions: Some(0), ..LeaseSpec::default() }),
    };
    api(0).create(&PostParams::default(), &empty).await?;
    let holders = Arc::new(AtomicUsize::new(0));
    let candidates = (0..2).map(|number| {
        let (leases, holders) = (api(number), holders.clone());
        tokio::spawn(async move {
            let (mut turns, mut lost) = (0, 0);
            while turns < TURNS {
                let mut seat = leases.get("seat").await?;
                let spec = seat.spec.get_or_insert_default();
                if spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty()) {
                    tokio::task::yield_now().await;
                    continue;
                }
                spec.holder_identity = Some(number.to_string());
                spec.lease_transitions = spec.lease_transitions.map(|count| count + 1);
                let held = match leases.replace("seat", &PostParams::default(), &seat).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        lost += 1;
                        continue;
                    }
                    came => came?,
                };
                ensure!(holders.fetch_add(1, Ordering::SeqCst) == 0, "two hold the lease");
                turns += 1;
                tokio::task::yield_now().await;
                holders.fetch_sub(1, Ordering::SeqCst);
                let mut free = held;
                free.spec.get_or_insert_default().holder_identity = None;
                leases.replace("seat", &PostParams::default(), &free).await?;
            }
            Ok::<_, anyhow::Error>(lost)
        })
    });
    let mut lost = 0;
    for candidate in candidates.collect::<Vec<_>>() {
        lost += candidate.await??;
    }
    let turns = api(1).get("seat").await?.spec.and_then(|spec| spec.lease_transitions);
    ensure!(turns == i32::try_from(2 * TURNS).ok(), "{turns:?} turns");
    Ok(format!("{lost} came second"))
}
