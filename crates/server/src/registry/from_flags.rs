//! The ranges that the command line names, held against those that there are: what is missing, and what is there twice.
//!
//! The range of the cluster itself keeps its name and, but for a second family, stays as it is. If it is not what the command line
//! says, another range sees to it that what the command line says can be given out all the same; and that one goes when it is no
//! longer needed. A server makes and removes only what its own command line says, so servers that are started differently do not
//! undo each other's work.

use std::fmt::Write as _;

use api::Object;
use space::Cidr;

use super::bootstrap::NAME;
use super::{extent, service_cidrs};

/// Marks what comes from the command line.
pub(crate) const LABEL: &str = "networking.kubernetes.io/service-cidr-from-flags";

/// What the names begin with of ranges that stand in for that of the cluster.
pub(crate) const STAND_IN: &str = "from-flags-";

/// A range that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    name: String,
    cidrs: Vec<Cidr>,
    /// Whether it comes from the command line of some server.
    is_from_flags: bool,
    is_open: bool,
}

impl Known {
    pub(super) fn read(object: &Object) -> Self {
        let cidrs = extent::texts(object);
        Self {
            name: object.name().to_owned(),
            cidrs: cidrs.iter().filter_map(|text| Cidr::tolerant(text).ok()).map(|read| read.value).collect(),
            is_from_flags: object.name() == NAME || object.text(&["metadata", "labels", LABEL]) == "true",
            is_open: service_cidrs::is_open(object),
        }
    }

    fn has_all(&self, cidrs: &[Cidr]) -> bool {
        cidrs.iter().all(|cidr| self.cidrs.contains(cidr))
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// A range of what the command line says is to be made, of that name.
    pub(super) make: Option<String>,
    /// Ranges that are there twice.
    pub(super) remove: Vec<String>,
}

/// What is to be done so that what the command line says can be given out, and comes from no more ranges than it must.
pub(super) fn plan(wanted: &[Cidr], there: &[Known]) -> Plan {
    let open = || there.iter().filter(|known| known.is_open);
    let is_covered = |wanted: &Cidr| open().flat_map(|known| &known.cidrs).any(|cidr| covers(cidr, wanted));
    // Whoever deletes what the command line says wants it drained; when it is gone it comes back by itself. And a second family
    // joins what is there.
    let is_own = there.iter().any(|known| known.name == NAME && wanted.starts_with(&known.cidrs));
    let make = (!is_own && !wanted.iter().all(is_covered)).then(|| name(wanted));

    let own = || open().filter(|known| known.is_from_flags && !known.cidrs.is_empty());
    let is_better = |one: &Known, than: &Known| {
        let rank = |known: &Known| (known.cidrs.len(), known.name == NAME);
        one.has_all(&than.cidrs) && (rank(one) > rank(than) || rank(one) == rank(than) && one.name < than.name)
    };
    let is_needless = |known: &Known| {
        known.name != NAME
            && known.cidrs.iter().all(|cidr| wanted.contains(cidr))
            && own().any(|other| is_better(other, known))
    };
    let remove = own().filter(|known| is_needless(known)).map(|known| known.name.clone()).collect();
    Plan { make, remove }
}

/// Whether all of one is in the other.
fn covers(one: &Cidr, other: &Cidr) -> bool {
    match (one, other) {
        (Cidr::V4(one), Cidr::V4(other)) => one.contains(other),
        (Cidr::V6(one), Cidr::V6(other)) => one.contains(other),
        _ => false,
    }
}

/// The name of a range of those: all servers that are started alike call it the same.
fn name(cidrs: &[Cidr]) -> String {
    let mut name = STAND_IN.trim_end_matches('-').to_owned();
    for cidr in cidrs {
        // Writing to a string cannot fail.
        let _ = write!(name, "-{}", cidr.to_string().replace([':', '/'], "-"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidrs(texts: &[&str]) -> Vec<Cidr> {
        texts.iter().map(|text| Cidr::strict(text).unwrap()).collect()
    }

    fn known(name: &str, texts: &[&str]) -> Known {
        Known { name: name.to_owned(), cidrs: cidrs(texts), is_from_flags: true, is_open: true }
    }

    fn planned(flags: &[&str], there: &[Known]) -> String {
        let Plan { make, remove } = plan(&cidrs(flags), there);
        format!("+{} -{}", make.unwrap_or_default(), remove.join(" "))
    }

    #[test]
    fn what_the_command_line_says_can_always_be_given_out() {
        let own = |texts: &[&str]| [known(NAME, texts)];
        // As it is, a part of it, and one family of two.
        assert_eq!(planned(&["10.0.0.0/16"], &own(&["10.0.0.0/16"])), "+ -");
        assert_eq!(planned(&["10.0.0.0/24"], &own(&["10.0.0.0/16"])), "+ -");
        assert_eq!(planned(&["10.0.0.0/16"], &own(&["10.0.0.0/16", "fd00::/64"])), "+ -");
        assert_eq!(planned(&["10.0.0.0/16", "fd00::/64"], &own(&["10.0.0.0/16"])), "+ -", "it joins");
        assert_eq!(planned(&["fd00::/64", "10.0.0.0/16"], &own(&["10.0.0.0/16", "fd00::/64"])), "+ -");
        // More of it, something else, and another family before it.
        assert_eq!(planned(&["10.0.0.0/8"], &own(&["10.0.0.0/16"])), "+from-flags-10.0.0.0-8 -");
        assert_eq!(planned(&["10.1.0.0/16"], &own(&["10.0.0.0/16"])), "+from-flags-10.1.0.0-16 -");
        let both = "+from-flags-fd00---64-10.0.0.0-16 -";
        assert_eq!(planned(&["fd00::/64", "10.0.0.0/16"], &own(&["10.0.0.0/16"])), both);
        // Once is enough, whoever has made it.
        let mut mine = known("mine", &["10.0.0.0/8"]);
        mine.is_from_flags = false;
        assert_eq!(planned(&["10.1.0.0/16"], &[known(NAME, &["192.168.0.0/24"]), mine]), "+ -");
    }

    #[test]
    fn a_range_that_goes_is_not_counted_on_unless_it_is_to_come_back() {
        let going = |texts: &[&str]| [Known { is_open: false, ..known(NAME, texts) }];
        assert_eq!(planned(&["10.1.0.0/16"], &going(&["10.0.0.0/16"])), "+from-flags-10.1.0.0-16 -");
        assert_eq!(planned(&["10.0.0.0/24"], &going(&["10.0.0.0/16"])), "+from-flags-10.0.0.0-24 -");
        assert_eq!(planned(&["10.0.0.0/16"], &going(&["10.0.0.0/16"])), "+ -");
    }

    #[test]
    fn of_ranges_that_say_the_same_the_largest_stays_and_those_of_other_servers_too() {
        let (a, b, dual) = ("10.1.0.0/16", "10.2.0.0/16", ["10.1.0.0/16", "fd01::/64"]);
        // The range of the cluster has become what the command line says.
        assert_eq!(planned(&[a], &[known(NAME, &[a]), known("from-flags-a", &[a])]), "+ -from-flags-a");
        assert_eq!(planned(&dual, &[known(NAME, &dual), known("from-flags-a", &[a])]), "+ -from-flags-a");
        // Of two that stand in, the one of both families.
        let there = [known(NAME, &[b]), known("from-flags-a", &[a]), known("from-flags-z", &dual)];
        assert_eq!(planned(&dual, &there), "+ -from-flags-a");
        // Of two that are alike, one.
        assert_eq!(planned(&[a], &[known(NAME, &[b]), known("y", &[a]), known("x", &[a])]), "+ -y");
        // What another server is started with is its own, and what people have made is theirs.
        assert_eq!(planned(&[b], &[known(NAME, &[b]), known("from-flags-a", &[a])]), "+ -");
        let mut mine = known("mine", &[a]);
        mine.is_from_flags = false;
        assert_eq!(planned(&[a], &[known(NAME, &[a]), mine]), "+ -");
        // The range of the cluster stays, also if another has all of it.
        assert_eq!(planned(&dual, &[known(NAME, &[a]), known("from-flags-z", &dual)]), "+ -");
    }
}
