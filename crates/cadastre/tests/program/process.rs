//! Runs the program and talks to it as its administrator.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use server::access::kubeconfig::Kubeconfig;
use server::access::pki::certificates;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cadastre"))
}

/// Runs a command to its end.
pub(crate) fn cadastre(arguments: &[&str]) -> Outcome {
    let output = program().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A server that is ready. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    data_dir: PathBuf,
    log: Receiver<String>,
    /// Where it is, as it said.
    pub(crate) server: String,
    /// What it said to try.
    pub(crate) advice: [String; 2],
}

impl Running {
    pub(crate) fn start(data_dir: &Path, flags: &[&str]) -> Self {
        let mut child = program()
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = log_of(&mut child);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap_or_default();
        let server = first.strip_prefix("cadastre is ready on ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
        let advice = [lines.next().unwrap(), lines.next().unwrap()];
        Self { child, data_dir: data_dir.to_owned(), log, server, advice }
    }

    /// Ends it as an operator does, and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal();
        self.child.wait().unwrap().code()
    }

    /// Tells it to end.
    pub(crate) fn signal(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits until the log says this.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_for(&self.log, text);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The code and body of an answer to the administrator.
    pub(crate) fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        answer(&self.kubeconfig(), true, request.body(Full::from(body)).unwrap())
    }

    /// The same for somebody who has a token and no certificate.
    pub(crate) fn ask_with_token(&self, token: &str, method: Method, path: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        answer(&self.kubeconfig(), false, request.body(Full::default()).unwrap())
    }

    /// What is at a path that has plain text.
    pub(crate) fn text(&self, path: &str) -> String {
        let request = Request::builder().uri(path).body(Full::default()).unwrap();
        let (code, body) = answer_bytes(&self.kubeconfig(), true, request);
        assert_eq!(code, 200);
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// Begins a watch, and reads it to its end elsewhere.
    pub(crate) fn watch(&self, path: &str) -> JoinHandle<hyper::Result<()>> {
        let request = Request::builder().uri(path).body(Full::default()).unwrap();
        let runtime = runtime();
        let response = runtime.block_on(send(&self.kubeconfig(), true, request));
        assert_eq!(response.status(), 200);
        std::thread::spawn(move || runtime.block_on(response.into_body().collect()).map(drop))
    }

    /// Sends a request whose body never comes. It is on its way as long as what is returned is kept.
    pub(crate) fn send_half(&self, path: &str) -> impl Sized + use<> {
        let runtime = runtime();
        let kubeconfig = self.kubeconfig();
        let stream = runtime.block_on(async {
            let mut stream = connect(&kubeconfig, true).await;
            let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // The server asks for the body: so it has the request.
            stream.read_u8().await.unwrap();
            stream
        });
        (runtime, stream)
    }

    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::read(&self.data_dir.join("kubeconfig")).unwrap().unwrap()
    }
}

/// A controller that runs. It is killed when this is dropped.
pub(crate) struct Controller {
    child: Child,
    log: Receiver<String>,
}

impl Controller {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut child = program().args(["controller", "node"]).args(flags).stderr(Stdio::piped()).spawn().unwrap();
        let log = log_of(&mut child);
        Self { child, log }
    }

    /// Waits until the log says this, and gives the line.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        wait_for(&self.log, text)
    }

    /// Ends it as an operator does, and gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The lines that a program writes to its log. They are read all the time, or the program would wait for us to do so.
fn log_of(child: &mut Child) -> Receiver<String> {
    let (sender, log) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            eprintln!("{line}");
            drop(sender.send(line));
        }
    });
    log
}

fn wait_for(log: &Receiver<String>, text: &str) -> String {
    std::iter::from_fn(|| log.recv().ok()).find(|line| line.contains(text)).unwrap()
}

/// The code and the text of an answer in plain HTTP.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    runtime().block_on(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, address).body(Full::<Bytes>::default()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn answer(kubeconfig: &Kubeconfig, as_administrator: bool, request: Request<Full<Bytes>>) -> (u16, Value) {
    let (code, body) = answer_bytes(kubeconfig, as_administrator, request);
    (code, serde_json::from_slice(&body).unwrap())
}

fn answer_bytes(kubeconfig: &Kubeconfig, as_administrator: bool, request: Request<Full<Bytes>>) -> (u16, Bytes) {
    runtime().block_on(async {
        let response = send(kubeconfig, as_administrator, request).await;
        let code = response.status().as_u16();
        (code, response.into_body().collect().await.unwrap().to_bytes())
    })
}

async fn send(
    kubeconfig: &Kubeconfig,
    as_administrator: bool,
    mut request: Request<Full<Bytes>>,
) -> http::Response<Incoming> {
    let stream = connect(kubeconfig, as_administrator).await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    request.headers_mut().insert(header::HOST, address(kubeconfig).parse().unwrap());
    sender.send_request(request).await.unwrap()
}

fn address(kubeconfig: &Kubeconfig) -> &str {
    kubeconfig.server.strip_prefix("https://").unwrap()
}

async fn connect(kubeconfig: &Kubeconfig, as_administrator: bool) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&kubeconfig.authority).unwrap() {
        roots.add(certificate).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if as_administrator {
        let identity = &kubeconfig.identity;
        builder.with_client_auth_cert(identity.chain().unwrap(), identity.private_key().unwrap()).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let socket = TcpStream::connect(address(kubeconfig)).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), socket).await.unwrap()
}
