//! Which cluster, and as whom: a kubeconfig, or what a Pod finds in its container.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use http::Uri;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[derive(Args)]
pub(crate) struct ClusterOptions {
    /// The kubeconfig of the cluster [default: what a Pod finds in its container]
    #[arg(long, value_name = "FILE", env = "IPAM_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Where the API server is, if not where the kubeconfig or the container says
    #[arg(long, value_name = "URL", env = "IPAM_API_SERVER_URL", alias = "master")]
    apiserver: Option<Uri>,
}

/// A client of the cluster, and the namespace that we are in.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: Option<String>,
}

impl ClusterOptions {
    /// Reads the configuration. Nothing is sent yet.
    pub(crate) async fn connect(&self) -> Result<Cluster> {
        let (mut config, namespace) = match (given(self.kubeconfig.as_deref()), Config::incluster()) {
            (Some(file), _) => (self.read(file).await?, None),
            (None, Ok(config)) => {
                let namespace = config.default_namespace.clone();
                (config, Some(namespace))
            }
            (None, Err(why)) => match &self.apiserver {
                Some(url) => (Config::new(url.clone()), None),
                None => bail!("no cluster: give --kubeconfig FILE, or run in a Pod (here: {why})"),
            },
        };
        if let Some(url) = &self.apiserver {
            config.cluster_url = url.clone();
        }
        // Whoever asks knows best what to do about a refusal, and when.
        config.default_retry = false;
        let server = config.cluster_url.clone();
        let client = Client::try_from(config).with_context(|| format!("cannot talk to {server}"))?;
        Ok(Cluster { client, namespace })
    }

    async fn read(&self, file: &Path) -> Result<Config> {
        let cannot = || format!("cannot use the kubeconfig {}", file.display());
        let kubeconfig = Kubeconfig::read_from(file).with_context(cannot)?;
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(cannot)
    }
}

/// A variable that is set to nothing says nothing.
fn given(file: Option<&Path>) -> Option<&Path> {
    file.filter(|file| !file.as_os_str().is_empty())
}
