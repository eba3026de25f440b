//! A wire between a store and an etcd member, which can be held up and cut.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

/// What gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Everything.
    Open,
    /// Nothing: both ends see a silent peer.
    Held,
    /// What the store says, but not what etcd answers.
    Deaf,
    /// No connection stands and no new one comes about.
    Cut,
}

impl Passage {
    fn lets(self, direction: Direction) -> bool {
        match self {
            Self::Open => true,
            Self::Held | Self::Cut => false,
            Self::Deaf => direction == Direction::ToEtcd,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToEtcd,
    ToStore,
}

pub(crate) struct Wire {
    address: SocketAddr,
    passage: watch::Sender<Passage>,
    connections: Arc<Mutex<JoinSet<()>>>,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// A wire to the etcd at a URL.
    pub(crate) async fn to(url: &str) -> Self {
        let upstream: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let passage = watch::Sender::new(Passage::Open);
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let accepting = tokio::spawn({
            let (passage, connections) = (passage.clone(), connections.clone());
            async move {
                while let Ok((store, _)) = listener.accept().await {
                    let passage = passage.subscribe();
                    if *passage.borrow() != Passage::Cut {
                        connections.lock().await.spawn(carry(store, upstream, passage));
                    }
                }
            }
        });
        Self { address, passage, connections, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
        if passage == Passage::Cut {
            self.connections.lock().await.shutdown().await;
        }
    }

    /// Cuts what stands; new connections come about at once.
    pub(crate) async fn snip(&self) {
        self.connections.lock().await.shutdown().await;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(store: TcpStream, etcd: SocketAddr, passage: watch::Receiver<Passage>) {
    let Ok(etcd) = TcpStream::connect(etcd).await else { return };
    let (from_store, to_store) = store.into_split();
    let (from_etcd, to_etcd) = etcd.into_split();
    tokio::select! {
        () = pump(from_store, to_etcd, passage.clone(), Direction::ToEtcd) => {}
        () = pump(from_etcd, to_store, passage, Direction::ToStore) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut passage: watch::Receiver<Passage>,
    direction: Direction,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if passage.wait_for(|passage| passage.lets(direction)).await.is_err()
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
