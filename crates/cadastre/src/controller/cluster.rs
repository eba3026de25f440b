//! Which cluster, and as whom: a kubeconfig, or what a Pod finds in its container.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use http::Uri;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::BoxError;
use tower::util::MapErrLayer;

/// How long a connection is kept that nobody uses. A burst of writes has many at a time, each with buffers of its own.
const IDLE: Duration = Duration::from_secs(2);
/// After how long a connection on which nothing comes is asked for a sign of life, how often, and how many of these may be missed. A watch
/// only listens: without this it would not notice that the server let it go while the network was cut.
const SILENCE: Duration = Duration::from_secs(15);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

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
        let client = client(config).with_context(|| format!("cannot talk to {server}"))?;
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

/// A client that keeps few connections. What only the usual one can do, proxies and credentials of other programs, it does.
fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return Client::try_from(config);
    }
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain.set_connect_timeout(config.connect_timeout);
    plain.set_keepalive(Some(SILENCE));
    plain.set_keepalive_interval(Some(PROBE));
    plain.set_keepalive_retries(Some(PROBES));
    let secure = config.rustls_https_connector_with_connector(plain)?;
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(secure);
    let builder = ClientBuilder::new(http, config.default_namespace.clone())
        .with_layer(&MapErrLayer::new(BoxError::from))
        .with_layer(&config.extra_headers_layer()?);
    let to_server = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&to_server).build(),
        None => builder.with_layer(&to_server).build(),
    })
}
