//! The flags of `cadastre up`, and what they mean for the parts.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use controllers::node::execute;
use controllers::slice;
use server::access::credentials::{Credentials, GivenIdentity};
use server::access::pki::ServerName;
use server::front::Limits;
use space::Family;
use store::embedded::{self, DirLock};
use store::{Store, etcd};

use super::nodes;
use super::ranges::{PortRange, ServiceRanges};
use crate::node_ipam::NodeIpam;
use crate::slices::Slices;
use crate::time::time;

/// Where everything is kept, if nothing else is said.
pub(crate) const DATA_DIR: &str = "./cadastre-data";

/// The names by which Pods know an API server.
const CLUSTER_NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Serve the API.
///
/// The first start makes the data directory: the store, a certificate authority with a serving certificate, an
/// administrator's kubeconfig (DIR/kubeconfig) and bearer token (DIR/admin-token), all readable by their owner only. Later
/// starts find it all there. When the server is ready it prints one line that says where, and two kubectl commands to try.
///
/// SIGTERM and ctrl-c end it cleanly: requests come to their end, watches are ended; a second one ends it at once. Killing it
/// loses nothing that was acknowledged.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = DATA_DIR)]
    pub(super) data_dir: PathBuf,
    /// Where to listen; port 0 is any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub(super) listen: SocketAddr,
    /// The address to publish for Pods, as one of those of default/kubernetes [default: the one of --listen or, if
    /// that is all, the one that leads outside]. A loopback address is not published
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// How default/kubernetes is kept: with a Lease for each server that shares the etcd, or not at all
    #[arg(long, value_name = "TYPE", default_value = "lease")]
    endpoint_reconciler_type: Reconciler,

    /// Keep objects in this etcd instead of DIR; several servers may share it
    #[arg(long, value_name = "URL,...", value_delimiter = ',', help_heading = "etcd")]
    etcd_servers: Vec<String>,
    /// What every key in etcd begins with
    #[arg(long, value_name = "PREFIX", default_value = "/cadastre", help_heading = "etcd")]
    etcd_prefix: String,
    /// The authority that signed etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd_servers", help_heading = "etcd")]
    etcd_cafile: Option<PathBuf>,
    /// The client certificate to show to etcd
    #[arg(long, value_name = "FILE", requires_all = ["etcd_keyfile", "etcd_cafile"], help_heading = "etcd")]
    etcd_certfile: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile", help_heading = "etcd")]
    etcd_keyfile: Option<PathBuf>,

    /// Another name or address under which clients reach the server; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Who may come in")]
    tls_san: Vec<ServerName>,
    /// Serve with this certificate instead of one of our own: first the server's, then those that lead to its authority
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = "Who may come in")]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = "Who may come in")]
    tls_private_key_file: Option<PathBuf>,
    /// Also let in clients with certificates of these authorities: the common name is the user, organizations are groups
    #[arg(long, value_name = "FILE", help_heading = "Who may come in")]
    client_ca_file: Option<PathBuf>,
    /// Bearer tokens, one for each line: TOKEN,USER,UID,"GROUP1,GROUP2" [default: DIR/tokens.csv if it is there]
    #[arg(long, value_name = "FILE", help_heading = "Who may come in")]
    token_auth_file: Option<PathBuf>,
    /// Sign the tokens of service accounts with this key (P-256, PEM) instead of DIR/pki/service-account.key; servers on one
    /// etcd need the same one to take each other's tokens
    #[arg(long, value_name = "FILE", help_heading = "Who may come in")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Who signs the tokens of service accounts, and who they are for if nothing else is said
    #[arg(long, value_name = "URL", default_value = server::access::accounts::ISSUER, help_heading = "Who may come in")]
    service_account_issuer: String,

    /// Where Service IPs come from: a range, or one of each family, the preferred first. The first address is the server's own
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.0.0.0/24", help_heading = "Services")]
    pub(super) service_cluster_ip_range: ServiceRanges,
    /// Where node ports come from
    #[arg(long, value_name = "FROM-TO", default_value = "30000-32767", help_heading = "Services")]
    pub(super) service_node_port_range: PortRange,

    /// How long Events stay after their last write
    #[arg(long, value_name = "TIME", default_value = "1h0m0s", value_parser = time, help_heading = "Lifecycle")]
    pub(super) event_ttl: Duration,
    /// Leave dependents, namespaces, the finalizers of ranges and the pod CIDRs of nodes alone, because kube-controller-manager
    /// looks after them
    #[arg(long, help_heading = "Lifecycle")]
    no_lifecycle: bool,
    /// Run no controllers: nodes get no pod CIDRs and no slices from this server
    #[arg(long, help_heading = "Lifecycle")]
    no_controllers: bool,

    #[command(flatten)]
    node_ipam: NodeIpam,
    #[command(flatten)]
    slices: Slices,

    /// How long a request may take, watches aside
    #[arg(long, value_name = "TIME", default_value = "1m0s", value_parser = time, help_heading = "Limits")]
    pub(super) request_timeout: Duration,
    /// How large the body of a request may be
    #[arg(long, value_name = "BYTES", default_value_t = server::MOST_REQUEST_BYTES, help_heading = "Limits")]
    pub(super) max_request_bytes: usize,
    /// How many connections there may be at one time; more wait
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Limits::default().connections,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    max_connections: u32,
    /// How many requests, watches included, there may be at one time on one HTTP/2 connection
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = Limits::default().streams,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Limits"
    )]
    http2_max_streams_per_connection: u32,
    /// How long requests may go on after a shutdown began
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = time, help_heading = "Limits")]
    shutdown_timeout: Duration,
}

/// How default/kubernetes is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reconciler {
    /// By all servers together, each with a Lease
    Lease,
    /// Not at all
    None,
}

const EXAMPLES: &str = "\
Groups: system:masters may do everything; cadastre:readers may read everything but Secrets; who is in neither sees what
kinds there are, and nothing of them. Without certificate or token there is only health and version.

Examples:
  Try it:
    cadastre up
    kubectl --kubeconfig cadastre-data/kubeconfig get namespaces
  Serve to other machines:
    cadastre up --data-dir /var/lib/cadastre --listen 0.0.0.0:6443 --tls-san api.example.com
  Let somebody read:
    echo \"$(openssl rand -hex 32),jane,1,cadastre:readers\" >> cadastre-data/tokens.csv   (then start again)
  Several servers on one etcd:
    cadastre up --etcd-servers https://10.0.0.1:2379,https://10.0.0.2:2379 --etcd-cafile ca.crt \\
      --etcd-certfile client.crt --etcd-keyfile client.key";

impl Options {
    /// What the data directory has to hold for a server on this address.
    pub(super) fn credentials(&self, address: SocketAddr) -> Credentials {
        let reached = SocketAddr::new(reachable(address.ip()), address.port());
        Credentials {
            folder: self.data_dir.clone(),
            names: self.names(address.ip()),
            server: format!("https://{reached}"),
            given_identity: self
                .tls_cert_file
                .clone()
                .zip(self.tls_private_key_file.clone())
                .map(|(certificate, key)| GivenIdentity { certificate, key }),
            given_client_authority: self.client_ca_file.clone(),
            given_tokens: self.token_auth_file.clone(),
            given_account_key: self.service_account_signing_key_file.clone(),
            issuer: self.service_account_issuer.clone(),
        }
    }

    fn names(&self, listen: IpAddr) -> BTreeSet<ServerName> {
        let mut names: BTreeSet<ServerName> = self.tls_san.iter().cloned().collect();
        names.extend(CLUSTER_NAMES.map(|name| ServerName::Dns(name.to_owned())));
        names.extend([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), reachable(listen)].map(ServerName::Ip));
        names.extend(self.service_cluster_ip_range.first_addresses().map(ServerName::Ip));
        // A machine may be called something that is no DNS name; nobody reaches it by that then.
        names.extend(rustix::system::uname().nodename().to_str().ok().and_then(|name| name.parse().ok()));
        names
    }

    /// What Pods are told that the server is reached at, if they are told.
    pub(super) fn published(&self, address: SocketAddr) -> Option<SocketAddr> {
        let ip = self.advertise_address.unwrap_or_else(|| match address.ip() {
            ip if ip.is_unspecified() => outward(ip),
            ip => ip.to_canonical(),
        });
        (self.endpoint_reconciler_type == Reconciler::Lease).then(|| SocketAddr::new(ip, address.port()))
    }

    /// Refuses an address to publish for Pods that is not of the family of the Service by which they reach it, in the words of
    /// kube-apiserver. One that nobody named is left as it is.
    pub(super) fn agree_on_family(&self) -> Result<()> {
        let Some(address) = self.advertise_address.filter(|_| self.endpoint_reconciler_type == Reconciler::Lease)
        else {
            return Ok(());
        };
        let (ranges, address) = (self.service_cluster_ip_range.ranges(), address.to_canonical());
        let Some(first) = ranges.first() else { return Ok(()) };
        let is_v6 = first.family() == Family::V6;
        ensure!(
            is_v6 == address.is_ipv6(),
            "service IP family \"{first}\" must match public address family \"{address}\""
        );
        Ok(())
    }

    /// Whether other servers may use the same store.
    pub(super) fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Whether the server does what elsewhere is left to controllers: it collects dependents, empties namespaces, lets Events expire,
    /// and keeps the ranges of Services.
    pub(super) fn tends(&self) -> bool {
        !self.no_lifecycle
    }

    /// How node IPAM is run in this process, if it is. Where another has the lifecycle, it has that too.
    pub(super) fn node_ipam(&self) -> Result<Option<execute::Options>> {
        let services: Vec<String> = self.service_cluster_ip_range.ranges().iter().map(ToString::to_string).collect();
        let flags = self.node_ipam.flags(services.join(","))?;
        let (settings, write_timeout) = (self.node_ipam.settings(), nodes::WRITE_TIMEOUT);
        Ok(self.controls().then_some(execute::Options { settings, flags, write_timeout }))
    }

    /// How slices are given in this process, if they are.
    pub(super) fn slices(&self) -> Option<slice::execute::Options> {
        let (settings, write_timeout) = (self.slices.settings(), nodes::WRITE_TIMEOUT);
        self.controls().then_some(slice::execute::Options { settings, write_timeout })
    }

    fn controls(&self) -> bool {
        self.tends() && !self.no_controllers
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            streams: self.http2_max_streams_per_connection,
            drain: self.shutdown_timeout,
            ..Limits::default()
        }
    }

    /// Opens the store, which reads all of it, and locks the data directory, which an embedded store does itself.
    pub(super) async fn open_store(&self) -> Result<(Store, Option<DirLock>)> {
        if !self.etcd_servers.is_empty() {
            let store = Store::connect(self.etcd()).await?;
            return Ok((store, Some(DirLock::take(&self.data_dir)?)));
        }
        let folder = self.data_dir.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&folder, embedded::Options::default()));
        Ok((opened.await.context("the store could not be opened")??, None))
    }

    fn etcd(&self) -> etcd::Options {
        let tls = self
            .etcd_cafile
            .clone()
            .map(|ca| etcd::Tls { ca, identity: self.etcd_certfile.clone().zip(self.etcd_keyfile.clone()) });
        etcd::Options { prefix: self.etcd_prefix.clone(), tls, ..etcd::Options::new(&self.etcd_servers) }
    }
}

/// The address by which this machine reaches itself when it listens on that one.
fn reachable(listen: IpAddr) -> IpAddr {
    match listen {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address.to_canonical(),
    }
}

/// The address of this machine from which others would hear; loopback if it has none. Nothing is sent: the addresses asked about
/// are for documentation.
fn outward(listen: IpAddr) -> IpAddr {
    let found = |from: &str, to: &str| -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    found("0.0.0.0:0", "192.0.2.1:9").or_else(|_| found("[::]:0", "[2001:db8::1]:9")).unwrap_or(reachable(listen))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(flags: &[&str]) -> Result<Options, clap::Error> {
        Line::try_parse_from([&["up"], flags].concat()).map(|line| line.options)
    }

    #[test]
    fn the_certificate_has_every_name_by_which_the_server_is_known() {
        let options = options(&["--tls-san", "api.example.com,192.0.2.7", "--service-cluster-ip-range", "10.9.0.0/16"]);
        let names = options.unwrap().names([10, 1, 2, 3].into());
        for name in [
            "localhost",
            "127.0.0.1",
            "::1",
            "10.1.2.3",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "10.9.0.1",
            "api.example.com",
            "192.0.2.7",
        ] {
            assert!(names.contains(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn a_server_on_all_addresses_is_reached_on_this_machine() {
        let server = |listen: &str| {
            let credentials = options(&[]).unwrap().credentials(listen.parse().unwrap());
            credentials.server
        };
        assert_eq!(server("0.0.0.0:6443"), "https://127.0.0.1:6443");
        assert_eq!(server("[::]:6443"), "https://[::1]:6443");
        assert_eq!(server("192.0.2.1:1"), "https://192.0.2.1:1");
    }

    #[test]
    fn what_is_published_is_where_others_reach_the_server() {
        let published = |flags: &[&str], listen: &str| options(flags).unwrap().published(listen.parse().unwrap());
        assert_eq!(published(&[], "10.1.2.3:6443"), "10.1.2.3:6443".parse().ok());
        assert_eq!(published(&["--advertise-address", "192.0.2.7"], "0.0.0.0:1"), "192.0.2.7:1".parse().ok());
        assert!(!published(&[], "0.0.0.0:6443").unwrap().ip().is_unspecified());
        assert_eq!(published(&["--endpoint-reconciler-type", "none"], "10.1.2.3:6443"), None);
    }

    #[test]
    fn an_address_that_is_named_is_of_the_family_that_services_prefer() {
        let agree = |flags: &[&str]| options(flags).unwrap().agree_on_family().map_err(|why| why.to_string());
        let (both, six) = ("10.0.0.0/16,fd00::/112", "fd00::/112");
        assert_eq!(agree(&["--service-cluster-ip-range", six]), Ok(()), "nobody named one");
        for (ranges, address, is_one) in [
            (both, "192.0.2.7", true),
            (both, "::ffff:192.0.2.7", true),
            (both, "2001:db8::7", false),
            (six, "2001:db8::7", true),
            (six, "192.0.2.7", false),
            ("fd00::/112,10.0.0.0/16", "192.0.2.7", false),
        ] {
            let flags = ["--service-cluster-ip-range", ranges, "--advertise-address", address];
            let first = ranges.split(',').next().unwrap();
            let why = format!("service IP family \"{first}\" must match public address family \"{address}\"");
            assert_eq!(agree(&flags), if is_one { Ok(()) } else { Err(why) }, "{ranges} {address}");
            let unpublished = [&flags[..], &["--endpoint-reconciler-type", "none"]].concat();
            assert_eq!(agree(&unpublished), Ok(()));
        }
    }

    #[test]
    fn flags_that_need_each_other_say_so() {
        for (flags, missing) in [
            (&["--tls-cert-file", "a"][..], "--tls-private-key-file"),
            (&["--tls-private-key-file", "a"], "--tls-cert-file"),
            (&["--etcd-cafile", "a"], "--etcd-servers"),
            (&["--etcd-servers", "h:1", "--etcd-certfile", "a", "--etcd-keyfile", "b"], "--etcd-cafile"),
        ] {
            let error = options(flags).err().unwrap().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }
}
