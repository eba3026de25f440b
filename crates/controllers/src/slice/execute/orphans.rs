//! Entries of pods that are gone: looks for the pods, and takes the entries out.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::Value;
use tracing::{info, warn};

use super::wire::{self, PodName};
use crate::follow::list;
use crate::slice::orphans::Orphan;
use crate::slice::shared::PodEntry;
use crate::writer::{Anything, Refused, Writer};

/// Those of the pods that are there, or nothing if they could not be listed.
pub(super) async fn find(client: &Client, wanted: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    match list::<PodName>(client, wire::PODS).await {
        Ok((pods, _)) => Some(pods.into_iter().filter(|pod| wanted.contains(pod)).collect()),
        Err(error) => {
            warn!(%error, "the pods could not be listed");
            None
        }
    }
}

/// Whether a pod is there, whatever becomes of it; nothing if nobody knows.
pub(super) async fn is_there(client: &Client, podref: &str) -> Option<bool> {
    match list::<PodName>(client, &wire::pod(podref)).await {
        Ok((pods, _)) => Some(!pods.is_empty()),
        Err(error) => {
            warn!(%error, podref, "a pod could not be looked for");
            None
        }
    }
}

/// Takes an entry out, and before it the reservation of its address: as long as the entry is there, it tells that something is left.
/// Whether it was taken out.
pub(super) async fn take_out(writer: &Writer, namespace: &str, orphan: &Orphan) -> bool {
    let Orphan { pool, entry: PodEntry { address, podref, .. }, .. } = orphan;
    let taken = match unreserve(writer, namespace, orphan).await {
        Ok(()) => writer.ask::<Anything>(wire::take_out(namespace, orphan)).await.map_err(said),
        Err(why) => Err(why),
    };
    match taken {
        Ok(_) => info!(pool, %address, podref, "an entry of a pod that is gone was taken out"),
        Err(ref why) => warn!(why, pool, %address, podref, "an entry of a pod that is gone was not taken out"),
    }
    taken.is_ok()
}

/// Deletes the reservation of an entry's address, if it is of the entry's container or names none, as those of whereabouts.
async fn unreserve(writer: &Writer, namespace: &str, orphan: &Orphan) -> Result<(), String> {
    let path = wire::reservation(namespace, orphan);
    let found = writer.look(&path).await.map_err(|error| error.to_string())?;
    let Some(reservation) = found.filter(|one| is_of(one, &orphan.entry)) else { return Ok(()) };
    match writer.ask::<Anything>(wire::unreserve_one(path, &reservation)).await {
        Ok(_) | Err(Refused::Gone) => Ok(()),
        Err(refused) => Err(said(refused)),
    }
}

fn is_of(reservation: &Value, entry: &PodEntry) -> bool {
    let text = |key: &str| reservation["spec"][key].as_str().unwrap_or_default();
    text("podref") == entry.podref && (text("containerid") == entry.id || text("containerid").is_empty())
}

fn said(refused: Refused) -> String {
    match refused {
        Refused::Gone => "it is not there".to_owned(),
        Refused::Conflict(why) | Refused::Failed(why) => why,
    }
}
