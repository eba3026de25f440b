//! The parts: what each is called, which version of it is built, and how.
//!
//! All that decides what comes out of a build is in [`Recipe::inputs`]. Knows nothing of the cache.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// Files that fix the version of every module of a build.
const LOCKS: [&str; 2] = ["go.mod", "go.sum"];

/// As both projects build their releases: no C, no paths of this machine and no debugging tables in the binary.
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
}

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
}

impl Part {
    /// Every part, the quickest build first.
    pub(crate) const ALL: [Self; 5] =
        [Self::Etcd, Self::Kubectl, Self::KubeApiserver, Self::KubeControllerManager, Self::EndToEndTests];

    /// The name of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::EndToEndTests => "e2e.test",
        }
    }

    /// The version that is built, as the go.mod in `xtask/parts` has it.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Etcd => "3.7.3",
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager | Self::EndToEndTests => "1.36.3",
        }
    }

    pub(super) fn recipe(self) -> Recipe {
        let trimmed = "-trimpath".to_owned();
        match self {
            Self::Etcd => Recipe {
                verb: &["build"],
                module: "etcd",
                package: "go.etcd.io/etcd/server/v3".to_owned(),
                flags: vec![trimmed, STRIPPED.to_owned()],
                variables: VARIABLES,
            },
            Self::Kubectl | Self::KubeApiserver | Self::KubeControllerManager => Recipe {
                verb: &["build"],
                module: "kubernetes",
                package: format!("k8s.io/kubernetes/cmd/{}", self.name()),
                flags: vec![trimmed, format!("{STRIPPED}{}", stamps(self.version()))],
                variables: VARIABLES,
            },
            // A module of its own: one that had its dependencies too would have the others built again.
            Self::EndToEndTests => Recipe {
                verb: &["test", "-c", "-vet=off"],
                module: "kubernetes-e2e",
                package: "k8s.io/kubernetes/test/e2e".to_owned(),
                flags: vec![trimmed, format!("{STRIPPED}{}", stamps(self.version()))],
                variables: VARIABLES,
            },
        }
    }
}

impl Recipe {
    /// Everything that decides what a build produces, as text: equal inputs, equal part. `modules` is `xtask/parts`.
    pub(super) fn inputs(&self, modules: &Path) -> Result<String> {
        let mut inputs = format!("{:?} go {} {:?} {}\n", self.variables, self.verb.join(" "), self.flags, self.package);
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
            let inside = ["/cmd/", "/test/"].into_iter().find_map(|folder| package.split_once(folder));
            let required = inside.map_or(package, |(module, _)| module);
            let line = format!("\t{required} v{} // indirect\n", part.version());
            assert!(module.contains(&line), "{} is not in {}/go.mod", line.trim(), recipe.module);
            assert!(module.contains(&format!("{}\n", recipe.package)), "{} is no tool there", recipe.package);
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
