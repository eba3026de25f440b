//! Starts the parts together and shows that they work: a build that does not run is not worth keeping.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use testkit::real::{Etcd, EtcdCluster, KubeApiserver, Kubectl};

use super::{Part, Parts};
use crate::process;

/// Each part says its version, or which versions of CNI it speaks; then kube-apiserver on etcd serves kubectl, and a cluster of etcd survives its leader.
pub(super) fn run(parts: &Parts) -> Result<()> {
    for part in Part::ALL {
        if let Some(flag) = part.version_flag() {
            let said = process::output(Command::new(parts.binary(part)).arg(flag))?;
            ensure!(said.contains(part.version()), "{} says another version: {said}", part.name());
        }
        if part.is_plugin() {
            let asked = process::output(Command::new(parts.binary(part)).env("CNI_COMMAND", "VERSION"))?;
            ensure!(asked.contains("\"1.1.0\""), "{} does not speak CNI 1.1.0: {asked}", part.name());
        }
    }
    let scratch = tempfile::Builder::new().prefix("cadastre-parts-").tempdir()?;
    let outcome = cluster(parts, &scratch.path().join("cluster"))
        .and_then(|()| tls(parts, &scratch.path().join("tls")))
        .and_then(|()| kubernetes(parts, &scratch.path().join("kubernetes")));
    if outcome.is_err() {
        eprintln!("logs kept in {}", scratch.keep().display());
    }
    outcome
}

/// Three members, of which the leader is killed, another leads, and the first comes back.
fn cluster(parts: &Parts, dir: &Path) -> Result<()> {
    let started = Instant::now();
    let mut etcd = EtcdCluster::start(&parts.binary(Part::Etcd), dir, 3)?;
    println!("\netcd, 3 members: ready in {:.1} s", started.elapsed().as_secs_f64());
    let first = etcd.leader()?;
    let killed = Instant::now();
    etcd.kill_member(first)?;
    let second = etcd.leader()?;
    println!(
        "etcd, 3 members: leader {first} killed, {second} leads after {:.1} s, {} members left",
        killed.elapsed().as_secs_f64(),
        etcd.pids().len()
    );
    ensure!(first != second, "the member that was killed leads");
    etcd.restart_member(first)?;
    println!("etcd, 3 members: member {first} is back at {}", etcd.urls()[first]);
    Ok(())
}

/// A kube-apiserver that reaches its etcd over TLS with a client's certificate.
fn tls(parts: &Parts, dir: &Path) -> Result<()> {
    let etcd = Etcd::start_tls(&parts.binary(Part::Etcd), &dir.join("etcd"))?;
    let files = etcd.tls().into_iter().flat_map(|files| {
        [("cafile", &files.ca), ("certfile", &files.certificate), ("keyfile", &files.key)]
            .map(|(flag, path)| format!("--etcd-{flag}={}", path.display()))
    });
    let flags: Vec<_> = files.collect();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let server = apiserver(parts, etcd.url(), dir, &flags)?;
    println!("kube-apiserver on etcd with TLS: ready at {}", server.url());
    Ok(())
}

/// A kube-apiserver whose etcd goes away and comes back, asked by kubectl, and its clean end.
fn kubernetes(parts: &Parts, dir: &Path) -> Result<()> {
    let mut etcd = Etcd::start(&parts.binary(Part::Etcd), &dir.join("etcd"))?;
    let started = Instant::now();
    let server = apiserver(parts, etcd.url(), dir, &[])?;
    println!("kube-apiserver on etcd: ready in {:.1} s at {}", started.elapsed().as_secs_f64(), server.url());
    etcd.kill()?;
    etcd.restart()?;
    let kubectl = Kubectl::new(&parts.binary(Part::Kubectl), server.kubeconfig(), &dir.join("home"));
    let version = asked(&kubectl, &["version"])?;
    let right = version.matches(&format!("Version: v{}", Part::Kubectl.version())).count();
    ensure!(right == 2, "client and server are not both of the version that was built:\n{version}");
    asked(&kubectl, &["get", "namespaces"])?;
    let stopped = Instant::now();
    let status = server.stop()?;
    println!("kube-apiserver: ended {:.1} s after SIGTERM, {status}", stopped.elapsed().as_secs_f64());
    Ok(())
}

fn apiserver(parts: &Parts, etcd: &str, dir: &Path, extra: &[&str]) -> Result<KubeApiserver> {
    let (server, kubectl) = (parts.binary(Part::KubeApiserver), parts.binary(Part::Kubectl));
    Ok(KubeApiserver::start(&server, &kubectl, etcd, &dir.join("apiserver"), extra)?)
}

/// Runs kubectl, shows what it said and returns it.
fn asked(kubectl: &Kubectl, args: &[&str]) -> Result<String> {
    let said = kubectl.run(args)?;
    println!("\n$ kubectl {}\n{}", args.join(" "), said.stdout.trim_end());
    ensure!(said.success(), "kubectl {} failed: {}", args.join(" "), said.stderr);
    Ok(said.stdout)
}
