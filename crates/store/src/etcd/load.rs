//! Reading from etcd as it was at one revision, page by page: the snapshot that a mirror starts from, and ranges of a past
//! that the mirror has forgotten.

use std::sync::Arc;

use bytes::Bytes;

use super::client::Client;
use super::failure::Failure;
use super::keys::{Keys, successor};
use super::txn::{entry, remote, revision};
use super::wire::{RangeRequest, RangeResponse};
use crate::types::{Entry, Page, Range, Revision};

/// The most keys that are asked for at once. etcd counts the whole rest of the range for every page, so pages must not be
/// small; they are held in memory on both sides, so they must not be large.
const PAGE: usize = 4000;

/// Everything that the store has in etcd at one revision.
pub(super) struct Snapshot {
    pub(super) revision: Revision,
    pub(super) entries: Vec<Arc<Entry>>,
}

/// Where etcd is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Names the cluster. One that was restored from a backup has another name.
    pub(super) cluster: u64,
    /// Everything that was acknowledged before the question is at this revision or before.
    pub(super) revision: Revision,
}

/// Where etcd is now, as most of its members agree.
pub(super) async fn place(client: &Client, keys: &Keys) -> Result<Place, Failure> {
    // The question is answered by the header, so that it may as well be about a key that is never there.
    let request = RangeRequest { key: keys.remote(""), count_only: true, ..RangeRequest::default() };
    let header = client.glance(request).await?.header.unwrap_or_default();
    Ok(Place { cluster: header.cluster_id, revision: revision(header.revision) })
}

/// Everything at a revision.
pub(super) async fn snapshot(client: &Client, keys: &Keys, at: Revision) -> Result<Snapshot, Failure> {
    let page = range(client, keys, Range { at: Some(at), ..Range::default() }, at).await?;
    Ok(Snapshot { revision: at, entries: page.entries })
}

/// A range at a revision.
pub(super) async fn range(client: &Client, keys: &Keys, range: Range<'_>, at: Revision) -> Result<Page, Failure> {
    let (mut from, to) = keys.span(range.prefix, range.after);
    let mut page = Page { entries: Vec::new(), revision: at, remaining: 0 };
    loop {
        let wanted = range.limit.map_or(PAGE, |limit| (limit - page.entries.len()).min(PAGE));
        let answer = read(client, from, to.clone(), wanted, at).await?;
        page.remaining = usize::try_from(answer.count).unwrap_or(0).saturating_sub(answer.kvs.len());
        let last = answer.kvs.last().map(|kv| kv.key.clone());
        let found = answer.kvs.iter().filter_map(|kv| Some(Arc::new(entry(keys.local(&kv.key)?.into(), kv, 0))));
        page.entries.extend(found);
        match last.filter(|_| answer.more && range.limit.is_none_or(|limit| page.entries.len() < limit)) {
            Some(last) => from = successor(&last),
            None => return Ok(page),
        }
    }
}

async fn read(client: &Client, from: Bytes, to: Bytes, limit: usize, at: Revision) -> Result<RangeResponse, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // To etcd a limit of nothing is no limit.
    client.range(RangeRequest { key: from, range_end: to, limit, revision: remote(at), count_only: limit == 0 }).await
}
