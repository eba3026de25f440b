//! What the runtime says in the environment: the command, the attachment, and the arguments.
//!
//! Each command needs some of the variables; those that are missing are told together, as every CNI plugin does.

use std::net::IpAddr;

use space::{Unreadable, tolerant_address};

use crate::failure::{Code, Failure};
use crate::journal::LONGEST_TEXT;

/// What the plugin is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Give addresses to an attachment.
    Add,
    /// Take them back.
    Del,
    /// Say whether it still holds them.
    Check,
    /// Take back those of all attachments that are not listed.
    Gc,
    /// Say whether ADD could be served.
    Status,
    /// Say which versions are spoken.
    Version,
}

impl Command {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Add, "ADD"),
        (Self::Del, "DEL"),
        (Self::Check, "CHECK"),
        (Self::Gc, "GC"),
        (Self::Status, "STATUS"),
        (Self::Version, "VERSION"),
    ];

    fn read(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == text).map(|(command, _)| *command)
    }

    /// Its text.
    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The longest value in `CNI_ARGS`, in bytes: four times what a name in Kubernetes can be.
const LONGEST_VALUE: usize = 1024;
/// The longest name of an interface, in bytes; Linux has one more for the end of the text.
const LONGEST_IFNAME: usize = 15;

/// What the environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_NETNS`.
    pub netns: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`.
    pub args: String,
    /// `CNI_NETNS_OVERRIDE`: the namespace may be the plugin's own.
    pub netns_override: bool,
}

impl Environment {
    /// Reads the variables that `command` needs through `variable`; one that is not set is empty.
    pub fn read(variable: impl Fn(&str) -> String) -> Result<(Command, Self), Failure> {
        let text = variable("CNI_COMMAND");
        let command = Command::read(&text);
        let attachment = matches!(command, Some(Command::Add | Command::Del | Command::Check));
        let netns = matches!(command, Some(Command::Add | Command::Check));
        let path = attachment || matches!(command, Some(Command::Gc | Command::Status));
        let mut missing = Vec::new();
        let mut needed = |name: &'static str, is_needed: bool| {
            let value = variable(name);
            if value.is_empty() && is_needed {
                missing.push(name);
            }
            value
        };
        needed("CNI_COMMAND", true);
        let container = needed("CNI_CONTAINERID", attachment);
        if attachment && !container.is_empty() {
            check_container(&container)?;
        }
        let netns = needed("CNI_NETNS", netns);
        let ifname = needed("CNI_IFNAME", attachment);
        if attachment && !ifname.is_empty() {
            check_ifname(&ifname)?;
        }
        needed("CNI_PATH", path);
        if !missing.is_empty() {
            let message = format!("required env variables [{}] missing", missing.join(","));
            return Err(Failure::new(Code::Environment, message));
        }
        let Some(command) = command else {
            return Err(Failure::new(Code::Environment, format!("unknown CNI_COMMAND: {text}")));
        };
        if netns.len() > LONGEST_TEXT {
            return Err(too_long("CNI_NETNS"));
        }
        let netns_override = variable("CNI_NETNS_OVERRIDE");
        let netns_override = netns_override.eq_ignore_ascii_case("true") || netns_override == "1";
        Ok((command, Self { container, netns, ifname, args: variable("CNI_ARGS"), netns_override }))
    }
}

fn too_long(name: &str) -> Failure {
    Failure::new(Code::Environment, format!("{name} is longer than {LONGEST_TEXT} bytes"))
}

/// Whether a text may name a container or a network: letters, digits, `_`, `.` and `-`, and none of the last three first.
pub fn is_name(text: &str) -> bool {
    let rest = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(rest)
}

fn check_container(text: &str) -> Result<(), Failure> {
    if !is_name(text) {
        return Err(Failure::new(Code::Environment, "invalid characters in CNI_CONTAINERID").with(text));
    }
    if text.len() > LONGEST_TEXT { Err(too_long("CNI_CONTAINERID")) } else { Ok(()) }
}

fn check_ifname(text: &str) -> Result<(), Failure> {
    let flaw = if text.len() > LONGEST_IFNAME {
        "interface name is too long"
    } else if text == "." || text == ".." {
        "interface name is . or .."
    } else if text.contains(|letter: char| matches!(letter, '/' | ':') || letter.is_whitespace()) {
        "interface name contains / or : or whitespace characters"
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::Environment, format!("CNI_IFNAME: {flaw}")).with(text))
}

/// What `CNI_ARGS` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// `K8S_POD_NAME`.
    pub pod_name: String,
    /// `K8S_POD_NAMESPACE`.
    pub pod_namespace: String,
    /// `K8S_POD_UID`.
    pub pod_uid: String,
    /// `IP`: addresses that are asked for.
    pub ips: Vec<IpAddr>,
    /// `GATEWAY`: gateways of the networks they are in.
    pub gateways: Vec<IpAddr>,
}

impl Args {
    /// Reads pairs `KEY=VALUE`, divided by semicolons. Keys that nobody knows are refused unless `IgnoreUnknown` says otherwise.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let refused = |what: String| Failure::new(Code::Environment, format!("CNI_ARGS: {what}"));
        let mut args = Self::default();
        let (mut unknown, mut ignored) = (Vec::new(), false);
        for pair in text.split(';').filter(|_| !text.is_empty()) {
            let split = pair.split_once('=').filter(|(_, value)| !value.contains('='));
            let (key, value) = split.ok_or_else(|| refused(format!("invalid pair \"{pair}\"")))?;
            if value.len() > LONGEST_VALUE {
                return Err(refused(format!("{key} is longer than {LONGEST_VALUE} bytes")));
            }
            let addresses = || addresses(value).map_err(|(item, why)| refused(format!("{key}: {item}: {why}")));
            match key {
                "K8S_POD_NAME" => value.clone_into(&mut args.pod_name),
                "K8S_POD_NAMESPACE" => value.clone_into(&mut args.pod_namespace),
                "K8S_POD_UID" => value.clone_into(&mut args.pod_uid),
                "K8S_POD_INFRA_CONTAINER_ID" => {}
                "IP" => args.ips = addresses()?,
                "GATEWAY" => args.gateways = addresses()?,
                "IgnoreUnknown" => {
                    ignored = match value.to_ascii_lowercase().as_str() {
                        "1" | "true" => true,
                        "0" | "false" => false,
                        _ => return Err(refused(format!("IgnoreUnknown: {value} is neither true nor false"))),
                    }
                }
                _ => unknown.push(pair),
            }
        }
        if !unknown.is_empty() && !ignored {
            return Err(refused(format!(
                "unknown args [{}]; say IgnoreUnknown=true if they do not matter",
                unknown.join(" ")
            )));
        }
        Ok(args)
    }

    /// `namespace/name` of the pod.
    pub fn pod(&self) -> String {
        format!("{}/{}", self.pod_namespace, self.pod_name)
    }
}

/// Addresses, with a prefix length or without, divided by commas.
fn addresses(text: &str) -> Result<Vec<IpAddr>, (&str, Unreadable)> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| bare_address(item).map_err(|why| (item, why))).collect()
}

/// The address of `ADDRESS` or `ADDRESS/LENGTH`.
pub fn bare_address(text: &str) -> Result<IpAddr, Unreadable> {
    if text.contains('/') {
        space::Cidr::tolerant(text)?;
    }
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    Ok(tolerant_address(address)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "some-container-id"),
        ("CNI_NETNS", "/some/netns/path"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/some/cni/path"),
    ];

    fn read(command: &str, change: &[(&str, &str)]) -> Result<(Command, Environment), Failure> {
        let changed = |name: &str| change.iter().find(|(changed, _)| *changed == name).map(|(_, value)| *value);
        Environment::read(|name| {
            let value = if name == "CNI_COMMAND" { Some(command) } else { None };
            let value =
                changed(name).or(value).or(ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value));
            value.unwrap_or_default().to_owned()
        })
    }

    fn refusal(command: &str, change: &[(&str, &str)]) -> String {
        let failure = read(command, change).unwrap_err();
        assert_eq!(failure.code, Code::Environment);
        failure.message
    }

    #[test]
    fn every_command_needs_its_variables_and_no_others() {
        for (command, needs) in [
            ("ADD", "CNI_CONTAINERID CNI_NETNS CNI_IFNAME CNI_PATH"),
            ("CHECK", "CNI_CONTAINERID CNI_NETNS CNI_IFNAME CNI_PATH"),
            ("DEL", "CNI_CONTAINERID CNI_IFNAME CNI_PATH"),
            ("GC", "CNI_PATH"),
            ("STATUS", "CNI_PATH"),
            ("VERSION", ""),
        ] {
            for (name, _) in &ALL[1..] {
                let answer = read(command, &[(name, "")]);
                if needs.split(' ').any(|needed| needed == *name) {
                    assert_eq!(answer.unwrap_err().message, format!("required env variables [{name}] missing"));
                } else {
                    assert_eq!(answer.unwrap().0.text(), command);
                }
            }
        }
    }

    #[test]
    fn all_missing_variables_are_told_together() {
        let missing = [("CNI_CONTAINERID", ""), ("CNI_NETNS", ""), ("CNI_IFNAME", ""), ("CNI_PATH", "")];
        assert_eq!(
            refusal("ADD", &missing),
            "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"
        );
        assert_eq!(refusal("", &[]), "required env variables [CNI_COMMAND] missing");
        assert_eq!(refusal("SING", &[]), "unknown CNI_COMMAND: SING");
    }

    #[test]
    fn names_of_containers_and_interfaces_are_held_to_their_rules() {
        for name in ["-some-id", "some.id!", "a b", "ü", "../x", "_x"] {
            assert!(refusal("ADD", &[("CNI_CONTAINERID", name)]).contains("CNI_CONTAINERID"), "{name}");
            assert!(refusal("DEL", &[("CNI_CONTAINERID", name)]).contains("CNI_CONTAINERID"), "{name}");
        }
        for (name, told) in [
            ("1234567890123456", "too long"),
            (".", ". or .."),
            ("..", ". or .."),
            ("et/h0", "/ or :"),
            ("et:h0", "/ or :"),
            ("et h0", "whitespace"),
            ("et\th0", "whitespace"),
        ] {
            let message = refusal("CHECK", &[("CNI_IFNAME", name)]);
            assert!(message.contains("CNI_IFNAME") && message.contains(told), "{message}");
        }
        assert!(refusal("ADD", &[("CNI_CONTAINERID", &"x".repeat(LONGEST_TEXT + 1))]).contains("longer"));
        assert!(refusal("ADD", &[("CNI_NETNS", &"x".repeat(LONGEST_TEXT + 1))]).contains("CNI_NETNS"));
        // A command that has no attachment does not look at it.
        assert!(read("GC", &[("CNI_CONTAINERID", "-"), ("CNI_IFNAME", "::")]).is_ok());
        assert!(read("ADD", &[("CNI_CONTAINERID", "0_a.B-c"), ("CNI_IFNAME", "123456789012345")]).is_ok());
    }

    #[test]
    fn arguments_are_read_as_runtimes_write_them() {
        let text = "IgnoreUnknown=true;K8S_POD_NAMESPACE=dev;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c1;\
                    K8S_POD_UID=u1;MAC=02:00:00:00:00:01;IP=10.0.0.7/24,fd00::7;GATEWAY=10.0.0.1";
        let args = Args::read(text).unwrap();
        assert_eq!((args.pod().as_str(), args.pod_uid.as_str()), ("dev/web-0", "u1"));
        assert_eq!(args.ips, ["10.0.0.7".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]);
        assert_eq!(args.gateways, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(Args::read("").unwrap(), Args::default());
        assert_eq!(Args::read("IP=").unwrap(), Args::default());
    }

    #[test]
    fn each_flaw_of_the_arguments_is_told_with_its_key() {
        for (text, told) in [
            ("K8S_POD_NAME", "CNI_ARGS: invalid pair \"K8S_POD_NAME\""),
            ("A=b=c", "CNI_ARGS: invalid pair \"A=b=c\""),
            ("IP=ten", "CNI_ARGS: IP: ten: the address part is neither an IPv4 nor an IPv6 address"),
            ("IP=10.0.0.1/33", "CNI_ARGS: IP: 10.0.0.1/33: the prefix length is too long: IPv4 has at most 32"),
            ("GATEWAY=x", "CNI_ARGS: GATEWAY: x: the address part is neither an IPv4 nor an IPv6 address"),
            ("IgnoreUnknown=maybe", "CNI_ARGS: IgnoreUnknown: maybe is neither true nor false"),
            ("MAC=1;X=2", "CNI_ARGS: unknown args [MAC=1 X=2]; say IgnoreUnknown=true if they do not matter"),
        ] {
            assert_eq!(Args::read(text).unwrap_err(), Failure::new(Code::Environment, told));
        }
        let long = Args::read(&format!("K8S_POD_NAME={}", "x".repeat(LONGEST_VALUE + 1))).unwrap_err();
        assert_eq!(long.message, "CNI_ARGS: K8S_POD_NAME is longer than 1024 bytes");
    }
}
