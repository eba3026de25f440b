//! One connection: HTTP/1.1 over TLS, kept open, with a buffer that is allocated once.
//!
//! Reads of an answer what has to be known to find its end. Nothing is tried again: a server that ends a connection while
//! it is measured has failed.

use std::io;
use std::ops::Range;
use std::str::from_utf8;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::https::Endpoint;

/// A server, and what is needed to connect to it.
pub(super) struct Server {
    endpoint: Endpoint,
    tls: TlsConnector,
}

impl Server {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self> {
        let tls = TlsConnector::from(Arc::new(endpoint.tls()?));
        Ok(Self { endpoint, tls })
    }

    /// A connection that reads so many bytes at once.
    pub(super) async fn connect(&self, buffer: usize) -> Result<Connection> {
        let socket =
            TcpStream::connect(&self.endpoint.address).await.context("the server does not take a connection")?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.endpoint.host().to_owned())?;
        let stream = self.tls.connect(name, socket).await.context("no TLS with the server")?;
        Ok(Connection { stream, buffer: vec![0; buffer].into(), read: 0, filled: 0 })
    }

    /// The request for something; `more` are whole lines of its head.
    pub(super) fn get(&self, target: &str, more: &str) -> Vec<u8> {
        format!("{}{more}\r\n", self.head("GET", target)).into_bytes()
    }

    /// The request that deletes something.
    pub(super) fn delete(&self, target: &str) -> Vec<u8> {
        format!("{}Accept: application/json\r\n\r\n", self.head("DELETE", target)).into_bytes()
    }

    /// The request that creates something of a body in JSON.
    pub(super) fn post(&self, target: &str, body: &str) -> Vec<u8> {
        self.write("POST", target, "application/json", body)
    }

    /// The request that merges a body in JSON into something.
    pub(super) fn merge(&self, target: &str, body: &str) -> Vec<u8> {
        self.write("PATCH", target, "application/merge-patch+json", body)
    }

    /// The same, by the rules of the kind.
    pub(super) fn strategic(&self, target: &str, body: &str) -> Vec<u8> {
        self.write("PATCH", target, "application/strategic-merge-patch+json", body)
    }

    /// The request that applies a body in JSON.
    pub(super) fn apply(&self, target: &str, body: &str) -> Vec<u8> {
        self.write("PATCH", target, "application/apply-patch+yaml", body)
    }

    fn write(&self, method: &str, target: &str, media: &str, body: &str) -> Vec<u8> {
        let (head, length) = (self.head(method, target), body.len());
        let accept = "application/json";
        format!("{head}Accept: {accept}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }

    fn head(&self, method: &str, target: &str) -> String {
        let Endpoint { address, token, .. } = &self.endpoint;
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nUser-Agent: bench\r\n"
        )
    }
}

pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Box<[u8]>,
    /// What of the buffer came from the server and was not looked at yet.
    read: usize,
    filled: usize,
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) gzip: bool,
    pub(super) rest: Rest,
}

/// What is still to come of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// Of the body, or of the chunk that is being read.
    left: usize,
    chunks: Chunks,
}

#[derive(Debug, PartialEq, Eq)]
enum Chunks {
    /// The body is one piece.
    None,
    /// The first is still to come.
    First,
    /// There may be more.
    More,
    /// The last has been read.
    Ended,
}

impl Connection {
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await?;
        Ok(self.stream.flush().await?)
    }

    /// Sends a request and reads its answer to the end, which has to have this status.
    pub(super) async fn done(&mut self, request: &[u8], status: u16) -> Result<()> {
        self.send(request).await?;
        let mut head = self.head().await?;
        if head.status == status {
            while self.piece(&mut head.rest).await?.is_some() {}
            return Ok(());
        }
        let said = self.rest(head.rest).await?;
        bail!("the server answered {} instead of {status}: {}", head.status, String::from_utf8_lossy(&said))
    }

    /// The same, for who wants to know what the server answers.
    pub(super) async fn answer(&mut self, request: &[u8], status: u16) -> Result<Vec<u8>> {
        let (got, said) = self.asked(request).await?;
        ensure!(got == status, "the server answered {got} instead of {status}: {}", String::from_utf8_lossy(&said));
        Ok(said)
    }

    /// The same, whatever the status is.
    pub(super) async fn asked(&mut self, request: &[u8]) -> Result<(u16, Vec<u8>)> {
        self.send(request).await?;
        let head = self.head().await?;
        Ok((head.status, self.rest(head.rest).await?))
    }

    async fn rest(&mut self, mut rest: Rest) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut rest).await? {
            body.extend_from_slice(piece);
        }
        Ok(body)
    }

    /// Reads the head of the next answer.
    pub(super) async fn head(&mut self) -> Result<Head> {
        loop {
            let unread = &self.buffer[self.read..self.filled];
            if let Some(end) = memchr::memmem::find(unread, b"\r\n\r\n") {
                let head = Head::parse(&unread[..end]);
                self.read += end + 4;
                return head;
            }
            self.fill().await?;
        }
    }

    /// The next bytes of a body, as many as have come; none at its end.
    pub(super) async fn piece(&mut self, rest: &mut Rest) -> Result<Option<&[u8]>> {
        if rest.left == 0 && !self.next_chunk(rest).await? {
            return Ok(None);
        }
        if self.read == self.filled {
            self.fill().await?;
        }
        let piece = self.read..self.filled.min(self.read + rest.left);
        self.read = piece.end;
        rest.left -= piece.len();
        Ok(Some(&self.buffer[piece]))
    }

    /// Goes on to the next chunk, if there is one.
    async fn next_chunk(&mut self, rest: &mut Rest) -> Result<bool> {
        match rest.chunks {
            Chunks::None | Chunks::Ended => return Ok(false),
            Chunks::First => {}
            Chunks::More => ensure!(self.line().await?.is_empty(), "a chunk is longer than it says"),
        }
        let line = self.line().await?;
        rest.left = chunk_size(&self.buffer[line])?;
        rest.chunks = Chunks::More;
        if rest.left == 0 {
            ensure!(self.line().await?.is_empty(), "there are trailers after a body");
            rest.chunks = Chunks::Ended;
        }
        Ok(rest.left > 0)
    }

    /// Where the next line is in the buffer, without its end.
    async fn line(&mut self) -> Result<Range<usize>> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.read..self.filled]) {
                let start = self.read;
                self.read += length + 1;
                return Ok(start..(start + length).saturating_sub(1).max(start));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<()> {
        if self.read > 0 {
            self.buffer.copy_within(self.read..self.filled, 0);
            self.filled -= self.read;
            self.read = 0;
        }
        ensure!(self.filled < self.buffer.len(), "a line of an answer is longer than {} bytes", self.filled);
        match self.stream.read(&mut self.buffer[self.filled..]).await? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }
}

impl Head {
    fn parse(text: &[u8]) -> Result<Self> {
        let text = from_utf8(text).context("the head of an answer is not text")?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let status = status.with_context(|| format!("not the head of an answer: {first}"))?;
        let mut head = Self { status, gzip: false, rest: Rest { left: 0, chunks: Chunks::None } };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let (name, value) = (name.trim(), value.trim());
            if name.eq_ignore_ascii_case("content-length") {
                head.rest.left = value.parse().with_context(|| format!("not a length: {value}"))?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                ensure!(value.eq_ignore_ascii_case("chunked"), "transfer encoding {value}");
                head.rest.chunks = Chunks::First;
            } else if name.eq_ignore_ascii_case("content-encoding") {
                head.gzip = value.eq_ignore_ascii_case("gzip");
            } else if name.eq_ignore_ascii_case("connection") {
                ensure!(!value.eq_ignore_ascii_case("close"), "the server closes the connection: {first}");
            }
        }
        Ok(head)
    }
}

fn chunk_size(line: &[u8]) -> Result<usize> {
    let line = from_utf8(line)?;
    let digits = line.split(';').next().unwrap_or_default().trim();
    usize::from_str_radix(digits, 16).with_context(|| format!("not the size of a chunk: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Result<Head> {
        Head::parse(head.as_bytes())
    }

    #[test]
    fn the_end_of_a_body_is_found_by_its_length_or_its_chunks() {
        let head = parse("HTTP/1.1 201 Created\r\ncontent-length: 12\r\nX: y").unwrap();
        assert_eq!(head, Head { status: 201, gzip: false, rest: Rest { left: 12, chunks: Chunks::None } });
        let head = parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip").unwrap();
        assert_eq!(head, Head { status: 200, gzip: true, rest: Rest { left: 0, chunks: Chunks::First } });
    }

    #[test]
    fn a_connection_that_ends_is_a_failure() {
        assert!(parse("HTTP/1.1 429 Too Many Requests\r\nConnection: close").is_err());
        assert!(parse("HTTP/1.0 200 OK").is_err());
    }

    #[test]
    fn the_size_of_a_chunk_is_hexadecimal() {
        assert_eq!(chunk_size(b"1a;name=value").unwrap(), 26);
        assert!(chunk_size(b"x").is_err());
    }
}
