//! What kube-apiserver 1.36.3 is known to do wrong, or to do otherwise by a row of docs/reference/differences.md or compatibility.md, so
//! that ours is right to differ.

mod ports;

use std::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};

pub(super) use self::ports::taken as taken_port;
use super::holdings::Held;
use super::pair::Pair;
use super::ranges::{self, UNUSABLE};
use super::shown;
use super::side::Taken;
use super::steps::{About, Step, namespace_of};
use crate::e2e::method::Method;

/// A known difference. Its name is that of a row of docs/reference/differences.md or compatibility.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Excuse {
    /// The real server hangs up.
    Panic,
    /// It shows the address that an `ExternalName` names as a list, too.
    ExternalNameList,
    /// A refusal of the second family leaves the address of the first behind.
    LeftBehind,
    /// It has forgotten an address that a Service has.
    Lost,
    /// Of two addresses that cannot be had, any is named.
    EitherFamily,
    /// What Services have cannot be deleted here.
    Protection,
    /// What says whose an address is cannot be changed here.
    Labels,
    /// Ranges that are deleted together count on each other there.
    DeletedTogether,
    /// A range that can never give out an address is not ready here.
    UnusableRange,
    /// What the server says of a deleted range is right from its deletion on here.
    AtOnce,
    /// One fault is told once here.
    DoubleFaults,
    /// What an `ExternalName` says of node ports is taken for a port that it has there, or not taken for one that it gets.
    ExternalNamePorts,
    /// An empty list that is refused is shown as nothing here.
    GoPrinted,
    /// An empty list is nothing here, also when it is applied.
    EmptyLists,
    /// The real server goes on to give out of a CIDR that several ranges have, all of them deleted.
    DeletedRangeGives,
    /// The real controller does not look at a deleted range when it can go.
    Overlooked,
    /// What the real server picks in a dry run is made up, and what is named is looked for in any one range.
    DryRunPicks,
    /// The real server takes what was freed a moment ago for taken.
    LateFrees,
    /// It makes a Service of an apply to its status.
    StatusOfNone,
    /// It judges a write of the status by another type than the Service has.
    StatusOfAnotherType,
}

impl Excuse {
    #[cfg(test)]
    const ALL: [Self; 20] = [
        Self::Panic,
        Self::ExternalNameList,
        Self::LeftBehind,
        Self::Lost,
        Self::EitherFamily,
        Self::Protection,
        Self::Labels,
        Self::DeletedTogether,
        Self::UnusableRange,
        Self::AtOnce,
        Self::DoubleFaults,
        Self::ExternalNamePorts,
        Self::GoPrinted,
        Self::EmptyLists,
        Self::DeletedRangeGives,
        Self::Overlooked,
        Self::DryRunPicks,
        Self::LateFrees,
        Self::StatusOfNone,
        Self::StatusOfAnotherType,
    ];

    /// The name of the row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Panic => "headless-panic",
            Self::ExternalNameList => "addresses-of-external-names",
            Self::LeftBehind => "left-behind",
            Self::Lost => "lost-addresses",
            Self::EitherFamily => "either-family",
            Self::Protection => "address-protection",
            Self::Labels => "address-labels",
            Self::DeletedTogether => "deleted-together",
            Self::UnusableRange => "unusable-ranges",
            Self::AtOnce => "range-at-once",
            Self::DoubleFaults => "double-faults",
            Self::ExternalNamePorts => "ports-of-external-names",
            Self::GoPrinted => "go-printed",
            Self::EmptyLists => "empty-lists",
            Self::DeletedRangeGives => "deleted-ranges-give",
            Self::Overlooked => "overlooked-ranges",
            Self::DryRunPicks => "dry-run-picks",
            Self::LateFrees => "late-frees",
            Self::StatusOfNone => "apply-to-status",
            Self::StatusOfAnotherType => "status-of-another-type",
        }
    }
}

/// How often anything may be excused however few steps there are: so short a run is at the mercy of its choices.
const FEW: u32 = 6;

impl Excuse {
    /// How often it may excuse something in so many steps: some times as often as was seen. If it does more often, it stands for something
    /// that it was not meant for. None if how often that is says nothing.
    pub(super) fn most(self, steps: u32) -> Option<u32> {
        let one_in = match self {
            // How often a cache is behind is a matter of how busy the machine is. Each time counts only if the real server comes round to
            // what ours has said, and soon.
            Self::LateFrees => return None,
            // One write in eight is a dry run; where hardly anything is left, the second address of many is not to be had; and how far
            // the real controller is behind is a matter of how busy the machine is.
            Self::DryRunPicks | Self::LeftBehind | Self::Overlooked => 25,
            _ => 50,
        };
        Some(FEW + steps / one_in)
    }
}

/// The known difference that explains what came of a step, if one does.
pub(super) fn find(step: &Step, ours: &Taken, theirs: &Taken, pair: &mut Pair) -> Result<Option<Excuse>> {
    if are_told_twice(ours, theirs) {
        return Ok(Some(Excuse::DoubleFaults));
    }
    match step.about {
        About::Service => of_service(step, ours, theirs, pair),
        About::Address => of_address(step, ours, theirs, pair),
        About::Range => of_range(step, ours, theirs, pair),
        About::Namespace => Ok(None),
    }
}

fn of_range(step: &Step, ours: &Taken, theirs: &Taken, pair: &mut Pair) -> Result<Option<Excuse>> {
    let applies = step.method == Method::Apply;
    // With what the server says can be in conflict only who says something else, and that is not the same on both sides where they
    // do not say the same.
    if applies && conflicts_with_the_server(ours, theirs) {
        let ranges = pair.ours.ranges()?;
        let range = ranges.named(&step.name);
        if range.is_some_and(ranges::is_leaving) {
            return Ok(Some(Excuse::AtOnce));
        }
        if range.is_some_and(ranges::is_unusable) {
            return Ok(Some(Excuse::UnusableRange));
        }
    }
    let is_empty = step.body["spec"]["cidrs"] == json!([]);
    if is_empty && theirs.message().replace("Invalid value: []", "Invalid value: null") == ours.message() {
        return Ok(Some(Excuse::GoPrinted));
    }
    Ok((is_empty && applies && ours.code == 409 && theirs.code == 422).then_some(Excuse::EmptyLists))
}

/// Whether all that is refused is to change what the server says, on either side: what its controller has, or whether the range is ready,
/// which the real server lets others say as well.
fn conflicts_with_the_server(ours: &Taken, theirs: &Taken) -> bool {
    let is_the_servers = |cause: &Value| {
        let begins = |key: &str, with: &str| cause[key].as_str().is_some_and(|text| text.starts_with(with));
        begins("message", "conflict with \"service-cidr-controller\"")
            || begins("field", ".status.conditions[type=\"Ready\"]")
    };
    let conflicts = |taken: &Taken| {
        let causes = taken.body["details"]["causes"].as_array();
        taken.code == 409 && causes.is_some_and(|causes| causes.iter().all(is_the_servers))
    };
    let is_fine = |taken: &Taken| taken.is_done() || conflicts(taken);
    is_fine(ours) && is_fine(theirs) && (conflicts(ours) || conflicts(theirs))
}

/// Whether both say the same faults, and the real server some of them more than once.
fn are_told_twice(ours: &Taken, theirs: &Taken) -> bool {
    let causes = |taken: &Taken| taken.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let (mine, all) = (causes(ours), causes(theirs));
    let mut once: Vec<Value> = Vec::new();
    for cause in &all {
        if !once.contains(cause) {
            once.push(cause.clone());
        }
    }
    ours.code == 422 && theirs.code == 422 && once.len() < all.len() && mine == once
}

fn of_service(step: &Step, ours: &Taken, theirs: &Taken, pair: &mut Pair) -> Result<Option<Excuse>> {
    if step.name.is_empty() {
        return Ok(None);
    }
    if makes_of_its_status(step, ours, theirs) {
        return Ok(Some(Excuse::StatusOfNone));
    }
    if step.part == "status" && names_another_type(&step.body, &pair.ours.spec(&step.name)?) {
        // Ours is right if the type counts for nothing: without it, both say what ours has said.
        let plain = step.without_spec();
        let (mine, expected) = (pair.ours.take(&plain)?, pair.theirs.take(&plain)?);
        if mine == *ours && mine == expected {
            return Ok(Some(Excuse::StatusOfAnotherType));
        }
    }
    if theirs.code == 0 && ours.code == 422 && step.method != Method::Post {
        let (there, families) = (pair.theirs.spec(&step.name)?, pair.theirs.families()?);
        return Ok(panics(&step.spec(), &there, &families).then_some(Excuse::Panic));
    }
    if shows_no_list(ours, theirs) {
        return Ok(Some(Excuse::ExternalNameList));
    }
    // Somebody asks for what was left behind.
    if let Some(address) = refused(theirs.message())
        && (ours.is_done() || ours.code == 422 && refused(ours.message()) != Some(address))
        && pair.theirs.held()?.leaked().any(|leaked| leaked == address)
    {
        return Ok(Some(Excuse::LeftBehind));
    }
    // Or for what was lost, and gets it, although another Service has it.
    if let Some(address) = refused(ours.message())
        && theirs.is_done()
        && pair.theirs.held()?.has_lost(address)
    {
        return Ok(Some(Excuse::Lost));
    }
    if ports::differ(step, ours, theirs, pair)? {
        return Ok(Some(Excuse::ExternalNamePorts));
    }
    Ok(name_either(&step.spec()["clusterIPs"], ours, theirs).then_some(Excuse::EitherFamily))
}

/// Whether two addresses are asked for, and ours says that the first cannot be had, and the real server that the second cannot.
fn name_either(asked: &Value, ours: &Taken, theirs: &Taken) -> bool {
    let Some([first, second]) = asked.as_array().map(Vec::as_slice) else { return false };
    let names = |taken: &Taken, asked: &Value| {
        let asked = asked.as_str().and_then(|address| address.parse().ok());
        taken.code == 422 && asked.is_some() && not_had(taken.message()) == asked
    };
    names(ours, first) && names(theirs, second)
}

/// Whether an apply to the status of a Service that is not there was taken for its create: the Service was made, or refused because a
/// status says nothing of ports.
fn makes_of_its_status(step: &Step, ours: &Taken, theirs: &Taken) -> bool {
    let wants_ports = |taken: &Taken| {
        let causes = taken.body["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        taken.code == 422
            && matches!(causes, [one] if one["field"] == "spec.ports" && one["reason"] == "FieldValueRequired")
    };
    let is_create = theirs.code == 201 || wants_ports(theirs);
    step.part == "status" && step.method == Method::Apply && ours.code == 404 && is_create
}

/// Whether a write of the status says another type than the Service has, which is there.
fn names_another_type(body: &Value, there: &Value) -> bool {
    let (asked, has) = (&body["spec"]["type"], &there["type"]);
    !asked.is_null() && !has.is_null() && asked != has
}

/// Whether all that a dry run differs in is what is picked. The real server's picks are the first address of any range and ports that
/// nobody asked whether they are free. An address that is named must be in a range that is chosen at random, which may be one that never
/// gives anything, and can be somebody's; a port that is named can be in no range, or be one that it picked for another.
pub(super) fn differ_in_dry_picks(
    step: &Step,
    ours: &Taken,
    theirs: &Taken,
    without_picks: impl Fn(&Taken) -> Taken,
) -> bool {
    if step.about != About::Service || !step.is_dry() || step.method == Method::Delete || !step.part.is_empty() {
        return false;
    }
    let says = |taken: &Taken, words: &[&str]| words.iter().any(|words| taken.message().contains(words));
    // What the real server does not find may be refused there for what is looked at after that.
    let finds_more = says(ours, &["failed to allocate", "provided port is "]) && theirs.code != 0;
    let looks_elsewhere = theirs.code == 422 && says(theirs, &["is not in the valid range", "allocator not ready"]);
    let refuses_its_pick = ports::is_own_pick(&step.spec(), theirs);
    finds_more || looks_elsewhere || refuses_its_pick || without_picks(ours) == without_picks(theirs)
}

fn of_address(step: &Step, ours: &Taken, theirs: &Taken, pair: &mut Pair) -> Result<Option<Excuse>> {
    if step.method == Method::Delete && ours.code == 403 && theirs.is_done() {
        // Of several, the refusal says which one.
        let said = ours.body["details"]["name"].as_str().unwrap_or_default();
        let name = if step.name.is_empty() { said } else { &step.name };
        let Ok(address) = name.parse() else { return Ok(None) };
        return Ok(names_holder(ours.message(), &pair.ours.holders(address)?).then_some(Excuse::Protection));
    }
    let Ok(address) = step.name.parse() else { return Ok(None) };
    let (mine, expected) = (pair.ours.held()?, pair.theirs.held()?);
    let has_leaked = |held: &Held| held.leaked().any(|leaked| leaked == address);
    if has_leaked(&expected) && !has_leaked(&mine) && is_only_found(step.method, theirs, ours) {
        return Ok(Some(Excuse::LeftBehind));
    }
    if expected.has_lost(address) && !mine.has_lost(address) && is_only_found(step.method, ours, theirs) {
        return Ok(Some(Excuse::Lost));
    }
    let is_in_use = !pair.ours.holders(address)?.is_empty();
    Ok((is_in_use && differ_in_labels(ours, theirs)).then_some(Excuse::Labels))
}

/// Whether an address is refused to be deleted for the sake of one of those Services.
fn names_holder(message: &str, holders: &[String]) -> bool {
    let why = |name: &String| {
        format!("Service {}/{name} has this address; it is freed when the Service gives it up", namespace_of(name))
    };
    holders.iter().any(|name| message.ends_with(&why(name)))
}

/// Whether a write found an object on the first server and none on the second, by their answers.
fn is_only_found(method: Method, first: &Taken, second: &Taken) -> bool {
    if method == Method::Post {
        return first.code == 409 && first.body["reason"] == "AlreadyExists" && second.code == 201;
    }
    // A write of the whole makes what is not there.
    let makes = matches!(method, Method::Put | Method::Apply) && second.code == 201;
    let misses = second.code == 404 && second.body["reason"] == "NotFound";
    (makes || misses) && matches!(first.code, 200 | 403 | 409 | 422)
}

/// Whether all that differs is who looks after an address, and of which family it is.
fn differ_in_labels(ours: &Taken, theirs: &Taken) -> bool {
    let without = |taken: &Taken| {
        let mut body = taken.body.clone();
        if let Some(labels) = body.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.retain(|name, _| !name.starts_with("ipaddress.kubernetes.io/"));
        }
        if body["metadata"]["labels"] == json!({})
            && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("labels");
        }
        body
    };
    ours.is_done() && ours.code == theirs.code && without(ours) == without(theirs)
}

/// Whether all that differs is that ours is not ready because it can never give out an address.
pub(super) fn is_unusable(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    let without = |range: &Value| {
        let mut range = range.clone();
        let conditions = range.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let ready = conditions.and_then(|all| {
            let at = all.iter().position(|condition| condition["type"] == "Ready")?;
            Some(all.remove(at))
        });
        let ready = ready.unwrap_or_default();
        // Who has it depends on what it says.
        shown::without_status_managers(&mut range);
        (ready, range)
    };
    let (Some((ours, mine)), Some((theirs, expected))) = (ours.map(without), theirs.map(without)) else {
        return false;
    };
    ours["status"] == "False" && ours["reason"] == UNUSABLE && theirs["status"] == "True" && mine == expected
}

/// Whether this is the known panic: a Service that has an address is to become headless, and of a family that the cluster does not
/// have. The real server then asks an allocator that is not there, and hangs up.
fn panics(asked: &Value, there: &Value, families: &[&str]) -> bool {
    let none = json!("None");
    let headless = asked["clusterIP"] == none || asked["clusterIPs"].as_array().is_some_and(|all| all.contains(&none));
    let has_address = there["clusterIP"].as_str().is_some_and(|address| !address.is_empty() && address != "None");
    // What is not asked for stays as it is.
    let said = |name: &str| if asked[name].is_null() { there[name].clone() } else { asked[name].clone() };
    let dual = said("ipFamilyPolicy").as_str().is_some_and(|policy| policy != "SingleStack");
    let other = said("ipFamilies")
        .as_array()
        .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|family| !families.contains(&family)));
    headless && has_address && families.len() == 1 && (dual || other)
}

/// Whether all that differs is that the real server shows the address which an `ExternalName` names as a list, too.
fn shows_no_list(ours: &Taken, theirs: &Taken) -> bool {
    let mut body = theirs.body.clone();
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else { return false };
    let list = spec.remove("clusterIPs");
    let is_shown = spec.get("type") == Some(&json!("ExternalName")) && list == Some(json!([spec.get("clusterIP")]));
    is_shown && ours.code == theirs.code && ours.body == body
}

/// The address that is said to be taken.
fn refused(message: &str) -> Option<IpAddr> {
    let is_taken = message.ends_with(": provided IP is already allocated");
    not_had(message).filter(|_| is_taken)
}

/// The address that is said not to be had, whatever the reason.
fn not_had(message: &str) -> Option<IpAddr> {
    let rest = message.split_once("failed to allocate IP ")?.1;
    // An address may end in a colon, and has none before a space.
    rest.split_once(": ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process;

    #[test]
    fn every_difference_that_is_excused_or_left_out_is_a_row_of_the_page() {
        let read = |page: &str| fs::read_to_string(process::repo_root().join("docs/reference").join(page)).unwrap();
        let page = read("differences.md") + &read("compatibility.md");
        for name in Excuse::ALL.map(Excuse::name).into_iter().chain(shown::LEFT_OUT) {
            let rows = page.lines().filter(|line| line.starts_with(&format!("| `{name}` |"))).count();
            assert_eq!(rows, 1, "rows of {name}");
        }
    }

    /// Rows that no step of the suite can meet, and why.
    const UNMET: [(&str, &str); 6] = [
        ("stand-in-ranges", "flags do not change while the servers run; `crates/server` has tests of it"),
        ("port-range-stays", "the same"),
        ("large-flag-ranges", "the servers are started with ranges that both take; `crates/cadastre` has tests of it"),
        ("ranges-are-marked", "nobody watches ranges here event by event"),
        ("named-first", "what is picked does not come from where things are named, as far as there is anything else"),
        ("most-ports", "no Service here has more than a few ports"),
    ];

    #[test]
    fn every_row_of_the_page_is_excused_or_left_out_or_cannot_be_met() {
        let page = fs::read_to_string(process::repo_root().join("docs/reference/differences.md")).unwrap();
        let mut rows: Vec<&str> =
            page.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0)).collect();
        for (name, _) in UNMET {
            assert!(rows.contains(&name), "there is no row {name}");
        }
        let known = |name: &&str| {
            Excuse::ALL.map(Excuse::name).contains(name)
                || shown::LEFT_OUT.contains(name)
                || UNMET.iter().any(|(unmet, _)| unmet == name)
        };
        rows.retain(|name| !known(name));
        assert_eq!(rows, [""; 0], "these rows are neither excused nor said to be met by nothing");
    }

    #[test]
    fn no_name_that_is_not_bound_otherwise_excuses_more_than_a_small_share_of_a_long_run() {
        let (bounded, free): (Vec<_>, _) = Excuse::ALL.into_iter().partition(|excuse| excuse.most(0).is_some());
        for excuse in bounded {
            assert!(excuse.most(2_500).unwrap() * 20 <= 2_500 && excuse.most(0) > Some(0), "{excuse:?}");
        }
        assert_eq!(free, [Excuse::LateFrees]);
        assert_eq!((Excuse::Panic.most(2_500), Excuse::DryRunPicks.most(150)), (Some(56), Some(12)));
    }

    #[test]
    fn only_what_makes_the_real_server_panic_is_excused_by_it() {
        let there = json!({"clusterIP": "10.96.0.2", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
        let known = json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "PreferDualStack"});
        assert!(panics(&known, &there, &["IPv4"]));
        assert!(panics(&json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}), &there, &["IPv4"]));
        assert!(!panics(&known, &there, &["IPv4", "IPv6"]), "the cluster has both families");
        assert!(!panics(&known, &json!({"clusterIP": "None"}), &["IPv4"]), "it is headless already");
        assert!(!panics(&known, &Value::Null, &["IPv4"]), "it is not there");
        assert!(!panics(&json!({"clusterIP": "None"}), &there, &["IPv4"]), "it stays of its family");
        assert!(!panics(&json!({"ipFamilyPolicy": "PreferDualStack"}), &there, &["IPv4"]), "it stays with an address");
    }

    fn taken(code: u16, body: Value) -> Taken {
        Taken { code, body }
    }

    #[test]
    fn only_what_is_picked_may_differ_in_dry_runs() {
        let step = |query: &'static str, method: Method| Step { method, query, ..Step::late_create("default") };
        let picked = shown::picked().unwrap();
        let differ = |step: &Step, ours: &Taken, theirs: &Taken| {
            let plain = |taken: &Taken| shown::without_picks(&picked, shown::is_never_named, &taken.body);
            differ_in_dry_picks(step, ours, theirs, |all| taken(all.code, plain(all)))
        };
        let dry = step("dryRun=All", Method::Post);
        let given = |address: &str| taken(201, json!({"spec": {"clusterIP": address, "clusterIPs": [address]}}));
        let refused = |code: u16, why: &str| taken(code, json!({"message": why}));
        let has = "failed to allocate IP 10.96.0.2: provided IP is already allocated";
        let outside =
            "failed to allocate IP 10.98.0.2: the provided IP (10.98.0.2) is not in the valid range. The range ...";
        assert!(differ(&dry, &given("<picked>"), &given("10.96.0.0")));
        assert!(differ(&dry, &refused(422, has), &given("10.96.0.2")));
        assert!(differ(&dry, &given("10.98.0.2"), &refused(422, outside)));
        assert!(!differ(&dry, &given("None"), &given("10.96.0.0")));
        assert!(!differ(&dry, &given("<picked>"), &refused(422, "spec.ports: Required value")));
        assert!(!differ(&dry, &refused(422, "spec.ports: Required value"), &given("10.96.0.0")));
        assert!(!differ(&dry, &refused(422, has), &taken(0, Value::Null)), "it hung up");
        assert!(!differ(&step("", Method::Post), &given("<picked>"), &given("10.96.0.0")), "it is not only tried");
        assert!(!differ(&step("dryRun=All", Method::Delete), &given("<picked>"), &given("10.96.0.0")));
    }

    #[test]
    fn only_the_list_of_an_external_name_is_excused() {
        let taken = |code, spec: Value| taken(code, json!({"spec": spec}));
        let ours = taken(200, json!({"type": "ExternalName", "clusterIP": "fd00:96::2"}));
        let listed = |kind: &str| json!({"type": kind, "clusterIP": "fd00:96::2", "clusterIPs": ["fd00:96::2"]});
        assert!(shows_no_list(&ours, &taken(200, listed("ExternalName"))));
        assert!(!shows_no_list(&ours, &taken(201, listed("ExternalName"))));
        assert!(!shows_no_list(
            &taken(200, json!({"type": "NodePort", "clusterIP": "fd00:96::2"})),
            &taken(200, listed("NodePort"))
        ));
    }

    #[test]
    fn only_what_says_whose_an_address_is_may_differ() {
        let labels = |labels: Value| taken(200, json!({"metadata": {"labels": labels}, "spec": {}}));
        let marked = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        assert!(differ_in_labels(&labels(marked.clone()), &labels(json!({}))));
        assert!(!differ_in_labels(&labels(marked.clone()), &labels(json!({"a": "b"}))));
        assert!(!differ_in_labels(&labels(marked), &taken(409, json!({}))));
    }

    #[test]
    fn only_a_range_that_cannot_give_anything_may_be_not_ready() {
        let range = |status: &str, reason: &str, name: &str| {
            let ready = json!({"type": "Ready", "status": status, "reason": reason});
            json!({"metadata": {"name": name}, "status": {"conditions": [ready]}})
        };
        let theirs = range("True", "", "r");
        assert!(is_unusable(Some(&range("False", UNUSABLE, "r")), Some(&theirs)));
        assert!(!is_unusable(Some(&range("False", "Terminating", "r")), Some(&theirs)));
        assert!(!is_unusable(Some(&range("False", UNUSABLE, "other")), Some(&theirs)));
        assert!(!is_unusable(Some(&range("False", UNUSABLE, "r")), None));
    }

    #[test]
    fn only_conflicts_with_the_server_are_excused() {
        let conflict = |managers: &[&str]| {
            let cause = |manager: &&str| json!({"message": format!("conflict with \"{manager}\" with subresource")});
            taken(409, json!({"details": {"causes": managers.iter().map(cause).collect::<Vec<_>>()}}))
        };
        let (done, known) = (taken(200, json!({})), conflict(&["service-cidr-controller"]));
        assert!(conflicts_with_the_server(&done, &known) && conflicts_with_the_server(&known, &done));
        assert!(conflicts_with_the_server(&known, &conflict(&["service-cidr-controller"; 2])));
        assert!(!conflicts_with_the_server(&done, &conflict(&["service-cidr-controller", "other"])));
        assert!(!conflicts_with_the_server(&done, &taken(409, json!({}))) && !conflicts_with_the_server(&done, &done));
        assert!(!conflicts_with_the_server(&taken(422, json!({})), &known));
        let about = |field: &str| {
            let cause = json!({"field": field, "message": "conflict with \"e2e\" with subresource \"status\""});
            taken(409, json!({"details": {"causes": [cause]}}))
        };
        assert!(conflicts_with_the_server(&known, &about(".status.conditions[type=\"Ready\"].status")));
        assert!(!conflicts_with_the_server(&known, &about(".status.conditions[type=\"Other\"].status")));
    }

    #[test]
    fn a_fault_that_is_told_twice_is_excused_and_another_is_not() {
        let faults = |fields: &[&str]| {
            let cause = |field: &&str| json!({"field": field});
            taken(422, json!({"details": {"causes": fields.iter().map(cause).collect::<Vec<_>>()}}))
        };
        assert!(are_told_twice(&faults(&["a", "b"]), &faults(&["a", "a", "b"])));
        assert!(!are_told_twice(&faults(&["a"]), &faults(&["a", "a", "b"])));
        assert!(!are_told_twice(&faults(&["a"]), &faults(&["b"])));
        assert!(!are_told_twice(&faults(&["a"]), &faults(&["a"])));
    }

    #[test]
    fn only_a_service_that_is_made_of_its_status_is_excused() {
        let apply = Step { method: Method::Apply, part: "status", ..Step::late_create("default") };
        let code = |code: u16| taken(code, json!({}));
        assert!(makes_of_its_status(&apply, &code(404), &code(201)));
        assert!(!makes_of_its_status(&apply, &code(404), &code(200)), "it is there");
        let refused = |causes: Value| taken(422, json!({"details": {"causes": causes}}));
        let wanting = json!({"field": "spec.ports", "reason": "FieldValueRequired"});
        assert!(makes_of_its_status(&apply, &code(404), &refused(json!([wanting]))));
        assert!(!makes_of_its_status(&apply, &code(404), &refused(json!([wanting, {"field": "status"}]))));
        assert!(!makes_of_its_status(&apply, &code(404), &code(422)), "for another reason");
        assert!(!makes_of_its_status(&apply, &code(409), &code(201)));
        assert!(!makes_of_its_status(&Step { method: Method::Merge, ..apply }, &code(404), &code(201)));
    }

    #[test]
    fn only_what_is_there_has_another_type() {
        let asked = json!({"spec": {"type": "LoadBalancer"}, "status": {}});
        assert!(names_another_type(&asked, &json!({"type": "ClusterIP"})));
        assert!(!names_another_type(&asked, &json!({"type": "LoadBalancer"})));
        assert!(!names_another_type(&asked, &Value::Null), "it is not there");
        assert!(!names_another_type(&json!({"status": {}}), &json!({"type": "ClusterIP"})));
    }

    #[test]
    fn what_only_one_server_has_shows_in_the_answers() {
        let said = |code: u16, reason: &str| taken(code, json!({"reason": reason}));
        let (there, missing, made) = (said(409, "AlreadyExists"), said(404, "NotFound"), said(201, ""));
        assert!(is_only_found(Method::Post, &there, &made));
        assert!(!is_only_found(Method::Post, &said(422, "Invalid"), &made), "it was not looked for");
        assert!(!is_only_found(Method::Post, &there, &said(422, "Invalid")));
        assert!(is_only_found(Method::Merge, &said(200, ""), &missing));
        assert!(is_only_found(Method::Delete, &said(403, "Forbidden"), &missing));
        assert!(is_only_found(Method::Apply, &said(200, ""), &made));
        assert!(!is_only_found(Method::Merge, &said(200, ""), &made), "a patch makes nothing");
        assert!(!is_only_found(Method::Merge, &said(200, ""), &said(200, "")), "both have it");
        assert!(!is_only_found(Method::Merge, &missing, &said(200, "")), "it is the other one");
        assert!(!is_only_found(Method::Merge, &said(500, ""), &missing));
    }

    #[test]
    fn the_address_is_read_from_the_refusal() {
        let message = "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.2\"]: failed to allocate IP 10.96.0.2: provided IP is already allocated";
        assert_eq!(refused(message), Some(IpAddr::from([10, 96, 0, 2])));
        assert_eq!((refused("range is full"), not_had("range is full")), (None, None));
        for why in
            ["provided IP is already allocated", "the provided IP (fd00:96::) is not in the valid range. The ..."]
        {
            assert_eq!(not_had(&format!("failed to allocate IP fd00:96::: {why}")), "fd00:96::".parse().ok());
        }
        assert_eq!(refused("failed to allocate IP 10.96.0.2: the provided network does not match"), None);
    }

    #[test]
    fn of_two_addresses_ours_names_the_first_and_theirs_may_name_the_second() {
        let refusal = |address: &str, why: &str| {
            let message = format!("spec.clusterIPs: Invalid value: [...]: failed to allocate IP {address}: {why}");
            taken(422, json!({"message": message}))
        };
        let (held, outside) =
            ("provided IP is already allocated", "the provided network does not match the current range");
        let asked = json!(["10.96.0.2", "FD00:96::0A"]);
        let (first, second) = (refusal("10.96.0.2", held), refusal("FD00:96::0A", outside));
        assert!(name_either(&asked, &first, &second));
        assert!(!name_either(&asked, &second, &first), "ours names the second");
        assert!(
            !name_either(&asked, &first, &refusal("10.96.0.2", outside)),
            "the first cannot be had for two reasons"
        );
        assert!(!name_either(&asked, &first, &refusal("10.96.0.3", held)), "nobody asked for that");
        assert!(!name_either(&json!(["10.96.0.2"]), &first, &second), "one is asked for");
        assert!(!name_either(&Value::Null, &first, &second));
        assert!(!name_either(&json!(["wrong", "wrong"]), &taken(422, json!({})), &taken(422, json!({}))));
    }

    #[test]
    fn only_an_address_that_the_named_service_has_is_protected() {
        let why = |service: &str| {
            format!(
                "\"10.96.0.2\" is forbidden: Service {service} has this address; it is freed when the Service gives it up"
            )
        };
        let holders = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(names_holder(&why("default/s1"), &holders(&["s0", "s1"])));
        assert!(names_holder(&why("other/o1"), &holders(&["o1"])));
        assert!(!names_holder(&why("default/s1"), &holders(&[])), "nobody has it");
        assert!(!names_holder(&why("default/s1"), &holders(&["s2"])), "another one has it");
        assert!(!names_holder("\"10.96.0.2\" is forbidden: no", &holders(&["s1"])), "for another reason");
    }
}
