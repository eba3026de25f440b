//! How a grant is written: the bytes of its object as they are stored, and whether stored bytes say what they should.
//!
//! A Service is never written without its grants, and whoever tends the store looks at each grant again. So neither makes a tree
//! of an object that always looks the same.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::grants::{Grant, Holder};
use super::ip_addresses::{OWN, family};
use crate::machinery::{Failure, now_text};

/// A whole object, its members in the order in which all objects are stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: WholeMetadata<'a>,
    spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WholeMetadata<'a> {
    name: String,
    uid: String,
    /// For the store to fill in.
    resource_version: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    annotations: Annotations<'a>,
    creation_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u8>,
    #[serde(skip_serializing_if = "is_empty")]
    labels: Labels<'a>,
}

/// What an object says of who has the grant. What is absent is empty.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow)]
    labels: Labels<'a>,
    #[serde(borrow)]
    annotations: Annotations<'a>,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Labels<'a> {
    #[serde(borrow, rename = "ipaddress.kubernetes.io/ip-family", skip_serializing_if = "str::is_empty")]
    family: Cow<'a, str>,
    #[serde(borrow, rename = "ipaddress.kubernetes.io/managed-by", skip_serializing_if = "str::is_empty")]
    manager: Cow<'a, str>,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(borrow, rename = "ipam.cadastre.dev/parent-uid", skip_serializing_if = "str::is_empty")]
    holder: Cow<'a, str>,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow, rename = "parentRef")]
    parent: Parent<'a>,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Parent<'a> {
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    group: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    resource: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    uid: Cow<'a, str>,
}

fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl<'a> Said<'a> {
    /// What is to be said of a grant that a Service has.
    fn right(grant: Grant, holder: &Holder<'a>) -> Self {
        let parent = Parent {
            resource: "services".into(),
            namespace: holder.namespace.into(),
            name: holder.name.into(),
            ..Parent::default()
        };
        match grant {
            Grant::Address(address) => Self {
                metadata: Metadata {
                    labels: Labels { family: family(address).into(), manager: OWN.into() },
                    annotations: Annotations { holder: holder.uid.into() },
                },
                spec: Spec { parent },
            },
            Grant::Port(_) => {
                Self { spec: Spec { parent: Parent { uid: holder.uid.into(), ..parent } }, ..Self::default() }
            }
        }
    }
}

/// A new object that says that a Service has a grant, as it is stored.
pub(super) fn encode(grant: Grant, holder: &Holder<'_>) -> Result<Bytes, Failure> {
    let Said { metadata: Metadata { labels, annotations }, spec } = Said::right(grant, holder);
    let kind = grant.resource()?.kind;
    let whole = Whole {
        kind: kind.kind,
        api_version: kind.stored.api_version,
        metadata: WholeMetadata {
            name: grant.to_string(),
            uid: uuid::Uuid::new_v4().to_string(),
            resource_version: "",
            annotations,
            creation_timestamp: now_text(),
            generation: kind.counts_generation.then_some(1),
            labels,
        },
        spec,
    };
    serde_json::to_vec(&whole).map(Bytes::from).map_err(|why| Failure::internal(why.to_string()))
}

/// Whether the stored object of a grant says that the stored Service of that key has it, and says it as this server does. What is
/// written oddly does not, as far as is seen here.
pub(super) fn is_said(grant: Grant, object: &[u8], key: &str, service: &[u8]) -> bool {
    let named = key.split('/').collect::<Vec<_>>();
    let ([_, namespace, name], Some(uid)) = (named.as_slice(), uid(service)) else { return false };
    let said = serde_json::from_slice::<Said<'_>>(object);
    said.is_ok_and(|said| said == Said::right(grant, &Holder { namespace, name, uid }))
}

/// The uid in an object as it is stored: only its names come before it, and those have no quotes.
fn uid(stored: &[u8]) -> Option<&str> {
    const MARK: &[u8] = b",\"uid\":\"";
    let from = memchr::memmem::find(stored, MARK)? + MARK.len();
    let rest = stored.get(from..)?;
    std::str::from_utf8(rest.get(..memchr::memchr(b'"', rest)?)?).ok()
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
            let value = encode(grant, &holder).unwrap();
            let object = Object::parse(&value).unwrap();
            assert_eq!(object.encode(), value, "{grant}");
            assert!(uuid::Uuid::parse_str(object.uid()).is_ok());
            let other = encode_new(grant.resource().unwrap(), grant.object(&holder)).unwrap();
            let mut other = Object::parse(&other).unwrap();
            for place in [["metadata", "uid"], ["metadata", "creationTimestamp"]] {
                other.set(&place, object.at(&place).unwrap().clone());
            }
            assert_eq!(object, other, "{grant}");
        }
    }

    #[test]
    fn what_is_written_with_a_service_says_that_the_service_has_it() {
        for grant in grants() {
            let value = encode(grant, &WEB).unwrap();
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
            let whole = Object::parse(&encode(grant, &WEB).unwrap()).unwrap();
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
