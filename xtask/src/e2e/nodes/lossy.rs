//! A proxy that loses writes: of the patches of nodes that come through it, some are made and their answers dropped, some are dropped
//! before they are made, and the rest pass. Everything else passes, watches as they come.
//!
//! Clients speak plain HTTP to it, so that it sees what is asked; it speaks TLS to the server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::https::Endpoint;

/// What becomes of the patches of nodes, again and again in this order.
const FATES: [Fate; 7] =
    [Fate::Unheard, Fate::Passed, Fate::Lost, Fate::Unheard, Fate::Passed, Fate::Unheard, Fate::Lost];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passed,
    /// It is made, and nobody hears of it.
    Unheard,
    /// It is not made.
    Lost,
}

/// See the module. Dropping it ends it.
pub(super) struct Lossy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: Endpoint,
    tls: Arc<rustls::ClientConfig>,
    patches: AtomicU64,
    unheard: AtomicU64,
    lost: AtomicU64,
    honest: AtomicBool,
    ended: AtomicBool,
}

type Server = BufReader<StreamOwned<ClientConnection, TcpStream>>;

impl Lossy {
    /// A proxy of that server.
    pub(super) fn to(server: Endpoint) -> Result<Self> {
        let tls = Arc::new(server.tls()?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let zero = || AtomicU64::new(0);
        let (honest, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Shared { to: server, tls, patches: zero(), unheard: zero(), lost: zero(), honest, ended };
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let carrying = Arc::clone(&accepting);
                if let Ok(client) = client {
                    // A connection that breaks is what this is for.
                    thread::spawn(move || drop(carrying.carry(&client)));
                }
            }
        });
        Ok(Self { address, shared })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Loses nothing from now on.
    pub(super) fn be_honest(&self) {
        self.shared.honest.store(true, Ordering::Relaxed);
    }

    /// How many writes were made and not answered, and how many were not made.
    pub(super) fn losses(&self) -> (u64, u64) {
        (self.shared.unheard.load(Ordering::Relaxed), self.shared.lost.load(Ordering::Relaxed))
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Whoever accepts looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    /// Carries requests one after the other until one side ends or a write is to be lost.
    fn carry(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut from = BufReader::new(client.try_clone()?);
        let mut server = None;
        loop {
            let Some(request) = Message::read(&mut from)? else { return Ok(()) };
            let mut body = vec![0; request.length.unwrap_or(0)];
            from.read_exact(&mut body)?;
            let fate = self.fate(&request);
            if fate == Fate::Lost {
                return Ok(());
            }
            let server = match &mut server {
                Some(server) => server,
                none => none.insert(self.connect()?),
            };
            server.get_mut().write_all(&[request.head.as_bytes(), &body].concat())?;
            server.get_mut().flush()?;
            let Some(answer) = Message::read(server)? else { return Ok(()) };
            let mut to = Sink { client: (fate == Fate::Passed).then_some(client) };
            to.write_all(answer.head.as_bytes())?;
            answer.pass_body(server, &mut to)?;
            if fate == Fate::Unheard {
                return Ok(());
            }
        }
    }

    fn fate(&self, request: &Message) -> Fate {
        let is_patch = request.head.starts_with("PATCH /api/v1/nodes/");
        if !is_patch || self.honest.load(Ordering::Relaxed) {
            return Fate::Passed;
        }
        let number = self.patches.fetch_add(1, Ordering::Relaxed);
        let fate = FATES[number as usize % FATES.len()];
        match fate {
            Fate::Passed => {}
            Fate::Unheard => drop(self.unheard.fetch_add(1, Ordering::Relaxed)),
            Fate::Lost => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
        }
        fate
    }

    fn connect(&self) -> io::Result<Server> {
        let socket = TcpStream::connect(&self.to.address)?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.to.host().to_owned()).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        Ok(BufReader::new(StreamOwned::new(tls, socket)))
    }
}

/// Where an answer goes: to the client, or nowhere.
struct Sink<'a> {
    client: Option<&'a TcpStream>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.client {
            Some(client) => client.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The head of a request or of an answer, as it is, and how long its body is.
struct Message {
    head: String,
    length: Option<usize>,
    chunked: bool,
}

impl Message {
    /// The next one; none if there is none any more.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut message = Self { head: String::new(), length: None, chunked: false };
        loop {
            let begins = message.head.len();
            if from.read_line(&mut message.head)? == 0 {
                return if begins == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            let line = message.head[begins..].trim_end().to_ascii_lowercase();
            match line.split_once(':') {
                None if line.is_empty() => return Ok(Some(message)),
                Some(("content-length", value)) => message.length = value.trim().parse().ok(),
                Some(("transfer-encoding", value)) => message.chunked = value.trim() == "chunked",
                _ => {}
            }
        }
    }

    /// Passes the body on, a chunk as soon as it is there.
    fn pass_body(&self, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
        if !self.chunked {
            let length = self.length.unwrap_or(0) as u64;
            return io::copy(&mut from.take(length), to).map(drop);
        }
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
            let mut chunk = line.into_bytes();
            let begins = chunk.len();
            // The line that ends the chunk, and after the last one the body.
            chunk.resize(begins + size + 2, 0);
            from.read_exact(&mut chunk[begins..])?;
            to.write_all(&chunk)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(answer: &str) -> io::Result<(String, String)> {
        let mut from = answer.as_bytes();
        let message = Message::read(&mut from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut to = message.head.clone().into_bytes();
        message.pass_body(&mut from, &mut to)?;
        Ok((String::from_utf8_lossy(&to).into_owned(), String::from_utf8_lossy(from).into_owned()))
    }

    #[test]
    fn a_message_passes_as_it_is_and_no_more_than_it() {
        for whole in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            assert_eq!(passed(&format!("{whole}HTTP/1.1 ")).unwrap(), (whole.to_owned(), "HTTP/1.1 ".to_owned()));
        }
        assert!(passed("HTTP/1.1 200 OK\r\nContent-Le").is_err());
        assert!(passed("").is_err());
    }
}
