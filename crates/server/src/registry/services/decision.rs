//! The decision what a Service is given: addresses and node ports, what it loses, or why it cannot be.
//!
//! It is a function of the cluster, the pools, the Service as it was and as it is asked for. A refusal leaves the pools as
//! they were; otherwise what was given is claimed in them. Nothing here knows of the store, or of a clock.

use std::net::IpAddr;

use api::Errors;
use space::{Family, Pool, PoolRefusal};
use thiserror::Error;

use super::meters::Scope;
use super::service::Service;
use super::{addresses, families, ports};
use crate::registry::grants::Grant;

/// The families of a cluster, the preferred one first. They come from the command line and not from the ranges that there
/// are: a range of another family makes no cluster of that family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cluster(Vec<Family>);

impl Cluster {
    pub(super) fn new(families: impl IntoIterator<Item = Family>) -> Self {
        Self(families.into_iter().collect())
    }

    pub(super) fn default_family(&self) -> &'static str {
        self.0.first().map_or("IPv4", |family| name(*family))
    }

    pub(super) fn has(&self, family: &str) -> bool {
        self.0.iter().any(|own| name(*own) == family)
    }

    pub(super) fn is_dual(&self) -> bool {
        self.0.len() > 1
    }
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// Where addresses and ports come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools {
    pub(super) v4: Pool<u32>,
    pub(super) v6: Pool<u128>,
    pub(super) ports: Pool<u16>,
}

impl Pools {
    /// Claims what is a fact already. Whoever made it one may have claimed it before.
    pub(super) fn adopt(&mut self, grant: Grant) {
        let _ = match grant {
            Grant::Address(IpAddr::V4(address)) => self.v4.adopt(address.into()),
            Grant::Address(IpAddr::V6(address)) => self.v6.adopt(address.into()),
            Grant::Port(port) => self.ports.adopt(port),
        };
    }

    /// Gives back what is a grant no longer.
    pub(super) fn release(&mut self, grant: Grant) {
        let _ = match grant {
            Grant::Address(IpAddr::V4(address)) => self.v4.release(address.into()),
            Grant::Address(IpAddr::V6(address)) => self.v6.release(address.into()),
            Grant::Port(port) => self.ports.release(port),
        };
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The Service, with all that it was given.
    pub(super) service: Service,
    /// What was given to it now.
    pub(super) taken: Vec<Taken>,
    /// What it had and has no longer.
    pub(super) freed: Vec<Grant>,
}

/// Something that was given, and whether the Service had named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) grant: Grant,
    pub(super) scope: Scope,
}

/// Something that could not be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This address.
    Address(IpAddr),
    /// Any address of that family.
    AnyAddress(Family),
    /// A port that was named.
    Port,
    /// Any port.
    AnyPort,
}

/// A refusal, and what could not be given if that is why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) why: Refusal,
    pub(super) wanted: Option<Wanted>,
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self { why, wanted: None }
    }
}

/// Why a Service cannot be as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    /// It asks for something that it cannot have.
    Invalid(Errors),
    /// There is nothing left, or what was named for the check of its health cannot be had.
    Internal(String),
    /// It contradicts itself in a way that clients know without a reason.
    Plain(String),
}

/// Why an address was not given, in the words that clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum AddressRefusal {
    #[error("provided IP is already allocated")]
    Taken,
    #[error("the provided network does not match the current range")]
    OutOfRange,
    #[error("range is full")]
    Exhausted,
}

/// Why a port was not given, in the words that clients know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum PortRefusal {
    #[error("provided port is already allocated")]
    Taken,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    OutOfRange(String),
    #[error("range is full")]
    Exhausted,
}

/// A decision that is being made.
pub(super) struct Taking<'a> {
    pools: &'a mut Pools,
    dice: &'a mut dyn FnMut() -> u64,
    taken: Vec<Taken>,
    /// What could not be given.
    wanted: Option<Wanted>,
}

impl Taking<'_> {
    fn took(&mut self, grant: Grant, scope: Scope) {
        self.taken.push(Taken { grant, scope });
    }

    /// Notes what could not be given, if it could not.
    fn noted<T, E>(&mut self, wanted: Wanted, given: Result<T, E>) -> Result<T, E> {
        if given.is_err() {
            self.wanted = Some(wanted);
        }
        given
    }

    pub(super) fn address(&mut self, address: IpAddr) -> Result<(), AddressRefusal> {
        let claimed = match address {
            IpAddr::V4(address) => self.pools.v4.claim(address.into()),
            IpAddr::V6(address) => self.pools.v6.claim(address.into()),
        };
        self.noted(Wanted::Address(address), claimed).map_err(|refusal| match refusal {
            PoolRefusal::Claimed => AddressRefusal::Taken,
            PoolRefusal::TooMany | PoolRefusal::Exhausted => AddressRefusal::Exhausted,
            PoolRefusal::OutOfRange | PoolRefusal::Closed | PoolRefusal::Unclaimed => AddressRefusal::OutOfRange,
        })?;
        self.took(Grant::Address(address), Scope::Static);
        Ok(())
    }

    pub(super) fn any_address(&mut self, family: &str) -> Result<IpAddr, AddressRefusal> {
        let family = if family == "IPv6" { Family::V6 } else { Family::V4 };
        let granted = if family == Family::V6 {
            self.pools.v6.grant(&mut *self.dice).map(|bits| IpAddr::V6(bits.into()))
        } else {
            self.pools.v4.grant(&mut *self.dice).map(|bits| IpAddr::V4(bits.into()))
        };
        let granted = self.noted(Wanted::AnyAddress(family), granted);
        let address = granted.map_err(|_| AddressRefusal::Exhausted)?;
        self.took(Grant::Address(address), Scope::Dynamic);
        Ok(address)
    }

    pub(super) fn port(&mut self, port: i64) -> Result<(), PortRefusal> {
        let number = u16::try_from(port).map_err(|_| PoolRefusal::OutOfRange);
        let claimed = number.and_then(|port| self.pools.ports.claim(port).map(|()| port));
        match self.noted(Wanted::Port, claimed) {
            Ok(port) => {
                self.took(Grant::Port(port), Scope::Static);
                Ok(())
            }
            Err(PoolRefusal::Claimed) => Err(PortRefusal::Taken),
            Err(_) => Err(PortRefusal::OutOfRange(valid_ports(&self.pools.ports))),
        }
    }

    pub(super) fn any_port(&mut self) -> Result<i64, PortRefusal> {
        let granted = self.pools.ports.grant(&mut *self.dice);
        let port = self.noted(Wanted::AnyPort, granted).map_err(|_| PortRefusal::Exhausted)?;
        self.took(Grant::Port(port), Scope::Dynamic);
        Ok(port.into())
    }
}

pub(super) fn valid_ports(ports: &Pool<u16>) -> String {
    let open = ports.ranges().filter(|(_, range)| range.is_open());
    open.map(|(_, range)| format!("{}-{}", range.first(), range.last())).collect::<Vec<_>>().join(",")
}

/// Decides what a Service that was `before`, or was not, is given to become `after`. `faults` are those of its addresses and
/// families taken by themselves; `dice` gives 64 random bits.
pub(super) fn decide(
    cluster: &Cluster,
    pools: &mut Pools,
    before: Option<&Service>,
    mut after: Service,
    faults: impl FnOnce() -> Errors,
    dice: &mut dyn FnMut() -> u64,
) -> Result<Decision, Refused> {
    families::settle(cluster, before, &mut after, faults)?;
    let mut taking = Taking { pools, dice, taken: Vec::new(), wanted: None };
    let given = match before {
        None => addresses::create(&mut after, &mut taking).and_then(|()| ports::create(&mut after, &mut taking)),
        Some(before) => addresses::update(cluster, before, &mut after, &mut taking)
            .and_then(|()| ports::update(before, &mut after, &mut taking)),
    };
    let Taking { pools, taken, wanted, .. } = taking;
    match given {
        Ok(()) => {
            let freed = before.map(|before| lost(before, &after)).unwrap_or_default();
            Ok(Decision { service: after, taken, freed })
        }
        Err(why) => {
            for taken in taken {
                pools.release(taken.grant);
            }
            Err(Refused { why, wanted })
        }
    }
}

/// All that a Service has, in order and once: a number may serve several protocols, and what was not written by this server may say
/// the same twice in other ways.
pub(super) fn held(service: &Service) -> Vec<Grant> {
    let ports = service.held_node_ports().chain(service.held_health_check());
    let mut held: Vec<Grant> = service.held_addresses().map(Grant::Address).chain(ports.map(Grant::Port)).collect();
    held.sort_unstable();
    held.dedup();
    held
}

/// What a Service had and has no longer.
fn lost(before: &Service, after: &Service) -> Vec<Grant> {
    let kept = held(after);
    let mut lost = held(before);
    lost.retain(|grant| kept.binary_search(grant).is_err());
    lost
}
