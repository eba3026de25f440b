//! An attachment comes: it takes an address of each shared pool, or none.
//!
//! The lock is held only to write down what is about to be taken, and what was; so many ADDs of a node are under way at once, and do not
//! choose the same. What is taken already is found again by the pod's name, so after whatever went wrong it begins anew from the pools.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use crate::allocate::{Refusal, Request};
use crate::api::Api;
use crate::config::{RangeConf, Settings};
use crate::failure::{Code, Failure};
use crate::journal::{Holding, Image, Ip, Ips, Journal, JournalError, Netns, Origin, Reason, Record};
use crate::ledger::{commit, ended, now};
use crate::lock::{Lock, PATIENCE};

use super::Site;
use super::choose::{Known, choose};
use super::object::{Holder, Pool};
use super::release::{self, Debt};
use super::server::Pools;

/// How long all of it may take. What is owed is not touched by others for longer than that.
const GIVE_PATIENCE: Duration = Duration::from_secs(30);
/// How long STATUS waits.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);
/// How often it begins anew.
const ROUNDS: usize = 100;
/// After so many conflicts in a row nobody goes further away from the lowest address.
const SPREAD: u32 = 6;

/// Gives an attachment addresses: they are its own, in the pools and in the journal, when this returns.
pub fn give(site: &Site<'_>, request: Request<'_>, settings: &Settings, netns: &Netns<'_>) -> Result<Vec<Ip>, Failure> {
    let image = Image::read(&site.place)?;
    let book = image.book();
    if let Some(held) = book.of(request.container, request.ifname) {
        return Ok(held.ips.iter().collect());
    }
    site.make_folder()?;
    let mut add = Add {
        site,
        request,
        settings,
        netns,
        pools: pools(site, GIVE_PATIENCE)?,
        since: book.next(),
        avoided: BTreeMap::new(),
        tried: Vec::new(),
        intent: 0,
    };
    let given = add.run();
    if let Err(failure) = &given {
        add.undo(failure);
    }
    given
}

/// Whether an ADD could be served.
pub fn could_give(site: &Site<'_>, request: Request<'_>, settings: &Settings) -> Result<(), Failure> {
    let image = Image::read(&site.place)?;
    if let Some(at) = image.book().damage() {
        return Err(JournalError::Damaged { path: site.place.journal(), at }.into());
    }
    let mut server = pools(site, STATUS_PATIENCE)?;
    let mut pools = Vec::new();
    for range in &settings.ranges {
        pools.push(server.look(range.cidr)?.unwrap_or_else(|| Pool::empty(range.cidr)));
    }
    let known = Known { flying: &[], released: &[], avoided: &BTreeMap::new() };
    choose(request, &pools, known, settings, 0).map(drop).map_err(|refusal| told(refusal, &server))
}

fn pools(site: &Site<'_>, patience: Duration) -> Result<Pools<Api>, Failure> {
    let (api, home) = release::way(site, patience)?;
    Ok(Pools::new(api, home, &site.place))
}

/// An ADD that is under way.
struct Add<'a, 'c> {
    site: &'a Site<'c>,
    request: Request<'a>,
    settings: &'a Settings,
    netns: &'a Netns<'a>,
    pools: Pools<Api>,
    /// What was written to the journal from this number on, the pools may have been read without.
    since: u64,
    /// Addresses that networks with overlapping ranges have, and who.
    avoided: BTreeMap<IpAddr, String>,
    /// Everything that it may have taken.
    tried: Vec<Ip>,
    /// The record that says so; none is 0.
    intent: u64,
}

/// What is to be done next.
enum Step {
    Held(Vec<Ip>),
    Take(Vec<Ip>),
}

/// How that went.
enum Taken {
    All,
    /// Somebody else was faster.
    Met,
    /// A network with an overlapping range has it.
    Reserved,
}

impl Add<'_, '_> {
    fn run(&mut self) -> Result<Vec<Ip>, Failure> {
        let (mut met, mut has_settled) = (0, false);
        for _ in 0..ROUNDS {
            let pools = self.read()?;
            let ips = match self.intend(&pools, self.skip(met)) {
                Ok(Ok(Step::Held(ips))) => return Ok(ips),
                Ok(Ok(Step::Take(ips))) => ips,
                Ok(Err(Refusal::Exhausted { .. })) if !has_settled => {
                    // What this node owes may be what is missing.
                    has_settled = true;
                    release::settle(self.site, &release::end(self.site, |_| None)?.debts)?;
                    continue;
                }
                Ok(Err(Refusal::Damaged(at))) => {
                    return Err(JournalError::Damaged { path: self.site.place.journal(), at }.into());
                }
                Ok(Err(refusal)) => return Err(told(refusal, &self.pools)),
                Err(failure) => return Err(failure),
            };
            match self.take(&pools, &ips)? {
                Taken::All => return self.finish(ips),
                Taken::Met => met += 1,
                Taken::Reserved => {}
            }
        }
        let message = format!("others were faster {ROUNDS} times at network {}", self.site.conf.network);
        Err(Failure::new(Code::TryLater, message))
    }

    /// The pool of each range; of one that is there twice, once.
    fn read(&mut self) -> Result<Vec<Pool>, Failure> {
        let mut pools: Vec<Pool> = Vec::with_capacity(self.settings.ranges.len());
        for RangeConf { cidr, .. } in &self.settings.ranges {
            if pools.iter().all(|pool| pool.range != *cidr) {
                pools.push(self.pools.read(*cidr)?);
            }
        }
        Ok(pools)
    }

    /// How many free addresses to pass by: none at first, and some at random of as many as may be competing for the lowest.
    fn skip(&self, met: u32) -> usize {
        let competing = 1_usize << met.min(SPREAD);
        let random = RandomState::new().hash_one(self.request.container) as usize;
        if self.settings.requested.is_empty() { random % competing } else { 0 }
    }

    /// Chooses, and writes down what is about to be taken.
    fn intend(&mut self, pools: &[Pool], skip: usize) -> Result<Result<Step, Refusal>, Failure> {
        let Request { container, ifname, .. } = self.request;
        let lock = Lock::take(&self.site.place, PATIENCE)?;
        let (journal, image) = Journal::open(&self.site.place, &lock)?;
        let book = image.book();
        if let Some(held) = book.of(container, ifname) {
            return Ok(Ok(Step::Held(held.ips.iter().collect())));
        }
        if let Some(at) = book.damage() {
            return Ok(Err(Refusal::Damaged(at)));
        }
        // What an ADD of the same attachment left when it was killed is this one's now.
        let (mine, others): (Vec<_>, Vec<_>) = book
            .holdings()
            .iter()
            .filter(|holding| {
                holding.origin == Origin::Owed || (holding.origin == Origin::Shared && holding.sequence >= self.since)
            })
            .partition(|holding| holding.origin == Origin::Owed && holding.is_of(container, ifname));
        let known = Known { flying: &others, released: book.released(), avoided: &self.avoided };
        let ips = match choose(self.request, pools, known, self.settings, skip) {
            Ok(ips) => ips,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for ip in mine.iter().flat_map(|holding| holding.ips.iter()).chain(ips.iter().copied()) {
            if !self.tried.contains(&ip) {
                self.tried.push(ip);
            }
        }
        let ends: Vec<_> = mine.iter().map(|holding| (holding.sequence, Reason::Replaced)).collect();
        let mut records = ended(&book, &ends, now());
        let intent = book.next() + records.len() as u64;
        records.push(Record::Hold(self.record(intent, Origin::Owed, &self.tried)));
        commit(journal, &image, &book, &records, self.site.boot)?;
        self.intent = intent;
        Ok(Ok(Step::Take(ips)))
    }

    /// Takes them, and reserves them if the network may overlap with others.
    fn take(&mut self, pools: &[Pool], ips: &[Ip]) -> Result<Taken, Failure> {
        let Request { container, ifname, pod, .. } = self.request;
        let holder = Holder { container, ifname, pod };
        for (ip, range) in ips.iter().zip(&self.settings.ranges) {
            let Some(pool) = pools.iter().find(|pool| pool.range == range.cidr) else { continue };
            if !self.pools.take(pool, ip.address, holder)? {
                return Ok(Taken::Met);
            }
            if !self.settings.overlapping {
                continue;
            }
            if let Some(other) = self.pools.reserve(ip.address, holder)? {
                self.pools.remove(range.cidr, ip.address, container)?;
                // Where there is one there may be many, and each costs three requests to find out.
                if self.avoided.is_empty() {
                    self.avoided = self.pools.reserved(pools, holder)?;
                }
                self.avoided.insert(ip.address, other);
                return Ok(Taken::Reserved);
            }
        }
        Ok(Taken::All)
    }

    /// Writes down that it holds them, unless somebody took them for forgotten.
    fn finish(&mut self, ips: Vec<Ip>) -> Result<Vec<Ip>, Failure> {
        let lock = Lock::take(&self.site.place, PATIENCE)?;
        let (journal, image) = Journal::open(&self.site.place, &lock)?;
        let book = image.book();
        if !book.holdings().iter().any(|holding| holding.sequence == self.intent) {
            let message = "it took so long that its addresses were given back by somebody else; nothing is held";
            return Err(Failure::new(Code::TryLater, message));
        }
        let mut records = ended(&book, &[(self.intent, Reason::Replaced)], now());
        let sequence = book.next() + records.len() as u64;
        records.push(Record::Hold(self.record(sequence, Origin::Shared, &ips)));
        commit(journal, &image, &book, &records, self.site.boot)?;
        Ok(ips)
    }

    fn record(&self, sequence: u64, origin: Origin, ips: &[Ip]) -> Holding<'_> {
        Holding {
            sequence,
            at: now(),
            boot: self.site.boot,
            origin,
            container: self.request.container.into(),
            ifname: self.request.ifname.into(),
            conf: self.site.conf.name.as_str().into(),
            pod: self.request.pod.into(),
            uid: self.request.uid.into(),
            ips: Ips::of(ips),
            netns: self.netns.clone(),
            home: self.pools.home.to_string().into(),
        }
    }

    /// Gives back whatever was taken. If that cannot be done now, it stays owed.
    fn undo(&self, failure: &Failure) {
        if self.intent == 0 {
            return;
        }
        let debt = Debt {
            sequence: self.intent,
            container: self.request.container.to_owned(),
            ifname: self.request.ifname.to_owned(),
            pod: self.request.pod.to_owned(),
            ips: self.tried.clone(),
            reason: Reason::Del,
            // What was not answered may still be done.
            is_fresh: failure.code == Code::TryLater,
            home: Some(self.pools.home.clone()),
        };
        // The first failure is the one to tell of.
        drop(release::settle(self.site, &[debt]));
    }
}

fn told(refusal: Refusal, pools: &Pools<Api>) -> Failure {
    match refusal {
        Refusal::Exhausted { range, holders, .. } => {
            let named =
                if holders.is_empty() { String::new() } else { format!("held by {}, ...; ", holders.join(", ")) };
            let message = format!("no address of {range} is free in IPPool {}", pools.title(range));
            Failure::new(Code::Exhausted, message)
                .with(format!("{named}delete pods, exclude less, or use a larger range"))
        }
        other => Failure::new(Code::Unavailable, other.to_string()),
    }
}
