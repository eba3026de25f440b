//! Which families a Service is of, and by which policy: from what it says, what it was, and what the cluster has.

use api::{Errors, Path, names};
use serde_json::{Value, json};

use super::decision::{Cluster, Refusal};
use super::service::{NONE, Service, family};

/// Fills in the policy and the families of a Service, or says why they cannot be. `faults` are those of its addresses and
/// families taken by themselves.
pub(super) fn settle(
    cluster: &Cluster,
    before: Option<&Service>,
    after: &mut Service,
    faults: impl FnOnce() -> Errors,
) -> Result<(), Refusal> {
    if after.is_external_name() || before.is_some_and(|before| stays_preferring(before, after)) {
        return Ok(());
    }
    let only_named = after.address == NONE && !after.has_selector;
    if after.policy.is_none() {
        let former = before.and_then(|before| before.policy.clone());
        let own = if only_named { "RequireDualStack" } else { "SingleStack" };
        after.policy = former.or_else(|| Some(own.to_owned()));
    }
    refuse(faults())?;

    let mut errors = Errors::new();
    if let Some(before) = before {
        reduce(before, after, &mut errors);
    }
    if after.is_single() {
        let detail =
            |what| format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        if after.addresses.len() == 2 {
            errors.invalid(&policy_path(), &json!(after.policy), detail("cluster IPs"));
        }
        if after.families.len() == 2 {
            errors.invalid(&policy_path(), &json!(after.policy), detail("IP families"));
        }
    }
    infer(cluster, after, &mut errors);
    refuse(errors)?;

    // Endpoints of a name without a selector can be of any family, whatever the cluster has.
    if only_named {
        if after.families.is_empty() {
            after.families.push(cluster.default_family().to_owned());
        }
        if !after.is_single() {
            add_other_family(&mut after.families);
        }
        return Ok(());
    }

    let mut errors = Errors::new();
    if after.policy.as_deref() == Some("RequireDualStack") && !cluster.is_dual() {
        errors.invalid(&policy_path(), &json!(after.policy), "this cluster is not configured for dual-stack services");
    }
    for (index, family) in after.families.iter().enumerate().filter(|(_, family)| !cluster.has(family)) {
        let path = Path::new("spec").child("ipFamilies").index(index);
        errors.invalid(&path, &json!(family), "not configured on this cluster");
    }
    refuse(errors)?;
    if after.families.is_empty() {
        after.families.push(cluster.default_family().to_owned());
    }
    if !after.is_single() && cluster.is_dual() {
        add_other_family(&mut after.families);
    }
    Ok(())
}

/// Whether nothing changes about a Service that takes what the cluster has. When the cluster changes, it stays as it is.
pub(super) fn stays_preferring(before: &Service, after: &Service) -> bool {
    let prefers = |policy: &str| policy == "PreferDualStack";
    before.kind == after.kind
        && matches!(after.kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && after.policy.as_deref().is_some_and(prefers)
        && before.policy.as_deref().is_none_or(prefers)
        && before.addresses == after.addresses
        && before.families == after.families
}

/// A second address and family go if the policy says so and nothing else; nothing goes without that.
fn reduce(before: &Service, after: &mut Service, errors: &mut Errors) {
    let fewer = |after: &[String], before: &[String]| !after.is_empty() && after.len() < before.len();
    if after.is_single() {
        if after.addresses == before.addresses {
            after.addresses.truncate(1);
        }
        if after.families == before.families {
            after.families.truncate(1);
        }
        return;
    }
    for (reduced, what) in [
        (fewer(&after.addresses, &before.addresses), "cluster IP"),
        (fewer(&after.families, &before.families), "IP family"),
    ] {
        if reduced {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid(&policy_path(), &json!(after.policy), detail);
        }
    }
}

/// An address says of which family it is.
fn infer(cluster: &Cluster, after: &mut Service, errors: &mut Errors) {
    for (index, text) in after.addresses.iter().enumerate().take_while(|(_, text)| *text != NONE) {
        let Some(address) = names::read_address(text).filter(|_| index >= after.families.len()) else { continue };
        let family = family(&address);
        if cluster.has(family) {
            after.families.push(family.to_owned());
        } else {
            let path = Path::new("spec").child("clusterIPs").index(index);
            errors.invalid(
                &path,
                &Value::from(after.addresses.clone()),
                format!("{family} is not configured on this cluster"),
            );
        }
    }
}

fn add_other_family(families: &mut Vec<String>) {
    if let [only] = families.as_slice() {
        let other = if only == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
}

fn policy_path() -> Path {
    Path::new("spec").child("ipFamilyPolicy")
}

fn refuse(errors: Errors) -> Result<(), Refusal> {
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Invalid(errors)) }
}
