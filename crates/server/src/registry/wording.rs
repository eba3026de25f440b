//! How a grant is written: the bytes of its object as they are stored, and whether stored bytes say what they should.
//!
//! A Service is never written without its grants, and whoever tends the store looks at each grant again. So neither makes a tree
//! of an object that always looks the same.

use api::json::write_text;
use bytes::Bytes;
use memchr::{memchr, memmem};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::grants::{Grant, Holder};
use super::ip_addresses::{FIELD_MANAGER, OWN, family};
use super::services;
use crate::machinery::now_text;

/// As long as most of these objects are, or longer.
const USUAL_LENGTH: usize = 1_024;

/// What of an address is its manager's, and what then follows up to the name of its Service.
const OWNED: &str = concat!(
    r#","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:ipam.cadastre.dev/parent-uid":{}},"#,
    r#""f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},"#,
    r#""f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}}]},"spec":{"parentRef":{"name":"#,
);

/// What the uid in an object is found by: only its names come before it, and those have no quotes.
const UID: &[u8] = b",\"uid\":\"";

/// What differs between two objects that say the same.
struct Birth<'a> {
    uid: &'a str,
    /// Empty, for the store to fill in, if it is new.
    revision: &'a str,
    time: &'a str,
}

impl<'a> Birth<'a> {
    fn read(stored: &'a [u8]) -> Option<Self> {
        let (uid, rest) = text_after(stored, UID)?;
        let (revision, rest) = text_after(rest, b",\"resourceVersion\":\"")?;
        let (time, _) = text_after(rest, b",\"creationTimestamp\":\"")?;
        Some(Self { uid, revision, time })
    }
}

/// The text that follows such a mark, and the rest from the end of the text on. One in which something is escaped is none.
fn text_after<'a>(stored: &'a [u8], mark: &[u8]) -> Option<(&'a str, &'a [u8])> {
    let rest = stored.get(memmem::find(stored, mark)? + mark.len()..)?;
    let (text, rest) = rest.split_at(memchr(b'"', rest)?);
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\\'))?;
    Some((text, rest))
}

/// The object that says that a Service has a grant, its members in the order in which all objects are stored.
fn write(grant: Grant, holder: &Holder<'_>, birth: &Birth<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_LENGTH);
    let mut member = |name: &str, text: &str| {
        out.extend_from_slice(name.as_bytes());
        write_text(&mut out, text);
    };
    match grant {
        Grant::Address(_) => member("{\"kind\":\"IPAddress\",\"apiVersion\":", "networking.k8s.io/v1"),
        Grant::Port(_) => member("{\"kind\":\"NodePort\",\"apiVersion\":", "ipam.cadastre.dev/v1alpha1"),
    }
    member(",\"metadata\":{\"name\":", &grant.name());
    member(",\"uid\":", birth.uid);
    member(",\"resourceVersion\":", birth.revision);
    match grant {
        Grant::Address(address) => {
            member(",\"annotations\":{\"ipam.cadastre.dev/parent-uid\":", holder.uid);
            member("},\"creationTimestamp\":", birth.time);
            member(",\"labels\":{\"ipaddress.kubernetes.io/ip-family\":", family(address));
            member(",\"ipaddress.kubernetes.io/managed-by\":", OWN);
            member("},\"managedFields\":[{\"manager\":", FIELD_MANAGER);
            member(",\"operation\":\"Update\",\"apiVersion\":\"networking.k8s.io/v1\",\"time\":", birth.time);
            member(OWNED, holder.name);
        }
        Grant::Port(_) => {
            member(",\"creationTimestamp\":", birth.time);
            member(",\"generation\":1},\"spec\":{\"parentRef\":{\"name\":", holder.name);
        }
    }
    member(",\"namespace\":", holder.namespace);
    member(",\"resource\":", services::PREFIX);
    if matches!(grant, Grant::Port(_)) {
        member(",\"uid\":", holder.uid);
    }
    out.extend_from_slice(b"}}}");
    out
}

/// A new object that says that a Service has a grant, as it is stored.
pub(super) fn encode(grant: Grant, holder: &Holder<'_>) -> Bytes {
    let mut uid = [0; Hyphenated::LENGTH];
    let uid = Uuid::new_v4().hyphenated().encode_lower(&mut uid);
    Bytes::from(write(grant, holder, &Birth { uid, revision: "", time: &now_text() }))
}

/// The uid of a stored object.
pub(super) fn uid(stored: &[u8]) -> Option<&str> {
    text_after(stored, UID).map(|(uid, _)| uid)
}

/// Whether the stored object of a grant says that the stored Service of that key has it, and says it as this server does. What is
/// written oddly does not, as far as is seen here.
pub(super) fn is_said(grant: Grant, object: &[u8], key: &str, service: &[u8]) -> bool {
    let mut named = key.split('/');
    let (Some(_), Some(namespace), Some(name), None) = (named.next(), named.next(), named.next(), named.next()) else {
        return false;
    };
    let (Some(uid), Some(birth)) = (uid(service), Birth::read(object)) else { return false };
    write(grant, &Holder { namespace, name, uid }, &birth) == object
}

#[cfg(test)]
mod tests {
    use api::Object;
    use serde_json::{Value, json};

    use super::*;
    use crate::machinery::encode_new;
    use crate::registry::ip_addresses;

    const WEB: Holder<'_> = Holder { namespace: "n", name: "web", uid: "u" };

    fn service(uid: &str) -> Vec<u8> {
        let metadata = json!({"name": "web", "namespace": "n", "uid": uid, "ownerReferences": [{"uid": "o"}]});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
        Object::from_value(service).unwrap().encode().to_vec()
    }

    fn is_said_of_web(grant: Grant, object: &[u8], uid: &str) -> bool {
        is_said(grant, object, "services/n/web", &service(uid))
    }

    fn grants() -> [Grant; 3] {
        let long = Grant::Address("fd00::7".parse().unwrap());
        [Grant::Address([10, 0, 0, 7].into()), long, Grant::Port(30_001)]
    }

    #[test]
    fn the_bytes_are_those_of_the_object_as_any_other_is_stored() {
        let odd = Holder { namespace: "n\"\\", ..WEB };
        for (grant, holder) in grants().into_iter().flat_map(|grant| [(grant, WEB), (grant, odd)]) {
            let value = encode(grant, &holder);
            let object = Object::parse(&value).unwrap();
            assert_eq!(object.encode(), value, "{grant}");
            assert!(uuid::Uuid::parse_str(object.uid()).is_ok());
            let other = encode_new(grant.resource().unwrap(), grant.object(&holder), grant.manager()).unwrap();
            let mut other = Object::parse(&other).unwrap();
            for place in [["metadata", "uid"], ["metadata", "creationTimestamp"]] {
                other.set(&place, object.at(&place).unwrap().clone());
            }
            if let Some(managers) = other.metadata_mut().get_mut("managedFields") {
                managers[0]["time"] = json!(object.text(&["metadata", "creationTimestamp"]));
            }
            assert_eq!(object, other, "{grant}");
        }
    }

    #[test]
    fn what_is_written_with_a_service_says_that_the_service_has_it() {
        for grant in grants() {
            let value = encode(grant, &WEB);
            assert!(is_said_of_web(grant, &value, "u"), "{grant}");
            assert!(!is_said_of_web(grant, &value, "o"), "{grant}: of another of that name");
            assert!(!is_said(grant, &value, "services/n/other", &service("u")));
            assert!(!is_said(grant, &value, "services/n/web", b"{") && !is_said_of_web(grant, b"", "u"));
        }
    }

    #[test]
    fn what_says_anything_else_of_it_does_not() {
        let odd = [Value::Null, json!("x"), json!(""), json!(7), json!({"a": "b"})];
        for grant in grants() {
            let whole = Object::parse(&encode(grant, &WEB)).unwrap();
            let parent = ["group", "resource", "namespace", "name", "uid"].map(|name| ["spec", "parentRef", name]);
            for place in parent.into_iter().chain(ip_addresses::MARKS) {
                for odd in &odd {
                    let mut object = whole.clone();
                    object.set(&place, odd.clone());
                    let mut right = object.clone();
                    grant.assign(&mut right, &WEB);
                    let is_said = is_said_of_web(grant, &object.encode(), "u");
                    assert!(!is_said || right == object, "{grant} {place:?} {odd}");
                }
            }
        }
    }
}
