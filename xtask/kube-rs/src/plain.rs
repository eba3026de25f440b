//! What needs no stream: paging, server-side apply, errors.

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::informing::Check;
use crate::world::{World, code, map};

pub(crate) const CHECKS: &[Check] = &[
    ("paging: pages are of one revision, whichever replica gives them", |world| paging(world).boxed_local()),
    ("apply: server-side, its conflicts, and what is withdrawn", |world| apply(world).boxed_local()),
    ("errors: each kind of refusal is known by its code and reason", |world| errors(world).boxed_local()),
];

async fn paging(world: World) -> Result<String> {
    for number in 0..25 {
        world.maps().create(&PostParams::default(), &map(&format!("a{number:02}"), "")).await?;
    }
    let (mut page, mut names, mut revision) = (ListParams::default().limit(10), Vec::new(), None);
    for number in 0.. {
        let list = world.maps_on(number).list(&page).await?;
        let at = list.metadata.resource_version.clone().context("a list without a revision")?;
        ensure!(*revision.get_or_insert_with(|| at.clone()) == at, "page {number} is of another revision");
        names.extend(list.items.iter().map(ResourceExt::name_any));
        world.maps_on(number).create(&PostParams::default(), &map(&format!("a{number:02}-later"), "")).await?;
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let expected: Vec<_> = (0..25).map(|number| format!("a{number:02}")).collect();
    ensure!(names == expected, "{names:?}");
    Ok(String::new())
}

async fn apply(world: World) -> Result<String> {
    let maps = world.maps();
    let applied = |data: serde_json::Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let (mine, theirs) = (PatchParams::apply("mine"), PatchParams::apply("theirs"));
    let first = maps.patch("a", &mine, &Patch::Apply(applied(json!({"x": "1", "y": "1"})))).await?;
    let again = maps.patch("a", &mine, &Patch::Apply(applied(json!({"x": "1", "y": "1"})))).await?;
    ensure!(first.resource_version() == again.resource_version(), "the same again is a new revision");
    let other = Patch::Apply(applied(json!({"x": "2"})));
    let refused = code(maps.patch("a", &theirs, &other).await)?;
    ensure!(refused == (409, "Conflict".to_owned()), "{refused:?}");
    maps.patch("a", &theirs.force(), &other).await?;
    let left = maps.patch("a", &mine, &Patch::Apply(applied(json!({})))).await?;
    ensure!(left.data == Some([("x".to_owned(), "2".to_owned())].into()), "{:?}", left.data);
    Ok(String::new())
}

async fn errors(world: World) -> Result<String> {
    let maps = world.maps();
    let created = maps.create(&PostParams::default(), &map("there", "one")).await?;
    ensure!(maps.get_opt("nowhere").await?.is_none(), "something is nowhere");
    let mut stale = created.clone();
    stale.data = map("", "two").data;
    maps.replace("there", &PostParams::default(), &stale).await?;
    stale.data = map("", "three").data;
    let condition = Preconditions { uid: Some("another".to_owned()), ..Preconditions::default() };
    let doomed = kube::api::DeleteParams { preconditions: Some(condition), ..Default::default() };
    let broken: Patch<ConfigMap> = Patch::Merge(map("another-name", ""));
    let came = [
        ("absent", code(maps.get("nowhere").await)?, (404, "NotFound")),
        ("twice", code(maps.create(&PostParams::default(), &map("there", "")).await)?, (409, "AlreadyExists")),
        ("stale", code(maps.replace("there", &PostParams::default(), &stale).await)?, (409, "Conflict")),
        ("invalid", code(maps.create(&PostParams::default(), &map("Not a name", "")).await)?, (422, "Invalid")),
        ("precondition", code(maps.delete("there", &doomed).await)?, (409, "Conflict")),
        ("another name", code(maps.patch("there", &PatchParams::default(), &broken).await)?, (400, "BadRequest")),
        ("selector", code(maps.list(&ListParams::default().fields("data.a=1")).await)?, (400, "BadRequest")),
    ];
    for (what, came, expected) in came {
        ensure!(came == (expected.0, expected.1.to_owned()), "{what}: {came:?}");
    }
    Ok(String::new())
}
