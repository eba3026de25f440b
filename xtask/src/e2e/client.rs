//! A client that loses nothing: HTTP/1.1 over TLS on one connection, and for every request what became of it.
//!
//! Blocking and small on purpose. A library would try again by itself where the point is to know what happened.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// A server that says nothing for this long is taken for gone; then it is asked again.
const SILENCE: Duration = Duration::from_secs(20);

/// A connection that was not used for this long is not used again. Servers close what is idle for longer than a minute, and then
/// nobody could tell what became of a request that crossed their farewell.
const IDLE: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";

/// Whose server it is, for what its answers promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Ours: what it answers with 503 was definitely not done.
    Ours,
    /// The control: a failure of its own leaves open what was done.
    Control,
}

/// Where to go, and as whom.
pub(crate) struct Target {
    promise: Promise,
    address: String,
    token: String,
    tls: Arc<ClientConfig>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Nothing was sent: nobody was there.
    Unsent,
    /// It was sent, and no answer came.
    Lost,
    /// The status and the body of an answer.
    Answer(u16, Value),
}

/// One client: a connection while there is one.
pub(crate) struct Client {
    target: Arc<Target>,
    /// And when it was last used.
    connection: Option<(Connection, Instant)>,
}

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

impl Target {
    /// A server at `address` (`HOST:PORT`), known by the certificates in a file, and a token for it.
    pub(crate) fn new(promise: Promise, address: &str, authority: &Path, token: String) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(authority);
        for certificate in certificates.with_context(|| format!("no certificates in {}", authority.display()))? {
            roots.add(certificate?)?;
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { promise, address: address.to_owned(), token, tls: Arc::new(tls) })
    }

    fn connect(&self) -> io::Result<Connection> {
        let socket = TcpStream::connect(&self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        socket.set_write_timeout(Some(SILENCE))?;
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, socket);
        // The handshake now, so that what fails later was sent.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(BufReader::new(stream))
    }

    fn head(&self, method: &str, path: &str, media: &str, length: usize) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\
             User-Agent: e2e/1\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n",
            self.address, self.token
        )
    }
}

impl Client {
    pub(crate) fn new(target: &Arc<Target>) -> Self {
        Self { target: Arc::clone(target), connection: None }
    }

    pub(super) fn promise(&self) -> Promise {
        self.target.promise
    }

    /// Sends a request, whose body is JSON, and waits for the answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.send_as(JSON, method, path, body)
    }

    /// The same, with a body of that media type.
    pub(super) fn send_as(&mut self, media: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let known = self.connection.take().filter(|(_, used)| used.elapsed() < IDLE).map(|(connection, _)| connection);
        let Some(mut connection) = known.or_else(|| self.target.connect().ok()) else { return Reply::Unsent };
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = self.target.head(method, path, media, body.len()) + &body;
        let asked = connection.get_mut().write_all(request.as_bytes()).and_then(|()| connection.get_mut().flush());
        let Ok((answer, whole)) = asked.and_then(|()| answer(&mut connection)) else { return Reply::Lost };
        if whole {
            self.connection = Some((connection, Instant::now()));
        }
        answer
    }

    /// Begins a watch; its lines, or the refusal. Takes a connection of its own, which ends with the watch.
    pub(super) fn watch(&self, path: &str) -> io::Result<Result<Lines, (u16, Value)>> {
        let mut connection = self.target.connect()?;
        connection.get_mut().write_all(self.target.head("GET", path, JSON, 0).as_bytes())?;
        connection.get_mut().flush()?;
        let head = Head::read(&mut connection)?;
        if head.status == 200 && head.chunked {
            return Ok(Ok(Lines { body: BufReader::new(Chunks { connection, left: 0, first: true, ended: false }) }));
        }
        let (body, _) = head.body(&mut connection)?;
        Ok(Err((head.status, body)))
    }
}

/// An answer, and whether the connection can be used again.
fn answer(connection: &mut Connection) -> io::Result<(Reply, bool)> {
    let head = Head::read(connection)?;
    let (body, whole) = head.body(connection)?;
    Ok((Reply::Answer(head.status, body), whole && !head.closes))
}

/// The part of an answer's head that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    closes: bool,
}

impl Head {
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let first = line(from)?;
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let mut head = Self { status: status.ok_or_else(|| no_answer(&first))?, ..Self::default() };
        loop {
            let header = line(from)?;
            let Some((name, value)) = header.split_once(':') else { return Ok(head) };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.parse().map_err(|_| no_answer(&header))?),
                "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => head.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
    }

    /// The body, and whether its end was marked.
    fn body<R: BufRead>(&self, from: &mut R) -> io::Result<(Value, bool)> {
        let mut bytes = Vec::new();
        let whole = if let Some(length) = self.length {
            bytes.resize(length, 0);
            from.read_exact(&mut bytes)?;
            true
        } else if self.chunked {
            Chunks { connection: from, left: 0, first: true, ended: false }.read_to_end(&mut bytes)?;
            true
        } else {
            from.read_to_end(&mut bytes)?;
            false
        };
        // What is no JSON (a page of a proxy, a plain error) is kept as text: it is shown to somebody.
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Ok((serde_json::from_slice(&bytes).unwrap_or_else(|_| text()), whole))
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn no_answer(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an answer: {line}"))
}

/// The events of a watch, a line each.
pub(super) struct Lines {
    body: BufReader<Chunks<Connection>>,
}

impl Lines {
    /// The next event: none when the server ended the watch in order, an error when it broke off.
    pub(super) fn next(&mut self) -> io::Result<Option<Value>> {
        let mut text = String::new();
        if self.body.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        // Half a line is no event: the server was killed while it wrote.
        if !text.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&text).map(Some).map_err(io::Error::other)
    }
}

/// A body in chunks, as its bytes. Ends where the last chunk says so; a connection that ends earlier is an error.
struct Chunks<R> {
    connection: R,
    left: usize,
    first: bool,
    ended: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ended || into.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            if !self.first {
                line(&mut self.connection)?;
            }
            self.first = false;
            let size = line(&mut self.connection)?;
            let digits = size.split(';').next().unwrap_or_default();
            self.left = usize::from_str_radix(digits.trim(), 16).map_err(|_| no_answer(&size))?;
            if self.left == 0 {
                line(&mut self.connection)?;
                self.ended = true;
                return Ok(0);
            }
        }
        let most = self.left.min(into.len());
        let read = self.connection.read(&mut into[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &str) -> io::Result<(u16, Value, bool)> {
        let mut from = answer.as_bytes();
        let head = Head::read(&mut from)?;
        let (body, whole) = head.body(&mut from)?;
        Ok((head.status, body, whole))
    }

    #[test]
    fn a_body_ends_where_its_length_or_its_last_chunk_says() {
        let plain = "HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\n{\"a\":1}HTTP/1.1 ...";
        assert_eq!(read(plain).unwrap(), (201, json!({"a": 1}), true));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3;x=y\r\n:1}\r\n0\r\n\r\n";
        assert_eq!(read(chunked).unwrap(), (200, json!({"a": 1}), true));
        let until_closed = "HTTP/1.1 503 No\r\nConnection: close\r\n\r\nnot now";
        assert_eq!(read(until_closed).unwrap(), (503, json!("not now"), false));
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        for cut in [
            "",
            "HTTP/1.1 20",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\"",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n",
        ] {
            assert!(read(cut).is_err(), "{cut:?}");
        }
    }
}
