//! The objects that are written, as the bytes of the requests that create and delete them.
//!
//! A request is made once; its name, and the stamp and the text of a `ConfigMap` of about a kilobyte, are then written over in
//! place.

use std::ops::Range;

use serde::{Deserialize, Serialize};

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

/// What every name begins with. Nothing else in a request has this.
const NAME: &str = "bench-object-";
/// What the stamp is found by in an object that comes back. Nothing else in it has this key.
pub(super) const STAMP: &[u8] = b"\"sent\":\"";

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sort {
    /// Of about a kilobyte.
    ConfigMap,
    /// A Service with an address.
    ClusterIp,
    /// A Service with an address and a port of all nodes.
    NodePort,
}

impl Sort {
    /// Where objects of this sort are.
    fn path(self, namespace: &str) -> String {
        let resource = if self == Self::ConfigMap { "configmaps" } else { "services" };
        format!("/api/v1/namespaces/{namespace}/{resource}")
    }

    /// The object whose name is all zeros.
    fn body(self) -> String {
        let zeros = zeros();
        let service = |kind: &str| {
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{{\"name\":\"{NAME}{zeros}\"}},\"spec\":{{\"type\":\
                 \"{kind}\",\"selector\":{{\"app\":\"web\"}},\"ports\":[{{\"port\":80,\"targetPort\":8080}}]}}}}"
            )
        };
        match self {
            Self::ConfigMap => format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{NAME}{zeros}\"}},\
                 \"data\":{{\"sent\":\"{zeros}\",\"text\":\"{}\"}}}}",
                "-".repeat(TEXT)
            ),
            Self::ClusterIp => service("ClusterIP"),
            Self::NodePort => service("NodePort"),
        }
    }
}

/// The request that creates an object.
pub(super) struct Create {
    request: Vec<u8>,
    name: Range<usize>,
    stamp: Range<usize>,
    text: Range<usize>,
    pool: Vec<u8>,
}

impl Create {
    pub(super) fn new(server: &Server, namespace: &str, sort: Sort) -> Self {
        let request = server.post(&sort.path(namespace), &sort.body());
        Self {
            name: after(&request, NAME.as_bytes(), DIGITS),
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
        let text = self.text.clone();
        let words = from..from + text.len();
        self.request[text].copy_from_slice(&self.pool[words]);
        &self.request
    }
}

/// The request that deletes an object.
pub(super) struct Delete {
    request: Vec<u8>,
    name: Range<usize>,
}

impl Delete {
    pub(super) fn new(server: &Server, namespace: &str, sort: Sort) -> Self {
        let request = server.delete(&format!("{}/{NAME}{}", sort.path(namespace), zeros()));
        Self { name: after(&request, NAME.as_bytes(), DIGITS), request }
    }

    /// The request for the object of that number.
    pub(super) fn request(&mut self, number: u64) -> &[u8] {
        put(&mut self.request[self.name.clone()], number);
        &self.request
    }
}

fn zeros() -> String {
    "0".repeat(DIGITS)
}

/// The stamp in an event about an object.
pub(super) fn stamp(event: &[u8]) -> Option<u64> {
    let from = memchr::memmem::find(event, STAMP)? + STAMP.len();
    let digits = event.get(from..from + DIGITS)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the value is that comes after the mark. What has no such mark has no such value.
fn after(request: &[u8], mark: &[u8], length: usize) -> Range<usize> {
    memchr::memmem::find(request, mark).map_or(0..0, |at| at + mark.len()..at + mark.len() + length)
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

    /// The body of a request, whose head is right for it.
    fn body(request: &[u8], first: &str) -> serde_json::Value {
        let text = std::str::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(first), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn the_object_is_valid_has_a_kilobyte_and_changes_its_name_stamp_and_text() {
        let scratch = tempfile::tempdir().unwrap();
        let mut create = Create::new(&server(&scratch), "bench", Sort::ConfigMap);
        let first = "POST /api/v1/namespaces/bench/configmaps HTTP/1.1\r\n";
        let (one, other) = (body(create.request(1, 77), first), body(create.request(u64::MAX, 78), first));
        assert!((1000..1050).contains(&one.to_string().len()));
        assert_eq!(one["metadata"]["name"], format!("{NAME}00000000000000000001"));
        assert_eq!(other["metadata"]["name"], format!("{NAME}{}", u64::MAX));
        assert_ne!(one["data"]["text"], other["data"]["text"]);
        assert_eq!(stamp(other.to_string().as_bytes()), Some(78));
    }

    #[test]
    fn a_service_is_of_its_sort_and_is_deleted_by_the_name_that_it_was_created_with() {
        let scratch = tempfile::tempdir().unwrap();
        for (sort, kind) in [(Sort::ClusterIp, "ClusterIP"), (Sort::NodePort, "NodePort")] {
            let mut create = Create::new(&server(&scratch), "bench", sort);
            let service = body(create.request(7, 0), "POST /api/v1/namespaces/bench/services HTTP/1.1\r\n");
            assert_eq!((&service["kind"], &service["spec"]["type"]), (&"Service".into(), &kind.into()));
            let mut delete = Delete::new(&server(&scratch), "bench", sort);
            let deleted = std::str::from_utf8(delete.request(7)).unwrap();
            let name = service["metadata"]["name"].as_str().unwrap();
            assert!(
                deleted.starts_with(&format!("DELETE /api/v1/namespaces/bench/services/{name} HTTP/1.1\r\n")),
                "{deleted}"
            );
        }
    }

    #[test]
    fn an_event_without_a_stamp_has_none() {
        assert_eq!(stamp(b"{\"type\":\"ERROR\"}"), None);
        assert_eq!(stamp(b"{\"sent\":\"12"), None);
    }
}
