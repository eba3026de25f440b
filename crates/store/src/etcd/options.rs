//! How a store on etcd is told where its etcd is, and what is wrong with what it was told.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use thiserror::Error;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::failure::Failure;
use crate::hub::WatchLimits;
use crate::retention::Retention;

/// Where etcd is and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The members' addresses for clients: `http://host:port`, `https://host:port`, or `host:port`, which is https when
    /// there is a `tls` and http otherwise.
    pub endpoints: Vec<String>,
    /// Below which key everything is kept.
    pub prefix: String,
    /// What members prove themselves with and what they are shown.
    pub tls: Option<Tls>,
    /// How far a watcher may fall behind.
    pub watch: WatchLimits,
    /// How much history is kept in memory. What etcd keeps beyond that can be read but not watched.
    pub retention: Retention,
    /// How often etcd is compacted; it then keeps the history of one to two such times. `None` leaves that to others.
    pub compact_every: Option<Duration>,
}

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of those who may vouch for a member.
    pub ca: PathBuf,
    /// The certificate that is shown to members and its key, if they ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why there is no store on etcd.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// There is nothing to connect to.
    #[error("no address of an etcd member was given")]
    NoEndpoint,
    /// It cannot be the address of a member.
    #[error("{address:?} is no address of an etcd member: {why}")]
    Endpoint {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// The prefix would be all of etcd.
    #[error("the key prefix {0:?} is empty; choose one that is Cadastre's alone, such as /cadastre")]
    Prefix(String),
    /// A certificate or key could not be read.
    #[error("could not read {}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The member is of a release whose watches do not keep what they promise.
    #[error("etcd {0} is too old: its watches can report progress too early; 3.4.31, 3.5.13 or later is needed")]
    TooOld(String),
    /// No member answered, or the answer was no.
    #[error("could not start from etcd: {0}")]
    Unreachable(String),
}

impl Options {
    /// The members at these addresses, and defaults for everything else.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/cadastre".to_owned(),
            tls: None,
            watch: WatchLimits::default(),
            retention: Retention::default(),
            compact_every: Some(Duration::from_mins(5)),
        }
    }

    /// What went wrong, and what these options may have to do with it. A member that misses a certificate ends the
    /// connection, often before it can be heard why.
    pub(super) fn explain(&self, failure: &Failure) -> String {
        let unshown = self.tls.as_ref().is_some_and(|tls| tls.identity.is_none());
        let hint = if unshown { "; no certificate is shown to it: does it ask for one?" } else { "" };
        format!("{failure}{hint}")
    }

    /// Each address with what connects to it.
    pub(super) fn resolve(&self) -> Result<Vec<(String, Endpoint)>, ConnectError> {
        if self.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoint);
        }
        if self.prefix.trim_matches('/').is_empty() {
            return Err(ConnectError::Prefix(self.prefix.clone()));
        }
        let tls = self.tls.as_ref().map(Tls::read).transpose()?;
        self.endpoints.iter().map(|address| Ok((address.clone(), resolved(address, tls.as_ref())?))).collect()
    }
}

impl Tls {
    fn read(&self) -> Result<ClientTlsConfig, ConnectError> {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(contents(&self.ca)?));
        Ok(match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(contents(certificate)?, contents(key)?)),
            None => config,
        })
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, ConnectError> {
    fs::read(path).map_err(|source| ConnectError::File { path: path.to_owned(), source })
}

fn resolved(address: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint, ConnectError> {
    let wrong = |why: String| ConnectError::Endpoint { address: address.to_owned(), why };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    let endpoint = Endpoint::from_shared(url).map_err(|error| wrong(innermost(&error)))?;
    let uri = endpoint.uri();
    if uri.host().is_none_or(str::is_empty) || uri.port().is_none() || !matches!(uri.path(), "" | "/") {
        return Err(wrong("it should be http://HOST:PORT or https://HOST:PORT".to_owned()));
    }
    match (uri.scheme_str(), tls) {
        (Some("http"), None) => Ok(endpoint),
        (Some("https"), Some(tls)) => endpoint.tls_config(tls.clone()).map_err(|error| wrong(innermost(&error))),
        (Some("https"), None) => Err(wrong("https needs the file of the CA that vouches for it".to_owned())),
        (Some("http"), Some(_)) => Err(wrong("there are files for TLS, but http does not use them".to_owned())),
        _ => Err(wrong("only http and https are known".to_owned())),
    }
}

/// The reason at the end of a chain of errors, which is where tonic has it.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::new(["http://127.0.0.1:2379"]);
        change(&mut options);
        options.resolve().err().map_or_else(String::new, |error| error.to_string())
    }

    fn of_address(address: &str) -> String {
        complaint(|options| options.endpoints = vec![address.to_owned()])
    }

    #[test]
    fn an_address_needs_a_host_and_a_port() {
        for good in ["http://127.0.0.1:2379", "127.0.0.1:2379", "http://[::1]:2379/", "etcd-0.etcd:2379"] {
            assert_eq!(of_address(good), "", "{good}");
        }
        for bad in [
            "",
            "127.0.0.1",
            "http://",
            "http://host",
            "http://host:1/path",
            "unix://socket:1",
            "http://h:port",
            "a b:1",
        ] {
            assert!(of_address(bad).starts_with(&format!("{bad:?} is no address of an etcd member: ")), "{bad}");
        }
    }

    #[test]
    fn https_without_a_ca_and_http_with_one_are_mistakes() {
        assert!(of_address("https://h:1").contains("https needs the file of the CA"));
        let ca = tempfile::NamedTempFile::new().unwrap();
        let tls = Tls { ca: ca.path().to_owned(), identity: None };
        assert!(complaint(|options| options.tls = Some(tls)).contains("http does not use them"));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(complaint(|options| options.endpoints.clear()).contains("no address"));
        assert!(complaint(|options| options.prefix = "//".to_owned()).contains("is empty"));
        let tls = Tls { ca: "/no/such/file".into(), identity: None };
        assert!(complaint(|options| options.tls = Some(tls)).starts_with("could not read /no/such/file: "));
    }
}
