//! Ports for parts that must be told one, because others have to find them there again.
//!
//! They are chosen below the range from which the kernel takes the ports of outgoing connections. A port of that range
//! can be taken by any client between the search and the start, or while a part that was killed is to start again.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;

/// Above the ports that well-known services have.
const LOWEST: u16 = 10_000;
/// Where the kernel's own range begins unless it is set otherwise.
const USUAL_END: u16 = 32_768;

/// `N` different ports of loopback on which nobody listens. No two calls in one process return the same port until all
/// were returned; other processes start their search elsewhere.
pub fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU64::new(RandomState::new().hash_one(std::process::id()) >> 1));
    let range = reserved(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
    search(next, &range, |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop))
        .map_err(Error::system("no free port on loopback"))
}

/// The next ports of the range that can be taken, or why the last of all cannot.
fn search<const N: usize>(
    next: &AtomicU64,
    range: &Range<u16>,
    take: impl Fn(u16) -> io::Result<()>,
) -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut tried = 0;
    for port in &mut ports {
        *port = loop {
            let candidate = range.start + (next.fetch_add(1, Ordering::Relaxed) % range.len() as u64) as u16;
            match take(candidate) {
                Ok(()) => break candidate,
                Err(_) if tried < range.len() => tried += 1,
                Err(error) => return Err(error),
            }
        };
    }
    Ok(ports)
}

/// Waits for nothing: whether something accepts connections on that port of loopback now.
pub(super) fn accepts(port: u16) -> bool {
    connect(port).is_ok()
}

/// A connection to that port of loopback.
pub(super) fn connect(port: u16) -> io::Result<std::net::TcpStream> {
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
}

/// The ports below those that the kernel gives away, whose range is as in `/proc`: two numbers.
fn reserved(kernel: &str) -> Range<u16> {
    let first = kernel.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(USUAL_END);
    // A kernel that gives away nearly everything leaves too little below; then any port is as good as another.
    LOWEST..if first < 2 * LOWEST { USUAL_END } else { first }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until it succeeds. A socket that was closed here is still open in a child that a neighbouring test has just forked, until
    /// that child is the program it is to be: the port accepts, or cannot be taken, for that long.
    fn soon<T>(what: &str, attempt: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn ports_are_free_and_different() {
        let ports: [u16; 8] = free_ports().unwrap();
        let more: [u16; 8] = free_ports().unwrap();
        let listen = |port: &u16| soon("a port is not free", || TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).ok());
        let held: Vec<_> = ports.iter().chain(&more).map(listen).collect();
        assert_eq!(held.len(), 16);
    }

    /// Takes every port but these.
    fn but(taken: &[u16]) -> impl Fn(u16) -> io::Result<()> {
        move |port| if taken.contains(&port) { Err(io::ErrorKind::AddrInUse.into()) } else { Ok(()) }
    }

    // Not on real ports: what this test holds would be one that another test in this process was just given.
    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let next = AtomicU64::new(1);
        assert_eq!(search(&next, &(10..15), but(&[11, 13])).unwrap(), [12, 14, 10]);
    }

    #[test]
    fn a_search_ends_when_all_are_taken() {
        let next = AtomicU64::new(0);
        let error = search::<1>(&next, &(10..13), but(&[10, 11, 12])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn outgoing_connections_cannot_take_them() {
        assert_eq!(reserved("32768\t60999\n"), 10_000..32_768);
        assert_eq!(reserved("40000 50000"), 10_000..40_000);
        assert_eq!(reserved("1024 65535"), 10_000..32_768, "nothing is out of its reach: the usual range will do");
        assert_eq!(reserved(""), 10_000..32_768);
    }

    #[test]
    fn a_port_accepts_while_somebody_listens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(accepts(port));
        drop(listener);
        soon("nobody listens, and it accepts", || (!accepts(port)).then_some(()));
    }
}
