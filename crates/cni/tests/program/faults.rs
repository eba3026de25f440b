//! What may happen to the program and its files: kill -9, torn and damaged journals, disks that take nothing, many at once.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use cni::grants::Grants;
use cni::journal::{BootId, Image, Journal, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::plugin::hexadecimal;
use serde_json::json;

use crate::harness::{Answer, Call, Node, PROGRAM, answer};

#[test]
fn many_at_once_never_get_the_same_address_and_all_get_one() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let given: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..32)
            .map(|worker| {
                let node = &node;
                scope.spawn(move || -> Vec<String> {
                    let mut mine = Vec::new();
                    for round in 0..4 {
                        let container = format!("c{worker}-{round}");
                        mine.extend(node.add(&container));
                        if round == 2 {
                            node.del(&container);
                            mine.pop();
                        }
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(given.len(), 96);
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 96, "{given:?}");
    assert_eq!(node.held(), 96);
}

#[test]
fn who_is_killed_anywhere_has_given_the_address_or_not_and_says_the_same_when_asked_again() {
    let node = Node::whole("10.0.0.0/22", json!({}));
    let mut owned = BTreeSet::new();
    for round in 0..150_u32 {
        let container = format!("c{round}");
        // The later the round, the further it comes before it is killed.
        node.of("ADD", &container).kill(round * 400);
        let before = node.held();
        assert!(before == round as usize || before == round as usize + 1);
        let given = node.add(&container);
        assert_eq!(node.held(), round as usize + 1, "what was given before the kill is what is said after it");
        assert!(owned.insert(given), "nobody else has it");
    }
}

#[test]
fn a_journal_cut_at_any_byte_of_its_last_commit_gives_no_address_twice() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    node.add("a");
    let start = end(&node);
    node.add("b");
    let (whole, end) = (fs::read(node.place().journal()).unwrap(), end(&node));
    for cut in start..=end {
        fs::write(node.place().journal(), &whole[..cut]).unwrap();
        // What a crash cut off nobody was told of, so it is free; what is there is held.
        let expected = if cut == end { "10.0.0.3/24" } else { "10.0.0.2/24" };
        assert_eq!(node.of("ADD", "c").run().ips(), [expected], "cut at {cut}");
        assert_eq!(node.of("ADD", "a").run().ips(), ["10.0.0.1/24"], "cut at {cut}");
        assert!(node.of("DEL", "c").run().is_silent());
    }
}

/// Where the last commit of the journal ends.
fn end(node: &Node) -> usize {
    fs::read(node.place().journal()).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn a_damaged_journal_gives_nothing_new_and_still_takes_back() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    for container in ["a", "b", "c"] {
        node.add(container);
    }
    let sound = fs::read(node.place().journal()).unwrap();
    node.damage("default/b");
    let (code, message, _) = node.of("ADD", "d").exec().failure();
    assert!(code == 5 && message.contains("journal is damaged at byte "), "{message}");
    assert_eq!(node.call("STATUS").exec().code(), 5);
    assert_eq!(node.add("a"), ["10.0.0.1/24"], "what is known is said");
    let lost = node.of("CHECK", "b").conf("/prevResult", json!({"ips": [{"address": "10.0.0.2/24"}]}));
    assert_eq!(lost.exec().code(), 5, "what it holds cannot be read");
    node.del("a");
    assert_eq!(node.of("ADD", "d").exec().code(), 5, "one that ended does not mend it");

    fs::write(node.place().journal(), &sound[..40]).unwrap();
    let (code, message, _) = node.of("ADD", "d").exec().failure();
    assert!(code == 5 && message.contains("cannot be read"), "{message}");
    assert_eq!(node.of("DEL", "b").exec().code(), 5);
    assert_eq!(fs::read(node.place().journal()).unwrap(), &sound[..40], "and it is left as it is");
}

#[test]
fn a_mend_that_was_cut_off_at_any_step_gives_nothing_twice() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    node.add("a");
    node.add("b");
    let (place, new) = (node.place(), node.place().journal().with_extension("new"));
    let old = fs::read(place.journal()).unwrap();
    let image = Image::read(&place).unwrap();
    let known = hexadecimal(&image.header().unwrap().id);
    let grants = Grants { journal: Some(known), ..Grants::read(&place).unwrap() };
    node.write_grants(&grants);
    // What the agent writes: the same holdings under another name.
    let (id, book) = ([9; 16], image.book());
    let records: Vec<_> = book.holdings().iter().cloned().map(Record::Hold).collect();
    let lock = Lock::take(&place, PATIENCE).unwrap();
    Journal::begin(&place, &lock, book.next(), &records, Renewal { id, boot: BootId::UNKNOWN }).unwrap();
    drop(lock);
    let mended = fs::read(place.journal()).unwrap();
    let is_as_before = |at: &str| {
        assert_eq!(node.add("a"), ["10.0.0.1/24"], "{at}");
        assert_eq!(node.add("c"), ["10.0.0.3/24"], "{at}");
        node.del("c");
    };

    // The new journal is written, in part or whole, and not in its place.
    for cut in [0, 63, 64, 100, mended.len()] {
        fs::write(place.journal(), &old).unwrap();
        fs::write(&new, &mended[..cut]).unwrap();
        is_as_before(&format!("{cut} bytes beside it"));
    }
    // It is in its place, and the grants still name the other.
    fs::rename(&new, place.journal()).unwrap();
    for call in ["ADD", "STATUS"] {
        let (code, message, _) = node.of(call, "c").exec().failure();
        let expected = if call == "ADD" { 11 } else { 50 };
        assert!(code == expected && message.contains("and the agent knows"), "{call}: {code} {message}");
    }
    node.del("b");
    assert_eq!(node.held(), 1, "and it takes back");
    // The grants are beside their place too; then they are there.
    let named = Grants { journal: Some(hexadecimal(&id)), ..grants };
    fs::write(place.grants().with_extension("new"), "{\"version\": 1, \"jour").unwrap();
    assert_eq!(node.of("ADD", "c").exec().code(), 11);
    node.write_grants(&named);
    assert_eq!(node.add("a"), ["10.0.0.1/24"]);
    assert_eq!(node.add("c"), ["10.0.0.2/24"]);
}

#[test]
fn who_would_wait_for_others_without_a_thread_is_to_come_later() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    node.add("a");
    let lock = Lock::take(&node.place(), PATIENCE).unwrap();
    // No system starts a thread with such a stack: it refuses, as it does at a limit of processes.
    let starved = |call: &str| node.of(call, "b").with("RUST_MIN_STACK", "1152921504606846976").exec();
    for call in ["ADD", "DEL"] {
        let (code, message, _) = starved(call).failure();
        assert!(code == 11 && message.contains("a thread that could not be started"), "{call}: {code} {message}");
    }
    drop(lock);
    assert_eq!(starved("ADD").ips(), ["10.0.0.2/24"], "it needs one only to wait");
}

#[test]
fn a_first_commit_that_was_cut_off_gave_nothing() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    node.add("lost");
    let whole = fs::read(node.place().journal()).unwrap();
    for cut in [0, 1, 64, end(&node), whole.len()] {
        fs::remove_file(node.place().journal()).unwrap();
        fs::write(node.place().journal().with_extension("new"), &whole[..cut]).unwrap();
        assert!(node.of("DEL", "lost").exec().is_silent(), "{cut} bytes beside it");
        assert_eq!(node.add("next"), ["10.0.0.1/24"], "{cut} bytes beside it");
    }
    // A journal without a byte is not one that was never there: what made it so may have taken holdings with it.
    fs::write(node.place().journal(), "").unwrap();
    for call in ["ADD", "DEL", "STATUS"] {
        let (code, message, _) = node.of(call, "next").exec().failure();
        assert!(code == 5 && message.contains("cannot be read"), "{call}: {code} {message}");
    }
}

/// Runs the program where no file may grow beyond `blocks` of 512 bytes, as on a full disk.
fn exec_within(blocks: u32, call: &Call) -> Answer {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {PROGRAM}");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).env_clear().envs(call.environment()).stdin(Stdio::piped());
    answer(&mut shell, &call.conf.to_string())
}

#[test]
fn where_nothing_can_be_written_nothing_is_given_and_nothing_is_lost() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let first = exec_within(0, &node.of("ADD", "a"));
    assert_eq!(first.code(), 5, "a journal that cannot be made: {first:?}");
    assert!(!node.place().journal().exists());
    node.add("a");
    let sound = fs::read(node.place().journal()).unwrap();
    let (code, message, _) = exec_within(0, &node.of("ADD", "b")).failure();
    assert!(code == 5 && message.contains("journal"), "{message}");
    assert_eq!(exec_within(0, &node.of("DEL", "a")).code(), 5, "what is not written down has not ended");
    assert_eq!(node.held(), 1);
    let image = fs::read(node.place().journal()).unwrap();
    assert!(sound.starts_with(&image) && image.len() >= end(&node), "nothing of what failed is left");
    assert_eq!(node.add("b"), ["10.0.0.2/24"]);
    let blocks = fs::metadata(node.place().journal()).unwrap().len().div_ceil(512) as u32;
    assert!(exec_within(blocks, &node.of("DEL", "a")).is_silent(), "a full disk has room for what ends");
}

#[test]
fn a_write_that_stops_halfway_leaves_nothing_behind() {
    let node = Node::whole("10.0.0.0/24", json!({}));
    let mut held = 0;
    // Until the next commit, which is longer than this, would go beyond the end of a block.
    loop {
        node.add(&format!("c{held}"));
        held += 1;
        if end(&node) % 512 > 412 {
            break;
        }
    }
    let mut bytes = fs::read(node.place().journal()).unwrap();
    bytes.truncate(end(&node));
    fs::write(node.place().journal(), &bytes).unwrap();
    let blocks = bytes.len().div_ceil(512) as u32;
    assert_eq!(exec_within(blocks, &node.of("ADD", "late")).code(), 5);
    assert_eq!(fs::read(node.place().journal()).unwrap(), bytes);
    assert_eq!(node.held(), held);
}

#[test]
fn a_journal_in_use_for_long_stays_small_and_sound() {
    let node = Node::whole("10.0.0.0/16", json!({}));
    for round in 0..1000 {
        assert!(node.of("ADD", &format!("c{round}")).run().is_success);
        if round >= 20 {
            assert!(node.of("DEL", &format!("c{}", round - 20)).run().is_silent());
        }
    }
    assert_eq!(node.held(), 20);
    let image = Image::read(&node.place()).unwrap();
    assert!(image.header().unwrap().rewrites > 1);
    assert!(fs::metadata(node.place().journal()).unwrap().len() < 200 << 10);
    let files: Vec<_> = fs::read_dir(node.place().folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
}
