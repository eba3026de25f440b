//! kube-apiserver: the control that suites run against to know that they judge fairly, and the peer of benchmarks.
//!
//! Started bare, as a cluster's first process: its own certificate, one token that may do everything, no nodes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::certificates;
use super::process::{self, Process};
use super::{Error, Kubectl, free_ports, ports};

/// It is ready in five to ten seconds when it has the machine for itself.
const START: Duration = Duration::from_mins(2);
/// It lets watches and requests end first.
const STOP: Duration = Duration::from_secs(90);

/// A kube-apiserver, which can be killed and started again where it was. Dropping it kills it.
pub struct KubeApiserver {
    process: Process,
    binary: PathBuf,
    flags: Vec<String>,
    dir: PathBuf,
    kubectl: Kubectl,
    port: u16,
    url: String,
    token: String,
    kubeconfig: PathBuf,
    ca: PathBuf,
}

impl KubeApiserver {
    /// Starts it with its files in `dir` and its objects in the etcd at that address (several, separated by commas, if
    /// it is a cluster), and waits until it says that it is ready; `kubectl` is the program that asks it.
    ///
    /// `extra` are flags of kube-apiserver; they replace those of the same name that are set here.
    pub fn start(binary: &Path, kubectl: &Path, etcd: &str, dir: &Path, extra: &[&str]) -> Result<Self, Error> {
        Self::start_with_token(binary, kubectl, etcd, dir, extra, random_token()?)
    }

    /// The same, with a token of the caller's choice: servers that share an etcd can have one token.
    pub fn start_with_token(
        binary: &Path,
        kubectl: &Path,
        etcd: &str,
        dir: &Path,
        extra: &[&str],
        token: String,
    ) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::file(dir))?;
        let [port] = free_ports()?;
        let (tokens, certificates) = (dir.join("tokens.csv"), dir.join("tls"));
        let (private, public) = (dir.join("service-account.key"), dir.join("service-account.pub"));
        certificates::write(&tokens, &format!("{token},admin,admin,\"system:masters\"\n"))?;
        certificates::key_pair(&private, &public)?;

        let flags = [
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", certificates.display()),
            format!("--token-auth-file={}", tokens.display()),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", public.display()),
            format!("--service-account-signing-key-file={}", private.display()),
            // No controller makes the service accounts that the plugin would ask for.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        ];
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = dir.join("kubeconfig");
        // It signs for itself and keeps the whole chain in this file.
        let ca = certificates.join("apiserver.crt");
        certificates::write(&kubeconfig, &self::kubeconfig(&url, &ca, &token))?;
        let flags = process::flags(&flags, extra);
        let mut server = Self {
            process: launch(binary, &flags, dir)?,
            binary: binary.to_path_buf(),
            flags,
            dir: dir.to_path_buf(),
            kubectl: Kubectl::new(kubectl, &kubeconfig, &dir.join("kubectl")),
            port,
            url,
            token,
            kubeconfig,
            ca,
        };
        server.until_ready()?;
        Ok(server)
    }

    /// Kills it as `kill -9` does, and waits until it is gone; clients see it go away.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.process.kill().map(drop)
    }

    /// Starts it again where it was, and waits until it says that it is ready.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill()?;
        self.process = launch(&self.binary, &self.flags, &self.dir)?;
        self.until_ready()
    }

    fn until_ready(&mut self) -> Result<(), Error> {
        // A kubectl is dear to start, so it is asked only when there is somebody to answer.
        let ask = || self.kubectl.run(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
        let ready = || (ports::accepts(self.port) && ask().is_ok_and(|said| said.success())).then_some(());
        self.process.until(START, ready)
    }

    /// Where it is served.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bearer token that may do everything.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The kubeconfig with that token.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The certificates to trust, as PEM.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Tells it to end and waits until it is gone, which takes as long as its clients keep watches open.
    pub fn stop(mut self) -> Result<ExitStatus, Error> {
        self.process.terminate()?;
        self.process.wait(STOP)
    }
}

fn launch(binary: &Path, flags: &[String], dir: &Path) -> Result<Process, Error> {
    Process::start("kube-apiserver", Command::new(binary).args(flags), &dir.join("kube-apiserver.log"), false)
}

fn random_token() -> Result<String, Error> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(source).and_then(|mut file| file.read_exact(&mut bytes)).map_err(Error::file(source))?;
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        let _ = write!(token, "{byte:02x}");
        token
    }))
}

fn kubeconfig(url: &str, ca: &Path, token: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster: {{server: "{url}", certificate-authority: "{}"}}
users:
- name: admin
  user: {{token: "{token}"}}
contexts:
- name: test
  context: {{cluster: test, user: admin}}
"#,
        ca.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_servers_share_a_token() {
        let (one, other) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn the_kubeconfig_names_server_authority_and_token() {
        let text = kubeconfig("https://127.0.0.1:1", Path::new("/a b/ca.crt"), "secret");
        assert!(text.contains(r#"{server: "https://127.0.0.1:1", certificate-authority: "/a b/ca.crt"}"#), "{text}");
        assert!(text.contains(r#"{token: "secret"}"#), "{text}");
    }
}
