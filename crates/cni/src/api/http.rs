//! One request and its answer in HTTP/1.1, over anything that can be written to and read from. Pure but for that: it knows neither
//! sockets nor Kubernetes.

use std::io::{self, BufRead, ErrorKind, Read, Write};

/// The head of an answer has at most this many bytes.
const LONGEST_HEAD: u64 = 64 << 10;
/// The body of an answer has at most this many bytes; no object of Kubernetes is larger than three million.
const LONGEST_BODY: u64 = 32 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// The path with its query.
    pub(crate) path: &'a str,
    /// The type of the body; there is none if this is empty.
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
    /// Whether nobody reads what the object became: then the answer may be without it.
    pub(crate) is_brief: bool,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Whether the connection can be used again.
    pub(crate) is_kept: bool,
}

const WHOLE: &str = "application/json";
const BRIEF: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Writes a request; `token` is who asks, if that is said so.
pub(crate) fn write(to: &mut impl Write, host: &str, token: Option<&str>, request: Request<'_>) -> io::Result<()> {
    let Request { method, path, content_type, body, is_brief } = request;
    let accept = if is_brief { BRIEF } else { WHOLE };
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: cadastre-cni/{}\r\nAccept: {accept}\r\n",
        env!("CARGO_PKG_VERSION")
    );
    if let Some(token) = token {
        head.push_str("Authorization: Bearer ");
        head.push_str(token);
        head.push_str("\r\n");
    }
    if !content_type.is_empty() {
        head = format!("{head}Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    // In one piece: a small request is one packet then.
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads an answer.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    loop {
        let reply = read_one(from)?;
        // Answers below 200 come before the answer.
        if reply.status >= 200 {
            return Ok(reply);
        }
    }
}

fn read_one(from: &mut impl BufRead) -> io::Result<Reply> {
    let mut head = from.by_ref().take(LONGEST_HEAD);
    let first = line(&mut head)?;
    let rest = first.strip_prefix("HTTP/1.").ok_or_else(|| bad("not HTTP/1.1"))?;
    let status: u16 = rest.get(2..5).and_then(|digits| digits.parse().ok()).ok_or_else(|| bad("no status"))?;
    let (mut length, mut chunked, mut is_kept) = (None, false, rest.starts_with('1'));
    loop {
        let header = line(&mut head)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').ok_or_else(|| bad("a header without a value"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse::<u64>().map_err(|_| bad("no length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with("chunked");
        } else if name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
            is_kept = false;
        }
    }
    let mut body = Vec::new();
    if status < 200 || status == 204 || status == 304 {
        return Ok(Reply { status, body, is_kept });
    }
    match length {
        _ if chunked => chunks(from, &mut body)?,
        Some(length) => exactly(from, length, &mut body)?,
        None => {
            is_kept = false;
            from.take(LONGEST_BODY).read_to_end(&mut body)?;
        }
    }
    Ok(Reply { status, body, is_kept })
}

fn chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = line(&mut from.by_ref().take(LONGEST_HEAD))?;
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).map_err(|_| bad("no size of a chunk"))?;
        if size == 0 {
            // What may follow is of no interest, up to the empty line.
            while !line(&mut from.by_ref().take(LONGEST_HEAD))?.is_empty() {}
            return Ok(());
        }
        exactly(from, size, body)?;
        line(&mut from.by_ref().take(LONGEST_HEAD))?;
    }
}

fn exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length > LONGEST_BODY - body.len() as u64 {
        return Err(bad("an answer that is too long"));
    }
    let read = from.take(length).read_to_end(body)?;
    if (read as u64) < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// A line without its end.
fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(if bytes.is_empty() { ErrorKind::UnexpectedEof.into() } else { bad("a line without an end") });
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| bad("a head that is no text"))
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> io::Result<Reply> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        for (text, status, body, is_kept) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhim", 200, "hi", true),
            ("HTTP/1.1 404 Not Found\r\ncontent-length:0\r\nConnection: close\r\n\r\n", 404, "", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n",
                200,
                "abcde",
                true,
            ),
            ("HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", 201, "x", true),
        ] {
            assert_eq!(reply(text).unwrap(), Reply { status, body: body.into(), is_kept }, "{text:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_no_answer_is_an_error_wherever_it_is_cut() {
        for whole in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            assert!(reply(whole).is_ok());
            for cut in 0..whole.len() {
                assert!(reply(&whole[..cut]).is_err(), "{cut}");
            }
        }
        let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", LONGEST_BODY + 1);
        for text in ["SSH-2.0\r\n\r\n", "HTTP/1.1 x\r\n\r\n", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", large.as_str()] {
            assert_eq!(reply(text).unwrap_err().kind(), ErrorKind::InvalidData, "{text}");
        }
        let endless = "HTTP/1.1 200 OK\r\n".to_owned() + &"A: b\r\n".repeat(20_000);
        assert!(reply(&endless).is_err());
    }

    #[test]
    fn a_request_says_what_it_has_to() {
        let mut bytes = Vec::new();
        let request = Request { method: "PATCH", path: "/a", content_type: "t", body: b"[]", is_brief: true };
        write(&mut bytes, "h:1", Some("s"), request).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("PATCH /a HTTP/1.1\r\nHost: h:1\r\n"), "{text}");
        assert!(text.contains("PartialObjectMetadata") && text.contains("Authorization: Bearer s\r\n"), "{text}");
        assert!(text.ends_with("Content-Type: t\r\nContent-Length: 2\r\n\r\n[]"), "{text}");
    }
}
