//! Work on the files of a network. It waits for the lock and for the disk, so it is done where waiting does no harm.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use cni::api::Way;
use cni::grants::{Grants, GrantsError};
use cni::journal::{Book, BootId, Holding, Image, Ip, Ips, Journal, Netns, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::node::random;
use cni::place::Place;
use cni::plugin::hexadecimal;
use cni::pool::release::{self, Settled};
use cni::shortage::Shortage;

use crate::network::{Disk, Hold, Local};

/// No state directory has more networks.
const MOST_NETWORKS: usize = 4096;

/// The networks that have a folder.
pub(crate) fn networks(state_dir: &Path) -> Vec<String> {
    let folders = fs::read_dir(state_dir).into_iter().flatten().flatten();
    let folders = folders.filter(|file| file.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|file| file.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).take(MOST_NETWORKS).collect()
}

/// What the files of a network say. Grants that cannot be read are as good as none: they are written anew.
pub(crate) fn read(place: &Place) -> Disk {
    let grants = match Grants::read(place) {
        Ok(grants) => Some(grants),
        Err(GrantsError::Missing(_)) => None,
        Err(error) => {
            tracing::warn!(%error, "grants cannot be read; they are written anew");
            None
        }
    };
    let journal = match Image::read(place) {
        Ok(image) if image.header().is_none() => None,
        Ok(image) => Some(Ok(Arc::new(image))),
        Err(error) => Some(Err(error.to_string())),
    };
    Disk { grants, journal, shortage: Shortage::read(place) }
}

/// Does it. What is wrong is said for people.
pub(crate) fn work(place: &Place, local: &Local, running: BootId) -> Result<(), String> {
    let said = |error: &dyn std::error::Error| error.to_string();
    if !matches!(local, Local::Grants(None)) {
        fs::create_dir_all(place.folder())
            .map_err(|error| format!("cannot make {}: {error}", place.folder().display()))?;
    }
    let lock = Lock::take(place, PATIENCE).map_err(|error| said(&error))?;
    match local {
        Local::Grants(Some(grants)) => grants.write(place, &lock).map_err(|error| said(&error)),
        Local::Grants(None) => match fs::remove_file(place.grants()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(said(&error)),
            _ => Ok(()),
        },
        Local::Commit { ends, holds } => {
            let (journal, image) = Journal::open(place, &lock).map_err(|error| said(&error))?;
            let book = image.book();
            let held_as = |sequence: u64| book.holdings().iter().find(|holding| holding.sequence == sequence);
            let ending: Vec<_> = ends.iter().filter_map(|(of, reason)| Some((held_as(*of)?, *reason))).collect();
            let (mut records, _) = release::endings(&book, &ending, now());
            let next = book.next() + records.len() as u64;
            let is_ending = |sequence: u64| ending.iter().any(|(holding, _)| holding.sequence == sequence);
            records.extend(held(&book, is_ending, holds, next).into_iter().map(Record::Hold));
            if records.is_empty() {
                return Ok(());
            }
            let id = image.header().map_or_else(random, |header| Ok(header.id)).map_err(|error| said(&error))?;
            journal.commit(&book, &records, Renewal { id, boot: running }).map_err(|error| said(&error))
        }
        Local::Mend(holds) => mend(place, &lock, holds, running),
    }
}

/// Takes out of the pools that all nodes share what these records say is owed.
pub(crate) fn settle(place: &Place, owed: &[u64], running: BootId, way: &mut impl Way) -> Result<Settled, String> {
    let image = Image::read(place).map_err(|error| error.to_string())?;
    let debts = release::debts(&image.book(), owed, now());
    release::settle_at(way, place, running, None, &debts).map_err(|failure| failure.to_string())
}

/// Writes a journal anew from what can be read of it and what is known from elsewhere, and the grants for it.
fn mend(place: &Place, lock: &Lock, holds: &[Hold], running: BootId) -> Result<(), String> {
    let image = Image::read(place).unwrap_or_default();
    let book = image.book();
    let id = random().map_err(|error| format!("no random numbers: {error}"))?;
    let mut records: Vec<Record<'_>> = book.holdings().iter().cloned().map(Record::Hold).collect();
    records.extend(held(&book, |_| false, holds, book.next()).into_iter().map(Record::Hold));
    let written = Journal::begin(place, lock, book.next(), &records, Renewal { id, boot: running });
    written.map_err(|error| error.to_string())?;
    let Ok(grants) = Grants::read(place) else { return Ok(()) };
    let grants = Grants { journal: Some(hexadecimal(&id)), ..grants };
    grants.write(place, lock).map_err(|error| error.to_string())
}

/// Holdings for these, where nobody holds the address but whose holding is ending. Addresses of one attachment are one holding, in the order in which they are given.
fn held(book: &Book<'_>, is_ending: impl Fn(u64) -> bool, holds: &[Hold], next: u64) -> Vec<Holding<'static>> {
    let is_free = |hold: &&Hold| {
        let staying = book.holdings().iter().filter(|holding| !is_ending(holding.sequence));
        let mut all = staying.flat_map(|holding| holding.ips.iter());
        all.all(|ip| ip.address != hold.ip)
    };
    let mut order: Vec<(&Hold, Vec<Ip>)> = Vec::new();
    let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for hold in holds.iter().filter(is_free) {
        let ip = Ip { address: hold.ip, length: hold.length };
        let holder = &hold.holder;
        let key = (holder.id.as_str(), holder.podref.as_str(), holder.ifname.as_str());
        // What nobody says anything about is not all one thing.
        let is_known = !holder.podref.is_empty() || !holder.id.is_empty();
        if let Some(at) = places.get(&key).filter(|_| is_known) {
            order[*at].1.push(ip);
        } else {
            places.insert(key, order.len());
            order.push((hold, vec![ip]));
        }
    }
    let holding = |((hold, ips), sequence): ((&Hold, Vec<Ip>), u64)| Holding {
        sequence,
        at: now(),
        // Nobody knows in which boot it was given.
        boot: BootId::UNKNOWN,
        origin: hold.origin,
        container: hold.holder.id.clone().into(),
        ifname: hold.holder.ifname.clone().into(),
        conf: "".into(),
        pod: hold.holder.podref.clone().into(),
        uid: "".into(),
        netns: Netns::default(),
        home: "".into(),
        ips: Ips::of(&ips),
    };
    order.into_iter().zip(next..).map(holding).collect()
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
