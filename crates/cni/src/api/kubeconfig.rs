//! The kubeconfig that a configuration names: which API server, who to be there, and in which namespace the objects are.
//!
//! Files that it names are read when they are needed, which is when the server is reached without the agent.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::config::is_dns_name;
use crate::failure::{Code, Failure};

/// Where objects are if the context names no namespace, as whereabouts has it.
const NAMESPACE: &str = "kube-system";

/// What is written in a file, or in the kubeconfig itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Data(Vec<u8>),
    File(PathBuf),
}

impl Source {
    /// What it says.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => fs::read(path).map_err(|error| unreadable(path, &error)),
        }
    }
}

/// One server and who to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubeconfig {
    /// The host, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What comes before every path.
    pub(crate) prefix: String,
    pub(crate) is_tls: bool,
    /// The name to look for in the server's certificate, if it is not the host.
    pub(crate) server_name: Option<String>,
    /// The certificates that may have signed the server's.
    pub(crate) signer: Option<Source>,
    /// Whether any certificate of the server will do.
    pub(crate) is_trusting: bool,
    /// The client's certificate and key.
    pub(crate) identity: Option<(Source, Source)>,
    pub(crate) token: Option<Source>,
    pub(crate) namespace: String,
}

impl Kubeconfig {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let refused = |why: String| Failure::new(Code::Config, format!("kubeconfig {}: {why}", path.display()));
        let tree: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?
        } else {
            serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?
        };
        Self::parse(&tree, path.parent().unwrap_or(Path::new(""))).map_err(refused)
    }

    /// Host and port, as they are in an address.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// `folder` is what paths in it begin from.
    fn parse(tree: &Value, folder: &Path) -> Result<Self, String> {
        let current = text(tree, "current-context")?;
        if current.is_empty() {
            return Err("current-context: missing".to_owned());
        }
        let context = named(tree, "contexts", "context", current)?;
        let cluster = named(tree, "clusters", "cluster", text(context, "cluster")?)?;
        let user = text(context, "user")?;
        let user = if user.is_empty() { &Value::Null } else { named(tree, "users", "user", user)? };
        for key in ["exec", "auth-provider", "username"] {
            if !user[key].is_null() {
                return Err(format!("{key}: not supported here; use a token, a tokenFile or a client certificate"));
            }
        }
        if !text(cluster, "proxy-url")?.is_empty() {
            return Err("proxy-url: not supported here".to_owned());
        }
        let namespace = Some(text(context, "namespace")?).filter(|text| !text.is_empty()).unwrap_or(NAMESPACE);
        if !is_dns_name(namespace) {
            return Err(format!("namespace: {namespace} cannot be the name of one"));
        }
        let source = |object: &Value, key: &str| source(object, key, folder);
        let identity = (source(user, "client-certificate")?, source(user, "client-key")?);
        let identity = match identity {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("client-certificate and client-key: one without the other".to_owned()),
        };
        let token_file = Some(text(user, "tokenFile")?).filter(|text| !text.is_empty());
        let token = Some(text(user, "token")?).filter(|text| !text.is_empty());
        // The file may have been renewed since, so it comes first.
        let file = token_file.map(|file| Source::File(folder.join(file)));
        let token = file.or(token.map(|text| Source::Data(text.into())));
        let (is_tls, host, port, prefix) = address(text(cluster, "server")?)?;
        Ok(Self {
            host,
            port,
            prefix,
            is_tls,
            server_name: Some(text(cluster, "tls-server-name")?).filter(|text| !text.is_empty()).map(str::to_owned),
            signer: source(cluster, "certificate-authority")?,
            is_trusting: cluster["insecure-skip-tls-verify"].as_bool().unwrap_or(false),
            identity,
            token,
            namespace: namespace.to_owned(),
        })
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::Io, format!("cannot read {}: {error}", path.display()))
        .with("ipam.kubernetes.kubeconfig leads there")
}

fn text<'a>(object: &'a Value, key: &str) -> Result<&'a str, String> {
    match &object[key] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        _ => Err(format!("{key}: no text")),
    }
}

fn named<'a>(tree: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, String> {
    let items = tree[list].as_array().map_or(&[][..], Vec::as_slice);
    let found = items.iter().find(|item| item["name"].as_str() == Some(name));
    found.map(|item| &item[field]).ok_or_else(|| format!("{list}: there is no \"{name}\""))
}

/// `KEY-data` in base64, or else the file that `KEY` names.
fn source(object: &Value, key: &str, folder: &Path) -> Result<Option<Source>, String> {
    let data_key = format!("{key}-data");
    let data = text(object, &data_key)?;
    if !data.is_empty() {
        let decoded = BASE64.decode(data.trim()).map_err(|error| format!("{data_key}: {error}"))?;
        return Ok(Some(Source::Data(decoded)));
    }
    let file = text(object, key)?;
    Ok((!file.is_empty()).then(|| Source::File(folder.join(file))))
}

/// Whether it is TLS, the host, the port, and what comes before every path.
fn address(server: &str) -> Result<(bool, String, u16, String), String> {
    let refused = |why: &str| format!("server: {server}: {why}");
    let (is_tls, rest) = if let Some(rest) = server.strip_prefix("https://") {
        (true, rest)
    } else if let Some(rest) = server.strip_prefix("http://") {
        (false, rest)
    } else {
        return Err(refused("it begins with neither https:// nor http://"));
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, after) = inner.split_once(']').ok_or_else(|| refused("a bracket is missing"))?;
            (host, after.strip_prefix(':'))
        }
        None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let usual = if is_tls { 443 } else { 80 };
    let port = port.map_or(Ok(usual), str::parse).map_err(|_| refused("the port is no number"))?;
    let sound = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || !sound(host) || !sound(path) {
        return Err(refused("it has no host"));
    }
    Ok((is_tls, host.to_owned(), port, path.trim_end_matches('/').to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": "https://10.96.0.1:6443", "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "nets"}}],
        })
    }

    fn changed(pointer: &str, value: Value) -> Result<Kubeconfig, String> {
        let mut tree = whole();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        tree.pointer_mut(parent).unwrap()[key] = value;
        Kubeconfig::parse(&tree, "/etc/cni".as_ref())
    }

    #[test]
    fn it_says_where_and_who_and_in_which_namespace() {
        let read = Kubeconfig::parse(&whole(), "/etc/cni".as_ref()).unwrap();
        assert_eq!((read.host.as_str(), read.port, read.is_tls), ("10.96.0.1", 6443, true));
        assert_eq!(read.signer, Some(Source::File("/etc/cni/ca.crt".into())));
        assert_eq!((read.token, read.namespace.as_str()), (Some(Source::Data(b"secret".to_vec())), "nets"));
        assert_eq!(changed("/contexts/0/context/namespace", json!("")).unwrap().namespace, "kube-system");
        let file = changed("/users/0/user/tokenFile", json!("/run/token")).unwrap();
        assert_eq!(file.token, Some(Source::File("/run/token".into())));
        let data = changed("/clusters/0/cluster/certificate-authority-data", json!("aGk=")).unwrap();
        assert_eq!(data.signer, Some(Source::Data(b"hi".to_vec())));
    }

    #[test]
    fn servers_are_written_in_all_ways_that_they_are() {
        for (server, host, port, prefix) in [
            ("https://[10.96.0.1]:443", "10.96.0.1", 443, ""),
            ("https://[fd00::1]:6443/", "fd00::1", 6443, ""),
            ("https://api.example", "api.example", 443, ""),
            ("http://127.0.0.1:8001/k8s/cluster", "127.0.0.1", 8001, "/k8s/cluster"),
        ] {
            let read = changed("/clusters/0/cluster/server", json!(server)).unwrap();
            assert_eq!((read.host.as_str(), read.port, read.prefix.as_str()), (host, port, prefix), "{server}");
        }
    }

    #[test]
    fn each_flaw_is_told_with_its_field() {
        for (pointer, value, told) in [
            ("/current-context", json!(""), "current-context: missing"),
            ("/current-context", json!("x"), "contexts: there is no \"x\""),
            ("/contexts/0/context/cluster", json!("x"), "clusters: there is no \"x\""),
            ("/contexts/0/context/user", json!("x"), "users: there is no \"x\""),
            ("/contexts/0/context/namespace", json!("A B"), "namespace: A B cannot be the name of one"),
            (
                "/users/0/user/exec",
                json!({"command": "aws"}),
                "exec: not supported here; use a token, a tokenFile or a client certificate",
            ),
            ("/users/0/user/client-key", json!("k"), "client-certificate and client-key: one without the other"),
            ("/users/0/user/token", json!(5), "token: no text"),
            (
                "/clusters/0/cluster/server",
                json!("10.0.0.1:6443"),
                "server: 10.0.0.1:6443: it begins with neither https:// nor http://",
            ),
            ("/clusters/0/cluster/server", json!("https://a:b"), "server: https://a:b: the port is no number"),
            ("/clusters/0/cluster/server", json!("https://"), "server: https://: it has no host"),
        ] {
            assert_eq!(changed(pointer, value), Err(told.to_owned()));
        }
        assert!(changed("/clusters/0/cluster/certificate-authority-data", json!("?")).is_err());
    }

    #[test]
    fn json_is_read_as_well_as_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let yaml = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: https://h:1\n\
                    users: []\ncontexts:\n- {name: c, context: {cluster: k}}\n";
        for text in [whole().to_string(), yaml.to_owned()] {
            fs::write(&path, text).unwrap();
            assert!(Kubeconfig::read(&path).is_ok());
        }
        for text in ["{", "a: [", "", "just text"] {
            fs::write(&path, text).unwrap();
            let failure = Kubeconfig::read(&path).unwrap_err();
            assert!(failure.code == Code::Config && failure.message.starts_with("kubeconfig /"), "{failure}");
        }
        let failure = Kubeconfig::read("/nonexistent/kubeconfig".as_ref()).unwrap_err();
        assert!(failure.code == Code::Io && failure.message.contains("/nonexistent/kubeconfig"), "{failure}");
    }
}
