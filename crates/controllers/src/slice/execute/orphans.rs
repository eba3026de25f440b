//! Entries and reservations of pods that are gone: looks for the pods, and takes out what they had.

use std::collections::BTreeSet;

use api::slices;
use kube::Client;
use tracing::{debug, info, warn};

use super::wire::{self, Notes, Part, PodName, ReservationPart};
use crate::follow::list;
use crate::slice::orphans::{Found, Hush, Listed, Orphan, OrphanEntry, Reservation};
use crate::writer::{Anything, Refused, Writer};

/// After so many reservations that could not be deleted no further one is tried. A server that does not answer would have each of them wait as
/// long; but one that is refused for a reason of its own keeps only its own entry.
const MOST_FAILURES: usize = 3;

/// The reservations that no node has, and those of the pods of theirs and of the wanted ones that are there; nothing if they could not be
/// listed.
pub(super) async fn find(client: &Client, namespace: &str, wanted: &BTreeSet<String>) -> Option<Listed> {
    let listed = async {
        let path = wire::unlabelled_reservations(namespace);
        // The pod of a reservation that is listed first was there when it was made.
        let reservations = match list::<Part<ReservationPart>>(client, &path).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            reservations => reservations?.0,
        };
        if wanted.is_empty() && reservations.is_empty() {
            return Ok(Listed::default());
        }
        let (pods, _) = list::<Part<PodName>>(client, wire::PODS).await?;
        let reserved: BTreeSet<&str> = reservations.iter().map(|one| one.podref.as_str()).collect();
        let pods = pods.into_iter().filter(|pod| wanted.contains(pod) || reserved.contains(pod.as_str())).collect();
        Ok(Listed { reservations, pods })
    };
    let listed: Result<Listed, kube::Error> = listed.await;
    listed.inspect_err(|error| warn!(%error, "the pods could not be listed")).ok()
}

/// Whether the pod of an orphan is there, whatever becomes of it, and if it is not, which nodes have its container; nothing if nobody knows.
pub(super) async fn look(client: &Client, namespace: &str, orphan: &Orphan) -> Option<Found> {
    let looked = async {
        let (pods, _) = list::<Part<PodName>>(client, &wire::pod(orphan.podref())).await?;
        let mut found = Found { pod: !pods.is_empty(), ..Found::default() };
        for pool in orphan.pools().iter().filter(|_| pods.is_empty()) {
            let (pools, _) = list::<Part<Notes>>(client, &wire::ip_pool(namespace, pool)).await?;
            found.nodes.extend(pools.iter().flat_map(|notes| slices::holders(notes, orphan.container())));
        }
        Ok(found)
    };
    let found: Result<Found, kube::Error> = looked.await;
    found.inspect_err(|error| warn!(%error, podref = orphan.podref(), "a pod could not be looked for")).ok()
}

/// Takes entries out of their pool, which is one, and before each the reservation of its address: as long as the entry is there, it tells
/// that something is left. What is somebody's by now stays, and keeps its reservation. How many were taken out.
pub(super) async fn take_out(writer: &Writer, namespace: &str, entries: &[OrphanEntry]) -> usize {
    let Some(OrphanEntry { pool, .. }) = entries.first() else { return 0 };
    let there = match writer.look(&format!("{}/{pool}", wire::ip_pools(namespace))).await {
        Ok(Some(there)) => there,
        Ok(None) => return 0,
        Err(error) => {
            warn!(%error, pool, "a pool with entries of pods that are gone could not be read");
            return 0;
        }
    };
    let (mut bare, mut failures) = (Vec::new(), 0);
    for one in entries.iter().filter(|one| wire::has(&there, one)) {
        let entry = &one.entry;
        match unreserve(writer, namespace, &one.reservation(), |reservation| reservation.is_of(entry)).await {
            Ok(_) => bare.push(one),
            Err(refused) => {
                failures += usize::from(matches!(refused, Refused::Failed(_)));
                let (why, podref, address) = (said(refused), &entry.podref, entry.address);
                warn!(why, podref, %address, "a reservation was not deleted");
                if failures == MOST_FAILURES {
                    break;
                }
            }
        }
    }
    if bare.is_empty() {
        return 0;
    }
    if let Err(refused) = writer.ask::<Anything>(wire::take_out(namespace, pool, &bare)).await {
        warn!(why = said(refused), pool, "entries of pods that are gone were not taken out");
        return 0;
    }
    for OrphanEntry { entry, .. } in &bare {
        info!(pool, address = %entry.address, podref = entry.podref, "an entry of a pod that is gone was taken out");
    }
    bare.len()
}

/// Deletes a reservation, if it still is that one.
pub(super) async fn release(writer: &Writer, namespace: &str, reservation: &Reservation) -> bool {
    let Reservation { name, podref, .. } = reservation;
    match unreserve(writer, namespace, name, |there| there == reservation).await {
        Ok(is_gone) => {
            if is_gone {
                info!(name, podref, "a reservation of a pod that is gone was deleted");
            }
            is_gone
        }
        Err(refused) => {
            warn!(why = said(refused), name, podref, "a reservation of a pod that is gone was not deleted");
            false
        }
    }
}

/// Deletes the reservation of that name, if it is the right one. Whether it was.
async fn unreserve(
    writer: &Writer,
    namespace: &str,
    name: &str,
    is_it: impl Fn(&Reservation) -> bool,
) -> Result<bool, Refused> {
    let path = wire::reservation(namespace, name);
    let found = writer.look(&path).await.map_err(|error| Refused::Failed(error.to_string()))?;
    let Some(reservation) = found.filter(|found| is_it(&wire::read_reservation(found))) else { return Ok(false) };
    match writer.ask::<Anything>(wire::unreserve_one(path, &reservation)).await {
        Ok(_) => Ok(true),
        Err(Refused::Gone) => Ok(false),
        Err(refused) => Err(refused),
    }
}

/// Takes out of a pool what nodes say there that says nothing any more. If that fails, the next survey tells.
pub(super) async fn hush(writer: &Writer, namespace: &str, wanted: &Hush) {
    let (pool, nodes) = (&wanted.pool, wanted.said.len());
    match writer.ask::<Anything>(wire::hush(namespace, wanted)).await {
        Ok(_) => info!(pool, nodes, "what nodes said of containers that ended was taken out"),
        Err(refused) => debug!(why = said(refused), pool, "what nodes said of containers that ended was not taken out"),
    }
}

fn said(refused: Refused) -> String {
    match refused {
        Refused::Gone => "it is not there".to_owned(),
        Refused::Conflict(why) | Refused::Failed(why) => why,
    }
}
