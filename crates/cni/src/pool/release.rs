//! What an attachment had is taken out of the pools. Until the API server has heard of it, the journal says that it is owed.
//!
//! Who is about to take something out first makes what is owed its own, in the journal: whoever thought it theirs, an ADD that is still
//! under way above all, finds it gone.

use std::time::Duration;

use space::Cidr;

use crate::api::{Api, Way};
use crate::failure::Failure;
use crate::journal::{Book, BootId, Holding, Ip, Ips, Journal, Netns, Origin, Reason, Record};
use crate::ledger::{commit, ended, now};
use crate::lock::{Lock, PATIENCE};
use crate::place::Place;

use super::Site;
use super::object::{Holder, Home, Pool};
use super::server::Pools;

/// How long the API server is tried before what is to be taken out stays owed.
const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// What has been owed for so long, in milliseconds, no ADD is under way for any more: anybody may take it out.
pub const OVERDUE: u64 = 45_000;
/// How many of others' a call takes out besides its own.
const FAVOURS: usize = 4;

/// What is owed: entries of this attachment, in the pools of these addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debt {
    /// The record in the journal.
    pub sequence: u64,
    /// The container.
    pub container: String,
    /// The interface.
    pub ifname: String,
    /// The pod, `namespace/name`; empty if it is not known.
    pub pod: String,
    /// The addresses, or the first of a range where nobody knows which.
    pub ips: Vec<Ip>,
    /// Why.
    pub reason: Reason,
    /// Whether a request of somebody who was killed may still be on its way: what is not there may come yet.
    pub is_fresh: bool,
    /// Where the pools are; none: where the configuration says.
    pub home: Option<Home>,
}

/// Whether what is owed has been for so long that no ADD is under way for it.
pub fn is_overdue(holding: &Holding<'_>, now: u64) -> bool {
    holding.origin == Origin::Owed && holding.at.saturating_add(OVERDUE) <= now
}

/// What came of ending holdings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How many of those that were chosen there are.
    pub found: usize,
    /// What is owed now, for the caller to [`settle`]; some of others' that is overdue is among it.
    pub debts: Vec<Debt>,
}

/// Ends the holdings that are `chosen`, each for its reason. What other nodes know of, too, is owed from then on.
pub fn end(site: &Site<'_>, chosen: impl Fn(&Holding<'_>) -> Option<Reason>) -> Result<Ended, Failure> {
    if !site.place.journal().exists() {
        return Ok(Ended::default());
    }
    let lock = Lock::take(&site.place, PATIENCE)?;
    let (journal, image) = Journal::open(&site.place, &lock)?;
    let (book, at) = (image.book(), now());
    let (mut found, mut favours) = (0, FAVOURS);
    let mut choose = |holding: &Holding<'_>| {
        let reason = chosen(holding);
        let is_mine = holding.conf == site.conf.name;
        if reason.is_some() {
            found += 1;
        } else if favours > 0 && is_mine && is_overdue(holding, at) {
            favours -= 1;
            return Some(Reason::Del);
        }
        reason
    };
    let ending: Vec<(&Holding<'_>, Reason)> =
        book.holdings().iter().filter_map(|holding| choose(holding).map(|reason| (holding, reason))).collect();
    if ending.is_empty() {
        return Ok(Ended::default());
    }
    let (records, debts) = endings(&book, &ending, at);
    commit(journal, &image, &book, &records, site.boot)?;
    Ok(Ended { found, debts })
}

/// The records by which holdings end, and what is owed from then on: nobody's, and no ADD's any more.
pub fn endings<'a>(book: &Book<'a>, ending: &[(&Holding<'a>, Reason)], at: u64) -> (Vec<Record<'a>>, Vec<Debt>) {
    let ends: Vec<(u64, Reason)> = ending.iter().map(|(holding, reason)| (holding.sequence, *reason)).collect();
    let mut records: Vec<Record<'a>> = ended(book, &ends, at);
    let mut debts = Vec::new();
    for (holding, reason) in ending.iter().filter(|(holding, _)| !holding.origin.is_local()) {
        let sequence = book.next() + records.len() as u64;
        let owed = Holding { sequence, at, origin: Origin::Owed, netns: Netns::default(), ..(*holding).clone() };
        records.push(Record::Hold(owed));
        let is_fresh = holding.origin == Origin::Owed && !is_overdue(holding, at);
        debts.push(Debt::of(holding, sequence, *reason, is_fresh));
    }
    (records, debts)
}

/// Takes out of the pools what is owed, and writes down what is done. What cannot be done now stays owed.
pub fn settle(site: &Site<'_>, debts: &[Debt]) -> Result<(), Failure> {
    if debts.is_empty() {
        return Ok(());
    }
    let Ok((mut api, home)) = way(site, RELEASE_PATIENCE) else { return Ok(()) };
    settle_at(&mut api, &site.place, site.boot, Some(&home), debts).map(drop)
}

/// What came of settling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How many are not owed any more.
    pub done: usize,
    /// How many are: what was not found and may come yet, and all from the one on that could not be done.
    pub left: usize,
    /// Why that could not be done.
    pub why: Option<String>,
}

/// The same for whoever has a way to the server; `home` is where pools are of which nobody said so.
pub fn settle_at(
    way: &mut impl Way,
    place: &Place,
    boot: BootId,
    home: Option<&Home>,
    debts: &[Debt],
) -> Result<Settled, Failure> {
    let (mut done, mut why) = (Vec::new(), None);
    for debt in debts {
        let Some(home) = debt.home.as_ref().or(home) else { continue };
        match give_back(&mut Pools::new(&mut *way, home.clone(), place), debt) {
            // Somebody looks again when it is overdue.
            Ok(false) if debt.is_fresh => {}
            Ok(_) => done.push((debt.sequence, debt.reason)),
            // If one cannot be done the server is away, or refuses all of them alike.
            Err(failure) => {
                why = Some(failure.to_string());
                break;
            }
        }
    }
    forget(place, boot, &done)?;
    Ok(Settled { done: done.len(), left: debts.len() - done.len(), why })
}

/// What is owed by these records of a journal, for whoever did not write them.
pub fn debts(book: &Book<'_>, sequences: &[u64], at: u64) -> Vec<Debt> {
    let owed = book.holdings().iter().filter(|holding| holding.origin == Origin::Owed);
    let chosen = owed.filter(|holding| sequences.contains(&holding.sequence));
    chosen.map(|holding| Debt::of(holding, holding.sequence, Reason::Del, !is_overdue(holding, at))).collect()
}

/// A DEL of an attachment that this node knows nothing of: it may be from before there was a journal. Its entries are looked for in the
/// pools of the configuration; if that cannot be done now, it is owed.
pub fn search(site: &Site<'_>, container: &str, ifname: &str) -> Result<(), Failure> {
    // A configuration that nobody could be served by has no ranges to look in.
    let Ok(settings) = site.conf.settings(&[], &[]) else { return Ok(()) };
    if settings.ranges.is_empty() || site.conf.kubeconfig().is_ok_and(str::is_empty) {
        return Ok(());
    }
    let pool = |range: Cidr| Pool::empty(range).at(0);
    let debt = Debt {
        sequence: 0,
        container: container.to_owned(),
        ifname: ifname.to_owned(),
        pod: String::new(),
        ips: settings.ranges.iter().map(|range| pool(range.cidr)).collect(),
        reason: Reason::Del,
        is_fresh: false,
        home: None,
    };
    let mut way = way(site, RELEASE_PATIENCE);
    let searched = way
        .as_mut()
        .map_err(|failure| failure.clone())
        .and_then(|(api, home)| give_back(&mut Pools::new(api, home.clone(), &site.place), &debt));
    match searched {
        Ok(_) => Ok(()),
        Err(_) => owe(site, &Debt { home: way.ok().map(|(_, home)| home), ..debt }),
    }
}

/// The way to the pools of a network, and where they are.
pub(super) fn way(site: &Site<'_>, patience: Duration) -> Result<(Api, Home), Failure> {
    let api = Api::new(site.conf.kubeconfig()?, &site.state_dir, patience)?;
    let home = Home { namespace: api.namespace().to_owned(), network: site.conf.prefix().map(str::to_owned) };
    Ok((api, home))
}

/// Takes everything of an attachment out of the pools, and gives back the reservations that go with it. Whether all that was expected
/// was there.
pub(super) fn give_back<W: Way>(pools: &mut Pools<W>, debt: &Debt) -> Result<bool, Failure> {
    let mut is_whole = true;
    let mut unclear: Vec<(Cidr, Vec<Ip>)> = Vec::new();
    for ip in &debt.ips {
        let Ok(range) = Cidr::tolerant(&ip.to_string()).map(|read| read.value) else { continue };
        if !debt.pod.is_empty() && pools.remove(range, ip.address, &debt.container)? {
            is_whole &= pools.unreserve(ip.address, debt.holder(&debt.pod))?;
            continue;
        }
        match unclear.iter_mut().find(|(other, _)| *other == range) {
            Some((_, ips)) => ips.push(*ip),
            None => unclear.push((range, vec![*ip])),
        }
    }
    for (range, ips) in unclear {
        let pool = pools.look(range)?.unwrap_or_else(|| Pool::empty(range));
        for (ip, entry) in pool.held().filter(|(_, entry)| entry.is_of(&debt.container, &debt.ifname)) {
            if pools.remove(range, ip.address, &debt.container)? {
                is_whole &= pools.unreserve(ip.address, debt.holder(&entry.podref))?;
            }
        }
        // Where there is no entry any more, somebody may have got as far as that and no further. Where another sandbox has the entry, it
        // may have been stopped before it had the reservation too: what says this container there nobody else would know of.
        for ip in ips.iter().filter(|_| !debt.pod.is_empty()) {
            let entry = pool.entry(ip.address);
            if entry.is_none_or(|entry| !entry.is_of(&debt.container, &debt.ifname)) {
                let holder = debt.holder(&debt.pod);
                match entry {
                    None => pools.unreserve(ip.address, holder)?,
                    Some(_) => pools.unreserve_own(ip.address, holder)?,
                };
                is_whole = false;
            }
        }
    }
    Ok(is_whole)
}

/// Writes down that what was owed is not any more.
fn forget(place: &Place, running: BootId, done: &[(u64, Reason)]) -> Result<(), Failure> {
    if done.is_empty() {
        return Ok(());
    }
    let lock = Lock::take(place, PATIENCE)?;
    let (journal, image) = Journal::open(place, &lock)?;
    let book = image.book();
    let there = |sequence: u64| book.holdings().iter().any(|holding| holding.sequence == sequence);
    let done: Vec<_> = done.iter().copied().filter(|(sequence, _)| there(*sequence)).collect();
    if done.is_empty() {
        return Ok(());
    }
    commit(journal, &image, &book, &ended(&book, &done, now()), running)
}

fn owe(site: &Site<'_>, debt: &Debt) -> Result<(), Failure> {
    site.make_folder()?;
    let lock = Lock::take(&site.place, PATIENCE)?;
    let (journal, image) = Journal::open(&site.place, &lock)?;
    let book = image.book();
    let record = debt.record(&book, site);
    commit(journal, &image, &book, &[Record::Hold(record)], site.boot)
}

impl Debt {
    /// What a holding owes, as the record of that number.
    fn of(holding: &Holding<'_>, sequence: u64, reason: Reason, is_fresh: bool) -> Self {
        Self {
            sequence,
            container: holding.container.to_string(),
            ifname: holding.ifname.to_string(),
            pod: holding.pod.to_string(),
            ips: holding.ips.iter().collect(),
            reason,
            is_fresh,
            home: Home::read(&holding.home),
        }
    }

    fn holder<'a>(&'a self, pod: &'a str) -> Holder<'a> {
        Holder { container: &self.container, ifname: &self.ifname, pod }
    }

    fn record(&self, book: &Book<'_>, site: &Site<'_>) -> Holding<'_> {
        Holding {
            sequence: book.next(),
            at: now(),
            boot: site.boot,
            origin: Origin::Owed,
            container: self.container.as_str().into(),
            ifname: self.ifname.as_str().into(),
            conf: site.conf.name.clone().into(),
            pod: self.pod.as_str().into(),
            uid: "".into(),
            ips: Ips::of(&self.ips),
            netns: Netns::default(),
            home: self.home.as_ref().map(ToString::to_string).unwrap_or_default().into(),
        }
    }
}
