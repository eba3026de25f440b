//! The API server, as the plugin reaches it: one request after the other, and each answered or given up in time.
//!
//! First through the agent, which has a warm connection and serves a socket in the state directory; if that is not there, hangs or has
//! no connection itself, over a connection of our own, as the kubeconfig says. Every request here can be sent twice without harm, so
//! whatever was lost is sent again.
//!
//! - `http`: requests and answers;
//! - `kubeconfig`: where and who;
//! - `stream`: connections.

mod http;
mod kubeconfig;
mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::Value;

use self::http::{Reply, Request};
use self::kubeconfig::Kubeconfig;
use self::stream::{Connection, Stream};
use crate::failure::{Code, Failure};

/// The name of the agent's socket in the state directory.
pub const AGENT_SOCKET: &str = "agent.sock";
/// How often a request is sent before it is given up.
const ATTEMPTS: u32 = 6;
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the agent's may.
pub const AGENT_PATIENCE: Duration = Duration::from_secs(3);
/// The first pause between two attempts; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(25);

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads an object, or a list of them.
    Get,
    /// Creates an object in a collection.
    Create,
    /// Changes an object by a JSON patch.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// The method, and the type of what goes with it.
    pub fn of_http(self) -> (&'static str, &'static str) {
        match self {
            Self::Get => ("GET", ""),
            Self::Create => ("POST", "application/json"),
            Self::Patch => ("PATCH", "application/json-patch+json"),
            Self::Delete => ("DELETE", "application/json"),
        }
    }
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// What came with it.
    pub body: Vec<u8>,
}

/// A way to the API server. The plugin has one of its own; the agent has its connection.
pub trait Way {
    /// Sends a request until it is answered, whatever the answer is.
    fn send(&mut self, verb: Verb, path: &str, body: &Value) -> Result<Answer, Failure>;

    /// Whether patches that come together are made as one on this way, so that nobody needs to wait for a turn.
    fn is_combined(&mut self) -> bool {
        false
    }
}

impl<W: Way> Way for &mut W {
    fn send(&mut self, verb: Verb, path: &str, body: &Value) -> Result<Answer, Failure> {
        (**self).send(verb, path, body)
    }

    fn is_combined(&mut self) -> bool {
        (**self).is_combined()
    }
}

/// A way to the API server that is used until `deadline`.
pub(crate) struct Api {
    kubeconfig: Kubeconfig,
    /// The agent's socket, until it turned out not to help.
    agent: Option<PathBuf>,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
    is_ready: bool,
    connection: Option<Connection>,
    deadline: Instant,
}

impl Api {
    /// Reads the kubeconfig, and nothing else yet.
    pub(crate) fn new(kubeconfig: &str, state_dir: &Path, patience: Duration) -> Result<Self, Failure> {
        if kubeconfig.is_empty() {
            let message = "ipam.kubernetes.kubeconfig: missing, and a network without slices needs the API server";
            return Err(Failure::new(Code::Config, message).with(
                "name a kubeconfig, or set \"node_slice_size\" (such as \"/26\") and run `cadastre agent` on the node",
            ));
        }
        Ok(Self {
            kubeconfig: Kubeconfig::read(kubeconfig.as_ref())?,
            agent: Some(state_dir.join(AGENT_SOCKET)),
            tls: None,
            token: None,
            is_ready: false,
            connection: None,
            deadline: Instant::now() + patience,
        })
    }

    /// The namespace that the kubeconfig leads to.
    pub(crate) fn namespace(&self) -> &str {
        &self.kubeconfig.namespace
    }

    fn leave_the_agent(&mut self) {
        self.agent = None;
        self.connection = None;
    }

    /// Sends a request once. What the kubeconfig names and cannot be read is a failure; the rest is the line's.
    fn exchange(&mut self, request: Request<'_>, left: Duration) -> io::Result<Result<Reply, Failure>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.connect(left)? {
                Ok(connection) => connection,
                Err(failure) => return Ok(Err(failure)),
            },
        };
        let is_agent = matches!(connection.get_ref(), Stream::Agent(_));
        connection.get_ref().limit(left.min(if is_agent { AGENT_PATIENCE } else { PATIENCE }))?;
        if is_agent {
            http::write(connection.get_mut(), "agent", None, request)?;
        } else {
            let path = format!("{}{}", self.kubeconfig.prefix, request.path);
            let request = Request { path: &path, ..request };
            http::write(connection.get_mut(), &self.kubeconfig.authority(), self.token.as_deref(), request)?;
        }
        let reply = http::read(&mut connection)?;
        if reply.is_kept {
            self.connection = Some(connection);
        }
        Ok(Ok(reply))
    }

    fn connect(&mut self, left: Duration) -> io::Result<Result<Connection, Failure>> {
        if let Some(connection) = self.reach_agent() {
            return Ok(Ok(connection));
        }
        if !self.is_ready
            && let Err(failure) = self.prepare()
        {
            return Ok(Err(failure));
        }
        let stream = Stream::direct(&self.kubeconfig, self.tls.as_ref(), left)?;
        stream.limit(left.min(PATIENCE))?;
        Ok(Ok(Connection::new(stream)))
    }

    /// A connection to the agent, unless it turned out not to help.
    fn reach_agent(&mut self) -> Option<Connection> {
        let stream = Stream::agent(self.agent.as_ref()?).ok();
        if stream.is_none() {
            self.agent = None;
        }
        stream.map(Connection::new)
    }

    /// Reads what the kubeconfig names.
    fn prepare(&mut self) -> Result<(), Failure> {
        if self.kubeconfig.is_tls {
            self.tls = Some(stream::tls(&self.kubeconfig)?);
        }
        if let Some(token) = &self.kubeconfig.token {
            let token = String::from_utf8_lossy(&token.bytes()?).trim().to_owned();
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Failure::new(Code::Config, "kubeconfig: token: it is no token"));
            }
            self.token = Some(token);
        }
        self.is_ready = true;
        Ok(())
    }
}

impl Way for Api {
    /// Answers that say that the server is too busy, or has a fault, are none.
    fn send(&mut self, verb: Verb, path: &str, body: &Value) -> Result<Answer, Failure> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let (method, content_type) = verb.of_http();
        let request = Request { method, path, content_type, body: &bytes, is_brief: verb != Verb::Get };
        let (mut last, mut pause) = (String::new(), PAUSE);
        for attempt in 0..ATTEMPTS {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let was_new = self.connection.is_none();
            let answered = self.exchange(request, left);
            let was_agent = self.agent.is_some();
            match answered {
                Ok(Err(failure)) => return Err(failure),
                Ok(Ok(reply)) if was_agent && !is_of_the_server(&reply) => {
                    // The agent answers, and not with what the server says: it has no way there, or is another one.
                    last = format!("the agent says {}", reply.status);
                    self.leave_the_agent();
                    continue;
                }
                Ok(Ok(reply)) if reply.status == 429 || reply.status >= 500 => {
                    last = format!("it says {}: {}", reply.status, message(&reply.body));
                }
                Ok(Ok(reply)) => return Ok(Answer { status: reply.status, body: reply.body }),
                Err(error) => {
                    last = error.to_string();
                    self.connection = None;
                    if was_agent {
                        self.leave_the_agent();
                        continue;
                    }
                    if !was_new {
                        // It was closed while nobody used it.
                        continue;
                    }
                }
            }
            if attempt + 1 < ATTEMPTS {
                thread::sleep(pause.min(self.deadline.saturating_duration_since(Instant::now())));
                pause *= 2;
            }
        }
        let message = format!("the API server at {} cannot be reached: {last}", self.kubeconfig.authority());
        Err(Failure::new(Code::TryLater, message)
            .with("a network without slices needs it; one with \"node_slice_size\" does not"))
    }

    /// The agent does that.
    fn is_combined(&mut self) -> bool {
        if self.connection.is_none() {
            self.connection = self.reach_agent();
        }
        self.agent.is_some()
    }
}

/// Whether an answer that came through the agent is the server's: those say what they are when they refuse.
fn is_of_the_server(reply: &Reply) -> bool {
    match reply.status {
        502..=504 => false,
        400.. => serde_json::from_slice::<Value>(&reply.body).is_ok_and(|status| status["kind"] == "Status"),
        _ => true,
    }
}

/// What the server says in words.
pub(crate) fn message(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok();
    let said = said.and_then(|status| status["message"].as_str().map(str::to_owned));
    said.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        text.chars().take(200).collect()
    })
}
