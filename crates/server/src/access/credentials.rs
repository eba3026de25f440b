//! Everything of a data directory that lets somebody in, made on the first start and kept right on every later one.
//!
//! ```text
//! DIR/pki/        ca.crt, ca.key, serving.crt, serving.key, admin.crt, admin.key, service-account.key
//! DIR/kubeconfig  the administrator's, with the client certificate in it
//! DIR/admin-token a bearer token for tools that cannot show a certificate
//! DIR/tokens.csv  tokens of others; used if it is there
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;
use thiserror::Error;
use tracing::warn;

use super::accounts::{self, Issuer, KeyError};
use super::files::{self, FileError};
use super::kubeconfig::{Kubeconfig, KubeconfigError};
use super::pki::{Identity, Pki, PkiError, ServerName, certificates, names_of};
use super::tokens::{self, TokenFileError};
use super::{Authenticator, MASTERS, User};

/// The name of the user that the kubeconfig and the admin token stand for.
const ADMIN: &str = "cadastre-admin";

/// Why nobody can be let in.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There are no certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// There is no kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// There is no key for the tokens of `ServiceAccount`s.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The token file is not right.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// A file that was named on the command line is not there or holds no certificate.
    #[error("{} {why}", .path.display())]
    Given {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A certificate and its key, in files that somebody else looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenIdentity {
    /// The certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl GivenIdentity {
    fn read(&self) -> Result<Identity, CredentialsError> {
        let identity = Identity { certificate: given_text(&self.certificate)?, key: given_text(&self.key)? };
        given_certificates(&self.certificate, &identity.certificate)?;
        identity.private_key().map_err(|error| CredentialsError::Given {
            path: self.key.clone(),
            why: format!("holds no private key: {error}"),
        })?;
        Ok(identity)
    }
}

/// What is wanted of a data directory.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The data directory.
    pub folder: PathBuf,
    /// The names and addresses to serve under.
    pub names: BTreeSet<ServerName>,
    /// Where clients reach the server: `https://ADDRESS:PORT`.
    pub server: String,
    /// What to serve with instead of a certificate of our own.
    pub given_identity: Option<GivenIdentity>,
    /// Authorities whose client certificates are good, besides our own.
    pub given_client_authority: Option<PathBuf>,
    /// The token file to use instead of the one in the data directory.
    pub given_tokens: Option<PathBuf>,
    /// The key to sign the tokens of `ServiceAccount`s with instead of one of our own.
    pub given_account_key: Option<PathBuf>,
    /// The name under which they are signed.
    pub issuer: String,
}

/// What is presented to clients, and what they are held against.
#[derive(Clone, Debug)]
pub struct Identities {
    /// What to serve with.
    pub serving: Identity,
    /// The authorities whose client certificates are good.
    pub client_authorities: Vec<CertificateDer<'static>>,
    /// What clients have to trust to know the server, in PEM.
    pub authority: String,
}

impl Credentials {
    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_of(&self.folder)
    }

    /// Makes what is missing, renews what nears its end, keeps the rest. Called at the start and from time to time.
    pub fn identities(&self, now: SystemTime) -> Result<Identities, CredentialsError> {
        let pki = Pki::open(&self.folder.join("pki"), now)?;
        let admin = pki.client("admin", ADMIN, MASTERS, now)?;
        let mut kubeconfig = Kubeconfig {
            server: self.server.clone(),
            server_name: None,
            authority: pki.authority().to_owned(),
            identity: admin,
        };
        let serving = match &self.given_identity {
            None => pki.serving(&self.names, now)?,
            Some(given) => {
                let serving = given.read()?;
                // Clients cannot know who signed it. So they are told to trust what is presented.
                kubeconfig.authority.push_str(&serving.certificate);
                let presented = given_certificates(&given.certificate, &serving.certificate)?;
                kubeconfig.server_name = self.other_name(&names_of(&presented[0]));
                serving
            }
        };
        kubeconfig.keep(&self.kubeconfig())?;
        let mut client_authorities = given_certificates(&self.folder.join("pki/ca.crt"), pki.authority())?;
        client_authorities.extend(self.given_client_authorities()?);
        Ok(Identities { serving, client_authorities, authority: kubeconfig.authority })
    }

    /// Reads every file that was given and nothing else, so that a wrong one is noticed before anything is made.
    pub fn look_at_given(&self) -> Result<(), CredentialsError> {
        if let Some(given) = &self.given_identity {
            given.read()?;
        }
        self.given_client_authorities()?;
        if let Some(file) = &self.given_tokens {
            tokens::read(file)?;
        }
        if let Some(file) = &self.given_account_key {
            Issuer::new(&self.issuer, &given_text(file)?)?;
        }
        Ok(())
    }

    fn given_client_authorities(&self) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
        match &self.given_client_authority {
            Some(path) => given_certificates(path, &given_text(path)?),
            None => Ok(Vec::new()),
        }
    }

    /// The name that clients have to look for in a certificate which does not have the address they connect to.
    fn other_name(&self, presented: &BTreeSet<ServerName>) -> Option<String> {
        let host = self.server.rsplit_once(':').map_or(&*self.server, |(host, _)| host);
        let host = host.trim_start_matches("https://").trim_start_matches('[').trim_end_matches(']');
        if host.parse().is_ok_and(|host| presented.contains(&host)) {
            return None;
        }
        presented.iter().find_map(|name| match name {
            ServerName::Dns(name) if !name.starts_with('*') => Some(name.clone()),
            _ => None,
        })
    }

    /// Knows the administrator's token, which it makes if there is none, and those of the token file.
    pub fn authenticator(&self) -> Result<Authenticator, CredentialsError> {
        let mut authenticator = Authenticator::default();
        let in_folder = self.folder.join("tokens.csv");
        let file = self.given_tokens.clone().or_else(|| in_folder.exists().then_some(in_folder));
        if let Some(file) = file {
            for (token, user) in tokens::read(&file)? {
                if let Some(before) = authenticator.admit(&token, user) {
                    warn!(file = %file.display(), user = before.name, "duplicate token has been found in token file");
                }
            }
        }
        // The last word is ours: no line of a file can take the administrator's token for another user.
        authenticator.admit(&self.admin_token()?, User::authenticated(ADMIN, [MASTERS.to_owned()]));
        Ok(authenticator)
    }

    /// Signs the tokens of `ServiceAccount`s, with a key that it makes if there is none.
    pub fn issuer(&self) -> Result<Issuer, CredentialsError> {
        if let Some(file) = &self.given_account_key {
            return Ok(Issuer::new(&self.issuer, &given_text(file)?)?);
        }
        let folder = self.folder.join("pki");
        files::make_folder(&folder)?;
        let path = folder.join("service-account.key");
        let key = if let Some(key) = files::read(&path)? {
            key
        } else {
            let key = accounts::new_key()?;
            files::write(&path, key.as_bytes())?;
            key
        };
        Ok(Issuer::new(&self.issuer, &key)?)
    }

    fn admin_token(&self) -> Result<String, CredentialsError> {
        let path = self.folder.join("admin-token");
        if let Some(token) = files::read(&path)?.map(|text| text.trim().to_owned()).filter(|token| !token.is_empty()) {
            return Ok(token);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(PkiError::from)?;
        let token = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        files::write(&path, format!("{token}\n").as_bytes())?;
        Ok(token)
    }
}

/// The administrator's kubeconfig of that data directory.
pub fn kubeconfig_of(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

fn given_text(path: &Path) -> Result<String, CredentialsError> {
    std::fs::read_to_string(path)
        .map_err(|error| CredentialsError::Given { path: path.to_owned(), why: format!("cannot be read: {error}") })
}

fn given_certificates(path: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    certificates(pem).map_err(|error| CredentialsError::Given {
        path: path.to_owned(),
        why: format!("holds no certificate: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::*;

    fn credentials(folder: &Path) -> Credentials {
        Credentials {
            folder: folder.to_owned(),
            names: BTreeSet::from(["localhost".parse().unwrap()]),
            server: "https://127.0.0.1:6443".to_owned(),
            given_identity: None,
            given_client_authority: None,
            given_tokens: None,
            given_account_key: None,
            issuer: accounts::ISSUER.to_owned(),
        }
    }

    fn who(authenticator: &Authenticator, token: &str) -> Option<String> {
        let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        authenticator.user(None, &headers).ok().map(|user| user.name.clone())
    }

    fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = [folder.to_owned(), folder.join("pki")]
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn tokens_of_accounts_are_signed_with_the_same_key_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let id = |credentials: &Credentials| format!("{:?}", credentials.issuer().unwrap());
        let first = id(&credentials(home.path()));
        assert_eq!(id(&credentials(home.path())), first);
        let given = home.path().join("given.key");
        fs::write(&given, accounts::new_key().unwrap()).unwrap();
        let wanted = Credentials { given_account_key: Some(given.clone()), ..credentials(home.path()) };
        assert_ne!(id(&wanted), first);
        fs::write(&given, "nonsense").unwrap();
        assert!(wanted.look_at_given().is_err());
    }

    #[test]
    fn a_first_start_makes_private_files_and_a_second_keeps_them() {
        let home = tempfile::tempdir().unwrap();
        let wanted = credentials(home.path());
        wanted.identities(SystemTime::now()).unwrap();
        wanted.authenticator().unwrap();
        let made = contents(home.path());
        let names: Vec<_> = made.iter().map(|(path, _)| path.strip_prefix(home.path()).unwrap().to_owned()).collect();
        let expected = ["admin-token", "kubeconfig", "pki/admin.crt", "pki/admin.key", "pki/ca.crt", "pki/ca.key"];
        assert_eq!(names[..6], expected.map(PathBuf::from));
        assert_eq!(names[6..], ["pki/serving.crt", "pki/serving.key"].map(PathBuf::from));
        for (path, _) in &made {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(fs::metadata(home.path().join("pki")).unwrap().permissions().mode() & 0o777, 0o700);
        wanted.identities(SystemTime::now()).unwrap();
        wanted.authenticator().unwrap();
        assert_eq!(contents(home.path()), made);
    }

    #[test]
    fn the_admin_token_is_long_random_and_the_administrators() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let token = |folder: &Path| {
            let authenticator = credentials(folder).authenticator().unwrap();
            let token = fs::read_to_string(folder.join("admin-token")).unwrap().trim().to_owned();
            assert_eq!(who(&authenticator, &token).as_deref(), Some(ADMIN));
            token
        };
        let (first, second) = (token(one.path()), token(two.path()));
        assert_eq!(first.len(), 64);
        assert_ne!(first, second);
    }

    #[test]
    fn tokens_come_from_the_folder_or_from_the_file_that_was_given() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("tokens.csv"), "t1,jane,1\n").unwrap();
        let authenticator = credentials(home.path()).authenticator().unwrap();
        assert_eq!(who(&authenticator, "t1").as_deref(), Some("jane"));

        let given = home.path().join("other.csv");
        fs::write(&given, "t2,joe,1\n").unwrap();
        let wanted = Credentials { given_tokens: Some(given), ..credentials(home.path()) };
        let authenticator = wanted.authenticator().unwrap();
        assert_eq!(who(&authenticator, "t2").as_deref(), Some("joe"));
        assert_eq!(who(&authenticator, "t1"), None);
        let missing = Credentials { given_tokens: Some(home.path().join("none.csv")), ..credentials(home.path()) };
        assert!(missing.authenticator().is_err(), "a file that was named must be there");
    }

    #[test]
    fn the_kubeconfig_trusts_a_certificate_that_was_given() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = SystemTime::now();
        credentials(other.path()).identities(now).unwrap();
        let given = GivenIdentity {
            certificate: other.path().join("pki/serving.crt"),
            key: other.path().join("pki/serving.key"),
        };
        let wanted = Credentials { given_identity: Some(given.clone()), ..credentials(home.path()) };
        let identities = wanted.identities(now).unwrap();
        let presented = fs::read_to_string(&given.certificate).unwrap();
        assert_eq!(identities.serving.certificate, presented);
        let kubeconfig = Kubeconfig::read(&wanted.kubeconfig()).unwrap().unwrap();
        assert!(kubeconfig.authority.contains(&presented));
        assert_eq!(kubeconfig.server_name.as_deref(), Some("localhost"), "the certificate has no address");
        assert!(!home.path().join("pki/serving.crt").exists(), "none of our own is made then");
    }

    #[test]
    fn a_given_file_without_a_certificate_is_named() {
        let home = tempfile::tempdir().unwrap();
        let empty = home.path().join("clients.crt");
        fs::write(&empty, "").unwrap();
        let wanted = Credentials { given_client_authority: Some(empty), ..credentials(&home.path().join("data")) };
        let error = wanted.look_at_given().unwrap_err().to_string();
        assert!(error.contains("clients.crt holds no certificate"), "{error}");
        assert!(!home.path().join("data").exists(), "looking makes nothing");
    }
}
