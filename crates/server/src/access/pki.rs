//! Our own certificate authority, and the certificates it gives: one to serve with, and those of clients.
//!
//! Everything is made on the first start and kept in one folder. The authority is made once; what it signed is signed
//! again, under a new key, when it nears its end, when it lacks a name it should have, or when it is not what it should
//! be in any other way. The time is an argument, because most of what can go wrong here goes wrong years later.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tracing::warn;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

use super::files::{self, FileError};

const DAY: Duration = Duration::from_hours(24);

/// How long the authority is good. Nothing renews it, so it outlives the disks it is kept on.
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);

/// How long the authority's certificates are good.
const LIFE: Duration = DAY.saturating_mul(365);

/// A certificate with less time left than this is made anew.
const RENEWAL: Duration = DAY.saturating_mul(90);

/// How far the clocks of clients may be behind ours.
const SKEW: Duration = Duration::from_hours(1);

/// Why there are no certificates.
#[derive(Debug, Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The authority is there in part, or is none.
    #[error(
        "the certificate authority in {} cannot be used: {why}; put back ca.crt and ca.key, or remove the folder to start \
         with a new authority (every kubeconfig has to be given out again then)",
        .folder.display()
    )]
    BrokenAuthority {
        /// Where it is.
        folder: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate for {whom}: {source}")]
    NotMade {
        /// For whom.
        whom: String,
        /// What went wrong.
        source: rcgen::Error,
    },
    /// There is no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

/// A certificate and its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, followed by those that lead to its authority, if any.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Identity {
    /// The certificates, that of the identity itself first.
    pub fn chain(&self) -> Result<Vec<CertificateDer<'static>>, rustls_pki_types::pem::Error> {
        certificates(&self.certificate)
    }

    /// The private key.
    pub fn private_key(&self) -> Result<PrivateKeyDer<'static>, rustls_pki_types::pem::Error> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
    }
}

/// All certificates of a PEM text.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, rustls_pki_types::pem::Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.and_then(|all| if all.is_empty() { Err(rustls_pki_types::pem::Error::NoItemsFound) } else { Ok(all) })
}

/// The names that a certificate is good for.
pub fn names_of(certificate: &CertificateDer<'_>) -> BTreeSet<ServerName> {
    Facts::of(certificate).map(|facts| facts.names).unwrap_or_default()
}

/// A name under which a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerName {
    /// A DNS name, in lower case.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// The text is neither an address nor a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is neither an IP address nor a DNS name")]
pub struct NotAServerName(String);

impl std::str::FromStr for ServerName {
    type Err = NotAServerName;

    fn from_str(text: &str) -> Result<Self, NotAServerName> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(address.to_canonical()));
        }
        let name = text.to_ascii_lowercase();
        let labels = name.strip_prefix("*.").unwrap_or(&name);
        rustls_pki_types::DnsName::try_from(labels).map_err(|_| NotAServerName(text.to_owned()))?;
        Ok(Self::Dns(name))
    }
}

/// The authority and the folder it is kept in.
pub struct Pki {
    folder: PathBuf,
    certificate: String,
    key_id: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Pki {
    /// Opens the authority in this folder; makes it, if there is none.
    pub fn open(folder: &Path, now: SystemTime) -> Result<Self, PkiError> {
        files::make_folder(folder)?;
        // Two that start at once must not mix their halves.
        let _turn = files::turn(folder)?;
        let key_path = folder.join("ca.key");
        let certificate_path = folder.join("ca.crt");
        let key = files::read(&key_path)?;
        let (certificate, key) = match (files::read(&certificate_path)?, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => {
                return Err(PkiError::BrokenAuthority {
                    folder: folder.to_owned(),
                    why: "ca.key is missing beside ca.crt".to_owned(),
                });
            }
            // The key is written first: one without a certificate is from a start that was cut short.
            (None, _) => {
                let made = make_authority(now)?;
                files::write(&key_path, made.key.as_bytes())?;
                files::write(&certificate_path, made.certificate.as_bytes())?;
                (made.certificate, made.key)
            }
        };
        Self::assemble(folder, certificate, &key, now)
            .map_err(|why| PkiError::BrokenAuthority { folder: folder.to_owned(), why })
    }

    fn assemble(folder: &Path, certificate: String, key: &str, now: SystemTime) -> Result<Self, String> {
        let first = certificates(&certificate).map_err(|error| format!("ca.crt: {error}"))?.swap_remove(0);
        let facts = Facts::of(&first).ok_or("ca.crt is no certificate")?;
        let key = KeyPair::from_pem(key).map_err(|error| format!("ca.key: {error}"))?;
        if facts.public_key != key.public_key_raw() {
            return Err("ca.key is not the key of ca.crt".to_owned());
        }
        if !facts.is_authority {
            return Err("ca.crt may not sign certificates".to_owned());
        }
        match facts.not_after.duration_since(now) {
            Err(_) => return Err("ca.crt has run out".to_owned()),
            Ok(left) if left < LIFE => {
                warn!(folder = %folder.display(), days = left.as_secs() / DAY.as_secs(), "the certificate authority is near its end");
            }
            Ok(_) => {}
        }
        let issuer = Issuer::from_ca_cert_der(&first, key).map_err(|error| format!("ca.crt: {error}"))?;
        Ok(Self { folder: folder.to_owned(), certificate, key_id: facts.key_id, issuer })
    }

    /// The authority's certificate, as PEM.
    pub fn authority(&self) -> &str {
        &self.certificate
    }

    /// The certificate to serve with under exactly these names: the one that is kept, or a new one.
    pub fn serving(&self, names: &BTreeSet<ServerName>, now: SystemTime) -> Result<Identity, PkiError> {
        let subject = Subject { name: "cadastre", group: None, purpose: ExtendedKeyUsagePurpose::ServerAuth };
        self.identity("serving", &subject, names, now)
    }

    /// The certificate of a client of that name and group, kept under `file`: the one that is there, or a new one.
    pub fn client(&self, file: &str, name: &str, group: &str, now: SystemTime) -> Result<Identity, PkiError> {
        let subject = Subject { name, group: Some(group), purpose: ExtendedKeyUsagePurpose::ClientAuth };
        self.identity(file, &subject, &BTreeSet::new(), now)
    }

    fn identity(
        &self,
        file: &str,
        subject: &Subject<'_>,
        names: &BTreeSet<ServerName>,
        now: SystemTime,
    ) -> Result<Identity, PkiError> {
        let certificate_path = self.folder.join(format!("{file}.crt"));
        let key_path = self.folder.join(format!("{file}.key"));
        let _turn = files::turn(&self.folder)?;
        if let (Some(certificate), Some(key)) = (files::read(&certificate_path)?, files::read(&key_path)?) {
            let kept = Identity { certificate, key };
            if self.is_good(&kept, subject, names, now) {
                return Ok(kept);
            }
        }
        let made = self.sign(subject, names, now)?;
        files::write(&key_path, made.key.as_bytes())?;
        files::write(&certificate_path, made.certificate.as_bytes())?;
        Ok(made)
    }

    /// Whether what is kept is still what would be made. Each doubt counts against it, because a new one costs nothing.
    fn is_good(&self, kept: &Identity, subject: &Subject<'_>, names: &BTreeSet<ServerName>, now: SystemTime) -> bool {
        let Ok(chain) = kept.chain() else { return false };
        let (Some(facts), Ok(key)) = (Facts::of(&chain[0]), KeyPair::from_pem(&kept.key)) else { return false };
        facts.public_key == key.public_key_raw()
            && facts.signer_id == self.key_id
            && facts.not_before <= now
            && now + RENEWAL <= facts.not_after
            && facts.common_name == subject.name
            && facts.organizations.iter().map(String::as_str).eq(subject.group)
            && facts.names == *names
    }

    fn sign(&self, subject: &Subject<'_>, names: &BTreeSet<ServerName>, now: SystemTime) -> Result<Identity, PkiError> {
        let mut params = params(subject.name, now, LIFE)?;
        if let Some(group) = subject.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![subject.purpose.clone()];
        let signed = || {
            for name in names {
                params.subject_alt_names.push(match name {
                    ServerName::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
                    ServerName::Ip(address) => SanType::IpAddress(*address),
                });
            }
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
        };
        signed_for(subject.name, signed)
    }
}

/// Whom a certificate is for.
struct Subject<'a> {
    name: &'a str,
    group: Option<&'a str>,
    purpose: ExtendedKeyUsagePurpose,
}

fn make_authority(now: SystemTime) -> Result<Identity, PkiError> {
    // Authorities are looked up by name; each of ours has its own, so that a client can know several.
    let mut number = [0; 4];
    getrandom::fill(&mut number)?;
    let name = &format!("cadastre-ca-{:08x}", u32::from_be_bytes(number));
    let mut params = params(name, now, AUTHORITY_LIFE)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = false;
    signed_for(name, || {
        let key = KeyPair::generate()?;
        Ok(Identity { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    })
}

fn signed_for(whom: &str, sign: impl FnOnce() -> Result<Identity, rcgen::Error>) -> Result<Identity, PkiError> {
    sign().map_err(|source| PkiError::NotMade { whom: whom.to_owned(), source })
}

fn params(name: &str, now: SystemTime, life: Duration) -> Result<CertificateParams, PkiError> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial)?;
    // A serial number is positive and has no superfluous leading zero.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = (now - SKEW).into();
    params.not_after = (now + life).into();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// What a certificate says, as far as it matters here.
struct Facts {
    public_key: Vec<u8>,
    key_id: Vec<u8>,
    signer_id: Vec<u8>,
    not_before: SystemTime,
    not_after: SystemTime,
    is_authority: bool,
    common_name: String,
    organizations: Vec<String>,
    names: BTreeSet<ServerName>,
}

impl Facts {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let time = |seconds: i64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?));
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().ok().map(str::to_owned);
        let mut facts = Self {
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            key_id: Vec::new(),
            signer_id: Vec::new(),
            not_before: time(parsed.validity().not_before.timestamp())?,
            not_after: time(parsed.validity().not_after.timestamp())?,
            is_authority: parsed.is_ca(),
            common_name: parsed.subject().iter_common_name().find_map(text).unwrap_or_default(),
            organizations: parsed.subject().iter_organization().filter_map(text).collect(),
            names: BTreeSet::new(),
        };
        for extension in parsed.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => facts.key_id = id.0.to_vec(),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    facts.signer_id = id.key_identifier.as_ref().map(|id| id.0.to_vec()).unwrap_or_default();
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    facts.names = names.general_names.iter().filter_map(server_name).collect();
                }
                _ => {}
            }
        }
        Some(facts)
    }
}

fn server_name(name: &GeneralName<'_>) -> Option<ServerName> {
    match name {
        GeneralName::DNSName(name) => Some(ServerName::Dns((*name).to_owned())),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            address.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok().map(ServerName::Ip)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn names(list: &[&str]) -> BTreeSet<ServerName> {
        list.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn open(folder: &TempDir, now: SystemTime) -> Pki {
        Pki::open(folder.path(), now).unwrap()
    }

    #[test]
    fn a_restart_keeps_authority_and_certificates() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        let names = names(&["127.0.0.1", "::1", "localhost"]);
        let first = open(&folder, now);
        let made = (first.serving(&names, now).unwrap(), first.client("admin", "admin", "staff", now).unwrap());
        let second = open(&folder, now + DAY);
        assert_eq!(first.authority(), second.authority());
        let kept = (second.serving(&names, now + DAY).unwrap(), second.client("admin", "admin", "staff", now).unwrap());
        assert_eq!(made, kept);
    }

    #[test]
    fn a_certificate_near_its_end_is_made_anew_by_the_same_authority() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        let names = names(&["localhost"]);
        let pki = open(&folder, now);
        let made = pki.serving(&names, now).unwrap();
        assert_eq!(pki.serving(&names, now + LIFE - RENEWAL - DAY).unwrap(), made, "there is time enough");
        let renewed = pki.serving(&names, now + LIFE - RENEWAL + DAY).unwrap();
        assert_ne!(renewed, made);
        assert_eq!(Facts::of(&renewed.chain().unwrap()[0]).unwrap().signer_id, pki.key_id);
        assert_eq!(pki.serving(&names, now + LIFE - RENEWAL + DAY).unwrap(), renewed, "and the new one is kept");
    }

    #[test]
    fn other_names_make_another_serving_certificate() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        let pki = open(&folder, now);
        let made = pki.serving(&names(&["localhost", "127.0.0.1"]), now).unwrap();
        assert_eq!(pki.serving(&names(&["127.0.0.1", "LOCALHOST"]), now).unwrap(), made, "the same names");
        let more = pki.serving(&names(&["localhost", "127.0.0.1", "10.0.0.1"]), now).unwrap();
        assert_ne!(more, made);
        let facts = Facts::of(&more.chain().unwrap()[0]).unwrap();
        assert_eq!(facts.names, names(&["localhost", "127.0.0.1", "10.0.0.1"]));
    }

    #[test]
    fn two_that_start_at_once_agree() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        let start = || {
            let pki = open(&folder, now);
            (pki.authority().to_owned(), pki.serving(&names(&["localhost"]), now).unwrap())
        };
        let (one, two) = std::thread::scope(|scope| {
            let (one, two) = (scope.spawn(start), scope.spawn(start));
            (one.join().unwrap(), two.join().unwrap())
        });
        assert_eq!(one, two);
    }

    #[test]
    fn a_damaged_or_swapped_key_is_replaced() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        let pki = open(&folder, now);
        let made = pki.serving(&names(&["localhost"]), now).unwrap();
        fs::write(folder.path().join("serving.key"), "rubbish").unwrap();
        let again = pki.serving(&names(&["localhost"]), now).unwrap();
        assert_ne!(again, made);
        fs::write(folder.path().join("serving.key"), &made.key).unwrap();
        assert_ne!(pki.serving(&names(&["localhost"]), now).unwrap().key, made.key, "the key of another certificate");
    }

    #[test]
    fn certificates_of_another_authority_are_not_kept() {
        let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let now = SystemTime::now();
        let made = open(&folder, now).serving(&names(&["localhost"]), now).unwrap();
        for file in ["serving.crt", "serving.key"] {
            fs::copy(folder.path().join(file), other.path().join(file)).unwrap();
        }
        assert_ne!(open(&other, now).serving(&names(&["localhost"]), now).unwrap(), made);
    }

    #[test]
    fn a_start_that_was_cut_short_between_key_and_certificate_is_begun_again() {
        let folder = TempDir::new().unwrap();
        let now = SystemTime::now();
        open(&folder, now);
        fs::remove_file(folder.path().join("ca.crt")).unwrap();
        open(&folder, now);
        open(&folder, now);
    }

    #[test]
    fn half_an_authority_is_refused_and_left_alone() {
        let now = SystemTime::now();
        let said = |damage: &dyn Fn(&Path), later: Duration| {
            let folder = TempDir::new().unwrap();
            open(&folder, now);
            damage(folder.path());
            let before = fs::read(folder.path().join("ca.crt")).unwrap();
            let error = Pki::open(folder.path(), now + later).unwrap_err().to_string();
            assert_eq!(fs::read(folder.path().join("ca.crt")).unwrap(), before);
            error
        };
        let day = Duration::ZERO;
        let gone = said(&|folder| fs::remove_file(folder.join("ca.key")).unwrap(), day);
        assert!(gone.contains("ca.key is missing beside ca.crt") && gone.contains("remove the folder"), "{gone}");
        let other = KeyPair::generate().unwrap().serialize_pem();
        let swapped = said(&|folder| fs::write(folder.join("ca.key"), &other).unwrap(), day);
        assert!(swapped.contains("ca.key is not the key of ca.crt"), "{swapped}");
        let rubbish = said(&|folder| fs::write(folder.join("ca.crt"), "rubbish").unwrap(), day);
        assert!(rubbish.contains("ca.crt: "), "{rubbish}");
        assert!(said(&|_| {}, AUTHORITY_LIFE + DAY).contains("ca.crt has run out"));
    }

    #[test]
    fn server_names_are_addresses_or_dns_names() {
        assert_eq!("::FFFF:10.0.0.1".parse(), Ok(ServerName::Ip([10, 0, 0, 1].into())));
        assert_eq!("Kube.Example".parse(), Ok(ServerName::Dns("kube.example".to_owned())));
        assert_eq!("*.example.com".parse(), Ok(ServerName::Dns("*.example.com".to_owned())));
        for wrong in ["", "a b", "-", "a..b", "*", "https://x"] {
            assert!(wrong.parse::<ServerName>().is_err(), "{wrong}");
        }
    }
}
