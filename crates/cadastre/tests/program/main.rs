//! The program as its users run it: real processes, real data directories, real signals.
#![allow(clippy::unwrap_used, reason = "a test that has to give up says where")]

mod process;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use http::Method;
use process::{Controller, Running, cadastre, get};
use serde_json::{Value, json};
use server::access::kubeconfig::Kubeconfig;
use tempfile::TempDir;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "v" } })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn up_says_where_it_is_and_what_to_try() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("my data");
    let running = Running::start(&data, &[]);
    let port = running.server.rsplit_once(':').unwrap().1.to_owned();
    assert_eq!(running.server, format!("https://127.0.0.1:{port}"));
    let kubeconfig = data.join("kubeconfig");
    assert_eq!(
        running.advice,
        ["get namespaces", "api-resources"]
            .map(|rest| format!("kubectl --kubeconfig '{}' {rest}", kubeconfig.display()))
    );
    assert_eq!(Kubeconfig::read(&kubeconfig).unwrap().unwrap().server, running.server);
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn everything_in_the_data_directory_is_for_its_owner_alone() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let running = Running::start(&data, &[]);
    assert_eq!(mode(&data), 0o700);
    for entry in fs::read_dir(&data).unwrap().chain(fs::read_dir(data.join("pki")).unwrap()) {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    drop(running);
}

#[test]
fn a_restart_on_another_port_keeps_objects_and_keys() {
    let home = TempDir::new().unwrap();
    let before = {
        let running = Running::start(home.path(), &[]);
        let (code, _) = running.ask(Method::POST, CONFIGMAPS, Some(&config_map("kept")));
        assert_eq!(code, 201);
        assert_eq!(running.stop(), Some(0));
        Kubeconfig::read(&home.path().join("kubeconfig")).unwrap().unwrap()
    };
    let token = fs::read(home.path().join("admin-token")).unwrap();
    let running = Running::start(home.path(), &[]);
    let after = Kubeconfig::read(&home.path().join("kubeconfig")).unwrap().unwrap();
    assert_eq!((before.authority, before.identity), (after.authority, after.identity));
    assert_eq!(after.server, running.server);
    assert_eq!(fs::read(home.path().join("admin-token")).unwrap(), token);
    assert_eq!(running.ask(Method::GET, &format!("{CONFIGMAPS}/kept"), None).0, 200);
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let home = TempDir::new().unwrap();
    let mut running = Running::start(home.path(), &[]);
    for index in 0..20 {
        assert_eq!(running.ask(Method::POST, CONFIGMAPS, Some(&config_map(&format!("c{index}")))).0, 201);
    }
    running.kill();
    let running = Running::start(home.path(), &[]);
    for index in 0..20 {
        assert_eq!(running.ask(Method::GET, &format!("{CONFIGMAPS}/c{index}"), None).0, 200);
    }
}

#[test]
fn a_port_that_is_taken_is_said_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = home.path().join("data");
    let outcome = cadastre(&["up", "--data-dir", data.to_str().unwrap(), "--listen", &address]);
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains(&format!("cannot listen on {address}: something listens there already")),
        "{outcome:?}"
    );
    assert!(!data.exists());
}

#[test]
fn a_data_directory_that_cannot_be_is_said() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "mine").unwrap();
    for wrong in [file.as_path(), &file.join("below"), Path::new("/proc/cadastre")] {
        let outcome = cadastre(&["up", "--data-dir", wrong.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(wrong.to_str().unwrap()), "{outcome:?}");
        assert_eq!(outcome.stdout, "");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_wrong_file_on_the_command_line_is_said_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let flags = ["--client-ca-file", "/nowhere/ca.crt"];
    let outcome =
        cadastre(&[&["up", "--data-dir", data.to_str().unwrap(), "--listen", "127.0.0.1:0"][..], &flags].concat());
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("/nowhere/ca.crt cannot be read"), "{outcome:?}");
    assert!(!data.exists());
}

#[test]
fn an_address_of_another_family_than_that_of_the_services_is_said_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let flags = ["--listen", "127.0.0.1:0", "--advertise-address", "2001:db8::7"];
    let outcome = cadastre(&[&["up", "--data-dir", data.to_str().unwrap()][..], &flags].concat());
    assert_eq!(outcome.code, Some(1));
    let why = "service IP family \"10.0.0.0/24\" must match public address family \"2001:db8::7\"";
    assert!(outcome.stderr.contains(why), "{outcome:?}");
    assert!(!data.exists());
}

#[test]
fn a_data_directory_in_use_is_said_by_every_command() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &[]);
    let data = home.path().to_str().unwrap();
    let second = cadastre(&["up", "--data-dir", data, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("in use by another process"), "{second:?}");
    let check = cadastre(&["check", "--data-dir", data]);
    assert_eq!(check.code, Some(1));
    assert!(check.stderr.contains("a server is using the store"), "{check:?}");
    drop(running);
}

#[test]
fn a_backup_is_made_with_and_without_a_server_and_restored() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let data = path("data");
    // What the server does by itself would be counted too, or not yet.
    let running = Running::start(Path::new(&data), &["--no-lifecycle"]);
    assert_eq!(running.ask(Method::POST, CONFIGMAPS, Some(&config_map("first"))).0, 201);

    let online = cadastre(&["backup", "--data-dir", &data, &path("online.backup")]);
    assert_eq!(online.code, Some(0), "{online:?}");
    assert!(online.stdout.contains("9 objects at revision"), "{online:?}");
    assert_eq!(mode(Path::new(&path("online.backup"))), 0o600);
    assert_eq!(running.ask(Method::POST, CONFIGMAPS, Some(&config_map("second"))).0, 201, "the server goes on");
    assert_eq!(running.stop(), Some(0));

    let at_rest = cadastre(&["backup", "--data-dir", &data, &path("rest.backup")]);
    assert_eq!(at_rest.code, Some(0), "{at_rest:?}");
    assert!(at_rest.stdout.contains("10 objects at revision"), "{at_rest:?}");
    assert_eq!(cadastre(&["check", "--data-dir", &data]).code, Some(0));
    let check = cadastre(&["check", &path("online.backup")]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(check.stdout.contains("sound"), "{check:?}");

    let restored = path("restored");
    let restore = cadastre(&["restore", "--data-dir", &restored, &path("online.backup")]);
    assert_eq!(restore.code, Some(0), "{restore:?}");
    let running = Running::start(Path::new(&restored), &[]);
    assert_eq!(running.ask(Method::GET, &format!("{CONFIGMAPS}/first"), None).0, 200);
    assert_eq!(running.ask(Method::GET, &format!("{CONFIGMAPS}/second"), None).0, 404);
}

#[test]
fn nothing_is_ever_replaced() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let data = path("data");
    assert_eq!(Running::start(Path::new(&data), &[]).stop(), Some(0));
    fs::write(path("mine"), "mine").unwrap();
    let backup = cadastre(&["backup", "--data-dir", &data, &path("mine")]);
    assert_eq!(backup.code, Some(1));
    assert!(backup.stderr.contains("is there already"), "{backup:?}");
    assert_eq!(fs::read_to_string(path("mine")).unwrap(), "mine");
    assert_eq!(cadastre(&["backup", "--data-dir", &data, &path("good")]).code, Some(0));
    let restore = cadastre(&["restore", "--data-dir", &data, &path("good")]);
    assert_eq!(restore.code, Some(1));
    assert!(restore.stderr.contains("there is a store already"), "{restore:?}");
}

#[test]
fn what_is_no_store_is_said() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let backup = cadastre(&["backup", "--data-dir", &path("none"), &path("file")]);
    assert_eq!(backup.code, Some(1));
    assert!(backup.stderr.contains("nothing to back up"), "{backup:?}");
    assert!(!Path::new(&path("none")).exists() && !Path::new(&path("file")).exists());
    fs::write(path("text"), "some text").unwrap();
    for command in [&["check"][..], &["restore", "--data-dir", &path("new")]] {
        let outcome = cadastre(&[command, &[&path("text")]].concat());
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.stderr.contains("not a store of this program"), "{outcome:?}");
    }
    assert!(!Path::new(&path("new")).exists());
}

#[test]
fn only_the_administrator_gets_a_backup() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("tokens.csv"), "t0ken,jane,1,cadastre:readers\n").unwrap();
    let running = Running::start(home.path(), &[]);
    let (code, body) = running.ask_with_token("t0ken", Method::POST, "/cadastre/backup");
    assert_eq!(code, 403, "{body}");
    assert_eq!(body["message"], r#"forbidden: User "jane" cannot post path "/cadastre/backup""#);
    assert_eq!(running.ask_with_token("t0ken", Method::GET, CONFIGMAPS).0, 200);
    assert_eq!(running.ask_with_token("wrong", Method::GET, CONFIGMAPS).0, 401);
    assert_eq!(running.ask(Method::GET, "/cadastre/backup", None).0, 405);
    let token = fs::read_to_string(home.path().join("admin-token")).unwrap();
    assert_eq!(running.ask_with_token(token.trim(), Method::GET, "/cadastre/backup").0, 405);
}

#[test]
fn a_shutdown_ends_watches_and_exits_cleanly() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &[]);
    let watch = running.watch(&format!("{CONFIGMAPS}?watch=true"));
    assert_eq!(running.stop(), Some(0));
    watch.join().unwrap().unwrap();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &["--shutdown-timeout", "10m"]);
    let stuck = running.send_half(CONFIGMAPS);
    running.signal();
    running.wait_for_log("shutting down");
    assert_eq!(running.stop(), Some(1));
    drop(stuck);
}

#[test]
fn help_shows_how() {
    for command in
        ["up", "backup", "restore", "check", "controller", "controller node", "controller slice", "manifests"]
    {
        let help = cadastre(&[&command.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat());
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Examples:"), "{command}: {}", help.stdout);
        assert!(help.stdout.lines().count() > 15, "{command}: {}", help.stdout);
    }
    assert!(cadastre(&["--help"]).stdout.contains("cadastre up"));
    assert_eq!(cadastre(&["up", "--listen", "nowhere"]).code, Some(2));
}

const NODES: &str = "/api/v1/nodes";
const RANGES: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/node-ipam-controller";

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

/// Waits until a node has a block.
fn pod_cidr(running: &Running, name: &str) -> String {
    loop {
        let (code, node) = running.ask(Method::GET, &format!("{NODES}/{name}"), None);
        assert_eq!(code, 200, "{node}");
        if let Some(cidr) = node["spec"]["podCIDR"].as_str() {
            return cidr.to_owned();
        }
    }
}

#[test]
fn up_gives_nodes_their_blocks_unless_it_is_told_not_to() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &["--cluster-cidr", "10.244.0.0/16"]);
    assert_eq!(running.ask(Method::POST, NODES, Some(&node("a"))).0, 201);
    assert_eq!(pod_cidr(&running, "a"), "10.244.0.0/24");
    // What the controllers in it count is among what it counts.
    while !["node_ipam_controller_leading 1", "cadastre_slice_leading 1"]
        .into_iter()
        .all(|line| running.text("/metrics").contains(line))
    {}
    assert_eq!(running.stop(), Some(0));
    for flag in ["--no-controllers", "--no-lifecycle"] {
        let running = Running::start(home.path(), &[flag, "--cluster-cidr", "10.245.0.0/16"]);
        let (_, ranges) = running.ask(Method::GET, RANGES, None);
        let ranges = ranges["items"].as_array().unwrap();
        assert_eq!(ranges.len(), 1, "no controller made the range that the flags say: {ranges:?}");
        assert_eq!(ranges[0]["spec"]["ipv4"], "10.244.0.0/16");
        assert_eq!(running.stop(), Some(0));
    }
}

#[test]
fn a_controller_serves_the_nodes_of_another_server_and_gives_up_its_lease() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &["--no-controllers"]);
    let kubeconfig = home.path().join("kubeconfig");
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--webserver-bind-address", "127.0.0.1:0"];
    let mut controller = Controller::start(&[&kubeconfig[..], &["--leader-elect-id", "me"]].concat());
    let address = controller.wait_for_log("shows health and metrics");
    let address = address.rsplit_once("address=").unwrap().1.trim().to_owned();
    let range = json!({
        "apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": { "name": "r" },
        "spec": { "perNodeHostBits": 8, "ipv4": "10.1.0.0/16" },
    });
    assert_eq!(running.ask(Method::POST, NODES, Some(&node("a"))).0, 201);
    while !get(&address, "/metrics").1.contains("node_ipam_controller_waiting_nodes 1\n") {}
    assert_eq!(running.ask(Method::POST, RANGES, Some(&range)).0, 201);
    assert_eq!(pod_cidr(&running, "a"), "10.1.0.0/24");
    while !get(&address, "/metrics").1.contains("node_ipam_controller_allocation_latency_seconds_count 1\n") {}
    assert_eq!(running.ask(Method::GET, LEASE, None).1["spec"]["holderIdentity"], "me");
    assert_eq!(get(&address, "/readyz"), (200, "ok".to_owned()));
    assert_eq!(get(&address, "/healthz").0, 200);
    assert_eq!(get(&address, "/other").0, 404);
    let (code, metrics) = get(&address, "/metrics");
    assert_eq!(code, 200);
    assert!(metrics.contains("node_ipam_controller_leading 1"), "{metrics}");
    assert_eq!(controller.stop(), Some(0));
    assert_eq!(running.ask(Method::GET, LEASE, None).1["spec"]["holderIdentity"], "");
    // Another begins at once, and alone if it is told to.
    let mut other = Controller::start(&[&kubeconfig[..], &["--leader-elect=false"]].concat());
    assert_eq!(running.ask(Method::POST, NODES, Some(&node("b"))).0, 201);
    assert_eq!(pod_cidr(&running, "b"), "10.1.1.0/24");
    assert_eq!(other.stop(), Some(0));
}

#[test]
fn a_controller_says_what_is_wrong_with_its_command_line() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("kubeconfig");
    fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
    let file = file.to_str().unwrap();
    for (flags, said) in [
        (&[][..], "no cluster: give --kubeconfig FILE, or run in a Pod"),
        (&["--kubeconfig", "/nowhere"], "cannot use the kubeconfig /nowhere"),
        (&["--kubeconfig", file], "cannot use the kubeconfig"),
        (&["--cluster-cidr", "x"], "--cluster-cidr: \"x\": it has no prefix length"),
        (&["--webserver-bind-address", "x"], "--webserver-bind-address x: expected ADDRESS:PORT"),
    ] {
        let outcome = cadastre(&[&["controller", "node"], flags].concat());
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains(said), "{outcome:?}");
    }
    for flags in [&["--leader-elect=perhaps"][..], &["--leader-elect-lease-duration", "15"], &["--context", "c"]] {
        assert_eq!(cadastre(&[&["controller", "node"], flags].concat()).code, Some(2));
    }
}

#[test]
fn the_definitions_for_other_servers_are_yaml() {
    let crds = cadastre(&["manifests", "crds"]);
    assert_eq!(crds.code, Some(0), "{crds:?}");
    assert!(crds.stdout.starts_with("---\n"), "{}", crds.stdout);
    for name in ["clustercidrs.networking.x-k8s.io", "nodeslicepools.whereabouts.cni.cncf.io"] {
        assert!(crds.stdout.contains(&format!("name: {name}")), "{}", crds.stdout);
    }
    let rbac = cadastre(&["manifests", "rbac", "--namespace", "here"]);
    assert_eq!(rbac.stdout.matches("---\n").count(), 15, "{rbac:?}");
    // The waybill stays where it is, wherever the controller is.
    for namespace in ["here", "kube-system"] {
        assert!(rbac.stdout.contains(&format!("namespace: {namespace}")), "{}", rbac.stdout);
    }
    let beside = cadastre(&["manifests", "rbac"]);
    assert_eq!(beside.stdout.matches("---\n").count(), 13, "{beside:?}");
}
