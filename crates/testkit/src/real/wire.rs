//! A wire between clients and a server, which can be held up, cut, and led to another server.
//!
//! It carries bytes and knows nothing of what they say, so TLS passes through it unchanged. Threads and no async, as everything
//! here: a suite has some hundred connections, not thousands.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::Error;

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Everything.
    Open,
    /// Nothing: both ends see a silent peer.
    Held,
    /// No connection stands and no new one comes about.
    Cut,
}

/// A wire to a server. Dropping it ends all that it carries.
pub struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    to: SocketAddr,
    passage: Passage,
    ended: bool,
    /// Both ends of every connection that stands.
    connections: HashMap<u64, [TcpStream; 2]>,
    next: u64,
}

impl Wire {
    /// A wire to the server at an address, as `HOST:PORT` of numbers.
    pub fn to(server: &str) -> Result<Self, Error> {
        let not_there = || format!("no wire to {server}");
        let to = parsed(server)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::system(not_there()))?;
        let address = listener.local_addr().map_err(Error::system(not_there()))?;
        let state = State { to, passage: Passage::Open, ended: false, connections: HashMap::new(), next: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), passed: Condvar::new() });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.lock().ended {
                    return;
                }
                if let Ok(client) = client {
                    accepting.carry(client);
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Where clients come in, as `HOST:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What gets through from now on.
    pub fn set(&self, passage: Passage) {
        self.shared.lock().passage = passage;
        self.shared.passed.notify_all();
        if passage == Passage::Cut {
            self.snip();
        }
    }

    /// Cuts what stands; new connections come about at once.
    pub fn snip(&self) {
        self.shared.snip();
    }

    /// Leads new connections to the server at this address. Those that stand stay where they are.
    pub fn lead(&self, server: &str) -> Result<(), Error> {
        self.shared.lock().to = parsed(server)?;
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.set(Passage::Cut);
        // Whoever accepts looks up only when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snip(&self) {
        for end in self.lock().connections.drain().flat_map(|(_, ends)| ends) {
            // One that is gone already needs no end.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Carries what a client and the server say to each other, if a connection may come about.
    fn carry(self: &Arc<Self>, client: TcpStream) {
        let (to, passage) = {
            let state = self.lock();
            (state.to, state.passage)
        };
        if passage == Passage::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(to) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(a), Ok(b), Ok(c), Ok(d)) =
            (client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone())
        else {
            return;
        };
        let number = {
            let mut state = self.lock();
            // It may have been cut meanwhile.
            if state.passage == Passage::Cut {
                return;
            }
            state.next += 1;
            let number = state.next;
            state.connections.insert(number, [a, b]);
            number
        };
        for (from, to) in [(client, server), (d, c)] {
            let shared = self.clone();
            thread::spawn(move || {
                shared.pump(from, to);
                if let Some(ends) = shared.lock().connections.remove(&number) {
                    let _ = ends.map(|end| end.shutdown(Shutdown::Both));
                }
            });
        }
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let held = |state: &mut State| state.passage == Passage::Held;
            drop(self.passed.wait_while(self.lock(), held).unwrap_or_else(PoisonError::into_inner));
            if to.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
    }
}

fn parsed(server: &str) -> Result<SocketAddr, Error> {
    server.parse().map_err(|error| Error::system(format!("no address: {server}"))(std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    use super::*;

    /// A server that answers each line with its own name; where it is.
    fn server(name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                thread::spawn(move || {
                    let mut to = client.try_clone().unwrap();
                    for _ in BufReader::new(client).lines().map_while(Result::ok) {
                        let _ = writeln!(to, "{name}");
                    }
                });
            }
        });
        address
    }

    fn client(wire: &Wire) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(wire.address()).unwrap())
    }

    /// What the server answers; nothing if the connection is at its end.
    fn ask(connection: &mut BufReader<TcpStream>) -> String {
        let _ = writeln!(connection.get_mut(), "hello");
        let mut answer = String::new();
        let _ = connection.read_line(&mut answer);
        answer.trim().to_owned()
    }

    #[test]
    fn what_is_cut_off_ends_and_what_comes_next_is_led_elsewhere() {
        let wire = Wire::to(&server("one")).unwrap();
        let mut before = client(&wire);
        assert_eq!(ask(&mut before), "one");
        wire.lead(&server("two")).unwrap();
        assert_eq!(ask(&mut before), "one", "what stands stays where it is");
        wire.snip();
        assert_eq!(ask(&mut before), "");
        assert_eq!(ask(&mut client(&wire)), "two");
    }

    #[test]
    fn nothing_comes_about_on_a_wire_that_is_cut() {
        let wire = Wire::to(&server("one")).unwrap();
        wire.set(Passage::Cut);
        assert_eq!(ask(&mut client(&wire)), "");
        wire.set(Passage::Open);
        assert_eq!(ask(&mut client(&wire)), "one");
    }

    #[test]
    fn what_is_held_up_comes_later() {
        let wire = Wire::to(&server("one")).unwrap();
        let mut connection = client(&wire);
        assert_eq!(ask(&mut connection), "one");
        wire.set(Passage::Held);
        connection.get_mut().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(ask(&mut connection), "");
        connection.get_mut().set_read_timeout(None).unwrap();
        wire.set(Passage::Open);
        let mut answer = String::new();
        connection.read_line(&mut answer).unwrap();
        assert_eq!(answer, "one\n");
    }

    #[test]
    fn a_wire_that_is_dropped_carries_nothing_more() {
        let wire = Wire::to(&server("one")).unwrap();
        let mut connection = client(&wire);
        assert_eq!(ask(&mut connection), "one");
        drop(wire);
        assert_eq!(ask(&mut connection), "");
    }
}
