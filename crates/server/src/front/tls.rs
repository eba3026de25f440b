//! TLS: what we present, whom we ask for a certificate, and which protocol is spoken inside.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use thiserror::Error;

use crate::access::pki::Identity;

/// HTTP/2 as it is called in the handshake.
pub(super) const H2: &[u8] = b"h2";

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate or key is no PEM.
    #[error("the certificate or key to serve with cannot be read: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// The certificate, the key or a client authority is not usable, or they do not belong together.
    #[error("the certificate or key to serve with cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// No client certificate can be checked.
    #[error("the certificates of client authorities cannot be used: {0}")]
    ClientAuthority(#[from] rustls::server::VerifierBuilderError),
}

/// What is presented to clients. It can be replaced while the server runs; handshakes from then on present the new one.
#[derive(Debug)]
pub struct Presented {
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Presented {
    /// Presents this identity.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(provider());
        let current = RwLock::new(Arc::new(certified(identity, &provider)?));
        Ok(Arc::new(Self { provider, current }))
    }

    /// Presents that identity from now on. One that cannot be used changes nothing.
    pub fn replace(&self, identity: &Identity) -> Result<(), TlsError> {
        let next = Arc::new(certified(identity, &self.provider)?);
        *self.current.write() = next;
        Ok(())
    }
}

impl ResolvesServerCert for Presented {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

/// The ciphers, AES with 128 bits first, as Go's servers have it: with 256 bits, long lists take a twentieth longer on both sides.
fn provider() -> CryptoProvider {
    let mut provider = default_provider();
    provider.cipher_suites.sort_by_key(|suite| !format!("{:?}", suite.suite()).contains("AES_128"));
    provider
}

fn certified(identity: &Identity, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    Ok(CertifiedKey::from_der(identity.chain()?, identity.private_key()?, provider)?)
}

/// Presents that, and checks client certificates against those authorities. A client may have none; one that has a
/// certificate of somebody else is turned away in the handshake.
pub fn config(
    presented: Arc<Presented>,
    client_authorities: &[CertificateDer<'static>],
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in client_authorities {
        roots.add(authority.clone())?;
    }
    let provider = Arc::clone(&presented.provider);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(presented);
    // Libraries that are built on ours ask for the strongest cipher first, whatever it costs.
    config.ignore_client_order = true;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    // Tickets hold the session with the client, so that resuming costs the server no memory, however many there are.
    config.ticketer = Ticketer::new()?;
    Ok(Arc::new(config))
}
