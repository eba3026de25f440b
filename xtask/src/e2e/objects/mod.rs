//! The suite `objects`: objects that are right, odd or wrong in many ways, created on ours and on the control. Both must say the
//! same: the code, the message and its causes, the warnings, and the object with all that was filled in.
//!
//! Every change of `changes.txt` is tried alone, and then several at a time, chosen by a seed. All are dry runs, so nothing that
//! comes later depends on what came before.

mod changes;
mod client;
mod compare;

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::choices::{Choices as _, Seeded};

use self::changes::{Change, Kind};
use self::client::Client;
use super::report::{Outcome, Report};
use super::servers::Servers;
use super::{Options, Place};

pub(super) const SUITE: &str = "objects";

/// How many objects of each kind are made of several changes.
const ROUNDS: u32 = 1000;
const QUICK_ROUNDS: u32 = 100;

/// The most changes in one object.
const MOST_CHANGES: u64 = 5;

/// How many differences of a kind are told.
const MOST_TOLD: usize = 5;

/// Asks both servers, kind by kind.
pub(super) fn run(servers: &Servers, options: &Options, place: Place, report: &mut Report) -> Result<()> {
    let folder = servers.folder(SUITE, place)?;
    let control = servers.start(Place::Control, &folder.join("control"))?;
    let ours = servers.start(place, &folder)?;
    let (control, ours) = (Client::new(control.endpoint()?)?, Client::new(ours.endpoint()?)?);
    for client in [&control, &ours] {
        furnish(client)?;
    }
    let seed = options.seed();
    let rounds = options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS });
    for kind in changes::kinds()? {
        let began = Instant::now();
        let mut choices = Seeded::new(seed);
        let alone = kind.changes.iter().map(|change| vec![change]);
        let together = (0..rounds).map(|_| kind.chosen(1 + choices.below(MOST_CHANGES), &mut choices));
        let tries: Vec<Vec<&Change>> = std::iter::once(Vec::new()).chain(alone).chain(together).collect();
        let outcome = compared(&kind, &tries, &control, &ours).map(|differences| match differences.as_slice() {
            [] => Outcome::Ok(format!("{} objects, seed {seed}", tries.len())),
            some => {
                let told = some.iter().take(MOST_TOLD).cloned().collect::<Vec<_>>().join("\n");
                Outcome::Failed(format!("{} of {} objects differ, seed {seed}\n{told}", some.len(), tries.len()))
            }
        });
        let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}, seed {seed}")));
        report.case(SUITE, place, &kind.name(), &outcome, began.elapsed());
    }
    Ok(())
}

/// Makes what pods refer to: two accounts, of which one gives its pods no token.
fn furnish(client: &Client) -> Result<()> {
    for (name, mounts) in [("default", false), ("robot", true)] {
        let account = json!({"metadata": {"name": name}, "automountServiceAccountToken": mounts});
        let made = client.post("/api/v1/namespaces/default/serviceaccounts", &account)?;
        ensure!([201, 409].contains(&made.code), "the account {name} could not be made: {}", made.body);
    }
    Ok(())
}

fn compared(kind: &Kind, tries: &[Vec<&Change>], control: &Client, ours: &Client) -> Result<Vec<String>> {
    let path = format!("{}?dryRun=All", kind.path);
    let mut differences = Vec::new();
    for changes in tries {
        let object = kind.object(changes);
        let (theirs, ours) = (control.post(&path, &object)?, ours.post(&path, &object)?);
        if let Some(difference) = compare::difference(&theirs, &ours) {
            differences.push(format!("{}\n{difference}", shown(changes)));
        }
    }
    Ok(differences)
}

fn shown(changes: &[&Change]) -> String {
    let each: Vec<String> = changes.iter().map(|change| format!("{} = {}", change.path, change.value)).collect();
    if each.is_empty() { Value::from("no change").to_string() } else { each.join(", ") }
}
