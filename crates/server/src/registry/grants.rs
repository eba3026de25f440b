//! Grants: addresses and ports that were given, each an object of its own that is named after what was given.
//!
//! They are written in the transaction of the Service that gets them, and go in the one that takes it away. As long as the
//! Service has them, nobody can delete them, nor change what says whose they are.

use std::fmt;
use std::net::IpAddr;

use api::{Kind, Object};
use serde_json::json;
use store::{Compare, Key, Store, Write};

use super::{Along, Behaviour, Change, Surroundings, ip_addresses, node_ports, services, wording};
use crate::machinery::{Failure, Resource, catalog, encode_new, encode_terminating};

/// Something that is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Grant {
    /// An address in the cluster.
    Address(IpAddr),
    /// A port of all nodes.
    Port(u16),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// As many characters as the name of most grants has, or more.
const MOST_DIGITS: usize = 15;

fn push_number(text: &mut String, number: u16) {
    if number > 9 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// A Service that something was given to, and which one of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Empty if it is not known.
    pub(crate) uid: &'a str,
}

/// What an object names as its parent: a Service, or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Parent<'a> {
    pub(crate) fn of(object: &'a Object) -> Self {
        let text = |name| object.text(&["spec", "parentRef", name]);
        Self { group: text("group"), resource: text("resource"), namespace: text("namespace"), name: text("name") }
    }
}

impl<'a> Holder<'a> {
    /// That Service.
    pub(crate) fn of(service: &'a Object) -> Self {
        Self { namespace: service.namespace(), name: service.name(), uid: service.uid() }
    }

    /// Whether they are of one name. There is one Service of a name at a time, so an object with another uid is out of date.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }

    /// Where the Service is stored.
    pub(crate) fn key(&self) -> Key {
        format!("{}/{}/{}", services::PREFIX, self.namespace, self.name).into()
    }
}

impl Grant {
    /// The grant that a key names, if it names one.
    pub(crate) fn of(key: &str) -> Option<Self> {
        let (prefix, name) = key.split_once('/')?;
        match prefix {
            ip_addresses::PREFIX => name.parse().ok().map(Self::Address),
            node_ports::PREFIX => name.parse().ok().map(Self::Port),
            _ => None,
        }
    }

    /// The name of its object.
    pub(crate) fn name(self) -> String {
        let mut name = String::with_capacity(MOST_DIGITS);
        self.push_name(&mut name);
        name
    }

    /// The key of its object.
    pub(crate) fn key(self) -> Key {
        let prefix = match self {
            Self::Address(_) => ip_addresses::PREFIX,
            Self::Port(_) => node_ports::PREFIX,
        };
        let mut key = String::with_capacity(prefix.len() + 1 + MOST_DIGITS);
        key.push_str(prefix);
        key.push('/');
        self.push_name(&mut key);
        key.into()
    }

    /// Every create of a Service needs the names of its grants several times, and the formatter takes long for each of their numbers.
    fn push_name(self, text: &mut String) {
        match self {
            Self::Address(IpAddr::V4(address)) => {
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        text.push('.');
                    }
                    push_number(text, octet.into());
                }
            }
            Self::Address(IpAddr::V6(address)) => text.push_str(&address.to_string()),
            Self::Port(port) => push_number(text, port),
        }
    }

    pub(super) fn resource(self) -> Result<&'static Resource, Failure> {
        let found = match self {
            Self::Address(_) => catalog().resource("networking.k8s.io", "v1", "ipaddresses"),
            Self::Port(_) => catalog().resource("ipam.cadastre.dev", "v1alpha1", "nodeports"),
        };
        found.ok_or_else(|| Failure::internal("there is no kind for what Services are given"))
    }

    /// The Service that has it, if that is what its object says.
    pub(crate) fn holder(self, object: &Object) -> Option<Holder<'_>> {
        let Parent { group, resource, namespace, name } = Parent::of(object);
        let uid = match self {
            Self::Address(_) => ip_addresses::holder_uid(object),
            Self::Port(_) => node_ports::holder_uid(object),
        };
        (group.is_empty() && resource == "services").then_some(Holder { namespace, name, uid })
    }

    /// Whether what is stored is the grant of a Service, and not somebody else's.
    pub(crate) fn is_services(self, value: &[u8]) -> bool {
        Object::parse(value).is_ok_and(|object| self.is_own(&object))
    }

    /// Whether it is one of those that the server makes, and not somebody else's.
    pub(crate) fn is_own(self, object: &Object) -> bool {
        match self {
            Self::Address(_) => ip_addresses::is_own(object),
            Self::Port(_) => self.holder(object).is_some(),
        }
    }

    /// What makes it the grant of a Service: nobody has it, and then the Service does.
    pub(crate) fn take(self, holder: &Holder<'_>) -> (Compare, Write) {
        let key = self.key();
        (Compare::Absent(Key::clone(&key)), Write::Put { key, value: wording::encode(self, holder) })
    }

    /// Whose the fields of its object are that the server makes. `NodePort`s are nobody's: no other server has them, so nobody expects
    /// it, and it would be a third of their bytes.
    pub(super) fn manager(self) -> Option<&'static str> {
        match self {
            Self::Address(_) => Some(ip_addresses::FIELD_MANAGER),
            Self::Port(_) => None,
        }
    }

    pub(super) fn object(self, holder: &Holder<'_>) -> Object {
        match self {
            Self::Address(address) => ip_addresses::object(address, holder),
            Self::Port(port) => node_ports::object(port, holder),
        }
    }

    /// Makes an object say that a Service has it, whatever it says now.
    pub(crate) fn assign(self, object: &mut Object, holder: &Holder<'_>) {
        let right = self.object(holder);
        let parent = ["group", "resource", "namespace", "name", "uid"].map(|name| ["spec", "parentRef", name]);
        for place in parent.iter().chain(&ip_addresses::MARKS) {
            match right.text(place) {
                is if is == object.text(place) => {}
                "" => drop(object.remove(place)),
                is => object.set(place, json!(is)),
            }
        }
    }

    /// What makes its object say that a Service has it. Whoever set finalizers goes on to be asked before it is given again; but
    /// an object that is on its way out cannot come back, so another takes its place.
    pub(crate) fn hand_over(self, object: &Object, holder: &Holder<'_>) -> Result<Write, Failure> {
        let mut kept = object.clone();
        if object.is_terminating() {
            kept = self.object(holder);
            let finalizers: Vec<&str> = object.finalizers().collect();
            kept.set(&["metadata", "finalizers"], json!(finalizers));
            return Ok(Write::Put { key: self.key(), value: encode_new(self.resource()?, kept, self.manager())? });
        }
        self.assign(&mut kept, holder);
        Ok(Write::Put { key: self.key(), value: kept.encode() })
    }

    /// What makes it free, or that of its heir: another Service that has it too. What somebody else has, by another Service or by
    /// hand, stays; of what cannot be read nobody can say so.
    pub(crate) fn free(
        self,
        store: &Store,
        holder: &Holder<'_>,
        heir: Option<&Holder<'_>>,
    ) -> Result<(Compare, Option<Write>), Failure> {
        let key = self.key();
        let Some(entry) = store.get(&key) else { return Ok((Compare::Absent(key), None)) };
        let same = Compare::At(key, entry.revision);
        let Some(object) = self.read(&entry.value) else {
            let write = heir.map_or(Write::Delete { key: self.key() }, |heir| self.take(heir).1);
            return Ok((same, Some(write)));
        };
        if !self.holder(&object).is_some_and(|own| own.is(holder)) {
            return Ok((same, None));
        }
        let write = match heir {
            Some(heir) => Some(self.hand_over(&object, heir)?),
            None => self.remove(object)?,
        };
        Ok((same, write))
    }

    /// What removes its object. One with finalizers is only marked, because somebody wants to do something before it is given
    /// again; one that is marked already just waits for them.
    pub(crate) fn remove(self, object: Object) -> Result<Option<Write>, Failure> {
        let key = self.key();
        if object.finalizers().next().is_none() {
            return Ok(Some(Write::Delete { key }));
        }
        if object.is_terminating() {
            return Ok(None);
        }
        Ok(Some(Write::Put { key, value: encode_terminating(self.resource()?, object) }))
    }

    /// The object that is stored of it, if that can be read. One of another name is not its object.
    pub(crate) fn read(self, value: &[u8]) -> Option<Object> {
        Object::parse(value).ok().filter(|object| object.name() == self.name())
    }
}

/// The behaviour of the objects that stand for grants.
pub(crate) struct Grants;

/// The grant that an object stands for, and the Service that has it. Which Service that is decides what the Service has, and not
/// the uid that the object says: that may have been wrong from the beginning.
fn in_use(around: &Surroundings, kind: &Kind, object: &Object) -> Option<(Grant, Object)> {
    let grant = Grant::of(&format!("{}/{}", kind.stored.prefix, object.name()))?;
    let holder = grant.holder(object)?;
    let service = services::find(&around.store, &holder, grant)?;
    Some((grant, service))
}

impl Behaviour for Grants {
    fn accompany(&self, around: &Surroundings, kind: &Kind, change: Change<'_>) -> Result<Along, Failure> {
        let Change::Update { old, new } = change else { return Ok(Along::default()) };
        // What is said of ports is in their spec, which never changes.
        let Some((Grant::Address(address), service)) = in_use(around, kind, old) else { return Ok(Along::default()) };
        let mut restored = new.clone();
        ip_addresses::mark(&mut restored, address, &Holder::of(&service));
        Ok(Along { object: (restored != *new).then_some(restored), ..Along::default() })
    }

    fn refuse_delete(&self, around: &Surroundings, kind: &Kind, object: &Object) -> Result<(), Failure> {
        let Some((grant, service)) = in_use(around, kind, object) else { return Ok(()) };
        let what = match grant {
            Grant::Address(_) => "address",
            Grant::Port(_) => "port",
        };
        let Holder { namespace, name, .. } = Holder::of(&service);
        let why = format!("Service {namespace}/{name} has this {what}; it is freed when the Service gives it up");
        Err(Failure::forbidden(kind, object.name(), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_named_as_it_is_written_everywhere() {
        for text in ["0.0.0.0", "10.96.0.1", "255.100.9.99", "::", "fd00::7", "2001:db8:1:2:3:4:5:6"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Grant::Address(address).name(), text);
            assert_eq!(Grant::of(&Grant::Address(address).key()), Some(Grant::Address(address)));
        }
        for port in [0, 9, 10, 99, 100, 30_000, u16::MAX] {
            assert_eq!(Grant::Port(port).to_string(), port.to_string());
            assert_eq!(Grant::of(&Grant::Port(port).key()), Some(Grant::Port(port)));
        }
    }
}
