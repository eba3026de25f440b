//! `kill -9` before each system call that the plugin makes, from its first to its last: `strace` sees to it.
//!
//! Each call is made on a copy of the same state, and killed before the first system call of a name, the second, and so on until it comes
//! to its end unharmed; the same with each name. So no system call is left out, whatever the library and the system make of the program. What
//! is then in the journal is what was before the call or what is after it, nothing between and nothing else; it is what is after it
//! if that was answered. Then a runtime does what runtimes do: it makes the same call again, or takes back at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cni::journal::{BootId, End, Holding, Image, Ip, Ips, Journal, Netns, Origin, Reason, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::place::Place;
use serde_json::{Value, json};
use testkit::real::Plugin;

use super::books::{self, Attachment, Holdings};
use super::call::{self, End as Said};
use super::storm::{RANGE, conf};
use crate::cache;
use crate::pods::{NODE, attachment, node};

const NETWORK: &str = "steps";
const IFNAME: &str = "net1";
const KILL: i32 = 9;
/// A call makes between twenty and thirty system calls of its own, a few less in release. With fewer, something was not looked at.
const LEAST: usize = 15;
/// So many pods have ended when the journal is written anew.
const ENDED: u64 = 2_000;
/// Of what begins every program, one call of so many is killed in a quick run: nothing of a network is touched there.
const QUICK: usize = 8;
/// The boots that a node has had.
const BOOTS: [&str; 2] = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"];

/// A call, and the state that it meets.
struct Case {
    name: &'static str,
    call: &'static str,
    pod: &'static str,
    container: &'static str,
    slice: &'static str,
    boot: &'static str,
    /// How often the journal was written anew when the call is done.
    rewrites: u64,
    prepare: fn(&Scene<'_>) -> Result<()>,
}

const USUAL: Case = Case {
    name: "ADD",
    call: "ADD",
    pod: "new",
    container: "new",
    slice: "10.0.1.0/24",
    boot: BOOTS[0],
    rewrites: 0,
    prepare: |scene| scene.add_each(&["a", "b", "c"]),
};

const CASES: [Case; 8] = [
    USUAL,
    Case { name: "first ADD", prepare: |_| Ok(()), ..USUAL },
    Case { name: "ADD behind a torn end", prepare: torn, ..USUAL },
    Case { name: "ADD that writes the journal anew", rewrites: 1, prepare: many_ended, ..USUAL },
    // Pod a is there in another sandbox than before, and has its address again.
    Case { name: "ADD of a further sandbox", pod: "a", container: "a-again", ..USUAL },
    // Nothing is free, but what was held before the boot is.
    Case {
        name: "ADD after a reboot",
        slice: "10.0.1.0/30",
        boot: BOOTS[1],
        prepare: |scene| scene.add_each(&["a", "b", "c", "d"]),
        ..USUAL
    },
    Case { name: "DEL", call: "DEL", pod: "b", container: "b", ..USUAL },
    Case { name: "GC", call: "GC", pod: "a", container: "a", ..USUAL },
];

/// Kills calls at every step; in a quick run at a part of those that come before the plugin reads what it is asked.
pub(super) fn run(binary: &Path, folder: &Path, quick: bool) -> Result<String> {
    let strace = cache::tool("strace")
        .context("killing the plugin at each step needs strace; install the Debian package: apt-get install strace")?;
    let told: Vec<Result<String>> = thread::scope(|scope| {
        let hands: Vec<_> = CASES
            .iter()
            .map(|case| {
                let folder = folder.join(case.name.replace(' ', "-"));
                let scene = Scene { case, binary, strace: &strace, folder };
                scope.spawn(move || scene.run(quick).with_context(|| case.name))
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().map_err(|_| anyhow!("a hand fell over"))?).collect()
    });
    Ok(told.into_iter().collect::<Result<Vec<_>>>()?.join("\n"))
}

/// A case in its folder.
struct Scene<'a> {
    case: &'a Case,
    binary: &'a Path,
    strace: &'a Path,
    folder: PathBuf,
}

/// What came of a call that was to be killed.
struct Traced {
    was_killed: bool,
    /// Whether its answer could have been read.
    answer: Option<Value>,
    /// Its system calls, by name, in their order.
    calls: Vec<String>,
    /// How many of them came before it read what it is asked.
    before_conf: usize,
}

/// What is held before and after the call, as the journal of a call that nobody disturbs says.
struct Ends {
    before: Holdings,
    after: Holdings,
}

/// How many calls were killed, and what they had come to.
#[derive(Default)]
struct Counts {
    before: usize,
    after: usize,
    answered: usize,
    left_out: usize,
}

impl Scene<'_> {
    fn run(&self, quick: bool) -> Result<String> {
        node::grant(&self.folder.join("first"), NETWORK, &[(RANGE, vec![self.case.slice])])?;
        (self.case.prepare)(self)?;
        let before = holdings(&self.state("first"))?;
        let whole = self.traced(&self.copied("first", "whole")?, None)?;
        ensure!(!whole.was_killed, "nobody should have killed it");
        let ends = Ends { before, after: holdings(&self.state("whole"))? };
        let rewrites = Image::read(&Place::new(&self.state("whole"), NETWORK))?.header().map(|header| header.rewrites);
        ensure!(rewrites == Some(self.case.rewrites), "the journal was written anew {rewrites:?} times");
        ensure!(ends.before != ends.after, "it changes nothing, so nothing can be seen of it");
        let mut counts = Counts::default();
        let mut names: BTreeSet<String> = whole.calls.iter().cloned().collect();
        let mut done = BTreeSet::new();
        while let Some(name) = names.pop_first() {
            if !done.insert(name.clone()) {
                continue;
            }
            let early = whole.calls[..whole.before_conf].iter().filter(|call| **call == name).count();
            for number in 1.. {
                if quick && number <= early && number % QUICK != 0 {
                    counts.left_out += 1;
                    continue;
                }
                let at = || format!("killed before {name} {number}");
                let traced = self.traced(&self.copied("first", "killed")?, Some((&name, number))).with_context(at)?;
                // A program may make other calls in another run.
                names.extend(traced.calls.iter().filter(|call| !done.contains(*call)).cloned());
                if !traced.was_killed {
                    ensure!(
                        holdings(&self.state("killed"))? == ends.after,
                        "it was not killed, and came to something else"
                    );
                    break;
                }
                self.judge(&traced, &ends, &mut counts).with_context(at)?;
            }
        }
        let killed = counts.before + counts.after;
        ensure!(killed >= LEAST, "only {killed} steps");
        ensure!(counts.before > 0 && counts.after > 0, "{} before and {} after the write", counts.before, counts.after);
        ensure!(counts.answered > 0 || self.case.call != "ADD", "no call was killed between its answer and its end");
        let left_out = if quick { format!(", {} of its start left out", counts.left_out) } else { String::new() };
        Ok(format!(
            "{}: killed before each of {killed} system calls{left_out}; {} were before the record was there, {} after, {} of them had answered",
            self.case.name, counts.before, counts.after, counts.answered
        ))
    }

    /// What a call left that was killed, and what comes of it when it is made again, and when it is taken back at once.
    fn judge(&self, traced: &Traced, ends: &Ends, counts: &mut Counts) -> Result<()> {
        let left = holdings(&self.state("killed"))?;
        let was_done = left == ends.after;
        ensure!(
            was_done || left == ends.before,
            "neither what was before, {:?}, nor what is to be after it, {:?}: {left:?}",
            ends.before,
            ends.after
        );
        counts.before += usize::from(!was_done);
        counts.after += usize::from(was_done);
        if let Some(answer) = &traced.answer {
            ensure!(was_done, "it was answered, and is not in the journal: {answer}");
            if self.case.call == "ADD" {
                ensure!(Some(&ips(answer)?) == ends.after.get(&self.attachment()), "it was answered {answer}");
            }
            counts.answered += 1;
        }
        // The runtime makes the call again. The folder is the one of the killed call; what comes at once is tried in a copy.
        let at_once = self.copied("killed", "at-once")?;
        let state = self.state("killed");
        let again = self.call(&state, self.case.call, self.case.pod, self.case.container)?;
        if self.case.call == "ADD" {
            let given = ips(&again)?;
            ensure!(Some(&given) == ends.after.get(&self.attachment()), "the same call again gives {given:?}");
        }
        compare(&ends.after, &state)?;
        self.goes_on(&state, &ends.after)?;
        // Or it takes back what may have been given.
        if self.case.call == "ADD" {
            self.call(&at_once, "DEL", self.case.pod, self.case.container)?;
            let mut after = if was_done { ends.after.clone() } else { ends.before.clone() };
            after.remove(&self.attachment());
            compare(&after, &at_once)?;
            self.goes_on(&at_once, &after)?;
        }
        Ok(())
    }

    /// A further pod gets what nobody has; then both go, and nothing of them is left.
    fn goes_on(&self, state: &Path, known: &Holdings) -> Result<()> {
        let mut known = known.clone();
        let given = ips(&self.call(state, "ADD", "further", "further")?)?;
        if self.case.boot != BOOTS[0] {
            // Of what was held before the boot, the next one ends.
            known.retain(|attachment, ips| attachment.container == self.case.container || *ips != given);
        }
        known.insert(Attachment::new("further", IFNAME), given);
        compare(&known, state)?;
        for container in ["further", self.case.container] {
            self.call(state, "DEL", container, container)?;
            known.remove(&Attachment::new(container, IFNAME));
        }
        compare(&known, state)?;
        for file in fs::read_dir(state.join(NETWORK))? {
            let name = file?.file_name();
            let is_known = ["grants", "lock", "journal", "journal.new", "shortage"].iter().any(|known| name == *known);
            ensure!(is_known, "{} was left", name.display());
        }
        Ok(())
    }

    fn attachment(&self) -> Attachment {
        Attachment::new(self.case.container, IFNAME)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A copy of a state folder in the place of another.
    fn copied(&self, from: &str, to: &str) -> Result<PathBuf> {
        let to = self.state(to);
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        fs::create_dir_all(to.join(NETWORK))?;
        for file in fs::read_dir(self.state(from).join(NETWORK))? {
            let file = file?;
            fs::copy(file.path(), to.join(NETWORK).join(file.file_name()))?;
        }
        Ok(to)
    }

    /// What a call has in its environment, and what it reads.
    fn asked(&self, state: &Path, call: &str, pod: &str, container: &str) -> (BTreeMap<String, String>, String) {
        let mut variables = attachment(call, pod, container, IFNAME);
        variables.insert("NODENAME".to_owned(), NODE.to_owned());
        variables.insert("CADASTRE_STATE_DIR".to_owned(), state.display().to_string());
        variables.insert("CADASTRE_BOOT_ID".to_owned(), self.case.boot.to_owned());
        let mut conf = conf(NETWORK);
        if call == "GC" {
            conf["cniVersion"] = json!("1.1.0");
            conf["cni.dev/valid-attachments"] = json!([{"containerID": container, "ifname": IFNAME}]);
        }
        (variables, conf.to_string())
    }

    /// A call that must go well.
    fn call(&self, state: &Path, call: &str, pod: &str, container: &str) -> Result<Value> {
        let (variables, conf) = self.asked(state, call, pod, container);
        match call::made(Plugin::new(self.binary).command(variables), &conf, None)? {
            Said::Answered(answer) => Ok(answer),
            other => bail!("{call} of {container}: {other:?}"),
        }
    }

    /// Pods that are there before the call, since the first boot.
    fn add_each(&self, pods: &[&str]) -> Result<()> {
        let before = Case { boot: BOOTS[0], ..*self.case };
        let scene = Scene { case: &before, binary: self.binary, strace: self.strace, folder: self.folder.clone() };
        for pod in pods {
            scene.call(&scene.state("first"), "ADD", pod, pod)?;
        }
        Ok(())
    }

    /// The call of the case, killed before the system call of that name and number if there is one.
    fn traced(&self, state: &Path, kill: Option<(&str, usize)>) -> Result<Traced> {
        let Case { call, pod, container, .. } = *self.case;
        let (variables, conf) = self.asked(state, call, pod, container);
        let trace = self.folder.join("trace");
        let mut command = Plugin::new(self.strace).command(variables);
        command.arg("-f").arg("-o").arg(&trace).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some((name, number)) = kill {
            command.args(["-e", &format!("inject={name}:signal=SIGKILL:when={number}")]);
        }
        let mut child = command.arg(self.binary).spawn().context("could not start strace")?;
        if let Some(mut stdin) = child.stdin.take() {
            // Who is killed early does not read.
            let _ = stdin.write_all(conf.as_bytes());
        }
        let output = child.wait_with_output()?;
        let was_killed = output.status.signal() == Some(KILL);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(was_killed || output.status.success(), "{}: {errors}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = (!text.is_empty()).then(|| serde_json::from_str(&text).context("a part of an answer"));
        let (calls, before_conf) = calls(&fs::read_to_string(&trace)?);
        ensure!(kill.is_some() || calls.len() >= LEAST, "strace shows {} system calls", calls.len());
        Ok(Traced { was_killed, answer: answer.transpose()?, calls, before_conf })
    }
}

/// The names of the system calls in a trace, and how many are before stdin is read.
fn calls(trace: &str) -> (Vec<String>, usize) {
    let of = |line: &str| {
        let (name, _) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| name.to_owned())
    };
    let before = trace.lines().take_while(|line| !line.contains(" read(0,")).filter_map(of).count();
    (trace.lines().filter_map(of).collect(), before)
}

/// What the journal of a state folder says is held.
fn holdings(state: &Path) -> Result<Holdings> {
    Ok(books::journal(&state.join(NETWORK))?.into_iter().collect())
}

fn compare(known: &Holdings, state: &Path) -> Result<()> {
    books::compare(known, &books::journal(&state.join(NETWORK))?).map(drop)
}

fn ips(answer: &Value) -> Result<Vec<String>> {
    super::machine::ips(answer)
}

/// Behind what is committed is a part of a frame that nobody was told of.
fn torn(scene: &Scene<'_>) -> Result<()> {
    scene.add_each(&["a", "b", "c"])?;
    let journal = scene.state("first").join(NETWORK).join("journal");
    let end = used(&journal)?;
    scene.add_each(&["lost"])?;
    let unfinished = end.midpoint(used(&journal)?);
    OpenOptions::new().write(true).open(&journal)?.set_len(unfinished)?;
    Ok(())
}

/// Where a journal ends, but for the room that it has ahead.
fn used(journal: &Path) -> Result<u64> {
    Ok(fs::read(journal)?.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1))
}

/// So much has ended that the next commit writes the journal anew.
fn many_ended(scene: &Scene<'_>) -> Result<()> {
    scene.add_each(&["a", "b", "c"])?;
    let (folder, unknown) = (Place::new(&scene.state("first"), NETWORK), BootId::UNKNOWN);
    let lock = Lock::take(&folder, PATIENCE)?;
    let renewal = Renewal { id: [1; 16], boot: unknown };
    let (journal, image) = Journal::open(&folder, &lock)?;
    let book = image.book();
    let hold = |sequence: u64| {
        Record::Hold(Holding {
            sequence,
            at: 0,
            boot: unknown,
            origin: Origin::Add,
            container: format!("ended-{sequence}").into(),
            ifname: IFNAME.into(),
            conf: NETWORK.into(),
            pod: "dev/ended".into(),
            uid: "".into(),
            netns: Netns::default(),
            home: "".into(),
            ips: Ips::of(&[Ip { address: [10, 0, 1, 200].into(), length: 16 }]),
        })
    };
    let first = book.next();
    let holds: Vec<_> = (first..first + ENDED).map(hold).collect();
    journal.commit(&book, &holds, renewal)?;
    let (journal, image) = Journal::open(&folder, &lock)?;
    let book = image.book();
    let end = |of: u64| Record::End(End { sequence: of + ENDED, at: 0, of, reason: Reason::Del });
    let ends: Vec<_> = (first..first + ENDED).map(end).collect();
    journal.commit(&book, &ends, renewal)?;
    let rewrites = Image::read(&folder)?.header().map(|header| header.rewrites);
    ensure!(rewrites == Some(0), "it was written anew too early");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_read_from_a_trace() {
        let trace = "7 execve(\"/x\", [\"/x\"], 0x7ff /* 9 vars */) = 0\n7  brk(NULL) = 0x5\n7 read(0, \"{\", 8192) = 1\n\
                     7 --- SIGPIPE {si_signo=SIGPIPE} ---\n7 write(1, \"{\", 1 <unfinished ...>\n7 +++ killed by SIGKILL +++\n";
        let (names, before) = calls(trace);
        assert_eq!(names, ["execve", "brk", "read", "write"]);
        assert_eq!(before, 2);
    }
}
