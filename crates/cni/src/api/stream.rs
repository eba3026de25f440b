//! A connection to the API server: through the agent's socket, or a socket of our own, with TLS or without.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};

use super::kubeconfig::Kubeconfig;
use crate::failure::{Code, Failure};

/// How long a connection may take to come about.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection.
pub(super) type Connection = BufReader<Stream>;

pub(super) enum Stream {
    Agent(UnixStream),
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Agent(stream) => stream.read(buffer),
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Agent(stream) => stream.write(bytes),
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Agent(stream) => stream.flush(),
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Stream {
    /// No call on it takes longer than this.
    pub(super) fn limit(&self, patience: Duration) -> io::Result<()> {
        // Zero would mean without an end.
        let patience = Some(patience.max(Duration::from_millis(1)));
        match self {
            Self::Agent(stream) => stream.set_read_timeout(patience).and(stream.set_write_timeout(patience)),
            Self::Plain(stream) => stream.set_read_timeout(patience).and(stream.set_write_timeout(patience)),
            Self::Tls(stream) => stream.sock.set_read_timeout(patience).and(stream.sock.set_write_timeout(patience)),
        }
    }

    /// The agent's socket. One that is not there, or that nobody listens on, is told at once.
    pub(super) fn agent(socket: &Path) -> io::Result<Self> {
        UnixStream::connect(socket).map(Self::Agent)
    }

    /// The server's own.
    pub(super) fn direct(to: &Kubeconfig, tls: Option<&Arc<ClientConfig>>, patience: Duration) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (to.host.as_str(), to.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience.min(PATIENCE).max(Duration::from_millis(1))) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let Some(tls) = tls else { return Ok(Self::Plain(stream)) };
                    let name = to.server_name.as_ref().unwrap_or(&to.host).clone();
                    let name = ServerName::try_from(name).map_err(io::Error::other)?;
                    let session = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
                    return Ok(Self::Tls(Box::new(StreamOwned::new(session, stream))));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// How to speak TLS with the server.
pub(super) fn tls(to: &Kubeconfig) -> Result<Arc<ClientConfig>, Failure> {
    let refused =
        |what: &str, why: &dyn std::fmt::Display| Failure::new(Code::Config, format!("kubeconfig: {what}: {why}"));
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("TLS", &error))?;
    let builder = if to.is_trusting {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting::of(&provider)))
    } else {
        let what = "certificate-authority";
        let authority = to.signer.as_ref().ok_or_else(|| refused(what, &"missing"))?.bytes()?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&authority) {
            let certificate = certificate.map_err(|error| refused(what, &error))?;
            roots.add(certificate).map_err(|error| refused(what, &error))?;
        }
        if roots.is_empty() {
            return Err(refused(what, &"there is no certificate in it"));
        }
        builder.with_root_certificates(roots)
    };
    let Some((certificate, key)) = &to.identity else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let (certificate, key) = (certificate.bytes()?, key.bytes()?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| refused("client-certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| refused("client-key", &error))?;
    let config = builder.with_client_auth_cert(chain, key).map_err(|error| refused("client-certificate", &error))?;
    Ok(Arc::new(config))
}

/// `insecure-skip-tls-verify`: whose certificate it is does not matter, only that the server has its key.
#[derive(Debug)]
struct Trusting {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trusting {
    fn of(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
