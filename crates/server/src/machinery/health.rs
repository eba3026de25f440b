//! `/livez`, `/readyz` and `/healthz`: whether the server runs, and whether it can do its work.

use http::StatusCode;

use super::query::Query;
use super::reply::Reply;

/// One thing that is looked at.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// Why it is not well, if it is not.
    pub(crate) fault: Option<String>,
}

/// The answer to a health request; `one` names a single check.
pub(crate) fn report(endpoint: &str, one: &str, checks: Vec<Check>, query: &Query) -> Option<Reply> {
    let excluded: Vec<&str> = query.all("exclude").collect();
    if !one.is_empty() && !checks.iter().any(|check| check.name == one) {
        return None;
    }
    let mut lines = Vec::new();
    let mut well = true;
    for check in checks.into_iter().filter(|check| one.is_empty() || check.name == one) {
        let name = check.name;
        match check.fault {
            _ if excluded.contains(&name) => lines.push(format!("[+]{name} excluded: ok\n")),
            None => lines.push(format!("[+]{name} ok\n")),
            Some(why) => {
                well = false;
                lines.push(format!("[-]{name} failed: {why}\n"));
            }
        }
    }
    let text = lines.concat();
    Some(if !well {
        Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}{endpoint} check failed\n"))
    } else if query.has("verbose") {
        Reply::text(StatusCode::OK, format!("{text}{endpoint} check passed\n"))
    } else {
        Reply::text(StatusCode::OK, "ok")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinery::reply::Content;

    fn text(reply: Reply) -> (u16, String) {
        let Content::Whole(bytes) = reply.content else { panic!("a health report is whole") };
        (reply.status.as_u16(), String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn checks(fault: Option<&str>) -> Vec<Check> {
        vec![Check { name: "ping", fault: None }, Check { name: "store", fault: fault.map(str::to_owned) }]
    }

    #[test]
    fn one_fault_makes_it_unwell_and_is_named() {
        let report = |fault, query| text(report("readyz", "", checks(fault), &Query::read(query)).unwrap());
        assert_eq!(report(None, ""), (200, "ok".to_owned()));
        assert_eq!(report(None, "verbose"), (200, "[+]ping ok\n[+]store ok\nreadyz check passed\n".to_owned()));
        let (code, said) = report(Some("disk full"), "");
        assert_eq!((code, said.contains("[-]store failed: disk full\n")), (500, true), "{said}");
        assert_eq!(report(Some("disk full"), "exclude=store").0, 200);
    }

    #[test]
    fn a_single_check_can_be_asked_for() {
        assert_eq!(text(report("livez", "ping", checks(Some("x")), &Query::default()).unwrap()).0, 200);
        assert!(report("livez", "nothing", checks(None), &Query::default()).is_none());
    }
}
