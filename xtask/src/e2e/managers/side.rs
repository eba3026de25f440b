//! One of the two servers: takes a step, and says what came of it in a form that can be compared.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use anyhow::{Result, bail};
use regex::Regex;
use serde_json::{Value, json};

use super::fields::{Kind, lay};
use super::steps::Step;
use crate::e2e::client::{Client, Reply, Target};
use crate::e2e::method::Method;

/// A server, and the revisions that its objects were last seen at.
pub(super) struct Side {
    client: Client,
    seen: HashMap<String, String>,
    /// What of a message is each server's own.
    own: Regex,
}

/// What came of a step.
#[derive(Debug, PartialEq)]
pub(super) struct Taken {
    code: u16,
    /// Whether the object is at another revision than before.
    moved: bool,
    /// The object or the refusal, without what is each server's own.
    body: Value,
}

impl Taken {
    /// Of a step for which there has to be an object, where there is none.
    const NOTHING: Self = Self { code: 404, moved: false, body: Value::Null };

    pub(super) fn is_done(&self) -> bool {
        self.code < 300
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.code, if self.moved { "" } else { ", not moved" }, self.body)
    }
}

impl Side {
    pub(super) fn new(target: Target) -> Result<Self> {
        // A whole object in a message, or what names one; and what Go's converter says of a strategic patch.
        let own =
            Regex::new(r#"Invalid value: "\{.*\}"|Invalid value: "map\[.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"#)?;
        Ok(Self { client: Client::new(&Arc::new(target)), seen: HashMap::new(), own })
    }

    /// Takes a step.
    pub(super) fn take(&mut self, kind: &Kind, step: &Step) -> Result<Taken> {
        let object = format!("{}/{}", kind.path, step.name);
        let mut path = match step.method {
            Method::Post => kind.path.to_owned(),
            _ if step.part.is_empty() => object.clone(),
            _ => format!("{object}/{}", step.part),
        };
        if !step.query.is_empty() {
            path.push('?');
            path.push_str(&step.query);
        }
        let body = match step.method {
            Method::Delete => None,
            // The real server can be made to create a Service by its status, which we do not do after it.
            _ if !step.part.is_empty() && self.there(&object)?.is_none() => return Ok(Taken::NOTHING),
            Method::Edit | Method::Forget => {
                let Some(mut there) = self.there(&object)? else { return Ok(Taken::NOTHING) };
                if step.method == Method::Forget {
                    there["metadata"]["managedFields"] = step.body.clone();
                } else {
                    lay(&mut there, step.body.clone());
                }
                Some(there)
            }
            _ => Some(step.body.clone()),
        };
        let (code, mut body) = self.ask(step.method.media(), step.method.verb(), &path, body.as_ref())?;
        let revision = body["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let moved = !revision.is_empty() && self.seen.insert(object, revision.clone()) != Some(revision);
        mask(&mut body, kind);
        for pointer in ["/message", "/details/causes/0/message"] {
            if let Some(Value::String(text)) = body.pointer_mut(pointer) {
                *text = self.own.replace_all(text, "<own>").into_owned();
            }
        }
        Ok(Taken { code, moved, body })
    }

    fn there(&mut self, path: &str) -> Result<Option<Value>> {
        let (code, body) = self.ask("application/json", "GET", path, None)?;
        Ok((code == 200).then_some(body))
    }

    fn ask(&mut self, media: &str, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        match self.client.send_as(media, method, path, body) {
            Reply::Answer(code, body) => Ok((code, body)),
            other => bail!("{method} {path}: {other:?}"),
        }
    }
}

/// Takes out what is each server's own.
fn mask(body: &mut Value, kind: &Kind) {
    for pointer in ["/metadata/uid", "/metadata/resourceVersion", "/metadata/creationTimestamp", "/details/uid"] {
        drop_at(body, pointer);
    }
    if let Some(time) = body.pointer_mut("/metadata/deletionTimestamp") {
        *time = json!("<time>");
    }
    for pointer in kind.masked {
        if let Some(value) = body.pointer_mut(pointer).filter(|value| !value.as_str().is_none_or(str::is_empty)) {
            *value = json!("<picked>");
        }
    }
    // The real server holds metadata against the same rules twice, and tells both times.
    if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") {
        // Conflicts come in any order.
        causes.sort_by_cached_key(Value::to_string);
        causes.dedup();
    }
    if body.get("details").is_some_and(|details| *details == json!({})) {
        drop_at(body, "/details");
    }
    if let Some(Value::Array(entries)) = body.pointer_mut("/metadata/managedFields") {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries.sort_by_cached_key(Value::to_string);
    }
}

fn drop_at(body: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = body.pointer_mut(parent) {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::managers::fields::KINDS;

    #[test]
    fn what_is_each_server_s_own_is_not_compared() {
        let entry = |manager: &str, time: &str| json!({"manager": manager, "time": time});
        let object = |uid: &str, entries: Value| json!({"metadata": {"uid": uid, "managedFields": entries}});
        let mut one = object("1", json!([entry("a", "1"), entry("b", "2")]));
        let mut other = object("2", json!([entry("b", "2"), entry("a", "2")]));
        mask(&mut one, &KINDS[0]);
        mask(&mut other, &KINDS[0]);
        assert_eq!(one, other);
        let mut service =
            json!({"spec": {"clusterIP": "10.96.1.2", "clusterIPs": ["10.96.1.2"], "ipFamilies": ["IPv4"]}});
        mask(&mut service, &KINDS[1]);
        let shown = json!({"spec": {"clusterIP": "<picked>", "clusterIPs": ["<picked>"], "ipFamilies": ["IPv4"]}});
        assert_eq!(service, shown);
    }
}
