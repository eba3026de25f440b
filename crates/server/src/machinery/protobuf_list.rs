//! Lists in protobuf. They begin with their length, so a long one is written twice: first to measure it, then to send it,
//! piece by piece. Keeping it instead would hold all of it in memory as long as a client takes to read it.

use std::sync::Arc;

use api::protobuf::List;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use store::Entry;

use super::catalog::Resource;
use super::failure::Failure;
use super::list::{PIECE_BYTES, list_kind};
use super::negotiate::Form;
use super::protobuf::MEDIA_TYPE;
use super::reply::{Content, Reply};
use super::show;
use crate::front::Broken;

/// The list of these objects.
pub(crate) async fn show(
    resource: &'static Resource,
    form: Form,
    entries: Vec<Arc<Entry>>,
    metadata: &Value,
) -> Result<Reply, Failure> {
    let (kind, api_version) = list_kind(resource, form);
    let list = List::new(&api_version, &kind, metadata).map_err(Failure::internal)?;
    let mut listing = Listing { resource, form, list, entries: entries.into_iter() };
    let first = listing.piece()?;
    if listing.is_finished() {
        let whole = [listing.list.head(first.len()), first, listing.list.tail()].concat();
        return Ok(Reply::new(StatusCode::OK, MEDIA_TYPE, Content::Whole(whole.into())));
    }
    let head = listing.list.head(first.len() + listing.measure().await?);
    let mut finished = false;
    let rest = std::iter::from_fn(move || {
        if finished {
            return None;
        }
        finished = listing.is_finished();
        let piece = if finished { Ok(listing.list.tail()) } else { listing.piece() };
        finished |= piece.is_err();
        Some(piece.map(Bytes::from).map_err(|failure| Broken(failure.message)))
    });
    let pieces = futures_util::stream::iter([Ok(head.into()), Ok(first.into())].into_iter().chain(rest));
    Ok(Reply::new(StatusCode::OK, MEDIA_TYPE, Content::Pieces(Box::pin(pieces))))
}

/// A list on its way out.
struct Listing {
    resource: &'static Resource,
    form: Form,
    list: List,
    /// What is still to be written.
    entries: std::vec::IntoIter<Arc<Entry>>,
}

impl Listing {
    fn is_finished(&self) -> bool {
        self.entries.as_slice().is_empty()
    }

    /// The next items, as many as make a piece.
    fn piece(&mut self) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while out.len() < PIECE_BYTES
            && let Some(entry) = self.entries.next()
        {
            self.put(&entry, &mut out)?;
        }
        Ok(out)
    }

    /// How many bytes the items take that are still to be written.
    async fn measure(&self) -> Result<usize, Failure> {
        let (mut all, mut item) = (0, Vec::new());
        let mut in_one_go = 0;
        for entry in self.entries.as_slice() {
            item.clear();
            self.put(entry, &mut item)?;
            all += item.len();
            in_one_go += item.len();
            if in_one_go >= PIECE_BYTES {
                in_one_go = 0;
                // Others want to be answered too.
                tokio::task::yield_now().await;
            }
        }
        Ok(all)
    }

    fn put(&self, entry: &Entry, out: &mut Vec<u8>) -> Result<(), Failure> {
        let item = match self.form {
            Form::Partial(_) => {
                let metadata = show::metadata(&entry.value).unwrap_or_default();
                json!({"metadata": serde_json::from_slice::<Value>(metadata).map_err(Failure::internal)?})
            }
            Form::Object | Form::Table(_) => show::read(self.resource, &entry.value)?.into_value(),
        };
        self.list.put(&item, out).map_err(Failure::internal)
    }
}
