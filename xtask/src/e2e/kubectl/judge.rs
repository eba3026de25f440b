//! Whether two servers said the same, and whether the control said what a script expects. Pure.

use serde_json::Value;

use super::explained::undescribed;
use super::mask::Masks;
use super::run::Ending;
use super::script::{Allowance, Case, Step, Way};

/// How many lines around the first difference are shown of each side.
const SHOWN: usize = 12;

/// What is wrong with what the control did: then the case is not a fair judge.
pub(super) fn control(case: &Case, endings: &[Ending]) -> Result<(), String> {
    for (step, ending) in case.steps.iter().zip(endings) {
        let right = match step.way {
            Way::Succeeds | Way::Beside(0) => ending.code == Some(0),
            Way::Fails => ending.code.is_some_and(|code| code != 0),
            Way::Beside(lines) => ending.stdout.lines().count() == lines,
        };
        if !right {
            let Ending { code, stdout, stderr } = ending;
            return Err(format!("{}\nis no fair step: exit code {code:?}\n{stdout}{stderr}", shown(step)));
        }
    }
    Ok(())
}

/// Where ours differs from the control: the steps that do, and how.
pub(super) fn ours(case: &Case, masks: &Masks, control: &[Ending], ours: &[Ending]) -> Result<(), String> {
    let mut all = Vec::new();
    for ((step, control), ours) in case.steps.iter().zip(control).zip(ours) {
        let mut wrong = Vec::new();
        if control.code != ours.code {
            wrong.push(format!("exit code: control {}, ours {}", code(control), code(ours)));
        }
        for (name, control, ours) in
            [("stdout", &control.stdout, &ours.stdout), ("stderr", &control.stderr, &ours.stderr)]
        {
            let (control, ours) = (compared(step, masks, control), compared(step, masks, ours));
            if control != ours {
                wrong.push(format!("{name} (- control, + ours):\n{}", difference(&control, &ours)));
            }
        }
        if !wrong.is_empty() {
            all.push(format!("{}\n{}", shown(step), wrong.join("\n")));
        }
    }
    if control.len() != ours.len() {
        all.push("not every step was run".to_owned());
    }
    if all.is_empty() { Ok(()) } else { Err(all.join("\n")) }
}

fn shown(step: &Step) -> String {
    format!("kubectl {}", step.args.join(" "))
}

fn code(ending: &Ending) -> String {
    ending.code.map_or_else(|| "none".to_owned(), |code| code.to_string())
}

/// What is compared of an output.
fn compared(step: &Step, masks: &Masks, text: &str) -> String {
    step.allowances.iter().fold(in_order(masks.on(text)), |text, allowance| match allowance {
        Allowance::Keep(wanted) => {
            text.split_inclusive('\n').filter(|line| wanted.is_match(line.trim_end_matches('\n'))).collect()
        }
        Allowance::Mask(what) => what.replace_all(&text, "").into_owned(),
        Allowance::Sort => {
            let mut lines: Vec<_> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        }
        Allowance::Undescribed => undescribed(&text),
    })
}

/// JSON with its fields in order, because a server may write them in any; whatever else it is stays.
fn in_order(text: String) -> String {
    match serde_json::from_str::<Value>(&text) {
        Ok(mut value @ (Value::Object(_) | Value::Array(_))) => {
            value.sort_all_objects();
            format!("{value:#}\n")
        }
        _ => text,
    }
}

/// The lines between what both have at the beginning and what both have at the end.
fn difference(control: &str, ours: &str) -> String {
    let (control, ours): (Vec<_>, Vec<_>) = (control.lines().collect(), ours.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = control.iter().zip(&ours).take_while(same).count();
    let (rest, other) = (&control[head..], &ours[head..]);
    let tail = rest.iter().rev().zip(other.iter().rev()).take_while(same).count();
    let mut lines: Vec<String> = control[head.saturating_sub(2)..head].iter().map(|line| format!("  {line}")).collect();
    lines.extend(cut(&rest[..rest.len() - tail], "- "));
    lines.extend(cut(&other[..other.len() - tail], "+ "));
    if lines.is_empty() {
        lines.push("only the end of the last line differs".to_owned());
    }
    lines.join("\n")
}

fn cut<'a>(lines: &'a [&str], sign: &'a str) -> impl Iterator<Item = String> + 'a {
    let more = (lines.len() > SHOWN).then(|| format!("{sign}... and {} lines more", lines.len() - SHOWN));
    lines.iter().take(SHOWN).map(move |line| format!("{sign}{line}")).chain(more)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::super::script;
    use super::*;

    fn ending(code: i32, stdout: &str) -> Ending {
        Ending { code: Some(code), stdout: stdout.to_owned(), stderr: String::new() }
    }

    fn case(script: &str) -> Case {
        script::parse("", script).unwrap().remove(0)
    }

    fn judged(script: &str, one: &Ending, other: &Ending) -> Result<(), String> {
        ours(&case(script), &Masks::new().unwrap(), slice::from_ref(one), slice::from_ref(other))
    }

    #[test]
    fn what_is_masked_does_not_differ_and_the_rest_does() {
        let script = "case: a\n$ get cm\n";
        assert_eq!(judged(script, &ending(0, "a   5s\n"), &ending(0, "a  12s\n")), Ok(()));
        let wrong = judged(script, &ending(0, "a\nb\nc\nd\n"), &ending(0, "a\nx\nc\nd\n")).unwrap_err();
        assert_eq!(wrong, "kubectl get cm\nstdout (- control, + ours):\n  a\n- b\n+ x");
        assert!(judged(script, &ending(0, ""), &ending(1, "")).unwrap_err().contains("exit code: control 0, ours 1"));
        assert!(judged(script, &ending(0, "a"), &ending(0, "a\n")).is_err());
        assert!(ours(&case(script), &Masks::new().unwrap(), &[ending(0, "")], &[]).is_err());
    }

    #[test]
    fn the_order_of_fields_is_a_servers_own() {
        let script = "case: a\n$ get --raw /version\n";
        assert_eq!(judged(script, &ending(0, "{\"a\":1,\"b\":[1,2]}\n"), &ending(0, "{\"b\":[1,2],\"a\":1}")), Ok(()));
        assert!(judged(script, &ending(0, "{\"a\":[1,2]}"), &ending(0, "{\"a\":[2,1]}")).is_err());
    }

    #[test]
    fn an_allowance_hides_what_it_names_and_no_more() {
        let script = "case: a\n$ version\nkeep ^v because the rest is theirs\nmask \\d+ because numbers differ\n";
        assert_eq!(judged(script, &ending(0, "v1 a\nx\n"), &ending(0, "y\nv2 a\n")), Ok(()));
        assert!(judged(script, &ending(0, "v1 a\n"), &ending(0, "v1 b\n")).is_err());
    }

    #[test]
    fn a_step_that_the_control_does_not_take_as_expected_is_unfair() {
        assert!(control(&case("case: a\n$ get cm\n"), &[ending(1, "")]).unwrap_err().contains("no fair step"));
        assert!(control(&case("case: a\n! get cm\n"), &[ending(0, "")]).is_err());
        assert!(control(&case("case: a\n& 2 get cm -w\n"), &[ending(0, "one\n")]).is_err());
        assert!(control(&case("case: a\n& 2 get cm -w\n"), &[ending(0, "one\ntwo\n")]).is_ok());
    }
}
