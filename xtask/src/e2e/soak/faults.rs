//! What goes wrong during a soak: wires are cut, those of guests are led to the other replica, and replicas are killed and started
//! again. One replica is always up.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testkit::choices::{Choices, Seeded};
use testkit::real::Wire;

use crate::e2e::stand::Stand;

/// Between faults, at most.
const PAUSE_MILLIS: u64 = 2000;
/// Guests wait longer and longer before they connect again, so they are left alone for a while.
const GUESTS_EVERY: Duration = Duration::from_secs(10);
const KILL_EVERY: Duration = Duration::from_secs(15);
/// How long guests are spared now and again: longer than they wait before they connect again, and then until a watch is told how
/// far it is.
const CALM: Duration = Duration::from_secs(100);
/// When that is so for the first time.
const FIRST_CALM: Duration = Duration::from_secs(30);
/// From the beginning of one calm to that of the next.
const CALM_EVERY: Duration = Duration::from_mins(5);

/// How often which fault struck.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Struck {
    pub(super) kills: usize,
    pub(super) cuts: usize,
    pub(super) switches: usize,
    /// How often guests were spared, to the end.
    pub(super) calms: usize,
}

/// Everything that can be cut and killed.
pub(super) struct Faults<'a> {
    stand: &'a mut Stand,
    /// To each replica.
    wires: &'a [Wire],
    /// Of the guests, with the replica that each leads to.
    guests: Vec<(&'a Wire, usize)>,
    random: Seeded,
    struck: Struck,
    guests_at: Instant,
    kill_at: Instant,
    calm_at: Instant,
    /// When the present calm ends.
    calm_ends: Option<Instant>,
}

impl<'a> Faults<'a> {
    pub(super) fn new(stand: &'a mut Stand, wires: &'a [Wire], guests: &'a [Wire], seed: u64) -> Self {
        let replicas = wires.len();
        let guests = guests.iter().enumerate().map(|(number, wire)| (wire, number % replicas)).collect();
        let now = Instant::now();
        Self {
            stand,
            wires,
            guests,
            random: Seeded::new(seed),
            struck: Struck::default(),
            guests_at: now + GUESTS_EVERY,
            kill_at: now + KILL_EVERY,
            calm_at: now + FIRST_CALM,
            calm_ends: None,
        }
    }

    pub(super) fn struck(&self) -> Struck {
        self.struck
    }

    /// Waits a moment and strikes once.
    pub(super) fn next(&mut self) -> Result<()> {
        thread::sleep(Duration::from_millis(self.random.below(PAUSE_MILLIS)));
        let now = Instant::now();
        if now >= self.calm_at {
            self.calm_at = now + CALM_EVERY;
            (self.guests_at, self.kill_at) = (now + CALM, now + CALM);
            self.calm_ends = Some(now + CALM);
        }
        if self.calm_ends.take_if(|end| now >= *end).is_some() {
            self.struck.calms += 1;
        }
        if now >= self.kill_at {
            self.kill_at = now + KILL_EVERY;
            return self.kill();
        }
        if now >= self.guests_at {
            self.guests_at = now + GUESTS_EVERY;
            let guest = self.random.below(self.guests.len() as u64) as usize;
            if self.random.below(2) == 0 {
                let other = (self.guests[guest].1 + 1) % self.wires.len();
                return self.lead(guest, other);
            }
            self.guests[guest].0.snip();
        } else {
            self.wires[self.random.below(self.wires.len() as u64) as usize].snip();
        }
        self.struck.cuts += 1;
        Ok(())
    }

    /// Ends it: all is well from now on.
    pub(super) fn end(&self) -> Result<Struck> {
        for replica in &self.stand.replicas {
            replica.server()?;
        }
        Ok(self.struck)
    }

    fn lead(&mut self, guest: usize, replica: usize) -> Result<()> {
        let (wire, at) = &mut self.guests[guest];
        wire.lead(&self.stand.addresses[replica])?;
        wire.snip();
        *at = replica;
        self.struck.switches += 1;
        Ok(())
    }

    /// Kills a replica and starts it again; guests go to the other one meanwhile, as behind a load balancer.
    fn kill(&mut self) -> Result<()> {
        let victim = self.random.below(self.wires.len() as u64) as usize;
        let other = (victim + 1) % self.wires.len();
        self.stand.replicas[victim].kill()?;
        for guest in 0..self.guests.len() {
            if self.guests[guest].1 == victim {
                self.lead(guest, other)?;
            }
        }
        thread::sleep(Duration::from_millis(self.random.below(PAUSE_MILLIS)));
        self.stand.replicas[victim].again().context("after it was killed")?;
        self.struck.kills += 1;
        Ok(())
    }
}
