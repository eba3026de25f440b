//! Repair: what is written of addresses and ports is made to agree with what Services say they have.
//!
//! Writes of this server cannot make them disagree. Objects that were restored, imported or edited in the store can.

use std::sync::Arc;

use api::Object;
use store::{Compare, Entry, Range, Store, Txn};
use tracing::{info, warn};

use super::decision::held;
use super::service::Service;
use super::{PREFIX, has};
use crate::machinery::Failure;
use crate::registry::grants::{Grant, Holder};
use crate::registry::{Surroundings, ip_addresses, node_ports};

/// What was mended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mended {
    /// Grants that Services had and of which nothing was written.
    made: usize,
    /// Grants that were written of Services that do not have them.
    removed: usize,
    /// Grants that two Services have: somebody has to decide which.
    shared: usize,
}

/// Mends what can be mended, and says in the log what cannot.
pub(crate) async fn repair(around: &Surroundings) -> Result<(), Failure> {
    let store = &around.store;
    let mut mended = Mended::default();
    for entry in all(store, PREFIX).await {
        let Ok(service) = Object::parse(&entry.value) else { continue };
        for grant in held(&Service::read_stored(&service)) {
            claim(store, &entry, &service, grant, &mut mended).await?;
        }
    }
    for prefix in [ip_addresses::PREFIX, node_ports::PREFIX] {
        for entry in all(store, prefix).await {
            sweep(store, &entry, &mut mended).await?;
        }
    }
    if mended != Mended::default() {
        info!(made = mended.made, removed = mended.removed, shared = mended.shared, "what Services have was mended");
    }
    Ok(())
}

async fn all(store: &Store, prefix: &str) -> Vec<Arc<Entry>> {
    let prefix = format!("{prefix}/");
    store.range(Range { prefix: &prefix, ..Range::default() }).await.map(|page| page.entries).unwrap_or_default()
}

/// Writes down what a Service has.
async fn claim(
    store: &Store,
    entry: &Entry,
    service: &Object,
    grant: Grant,
    mended: &mut Mended,
) -> Result<(), Failure> {
    let holder = Holder::of(service);
    let (absent, write) = grant.take(&holder)?;
    let condition = match store.get(&grant.key()) {
        None => absent,
        Some(there) => {
            let object = Object::parse(&there.value).unwrap_or_default();
            match grant.holder(&object) {
                Some(own) if own.is(&holder) => return Ok(()),
                Some(other) if has(store, &other, grant) => {
                    mended.shared += 1;
                    let (namespace, name) = (holder.namespace, holder.name);
                    warn!(%grant, "Service {namespace}/{name} and Service {}/{} both have it; recreate one", other.namespace, other.name);
                    return Ok(());
                }
                // It is nobody's, whatever it says.
                _ => Compare::At(grant.key(), there.revision),
            }
        }
    };
    let same = Compare::At(entry.key.clone(), entry.revision);
    store.txn(Txn { compares: vec![same, condition], writes: vec![write] }).await?;
    mended.made += 1;
    Ok(())
}

/// Removes what is written of a Service that does not have it.
async fn sweep(store: &Store, entry: &Entry, mended: &mut Mended) -> Result<(), Failure> {
    let Some(grant) = Grant::of(&entry.key).filter(|grant| grant.is_services(&entry.value)) else { return Ok(()) };
    let object = grant.read(&entry.value)?;
    let Some(holder) = grant.holder(&object).filter(|holder| !has(store, holder, grant)) else { return Ok(()) };
    let key = format!("{PREFIX}/{}/{}", holder.namespace, holder.name);
    let service = store
        .get(&key)
        .map_or(Compare::Absent(key.as_str().into()), |service| Compare::At(service.key.clone(), service.revision));
    let same = Compare::At(entry.key.clone(), entry.revision);
    let Some(write) = grant.remove(object)? else { return Ok(()) };
    store.txn(Txn { compares: vec![same, service], writes: vec![write] }).await?;
    mended.removed += 1;
    Ok(())
}
