//! Where a server is reached over TLS: its address, whom to trust for it, and the token that opens it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};

/// A server and how to come in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// As `HOST:PORT`.
    pub(crate) address: String,
    /// A file of the certificates to trust, as PEM.
    pub(crate) authority: PathBuf,
    /// A bearer token.
    pub(crate) token: String,
}

impl Endpoint {
    /// The host alone, which the server's certificate has to name.
    pub(crate) fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&self.address, |(host, _)| host)
    }

    /// How to speak TLS with it, for clients of HTTP/1.1.
    pub(crate) fn tls(&self) -> Result<ClientConfig> {
        let mut provider = default_provider();
        // Go's clients ask for this one first where the processor knows AES, and servers differ in whose wish counts.
        provider.cipher_suites.retain(|suite| *suite != cipher_suite::TLS13_AES_128_GCM_SHA256);
        provider.cipher_suites.insert(0, cipher_suite::TLS13_AES_128_GCM_SHA256);
        let mut tls = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots(&self.authority)?)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(tls)
    }
}

/// The certificates in a file.
fn roots(authority: &Path) -> Result<RootCertStore> {
    let not_read = || format!("no certificates in {}", authority.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).with_context(not_read)? {
        roots.add(certificate.with_context(not_read)?)?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_is_before_the_port() {
        let endpoint = |address: &str| Endpoint { address: address.into(), authority: "".into(), token: String::new() };
        assert_eq!(endpoint("127.0.0.1:6443").host(), "127.0.0.1");
        assert_eq!(endpoint("localhost").host(), "localhost");
    }
}
