//! The slices that a node holds of a network, as the agent wrote them down for the plugin.
//!
//! The file is JSON, written anew by renaming with the lock held; the plugin reads it with the lock held. So when the agent has written
//! that a slice is given up, no ADD is under way that would still take an address of it.
//!
//! ```json
//! {
//!   "version": 1,
//!   "network": "storage",
//!   "node": "worker-7",
//!   "nodeUID": "0b6c...",
//!   "journal": "5d1e...",
//!   "refreshedAt": 1763424000,
//!   "gateways": ["10.0.0.1"],
//!   "ranges": [
//!     {
//!       "range": "10.0.0.0/8",
//!       "slices": [
//!         {"slice": "10.0.16.0/20", "generation": 1, "epoch": 4, "state": "granted"},
//!         {"slice": "10.9.0.0/22", "generation": 0, "epoch": 2, "state": "draining"}
//!       ]
//!     }
//!   ]
//! }
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use space::Cidr;
use thiserror::Error;

use crate::lock::Lock;
use crate::place::{Place, replace};

/// The only version there is.
const VERSION: u64 = 1;
/// No file of grants is larger, in bytes.
const LARGEST: u64 = 4 << 20;

/// The slices that a node holds of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The network.
    pub network: String,
    /// The node's name.
    pub node: String,
    /// The node's UID: a node that was made anew under its name holds nothing of the one before.
    pub node_uid: String,
    /// The id of the journal, as hexadecimal digits, if the agent knows it. A journal that is gone or another one is not made
    /// anew by the plugin then: it does not know what was in it.
    pub journal: Option<String>,
    /// When the agent last knew that the node holds them: seconds since 1970.
    pub refreshed_at: u64,
    /// The gateways of the network, whichever of its configurations names them: no pod gets their addresses.
    pub gateways: Vec<IpAddr>,
    /// The ranges of the network.
    pub ranges: Vec<RangeGrant>,
}

/// The slices of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeGrant {
    /// The range, as configured.
    pub range: Cidr,
    /// The slices, in the order in which they are used.
    pub slices: Vec<Slice>,
}

/// One slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its addresses.
    pub cidr: Cidr,
    /// The generation of the range that it was cut from.
    pub generation: u64,
    /// Which grant of that slice this is.
    pub epoch: u64,
    /// Whether new addresses are given of it.
    pub state: SliceState,
}

/// Whether new addresses are given of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceState {
    /// They are.
    Granted,
    /// They are not: what is held stays until its DEL.
    Draining,
}

/// Why there are no grants.
#[derive(Debug, Error)]
pub enum GrantsError {
    /// The file is not there.
    #[error("{} is not there", .0.display())]
    Missing(PathBuf),
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there are no grants.
    #[error("{} is malformed: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the name of the field.
        why: String,
    },
}

impl Grants {
    /// Reads the grants of a network. Whoever acts on them holds the lock.
    pub fn read(place: &Place) -> Result<Self, GrantsError> {
        let path = place.grants();
        let text = match text_of(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == ErrorKind::NotFound => return Err(GrantsError::Missing(path)),
            Err(source) => return Err(GrantsError::Io { path, source }),
        };
        Self::parse(&text).map_err(|why| GrantsError::Malformed { path, why })
    }

    /// Writes them for the plugin: they are on the disk when this returns.
    pub fn write(&self, place: &Place, _lock: &Lock) -> io::Result<()> {
        replace(&place.grants(), self.to_json().to_string().as_bytes())
    }

    /// Reads them from text; a refusal names the field.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let tree: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match &tree["version"] {
            version if version.as_u64() == Some(VERSION) => {}
            Value::Null => return Err("version is missing".to_owned()),
            other => return Err(format!("version is {other}, and only {VERSION} is known")),
        }
        let ranges = list(&tree, "ranges", "ranges")?.iter().enumerate();
        let journal = &tree["journal"];
        Ok(Self {
            network: text_at(&tree, "network", "network")?,
            node: text_at(&tree, "node", "node")?,
            node_uid: text_at(&tree, "nodeUID", "nodeUID")?,
            journal: if journal.is_null() { None } else { Some(text_at(&tree, "journal", "journal")?) },
            refreshed_at: number_at(&tree, "refreshedAt", "refreshedAt")?,
            // Those of older agents have none.
            gateways: match &tree["gateways"] {
                Value::Null => Vec::new(),
                _ => list(&tree, "gateways", "gateways")?.iter().map(address).collect::<Result<_, _>>()?,
            },
            ranges: ranges
                .map(|(at, range)| RangeGrant::parse(range, &format!("ranges[{at}]")))
                .collect::<Result<_, _>>()?,
        })
    }

    fn to_json(&self) -> Value {
        let slice = |slice: &Slice| {
            let state = if slice.state == SliceState::Granted { "granted" } else { "draining" };
            json!({
                "slice": slice.cidr.to_string(), "generation": slice.generation, "epoch": slice.epoch, "state": state,
            })
        };
        let range = |grant: &RangeGrant| {
            let slices: Vec<Value> = grant.slices.iter().map(slice).collect();
            json!({"range": grant.range.to_string(), "slices": slices})
        };
        let ranges: Vec<Value> = self.ranges.iter().map(range).collect();
        json!({
            "version": VERSION,
            "network": self.network,
            "node": self.node,
            "nodeUID": self.node_uid,
            "journal": self.journal,
            "refreshedAt": self.refreshed_at,
            "gateways": self.gateways,
            "ranges": ranges,
        })
    }
}

impl RangeGrant {
    fn parse(tree: &Value, path: &str) -> Result<Self, String> {
        let slices = list(tree, "slices", &format!("{path}.slices"))?.iter().enumerate();
        Ok(Self {
            range: cidr_at(tree, "range", &format!("{path}.range"))?,
            slices: slices
                .map(|(at, slice)| Slice::parse(slice, &format!("{path}.slices[{at}]")))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Slice {
    fn parse(tree: &Value, path: &str) -> Result<Self, String> {
        let state = text_at(tree, "state", &format!("{path}.state"))?;
        Ok(Self {
            cidr: cidr_at(tree, "slice", &format!("{path}.slice"))?,
            generation: number_at(tree, "generation", &format!("{path}.generation"))?,
            epoch: number_at(tree, "epoch", &format!("{path}.epoch"))?,
            state: match state.as_str() {
                "granted" => SliceState::Granted,
                "draining" => SliceState::Draining,
                _ => return Err(format!("{path}.state is `{state}`, and neither `granted` nor `draining`")),
            },
        })
    }
}

/// A small file, in two calls: open and read. A read that does not fill its buffer has come to the end.
fn text_of(path: &std::path::Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(16 << 10);
    let file = File::open(path)?;
    file.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

fn list<'a>(tree: &'a Value, key: &str, path: &str) -> Result<&'a Vec<Value>, String> {
    tree[key].as_array().ok_or_else(|| format!("{path} is no list"))
}

fn address(value: &Value) -> Result<IpAddr, String> {
    let text = value.as_str().unwrap_or_default();
    text.parse().map_err(|_| format!("gateways: {value} is no address"))
}

fn text_at(tree: &Value, key: &str, path: &str) -> Result<String, String> {
    tree[key].as_str().map(str::to_owned).ok_or_else(|| format!("{path} is no text"))
}

fn number_at(tree: &Value, key: &str, path: &str) -> Result<u64, String> {
    tree[key].as_u64().ok_or_else(|| format!("{path} is no number"))
}

fn cidr_at(tree: &Value, key: &str, path: &str) -> Result<Cidr, String> {
    Cidr::strict(&text_at(tree, key, path)?).map_err(|flaw| format!("{path}: {flaw}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::PATIENCE;

    fn grants() -> Grants {
        let slice = |text: &str, state| Slice { cidr: Cidr::strict(text).unwrap(), generation: 1, epoch: 4, state };
        let v4 = RangeGrant {
            range: Cidr::strict("10.0.0.0/8").unwrap(),
            slices: vec![slice("10.0.16.0/20", SliceState::Granted), slice("10.9.0.0/22", SliceState::Draining)],
        };
        let v6 = RangeGrant {
            range: Cidr::strict("fd00::/48").unwrap(),
            slices: vec![slice("fd00::8000:0:0:0/68", SliceState::Granted)],
        };
        Grants {
            network: "storage".into(),
            node: "worker-7".into(),
            node_uid: "0b6c".into(),
            journal: Some("5d1e".into()),
            refreshed_at: 1_763_424_000,
            gateways: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            ranges: vec![v4, v6],
        }
    }

    #[test]
    fn what_the_agent_writes_the_plugin_reads() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), "");
        assert!(matches!(Grants::read(&place), Err(GrantsError::Missing(_))));
        let lock = Lock::take(&place, PATIENCE).unwrap();
        for grants in [grants(), Grants::default(), Grants { journal: None, ..grants() }] {
            grants.write(&place, &lock).unwrap();
            assert_eq!(Grants::read(&place).unwrap(), grants);
        }
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 2, "the grants and the lock, and nothing that was left over");
    }

    #[test]
    fn what_an_older_agent_wrote_names_no_gateways() {
        let mut tree = grants().to_json();
        tree.as_object_mut().unwrap().remove("gateways");
        let read = Grants::parse(tree.to_string().as_bytes()).unwrap();
        assert_eq!(read, Grants { gateways: Vec::new(), ..grants() });
    }

    #[test]
    fn each_flaw_is_told_with_its_field() {
        let whole = grants().to_json();
        for (pointer, value, told) in [
            ("/version", json!(2), "version is 2, and only 1 is known"),
            ("/version", Value::Null, "version is missing"),
            ("/network", json!(1), "network is no text"),
            ("/node", Value::Null, "node is no text"),
            ("/nodeUID", json!([]), "nodeUID is no text"),
            ("/journal", json!(1), "journal is no text"),
            ("/refreshedAt", json!("now"), "refreshedAt is no number"),
            ("/gateways", json!("10.0.0.1"), "gateways is no list"),
            ("/gateways/0", json!("10.0.0"), "gateways: \"10.0.0\" is no address"),
            ("/ranges", json!({}), "ranges is no list"),
            (
                "/ranges/0/range",
                json!("10.0.0.0"),
                "ranges[0].range: it has no prefix length (expected ADDRESS/LENGTH)",
            ),
            ("/ranges/1/slices", json!(1), "ranges[1].slices is no list"),
            ("/ranges/0/slices/1/epoch", json!(-1), "ranges[0].slices[1].epoch is no number"),
            ("/ranges/0/slices/1/generation", json!(0.5), "ranges[0].slices[1].generation is no number"),
            (
                "/ranges/0/slices/0/state",
                json!("gone"),
                "ranges[0].slices[0].state is `gone`, and neither `granted` nor `draining`",
            ),
        ] {
            let mut tree = whole.clone();
            *tree.pointer_mut(pointer).unwrap() = value;
            assert_eq!(Grants::parse(tree.to_string().as_bytes()), Err(told.to_owned()));
        }
        assert!(Grants::parse(b"{").unwrap_err().contains("EOF"));
    }
}
