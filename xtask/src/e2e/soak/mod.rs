//! The suite `soak`: informers of client-go and reflectors of kube-rs follow random writes on two replicas over one etcd, while
//! connections are cut and servers are killed and started again. In the end every cache is what the servers and etcd have, and what
//! each follower was told is ordered, unique, reliable, resumable and bookmarkable.

mod book;
mod faults;
mod kinds;
mod witness;
mod writers;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::real::Wire;

use self::book::{Book, Fact, Objects, difference};
use self::faults::{Faults, Struck};
use self::kinds::{KINDS, LAST, NAMESPACES, namespace};
use self::writers::{Progress, Writer};
use super::check::{self, Counts};
use super::client::{Client, Reply};
use super::guest::{Guest, Line, Order};
use super::history::{Act, Fate, History, Listed, Revision, Seen, Watched, Write};
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::stand::{Stand, done};
use super::{Options, Place, gateway, kube_rs};
use crate::go;

pub(super) const SUITE: &str = "soak";
const WRITERS: u64 = 16;
const WRITES: u64 = 1_000_000;
const QUICK_WRITES: u64 = 10_000;
/// From so many on, a soak in which nothing went wrong has to have tried everything that can.
const PROVING_WRITES: u64 = 100_000;
/// A follower lists once, and may have to list again after a server was killed; more often means that watches do not resume.
const LISTS_PER_FOLLOWER: usize = 2;
/// How long nothing may be acknowledged.
const IDLE: Duration = Duration::from_mins(2);
/// How long everybody may take to come to an end.
const PATIENCE: Duration = Duration::from_mins(2);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// What all keys of ours begin with in etcd.
const PREFIX: &str = "/cadastre/";

/// Runs the soak, which is one case.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let usual = if options.quick { QUICK_WRITES } else { WRITES };
    let writes = options.writes.unwrap_or(usual);
    let seed = options.seed();
    let began = Instant::now();
    let came = soak(servers, &folder, writes, seed).with_context(|| format!("the seed was {seed}"));
    let outcome = came.map_or_else(|why| Outcome::Failed(format!("{why:#}")), Outcome::Ok);
    let name = format!("{writes} random writes are followed by everybody (seed {seed})");
    report.case(SUITE, place, &name, &outcome, began.elapsed());
    Ok(())
}

fn soak(servers: &Servers, folder: &Path, wanted: u64, seed: u64) -> Result<String> {
    let go =
        go::found().with_context(|| format!("the clients are built with Go {}, which is not here", go::VERSION))?;
    let programs = [("client-go", go::peer(&go, "clients")?), ("kube-rs", kube_rs::build()?)];
    let mut stand = Stand::start(servers, Place::Replicas, folder, &[])?;
    let etcd = stand.etcd.as_ref().context("no etcd")?.url().to_owned();
    let mut client = stand.client(0)?;
    for number in 0..NAMESPACES {
        let body = json!({"metadata": {"name": namespace(number)}});
        done(client.send("POST", "/api/v1/namespaces", Some(&body)))?;
    }
    let from = revision(&done(client.send("GET", "/api/v1/namespaces", None))?);

    // Writers and witnesses have a wire to each replica, guests one that is led from one to the other.
    let wires: Vec<_> = stand.addresses.iter().map(|address| Wire::to(address)).collect::<Result<_, _>>()?;
    let targets: Vec<_> = wires.iter().map(|wire| stand.target(&wire.address())).collect::<Result<_>>()?;
    let (mut guests, mut guest_wires) = (Vec::new(), Vec::new());
    for (name, program) in programs {
        let wire = Wire::to(&stand.addresses[guests.len() % stand.addresses.len()])?;
        let order = Order::new(&stand, &wire).follow(folder);
        let mut guest = Guest::start(&mut Command::new(program), &order, &folder.join(format!("{name}.log")))?;
        match guest.next()? {
            Some(Line::Following { following }) => eprintln!("{name}: {following} followers"),
            _ => bail!("{name} does not follow"),
        }
        guests.push(guest);
        guest_wires.push(wire);
    }
    let give_up = Arc::new(AtomicBool::new(false));
    let witnesses = KINDS.each_ref().map(|kind| {
        let (targets, give_up) = (targets.clone(), give_up.clone());
        thread::spawn(move || witness::follow(&targets, kind, from, &give_up))
    });
    let progress = Arc::new(Progress { wanted, ..Progress::default() });
    let writers = (0..WRITERS).map(|number| {
        let (mut writer, progress) = (Writer::new(&targets, number, seed), progress.clone());
        thread::spawn(move || {
            writer.run(&progress);
            writer
        })
    });
    let writers: Vec<_> = writers.collect();

    let began = Instant::now();
    let mut faults = Faults::new(&mut stand, &wires, &guest_wires, seed);
    let struck = strike(&mut faults, &progress, began);
    let struck = match struck {
        Ok(struck) => struck,
        Err(why) => {
            // Nobody is to wait for writers that cannot come to an end.
            progress.acknowledged.store(wanted, Ordering::Relaxed);
            give_up.store(true, Ordering::Relaxed);
            return Err(why);
        }
    };
    let took = began.elapsed();
    let mut history = History::default();
    for writer in writers {
        let writer = writer.join().map_err(|_| anyhow::anyhow!("a writer fell over"))?;
        history.writes.extend(writer.writes);
        history.looks.extend(writer.looks);
    }
    eprintln!("writers are done; the rest is to follow");
    history.writes.extend(last(&mut client)?);
    for guest in &mut guests {
        guest.tell("finish")?;
    }
    history.end = listed(&mut client)?;
    let others = listed(&mut stand.client(1)?)?;
    let ending = Instant::now();
    while ending.elapsed() < PATIENCE && !witnesses.iter().all(thread::JoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(20));
    }
    give_up.store(true, Ordering::Relaxed);
    let mut saw = Vec::new();
    for witness in witnesses {
        saw.push(witness.join().map_err(|_| anyhow::anyhow!("a witness fell over"))?);
    }
    for guest in &mut guests {
        while let Some(line) = guest.next()? {
            if let Line::Verdict { case, ok: false, said, .. } = line {
                bail!("{case}: {said}");
            }
        }
    }
    let kept = kept(&etcd)?;
    let (one, other) = (objects(&history.end), objects(&others));
    ensure!(one == other, "the lists of the two servers differ: {}", difference(&one, &other));
    let judged = judge(folder, history, &saw, &kept)?;
    if wanted >= PROVING_WRITES {
        proves(&judged, struck)?;
    }
    Ok(told(&judged, &struck, took))
}

/// Has faults strike until enough was written, and says how far that is.
fn strike(faults: &mut Faults<'_>, progress: &Progress, began: Instant) -> Result<Struck> {
    let (mut told, mut last) = (Instant::now(), 0);
    let (mut moved, mut seen) = (Instant::now(), 0);
    loop {
        let acknowledged = progress.acknowledged.load(Ordering::Relaxed);
        if acknowledged > seen {
            (moved, seen) = (Instant::now(), acknowledged);
        }
        ensure!(moved.elapsed() < IDLE, "nothing was acknowledged for {} s after {seen} writes", IDLE.as_secs());
        if acknowledged >= progress.wanted {
            return faults.end();
        }
        if told.elapsed() >= TELL_EVERY {
            let rate = per_second(acknowledged - last, told.elapsed());
            let Struck { kills, cuts, switches, .. } = faults.struck();
            eprintln!(
                "{:>6.0} s: {acknowledged} of {} writes, {rate}/s; {kills} servers killed, {cuts} wires cut, {switches} led \
                 elsewhere",
                began.elapsed().as_secs_f64(),
                progress.wanted
            );
            (told, last) = (Instant::now(), acknowledged);
        }
        faults.next()?;
    }
}

/// Writes what is last of each kind.
fn last(client: &mut Client) -> Result<Vec<Write>> {
    let (namespace, name) = LAST.split_once('/').context("a namespace and a name")?;
    let written = KINDS.iter().enumerate().map(|(number, kind)| {
        let mark = number as u64 + 1;
        let began = Instant::now();
        let body = kind.body(name, mark, None);
        // The connection may be one to a server that was killed; the next try has a new one.
        let path = kind.of(namespace);
        let created = match client.send("POST", &path, Some(&body)) {
            Reply::Lost | Reply::Unsent => done(client.send("POST", &path, Some(&body)))?,
            reply @ Reply::Answer(..) => done(reply)?,
        };
        let object = format!("{}/{LAST}", kind.resource);
        let fate = Fate::Done(Some(revision(&created)));
        Ok(Write { object, act: Act::Create, mark, base: None, began, ended: Instant::now(), fate })
    });
    written.collect()
}

/// All that writers wrote, as the server lists it.
fn listed(client: &mut Client) -> Result<Listed> {
    let mut listed = Listed::default();
    for kind in &KINDS {
        let list = done(client.send("GET", &kind.all(), None))?;
        listed.revision = listed.revision.max(revision(&list));
        for item in list["items"].as_array().context("no list")? {
            if let Some((object, mark)) = kinds::identity(kind, item) {
                listed.objects.push((object, revision(item), mark));
            }
        }
    }
    Ok(listed)
}

/// All that writers wrote, as etcd keeps it.
fn kept(etcd: &str) -> Result<Objects> {
    let mut objects = Objects::new();
    for kept in gateway::everything(etcd, PREFIX)? {
        let Ok(object) = serde_json::from_slice::<Value>(&kept.value) else { continue };
        let Some(kind) = kinds::of_object(&object) else { continue };
        if let Some((name, mark)) = kinds::identity(kind, &object) {
            // In etcd the resource has its group behind it.
            let place = name.strip_prefix(kind.resource).is_some_and(|place| kept.key.ends_with(place));
            ensure!(place, "{name} is kept under {}", kept.key);
            objects.insert(name, (kept.revision, mark));
        }
    }
    Ok(objects)
}

/// What is in a list, by name.
fn objects(listed: &Listed) -> Objects {
    listed.objects.iter().map(|(object, revision, mark)| (object.clone(), (*revision, *mark))).collect()
}

fn revision(object: &Value) -> Revision {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What was looked at, and held.
struct Judged {
    counts: Counts,
    resumed: usize,
    followers: usize,
    followed: book::Counts,
    objects: usize,
}

/// Holds writes against what the witnesses saw, the books of all followers against that, and the end against the list and etcd.
fn judge(folder: &Path, mut history: History, seen: &[Watched], kept: &Objects) -> Result<Judged> {
    let mut wrongs = Vec::new();
    let listed = objects(&history.end);
    if listed != *kept {
        wrongs.push(format!("the list is not what etcd has: {}", difference(&listed, kept)));
    }
    let (mut followers, mut followed) = (0, book::Counts::default());
    for (kind, watched) in KINDS.iter().zip(seen) {
        let facts = facts(watched);
        for path in books(folder, kind.resource)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let book = Book::read(BufReader::new(File::open(&path)?)).with_context(|| name.clone())?;
            match book.judge(&facts) {
                Ok(book::Counts { events, bookmarks, lists }) => {
                    followed.events += events;
                    followed.bookmarks += bookmarks;
                    followed.lists += lists;
                }
                Err(found) => wrongs.extend(found.iter().map(|wrong| format!("{name}: {wrong}"))),
            }
            followers += 1;
        }
    }
    // Kinds share one history: what the witnesses saw of each is put together again.
    history.watchers = vec![together(seen)];
    let counts = check::check(&history).map_err(|found| wrongs.extend(found));
    match counts {
        Ok(counts) if wrongs.is_empty() => {
            let resumed = seen.iter().map(|watched| watched.resumed).sum();
            Ok(Judged { counts, resumed, followers, followed, objects: kept.len() })
        }
        _ => bail!("{}\nthe books are in {}", wrongs.join("\n"), folder.display()),
    }
}

/// Whether there was enough of everything to show that it is borne.
fn proves(judged: &Judged, struck: Struck) -> Result<()> {
    let Struck { kills, cuts, switches, calms } = struck;
    ensure!(kills > 0 && cuts > 0 && switches > 0, "too little went wrong: {struck:?}");
    ensure!(judged.resumed > 0, "no watch of a witness was resumed");
    let told_how_far = judged.followed.bookmarks;
    // Every calm is long enough for each follower to be told once, and only those that list meanwhile may not be.
    let fewest = (calms * judged.followers / 2).max(1);
    ensure!(told_how_far >= fewest, "only {told_how_far} bookmarks in {calms} times of calm");
    let most = judged.followers * LISTS_PER_FOLLOWER;
    ensure!(
        judged.followed.lists <= most,
        "{} followers listed {} times, and {most} would do: watches do not resume",
        judged.followers,
        judged.followed.lists
    );
    Ok(())
}

/// The books on one kind.
fn books(folder: &Path, resource: &str) -> Result<Vec<std::path::PathBuf>> {
    let ending = format!("-{resource}.book");
    let mut books = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&ending)) {
            books.push(path);
        }
    }
    ensure!(!books.is_empty(), "nobody followed {resource}");
    Ok(books)
}

/// The events that a witness saw.
fn facts(watched: &Watched) -> Vec<Fact> {
    let fact = |seen: &Seen| match seen {
        Seen::Event { change, object, revision, mark } => {
            Some(Fact { change: *change, object: object.clone(), revision: *revision, mark: *mark })
        }
        Seen::Bookmark(_) => None,
    };
    watched.seen.iter().filter_map(fact).collect()
}

/// What several witnesses saw as one, in the order of revisions. That each saw its own in order is looked at first.
fn together(seen: &[Watched]) -> Watched {
    let mut all = Watched::default();
    for watched in seen {
        all.resumed += watched.resumed;
        all.ended += watched.ended;
        let out_of_order = check::ordered_and_unique(watched).into_iter().next();
        all.broken = all.broken.or_else(|| watched.broken.clone()).or(out_of_order);
        all.seen.extend(watched.seen.iter().filter(|seen| matches!(seen, Seen::Event { .. })).cloned());
    }
    all.seen.sort_by_key(|seen| match seen {
        Seen::Event { revision, .. } | Seen::Bookmark(revision) => *revision,
    });
    all
}

fn per_second(count: u64, took: Duration) -> u128 {
    u128::from(count) * 1000 / took.as_millis().max(1)
}

fn told(judged: &Judged, struck: &Struck, took: Duration) -> String {
    let Judged { counts, resumed, followers, followed, objects } = judged;
    let Counts { acknowledged, unknown, unknown_and_done, refused, looks, .. } = counts;
    let Struck { kills, cuts, switches, calms } = struck;
    format!(
        "{acknowledged} writes acknowledged and none lost in {:.0} s ({}/s), {unknown} with unknown end ({unknown_and_done} of \
         them done), {refused} refused, {looks} reads\n{kills} servers killed, {cuts} wires cut, {switches} led elsewhere, {calms} \
         times of calm; the witnesses' watches resumed {resumed} times\n{followers} followers were told {} events, {} bookmarks and {} lists, and \
         nothing wrong; {objects} objects at the end, in every cache as in the lists and in etcd",
        took.as_secs_f64(),
        per_second(*acknowledged as u64, took),
        followed.events,
        followed.bookmarks,
        followed.lists,
    )
}
