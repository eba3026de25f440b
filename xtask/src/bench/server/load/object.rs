//! The object that is written: a `ConfigMap` of about a kilobyte, as the bytes of the request that creates it.
//!
//! The request is made once; its name, its stamp and its text are then written over in place.

use std::ops::Range;

use super::connection::Server;

/// As many digits as any number has.
const DIGITS: usize = 20;
/// What makes the body about 1,024 bytes long.
const TEXT: usize = 880;
/// More than one object has, so that no two neighbours are the same and a compressor has work to do.
const POOL: usize = 1 << 16;
/// What the text is made of.
const WORDS: &str = "address range server timeout=30s level=info 10.96.0.1 node-17 true retry cluster.local port=8443 \
                     enabled max 0x7f pool lease";

/// What the stamp is found by in an object that comes back. Nothing else in it has this key.
pub(super) const STAMP: &[u8] = b"\"sent\":\"";

/// The request that creates an object.
pub(super) struct Create {
    request: Vec<u8>,
    name: Range<usize>,
    stamp: Range<usize>,
    text: Range<usize>,
    pool: Vec<u8>,
}

impl Create {
    pub(super) fn new(server: &Server, namespace: &str) -> Self {
        let (zeros, text) = ("0".repeat(DIGITS), "-".repeat(TEXT));
        let body = format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"c-{zeros}\"}},\
             \"data\":{{\"sent\":\"{zeros}\",\"text\":\"{text}\"}}}}"
        );
        let request = server.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &body);
        Self {
            name: after(&request, b"\"name\":\"c-", DIGITS),
            stamp: after(&request, STAMP, DIGITS),
            text: after(&request, b"\"text\":\"", TEXT),
            pool: pool(),
            request,
        }
    }

    /// The request for the object of that number, which was sent then.
    pub(super) fn request(&mut self, number: u64, stamp: u64) -> &[u8] {
        put(&mut self.request[self.name.clone()], number);
        put(&mut self.request[self.stamp.clone()], stamp);
        let from = number.wrapping_mul(7919) as usize % (POOL - TEXT);
        self.request[self.text.clone()].copy_from_slice(&self.pool[from..from + TEXT]);
        &self.request
    }
}

/// The stamp in an event about an object.
pub(super) fn stamp(event: &[u8]) -> Option<u64> {
    let from = memchr::memmem::find(event, STAMP)? + STAMP.len();
    let digits = event.get(from..from + DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the value is that comes after the mark. The mark is in the request, because we wrote it.
fn after(request: &[u8], mark: &[u8], length: usize) -> Range<usize> {
    let from = memchr::memmem::find(request, mark).map_or(0, |at| at + mark.len());
    from..from + length
}

fn put(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Words in an order that is always the same.
fn pool() -> Vec<u8> {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let (mut pool, mut state) = (Vec::with_capacity(POOL + 16), 0x9E37_79B9_7F4A_7C15_u64);
    while pool.len() < POOL {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        pool.extend_from_slice(words[(state >> 32) as usize % words.len()].as_bytes());
        pool.push(b' ');
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::https::Endpoint;

    fn server(scratch: &tempfile::TempDir) -> Server {
        let authority = scratch.path().join("ca.crt");
        std::fs::write(&authority, "").unwrap();
        Server::new(Endpoint { address: "127.0.0.1:1".to_owned(), authority, token: "t".to_owned() }).unwrap()
    }

    #[test]
    fn the_object_is_valid_has_a_kilobyte_and_changes_its_name_stamp_and_text() {
        let scratch = tempfile::tempdir().unwrap();
        let mut create = Create::new(&server(&scratch), "bench");
        let body = |request: &[u8]| -> serde_json::Value {
            let text = std::str::from_utf8(request).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /api/v1/namespaces/bench/configmaps HTTP/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
            assert!((1000..1050).contains(&body.len()), "{}", body.len());
            serde_json::from_str(body).unwrap()
        };
        let (one, other) = (body(create.request(1, 77)), body(create.request(u64::MAX, 78)));
        assert_eq!(one["metadata"]["name"], "c-00000000000000000001");
        assert_eq!(other["metadata"]["name"], format!("c-{}", u64::MAX));
        assert_ne!(one["data"]["text"], other["data"]["text"]);
        assert_eq!(stamp(other.to_string().as_bytes()), Some(78));
    }

    #[test]
    fn an_event_without_a_stamp_has_none() {
        assert_eq!(stamp(b"{\"type\":\"ERROR\"}"), None);
        assert_eq!(stamp(b"{\"sent\":\"12"), None);
    }
}
