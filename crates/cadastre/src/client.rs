//! A client of a running server: one request as its administrator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use server::access::kubeconfig::Kubeconfig;
use server::access::pki::certificates;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the server may be silent. It makes its answer ready before it sends the first byte of it.
const SILENCE: Duration = Duration::from_mins(10);

/// How much of a refusal is read.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Posts nothing to a path and passes on what comes back, piece by piece. An answer that is not whole is an error.
pub(crate) async fn post(
    kubeconfig: &Kubeconfig,
    path: &str,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<()> {
    let server: Uri = kubeconfig.server.parse().context("the kubeconfig has no usable address")?;
    let authority = server.authority().context("the kubeconfig has no usable address")?.clone();
    let stream = timeout(CONNECT, connect(kubeconfig, &authority)).await.context("it does not answer")??;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(path).header(header::HOST, authority.as_str()).body(Empty::<Bytes>::new())?;
    let response = timeout(SILENCE, sender.send_request(request)).await.context("it does not answer")??;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let said = Limited::new(body, REFUSAL_BYTES).collect().await.map(Collected::to_bytes).unwrap_or_default();
        bail!("it answered {status}: {}", String::from_utf8_lossy(&said).trim_end());
    }
    while let Some(frame) = timeout(SILENCE, body.frame()).await.context("it stopped sending")? {
        if let Ok(bytes) = frame.context("the answer broke off")?.into_data() {
            take(&bytes).context("cannot write what it sent")?;
        }
    }
    connection.abort();
    Ok(())
}

async fn connect(
    kubeconfig: &Kubeconfig,
    authority: &http::uri::Authority,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((host, authority.port_u16().unwrap_or(443))).await.context("cannot connect")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&kubeconfig.authority)? {
        roots.add(certificate)?;
    }
    let identity = &kubeconfig.identity;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(identity.chain()?, identity.private_key()?)?;
    let name = kubeconfig.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned()).context("the kubeconfig has no usable address")?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.context("TLS failed")
}
