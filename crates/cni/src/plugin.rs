//! One call of the plugin, from what the runtime says to what it is told.
//!
//! Whatever happens, what comes out is one JSON document, or nothing where the protocol wants nothing.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::allocate::{self, Decision, Liveness, Refusal, Request};
use crate::answer::{answer, pretty};
use crate::config::{Conf, Settings, flat};
use crate::environment::{Args, Command, Environment};
use crate::failure::{Code, Failure};
use crate::grants::{Grants, GrantsError};
use crate::journal::{BootId, Holding, Image, Ip, Ips, Journal, JournalError, Netns, Origin, Reason, Record};
use crate::ledger::{commit, now};
use crate::lock::{Lock, LockError, PATIENCE};
use crate::node;
use crate::place::{Place, STATE_DIR_VARIABLE};
use crate::pool::release::{self, Ended};
use crate::pool::{Site, give};
use crate::shortage::Shortage;
use crate::version::Version;

pub use crate::ledger::ended;

/// What is said when nobody asks for anything.
const ABOUT: &str = "CNI IPAM plugin cadastre-cni: pod addresses on secondary networks";

/// What the process prints and how it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For stdout.
    pub stdout: String,
    /// For stderr.
    pub stderr: String,
    /// Whether all went well.
    pub is_success: bool,
}

impl Outcome {
    fn success(stdout: String) -> Self {
        Self { stdout, is_success: true, ..Self::default() }
    }

    /// A failure; `version` is that of the configuration, if it could be read.
    pub fn failure(failure: &Failure, version: Version) -> Self {
        Self { stdout: pretty(&failure.to_json(version.text())), ..Self::default() }
    }
}

/// Does what the environment and stdin say.
pub fn run(variable: impl Fn(&str) -> String, stdin: impl FnOnce() -> io::Result<Vec<u8>>) -> Outcome {
    let (command, environment) = match Environment::read(&variable) {
        Ok(read) => read,
        Err(_) if variable("CNI_COMMAND").is_empty() => {
            let versions: Vec<&str> = Version::all().collect();
            let stderr = format!("{ABOUT}\nCNI protocol versions supported: {}\n", versions.join(", "));
            return Outcome { stderr, is_success: true, ..Outcome::default() };
        }
        Err(failure) => return Outcome::failure(&failure, Version::NEWEST),
    };
    if command == Command::Version {
        let versions: Vec<&str> = Version::all().collect();
        let answer = json!({"cniVersion": Version::NEWEST.text(), "supportedVersions": versions});
        return Outcome::success(answer.to_string());
    }
    let text = stdin().map_err(|error| Failure::new(Code::Io, format!("error reading from stdin: {error}")));
    let conf = match text.and_then(|text| Conf::read(&text, flat::look)) {
        Ok(conf) => conf,
        Err(failure) => return Outcome::failure(&failure, Version::NEWEST),
    };
    match (Call { conf: &conf, environment: &environment, variable: &variable }).done(command) {
        Ok(answer) => Outcome::success(answer.map(|answer| pretty(&answer)).unwrap_or_default()),
        Err(failure) => Outcome::failure(&failure, conf.version),
    }
}

/// One call.
struct Call<'c, V> {
    conf: &'c Conf,
    environment: &'c Environment,
    variable: &'c V,
}

impl<V: Fn(&str) -> String> Call<'_, V> {
    fn done(&self, command: Command) -> Result<Option<Value>, Failure> {
        let since = match command {
            Command::Check => Version::V0_4_0,
            Command::Gc | Command::Status => Version::V1_1_0,
            Command::Add | Command::Del | Command::Version => Version::V0_1_0,
        };
        if self.conf.version < since {
            let message = format!("cniVersion: config version does not allow {}", command.text());
            return Err(Failure::new(Code::IncompatibleVersion, message));
        }
        match command {
            Command::Add => self.add().map(Some),
            Command::Del => self.del().map(|()| None),
            Command::Check => self.check().map(|()| None),
            Command::Gc => self.gc().map(|()| None),
            Command::Status => self.status().map(|()| None),
            Command::Version => Ok(None),
        }
    }

    fn add(&self) -> Result<Value, Failure> {
        let args = Args::read(&self.environment.args)?;
        let settings = self.conf.settings(&args.ips, &args.gateways)?;
        let netns = self.netns()?;
        if args.pod_name.is_empty() {
            return Err(Failure::new(Code::Environment, "CNI_ARGS: K8S_POD_NAME missing: an address is held by a pod"));
        }
        let ips = if settings.ranges.is_empty() && settings.requested.is_empty() {
            Vec::new()
        } else if self.conf.is_sliced {
            self.give(&args, &settings, &netns)?
        } else {
            let pod = args.pod();
            give::give(&self.site(), self.request(&pod, &args.pod_uid), &settings, &netns)?
        };
        Ok(answer(self.conf.version, &settings, &ips))
    }

    /// Gives the attachment addresses: they are its own, and on the disk, when this returns.
    fn give(&self, args: &Args, settings: &Settings, netns: &Netns<'_>) -> Result<Vec<Ip>, Failure> {
        let (place, running, pod) = (self.place(), self.boot(), args.pod());
        let lock = Lock::take(&place, PATIENCE).map_err(|error| self.unlocked(&place, error))?;
        let grants = self.grants(&place, settings)?;
        let (journal, image) = Journal::open(&place, &lock)?;
        check_id(&grants, &image, &place)?;
        let book = image.book();
        let request = self.request(&pod, &args.pod_uid);
        let liveness = |holding: &Holding<'_>| liveness(holding, netns, running);
        let decision = allocate::decide(request, &book, &grants, settings, liveness);
        if let Err(Refusal::Exhausted { range, .. }) = &decision {
            Shortage { range: *range, next: book.next() }.leave(&place);
        }
        let (ips, ends) = match decision.map_err(|refusal| told(refusal, &place))? {
            Decision::Held(ips) => return Ok(ips),
            Decision::Give { ips, ends } => (ips, ends),
        };
        let mut records = ended(&book, &ends, request.now);
        records.push(Record::Hold(Holding {
            sequence: book.next() + records.len() as u64,
            at: request.now,
            boot: running,
            origin: Origin::Add,
            container: request.container.into(),
            ifname: request.ifname.into(),
            conf: self.conf.name.as_str().into(),
            pod: request.pod.into(),
            uid: request.uid.into(),
            ips: Ips::of(&ips),
            netns: netns.clone(),
            home: "".into(),
        }));
        commit(journal, &image, &book, &records, running)?;
        Ok(ips)
    }

    fn request<'r>(&'r self, pod: &'r str, uid: &'r str) -> Request<'r> {
        let Environment { container, ifname, .. } = self.environment;
        Request { container, ifname, pod, uid, now: now() }
    }

    fn del(&self) -> Result<(), Failure> {
        let Environment { container, ifname, netns, netns_override, .. } = self.environment;
        let site = self.site();
        match self.end(&site) {
            Ok(Ended { found, debts }) => {
                release::settle(&site, &debts)?;
                if found == 0 && !self.conf.is_sliced {
                    release::search(&site, container, ifname)?;
                }
            }
            // The pools know as much as a journal that cannot be read.
            Err(failure) if !self.conf.is_sliced => {
                release::search(&site, container, ifname).map_err(|_| failure)?;
            }
            Err(failure) => return Err(failure),
        }
        if !netns.is_empty() && !netns_override && node::is_own(&node::netns(netns)) {
            return Err(own_netns());
        }
        Ok(())
    }

    /// Ends what the attachment holds. If that is nothing, what the container holds without an interface is meant: entries of old, which
    /// an agent took over from an `IPPool`, do not name it.
    fn end(&self, site: &Site<'_>) -> Result<Ended, Failure> {
        let Environment { container, ifname, .. } = self.environment;
        let ended = release::end(site, |holding| holding.is_of(container, ifname).then_some(Reason::Del))?;
        if ended.found > 0 {
            return Ok(ended);
        }
        let unnamed = release::end(site, |holding| holding.is_of(container, "").then_some(Reason::Del))?;
        Ok(Ended { found: unnamed.found, debts: ended.debts.into_iter().chain(unnamed.debts).collect() })
    }

    fn gc(&self) -> Result<(), Failure> {
        let Some(valid) = self.conf.valid_attachments()? else { return Ok(()) };
        let site = self.site();
        let ended = release::end(&site, |holding| {
            let is_ours = matches!(holding.origin, Origin::Add | Origin::Shared) && holding.conf == self.conf.name;
            let is_valid = valid.iter().any(|(container, ifname)| holding.is_of(container, ifname));
            (is_ours && !is_valid).then_some(Reason::Gc)
        })?;
        release::settle(&site, &ended.debts)
    }

    /// Whether the attachment holds what it did when it was made.
    fn check(&self) -> Result<(), Failure> {
        self.netns()?;
        let Some(previous) = self.conf.previous()? else {
            return Err(Failure::new(Code::Config, "prevResult: missing, and CHECK compares with it"));
        };
        let args = Args::read(&self.environment.args)?;
        if self.conf.settings(&args.ips, &args.gateways)?.ranges.is_empty() {
            return Ok(());
        }
        let place = self.place();
        let image = Image::read(&place)?;
        let book = image.book();
        let Environment { container, ifname, .. } = self.environment;
        let Some(holding) = book.of(container, ifname) else {
            // It may be what cannot be read.
            if let Some(at) = book.damage() {
                return Err(JournalError::Damaged { path: place.journal(), at }.into());
            }
            let message =
                format!("{ifname} of container {container} holds no address of network {}", self.conf.network);
            return Err(Failure::new(Code::NotHeld, message));
        };
        match holding.ips.iter().find(|ip| !previous.contains(&ip.address)) {
            None => Ok(()),
            Some(ip) => {
                let message =
                    format!("prevResult: {} is missing, which {ifname} of container {container} holds", ip.address);
                Err(Failure::new(Code::NotHeld, message))
            }
        }
    }

    /// Whether an ADD could be served. What is wrong with the configuration, the environment or the disk has the code that it has for an
    /// ADD: waiting does not mend it, and 50 would say that the plugin is not there yet.
    fn status(&self) -> Result<(), Failure> {
        self.could_serve().map_err(|failure| match failure.code {
            Code::TryLater | Code::Exhausted | Code::NoSlice | Code::Unavailable => {
                Failure { code: Code::CannotServe, ..failure }
            }
            _ => failure,
        })
    }

    fn could_serve(&self) -> Result<(), Failure> {
        let settings = Settings { requested: Vec::new(), ..self.conf.settings(&[], &[])? };
        if settings.ranges.is_empty() {
            return Ok(());
        }
        // Nobody can be called that. What others reserved has neither container nor interface, and whoever had neither would have that.
        let request = Request { container: "-", ifname: "-", pod: "", uid: "", now: now() };
        if !self.conf.is_sliced {
            return give::could_give(&self.site(), request, &settings);
        }
        let (place, running) = (self.place(), self.boot());
        let lock = Lock::take(&place, PATIENCE).map_err(|error| self.unlocked(&place, error))?;
        let grants = self.grants(&place, &settings)?;
        let (_, image) = Journal::open(&place, &lock)?;
        check_id(&grants, &image, &place)?;
        // Nobody's namespace is known here, so only what a reboot ended counts as free.
        let liveness = |holding: &Holding<'_>| liveness(holding, &Netns::default(), running);
        let decision = allocate::decide(request, &image.book(), &grants, &settings, liveness);
        decision.map(drop).map_err(|refusal| told(refusal, &place))
    }

    /// The namespace of the attachment, which must not be the plugin's own.
    fn netns(&self) -> Result<Netns<'_>, Failure> {
        let netns = node::netns(&self.environment.netns);
        if !self.environment.netns_override && node::is_own(&netns) {
            return Err(own_netns());
        }
        Ok(netns)
    }

    fn state_dir(&self) -> PathBuf {
        let variable = (self.variable)(STATE_DIR_VARIABLE);
        Place::state_dir(&self.conf.state_dir, Some(variable.as_ref()))
    }

    fn place(&self) -> Place {
        Place::new(&self.state_dir(), &self.conf.network)
    }

    fn site(&self) -> Site<'_> {
        Site { conf: self.conf, state_dir: self.state_dir(), place: self.place(), boot: self.boot() }
    }

    fn boot(&self) -> BootId {
        node::boot(&(self.variable)(node::BOOT_VARIABLE))
    }

    /// The grants, if the agent was there lately enough.
    fn grants(&self, place: &Place, settings: &Settings) -> Result<Grants, Failure> {
        let grants = match Grants::read(place) {
            Err(GrantsError::Missing(path)) => return Err(self.no_grants(&path.display().to_string())),
            read => read?,
        };
        let age = (now() / 1000).saturating_sub(grants.refreshed_at);
        if settings.grant_max_age > 0 && age > settings.grant_max_age {
            let message = format!(
                "the agent has not renewed the slices of node {} for {age} s, and ipam.grant_max_age is {} s",
                grants.node, settings.grant_max_age
            );
            return Err(
                Failure::new(Code::TryLater, message).with("is `cadastre agent` running, and can it reach the API?")
            );
        }
        Ok(grants)
    }

    fn unlocked(&self, place: &Place, error: LockError) -> Failure {
        match &error {
            LockError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                self.no_grants(&place.grants().display().to_string())
            }
            _ => error.into(),
        }
    }

    fn no_grants(&self, path: &str) -> Failure {
        let node = node::name(&(self.variable)("NODENAME"), &self.conf.configuration_path);
        let message = format!("node {node} holds no slice of network {}: {path} is not there", self.conf.network);
        Failure::new(Code::NoSlice, message).with(AGENT)
    }
}

/// What to look at when there is no slice.
const AGENT: &str =
    "is `cadastre agent` running on this node, and does a NodeSlicePool of the network give the node a slice?";

/// Whether the namespace of a holding is there. One that other nodes know of, too, does not end by a decision of this one.
fn liveness(holding: &Holding<'_>, here: &Netns<'_>, boot: BootId) -> Liveness {
    if holding.origin.is_local() { node::liveness(holding, here, boot) } else { Liveness::Unknown }
}

fn own_netns() -> Failure {
    Failure::new(Code::Netns, "CNI_NETNS: plugin's netns and netns from CNI_NETNS should not be the same")
}

/// The agent names the journal that it knows. Another one, or none, has lost what was in that.
fn check_id(grants: &Grants, image: &Image, place: &Place) -> Result<(), Failure> {
    let Some(expected) = &grants.journal else { return Ok(()) };
    let found = image.header().map(|header| hexadecimal(&header.id));
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    let path = place.journal();
    let message = match found {
        None => format!("{} is gone, and with it who holds which address", path.display()),
        Some(found) => format!("{} is journal {found}, and the agent knows {expected}", path.display()),
    };
    Err(Failure::new(Code::TryLater, message).with("`cadastre agent` writes it anew from the IPPools of the node"))
}

/// The id of a journal as the grants have it.
pub fn hexadecimal(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

fn told(refusal: Refusal, place: &Place) -> Failure {
    let message = refusal.to_string();
    match refusal {
        Refusal::Damaged(at) => JournalError::Damaged { path: place.journal(), at }.into(),
        Refusal::NoSlice { .. } => Failure::new(Code::NoSlice, message).with(AGENT),
        Refusal::Exhausted { holders, .. } => {
            let named =
                if holders.is_empty() { String::new() } else { format!("held by {}, ...; ", holders.join(", ")) };
            let help = "delete pods, exclude less, or give the node a further or larger slice";
            Failure::new(Code::Exhausted, message).with(format!("{named}{help}"))
        }
        Refusal::NoRange(_) | Refusal::NotOnNode { .. } | Refusal::NeverGiven(_) | Refusal::Taken { .. } => {
            Failure::new(Code::Unavailable, message)
        }
    }
}
