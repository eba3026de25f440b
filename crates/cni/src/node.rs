//! What the plugin has to know of the machine that it is on: its name, its boot, and whether a namespace is still there.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::allocate::Liveness;
use crate::journal::{BootId, Holding, Netns, Origin, Reason};

/// Says which boot it is, instead of the system: for trying out several nodes, and their reboots, on one machine.
pub const BOOT_VARIABLE: &str = "CADASTRE_BOOT_ID";
/// A name of a node is at most this long; what is behind that in a file is something else.
const LONGEST_NAME: usize = 1024;

/// The boot, or that nobody knows.
pub fn boot(variable: &str) -> BootId {
    let said = if variable.is_empty() { short("/proc/sys/kernel/random/boot_id".as_ref()).ok() } else { None };
    BootId::read(said.as_deref().unwrap_or(variable)).unwrap_or(BootId::UNKNOWN)
}

/// Sixteen random bytes, from the system.
pub fn random() -> io::Result<[u8; 16]> {
    let text = short("/proc/sys/kernel/random/uuid".as_ref())?;
    BootId::read(&text).map(|id| id.0).ok_or_else(|| io::Error::from(ErrorKind::InvalidData))
}

/// The name of the node: what `NODENAME` says, or else the file `nodename` where the shared configuration is, or else `/etc/hostname`.
pub fn name(variable: &str, configuration_path: &str) -> String {
    if !variable.is_empty() {
        return variable.to_owned();
    }
    let configured = Path::new(configuration_path);
    let beside = configured.parent().unwrap_or(configured);
    let files = [configured.join("nodename"), beside.join("nodename"), "/etc/hostname".into()];
    let configured_files = if configuration_path.is_empty() { &files[2..] } else { &files[..] };
    configured_files.iter().find_map(|path| short(path).ok().filter(|text| !text.is_empty())).unwrap_or_default()
}

/// The beginning of a small file, without space around it.
fn short(path: &Path) -> io::Result<String> {
    let mut bytes = [0; LONGEST_NAME];
    let read = File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..read]).trim().to_owned())
}

/// The namespace at a path, as it is now; without numbers if it cannot be looked at.
pub fn netns(path: &str) -> Netns<'_> {
    let numbers = fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let (device, inode) = numbers.unwrap_or_default();
    Netns { path: path.into(), device, inode }
}

/// Whether a namespace is the one that this process is in.
pub fn is_own(netns: &Netns<'_>) -> bool {
    let is_same = |own: Netns<'_>| (own.device, own.inode) == (netns.device, netns.inode);
    netns.inode != 0 && is_same(self::netns("/proc/self/ns/net"))
}

/// Whether the namespace of a holding is still there, as far as can be seen from where the namespace `here` is seen.
///
/// No namespace outlives the machine's boot. Otherwise it is gone only if there is no doubt: it was seen when the address was given, `here`
/// is in the same folder and is seen, so the folder is the same one, and there is nothing at its path, or another namespace.
/// The file that a namespace is mounted on is no namespace: who sees that looks at another tree of mounts.
pub fn liveness(holding: &Holding<'_>, here: &Netns<'_>, boot: BootId) -> Liveness {
    liveness_where(holding, boot, |netns| here.inode != 0 && folder(&netns.path) == folder(&here.path))
}

/// The same for who is not called for a pod, and has to know from elsewhere whether this is the tree of mounts in which the
/// namespace would be: `is_visible` says so, and is asked only where it decides something.
pub fn liveness_where(holding: &Holding<'_>, boot: BootId, is_visible: impl FnOnce(&Netns<'_>) -> bool) -> Liveness {
    let is_nobodys = holding.origin == Origin::Owed && !holding.is_under_way();
    if holding.origin == Origin::Foreign || is_nobodys {
        return Liveness::Unknown;
    }
    if holding.boot.is_before(boot) {
        return Liveness::Gone(Reason::Rebooted);
    }
    if holding.netns.inode == 0 {
        return Liveness::Unknown;
    }
    let is_gone = match fs::metadata(&*holding.netns.path) {
        Ok(file) if file.dev() != holding.netns.device => false,
        Ok(file) if file.ino() == holding.netns.inode => return Liveness::Alive,
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    if is_gone && is_visible(&holding.netns) { Liveness::Gone(Reason::NetnsGone) } else { Liveness::Unknown }
}

/// Of a folder, so many files are looked at.
const LOOKED_AT: usize = 1024;

/// Whether a namespace that was seen once would be seen if it were there: its folder is on the device that it was on itself, or
/// has other files of that device, as a folder has in which namespaces are mounted. Of `/proc` nobody can say: numbers of
/// processes may mean others there.
pub fn is_visible(netns: &Netns<'_>) -> bool {
    let folder = folder(&netns.path);
    let is_same = |path: &Path| fs::metadata(path).is_ok_and(|file| file.dev() == netns.device);
    if folder == "/proc" || folder.is_empty() {
        return false;
    }
    let files = || fs::read_dir(folder).into_iter().flatten().flatten().take(LOOKED_AT);
    is_same(folder.as_ref()) || files().any(|file| is_same(&file.path()))
}

/// The folder that namespaces are in; all of `/proc` is one, though each process has its own below it.
fn folder(path: &str) -> &str {
    if path.starts_with("/proc/") { "/proc" } else { path.rsplit_once('/').map_or("", |(folder, _)| folder) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Ips;

    const NOW: BootId = BootId([1; 16]);

    fn holding(netns: Netns<'_>) -> Holding<'_> {
        Holding {
            sequence: 1,
            at: 0,
            boot: NOW,
            origin: Origin::Add,
            container: "c".into(),
            ifname: "net1".into(),
            conf: "".into(),
            pod: "".into(),
            uid: "".into(),
            netns,
            home: "".into(),
            ips: Ips::of(&[]),
        }
    }

    #[test]
    fn a_namespace_is_gone_only_when_there_is_no_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [mine, other] = [path("mine"), path("other")];
        fs::write(&mine, "").unwrap();
        fs::write(&other, "").unwrap();
        let here = netns(&mine);
        let seen = holding(netns(&other));
        assert_eq!(liveness(&seen, &here, NOW), Liveness::Alive);

        let gone = Liveness::Gone(Reason::NetnsGone);
        let replaced = Netns { inode: seen.netns.inode + 1, ..seen.netns.clone() };
        assert_eq!(liveness(&holding(replaced), &here, NOW), gone);
        let mounted_on = Netns { device: seen.netns.device + 1, ..seen.netns.clone() };
        assert_eq!(liveness(&holding(mounted_on), &here, NOW), Liveness::Unknown);

        fs::remove_file(&other).unwrap();
        assert_eq!(liveness(&seen, &here, NOW), gone);
        let foreign = Holding { origin: Origin::Foreign, ..seen.clone() };
        assert_eq!(liveness(&foreign, &here, NOW), Liveness::Unknown);
        let never_seen = Netns { inode: 0, ..seen.netns.clone() };
        assert_eq!(liveness(&holding(never_seen), &here, NOW), Liveness::Unknown);
        assert_eq!(liveness(&seen, &netns("/nonexistent/x"), NOW), Liveness::Unknown);
        assert_eq!(liveness(&seen, &netns("/proc/self/ns/net"), NOW), Liveness::Unknown);

        assert_eq!(liveness_where(&seen, NOW, is_visible), gone, "the folder is on the device that it was on");
        let mounted = holding(Netns { device: seen.netns.device + 1, ..seen.netns.clone() });
        assert_eq!(liveness_where(&mounted, NOW, is_visible), Liveness::Unknown, "nothing is mounted here");
        let elsewhere = holding(Netns { path: "/nonexistent/x".into(), ..seen.netns.clone() });
        assert_eq!(liveness_where(&elsewhere, NOW, is_visible), Liveness::Unknown);
        let process = holding(Netns { path: "/proc/4194305/ns/net".into(), ..netns("/proc/self/ns/net") });
        assert_eq!(liveness_where(&process, NOW, is_visible), Liveness::Unknown);

        assert_eq!(liveness(&seen, &netns(""), BootId([2; 16])), Liveness::Gone(Reason::Rebooted));
        assert_eq!(liveness(&seen, &netns(""), BootId::UNKNOWN), Liveness::Unknown);
    }

    #[test]
    fn the_own_namespace_is_known_whatever_its_path() {
        let path = format!("/proc/{}/ns/net", std::process::id());
        assert!(is_own(&netns(&path)));
        assert!(!is_own(&netns("/etc")) && !is_own(&netns("/nonexistent")));
    }

    #[test]
    fn a_node_has_the_name_that_is_said_nearest() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("whereabouts.conf");
        let [inside, file] = [folder.path(), &file].map(|path| path.to_str().unwrap());
        fs::write(folder.path().join("nodename"), "  worker-7\n").unwrap();
        assert_eq!(name("said", inside), "said");
        assert_eq!(name("", inside), "worker-7");
        assert_eq!(name("", file), "worker-7");
        let host = fs::read_to_string("/etc/hostname").unwrap_or_default();
        assert_eq!(name("", ""), host.trim());
    }

    #[test]
    fn a_boot_is_what_is_said_or_what_the_system_says() {
        let said = "1c9a3bd8-4c0d-4d5c-8c63-6a3f6e9a3c11";
        assert_eq!(Some(boot(said)), BootId::read(said));
        assert_eq!(boot("nonsense"), BootId::UNKNOWN);
        assert_eq!(boot(""), boot(""));
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
