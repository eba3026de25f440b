//! Reading lists on one connection, each to its last byte.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::connection::{Connection, Server};
use super::latencies::Latencies;

/// As much as is asked of the system at once.
const BUFFER: usize = 256 * 1024;
/// How much of an answer is kept to find the token in it: metadata comes before items.
const OPENING: usize = 8 * 1024;

/// A list of a namespace's objects, again and again.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) namespace: String,
    /// How many objects there are: a list that has others is no list.
    pub(crate) objects: usize,
    pub(crate) accept: String,
    pub(crate) gzip: bool,
    /// Pages of so many, and all of them, instead of the whole at once.
    pub(crate) page: Option<usize>,
    /// How often all objects are read.
    pub(crate) passes: u32,
}

/// How long the answers took, from the request to their last byte.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) p50_ns: u64,
    /// Of all answers that make one whole list.
    pub(crate) bytes: u64,
}

/// One time through all pages.
#[derive(Default)]
struct Pass {
    latencies: Latencies,
    bytes: u64,
    answers: usize,
    objects: usize,
}

pub(super) async fn run(server: &Server, reading: &Reading) -> Result<Times> {
    let mut connection = server.connect(BUFFER).await?;
    // The first pass is not timed, so that there is time to look at what came.
    let first = pass(server, &mut connection, reading, usize::MAX).await?;
    if !reading.gzip {
        ensure!(first.objects == reading.objects, "a list has {} objects of {}", first.objects, reading.objects);
    }
    let answers = reading.page.map_or(1, |page| reading.objects.div_ceil(page));
    let mut latencies = Latencies::default();
    for _ in 0..reading.passes {
        let pass = pass(server, &mut connection, reading, OPENING).await?;
        ensure!(pass.answers == answers, "a list came in {} pages instead of {answers}", pass.answers);
        latencies.add(&pass.latencies);
    }
    Ok(Times { p50_ns: latencies.percentile(50), bytes: first.bytes })
}

/// Reads all objects once, and looks at so many bytes of each answer.
async fn pass(server: &Server, connection: &mut Connection, reading: &Reading, looked_at: usize) -> Result<Pass> {
    let mut pass = Pass::default();
    let mut token = String::new();
    let mut kept = Vec::new();
    loop {
        let request = server.get(&target(reading, &token), &wishes(reading));
        kept.clear();
        let sent = Instant::now();
        connection.send(&request).await?;
        let mut head = connection.head().await?;
        while let Some(piece) = connection.piece(&mut head.rest).await? {
            pass.bytes += piece.len() as u64;
            let wanted = piece.len().min(looked_at.saturating_sub(kept.len()));
            kept.extend_from_slice(&piece[..wanted]);
        }
        pass.latencies.note(sent.elapsed());
        if head.status != 200 {
            bail!("the server answered {}: {}", head.status, String::from_utf8_lossy(&kept));
        }
        ensure!(head.gzip == reading.gzip, "asked for gzip: {}, got it: {}", reading.gzip, head.gzip);
        pass.answers += 1;
        pass.objects += memchr::memmem::find_iter(&kept, b"\"uid\":").count();
        match reading.page.and_then(|_| next(&kept)) {
            Some(next) => token = next,
            None => return Ok(pass),
        }
    }
}

fn target(reading: &Reading, token: &str) -> String {
    let list = format!("/api/v1/namespaces/{}/configmaps", reading.namespace);
    match (reading.page, token) {
        (None, _) => list,
        (Some(page), "") => format!("{list}?limit={page}"),
        (Some(page), token) => format!("{list}?limit={page}&continue={token}"),
    }
}

fn wishes(reading: &Reading) -> String {
    let gzip = if reading.gzip { "Accept-Encoding: gzip\r\n" } else { "" };
    format!("Accept: {}\r\n{gzip}", reading.accept)
}

/// The token that leads to the next page. All servers make it of characters that need no escape.
fn next(opening: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"\"continue\":\"";
    let from = memchr::memmem::find(opening, MARK)? + MARK.len();
    let length = memchr::memchr(b'"', &opening[from..])?;
    String::from_utf8(opening[from..from + length].to_vec()).ok().filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(page: Option<usize>) -> Reading {
        let (namespace, accept) = ("n".to_owned(), "application/json".to_owned());
        Reading { namespace, objects: 1, accept, gzip: true, page, passes: 1 }
    }

    #[test]
    fn a_page_is_asked_for_with_the_token_of_the_one_before() {
        assert_eq!(target(&reading(None), ""), "/api/v1/namespaces/n/configmaps");
        assert_eq!(target(&reading(Some(500)), ""), "/api/v1/namespaces/n/configmaps?limit=500");
        assert_eq!(target(&reading(Some(500)), "abc"), "/api/v1/namespaces/n/configmaps?limit=500&continue=abc");
        assert_eq!(wishes(&reading(None)), "Accept: application/json\r\nAccept-Encoding: gzip\r\n");
    }

    #[test]
    fn the_last_page_has_no_token() {
        let opening = |token: &str| format!("{{\"metadata\":{{\"resourceVersion\":\"7\",\"continue\":\"{token}\"}},");
        assert_eq!(next(opening("eyJ2").as_bytes()).as_deref(), Some("eyJ2"));
        assert_eq!(next(opening("").as_bytes()), None);
        assert_eq!(next(b"{\"metadata\":{}}"), None);
    }
}
