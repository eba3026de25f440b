//! Entries of pods that are gone: looks for the pods, and takes the entries out.

use std::collections::BTreeSet;

use api::slices;
use kube::Client;
use serde_json::Value;
use tracing::{info, warn};

use super::wire::{self, Notes, Part, PodName};
use crate::follow::list;
use crate::slice::orphans::{Found, Orphan};
use crate::slice::shared::PodEntry;
use crate::writer::{Anything, Refused, Writer};

/// Those of the pods that are there, or nothing if they could not be listed.
pub(super) async fn find(client: &Client, wanted: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    match list::<Part<PodName>>(client, wire::PODS).await {
        Ok((pods, _)) => Some(pods.into_iter().filter(|pod| wanted.contains(pod)).collect()),
        Err(error) => {
            warn!(%error, "the pods could not be listed");
            None
        }
    }
}

/// Whether the pod of an entry is there, whatever becomes of it, and if it is not, which nodes have its container; nothing if nobody knows.
pub(super) async fn look(client: &Client, namespace: &str, Orphan { pool, entry, .. }: &Orphan) -> Option<Found> {
    let looked = async {
        let (pods, _) = list::<Part<PodName>>(client, &wire::pod(&entry.podref)).await?;
        if !pods.is_empty() {
            return Ok(Found { pod: true, ..Found::default() });
        }
        let (pools, _) = list::<Part<Notes>>(client, &wire::ip_pool(namespace, pool)).await?;
        Ok(Found { pod: false, nodes: pools.iter().flat_map(|notes| slices::holders(notes, &entry.id)).collect() })
    };
    let found: Result<Found, kube::Error> = looked.await;
    found.inspect_err(|error| warn!(%error, podref = entry.podref, "a pod could not be looked for")).ok()
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
