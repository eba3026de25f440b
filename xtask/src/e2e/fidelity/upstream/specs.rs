//! Which specs are run, and which are not although the control passes them: read from `specs.txt`.

use anyhow::{Context, Result, bail, ensure};

/// A heading; what follows is the reason why the specs below are not run. Without a reason they are run.
const HEADING: &str = "= ";
/// Before the name of a spec that a quick run has too.
const QUICK: &str = "* ";

/// All that is in the file, in its order.
pub(super) struct Specs {
    run: Vec<Spec>,
    /// Groups of names, each with the reason.
    pub(super) left_out: Vec<(&'static str, Vec<&'static str>)>,
}

struct Spec {
    name: &'static str,
    quick: bool,
}

impl Specs {
    pub(super) fn read() -> Result<Self> {
        parse(include_str!("specs.txt")).context("xtask/src/e2e/fidelity/upstream/specs.txt")
    }

    /// The names of those that are run.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.run.iter().map(|spec| spec.name)
    }

    /// The names of those that are run now.
    pub(super) fn chosen(&self, quick: bool, only: Option<&str>) -> Vec<&'static str> {
        let chosen = self.run.iter().filter(|spec| match only {
            Some(text) => spec.name.contains(text),
            None => spec.quick || !quick,
        });
        chosen.map(|spec| spec.name).collect()
    }
}

fn parse(text: &'static str) -> Result<Specs> {
    let mut specs = Specs { run: Vec::new(), left_out: Vec::new() };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(reason) = line.strip_prefix(HEADING) {
            specs.left_out.push((reason, Vec::new()));
            continue;
        }
        let (name, quick) = line.strip_prefix(QUICK).map_or((line, false), |name| (name, true));
        ensure!(name.starts_with("[sig-"), "not the name of a spec: {line}");
        match specs.left_out.last_mut() {
            None => specs.run.push(Spec { name, quick }),
            Some(_) if quick => bail!("not run, and yet quick: {line}"),
            Some((_, names)) => names.push(name),
        }
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_spec_is_named_twice() {
        let specs = Specs::read().unwrap();
        let left_out = specs.left_out.iter().flat_map(|(_, names)| names.iter().copied());
        let names: Vec<_> = specs.names().chain(left_out).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn a_name_under_a_reason_is_not_run() {
        let specs = parse("# why\n* [sig-a] one\n[sig-a] two\n\n= not served\n[sig-b] three\n").unwrap();
        assert_eq!(specs.chosen(false, None), ["[sig-a] one", "[sig-a] two"]);
        assert_eq!(specs.chosen(true, None), ["[sig-a] one"]);
        assert_eq!(specs.chosen(true, Some("two")), ["[sig-a] two"], "who asks by name gets it");
        assert_eq!(specs.left_out, [("not served", vec!["[sig-b] three"])]);
    }

    #[test]
    fn a_line_that_is_no_name_is_an_error() {
        assert!(parse("sig-a one\n").is_err());
        assert!(parse("= reason\n* [sig-a] one\n").is_err());
    }
}
