//! Real networks: cnitool in the place of a container runtime, the real `bridge` as main plugin, and network namespaces for a node and
//! its pods. Nothing outside of these namespaces is touched.
//!
//! `bridge` passes no GC on to the plugin of its addresses, so there is a second network of which ours is the only plugin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::e2e::report::Outcome;
use crate::e2e::servers::Servers;
use crate::parts::Part;
use crate::pods::node;

const NETWORK: &str = "pods";
/// Has no other plugin than ours.
const BARE: &str = "bare";
const PODS: [&str; 3] = ["one", "two", "three"];
const ADDRESSES: [[&str; 2]; 3] = [["10.7.0.65", "fd07::4:1"], ["10.7.0.66", "fd07::4:2"], ["10.7.0.67", "fd07::4:3"]];

/// Three pods come, speak to each other, are looked at, and go.
pub(super) fn run(servers: &Servers, plugin: &Path, folder: &Path) -> Result<Outcome> {
    let place = match Namespaces::new() {
        Ok(namespaces) => Place::prepare(servers, plugin, folder, namespaces)?,
        Err(why) => {
            return Ok(Outcome::NotRun(format!(
                "network namespaces need root and the program `ip` (iproute2): {why:#}"
            )));
        }
    };
    for (pod, addresses) in PODS.iter().zip(ADDRESSES) {
        let answer: Value = serde_json::from_slice(&place.cnitool("add", pod)?.stdout).context("what cnitool says")?;
        let given = answer["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str());
        let given: Vec<_> = given.map(|ip| ip.split('/').next().unwrap_or_default()).collect();
        ensure!(given == addresses, "{pod} was given {given:?}");
        ensure!(place.addresses(pod)? == addresses, "{pod} has {:?} on its interface", place.addresses(pod)?);
        place.cnitool("check", pod)?;
    }
    place.reaches("one", ADDRESSES[2])?;
    place.cnitool("status", "one")?;
    place.cnitool("del", "two")?;
    place.cnitool("del", "two")?;
    ensure!(place.addresses("two")?.is_empty(), "the interface of a pod that is gone is still there");
    place.cnitool("add", "two")?;
    ensure!(place.addresses("two")? == ADDRESSES[1], "another pod than before has the address that came back");
    // Nothing that the runtime does not know stays.
    for pod in PODS {
        place.cnitool("del", pod)?;
    }
    let left = super::books::journal(&place.state.join(NETWORK))?;
    ensure!(left.is_empty(), "held, though every pod is gone: {left:?}");
    place.collected()?;
    Ok(Outcome::Ok(
        "3 pods with addresses of both families reached each other over a bridge, were checked, and went, also by GC"
            .to_owned(),
    ))
}

/// A node and its pods, as namespaces with names that nobody else has.
struct Namespaces {
    prefix: String,
}

impl Namespaces {
    fn new() -> Result<Self> {
        let namespaces = Self { prefix: format!("cadastre-{}", std::process::id()) };
        for name in ["node"].iter().chain(&PODS) {
            done(Command::new("ip").args(["netns", "add", &namespaces.name(name)]))?;
        }
        Ok(namespaces)
    }

    fn name(&self, pod: &str) -> String {
        format!("{}-{pod}", self.prefix)
    }

    /// A command in a namespace.
    fn inside(&self, pod: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(pod), program]);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in ["node"].iter().chain(&PODS) {
            // One that stays has a name of its own and is in nobody's way.
            let _ = Command::new("ip").args(["netns", "del", &self.name(name)]).output();
        }
    }
}

struct Place {
    namespaces: Namespaces,
    state: PathBuf,
    folder: PathBuf,
    cnitool: PathBuf,
}

impl Place {
    fn prepare(servers: &Servers, plugin: &Path, folder: &Path, namespaces: Namespaces) -> Result<Self> {
        let (state, programs, networks) = (folder.join("state"), folder.join("bin"), folder.join("net.d"));
        for folder in [&state, &programs, &networks, &folder.join("var-lib")] {
            fs::create_dir_all(folder)?;
        }
        symlink(servers.part(Part::Bridge)?, programs.join("bridge"))?;
        symlink(plugin, programs.join("cadastre"))?;
        node::grant(&state, NETWORK, &[("10.7.0.0/16", vec!["10.7.0.64/26"]), ("fd07::/64", vec!["fd07::4:0/112"])])?;
        let list = json!({
            "cniVersion": "1.1.0", "name": NETWORK,
            "plugins": [{
                "type": "bridge", "bridge": "cad0",
                "ipam": {
                    "type": "cadastre", "state_dir": state, "fast_ipam": true,
                    "ipRanges": [{"range": "10.7.0.0/16"}, {"range": "fd07::/64"}],
                },
            }],
        });
        fs::write(networks.join("pods.conflist"), list.to_string())?;
        node::grant(&state, BARE, &[("10.8.0.0/16", vec!["10.8.0.0/26"])])?;
        let ipam = json!({"type": "cadastre", "state_dir": state, "fast_ipam": true, "range": "10.8.0.0/16"});
        let bare = json!({"cniVersion": "1.1.0", "name": BARE, "plugins": [{"type": "cadastre", "ipam": ipam}]});
        fs::write(networks.join("bare.conflist"), bare.to_string())?;
        let cnitool = servers.part(Part::Cnitool)?;
        Ok(Self { namespaces, state, folder: folder.to_path_buf(), cnitool })
    }

    /// Runs cnitool on the node. It remembers what it did in /var/lib/cni, which is a folder of ours to it.
    fn cnitool(&self, call: &str, pod: &str) -> Result<Output> {
        self.cnitool_at(NETWORK, call, pod)
    }

    fn cnitool_at(&self, network: &str, call: &str, pod: &str) -> Result<Output> {
        let script = "mount --bind \"$1\" /var/lib && shift && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(self.folder.join("var-lib"));
        let inner = self.namespaces.inside("node", "env");
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in [("NETCONFPATH", "net.d"), ("CNI_PATH", "bin")] {
            command.arg(format!("{name}={}", self.folder.join(value).display()));
        }
        command.arg(format!("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=dev;K8S_POD_NAME={pod}"));
        command.arg(&self.cnitool).args([call, network]);
        command.arg(format!("/run/netns/{}", self.namespaces.name(pod)));
        done(&mut command).with_context(|| format!("cnitool {call} of {pod}"))
    }

    /// GC as libcni makes it: a DEL of what it remembers, and a GC of ours, here without a list, so that it takes nothing. What libcni
    /// has forgotten stays.
    fn collected(&self) -> Result<()> {
        let held = || super::books::journal(&self.state.join(BARE));
        for pod in ["one", "two"] {
            self.cnitool_at(BARE, "add", pod)?;
            let cached = self.folder.join("var-lib/cni");
            if pod == "one" {
                fs::remove_dir_all(&cached)
                    .with_context(|| format!("cnitool keeps nothing in {}", cached.display()))?;
            }
        }
        let before = held()?;
        ensure!(before.len() == 2, "two pods are there, and hold {before:?}");
        self.cnitool_at(BARE, "gc", "two")?;
        ensure!(held()? == before[..1], "after GC these are held: {:?}", held()?);
        self.cnitool_at(BARE, "del", "one")?;
        ensure!(held()?.is_empty(), "every pod is gone");
        Ok(())
    }

    /// The addresses of the pod's interface that others can reach.
    fn addresses(&self, pod: &str) -> Result<Vec<String>> {
        let said = done(self.namespaces.inside(pod, "ip").args(["-json", "address", "show", "scope", "global"]))?;
        let links: Value = serde_json::from_slice(&said.stdout).context("what ip says")?;
        let links = links.as_array().into_iter().flatten();
        let addresses = links.flat_map(|link| link["addr_info"].as_array().into_iter().flatten());
        Ok(addresses.filter_map(|address| address["local"].as_str().map(str::to_owned)).collect())
    }

    /// Sends a packet to each of these addresses and looks whether the neighbour answered who it is.
    fn reaches(&self, pod: &str, addresses: [&str; 2]) -> Result<()> {
        for address in addresses {
            // Nobody listens there; that the refusal comes back is enough, and the neighbour is known then.
            let script = format!("exec 3<>/dev/tcp/{address}/9");
            let said = self.namespaces.inside(pod, "bash").args(["-c", &script]).output()?;
            let told = String::from_utf8_lossy(&said.stderr);
            ensure!(told.contains("Connection refused"), "{pod} does not reach {address}: {told}");
        }
        Ok(())
    }
}

fn done(command: &mut Command) -> Result<Output> {
    let said = command.output().with_context(|| format!("there is no program {}", command.get_program().display()))?;
    if !said.status.success() {
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        bail!("{} {}", out.trim(), err.trim());
    }
    Ok(said)
}
