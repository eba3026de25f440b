//! Events, written one after the other. They are for people: what they tell of is in the log and the metrics as well, so one that cannot
//! be written is tried for a while, and then left. What is told again is counted in the event that is there, once a minute at most: so it does
//! not end as long as somebody goes on to tell it, and what changes all the time does not become a flood.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::writer::{Anything, Asked, Refused, Writer};

/// After so long one is tried again. Others wait meanwhile, so it is not for long.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];
/// For how long what was told is not told again.
const REPEAT: Duration = Duration::from_mins(1);
/// How long the name of an event may be; 17 characters of it say what it tells.
const LONGEST_NAME: usize = 253;

/// What an event is about.
pub struct Reference<'a> {
    /// Its API version.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Empty for what is in no namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// A warning, before it is known who writes it when.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    namespace: String,
    /// The same that is told again, by whomever, has the same name.
    name: String,
    object: Value,
}

impl Event {
    /// A warning about something, in one word and in a sentence.
    pub fn new(about: &Reference<'_>, reason: &str, message: &str) -> Self {
        let Reference { api_version, kind, namespace, name, uid } = about;
        let identity = crate::node::flags::hash([format!("{uid}\n{reason}\n{message}")]);
        let mut involved = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
        if !namespace.is_empty() {
            involved["namespace"] = json!(namespace);
        }
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let beginning = name.get(..LONGEST_NAME - 17).unwrap_or(name).trim_end_matches(['-', '.']);
        let name = format!("{beginning}.{identity:016x}");
        let object = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": namespace, "name": name},
            "involvedObject": involved, "type": "Warning", "reason": reason, "message": message,
        });
        Self { namespace: namespace.to_owned(), name, object }
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/events", self.namespace)
    }

    /// Tells it for the first time.
    fn first(&self, manager: &str, time: &str) -> Asked {
        let mut body = self.object.clone();
        let more = json!({
            "count": 1, "firstTimestamp": time, "lastTimestamp": time, "source": {"component": manager},
            "reportingComponent": manager, "reportingInstance": manager,
        });
        body.as_object_mut().into_iter().for_each(|body| body.extend(more.as_object().cloned().unwrap_or_default()));
        Asked::new(Method::POST, self.collection(), "application/json", &body)
    }

    /// Tells it once more, as it is there.
    fn again(&self, there: &Value, time: &str) -> Asked {
        let count = there["count"].as_i64().unwrap_or(1).saturating_add(1).min(i64::from(i32::MAX));
        let revision = &there["metadata"]["resourceVersion"];
        let body = json!({"metadata": {"resourceVersion": revision}, "count": count, "lastTimestamp": time});
        let path = format!("{}/{}", self.collection(), self.name);
        Asked::new(Method::PATCH, path, "application/merge-patch+json", &body)
    }
}

/// Writes the events of what is told.
pub async fn write<T>(writer: Writer, mut told: Receiver<T>, event: impl Fn(&T) -> Event) {
    let mut recent: HashMap<String, Instant> = HashMap::new();
    while let Some(one) = told.recv().await {
        let event = event(&one);
        recent.retain(|_, at| at.elapsed() < REPEAT);
        if recent.contains_key(&event.name) {
            continue;
        }
        match insist(|| tell(&writer, &event)).await {
            Ok(()) => drop(recent.insert(event.name, Instant::now())),
            Err(why) => warn!(why, event = event.name, "an event could not be written"),
        }
    }
}

async fn tell(writer: &Writer, event: &Event) -> Result<(), Refused> {
    let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    match writer.ask(event.first(writer.manager, &time)).await {
        Err(Refused::Conflict(_)) => {}
        answer => return answer.map(|Anything {}| ()),
    }
    let there = match writer.look(&format!("{}/{}", event.collection(), event.name)).await {
        Ok(Some(there)) => there,
        Ok(None) => return Err(Refused::Failed("it ended just now".to_owned())),
        // Whoever may not count it up leaves it as it is.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        Err(error) => return Err(Refused::Failed(error.to_string())),
    };
    match writer.ask(event.again(&there, &time)).await {
        Err(Refused::Gone) => Err(Refused::Failed("it ended just now".to_owned())),
        // Another one tells the same at the same time.
        Err(Refused::Conflict(_)) => Ok(()),
        answer => answer.map(|Anything {}| ()),
    }
}

/// Asks until it is no use any more; why, if it was none.
async fn insist<F: Future<Output = Result<(), Refused>>>(mut ask: impl FnMut() -> F) -> Result<(), String> {
    let mut pauses = PAUSES.iter();
    loop {
        match ask().await {
            Ok(()) => return Ok(()),
            Err(Refused::Gone) => return Err("the namespace is not there".to_owned()),
            Err(Refused::Conflict(why) | Refused::Failed(why)) => match pauses.next() {
                Some(pause) => sleep(*pause).await,
                None => return Err(why),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it is asked, and what comes of it, if the answers are these and the last one again and again.
    async fn tries(answers: &[fn() -> Result<(), Refused>]) -> (usize, Result<(), String>) {
        let mut count = 0;
        let answer = insist(|| {
            let answer = answers[count.min(answers.len() - 1)]();
            count += 1;
            async { answer }
        });
        let answer = answer.await;
        (count, answer)
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_could_not_be_written_is_tried_again_and_not_for_ever() {
        let failed = || Err(Refused::Failed("away".to_owned()));
        let written = || Ok(());
        assert_eq!(tries(&[written]).await, (1, Ok(())));
        assert_eq!(tries(&[failed, failed, written]).await, (3, Ok(())));
        assert_eq!(tries(&[failed]).await, (1 + PAUSES.len(), Err("away".to_owned())));
        assert_eq!(tries(&[|| Err(Refused::Gone)]).await, (1, Err("the namespace is not there".to_owned())));
    }

    #[test]
    fn an_event_has_a_name_whatever_it_is_about() {
        let long = format!("{}.{}", "a".repeat(235), "b".repeat(17));
        for (name, beginning) in [("node", "node"), (&long, &long[..235])] {
            let about = Reference { api_version: "v1", kind: "Node", namespace: "", name, uid: "u" };
            let event = Event::new(&about, "Reason", "message");
            assert_eq!(event.name[..event.name.len() - 17], *beginning);
            assert!(event.name.len() <= LONGEST_NAME);
            assert_eq!(event.object["involvedObject"]["name"], name);
            assert_eq!(Event::new(&about, "Reason", "message"), event);
            assert_ne!(Event::new(&about, "Reason", "other").name, event.name);
        }
    }
}
