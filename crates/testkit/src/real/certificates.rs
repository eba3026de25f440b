//! Keys and certificates that parts are started with. They are of one run: made anew each time, valid on loopback only.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rcgen::{KeyUsagePurpose, PKCS_ECDSA_P256_SHA256};

use super::Error;

/// What a client needs to reach a server that asks for certificates: the paths of PEM files.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    /// The authority that signed the server's certificate.
    pub ca: PathBuf,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// The client's key.
    pub key: PathBuf,
}

/// What a server needs that asks its clients for certificates.
pub(super) struct ServerFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client: ClientFiles,
}

/// Writes an authority and a certificate for a server on loopback and for one client to the folder.
pub(super) fn mutual(folder: &Path) -> Result<ServerFiles, Error> {
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let mut params = named("cadastre test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, new_key()?)?;
    let ca = folder.join("ca.crt");
    write(&ca, &authority.pem())?;

    let mut server = named("etcd");
    server.subject_alt_names =
        CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?.subject_alt_names;
    // etcd's HTTP gateway is a client of its own server and shows the same certificate.
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let (certificate, key) = signed(&server, &authority, folder, "server")?;

    let mut client = named("client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let (client_certificate, client_key) = signed(&client, &authority, folder, "client")?;
    let client = ClientFiles { ca, certificate: client_certificate, key: client_key };
    Ok(ServerFiles { certificate, key, client })
}

/// Writes a new private key and its public key to the files, as PEM.
pub(super) fn key_pair(private: &Path, public: &Path) -> Result<(), Error> {
    let pair = new_key()?;
    write(private, &pair.serialize_pem())?;
    write(public, &pair.public_key_pem())
}

fn new_key() -> Result<KeyPair, Error> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn signed(
    params: &CertificateParams,
    authority: &CertifiedIssuer<'_, KeyPair>,
    folder: &Path,
    name: &str,
) -> Result<(PathBuf, PathBuf), Error> {
    let pair = new_key()?;
    let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    write(&certificate, &params.signed_by(&pair, authority)?.pem())?;
    write(&key, &pair.serialize_pem())?;
    Ok((certificate, key))
}

/// Writes a file that only its owner can read.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use tempfile::tempdir;

    #[test]
    fn keys_are_for_their_owner_only() {
        let scratch = tempdir().unwrap();
        let files = mutual(scratch.path()).unwrap();
        let (private, public) = (scratch.path().join("sa.key"), scratch.path().join("sa.pub"));
        key_pair(&private, &public).unwrap();
        assert!(fs::read_to_string(&public).unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
        for key in [files.key, files.client.key, private] {
            assert!(fs::read_to_string(&key).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
            assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn every_run_has_its_own_authority() {
        let scratch = tempdir().unwrap();
        let ca = |name| fs::read_to_string(mutual(&scratch.path().join(name)).unwrap().client.ca).unwrap();
        assert_ne!(ca("one"), ca("two"));
    }
}
