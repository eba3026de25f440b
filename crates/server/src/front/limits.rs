//! What one client, and all of them together, may take of the server.

use std::time::Duration;

/// The limits of a front. Each is there because something grows or waits without end if it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time, those in their handshake included. More wait in the backlog of the system.
    pub connections: u32,
    /// Requests at one time on one HTTP/2 connection; watches count.
    pub streams: u32,
    /// Bytes of a request's head: its line and all headers.
    pub head_bytes: u32,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may be without a request, and how long the head of one may take to arrive.
    pub idle: Duration,
    /// How long a client may leave a write waiting without taking a byte of it.
    pub stall: Duration,
    /// How long a client may leave one HTTP/2 answer untaken while it takes others. The whole connection is cut then, which is
    /// hard on one that is only slow: it is given more time.
    pub stream_stall: Duration,
    /// How long requests may go on after a shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 1_000,
            head_bytes: 64 * 1024,
            handshake: Duration::from_secs(10),
            // Go's clients close what was idle for 90 s. If we were first, a request could cross our farewell.
            idle: Duration::from_secs(100),
            stall: Duration::from_secs(30),
            stream_stall: Duration::from_mins(2),
            drain: Duration::from_secs(20),
        }
    }
}
