//! The servers that several clients use at once: one of ours, several replicas on one etcd, or as many of the control; and how to
//! come in.
//!
//! Replicas have an authority each, so clients trust both; and one token, which all of them know.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::real::{Etcd, KubeApiserver};

use super::Place;
use super::client::{Client, Promise, Reply, Target};
use super::gateway;
use super::restarting::Restarting;
use super::servers::Servers;
use crate::parts::Part;

/// How many replicas there are where there are several.
const REPLICAS: usize = 2;
/// The token of one who may do everything.
const TOKEN: &str = "token-of-all-replicas";
/// Our server keeps at most 256 MiB of history: so many writes of this size and there is nothing left of what was before.
const FORGET_WRITES: usize = 320;
const FORGET_BYTES: usize = 900_000;
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Servers that share what they store.
pub(super) struct Stand {
    pub(super) replicas: Vec<Restarting>,
    pub(super) addresses: Vec<String>,
    pub(super) authority: PathBuf,
    pub(super) token: String,
    promise: Promise,
    _control: Vec<KubeApiserver>,
    pub(super) etcd: Option<Etcd>,
}

impl Stand {
    /// Starts them empty in a folder; `flags` are for ours.
    pub(super) fn start(servers: &Servers, place: Place, folder: &Path, flags: &[&str]) -> Result<Self> {
        let etcd = match place {
            Place::Embedded => None,
            _ => Some(Etcd::start(&servers.part(Part::Etcd)?, &folder.join("etcd"))?),
        };
        let below = etcd.as_ref().map(Etcd::url);
        if place == Place::Control {
            let folders = (0..REPLICAS).map(|number| folder.join(format!("apiserver-{number}")));
            let start = |folder: PathBuf| servers.control_for(TOKEN, below.unwrap_or_default(), &folder);
            let control: Vec<_> = folders.map(start).collect::<Result<_>>()?;
            let authorities: Vec<_> = control.iter().map(|control| control.ca().to_path_buf()).collect();
            return Ok(Self {
                replicas: Vec::new(),
                addresses: control.iter().map(|one| one.url().trim_start_matches("https://").to_owned()).collect(),
                authority: all_of(&authorities, folder)?,
                token: TOKEN.to_owned(),
                promise: Promise::Control,
                _control: control,
                etcd,
            });
        }
        let count = if place == Place::Replicas { REPLICAS } else { 1 };
        let below = vec![below; count];
        Self::ours(servers, folder, &below, flags).map(|stand| Self { etcd, ..stand })
    }

    /// Starts one of ours on each of these etcds, or on its own store where there is none.
    pub(super) fn ours(servers: &Servers, folder: &Path, below: &[Option<&str>], flags: &[&str]) -> Result<Self> {
        let tokens = folder.join("tokens.csv");
        fs::write(&tokens, format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
        let (mut replicas, mut addresses, mut authorities) = (Vec::new(), Vec::new(), Vec::new());
        for (number, etcd) in below.iter().enumerate() {
            let data = folder.join(format!("data-{number}"));
            let mut all: Vec<_> = flags.iter().map(ToString::to_string).collect();
            all.push(format!("--token-auth-file={}", tokens.display()));
            all.extend(etcd.map(|url| format!("--etcd-servers={url}")));
            let replica = Restarting::start(servers.cadastre()?, &data, &all)?;
            addresses.push(replica.server()?.address().to_owned());
            authorities.push(replica.server()?.ca());
            replicas.push(replica);
        }
        let (authority, token) = (all_of(&authorities, folder)?, TOKEN.to_owned());
        Ok(Self { replicas, addresses, authority, token, promise: Promise::Ours, _control: Vec::new(), etcd: None })
    }

    /// Whether they are the control.
    pub(super) fn is_control(&self) -> bool {
        self.promise == Promise::Control
    }

    /// How to reach one of them, or whoever listens at that address in its place.
    pub(super) fn target(&self, address: &str) -> Result<Arc<Target>> {
        Ok(Arc::new(Target::new(self.promise, address, &self.authority, self.token.clone())?))
    }

    /// A client of the replica with that number.
    pub(super) fn client(&self, replica: usize) -> Result<Client> {
        Ok(Client::new(&self.target(&self.addresses[replica])?))
    }

    /// Has the servers forget their history: nobody can watch or page from what was before.
    pub(super) fn forget(&self) -> Result<()> {
        let below = self.etcd.as_ref().map(Etcd::url);
        if self.is_control() {
            return gateway::forget(below.context("the control has an etcd")?);
        }
        let mut client = self.client(0)?;
        let first = done(client.send("GET", "/api/v1/namespaces?limit=1", None))?;
        let token = first["metadata"]["continue"].as_str().context("there is only one namespace")?;
        let old = format!("/api/v1/namespaces?limit=1&continue={token}");
        let path = "/api/v1/namespaces/default/configmaps";
        let body = |write: usize| {
            let ballast = "x".repeat(FORGET_BYTES);
            json!({"metadata": {"name": "ballast"}, "data": {"ballast": ballast, "write": write.to_string()}})
        };
        done(client.send("POST", path, Some(&body(0))))?;
        for write in 1..FORGET_WRITES {
            done(client.send("PUT", &format!("{path}/ballast"), Some(&body(write))))?;
        }
        done(client.send("DELETE", &format!("{path}/ballast"), None))?;
        // What a server has forgotten, the etcd below it may still know.
        below.map(gateway::forget).transpose()?;
        // A server looks once a second for what it may forget.
        for replica in 0..self.addresses.len() {
            let (mut client, began) = (self.client(replica)?, Instant::now());
            while !matches!(client.send("GET", &old, None), Reply::Answer(410, _)) {
                ensure!(began.elapsed() < FORGOTTEN_WITHIN, "server {replica} does not forget");
                thread::sleep(BETWEEN_LOOKS);
            }
        }
        Ok(())
    }
}

/// A file with all of these certificates.
fn all_of(authorities: &[PathBuf], folder: &Path) -> Result<PathBuf> {
    let mut all = String::new();
    for authority in authorities {
        all += &fs::read_to_string(authority).with_context(|| format!("no {}", authority.display()))?;
    }
    let path = folder.join("authorities.crt");
    fs::write(&path, all)?;
    Ok(path)
}

/// The body of an answer that says that all is well.
pub(super) fn done(reply: Reply) -> Result<Value> {
    match reply {
        Reply::Answer(200 | 201, body) => Ok(body),
        other => anyhow::bail!("not done: {other:?}"),
    }
}
