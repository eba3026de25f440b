//! What is to be done about a grant when its object and the Services that have it do not agree, and what is said of it.
//!
//! A function of what Services say and what is written. Nothing here knows of the store, or of a clock. The words are those of
//! kube-apiserver's repair loops.

use std::net::IpAddr;
use std::time::Duration;

use super::service::family;
use crate::registry::grants::{Grant, Holder, Parent};

/// What there is of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    Nothing,
    /// Something that is not its object.
    Unreadable,
    Written(Written<'a>),
}

/// What is written of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'a> {
    /// The Service that it names, if it names one.
    pub(super) names: Option<Holder<'a>>,
    /// Whether it is one of those that the server makes, and not somebody else's.
    pub(super) is_own: bool,
    /// Whether all that it says of the Service that it names is so.
    pub(super) is_right: bool,
    pub(super) age: Duration,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// It is to be written that the Service of that number has it.
    Give(usize, Because),
    /// It is to be removed.
    Remove,
    /// It is to be looked at again when so much time has passed.
    Later(Duration),
}

/// Why something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// Nothing is.
    Missing,
    /// It names a Service that has it not, or none.
    Wrong,
    /// It names the right Service and says something wrong besides.
    Inexact,
    /// It cannot be read.
    Unreadable,
}

/// What is to be done about a grant that those Services have. What nobody has stays for the time of `grace`: somebody may be about
/// to make the Service.
pub(super) fn judge(holders: &[Holder<'_>], found: Found<'_>, grace: Duration) -> Verdict {
    let written = match (found, holders) {
        (Found::Nothing | Found::Written(Written { is_own: false, .. }), []) => return Verdict::Nothing,
        (Found::Nothing, _) => return Verdict::Give(0, Because::Missing),
        // It will be no clearer later whose it was.
        (Found::Unreadable, []) => return Verdict::Remove,
        (Found::Unreadable, _) => return Verdict::Give(0, Because::Unreadable),
        (Found::Written(Written { age, .. }), []) => {
            return match grace.saturating_sub(age) {
                Duration::ZERO => Verdict::Remove,
                left => Verdict::Later(left),
            };
        }
        (Found::Written(written), _) => written,
    };
    match written.names.and_then(|named| holders.iter().position(|holder| holder.is(&named))) {
        Some(_) if written.is_right => Verdict::Nothing,
        Some(named) => Verdict::Give(named, Because::Inexact),
        None => Verdict::Give(0, Because::Wrong),
    }
}

/// Something that a Service, or an address that nobody has, is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) reason: &'static str,
    pub(super) note: String,
}

fn notice(reason: &'static str, note: String) -> Notice {
    Notice { reason, note }
}

/// What a Service is told when it is written that it has something.
pub(super) fn given(grant: Grant, holder: &Holder<'_>, because: Because) -> Option<Notice> {
    let Holder { namespace, name, .. } = holder;
    match (grant, because) {
        (_, Because::Inexact) => None,
        (Grant::Address(ip), Because::Missing) => {
            let note = format!("Cluster IP [{}]: {ip} is not allocated; repairing", family(&ip));
            Some(notice("ClusterIPNotAllocated", note))
        }
        (Grant::Address(ip), Because::Wrong) => {
            let family = family(&ip);
            let note = format!(
                "the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
            );
            Some(notice("ClusterIPNotAllocated", note))
        }
        (Grant::Port(port), Because::Missing | Because::Wrong) => {
            Some(notice("PortNotAllocated", format!("Port {port} is not allocated; repairing")))
        }
        (Grant::Address(ip), Because::Unreadable) => {
            let note = format!("Unable to allocate ClusterIP [{}]: {ip} due to an unknown error", family(&ip));
            Some(notice("UnknownError", note))
        }
        (Grant::Port(port), Because::Unreadable) => {
            Some(notice("UnknownError", format!("Unable to allocate port {port} due to an unknown error")))
        }
    }
}

/// What a Service is told that has something which is another's.
pub(super) fn shared(grant: Grant) -> Notice {
    match grant {
        Grant::Address(ip) => {
            let note =
                format!("Cluster IP [{}]:{ip} was assigned to multiple services; please recreate service", family(&ip));
            notice("ClusterIPAlreadyAllocated", note)
        }
        Grant::Port(port) => notice(
            "PortAlreadyAllocated",
            format!("Port {port} was assigned to multiple services; please recreate service"),
        ),
    }
}

/// What a Service is told that has something which no range has; `ports` are the ranges of ports.
pub(super) fn out_of_range(grant: Grant, ports: &str) -> Notice {
    match grant {
        Grant::Address(ip) => {
            let note = format!(
                "Cluster IP [{}]: {ip} is not within any configured Service CIDR; please recreate service",
                family(&ip)
            );
            notice("ClusterIPOutOfRange", note)
        }
        Grant::Port(port) => notice(
            "PortOutOfRange",
            format!("Port {port} is not within the port range {ports}; please recreate service"),
        ),
    }
}

/// What a Service is told that says an address which is none.
pub(super) fn not_valid(text: &str) -> Notice {
    notice("ClusterIPNotValid", format!("Cluster IP {text} is not a valid IP; please recreate Service"))
}

/// What is said of something that is removed, because it cannot be read.
pub(super) fn unreadable(grant: Grant) -> Notice {
    let what = match grant {
        Grant::Address(_) => "IPAddress",
        Grant::Port(_) => "NodePort",
    };
    notice("UnknownError", format!("Unable to get parent Service for {what} {grant} due to an unknown error"))
}

/// What is said of an address that is removed, because it says that it is a Service's and names something else.
pub(super) fn of_no_service(address: IpAddr, parent: &Parent<'_>) -> Notice {
    let Parent { group, resource, namespace, name } = parent;
    // The parent, as Go shows it.
    let parent = format!("&ParentReference{{Group:{group},Resource:{resource},Namespace:{namespace},Name:{name},}}");
    notice(
        "IPAddressNotAllocated",
        format!("IPAddress {address} appears to have been modified, not referencing a Service {parent}: cleaning up"),
    )
}

/// What is said of an address that is removed, because the Service that it names is not there, or has it not.
pub(super) fn removed(address: IpAddr, named: &Holder<'_>, is_there: bool) -> Notice {
    let Holder { namespace, name, .. } = named;
    let about = format!("IPAddress: {address} for Service {namespace}/{name}");
    if is_there {
        notice("IPAddressWrongReference", format!("{about} has a wrong reference; cleaning up"))
    } else {
        notice("IPAddressNotAllocated", format!("{about} appears to have leaked: cleaning up"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_mins(1);

    fn holder(name: &str) -> Holder<'_> {
        Holder { namespace: "default", name, uid: "" }
    }

    fn written(names: &str) -> Written<'_> {
        let names = (!names.is_empty()).then(|| holder(names));
        Written { names, is_own: true, is_right: true, age: Duration::from_secs(10) }
    }

    fn judged(holders: &[Holder<'_>], written: Written<'_>, grace: Duration) -> Verdict {
        judge(holders, Found::Written(written), grace)
    }

    #[test]
    fn what_is_right_and_what_is_somebody_elses_is_left_alone() {
        assert_eq!(judge(&[], Found::Nothing, GRACE), Verdict::Nothing);
        assert_eq!(judged(&[holder("web")], written("web"), GRACE), Verdict::Nothing);
        assert_eq!(judged(&[holder("a"), holder("web")], written("web"), GRACE), Verdict::Nothing);
        for names in ["", "web"] {
            let foreign = Written { is_own: false, ..written(names) };
            assert_eq!(judged(&[], foreign, Duration::ZERO), Verdict::Nothing);
        }
    }

    #[test]
    fn what_a_service_has_is_written_of_it() {
        let (a, b) = (holder("a"), holder("b"));
        assert_eq!(judge(&[a, b], Found::Nothing, GRACE), Verdict::Give(0, Because::Missing));
        assert_eq!(judge(&[a, b], Found::Unreadable, GRACE), Verdict::Give(0, Because::Unreadable));
        for names in ["", "gone"] {
            assert_eq!(judged(&[a, b], written(names), GRACE), Verdict::Give(0, Because::Wrong));
        }
        let foreign = Written { is_own: false, ..written("") };
        assert_eq!(judged(&[a], foreign, GRACE), Verdict::Give(0, Because::Wrong));
        let inexact = Written { is_right: false, ..written("b") };
        assert_eq!(judged(&[a, b], inexact, GRACE), Verdict::Give(1, Because::Inexact));
    }

    #[test]
    fn what_no_service_has_goes_when_nobody_can_be_about_to_make_it() {
        // Also what names no Service, and says that it is one's.
        for names in ["gone", ""] {
            assert_eq!(judged(&[], written(names), GRACE), Verdict::Later(Duration::from_secs(50)));
            let old = Written { age: GRACE, ..written(names) };
            assert_eq!(judged(&[], old, GRACE), Verdict::Remove);
        }
        assert_eq!(judge(&[], Found::Unreadable, GRACE), Verdict::Remove);
    }

    #[test]
    fn the_words_are_those_of_kube_apiserver() {
        let (ip, port) = (Grant::Address([10, 0, 0, 7].into()), Grant::Port(30_080));
        let web = holder("web");
        let gateway = Parent { group: "example.com", resource: "gateways", namespace: "n", name: "g" };
        let said = |notice: Option<Notice>| notice.map(|notice| format!("{}: {}", notice.reason, notice.note)).unwrap();
        for (notice, text) in [
            (
                given(ip, &web, Because::Missing),
                "ClusterIPNotAllocated: Cluster IP [IPv4]: 10.0.0.7 is not allocated; repairing",
            ),
            (
                given(ip, &web, Because::Wrong),
                "ClusterIPNotAllocated: the ClusterIP [IPv4]: 10.0.0.7 for Service default/web has a wrong reference; repairing",
            ),
            (given(port, &web, Because::Missing), "PortNotAllocated: Port 30080 is not allocated; repairing"),
            (
                Some(shared(ip)),
                "ClusterIPAlreadyAllocated: Cluster IP [IPv4]:10.0.0.7 was assigned to multiple services; please recreate service",
            ),
            (
                Some(shared(port)),
                "PortAlreadyAllocated: Port 30080 was assigned to multiple services; please recreate service",
            ),
            (
                Some(out_of_range(ip, "")),
                "ClusterIPOutOfRange: Cluster IP [IPv4]: 10.0.0.7 is not within any configured Service CIDR; please recreate service",
            ),
            (
                Some(out_of_range(port, "1-9")),
                "PortOutOfRange: Port 30080 is not within the port range 1-9; please recreate service",
            ),
            (
                given(ip, &web, Because::Unreadable),
                "UnknownError: Unable to allocate ClusterIP [IPv4]: 10.0.0.7 due to an unknown error",
            ),
            (
                given(port, &web, Because::Unreadable),
                "UnknownError: Unable to allocate port 30080 due to an unknown error",
            ),
            (
                Some(unreadable(ip)),
                "UnknownError: Unable to get parent Service for IPAddress 10.0.0.7 due to an unknown error",
            ),
            (
                Some(of_no_service([10, 0, 0, 7].into(), &gateway)),
                "IPAddressNotAllocated: IPAddress 10.0.0.7 appears to have been modified, not referencing a Service \
                 &ParentReference{Group:example.com,Resource:gateways,Namespace:n,Name:g,}: cleaning up",
            ),
            (Some(not_valid("x")), "ClusterIPNotValid: Cluster IP x is not a valid IP; please recreate Service"),
        ] {
            assert_eq!(said(notice), text);
        }
        assert_eq!(given(ip, &web, Because::Inexact), None);
    }
}
