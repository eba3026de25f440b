//! etcd as it can be asked without a library: JSON over plain HTTP. For what a suite has to see or do below the servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An etcd that does not answer for so long does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// One key, as etcd has it.
pub(super) struct Kept {
    pub(super) key: String,
    pub(super) revision: u64,
    pub(super) value: Vec<u8>,
}

/// The revision that the etcd at a URL is at.
pub(super) fn revision(url: &str) -> Result<u64> {
    let said = post(url, "/v3/kv/range", &json!({"key": STANDARD.encode("/"), "keys_only": true}))?;
    number(&said["header"]["revision"])
}

/// Has it forget all its history.
pub(super) fn forget(url: &str) -> Result<()> {
    let now = revision(url)?;
    post(url, "/v3/kv/compaction", &json!({"revision": now.to_string(), "physical": true})).map(drop)
}

/// Everything whose key begins with a prefix.
pub(super) fn everything(url: &str, prefix: &str) -> Result<Vec<Kept>> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().context("no prefix")? += 1;
    let asked = json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)});
    let said = post(url, "/v3/kv/range", &asked)?;
    let kept = said["kvs"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|kept| {
        let bytes = |name: &str| STANDARD.decode(kept[name].as_str().unwrap_or_default()).context("not base64");
        let key = String::from_utf8(bytes("key")?)?;
        Ok(Kept { key, revision: number(&kept["mod_revision"])?, value: bytes("value")? })
    });
    kept.collect()
}

/// How many transactions were sent to it so far, done or refused.
pub(super) fn transactions(url: &str) -> Result<u64> {
    let said = ask(url, "GET /metrics", "")?;
    let line = |line: &&str| line.starts_with("grpc_server_handled_total{") && line.contains("grpc_method=\"Txn\"");
    let counts = std::str::from_utf8(&said)?
        .lines()
        .filter(line)
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

/// A number of 64 bits, which JSON has as text.
fn number(value: &Value) -> Result<u64> {
    value.as_str().and_then(|text| text.parse().ok()).with_context(|| format!("not a number: {value}"))
}

fn post(url: &str, path: &str, body: &Value) -> Result<Value> {
    Ok(serde_json::from_slice(&ask(url, &format!("POST {path}"), &body.to_string())?)?)
}

/// The body of the answer to a request.
fn ask(url: &str, what: &str, body: &str) -> Result<Vec<u8>> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).with_context(|| format!("no etcd at {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Version 1.0 has no chunks: the body ends where the connection does.
    write!(stream, "{what} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = memchr::memmem::find(&answer, b"\r\n\r\n").context("etcd gave no answer")?;
    let (head, said) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    if !head.lines().next().unwrap_or_default().contains(" 200 ") {
        bail!("etcd says {}", String::from_utf8_lossy(said));
    }
    Ok(said.to_vec())
}
