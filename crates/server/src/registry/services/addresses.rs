//! Which addresses a Service gets.

use std::net::IpAddr;

use api::{Errors, Path, names};
use serde_json::json;

use super::decision::{AddressRefusal, Cluster, Refusal, Taking};
use super::families::stays_preferring;
use super::service::Service;
use crate::registry::grants::Grant;

/// Gives a Service an address of each of its families: the one that it names, or any.
pub(super) fn create(after: &mut Service, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    if !after.has_addresses() {
        return Ok(());
    }
    if after.addresses.len() < after.families.len() {
        after.addresses.resize(after.families.len(), String::new());
    }
    for index in 0..after.families.len() {
        give(after, index, taking)?;
    }
    if let Some(first) = after.addresses.first() {
        after.address.clone_from(first);
    }
    Ok(())
}

/// Gives a Service what it has become in need of.
pub(super) fn update(
    cluster: &Cluster,
    before: &Service,
    after: &mut Service,
    taking: &mut Taking<'_>,
) -> Result<(), Refusal> {
    if stays_preferring(before, after) {
        return Ok(());
    }
    if before.is_external_name() {
        return create(after, taking);
    }
    if after.is_external_name() || !before.has_addresses() {
        return Ok(());
    }
    match (before.families.len(), after.families.len()) {
        // A Service that has addresses never becomes one without, but that is for the rules to say. Until then it may look like one
        // that is of a family which the cluster does not have.
        (1, 2) if cluster.has(&after.families[1]) => {
            after.addresses.resize(2, String::new());
            give(after, 1, taking)
        }
        _ => Ok(()),
    }
}

/// Gives a Service its address of that place.
fn give(service: &mut Service, index: usize, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let wanted = service.addresses[index].as_str();
    let invalid = |detail: String| {
        let mut errors = Errors::new();
        errors.invalid(&Path::new("spec").child("clusterIPs"), &json!(service.addresses), detail);
        Refusal::Invalid(errors)
    };
    if wanted.is_empty() {
        let any: Result<IpAddr, AddressRefusal> = taking.any_address(&service.families[index]);
        let given = any.map_err(|why| {
            Refusal::Internal(format!("failed to allocate a serviceIP for Service {:?}: {why}", service.name))
        })?;
        service.addresses[index] = Grant::Address(given).name();
        return Ok(());
    }
    let address = names::read_address(wanted)
        .ok_or_else(|| Refusal::Internal(format!("failed to parse service IP {wanted:?}")))?;
    taking.address(address).map_err(|why| invalid(format!("failed to allocate IP {wanted}: {why}")))
}
