//! One plain HTTP request to loopback, for the health and the figures that a part serves without TLS.

use std::io::{self, Read, Write};
use std::time::Duration;

use super::ports;

/// Longer than any answer that is asked for here takes; a part that hangs is one that is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came back for a GET: the status and the body.
pub(super) fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let mut stream = ports::connect(port)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Version 1.0 has no chunks: the body ends where the connection does.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parsed(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
}

fn parsed(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_is_its_status_and_body() {
        let ok = "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\nnot\r\n\r\nyet";
        assert_eq!(parsed(ok), Some((503, "not\r\n\r\nyet".to_owned())));
        assert_eq!(parsed("SSH-2.0\r\n\r\n"), None);
        assert_eq!(parsed("HTTP/1.1 200 OK\r\n"), None);
    }

    #[test]
    fn the_path_is_asked_for_and_the_body_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request: Vec<_> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhealthy").unwrap();
            request
        });
        assert_eq!(get(port, "/readyz").unwrap(), (200, "healthy".to_owned()));
        assert_eq!(server.join().unwrap()[0], "GET /readyz HTTP/1.0");
    }
}
