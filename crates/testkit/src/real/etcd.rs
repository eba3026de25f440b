//! etcd: one member, or a cluster whose members can be killed and come back.
//!
//! Members write as they do in production: every commit reaches the disk before the answer. Health and leadership are
//! read from the address for metrics, which is plain HTTP also where clients must use TLS.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::certificates::{self, ClientFiles, ServerFiles};
use super::process::{Process, poll};
use super::{Error, free_ports, http};

/// A member on a busy machine that has to replay its log, with an election on top.
const START: Duration = Duration::from_mins(1);
/// An election takes about a second; more than this and the members do not find each other.
const ELECTION: Duration = Duration::from_secs(30);

/// One etcd of one member.
pub struct Etcd {
    member: Member,
    tls: Option<ClientFiles>,
}

impl Etcd {
    /// Starts an etcd with its data in `dir`, which may have some already, and waits until it serves.
    pub fn start(binary: &Path, dir: &Path) -> Result<Self, Error> {
        Self::launch(binary, dir, None)
    }

    /// The same, serving TLS and refusing clients without a certificate. The files are written to `dir/tls`.
    pub fn start_tls(binary: &Path, dir: &Path) -> Result<Self, Error> {
        Self::launch(binary, dir, Some(certificates::mutual(&dir.join("tls"))?))
    }

    fn launch(binary: &Path, dir: &Path, tls: Option<ServerFiles>) -> Result<Self, Error> {
        let mut members = Member::plan(binary, dir, 1, tls.as_ref())?;
        let mut member = members.remove(0);
        member.start()?;
        member.until_ready()?;
        Ok(Self { member, tls: tls.map(|tls| tls.client) })
    }

    /// Where clients reach it.
    pub fn url(&self) -> &str {
        &self.member.url
    }

    /// What clients need to present, if it was started with TLS.
    pub fn tls(&self) -> Option<&ClientFiles> {
        self.tls.as_ref()
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.member.process.as_ref().map(Process::pid)
    }

    /// Kills it at once; clients see it go away.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.member.kill()
    }

    /// Starts it again on the same data and the same port, and waits until it serves.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.member.start()?;
        self.member.until_ready()
    }
}

/// Several members that agree.
pub struct EtcdCluster {
    members: Vec<Member>,
}

impl EtcdCluster {
    /// Starts that many members with their data below `dir`, and waits until each of them serves.
    pub fn start(binary: &Path, dir: &Path, members: usize) -> Result<Self, Error> {
        let mut cluster = Self { members: Member::plan(binary, dir, members, None)? };
        // None of them serves before most of them run.
        cluster.members.iter_mut().try_for_each(Member::start)?;
        cluster.members.iter_mut().try_for_each(Member::until_ready)?;
        Ok(cluster)
    }

    /// Where clients reach each of the members.
    pub fn urls(&self) -> Vec<&str> {
        self.members.iter().map(|member| member.url.as_str()).collect()
    }

    /// The numbers of the processes that run.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref().map(Process::pid)).collect()
    }

    /// Kills that member at once.
    ///
    /// # Panics
    /// If there is no such member; they are numbered from 0.
    pub fn kill_member(&mut self, member: usize) -> Result<(), Error> {
        self.members[member].kill()
    }

    /// Starts that member again on the same data and the same ports, and waits until it has caught up and serves.
    ///
    /// # Panics
    /// If there is no such member; they are numbered from 0.
    pub fn restart_member(&mut self, member: usize) -> Result<(), Error> {
        self.members[member].start()?;
        self.members[member].until_ready()
    }

    /// The member that leads, after an election if there has to be one: an error if none does in time.
    pub fn leader(&self) -> Result<usize, Error> {
        let leader = poll(ELECTION, || Ok(self.members.iter().position(Member::leads)))?;
        leader.ok_or_else(|| Error::system("no member of etcd leads")(io::ErrorKind::TimedOut.into()))
    }
}

/// A member: how it is started, and its process while it runs.
struct Member {
    name: String,
    binary: PathBuf,
    args: Vec<String>,
    log: PathBuf,
    url: String,
    metrics: u16,
    process: Option<Process>,
}

impl Member {
    /// The members of a cluster that is to be; none runs yet.
    fn plan(binary: &Path, dir: &Path, members: usize, tls: Option<&ServerFiles>) -> Result<Vec<Self>, Error> {
        let ports = (0..members).map(|_| free_ports::<3>()).collect::<Result<Vec<_>, _>>()?;
        let peer_url = |[_, peer, _]: &[u16; 3]| format!("http://127.0.0.1:{peer}");
        let cluster: Vec<_> = ports.iter().zip(0..).map(|(ports, n)| format!("etcd-{n}={}", peer_url(ports))).collect();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let planned = ports.iter().zip(0..).map(|(ports, number)| {
            let name = format!("etcd-{number}");
            let [client, _, metrics] = *ports;
            let url = format!("{scheme}://127.0.0.1:{client}");
            let mut args = vec![
                format!("--name={name}"),
                format!("--data-dir={}", dir.join(&name).display()),
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls={}", peer_url(ports)),
                format!("--initial-advertise-peer-urls={}", peer_url(ports)),
                format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
                format!("--initial-cluster={}", cluster.join(",")),
            ];
            if let Some(tls) = tls {
                args.push(format!("--cert-file={}", tls.certificate.display()));
                args.push(format!("--key-file={}", tls.key.display()));
                args.push(format!("--trusted-ca-file={}", tls.client.ca.display()));
                args.push("--client-cert-auth".to_owned());
            }
            let log = dir.join(format!("{name}.log"));
            Self { name, binary: binary.to_path_buf(), args, log, url, metrics, process: None }
        });
        Ok(planned.collect())
    }

    fn start(&mut self) -> Result<(), Error> {
        self.kill()?;
        let mut command = Command::new(&self.binary);
        command.args(&self.args);
        self.process = Some(Process::start(&self.name, &mut command, &self.log, false)?);
        Ok(())
    }

    fn until_ready(&mut self) -> Result<(), Error> {
        let metrics = self.metrics;
        let ready = || http::get(metrics, "/readyz").is_ok_and(|(status, _)| status == 200).then_some(());
        self.process.as_mut().map_or(Ok(()), |process| process.until(START, ready))
    }

    fn leads(&self) -> bool {
        self.process.is_some() && http::get(self.metrics, "/metrics").is_ok_and(|(_, figures)| is_leader(&figures))
    }

    fn kill(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |mut process| process.kill().map(drop))
    }
}

/// Whether a member's figures say that it leads.
fn is_leader(figures: &str) -> bool {
    figures.lines().any(|line| line == "etcd_server_is_leader 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_the_one_whose_figures_say_so() {
        assert!(is_leader("# TYPE etcd_server_is_leader gauge\netcd_server_is_leader 1\n"));
        assert!(!is_leader("# TYPE etcd_server_is_leader gauge\netcd_server_is_leader 0\n"));
        assert!(!is_leader(""));
    }

    #[test]
    fn members_know_each_other_and_share_no_port() {
        let members = Member::plan(Path::new("etcd"), Path::new("/data"), 3, None).unwrap();
        let all = |flag: &str| -> Vec<String> {
            members.iter().map(|member| member.args.iter().find(|arg| arg.starts_with(flag)).unwrap().clone()).collect()
        };
        assert!(all("--initial-cluster=").windows(2).all(|pair| pair[0] == pair[1]));
        let mut urls: Vec<_> = ["--listen-client-urls", "--listen-peer-urls", "--listen-metrics-urls"]
            .iter()
            .flat_map(|flag| all(flag))
            .filter_map(|arg| arg.rsplit_once(':').map(|(_, port)| port.to_owned()))
            .collect();
        urls.sort();
        urls.dedup();
        assert_eq!(urls.len(), 9, "{urls:?}");
    }

    #[test]
    fn writes_are_never_unsafe() {
        let members = Member::plan(Path::new("etcd"), Path::new("/data"), 1, None).unwrap();
        assert!(!members[0].args.iter().any(|arg| arg.contains("unsafe")));
    }
}
