//! The kubeconfig of the data directory: how kubectl, and our own commands, reach the server as its administrator.
//!
//! The file belongs to the user once it is written: kubectl itself edits it (`kubectl config set-context`). So only the
//! entries called `cadastre` are kept right, and only when they are not.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use thiserror::Error;

use super::files::{self, FileError};
use super::pki::Identity;

/// What our cluster, user and context are called in it.
const ENTRY: &str = "cadastre";

/// Where a kubeconfig has the name to look for in the server's certificate.
const SERVER_NAME: &str = "tls-server-name";

/// Why there is no kubeconfig.
#[derive(Debug, Error)]
pub enum KubeconfigError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is there and is none.
    #[error("{} is no kubeconfig: {why}; remove it, and the next start writes a new one", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It could not be put into words.
    #[error("cannot write {} as YAML: {source}", .path.display())]
    NotYaml {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: serde_saphyr::ser::Error,
    },
}

/// One server and who to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// `https://ADDRESS:PORT`
    pub server: String,
    /// The name to look for in the server's certificate, if it is not the address.
    pub server_name: Option<String>,
    /// The certificates that may have signed the server's, as PEM.
    pub authority: String,
    /// The client certificate to show.
    pub identity: Identity,
}

impl Kubeconfig {
    /// Makes the file say this. Other entries stay, and a file that says it already is not touched.
    pub fn keep(&self, path: &Path) -> Result<(), KubeconfigError> {
        let kept = files::read(path)?.filter(|text| !text.trim().is_empty());
        let mut config = match &kept {
            Some(text) => parse(path, text)?,
            None => json!({ "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": ENTRY }),
        };
        let mut cluster =
            json!({ "server": self.server, "certificate-authority-data": BASE64.encode(&self.authority) });
        if let Some(name) = &self.server_name {
            cluster[SERVER_NAME] = json!(name);
        }
        let user = json!({
            "client-certificate-data": BASE64.encode(&self.identity.certificate),
            "client-key-data": BASE64.encode(&self.identity.key),
        });
        let before = config.clone();
        let unreadable = |why: &str| KubeconfigError::Unreadable { path: path.to_owned(), why: why.to_owned() };
        for (list, field, value) in [
            ("clusters", "cluster", cluster),
            ("users", "user", user),
            ("contexts", "context", json!({ "cluster": ENTRY, "user": ENTRY })),
        ] {
            set(&mut config, list, field, &value)
                .ok_or_else(|| unreadable(&format!("{list} is no list of entries")))?;
        }
        if kept.is_some() && config == before {
            return Ok(());
        }
        // Long values stay on the line of their name: shell scripts look for them there.
        let plain = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let text = serde_saphyr::to_string_with_options(&config, plain)
            .map_err(|source| KubeconfigError::NotYaml { path: path.to_owned(), source })?;
        Ok(files::write(path, text.as_bytes())?)
    }

    /// What the file says about our server, or none if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, KubeconfigError> {
        let Some(text) = files::read(path)? else { return Ok(None) };
        let config = parse(path, &text)?;
        let field = |list: &str, kind: &str, field: &str| {
            let entries = config.get(list)?.as_array()?;
            let entry = entries.iter().find(|entry| entry["name"] == ENTRY)?;
            entry.get(kind)?.get(field)?.as_str().map(str::to_owned)
        };
        let data = |list, kind, name| {
            let bytes = BASE64.decode(field(list, kind, name)?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let entry = || {
            Some(Self {
                server: field("clusters", "cluster", "server")?,
                server_name: field("clusters", "cluster", SERVER_NAME),
                authority: data("clusters", "cluster", "certificate-authority-data")?,
                identity: Identity {
                    certificate: data("users", "user", "client-certificate-data")?,
                    key: data("users", "user", "client-key-data")?,
                },
            })
        };
        let why = format!("it has no complete cluster and user called {ENTRY}");
        entry().map(Some).ok_or_else(|| KubeconfigError::Unreadable { path: path.to_owned(), why })
    }
}

fn parse(path: &Path, text: &str) -> Result<Value, KubeconfigError> {
    let unreadable = |why: String| KubeconfigError::Unreadable { path: path.to_owned(), why };
    let config: Value = serde_saphyr::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    if config.is_object() { Ok(config) } else { Err(unreadable("it holds no fields".to_owned())) }
}

/// Sets the fields of our entry in one of the lists; fields that somebody added (a namespace) stay.
fn set(config: &mut Value, list: &str, kind: &str, wanted: &Value) -> Option<()> {
    let entries = config.as_object_mut()?.entry(list).or_insert(Value::Null);
    if entries.is_null() {
        *entries = json!([]);
    }
    let entries = entries.as_array_mut()?;
    if !entries.iter().any(|entry| entry["name"] == ENTRY) {
        entries.push(json!({ "name": ENTRY }));
    }
    let entry = entries.iter_mut().find(|entry| entry["name"] == ENTRY)?.as_object_mut()?;
    let fields = entry.entry(kind).or_insert_with(|| json!({})).as_object_mut()?;
    // Of the fields that we set, this one alone is not always there.
    fields.remove(SERVER_NAME);
    for (name, value) in wanted.as_object()? {
        fields.insert(name.clone(), value.clone());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn config(port: u16) -> Kubeconfig {
        Kubeconfig {
            server: format!("https://127.0.0.1:{port}"),
            server_name: None,
            authority: "CA\n".to_owned(),
            identity: Identity { certificate: "CERT\n".repeat(40), key: "KEY\n".to_owned() },
        }
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        assert_eq!(Kubeconfig::read(&path).unwrap(), None);
        config(6443).keep(&path).unwrap();
        assert_eq!(Kubeconfig::read(&path).unwrap(), Some(config(6443)));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("current-context: cadastre\n"), "{text}");
        let certificate = format!("client-certificate-data: {}\n", BASE64.encode("CERT\n".repeat(40)));
        assert!(text.contains(&certificate), "{text}");
        let named = Kubeconfig { server_name: Some("api.example.com".to_owned()), ..config(6443) };
        for wanted in [named, config(6443)] {
            wanted.keep(&path).unwrap();
            assert_eq!(Kubeconfig::read(&path).unwrap(), Some(wanted));
        }
    }

    #[test]
    fn a_file_that_is_right_is_not_touched() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        config(6443).keep(&path).unwrap();
        let text = format!("# mine\n{}", fs::read_to_string(&path).unwrap());
        fs::write(&path, &text).unwrap();
        config(6443).keep(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn another_port_changes_the_server_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        config(6443).keep(&path).unwrap();
        let mut edited: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        edited["contexts"][0]["context"]["namespace"] = json!("team-a");
        edited["current-context"] = json!("other");
        edited["clusters"].as_array_mut().unwrap().insert(0, json!({ "name": "other", "cluster": { "server": "x" } }));
        fs::write(&path, edited.to_string()).unwrap();
        config(7443).keep(&path).unwrap();
        assert_eq!(Kubeconfig::read(&path).unwrap(), Some(config(7443)));
        let mut after: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        after["clusters"][1]["cluster"]["server"] = json!("https://127.0.0.1:6443");
        assert_eq!(after, edited);
    }

    #[test]
    fn rubbish_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kubeconfig");
        for rubbish in ["just text", "clusters: 7", "[", "- a"] {
            fs::write(&path, rubbish).unwrap();
            let error = config(1).keep(&path).unwrap_err();
            assert!(matches!(error, KubeconfigError::Unreadable { .. }), "{rubbish}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), rubbish);
            assert!(Kubeconfig::read(&path).is_err(), "{rubbish}");
        }
    }
}
