//! Ours and the real server side by side: the same step on both, and then the same state.
//!
//! What controllers do takes its time, and each server has its own. So a step is only taken where both have come to rest, and what
//! ranges become is compared when it has become that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::excuse::{self, Excuse};
use super::holdings::{addresses, is_services};
use super::ranges::{self, Heirs, Ranges};
use super::shown;
use super::side::{PATIENCE, Side, Taken};
use super::steps::{About, OTHER, Step, namespace_of};
use crate::e2e::method::Method;

/// The range that the cluster was started with.
const FIRST: &str = "kubernetes";

pub(super) struct Pair {
    pub(super) ours: Side,
    pub(super) theirs: Side,
    families: Vec<&'static str>,
    /// The addresses that were in use before anything was written.
    first: Vec<String>,
    /// How often each difference was excused.
    excused: BTreeMap<Excuse, u32>,
    /// How many steps are to be taken.
    steps: u32,
    /// The ranges of ours that were excused because they can never give anything, by uid.
    unusable: BTreeSet<String>,
    /// The ranges of the real server that were written so that its controller looks at them again, and when.
    touched: BTreeMap<String, Instant>,
    /// What was done, for whoever wants to know how something came about.
    log: File,
    began: Instant,
}

/// What came of a step on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Done,
    Refused,
    Excused,
    /// It was not taken, because what it is about is in motion.
    Nothing,
}

impl Pair {
    /// Waits until the controllers beside the real server have begun.
    pub(super) fn new(mut ours: Side, theirs: Side, steps: u32, log: File) -> Result<Self> {
        let families = ours.families()?;
        let first = ours.all(About::Address)?.iter().filter_map(name).map(str::to_owned).collect();
        let (excused, unusable, touched, began) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), Instant::now());
        let mut pair = Self { ours, theirs, families, first, excused, steps, unusable, touched, log, began };
        pair.come_to_rest()?;
        Ok(pair)
    }

    /// Takes a step on both sides; an error if they differ and nothing excuses it.
    pub(super) fn take(&mut self, step: &Step) -> Result<Came> {
        if step.about == About::Range && !self.is_at_rest(step)? {
            return Ok(Came::Nothing);
        }
        if step.about == About::Range && step.method == Method::Delete && !step.is_dry() {
            self.evict(step)?;
        }
        let (mine, expected) = self.take_on_both(step)?;
        let without_picks = |taken: &Taken| self.ours.without_all_picks(taken);
        if mine != expected && excuse::differ_in_dry_picks(step, &mine, &expected, without_picks) {
            self.excuse(Excuse::DryRunPicks)?;
            return self.take_in_earnest(step, &mine);
        }
        let came = self.judge(step, &mine, &expected)?;
        if came == Came::Done && step.about == About::Namespace {
            self.renew_other().with_context(|| format!("after {step}"))?;
        }
        Ok(came)
    }

    /// What the real server says to a dry run does not tell what it would have done. So that is now done on both, and must be what ours
    /// has said.
    fn take_in_earnest(&mut self, step: &Step, said: &Taken) -> Result<Came> {
        let earnest = step.in_earnest();
        let (done, expected) = self.take_on_both(&earnest)?;
        ensure!(done == *said, "{step}\nours says: {said}\nand does:  {done}");
        self.judge(&earnest, &done, &expected).map(|_| Came::Excused)
    }

    /// What comes of a step on ours and on the real server.
    fn take_on_both(&mut self, step: &Step) -> Result<(Taken, Taken)> {
        let (mine, mut expected) = (self.ours.take(step)?, self.theirs.take(step)?);
        self.note(&format!("{step}: {} and {}", mine.code, expected.code))?;
        if expected.is_full() && !mine.is_full() {
            self.sweep()?;
            expected = self.theirs.insist(step, expected)?;
            if !expected.is_full() {
                self.excuse(Excuse::LateFrees)?;
            }
        }
        Ok((mine, expected))
    }

    /// Whether what came of a step on both sides is the same, or known to differ; an error if it is neither.
    fn judge(&mut self, step: &Step, mine: &Taken, expected: &Taken) -> Result<Came> {
        if mine != expected {
            let Some(excuse) = excuse::find(step, mine, expected, self)? else {
                bail!("{step}\nours:   {mine}\ntheirs: {expected}");
            };
            self.excuse(excuse)?;
            self.forget(step, mine, expected)?;
            self.sweep()?;
            return Ok(Came::Excused);
        }
        if step.about == About::Service {
            self.sweep()?;
        }
        if step.leaves_nobodys() && expected.is_done() && !step.is_dry() {
            self.remove(About::Address, &BTreeSet::from([step.name.clone()]))?;
        }
        if step.about == About::Range && expected.is_done() && !step.is_dry() {
            self.compare_ranges().with_context(|| format!("after {step}"))?;
            self.probe(step).with_context(|| format!("after {step}"))?;
        }
        Ok(if expected.is_done() { Came::Done } else { Came::Refused })
    }

    /// Waits until the other namespace, which was deleted, is gone with all that was in it, and makes it again. What somebody's finalizer
    /// keeps keeps it, too, and then nothing new can be made in it.
    fn renew_other(&mut self) -> Result<()> {
        self.ours.until_emptied()?;
        self.theirs.until_emptied()?;
        self.sweep()?;
        self.compare_services()?;
        self.compare_addresses()?;
        let mut kept: BTreeSet<_> = self.ours.all(About::Service)?.iter().filter_map(name).map(str::to_owned).collect();
        kept.retain(|name| namespace_of(name) == OTHER);
        if !kept.is_empty() {
            let late = Step::late_create(OTHER);
            let (mine, expected) = self.take_on_both(&late)?;
            ensure!(mine == expected && !mine.is_done(), "{late}\nours:   {mine}\ntheirs: {expected}");
        }
        self.remove(About::Service, &kept)?;
        self.ours.make_other()?;
        self.theirs.make_other()
    }

    /// Waits until nothing is in motion, and compares all that there is.
    pub(super) fn compare(&mut self) -> Result<()> {
        self.come_to_rest()?;
        self.compare_ranges()?;
        self.compare_services()?;
        self.compare_addresses()?;
        self.ours.agrees()
    }

    /// Removes everything, so that both sides have the same again.
    pub(super) fn start_over(&mut self) -> Result<()> {
        for about in [About::Service, About::Address, About::Range] {
            let all = self.ours.all(about)?.into_iter().chain(self.theirs.all(about)?);
            let mut names: BTreeSet<_> = all.filter_map(|object| name(&object).map(str::to_owned)).collect();
            names.retain(|name| name != FIRST && !self.first.contains(name));
            self.remove(about, &names)?;
        }
        self.ours.make_other()?;
        self.theirs.make_other()?;
        self.come_to_rest()
    }

    /// Writes down what is done.
    pub(super) fn note(&mut self, what: &str) -> Result<()> {
        Ok(writeln!(self.log, "{:9.3} {what}", self.began.elapsed().as_secs_f64())?)
    }

    /// Counts something that is known to differ; an error if it does so too often, where that says something.
    fn excuse(&mut self, excuse: Excuse) -> Result<()> {
        self.note(&format!("excused: {}", excuse.name()))?;
        let count = self.excused.entry(excuse).or_default();
        *count += 1;
        let (count, steps, name) = (*count, self.steps, excuse.name());
        let most = excuse.most(steps).unwrap_or(u32::MAX);
        ensure!(count <= most, "`{name}` excuses {count} times in {steps} steps, and may {most} times");
        Ok(())
    }

    /// What was excused, and how often.
    pub(super) fn excused(&self) -> String {
        let named: Vec<String> =
            self.excused.iter().map(|(excuse, count)| format!("{} {count}", excuse.name())).collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    }

    /// Whether the ranges that a step is about look the same on both sides, and stay as they are.
    fn is_at_rest(&mut self, step: &Step) -> Result<bool> {
        let (mine, expected) = (self.ours.ranges()?, self.theirs.ranges()?);
        let names = if step.name.is_empty() {
            concerned(step, &mine).chain(concerned(step, &expected)).map(str::to_owned).collect()
        } else {
            BTreeSet::from([step.name.clone()])
        };
        let going = |name: &String| {
            let is = |side: &Side, ranges: &Ranges| {
                ranges.named(name).is_some_and(|range| ranges.is_going(range, side.heirs))
            };
            is(&self.ours, &mine) || is(&self.theirs, &expected)
        };
        Ok(!names.iter().any(going)
            && names.iter().all(|name| mine.named(name).is_some() == expected.named(name).is_some()))
    }

    /// Removes the Services that were given an address at random of a range that is to go: each server gave its own.
    fn evict(&mut self, step: &Step) -> Result<()> {
        let mut names = BTreeSet::new();
        for side in [&mut self.ours, &mut self.theirs] {
            let ranges = side.ranges()?;
            let going: Vec<_> = concerned(step, &ranges).filter_map(|name| ranges.named(name)).collect();
            let first = ranges.named(FIRST).context("the first range is gone")?;
            let is_in_motion = |address: IpAddr| {
                !shown::is_named(&address.to_string())
                    && !ranges::has(first, address)
                    && going.iter().any(|range| ranges::has(range, address))
            };
            for service in side.all(About::Service)? {
                if addresses(&service["spec"]).any(is_in_motion) {
                    names.extend(service["metadata"]["name"].as_str().map(str::to_owned));
                }
            }
        }
        self.remove(About::Service, &names)
    }

    fn remove(&mut self, about: About, names: &BTreeSet<String>) -> Result<()> {
        for name in names {
            self.note(&format!("{about:?} {name} is removed"))?;
            self.ours.remove(about, name)?;
            self.theirs.remove(about, name)?;
        }
        Ok(())
    }

    /// Removes what a step was about and whatever has the addresses that it names, so that both sides have the same again.
    fn forget(&mut self, step: &Step, mine: &Taken, expected: &Taken) -> Result<()> {
        let said = format!("{step} {} {}", mine.message(), expected.message());
        let named: BTreeSet<IpAddr> = said
            .split(|sign: char| !sign.is_ascii_hexdigit() && sign != '.' && sign != ':')
            .filter_map(|word| word.trim_end_matches(':').parse().ok())
            .collect();
        let mut services = BTreeSet::new();
        if step.about == About::Service {
            let all = self.ours.all(About::Service)?.into_iter().chain(self.theirs.all(About::Service)?);
            services.extend(all.filter(|one| step.is_about(one)).filter_map(|one| name(&one).map(str::to_owned)));
        }
        for address in &named {
            services.extend(self.ours.holders(*address)?);
            services.extend(self.theirs.holders(*address)?);
        }
        for port in [mine, expected].into_iter().filter_map(|taken| excuse::taken_port(taken.message())) {
            services.extend(self.ours.port_holders(port)?);
            services.extend(self.theirs.port_holders(port)?);
        }
        services.remove(FIRST);
        self.remove(About::Service, &services)?;
        let mut left: BTreeSet<_> = named.iter().map(ToString::to_string).collect();
        if step.about == About::Address && step.name.is_empty() {
            let all = self.ours.all(About::Address)?.into_iter().chain(self.theirs.all(About::Address)?);
            let by_hand = all.filter(|address| !is_services(address));
            left.extend(by_hand.filter_map(|address| name(&address).map(str::to_owned)));
        }
        self.remove(About::Address, &left)
    }

    /// Waits until all ranges are as they will be.
    fn come_to_rest(&mut self) -> Result<()> {
        self.until("come to rest", Ranges::is_settled).map(drop)
    }

    /// Waits until that holds of all ranges of both sides; what they are like then.
    fn until(&mut self, what: &str, holds: fn(&Ranges, &Value, Heirs) -> bool) -> Result<[Ranges; 2]> {
        loop {
            let (theirs, mine) = (self.until_of(false, what, holds)?, self.until_of(true, what, holds)?);
            if !self.excuse_orphans(&mine, &theirs)? {
                return Ok([mine, theirs]);
            }
        }
    }

    /// The same for one side, which watches of it tell.
    fn until_of(&mut self, is_ours: bool, what: &str, holds: fn(&Ranges, &Value, Heirs) -> bool) -> Result<Ranges> {
        let began = Instant::now();
        loop {
            let side = if is_ours { &mut self.ours } else { &mut self.theirs };
            let (ranges, from) = side.look()?;
            if ranges.all.iter().all(|range| holds(&ranges, range, side.heirs)) {
                return Ok(ranges);
            }
            let whose = if is_ours { "our ranges" } else { "the ranges of the real server" };
            ensure!(began.elapsed() < PATIENCE, "{whose} do not {what} within {PATIENCE:?}: {ranges:?}");
            if is_ours || !(self.sweep()? || self.remind(&ranges)?) {
                let side = if is_ours { &mut self.ours } else { &mut self.theirs };
                side.wait(&from)?;
            }
        }
    }

    /// Removes what the real server has left behind, so that nothing depends on when it finds that by itself; whether there was any.
    fn sweep(&mut self) -> Result<bool> {
        let leaked: Vec<_> = self.theirs.held()?.leaked().collect();
        for address in &leaked {
            self.note(&format!("{address} was left behind"))?;
            self.excuse(Excuse::LeftBehind)?;
            self.theirs.remove(About::Address, &address.to_string())?;
        }
        Ok(!leaked.is_empty())
    }

    /// Makes the controller of the real server look again at what it has overlooked; whether there is any.
    fn remind(&mut self, ranges: &Ranges) -> Result<bool> {
        let mut overlooked = ranges.overlooked(Timestamp::now());
        overlooked.retain(|name| self.touched.get(name).is_none_or(|since| since.elapsed() > ranges::LOOKED));
        for name in &overlooked {
            self.note(&format!("the range {name} is overlooked: {:?}", ranges.named(name)))?;
            self.excuse(Excuse::Overlooked)?;
            self.theirs.touch(name)?;
            self.touched.insert(name.clone(), Instant::now());
        }
        Ok(!overlooked.is_empty())
    }

    /// Ranges that ours keeps and the real server let go, because another one that was deleted as well was to have their addresses,
    /// or because it has lost them. Whoever has these is removed, so that they go here, too; whether there were any. What nobody has any
    /// more is kept by somebody's finalizer, and goes without it.
    fn excuse_orphans(&mut self, mine: &Ranges, expected: &Ranges) -> Result<bool> {
        let held = self.theirs.held()?;
        let (mut services, mut addresses) = (BTreeSet::new(), BTreeSet::new());
        for range in mine.all.iter().filter(|range| ranges::is_leaving(range) && ranges::is_protected(range)) {
            let Some(keeper) = mine.keeper(range, self.ours.heirs) else { continue };
            let there = name(range).and_then(|name| expected.named(name));
            let is_let_go = there.is_none_or(|range| ranges::is_leaving(range) && !ranges::is_protected(range));
            if is_let_go && !expected.give(keeper) {
                self.note(&format!("the range {:?} is kept by {keeper} here alone", name(range)))?;
                self.excuse(if held.has_lost(keeper) { Excuse::Lost } else { Excuse::DeletedTogether })?;
                let holders = [self.ours.holders(keeper)?, self.theirs.holders(keeper)?].concat();
                if holders.is_empty() {
                    addresses.insert(keeper.to_string());
                }
                services.extend(holders);
            }
        }
        self.remove(About::Service, &services)?;
        self.remove(About::Address, &addresses)?;
        Ok(!services.is_empty() || !addresses.is_empty())
    }

    /// Compares the ranges that are not on their way out.
    fn compare_ranges(&mut self) -> Result<()> {
        let seen = self
            .until("settle", |ranges, range, heirs| ranges.is_settled(range, heirs) || ranges.is_going(range, heirs))?;
        let names: BTreeSet<_> = seen.iter().flat_map(|ranges| &ranges.all).filter_map(name).collect();
        for name in names {
            let heirs = [self.ours.heirs, self.theirs.heirs];
            let found: Vec<_> = seen.iter().map(|ranges| ranges.named(name)).collect();
            let mut all = seen.iter().zip(&found).zip(heirs);
            if all.any(|((ranges, found), heirs)| found.is_some_and(|range| ranges.is_going(range, heirs))) {
                continue;
            }
            // Nothing but somebody else's finalizer keeps it on one side at least, and what the server says of it there is of whenever it let
            // it go; ours says from the beginning that it is not ready.
            let mut all = seen.iter().zip(&found).zip(heirs);
            let is_let_go = all.any(|((ranges, found), heirs)| {
                found.is_some_and(|range| ranges::is_leaving(range) && ranges.keeper(range, heirs).is_none())
            });
            let shown = |side: &mut Side, range: Option<&Value>| {
                range.map(|range| {
                    let mut shown = side.shown(range.clone());
                    if is_let_go && ranges::is_leaving(range) {
                        shown["status"].take();
                        shown::without_status_managers(&mut shown);
                    }
                    shown
                })
            };
            let mine = shown(&mut self.ours, found[0]);
            let expected = shown(&mut self.theirs, found[1]);
            if mine == expected {
                continue;
            }
            ensure!(
                excuse::is_unusable(mine.as_ref(), expected.as_ref()),
                "the range {name}\nours:   {}\ntheirs: {}",
                json!(mine),
                json!(expected)
            );
            // It is compared again and again.
            let uid = found[0].and_then(|range| range["metadata"]["uid"].as_str()).unwrap_or_default();
            if self.unusable.insert(uid.to_owned()) {
                self.excuse(Excuse::UnusableRange)?;
            }
        }
        Ok(())
    }

    /// Sees that ours gives out of a range if and only if it is open, at once; and waits until the real server does.
    fn probe(&mut self, step: &Step) -> Result<()> {
        let family = |address: &IpAddr| if address.is_ipv6() { "IPv6" } else { "IPv4" };
        // One that was deleted may be gone here already, and is there for some time yet.
        let (ranges, theirs) = (self.ours.ranges()?, self.theirs.ranges()?);
        let named = [&ranges, &theirs].map(|all| concerned(step, all).filter_map(|name| all.named(name)));
        let mut probes: BTreeSet<_> = named.into_iter().flatten().flat_map(ranges::probes).collect();
        probes.retain(|address| self.families.contains(&family(address)));
        for address in probes {
            let open = ranges.give(address);
            let gives = self.ours.gives(address).context("ours")?;
            ensure!(gives == Some(open), "that ours gives {address} is {gives:?} and not {open}");
            if !self.until_gives(address, open)? {
                self.excuse(Excuse::DeletedRangeGives)?;
                return self.start_over();
            }
        }
        Ok(())
    }

    /// Waits until the real server gives an address, or does not; whether it comes to that. It goes on to give what several deleted
    /// ranges have.
    fn until_gives(&mut self, address: IpAddr, whether: bool) -> Result<bool> {
        let began = Instant::now();
        loop {
            let gives = self.theirs.gives(address).context("theirs")?;
            if gives == Some(whether) {
                return Ok(true);
            }
            let theirs = self.theirs.ranges()?;
            if gives.is_some() && !whether && theirs.is_shared(address) {
                return Ok(false);
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "that the real server gives {address} is {gives:?} and not {whether}: {theirs:?}"
            );
            self.sweep()?;
        }
    }

    fn compare_services(&mut self) -> Result<()> {
        let shown = |side: &mut Side| -> Result<BTreeMap<String, Value>> {
            let all = side.all(About::Service)?.into_iter().filter(|service| service["metadata"]["name"] != FIRST);
            Ok(all.map(|service| (name(&service).unwrap_or_default().to_owned(), side.shown(service))).collect())
        };
        let (mine, expected) = (shown(&mut self.ours)?, shown(&mut self.theirs)?);
        ensure!(mine == expected, "Services\nours:   {}\ntheirs: {}", json!(mine), json!(expected));
        Ok(())
    }

    /// Compares what is written of addresses, but for what the real server has left behind or lost.
    fn compare_addresses(&mut self) -> Result<()> {
        let (mut mine, there) = (self.ours.all(About::Address)?, self.theirs.held()?);
        let leaked: BTreeSet<_> = there.leaked().map(|address| address.to_string()).collect();
        let bereft: BTreeSet<_> = there.bereft().filter_map(name).map(str::to_owned).collect();
        for _ in &leaked {
            self.excuse(Excuse::LeftBehind)?;
        }
        for _ in &bereft {
            self.excuse(Excuse::Lost)?;
        }
        let is_bereft =
            |object: &Value| object["spec"]["parentRef"]["name"].as_str().is_some_and(|name| bereft.contains(name));
        let mut expected = there.addresses;
        expected.retain(|object| name(object).is_none_or(|name| !leaked.contains(name)) && !is_bereft(object));
        mine.retain(|object| !is_bereft(object));
        let shown = |side: &mut Side, all: Vec<Value>| {
            let mut shown: Vec<_> = all.into_iter().map(|object| side.shown(object).to_string()).collect();
            shown.sort_unstable();
            shown
        };
        let (mine, expected) = (shown(&mut self.ours, mine), shown(&mut self.theirs, expected));
        ensure!(mine == expected, "addresses\nours:   {mine:?}\ntheirs: {expected:?}");
        Ok(())
    }
}

/// The names of the ranges that a step is about.
fn concerned<'a>(step: &'a Step, ranges: &'a Ranges) -> impl Iterator<Item = &'a str> {
    ranges.all.iter().filter(|range| step.is_about(range)).filter_map(name)
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}
