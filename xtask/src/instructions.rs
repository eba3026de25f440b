//! `cargo xtask instructions`: how many instructions the works in `crates/space/benches/instructions.rs` take, held
//! against the figures that are kept beside them.
//!
//! The clock of a shared machine is too noisy to notice that something became a tenth slower; a count of instructions
//! is the same in every run. It is so for one compiler only: another one makes other code, and neither is the worse.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{cache, cargo, process};

/// The package and the bench target that has the works, and the function whose calls are counted.
const PACKAGE: &str = "space";
const PROGRAM: &str = "instructions";
const COUNTED: &str = "*::measured";
const KEPT: &str = "crates/space/benches/instructions.toml";
/// A work that takes this much more than is kept has become worse; less is chance, such as where memory grew.
const TOLERANCE: f64 = 0.05;
const ACCEPT: &str = "to accept the figures of this run: cargo xtask instructions --save";

#[derive(Args)]
pub(crate) struct Options {
    /// Fail if a work takes over 5 % more instructions than is kept
    #[arg(long, conflicts_with = "save")]
    check: bool,
    /// Keep the figures of this run
    #[arg(long)]
    save: bool,
}

/// Counts every work, prints the table, and checks or keeps the figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    let valgrind = cache::tool("valgrind")
        .context("counting instructions needs valgrind; install the Debian package: apt-get install valgrind")?;
    let root = process::repo_root();
    let kept = read(&root.join(KEPT))?;
    let counted = count(&root, &valgrind)?;
    print!("{}", table(&counted, kept.as_ref()));
    if options.save {
        std::fs::write(root.join(KEPT), counted.text()?).with_context(|| format!("could not write {KEPT}"))?;
        println!("\nfigures kept in {KEPT}");
    }
    if !options.check {
        return Ok(());
    }
    let kept = kept.with_context(|| format!("nothing to check against, as there is no {KEPT}; {ACCEPT}"))?;
    let complaints = complaints(&counted, &kept);
    if kept.compiler != counted.compiler {
        // A warning and no failure, whatever the figures are: they say nothing about our code.
        let (kept, now) = (&kept.compiler, &counted.compiler);
        eprintln!("\nwarning: nothing was checked: the kept figures are of {kept}, these of {now}; {ACCEPT}");
    } else if !complaints.is_empty() {
        bail!("{}\n{ACCEPT}", complaints.join("\n"));
    }
    Ok(())
}

/// What the counts depend on besides our code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Compiler {
    rustc: String,
    target: String,
}

impl std::fmt::Display for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {}", self.rustc, self.target)
    }
}

impl Compiler {
    /// From what `rustc -vV` says.
    fn parse(said: &str) -> Option<Self> {
        let rustc = said.lines().next()?.to_owned();
        let target = said.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned();
        Some(Self { rustc, target })
    }
}

/// Instructions per operation of every work.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
    #[serde(flatten)]
    compiler: Compiler,
    works: BTreeMap<String, f64>,
}

impl Figures {
    fn text(&self) -> Result<String> {
        let head = "# Instructions per operation, as `cargo xtask instructions --save` counted them.\n";
        Ok(head.to_owned() + &toml::to_string(self)?)
    }
}

/// The kept figures, if there are any.
fn read(path: &Path) -> Result<Option<Figures>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(Some(toml::from_str(&text).with_context(|| format!("{} is not what --save writes", path.display()))?))
}

fn count(root: &Path, valgrind: &Path) -> Result<Figures> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = process::output(Command::new(rustc).arg("-vV").current_dir(root))?;
    let compiler = Compiler::parse(&said).context("`rustc -vV` does not say its version and host")?;
    let program = build()?;
    let folder = root.join("target/instructions");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    // Without a name it runs them all, and says which they are.
    let said = process::output(&mut Command::new(&program))?;
    let mut works = BTreeMap::new();
    for (work, operations) in listed(&said)? {
        let profile = folder.join(format!("{work}.callgrind"));
        let mut command = Command::new(valgrind);
        // Variables take room on the stack and so move what is on it; and some are orders to the allocator.
        command.env_clear().args(["-q", "--tool=callgrind", "--collect-atstart=no"]);
        command.arg(format!("--toggle-collect={COUNTED}")).arg(format!("--callgrind-out-file={}", profile.display()));
        process::output(command.arg(&program).arg(&work))?;
        let text = std::fs::read_to_string(&profile).with_context(|| format!("no {}", profile.display()))?;
        let total = total(&text).with_context(|| format!("nothing was counted in {work}: is {COUNTED} inlined?"))?;
        works.insert(work, per_operation(total, operations));
    }
    Ok(Figures { compiler, works })
}

/// Builds the program; where it is.
fn build() -> Result<PathBuf> {
    cargo::built(cargo::command().args(["bench", "--no-run", "--package", PACKAGE, "--bench", PROGRAM]), PROGRAM)
}

/// The works and how many operations each has, one to a line.
fn listed(said: &str) -> Result<Vec<(String, u32)>> {
    let work = |line: &str| {
        let (work, operations) = line.split_once(' ')?;
        Some((work.to_owned(), operations.parse().ok().filter(|operations| *operations > 0)?))
    };
    said.lines().map(|line| work(line).with_context(|| format!("`{line}` is no work and its operations"))).collect()
}

/// The instructions in a profile of callgrind; none if it counted nothing.
fn total(profile: &str) -> Option<u64> {
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok().filter(|total| *total > 0)
}

/// To one decimal, which is more than the tolerance can tell apart.
fn per_operation(total: u64, operations: u32) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a profile that takes seconds has far fewer than 2^52 instructions")]
    let total = total as f64;
    (total / f64::from(operations) * 10.0).round() / 10.0
}

/// The part by which a work takes more than is kept.
fn change(now: f64, kept: f64) -> f64 {
    now / kept - 1.0
}

/// The figures as plain text, in columns.
fn table(now: &Figures, kept: Option<&Figures>) -> String {
    let width = now.works.keys().map(String::len).max().unwrap_or(0);
    let line = |[work, now, kept, change]: [&str; 4]| format!("{work:<width$}  {now:>12}  {kept:>9}  {change:>7}\n");
    let rows = now.works.iter().map(|(work, now)| {
        let kept = kept.and_then(|kept| kept.works.get(work));
        let change = kept.map(|kept| format!("{:+.1} %", change(*now, *kept) * 100.0));
        let kept = kept.map(|kept| format!("{kept:.1}"));
        line([work, &format!("{now:.1}"), kept.as_deref().unwrap_or("-"), change.as_deref().unwrap_or("-")])
    });
    std::iter::once(line(["work", "instructions", "kept", "change"])).chain(rows).collect()
}

/// What is wrong with these figures, one sentence each.
fn complaints(now: &Figures, kept: &Figures) -> Vec<String> {
    let gone = kept.works.keys().filter(|work| !now.works.contains_key(*work));
    let gone = gone.map(|work| format!("{work} is kept and was not counted"));
    let worse = now.works.iter().filter_map(|(work, now)| {
        let Some(kept) = kept.works.get(work) else { return Some(format!("{work} is not kept yet")) };
        let more = change(*now, *kept);
        (more > TOLERANCE).then(|| format!("{work} takes {:.1} % more instructions than is kept", more * 100.0))
    });
    worse.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(works: &[(&str, f64)]) -> Figures {
        let compiler = Compiler { rustc: "rustc 1.0.0".to_owned(), target: "x".to_owned() };
        Figures { compiler, works: works.iter().map(|(work, figure)| ((*work).to_owned(), *figure)).collect() }
    }

    #[test]
    fn what_is_kept_can_be_read_again() {
        let figures = figures(&[("grant-v4", 90.5), ("pool-99.9", 300.0)]);
        let text = figures.text().unwrap();
        assert!(text.contains("\n\"pool-99.9\" = 300.0\n") && text.contains("rustc = \"rustc 1.0.0\""), "{text}");
        assert_eq!(toml::from_str::<Figures>(&text).unwrap(), figures);
    }

    #[test]
    fn only_more_than_the_tolerance_is_worse() {
        let kept = figures(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let now = figures(&[("a", 104.9), ("b", 105.2), ("c", 10.0)]);
        assert_eq!(complaints(&now, &kept), ["b takes 5.2 % more instructions than is kept"]);
    }

    #[test]
    fn works_that_came_or_went_are_not_passed_over() {
        let found = complaints(&figures(&[("new", 1.0)]), &figures(&[("old", 1.0)]));
        assert_eq!(found, ["new is not kept yet", "old is kept and was not counted"]);
    }

    #[test]
    fn the_table_shows_every_work_and_its_change() {
        let (now, kept) = (figures(&[("a", 110.0), ("new", 1.0)]), figures(&[("a", 100.0), ("old", 1.0)]));
        let table = table(&now, Some(&kept));
        let lines: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [vec!["a", "110.0", "100.0", "+10.0", "%"], vec!["new", "1.0", "-", "-"]]);
    }

    #[test]
    fn a_profile_has_one_total_or_nothing_was_counted() {
        assert_eq!(total("events: Ir\nsummary: 12\nfn=(1)\ntotals: 12\n"), Some(12));
        assert_eq!(total("totals: 0\n"), None);
        assert_eq!(total("events: Ir\n"), None);
        assert!((per_operation(12_345, 100) - 123.5).abs() < 1e-9);
    }

    #[test]
    fn works_are_listed_with_their_operations() {
        assert_eq!(listed("a 1\nb-c 20\n").unwrap(), [("a".to_owned(), 1), ("b-c".to_owned(), 20)]);
        for odd in ["a", "a b", "a 0"] {
            assert!(listed(odd).unwrap_err().to_string().starts_with(&format!("`{odd}` is no work")));
        }
    }

    #[test]
    fn a_compiler_is_known_by_its_version_and_target() {
        let parsed = Compiler::parse("rustc 1.95.0 (5 2026)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n").unwrap();
        assert_eq!(parsed.to_string(), "rustc 1.95.0 (5 2026) for x86_64-unknown-linux-gnu");
        assert_eq!(Compiler::parse("rustc 1.95.0\n"), None);
    }
}
