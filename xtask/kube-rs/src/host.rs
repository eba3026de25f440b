//! Whoever started the program: what it orders, and what it does when it is asked.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::sync::Mutex;

/// What the program is started with.
#[derive(Deserialize)]
pub(crate) struct Order {
    /// Where clients go: a wire to one of the servers, which can be cut and led to another one.
    pub(crate) wire: String,
    /// The replicas themselves.
    pub(crate) servers: Vec<String>,
    pub(crate) authority: PathBuf,
    pub(crate) token: String,
    /// Only the checks whose names contain this.
    pub(crate) only: String,
    /// Follow what others write instead, and write down in this folder what was seen.
    pub(crate) follow: Option<PathBuf>,
}

/// The other end of stdin and stdout.
#[derive(Clone)]
pub(crate) struct Host {
    lines: Arc<Mutex<Lines<BufReader<Stdin>>>>,
}

impl Host {
    pub(crate) async fn meet() -> Result<(Self, Order)> {
        let mut lines = BufReader::new(stdin()).lines();
        let order = lines.next_line().await?.context("nothing was ordered")?;
        Ok((Self { lines: Arc::new(Mutex::new(lines)) }, serde_json::from_str(&order)?))
    }

    /// Writes one line.
    pub(crate) fn tell(&self, line: &impl Serialize) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(line)?)?;
        Ok(out.flush()?)
    }

    /// Has something done, and waits until it is. One question at a time.
    pub(crate) async fn ask(&self, what: &str) -> Result<()> {
        let mut lines = self.lines.lock().await;
        self.tell(&json!({"ask": what}))?;
        let answer = lines.next_line().await?.context("nobody answers")?;
        ensure!(answer == "done", "{what}: {answer}");
        Ok(())
    }

    /// Waits until something is said.
    pub(crate) async fn word(&self) -> Result<()> {
        self.lines.lock().await.next_line().await?.context("nobody is there any more").map(drop)
    }
}
