//! Cases as text: what kubectl is told, one command to a line, with what it reads below it.
//!
//! ```text
//! file: one.yaml              before the first case: a file in the folder of every case of the script
//!   kind: ConfigMap           its text, indented by two
//!
//! case: a name that says what holds
//! file: editor                the same, for this case only
//!   sed -i s/a/b/ "$1"
//! $ create -f one.yaml        kubectl create -f one.yaml, which the control must do with success
//! $ apply -f -
//!   kind: ConfigMap           what kubectl reads from its input
//! ! get configmap none        a command that must fail
//! & 3 get configmaps -w       runs beside what follows, until it has written three lines
//! & 0 wait --for=... cm/one   runs beside what follows, to its own end
//! keep ^NAME because [x] ...  of the step above, only these lines are compared
//! mask v1\.\d+ because [x] .. of the step above, this is not compared, nor that it is there
//! sort because [x] ...        of the step above, the order of lines is not compared
//! undescribed because [x] ... of the step above, what explains fields in words is not compared
//! # a remark
//! ```
//!
//! A file `control.yaml` of a case is what the control is given before anything runs: what ours has by itself.
//!
//! What is in brackets before a reason is `chance` if two runs on one server can differ in it too, and otherwise names a row of the
//! known differences in docs/reference/compatibility.md or differences.md; tidy looks after that.
//!
//! `$NS` stands for the namespace of the case. Knows nothing of servers.

use anyhow::{Context, Result, bail};
use regex::Regex;

/// What stands for the namespace in a script.
const NAMESPACE: &str = "$NS";
/// As long as the name of a namespace may be.
const NAME_LIMIT: usize = 63;

/// One case: steps in a namespace of their own.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) files: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    /// Whether the store shows through in it.
    pub(super) of_store: bool,
    /// All that decides what the case does.
    pub(super) text: String,
}

/// One run of kubectl.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) way: Way,
    pub(super) args: Vec<String>,
    pub(super) input: Option<String>,
    pub(super) allowances: Vec<Allowance>,
}

/// How a step runs, and what is asked of the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To its end, which is success.
    Succeeds,
    /// To its end, which is an error.
    Fails,
    /// Beside the steps that follow, until it has written that many lines; with none, until it ends.
    Beside(usize),
}

/// Something in which two servers may differ. The reason is in the script, for whoever reads it.
#[derive(Debug)]
pub(super) enum Allowance {
    /// Only lines with this in them are compared.
    Keep(Regex),
    /// What matches is not compared, nor that it is there.
    Mask(Regex),
    /// The order of lines is not compared.
    Sort,
    /// The descriptions of what is explained are not compared.
    Undescribed,
}

/// What the lines that are indented next belong to.
enum Open {
    Nothing,
    Shared,
    File,
    Input,
}

/// The cases of a script; before it stands what it shares with other scripts.
pub(super) fn parse(shared: &str, script: &str) -> Result<Vec<Case>> {
    let mut parser = Parser { shared: Vec::new(), cases: Vec::new(), open: Open::Nothing };
    for (line, number) in shared.lines().zip(1..).chain(script.lines().zip(1..)) {
        parser.line(line).with_context(|| format!("line {number}: {line}"))?;
    }
    parser.cases.into_iter().map(|case| finished(case, &parser.shared)).collect()
}

struct Parser {
    shared: Vec<(String, String)>,
    cases: Vec<Case>,
    open: Open,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(text) = line.strip_prefix("  ") {
            return self.more(text);
        }
        if line.is_empty() {
            // Within a block it is part of the text; behind one it is cut off again.
            return if matches!(self.open, Open::Nothing) { Ok(()) } else { self.more("") };
        }
        if line.starts_with('#') {
            return Ok(());
        }
        self.open = Open::Nothing;
        if let Some(name) = line.strip_prefix("case: ") {
            self.cases.push(Case {
                name: name.to_owned(),
                namespace: namespace(name),
                files: Vec::new(),
                steps: Vec::new(),
                of_store: false,
                text: String::new(),
            });
        } else if let Some(name) = line.strip_prefix("file: ") {
            let file = (name.to_owned(), String::new());
            match self.cases.last_mut() {
                None => {
                    self.shared.push(file);
                    self.open = Open::Shared;
                }
                Some(case) => {
                    case.files.push(file);
                    self.open = Open::File;
                }
            }
        } else if let Some(pattern) = line.strip_prefix("keep ") {
            self.step()?.allowances.push(Allowance::Keep(reasoned(pattern)?));
        } else if let Some(pattern) = line.strip_prefix("mask ") {
            self.step()?.allowances.push(Allowance::Mask(reasoned(pattern)?));
        } else if line.starts_with("sort because ") {
            self.step()?.allowances.push(Allowance::Sort);
        } else if line.starts_with("undescribed because ") {
            self.step()?.allowances.push(Allowance::Undescribed);
        } else {
            let (sign, command) = line.split_once(' ').context("neither a command nor a heading")?;
            let (way, command) = match sign {
                "$" => (Way::Succeeds, command),
                "!" => (Way::Fails, command),
                "&" => {
                    let (lines, command) = command.split_once(' ').context("how many lines?")?;
                    (Way::Beside(lines.parse().context("how many lines?")?), command)
                }
                _ => bail!("neither a command nor a heading"),
            };
            let case = self.cases.last_mut().context("a command before the first case")?;
            case.steps.push(Step { way, args: words(command)?, input: None, allowances: Vec::new() });
            self.open = Open::Input;
        }
        Ok(())
    }

    /// A line of the block that is open.
    fn more(&mut self, text: &str) -> Result<()> {
        let block = match self.open {
            Open::Nothing => None,
            Open::Shared => self.shared.last_mut().map(|(_, text)| text),
            Open::File => self.cases.last_mut().and_then(|case| case.files.last_mut()).map(|(_, text)| text),
            Open::Input => {
                let input = &mut self.step()?.input;
                if text.is_empty() && input.is_none() {
                    return Ok(());
                }
                Some(input.get_or_insert_default())
            }
        };
        let block = block.context("indented, and nothing above that it could belong to")?;
        block.push_str(text);
        block.push('\n');
        Ok(())
    }

    fn step(&mut self) -> Result<&mut Step> {
        self.cases.last_mut().and_then(|case| case.steps.last_mut()).context("no step above")
    }
}

/// The case with its namespace written out, and with the files that all cases of its script have.
fn finished(mut case: Case, shared: &[(String, String)]) -> Result<Case> {
    if case.steps.is_empty() {
        bail!("the case `{}` does nothing", case.name);
    }
    case.files.splice(0..0, shared.iter().cloned());
    let here = |text: &str| text.replace(NAMESPACE, &case.namespace);
    let block = |text: &str| format!("{}\n", here(text).trim_end());
    case.files = case.files.iter().map(|(name, text)| (name.clone(), block(text))).collect();
    for step in &mut case.steps {
        step.args = step.args.iter().map(|arg| here(arg)).collect();
        step.input = step.input.as_deref().map(block);
    }
    let steps: Vec<_> = case.steps.iter().map(|step| (format!("{:?}", step.way), &step.args, &step.input)).collect();
    case.text = format!("{:?}\n{:?}\n", case.files, steps);
    Ok(case)
}

/// The pattern of a line that allows something; the reason is demanded and left to the reader.
fn reasoned(line: &str) -> Result<Regex> {
    let (pattern, _) = line.split_once(" because ").context("an allowance needs its reason: ... because ...")?;
    Ok(Regex::new(pattern)?)
}

/// The namespace of a case: its name in the letters that a namespace may have.
fn namespace(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut namespace: String = name.chars().map(letter).collect();
    namespace.truncate(NAME_LIMIT);
    while namespace.contains("--") {
        namespace = namespace.replace("--", "-");
    }
    namespace.trim_matches('-').to_owned()
}

/// The words of a command, with quotes as a shell has them.
fn words(command: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
# about all
file: one.yaml
  kind: A
    deep: $NS

case: Get, and more!
$ create -f one.yaml
$ apply -f -
  kind: B

  ---

! get cm none -n $NS
keep ^a b because the rest is ours
mask \\d+ because it is a number
sort because the order is any
case: other
file: editor
  true
& 3 get cm -w
& 0 wait cm/one
";

    #[test]
    fn a_script_is_its_cases() {
        let cases = parse("", SCRIPT).unwrap();
        let [first, second] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((first.name.as_str(), first.namespace.as_str()), ("Get, and more!", "get-and-more"));
        assert_eq!(first.files, [("one.yaml".to_owned(), "kind: A\n  deep: get-and-more\n".to_owned())]);
        assert_eq!(first.steps[1].input.as_deref(), Some("kind: B\n\n---\n"));
        assert_eq!(first.steps[2].way, Way::Fails);
        assert_eq!(first.steps[2].args, ["get", "cm", "none", "-n", "get-and-more"]);
        assert!(matches!(
            first.steps[2].allowances.as_slice(),
            [Allowance::Keep(_), Allowance::Mask(_), Allowance::Sort]
        ));
        assert_eq!(second.files.len(), 2);
        assert_eq!(second.steps[0].way, Way::Beside(3));
        assert_eq!(second.steps[1].way, Way::Beside(0));
        assert_eq!(second.steps[1].input, None);
    }

    #[test]
    fn a_mistake_is_found_on_its_line() {
        for (script, what) in [
            ("$ get cm", "a command before the first case"),
            ("case: a\n  kind: A", "indented, and nothing above"),
            ("case: a\n$ get 'cm", "a quote is not closed"),
            ("case: a\n$ get cm\nkeep a", "an allowance needs its reason"),
            ("case: a\n% get cm", "neither a command nor a heading"),
            ("case: a\n& get cm -w", "how many lines?"),
        ] {
            let error = format!("{:#}", parse("", script).unwrap_err());
            assert!(
                error.starts_with(&format!("line {}: ", script.lines().count())) && error.contains(what),
                "{error}"
            );
        }
        assert!(parse("", "case: a\n").unwrap_err().to_string().contains("does nothing"));
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        let split = words(r#"patch  cm one -p '{"a": "b"}' -o "x y"'z' ''"#).unwrap();
        assert_eq!(split, ["patch", "cm", "one", "-p", r#"{"a": "b"}"#, "-o", "x yz", ""]);
    }
}
