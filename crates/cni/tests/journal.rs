//! The journal against a naive model, and against everything that can happen to a file.

#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use cni::journal::{
    BootId, End, Holding, Image, Ip, Ips, Journal, JournalError, Netns, Origin, Reason, Record, Renewal,
};
use cni::lock::{Lock, PATIENCE};
use cni::place::Place;
use proptest::prelude::*;

const RENEWAL: Renewal = Renewal { id: [7; 16], boot: BootId([1; 16]) };
const HEADER: usize = 64;

fn holding(sequence: u64, number: u32) -> Holding<'static> {
    let v4 = Ip { address: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), length: 8 };
    let v6 = Ip { address: IpAddr::V6(Ipv6Addr::from(u128::MAX - u128::from(number))), length: 64 };
    Holding {
        sequence,
        at: sequence * 1000,
        boot: RENEWAL.boot,
        origin: if number.is_multiple_of(7) { Origin::Foreign } else { Origin::Add },
        container: format!("container-{number}").into(),
        ifname: "net1".into(),
        conf: "conf".into(),
        pod: format!("default/pod-{number}").into(),
        uid: "0b6c2ad4-5a3a-4c40-8d54-6f4c8a0e1f11".into(),
        netns: Netns { path: format!("/var/run/netns/{number}").into(), device: 4, inode: u64::from(number) },
        home: "".into(),
        ips: Ips::of(&[v4, v6]),
    }
}

/// A folder with a journal, and what it should come to.
struct Bench {
    _folder: tempfile::TempDir,
    place: Place,
    held: BTreeMap<u64, Holding<'static>>,
    next: u64,
}

impl Bench {
    fn new() -> Self {
        // In memory where there is such a place: the disk is not what is tested, and there are thousands of commits.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let place = Place::new(folder.path(), "");
        Self { _folder: folder, place, held: BTreeMap::new(), next: 1 }
    }

    fn commit(&mut self, begin: &[u32], end: &[u64]) -> Result<(), JournalError> {
        let mut records = Vec::new();
        let mut next = self.next;
        for of in end {
            records.push(Record::End(End { sequence: next, at: next, of: *of, reason: Reason::Del }));
            next += 1;
        }
        for number in begin {
            records.push(Record::Hold(holding(next, *number)));
            next += 1;
        }
        let lock = Lock::take(&self.place, PATIENCE).unwrap();
        let (journal, image) = Journal::open(&self.place, &lock)?;
        let book = image.book();
        assert_eq!(book.next(), self.next);
        journal.commit(&book, &records, RENEWAL)?;
        self.next = next;
        for record in records {
            match record {
                Record::End(end) => drop(self.held.remove(&end.of)),
                Record::Hold(holding) => drop(self.held.insert(holding.sequence, holding)),
                Record::Released(_) => unreachable!(),
            }
        }
        Ok(())
    }

    fn check(&self) {
        let image = Image::read(&self.place).unwrap();
        let book = image.book();
        assert!(book.holdings().iter().eq(self.held.values()), "{book:?}");
        assert_eq!(book.damage(), None);
    }

    fn path(&self) -> std::path::PathBuf {
        self.place.journal()
    }
}

/// Where the frames of a journal end.
fn end_of(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[derive(Clone, Debug)]
enum Step {
    Begin(Vec<u32>),
    /// The holdings at these places end, and one begins.
    Replace(Vec<prop::sample::Index>),
    End(prop::sample::Index),
    /// A write that was never finished: these bytes are at the end of the journal.
    Torn(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(0..10_000_u32, 1..3).prop_map(Step::Begin),
        1 => prop::collection::vec(any::<prop::sample::Index>(), 1..3).prop_map(Step::Replace),
        3 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => prop::collection::vec(any::<u8>(), 1..200).prop_map(Step::Torn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_journal_comes_to_what_was_committed(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        let chosen = |bench: &Bench, index: &prop::sample::Index| {
            (!bench.held.is_empty()).then(|| *bench.held.keys().nth(index.index(bench.held.len())).unwrap())
        };
        for step in steps {
            match step {
                Step::Begin(numbers) => bench.commit(&numbers, &[]).unwrap(),
                Step::Replace(indices) => {
                    let mut ends: Vec<u64> = indices.iter().filter_map(|index| chosen(&bench, index)).collect();
                    ends.dedup();
                    bench.commit(&[5], &ends).unwrap();
                }
                Step::End(index) => {
                    let ends: Vec<u64> = chosen(&bench, &index).into_iter().collect();
                    bench.commit(&[], &ends).unwrap();
                }
                Step::Torn(garbage) if bench.path().exists() => {
                    let image = fs::read(bench.path()).unwrap();
                    let mut bytes = image[..end_of(&bench.path()).max(HEADER)].to_vec();
                    // A frame may end in zeros of its own: then what is cut off is the frame, not the room behind it.
                    bytes.resize(bytes.len() + 8, 0);
                    bytes.extend(garbage);
                    fs::write(bench.path(), bytes).unwrap();
                }
                Step::Torn(_) => {}
            }
            bench.check();
        }
    }
}

#[test]
fn a_journal_that_was_cut_at_any_byte_has_every_commit_before_that_and_goes_on() {
    let mut bench = Bench::new();
    bench.commit(&[1], &[]).unwrap();
    bench.commit(&[2, 3], &[]).unwrap();
    let before = end_of(&bench.path());
    let kept = bench.held.clone();
    bench.commit(&[4], &[1]).unwrap();
    let whole = fs::read(bench.path()).unwrap();
    let end = end_of(&bench.path());
    for cut in before..end {
        for zeros in [0, 4096] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + zeros, 0);
            fs::write(bench.path(), &bytes).unwrap();
            (bench.held, bench.next) = (kept.clone(), 4);
            bench.check();
            bench.commit(&[9], &[2]).unwrap();
            bench.check();
        }
    }
}

#[test]
fn damage_before_the_end_is_told_and_nothing_else_is_lost() {
    let mut bench = Bench::new();
    for number in 0..3 {
        bench.commit(&[number], &[]).unwrap();
    }
    let sound = fs::read(bench.path()).unwrap();
    let end = end_of(&bench.path());
    let mut unreadable = 0;
    for at in 0..end {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x20;
        fs::write(bench.path(), bytes).unwrap();
        match Image::read(&bench.place) {
            Err(JournalError::Unreadable { .. }) => unreadable += 1,
            Err(other) => panic!("{other}"),
            Ok(image) => {
                let book = image.book();
                assert_eq!(book.holdings().len(), 2, "one of three is gone");
                let last_is_gone = book.holdings().iter().all(|holding| holding.sequence != 3);
                assert_eq!(
                    book.damage().is_none(),
                    last_is_gone,
                    "byte {at}: only the last can be an unfinished write"
                );
            }
        }
    }
    assert_eq!(unreadable, HEADER, "every byte of the header counts");
}

#[test]
fn what_ended_does_not_make_the_journal_grow() {
    let mut bench = Bench::new();
    let mut largest = 0;
    for number in 0..1000 {
        let ends: Vec<u64> = bench.held.keys().take(bench.held.len().saturating_sub(40)).copied().collect();
        bench.commit(&[number], &ends).unwrap();
        largest = largest.max(fs::metadata(bench.path()).unwrap().len());
    }
    bench.check();
    assert!(largest < 160 << 10, "{largest}");
    let image = Image::read(&bench.place).unwrap();
    assert!(image.header().unwrap().rewrites > 1);
    assert_eq!(image.header().unwrap().id, RENEWAL.id, "it is the same journal");
    assert!(image.book().released().len() >= 500, "what ended lately is remembered");
}

#[test]
fn a_journal_that_cannot_be_written_stays_as_it_was() {
    let mut bench = Bench::new();
    bench.commit(&[1], &[]).unwrap();
    // A folder in the place of the file: nothing can be opened, written or renamed there, also by root.
    let sound = fs::read(bench.path()).unwrap();
    fs::remove_file(bench.path()).unwrap();
    fs::create_dir(bench.path()).unwrap();
    let refused = bench.commit(&[2], &[]).unwrap_err();
    assert!(refused.to_string().starts_with("cannot "), "{refused}");
    fs::remove_dir(bench.path()).unwrap();
    fs::write(bench.path(), sound).unwrap();
    bench.check();
}

#[test]
fn a_file_that_is_no_journal_is_not_written_over() {
    for text in ["", "hello", &"x".repeat(100)] {
        let mut bench = Bench::new();
        fs::write(bench.path(), text).unwrap();
        let refused = bench.commit(&[1], &[]).unwrap_err();
        assert!(matches!(refused, JournalError::Unreadable { .. }), "{refused}");
        assert_eq!(fs::read_to_string(bench.path()).unwrap(), *text);
    }
}

#[test]
fn a_journal_can_be_begun_anew_whatever_is_there() {
    for text in ["hello", ""] {
        let mut bench = Bench::new();
        fs::write(bench.path(), text).unwrap();
        let records = [Record::Hold(holding(41, 1)), Record::Hold(holding(42, 2))];
        let lock = Lock::take(&bench.place, PATIENCE).unwrap();
        Journal::begin(&bench.place, &lock, 41, &records, RENEWAL).unwrap();
        drop(lock);
        for record in [holding(41, 1), holding(42, 2)] {
            bench.held.insert(record.sequence, record);
        }
        bench.next = 43;
        bench.check();
        bench.commit(&[3], &[41]).unwrap();
        bench.check();
    }
}

/// What a crash may leave of a journal that was to take the place of another: nothing, a part or all of it, in a file beside it.
fn beside() -> Vec<Vec<u8>> {
    let mut other = Bench::new();
    other.commit(&[901, 902], &[]).unwrap();
    other.commit(&[903], &[1]).unwrap();
    let (whole, end) = (fs::read(other.path()).unwrap(), end_of(&other.path()));
    [0, 1, HEADER - 1, HEADER, HEADER + 1, end / 2, end, whole.len()].map(|cut| whole[..cut].to_vec()).to_vec()
}

#[test]
fn a_journal_that_is_not_in_its_place_yet_is_nobodys_and_in_nobodys_way() {
    for left in beside() {
        // One that was never there, so that the next commit makes it, and one that the next commit adds to.
        for before in [&[][..], &[1, 2]] {
            let mut bench = Bench::new();
            if !before.is_empty() {
                bench.commit(before, &[]).unwrap();
            }
            let new = bench.path().with_extension("new");
            fs::write(&new, &left).unwrap();
            bench.check();
            bench.commit(&[3], &[]).unwrap();
            bench.check();
            // And one that takes its place at once, as when a journal is mended.
            fs::write(&new, &left).unwrap();
            let records: Vec<_> = bench.held.values().cloned().map(Record::Hold).collect();
            let lock = Lock::take(&bench.place, PATIENCE).unwrap();
            Journal::begin(&bench.place, &lock, bench.next, &records, RENEWAL).unwrap();
            drop(lock);
            bench.check();
            assert!(!new.exists(), "it took the place of what was left");
        }
    }
}

#[test]
fn a_damaged_journal_stays_damaged_until_another_is_in_its_place() {
    for left in beside() {
        let mut bench = Bench::new();
        for number in 0..3 {
            bench.commit(&[number], &[]).unwrap();
        }
        let mut bytes = fs::read(bench.path()).unwrap();
        bytes[HEADER + 20] ^= 1;
        fs::write(bench.path(), &bytes).unwrap();
        fs::write(bench.path().with_extension("new"), &left).unwrap();
        let image = Image::read(&bench.place).unwrap();
        assert_eq!(image.book().damage(), Some(HEADER));
        bench.held.remove(&1);
        assert!(image.book().holdings().iter().eq(bench.held.values()), "what can be read is what was committed");
    }
}

#[test]
fn a_journal_that_is_shorter_than_its_header_is_none_and_nobody_takes_it_for_an_empty_one() {
    let mut sound = Bench::new();
    sound.commit(&[1], &[]).unwrap();
    let whole = fs::read(sound.path()).unwrap();
    for cut in 0..HEADER {
        for zeros in [0, 4096] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + zeros, 0);
            // It ends in zeros of its own.
            if bytes.starts_with(&whole[..HEADER]) {
                continue;
            }
            fs::write(sound.path(), &bytes).unwrap();
            let refused = sound.commit(&[2], &[]).unwrap_err();
            assert!(matches!(refused, JournalError::Unreadable { .. }), "cut at {cut}: {refused}");
            assert_eq!(fs::read(sound.path()).unwrap(), bytes, "and it is left as it is");
        }
    }
}

#[test]
fn nothing_is_left_of_an_unfinished_write_behind_the_next_commit() {
    let mut bench = Bench::new();
    bench.commit(&[1], &[]).unwrap();
    let mut bytes = fs::read(bench.path()).unwrap();
    bytes.truncate(end_of(&bench.path()));
    bytes.extend(b"unfinished".repeat(500));
    fs::write(bench.path(), bytes).unwrap();
    bench.commit(&[2], &[]).unwrap();
    bench.check();
    let bytes = fs::read(bench.path()).unwrap();
    assert!(!bytes.windows(10).any(|window| window == b"unfinished"));
}
