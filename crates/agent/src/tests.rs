//! What the tests of the pure parts share: a node with one journal, and holdings in it.

use cni::journal::{BootId, Holding, Image, Ip, Ips, Journal, Netns, Origin, Record, Renewal};
use cni::lock::{Lock, PATIENCE};
use cni::place::Place;

/// A journal that is gone with the test.
pub(crate) struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    pub(crate) fn holding(holdings: &[Holding<'_>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Self { folder };
        let records: Vec<Record<'_>> = holdings.iter().cloned().map(Record::Hold).collect();
        let lock = Lock::take(&node.place(), PATIENCE).unwrap();
        let renewal = Renewal { id: [7; 16], boot: BootId([1; 16]) };
        Journal::begin(&node.place(), &lock, 1, &records, renewal).unwrap();
        node
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(self.folder.path(), "")
    }

    pub(crate) fn image(&self) -> Image {
        Image::read(&self.place()).unwrap()
    }
}

/// A holding of an attachment `net1` of that pod.
pub(crate) fn holding(sequence: u64, pod: &str, ip: &str) -> Holding<'static> {
    Holding {
        sequence,
        at: 0,
        boot: BootId([1; 16]),
        origin: Origin::Add,
        container: format!("c-{pod}").replace('/', "-").into(),
        ifname: "net1".into(),
        conf: "net".into(),
        pod: pod.to_owned().into(),
        uid: "".into(),
        netns: Netns::default(),
        home: "".into(),
        ips: Ips::of(&[Ip { address: ip.parse().unwrap(), length: 8 }]),
    }
}
