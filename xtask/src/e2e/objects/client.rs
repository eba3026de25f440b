//! One request, one answer, one connection: as little HTTP as it takes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use crate::https::Endpoint;

/// A server that says nothing for this long has failed.
const SILENCE: Duration = Duration::from_secs(30);

/// A server to ask.
pub(super) struct Client {
    endpoint: Endpoint,
    tls: Arc<ClientConfig>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) body: Value,
}

impl Client {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self> {
        let tls = Arc::new(endpoint.tls()?);
        Ok(Self { endpoint, tls })
    }

    /// Sends an object to be created.
    pub(super) fn post(&self, path: &str, object: &Value) -> Result<Answer> {
        let socket = TcpStream::connect(&self.endpoint.address).context("nobody listens")?;
        socket.set_read_timeout(Some(SILENCE))?;
        let name = ServerName::try_from(self.endpoint.host().to_owned())?;
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name)?, socket);
        let body = object.to_string();
        // In this version the answer is not in pieces, and its end is that of the connection.
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             User-Agent: objects\r\nContent-Length: {}\r\n\r\n{body}",
            self.endpoint.address,
            self.endpoint.token,
            body.len()
        )?;
        stream.flush()?;
        let mut bytes = Vec::new();
        if let Err(error) = stream.read_to_end(&mut bytes)
            && error.kind() != std::io::ErrorKind::UnexpectedEof
        {
            return Err(error).context("the answer broke off");
        }
        read(&String::from_utf8_lossy(&bytes))
    }
}

fn read(text: &str) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("the answer has no status")?;
    let warnings = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("warning").then(|| value.trim().to_owned())
    });
    let body = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
    Ok(Answer { code: status.parse()?, warnings: warnings.collect(), body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_code_its_warnings_and_its_body() {
        let text = "HTTP/1.0 201 Created\r\nwarning: 299 - \"a\"\r\nWarning: 299 - \"b\"\r\nX: y\r\n\r\n{\"a\":1}";
        let answer = read(text).unwrap();
        assert_eq!((answer.code, answer.body["a"].as_i64()), (201, Some(1)));
        assert_eq!(answer.warnings, ["299 - \"a\"", "299 - \"b\""]);
        assert!(read("nonsense").is_err());
    }
}
