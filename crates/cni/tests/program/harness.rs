//! A node with one network, and runtimes that call the plugin on it: the real program, or the library within the test.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cni::grants::{Grants, RangeGrant, Slice, SliceState};
use cni::journal::Image;
use cni::lock::{Lock, PATIENCE};
use cni::place::Place;
use cni::plugin;
use serde_json::{Value, json};
use space::Cidr;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cadastre-cni");

/// A folder that is gone with the test; in memory where there is such a place, for thousands of commits go there.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// What the plugin said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// The answer to an ADD.
    pub(crate) fn result(&self) -> Value {
        assert!(self.is_success, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The addresses of the answer to an ADD, with their lengths.
    pub(crate) fn ips(&self) -> Vec<String> {
        let result = self.result();
        let list = result["ips"].as_array().cloned().unwrap_or_default();
        list.iter().map(|ip| ip["address"].as_str().unwrap().to_owned()).collect()
    }

    /// Code, message and details of a failure.
    pub(crate) fn failure(&self) -> (u64, String, String) {
        assert!(!self.is_success, "{self:?}");
        let tree: Value = serde_json::from_str(&self.stdout).unwrap();
        let text = |key: &str| tree[key].as_str().unwrap_or_default().to_owned();
        assert!(!text("cniVersion").is_empty() && !text("msg").is_empty(), "{tree}");
        (tree["code"].as_u64().unwrap(), text("msg"), text("details"))
    }

    pub(crate) fn code(&self) -> u64 {
        self.failure().0
    }

    /// That nothing was said, and all went well.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_success && self.stdout.is_empty() && self.stderr.is_empty()
    }
}

/// Runs the program with exactly this environment.
pub(crate) fn exec(environment: &BTreeMap<String, String>, stdin: impl Into<Stdio>, text: &str) -> Answer {
    answer(Command::new(PROGRAM).env_clear().envs(environment).stdin(stdin), text)
}

/// What a command answers, which ends as the program does.
pub(crate) fn answer(command: &mut Command, text: &str) -> Answer {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // The program may be done before it has read anything.
        drop(stdin.write_all(text.as_bytes()));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { is_success: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A node with one network.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    pub(crate) conf: Value,
    pub(crate) boot: String,
}

pub(crate) const BOOTS: [&str; 2] = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"];

impl Node {
    /// One with this `ipam`, and slices of its ranges.
    pub(crate) fn new(ipam: Value, ranges: &[(&str, &[&str])]) -> Self {
        let folder = folder();
        let mut ipam = ipam;
        for (key, value) in [("type", "cadastre"), ("state_dir", folder.path().to_str().unwrap())] {
            if ipam[key].is_null() {
                ipam[key] = value.into();
            }
        }
        if ipam["node_slice_size"].is_null() {
            ipam["fast_ipam"] = true.into();
        }
        let conf = json!({"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "ipam": ipam});
        let node = Self { folder, conf, boot: BOOTS[0].to_owned() };
        node.grant(ranges);
        node
    }

    /// One with this `ipam`, which shares its ranges with others through the API server of this kubeconfig.
    pub(crate) fn shared(ipam: Value, kubeconfig: &Path) -> Self {
        let (folder, mut ipam) = (folder(), ipam);
        ipam["type"] = "whereabouts".into();
        ipam["state_dir"] = folder.path().to_str().unwrap().into();
        ipam["kubernetes"] = json!({"kubeconfig": kubeconfig});
        let conf = json!({"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "ipam": ipam});
        Self { folder, conf, boot: BOOTS[0].to_owned() }
    }

    /// One whose range is a single slice.
    pub(crate) fn whole(range: &str, ipam: Value) -> Self {
        let mut ipam = ipam;
        if ipam["range"].is_null() {
            ipam["range"] = range.into();
        }
        Self::new(ipam, &[(range, &[range])])
    }

    /// Gives the node these slices instead of those that it has; one that begins with `-` is draining.
    pub(crate) fn grant(&self, ranges: &[(&str, &[&str])]) {
        let cidr = |text: &str| Cidr::tolerant(text).unwrap().value;
        let slice = |text: &&str| {
            let state = if text.starts_with('-') { SliceState::Draining } else { SliceState::Granted };
            Slice { cidr: cidr(text.trim_start_matches('-')), generation: 1, epoch: 1, state }
        };
        let grant = |(range, slices): &(&str, &[&str])| RangeGrant {
            range: cidr(range),
            slices: slices.iter().map(slice).collect(),
        };
        self.write_grants(&Grants {
            network: "net".into(),
            node: "n1".into(),
            node_uid: "u".into(),
            ranges: ranges.iter().map(grant).collect(),
            ..Grants::default()
        });
    }

    /// Damages the last record of its journal that has this pod.
    pub(crate) fn damage(&self, pod: &str) {
        let path = self.place().journal();
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(pod.len()).rposition(|window| window == pod.as_bytes()).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
    }

    pub(crate) fn write_grants(&self, grants: &Grants) {
        let place = self.place();
        fs::create_dir_all(place.folder()).unwrap();
        grants.write(&place, &Lock::take(&place, PATIENCE).unwrap()).unwrap();
    }

    pub(crate) fn place(&self) -> Place {
        Place::new(self.folder.path(), "net")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// How many attachments hold something.
    pub(crate) fn held(&self) -> usize {
        Image::read(&self.place()).unwrap().book().holdings().len()
    }

    pub(crate) fn call(&self, command: &str) -> Call {
        let pairs = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c1"),
            ("CNI_IFNAME", "net1"),
            ("CNI_NETNS", "/run/netns/dummy"),
            ("CNI_PATH", "/opt/cni/bin"),
            ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=c1"),
            ("CADASTRE_BOOT_ID", self.boot.as_str()),
        ];
        let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Call { environment, conf: self.conf.clone() }
    }

    /// A call about the attachment `net1` of a container, which is a pod of the same name.
    pub(crate) fn of(&self, command: &str, container: &str) -> Call {
        self.call(command).of(container, "net1")
    }

    pub(crate) fn add(&self, container: &str) -> Vec<String> {
        self.of("ADD", container).exec().ips()
    }

    pub(crate) fn del(&self, container: &str) {
        let answer = self.of("DEL", container).exec();
        assert!(answer.is_silent(), "{answer:?}");
    }
}

/// One call of the plugin.
pub(crate) struct Call {
    environment: BTreeMap<String, String>,
    pub(crate) conf: Value,
}

impl Call {
    pub(crate) fn of(self, container: &str, ifname: &str) -> Self {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={container}");
        self.with("CNI_CONTAINERID", container).with("CNI_IFNAME", ifname).with("CNI_ARGS", &args)
    }

    /// With an environment variable; an empty one is not set.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            self.environment.remove(name);
        } else {
            self.environment.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// With more of `CNI_ARGS`.
    pub(crate) fn and_args(mut self, more: &str) -> Self {
        let args = self.environment.entry("CNI_ARGS".to_owned()).or_default();
        args.push(';');
        args.push_str(more);
        self
    }

    /// With a field of the configuration.
    pub(crate) fn conf(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        self.conf.pointer_mut(parent).unwrap()[key] = value;
        self
    }

    pub(crate) fn exec(&self) -> Answer {
        exec(&self.environment, Stdio::piped(), &self.conf.to_string())
    }

    /// Starts the program and kills it, after so many turns of a loop.
    pub(crate) fn kill(&self, turns: u32) {
        let mut command = Command::new(PROGRAM);
        command.env_clear().envs(&self.environment).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take().unwrap().write_all(self.conf.to_string().as_bytes()));
        for _ in 0..turns {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The same within the test: without the process.
    pub(crate) fn run(&self) -> Answer {
        let variable = |name: &str| self.environment.get(name).cloned().unwrap_or_default();
        let outcome = plugin::run(variable, || Ok(self.conf.to_string().into_bytes()));
        Answer { is_success: outcome.is_success, stdout: outcome.stdout, stderr: outcome.stderr }
    }
}
