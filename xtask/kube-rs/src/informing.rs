//! Watchers and reflectors, over cut connections and from replica to replica.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use futures::future::LocalBoxFuture;
use futures::{FutureExt, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector};

use crate::world::{World, map, until};

pub(crate) type Check = (&'static str, fn(World) -> LocalBoxFuture<'static, Result<String>>);

pub(crate) const CHECKS: &[Check] = &[
    ("reflector: a list in pages and a watch follow over cuts and replicas", |world| {
        followed(world, watcher::Config::default().page_size(7)).boxed_local()
    }),
    ("reflector: a watch that begins with what there is follows over cuts and replicas", |world| {
        followed(world, watcher::Config::default().streaming_lists()).boxed_local()
    }),
    ("watcher: metadata alone, selected by label", |world| metadata(world).boxed_local()),
];

const WRITES: usize = 300;
const NAMES: usize = 25;
const CUT_EVERY: usize = 25;

async fn followed(world: World, config: watcher::Config) -> Result<String> {
    for name in 0..NAMES {
        world.maps().create(&PostParams::default(), &map(&format!("n{name}"), "first")).await?;
    }
    let (reader, writer) = reflector::store::<ConfigMap>();
    let stream = kube::runtime::watcher(world.maps(), config).default_backoff().reflect(writer);
    let following = tokio::spawn(async move {
        pin_mut!(stream);
        let (mut told, mut starts, mut last) = (0, 0, BTreeMap::<String, u64>::new());
        while let Some(event) = stream.next().await {
            match event {
                // The wire was cut; it goes on by itself.
                Err(_) => {}
                Ok(Event::Init) => starts += 1,
                Ok(Event::InitDone) => {}
                Ok(Event::InitApply(object) | Event::Apply(object) | Event::Delete(object)) => {
                    told += 1;
                    let revision = object.resource_version().and_then(|text| text.parse().ok()).unwrap_or(0);
                    let before = last.insert(object.name_any(), revision);
                    if before.is_some_and(|before| before > revision) {
                        bail!("{} went from {before:?} to {revision}", object.name_any());
                    }
                    if object.name_any() == "the-end" {
                        return Ok((told, starts));
                    }
                }
            }
        }
        bail!("the stream ended")
    });
    reader.wait_until_ready().await?;
    write(&world).await?;
    world.maps().create(&PostParams::default(), &map("the-end", "")).await?;
    let (told, starts) = following.await??;
    let listed = world.maps().list(&ListParams::default()).await?;
    let listed: BTreeMap<_, _> = listed.iter().map(|object| (object.name_any(), object.resource_version())).collect();
    let state = reader.state();
    let cached: BTreeMap<_, _> = state.iter().map(|object| (object.name_any(), object.resource_version())).collect();
    ensure!(listed == cached, "listed: {listed:?}\ncached: {cached:?}");
    Ok(format!("{told} events, {starts} lists"))
}

/// Updates, deletes and creates on all replicas, with the wire cut and led elsewhere.
async fn write(world: &World) -> Result<()> {
    for number in 0..WRITES {
        let maps = world.maps_on(number);
        // Seven and 25 have no common part, so every name comes up.
        let name = format!("n{}", number * 7 % NAMES);
        match maps.get_opt(&name).await? {
            Some(_) if number % 5 == 0 => drop(maps.delete(&name, &DeleteParams::default()).await?),
            Some(mut object) => {
                object.data = map("", &number.to_string()).data;
                maps.replace(&name, &PostParams::default(), &object).await?;
            }
            None => drop(maps.create(&PostParams::default(), &map(&name, &number.to_string())).await?),
        }
        if number % CUT_EVERY == CUT_EVERY - 1 {
            world.host.ask(if number / CUT_EVERY % 2 == 0 { "cut" } else { "switch" }).await?;
        }
    }
    Ok(())
}

async fn metadata(world: World) -> Result<String> {
    let labelled = |name: &str, side: &str| {
        let mut object = map(name, "");
        object.metadata.labels = Some([("side".to_owned(), side.to_owned())].into());
        object
    };
    let maps = world.maps();
    maps.create(&PostParams::default(), &labelled("a", "left")).await?;
    maps.create(&PostParams::default(), &labelled("b", "right")).await?;
    let alone: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(world.wired.clone(), &world.namespace);
    let selected = watcher::Config::default().labels("side=left");
    let stream = kube::runtime::watcher(alone, selected).default_backoff();
    pin_mut!(stream);
    let mut heard = Vec::new();
    let mut turned = false;
    while let Some(event) = stream.next().await {
        heard.push(match event? {
            Event::Init => "init".to_owned(),
            Event::InitDone => "done".to_owned(),
            Event::InitApply(object) => format!("had {}", object.name_any()),
            Event::Apply(object) => format!("got {}", object.name_any()),
            Event::Delete(object) => format!("lost {}", object.name_any()),
        });
        if heard.last().is_some_and(|last| last == "done") && !turned {
            turned = true;
            for (name, side) in [("b", "left"), ("a", "right")] {
                maps.replace(name, &PostParams::default(), &labelled(name, side)).await?;
            }
        }
        if heard.last().is_some_and(|last| last.starts_with("lost")) {
            break;
        }
    }
    let expected = ["init", "had a", "done", "got b", "lost a"];
    ensure!(heard == expected, "heard {heard:?}");
    until(async || maps.get_opt("a").await.is_ok_and(|found| found.is_some())).await;
    maps.get_metadata("a").await.context("metadata alone").map(|_| String::new())
}
