//! The parts: what each is called, which version of it is built, and how.
//!
//! All that decides what comes out of a build is in [`Recipe::inputs`]. Knows nothing of the cache.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// Files that fix the version of every module of a build.
const LOCKS: [&str; 2] = ["go.mod", "go.sum"];

/// As the projects build their releases: no C, no paths of this machine and no debugging tables in the binary.
const VARIABLES: &[(&str, &str)] = &[("CGO_ENABLED", "0")];
const STRIPPED: &str = "-ldflags=-s -w";

/// Where Kubernetes programs look for their own version: the first is what they print and serve, the second what
/// their clients send as user agent. Unset, both say v0.0.0.
const VERSION_PACKAGES: [&str; 2] = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// A real component that suites and benchmarks run beside or against Cadastre.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The store of Kubernetes
    Etcd,
    /// The command line of Kubernetes
    Kubectl,
    /// The API server of Kubernetes
    KubeApiserver,
    /// The controllers of Kubernetes
    KubeControllerManager,
    /// The end-to-end tests of Kubernetes
    #[value(name = "e2e.test")]
    EndToEndTests,
    /// The CNI plugin that pods on secondary networks get their addresses from elsewhere
    Whereabouts,
    /// Its controller, which gives each node a slice of a network
    NodeSliceController,
    /// The container runtime's side of CNI, by hand
    Cnitool,
    /// The CNI plugin that joins pods by a bridge
    Bridge,
    /// The CNI plugin that gives pods a MAC address on an interface of the node
    Macvlan,
    /// The CNI plugin that gives out addresses of one node
    HostLocal,
}

/// Files of a module that are kept beside the program which was built from it, because it is of no use without them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) module: &'static str,
    /// The file, as it is called in the module.
    pub(super) path: &'static str,
}

/// The kinds of objects that whereabouts reads and writes.
const WHEREABOUTS_KINDS: &[Kept] = &[
    Kept { module: WHEREABOUTS, path: "doc/crds/whereabouts.cni.cncf.io_ippools.yaml" },
    Kept { module: WHEREABOUTS, path: "doc/crds/whereabouts.cni.cncf.io_nodeslicepools.yaml" },
    Kept { module: WHEREABOUTS, path: "doc/crds/whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml" },
    Kept { module: NETWORKS, path: "artifacts/networks-crd.yaml" },
];
const WHEREABOUTS: &str = "github.com/k8snetworkplumbingwg/whereabouts";
const PLUGINS: &str = "github.com/containernetworking/plugins/plugins";
const NETWORKS: &str = "github.com/k8snetworkplumbingwg/network-attachment-definition-client";

/// How a part is built.
pub(super) struct Recipe {
    /// What `go` is told to do.
    pub(super) verb: &'static [&'static str],
    /// The folder below `xtask/parts` whose go.mod names the versions.
    pub(super) module: &'static str,
    /// The package of its `main` or of its tests.
    pub(super) package: String,
    pub(super) flags: Vec<String>,
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// What is kept of its modules besides the program.
    pub(super) kept: &'static [Kept],
}

impl Part {
    /// Every part, the quickest build first.
    pub(crate) const ALL: [Self; 11] = [
        Self::Cnitool,
        Self::Bridge,
        Self::Macvlan,
        Self::HostLocal,
        Self::Etcd,
        Self::Whereabouts,
        Self::NodeSliceController,
        Self::Kubectl,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::EndToEndTests,
    ];

    /// The name of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::EndToEndTests => "e2e.test",
            Self::Whereabouts => "whereabouts",
            Self::NodeSliceController => "node-slice-controller",
            Self::Cnitool => "cnitool",
            Self::Bridge => "bridge",
            Self::Macvlan => "macvlan",
            Self::HostLocal => "host-local",
        }
    }

    /// The version that is built, as the go.mod in `xtask/parts` has it.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Etcd => "3.7.3",
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager | Self::EndToEndTests => "1.36.3",
            Self::Whereabouts | Self::NodeSliceController => "0.9.4",
            Self::Cnitool => "1.3.1",
            Self::Bridge | Self::Macvlan | Self::HostLocal => "1.9.1",
        }
    }

    /// How it is asked which version it is, where it can be asked that.
    pub(super) fn version_flag(self) -> Option<&'static str> {
        match self {
            Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager | Self::EndToEndTests => Some("--version"),
            _ => None,
        }
    }

    /// Whether it is a CNI plugin, which is asked which versions of CNI it speaks.
    pub(super) fn is_plugin(self) -> bool {
        matches!(self, Self::Whereabouts | Self::Bridge | Self::Macvlan | Self::HostLocal)
    }

    pub(super) fn recipe(self) -> Recipe {
        let stamps = match self {
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager | Self::EndToEndTests => {
                stamps(self.version())
            }
            _ => String::new(),
        };
        Recipe {
            verb: if self == Self::EndToEndTests { &["test", "-c", "-vet=off"] } else { &["build"] },
            module: self.module(),
            package: self.package(),
            flags: vec!["-trimpath".to_owned(), format!("{STRIPPED}{stamps}")],
            variables: VARIABLES,
            kept: if self == Self::Whereabouts { WHEREABOUTS_KINDS } else { &[] },
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager => "kubernetes",
            // A module of its own: one that had its dependencies too would have the others built again.
            Self::EndToEndTests => "kubernetes-e2e",
            Self::Whereabouts | Self::NodeSliceController => "whereabouts",
            Self::Cnitool | Self::Bridge | Self::Macvlan | Self::HostLocal => "cni",
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager => {
                format!("k8s.io/kubernetes/cmd/{}", self.name())
            }
            Self::EndToEndTests => "k8s.io/kubernetes/test/e2e".to_owned(),
            Self::Whereabouts => format!("{WHEREABOUTS}/cmd"),
            Self::NodeSliceController => format!("{WHEREABOUTS}/cmd/nodeslicecontroller"),
            Self::Cnitool => "github.com/containernetworking/cni/cnitool".to_owned(),
            Self::Bridge | Self::Macvlan => format!("{PLUGINS}/main/{}", self.name()),
            Self::HostLocal => format!("{PLUGINS}/ipam/{}", self.name()),
        }
    }
}

impl Recipe {
    /// Everything that decides what a build produces, as text: equal inputs, equal part. `modules` is `xtask/parts`.
    pub(super) fn inputs(&self, modules: &Path) -> Result<String> {
        let mut inputs = format!("{:?} go {} {:?} {}\n", self.variables, self.verb.join(" "), self.flags, self.package);
        for kept in self.kept {
            let _ = writeln!(inputs, "{} of {}", kept.path, kept.module);
        }
        for lock in LOCKS {
            let path = modules.join(self.module).join(lock);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            inputs.push_str(&text);
        }
        Ok(inputs)
    }
}

/// Linker flags that write the version into a Kubernetes program.
fn stamps(version: &str) -> String {
    let mut parts = version.split('.');
    let mut next = || parts.next().unwrap_or_default();
    let fields = [("gitVersion", format!("v{version}")), ("gitMajor", next().into()), ("gitMinor", next().into())];
    let stamp = |package| fields.iter().map(move |(field, value)| format!(" -X {package}.{field}={value}"));
    VERSION_PACKAGES.iter().flat_map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::repo_root;

    #[test]
    fn the_version_of_a_part_is_the_one_its_module_requires() {
        for part in Part::ALL {
            let recipe = part.recipe();
            let module =
                fs::read_to_string(repo_root().join("xtask/parts").join(recipe.module).join("go.mod")).unwrap();
            let package = recipe.package.as_str();
            let required = module.lines().filter_map(|line| line.trim().strip_suffix(" // indirect")?.split_once(' '));
            let holds =
                |name: &str| package.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let (_, version) = required.filter(|(name, _)| holds(name)).max_by_key(|(name, _)| name.len()).unwrap();
            assert_eq!(version, format!("v{}", part.version()), "{package} in {}/go.mod", recipe.module);
            assert!(module.contains(&format!("{package}\n")), "{package} is no tool there");
        }
    }

    #[test]
    fn every_staging_module_is_of_the_same_release() {
        let minor = Part::KubeApiserver.version().strip_prefix("1.").unwrap();
        for part in [Part::KubeApiserver, Part::EndToEndTests] {
            let folder = repo_root().join("xtask/parts").join(part.recipe().module);
            let module = fs::read_to_string(folder.join("go.mod")).unwrap();
            let replaced: Vec<_> = module.lines().filter_map(|line| line.trim().split_once(" => ")).collect();
            assert!(replaced.len() > 20, "{replaced:?}");
            for (name, by) in replaced {
                assert_eq!(by, format!("{name} v0.{minor}"));
            }
        }
    }

    #[test]
    fn a_kubernetes_program_knows_its_version() {
        let stamps = stamps("1.36.3");
        for stamp in ["component-base/version.gitVersion=v1.36.3 ", "client-go/pkg/version.gitMinor=36"] {
            assert!(stamps.contains(stamp), "{stamps}");
        }
    }

    #[test]
    fn another_flag_is_another_input() {
        let modules = repo_root().join("xtask/parts");
        let mut recipe = Part::Etcd.recipe();
        let before = recipe.inputs(&modules).unwrap();
        recipe.flags.push("-race".to_owned());
        assert_ne!(recipe.inputs(&modules).unwrap(), before);
    }
}
