//! Reading from etcd as it was at one revision, page by page: the snapshot that a mirror starts from, and ranges of a past
//! that the mirror has forgotten.

use std::sync::Arc;

use bytes::Bytes;

use super::client::Client;
use super::failure::Failure;
use super::keys::{Keys, successor};
use super::txn::{entry, remote, revision};
use super::wire::{KeyValue, RangeRequest, RangeResponse};
use crate::types::{Entry, Page, Range, Revision};

/// How many keys are asked for at first, when it is not known how large their values are.
const FIRST_PAGE: usize = 500;
/// How many keys are asked for at most. etcd counts the whole rest of the range for every page, so pages must not be small.
const LARGEST_PAGE: usize = 10_000;
/// How many bytes a page should have at most. Both sides hold it in memory as a whole.
const PAGE_BYTES: usize = 8 << 20;

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
    let mut size = FIRST_PAGE;
    loop {
        let wanted = range.limit.map_or(size, |limit| (limit - page.entries.len()).min(size));
        let answer = read(client, from, to.clone(), wanted, at).await?;
        page.remaining = usize::try_from(answer.count).unwrap_or(0).saturating_sub(answer.kvs.len());
        size = page_size(&answer.kvs);
        let last = answer.kvs.last().map(|kv| kv.key.clone());
        let found = answer.kvs.iter().filter_map(|kv| Some(Arc::new(entry(keys.local(&kv.key)?.into(), kv, 0))));
        page.entries.extend(found);
        match last.filter(|_| answer.more && range.limit.is_none_or(|limit| page.entries.len() < limit)) {
            Some(last) => from = successor(&last),
            None => return Ok(page),
        }
    }
}

/// How many keys to ask for next, if they are as large as those that came.
fn page_size(came: &[KeyValue]) -> usize {
    let bytes: usize = came.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    (PAGE_BYTES * came.len() / bytes.max(1)).clamp(1, LARGEST_PAGE)
}

async fn read(client: &Client, from: Bytes, to: Bytes, limit: usize, at: Revision) -> Result<RangeResponse, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // To etcd a limit of nothing is no limit.
    client.range(RangeRequest { key: from, range_end: to, limit, revision: remote(at), count_only: limit == 0 }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_large_values_have_few_keys() {
        let came = |count, bytes| vec![KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() }; count];
        assert_eq!(page_size(&came(FIRST_PAGE, 100)), LARGEST_PAGE);
        assert_eq!(page_size(&came(FIRST_PAGE, 1 << 20)), 8);
        assert_eq!(page_size(&came(3, 32 << 20)), 1, "one at least");
        assert_eq!(page_size(&[]), 1, "nothing came, so nothing will be asked");
    }
}
