//! Whether what a plugin said is what it was to say.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testkit::real::Said;

use super::vector::Answer;

/// The answer as JSON, if it is what was expected; `Null` where nothing was to be said.
pub(super) fn judge(expected: &Answer, said: &Said) -> Result<Value> {
    ensure!(!said.stderr.contains("panicked at"), "it panicked: {}", said.stderr);
    if let Some(exit) = expected.dies {
        ensure!(
            said.code == Some(exit) && said.stdout.is_empty(),
            "expected exit {exit} and no answer, and got {said:?}"
        );
        return Ok(Value::Null);
    }
    // One document and nothing behind it, or nothing at all.
    let answer = match said.stdout.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text).with_context(|| format!("not one JSON document: {text}"))?,
    };
    if let Some(code) = expected.code {
        ensure!(said.code == Some(1) && answer["code"] == code, "expected code {code}, and got {}", shown(said));
        let message = answer["msg"].as_str().unwrap_or_default();
        ensure!(!message.is_empty(), "an error without a message: {answer}");
        let details = answer["details"].as_str().unwrap_or_default();
        ensure!(
            format!("{message}; {details}").contains(&expected.says),
            "expected a message with \"{}\", and got {}",
            expected.says,
            shown(said)
        );
        return Ok(answer);
    }
    ensure!(said.code == Some(0), "expected success, and got {}", shown(said));
    if let Some(json) = &expected.json {
        ensure!(answer == *json, "expected {json}, and got {answer}");
    }
    match (&expected.ips, answer["ips"].as_array()) {
        (None, _) => ensure!(expected.json.is_some() || answer.is_null(), "expected no answer, and got {answer}"),
        (Some(ips), Some(given)) => {
            let given = |key: &str| given.iter().map(|ip| ip[key].as_str().unwrap_or_default()).collect::<Vec<_>>();
            ensure!(given("address") == *ips, "expected {ips:?}, and got {answer}");
            if let Some(gateways) = &expected.gateways {
                ensure!(given("gateway") == *gateways, "expected the gateways {gateways:?}, and got {answer}");
            }
        }
        (Some(ips), None) if ips.is_empty() => {}
        (Some(ips), None) => bail!("expected {ips:?}, and got {answer}"),
    }
    Ok(answer)
}

/// What a plugin said, for whoever reads why it was wrong.
fn shown(said: &Said) -> String {
    let end = said.stderr.lines().last().unwrap_or_default();
    format!("exit {:?}: {} {end}", said.code, said.stdout.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(code: i32, stdout: &str) -> Said {
        Said { code: Some(code), stdout: stdout.to_owned(), stderr: String::new() }
    }

    fn ips(ips: &[&str]) -> Answer {
        Answer { ips: Some(ips.iter().map(ToString::to_string).collect()), ..Answer::default() }
    }

    const GIVEN: &str = r#"{"ips": [{"address": "10.0.0.1/24"}]}"#;

    #[test]
    fn an_answer_must_be_the_one_that_is_expected() {
        assert_eq!(judge(&ips(&["10.0.0.1/24"]), &said(0, GIVEN)).unwrap()["ips"][0]["address"], "10.0.0.1/24");
        assert!(judge(&ips(&["10.0.0.2/24"]), &said(0, GIVEN)).is_err());
        assert!(judge(&ips(&["10.0.0.1/24"]), &said(1, GIVEN)).is_err());
        assert!(judge(&ips(&["10.0.0.1/24"]), &said(0, &GIVEN.repeat(2))).is_err(), "two documents");
        assert!(judge(&Answer::default(), &said(0, GIVEN)).is_err(), "nothing was to be said");
        assert!(judge(&Answer { json: Some(json!({})), ..Answer::default() }, &said(0, GIVEN)).is_err());
        assert!(judge(&Answer::default(), &said(0, "")).is_ok());
    }

    #[test]
    fn a_failure_must_have_its_code_and_say_why() {
        let wrong = Answer { code: Some(7), says: "range".to_owned(), ..Answer::default() };
        assert!(judge(&wrong, &said(1, r#"{"code": 7, "msg": "range: bad"}"#)).is_ok());
        assert!(judge(&wrong, &said(1, r#"{"code": 999, "msg": "range: bad"}"#)).is_err());
        assert!(judge(&wrong, &said(1, r#"{"code": 7, "msg": "no"}"#)).is_err());
        assert!(judge(&wrong, &said(0, r#"{"code": 7, "msg": "range: bad"}"#)).is_err(), "a failure that ends well");
        let dies = Answer { dies: Some(2), ..Answer::default() };
        assert!(judge(&dies, &said(2, "")).is_ok());
        assert!(judge(&dies, &said(1, "")).is_err());
    }
}
