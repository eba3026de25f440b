//! Applying again what is there already: what controllers do most.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::task::JoinSet;

use super::connection::Server;
use super::create::{Created, Spell};
use super::latencies::Latencies;

const BUFFER: usize = 16 * 1024;

/// Applies an unchanged Service again and again, each connection its own.
pub(super) async fn spell(server: &Server, spell: &Spell) -> Result<Created> {
    let mut applies = Vec::new();
    for number in 0..spell.connections {
        let name = format!("applied-{number}");
        let target = format!("/api/v1/namespaces/{}/services/{name}?fieldManager=bench&force=true", spell.namespace);
        let request = server.apply(&target, &service(&name));
        let mut connection = server.connect(BUFFER).await?;
        let first = revision(&connection.answer(&request, 201).await?)?;
        applies.push((connection, request, first));
    }
    let counts = Instant::now() + spell.warm_up;
    let ends = counts + spell.measured;
    let mut all = JoinSet::new();
    for (mut connection, request, first) in applies {
        all.spawn(async move {
            let mut latencies = Latencies::with_room(1 << 16);
            loop {
                let sent = Instant::now();
                if sent >= ends {
                    let last = revision(&connection.answer(&request, 200).await?)?;
                    ensure!(first == last, "an apply that changes nothing wrote: from revision {first} to {last}");
                    return anyhow::Ok(latencies);
                }
                connection.done(&request, 200).await?;
                let done = Instant::now();
                if done >= counts && done < ends {
                    latencies.note(done - sent);
                }
            }
        });
    }
    Ok(Created::of(Latencies::of_all(all).await?))
}

/// The revision of the object that was answered.
fn revision(answer: &[u8]) -> Result<String> {
    let object: Value = serde_json::from_slice(answer)?;
    Ok(object["metadata"]["resourceVersion"].as_str().context("an object without a revision")?.to_owned())
}

/// A Service as people write them.
fn service(name: &str) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{{\"name\":\"{name}\",\"labels\":{{\"app\":\"web\",\"tier\":\
         \"front\"}}}},\"spec\":{{\"selector\":{{\"app\":\"web\"}},\"ports\":[{{\"name\":\"http\",\"port\":80,\"targetPort\":8080}},\
         {{\"name\":\"https\",\"port\":443,\"targetPort\":\"https\"}}]}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_one() {
        let service: Value = serde_json::from_str(&service("a")).unwrap();
        assert_eq!(
            (&service["metadata"]["name"], service["spec"]["ports"].as_array().unwrap().len()),
            (&"a".into(), 2)
        );
    }
}
