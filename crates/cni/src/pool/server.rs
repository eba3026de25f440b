//! Pools and reservations over the API: read, and changed one entry at a time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use space::Cidr;

use crate::api::{Answer, Verb, Way, message};
use crate::failure::{Code, Failure};
use crate::lock::Lock;
use crate::place::Place;

use super::object::{self, Holder, Home, Pool, Reserved};

/// How often a change is tried that others keep overtaking.
const CHANGES: u32 = 32;
/// How many reservations a page has, when one of them was in the way.
const RESERVATIONS: u32 = 500;

/// How long a change waits for its turn before it is made out of turn.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// The objects of one network.
pub(super) struct Pools<W> {
    way: W,
    pub(super) home: Home,
    /// Where the turns of this node are.
    place: Place,
}

impl<W: Way> Pools<W> {
    pub(super) fn new(way: W, home: Home, place: &Place) -> Self {
        Self { way, home, place: place.clone() }
    }

    /// What a pool is called, with its namespace.
    pub(super) fn title(&self, range: Cidr) -> String {
        format!("{}/{}", self.home.namespace, self.pool_name(range))
    }

    fn collection(&self, plural: &str) -> String {
        format!("/apis/{}/namespaces/{}/{plural}", object::API_VERSION, self.home.namespace)
    }

    fn pool_name(&self, range: Cidr) -> String {
        object::pool_name(self.home.network.as_deref(), range)
    }

    fn reservation_name(&self, ip: IpAddr) -> String {
        object::reservation_name(self.home.network.as_deref(), ip)
    }

    fn pool_path(&self, range: Cidr) -> String {
        format!("{}/{}", self.collection("ippools"), self.pool_name(range))
    }

    fn reservation_path(&self, ip: IpAddr) -> String {
        format!("{}/{}", self.collection("overlappingrangeipreservations"), self.reservation_name(ip))
    }

    /// The pool of a range, if there is one.
    pub(super) fn look(&mut self, range: Cidr) -> Result<Option<Pool>, Failure> {
        let path = self.pool_path(range);
        let reply = self.way.send(Verb::Get, &path, &Value::Null)?;
        match reply.status {
            200 => {
                let read = Pool::read(&tree(&reply)?, range);
                let refused = |why| Failure::new(Code::TryLater, format!("IPPool {}: {why}", self.title(range)));
                read.map(Some).map_err(refused)
            }
            404 => Ok(None),
            _ => Err(refused("get", &path, &reply)),
        }
    }

    /// The pool of a range; it is made if there is none.
    pub(super) fn read(&mut self, range: Cidr) -> Result<Pool, Failure> {
        if let Some(pool) = self.look(range)? {
            return Ok(pool);
        }
        let path = self.collection("ippools");
        let pool = object::new_pool(&self.pool_name(range), &self.home.namespace, range);
        let reply = self.way.send(Verb::Create, &path, &pool)?;
        match reply.status {
            200..=202 => Ok(Pool::empty(range)),
            // Somebody else made it meanwhile, or the answer to ours was lost.
            409 => self.look(range)?.ok_or_else(|| refused("create", &path, &reply)),
            _ => Err(refused("create", &path, &reply)),
        }
    }

    /// Takes an address: one that nobody has, or over from another sandbox of the pod. Whether that went well, or somebody else was there.
    pub(super) fn take(&mut self, pool: &Pool, ip: IpAddr, holder: Holder<'_>) -> Result<bool, Failure> {
        let Some(offset) = object::offset(pool.range, ip) else { return Ok(false) };
        let patch = match pool.entry(ip) {
            Some(entry) if entry.is_of(holder.container, holder.ifname) => return Ok(true),
            Some(entry) => object::take_over(offset, entry, holder),
            None => object::take(offset, holder),
        };
        self.change(pool.range, &patch)
    }

    /// Takes an address out, if it is still that of `container`.
    pub(super) fn remove(&mut self, range: Cidr, ip: IpAddr, container: &str) -> Result<bool, Failure> {
        let Some(offset) = object::offset(range, ip) else { return Ok(false) };
        self.change(range, &object::remove(offset, container))
    }

    /// Patches a pool; false if one of the tests in it does not hold, or there is no pool.
    ///
    /// Patches of different entries do not refuse each other, but the server makes each of the object as it then is and begins anew if
    /// that changed: of many at once all but one are made in vain. So those of one node come one after the other, unless somebody on the
    /// way makes them as one. Who cannot have its turn goes without: nothing but time is lost by it.
    fn change(&mut self, range: Cidr, change: &Value) -> Result<bool, Failure> {
        let path = self.pool_path(range);
        let mut left = CHANGES;
        loop {
            // Asked anew each time: somebody may turn out not to help, which is known after the first.
            let is_alone = !self.way.is_combined();
            let _turn = is_alone.then(|| Lock::on(&self.place.turn(&self.pool_name(range)), TURN_PATIENCE).ok());
            let reply = self.way.send(Verb::Patch, &path, change)?;
            left -= 1;
            match reply.status {
                200 | 201 => return Ok(true),
                404 | 422 => return Ok(false),
                // So many changed other entries that the server gave up on this one.
                409 if left > 0 => {}
                _ => return Err(refused("patch", &path, &reply)),
            }
        }
    }

    /// Reserves an address among networks whose ranges overlap; who has it, if that is somebody else.
    pub(super) fn reserve(&mut self, ip: IpAddr, holder: Holder<'_>) -> Result<Option<String>, Failure> {
        let (path, one) = (self.collection("overlappingrangeipreservations"), self.reservation_path(ip));
        let new = object::new_reservation(&self.reservation_name(ip), &self.home.namespace, holder);
        for _ in 0..CHANGES {
            let reply = self.way.send(Verb::Create, &path, &new)?;
            match reply.status {
                200..=202 => return Ok(None),
                409 => {}
                _ => return Err(refused("create", &path, &reply)),
            }
            let reply = self.way.send(Verb::Get, &one, &Value::Null)?;
            let found = match reply.status {
                200 => tree(&reply)?,
                404 => continue,
                _ => return Err(refused("get", &one, &reply)),
            };
            match object::reserved(&found, holder) {
                Reserved::Mine => return Ok(None),
                Reserved::Foreign => return Ok(Some(podref(&found))),
                Reserved::MyPods => {
                    let reply = self.way.send(Verb::Patch, &one, &object::reserve_over(&found, holder.container))?;
                    match reply.status {
                        200 | 201 => return Ok(None),
                        404 | 409 | 422 => {}
                        _ => return Err(refused("patch", &one, &reply)),
                    }
                }
            }
        }
        Err(Failure::new(Code::TryLater, format!("the reservation of {ip} changes all the time")))
    }

    /// Gives back the reservation of an address, if it is that of this attachment, or says no attachment. Whether there was one.
    pub(super) fn unreserve(&mut self, ip: IpAddr, holder: Holder<'_>) -> Result<bool, Failure> {
        self.unreserve_if(ip, |found| match object::reserved(found, holder) {
            Reserved::Mine => true,
            Reserved::MyPods => found["spec"]["containerid"].as_str().unwrap_or_default().is_empty(),
            Reserved::Foreign => false,
        })
    }

    /// The same for one that says this attachment and nothing less.
    pub(super) fn unreserve_own(&mut self, ip: IpAddr, holder: Holder<'_>) -> Result<bool, Failure> {
        self.unreserve_if(ip, |found| object::reserved(found, holder) == Reserved::Mine)
    }

    fn unreserve_if(&mut self, ip: IpAddr, is_meant: impl Fn(&Value) -> bool) -> Result<bool, Failure> {
        let path = self.reservation_path(ip);
        for _ in 0..CHANGES {
            let reply = self.way.send(Verb::Get, &path, &Value::Null)?;
            let found = match reply.status {
                200 => tree(&reply)?,
                404 => return Ok(false),
                _ => return Err(refused("get", &path, &reply)),
            };
            if !is_meant(&found) {
                return Ok(false);
            }
            let reply = self.way.send(Verb::Delete, &path, &object::only_this(&found))?;
            match reply.status {
                200 | 202 | 404 => return Ok(true),
                // It was changed meanwhile: perhaps it is another sandbox's now.
                409 => {}
                _ => return Err(refused("delete", &path, &reply)),
            }
        }
        Err(Failure::new(Code::TryLater, format!("the reservation of {ip} changes all the time")))
    }

    /// All addresses of these ranges that others have reserved, and who.
    pub(super) fn reserved(&mut self, pools: &[Pool], holder: Holder<'_>) -> Result<BTreeMap<IpAddr, String>, Failure> {
        let first = format!("{}?limit={RESERVATIONS}", self.collection("overlappingrangeipreservations"));
        let mut foreign = BTreeMap::new();
        let mut path = first.clone();
        loop {
            let reply = self.way.send(Verb::Get, &path, &Value::Null)?;
            if reply.status != 200 {
                return Err(refused("list", &path, &reply));
            }
            let list = tree(&reply)?;
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            for item in items.iter().filter(|item| object::reserved(item, holder) == Reserved::Foreign) {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                let ip = object::reserved_address(self.home.network.as_deref(), name);
                let is_here = |ip: &IpAddr| pools.iter().any(|pool| object::offset(pool.range, *ip).is_some());
                if let Some(ip) = ip.filter(is_here) {
                    foreign.insert(ip, podref(item));
                }
            }
            match list["metadata"]["continue"].as_str() {
                None | Some("") => return Ok(foreign),
                Some(next) => path = format!("{first}&continue={next}"),
            }
        }
    }
}

fn podref(reservation: &Value) -> String {
    reservation["spec"]["podref"].as_str().unwrap_or_default().to_owned()
}

fn tree(reply: &Answer) -> Result<Value, Failure> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        Failure::new(Code::TryLater, format!("the API server answers with something else than JSON: {error}"))
    })
}

fn refused(what: &str, path: &str, reply: &Answer) -> Failure {
    let said = message(&reply.body);
    let help = match reply.status {
        401 => "the API server does not know who the kubeconfig says to be",
        403 => {
            "whoever the kubeconfig says to be needs get, list, create, patch and delete on ippools and overlappingrangeipreservations of whereabouts.cni.cncf.io"
        }
        404 => "is the namespace of the kubeconfig there, and does the API server know whereabouts' kinds?",
        _ => "",
    };
    let failure =
        Failure::new(Code::TryLater, format!("the API server refuses to {what} {path} ({}): {said}", reply.status));
    if help.is_empty() { failure } else { failure.with(help) }
}
