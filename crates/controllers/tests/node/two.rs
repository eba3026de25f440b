//! Two controllers that both act, look away, lose writes and answers, and are stopped in between: whatever they do, no block is
//! given twice, and when they come to rest everybody has one. `CADASTRE_SEED=N` runs one seed again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::Object;
use api::selector::Terms;
use controllers::node::intent::{Assignment, Intent, Outcome};
use controllers::node::plan::Settings;
use controllers::node::waybill::{self, Overtaken, Waybill};
use controllers::node::{Node, Plan};
use serde_json::{Value, json};
use space::Moment;

use crate::dice::{Dice, for_seeds};

const STEPS: usize = 3000;
/// Fewer blocks than nodes come and go, so that they are given again and again.
const BLOCKS: usize = 16;

/// What an API server keeps of it: the nodes, one range that nobody changes, and the waybill.
struct Server {
    nodes: BTreeMap<String, Value>,
    range: Value,
    waybill: Option<Value>,
    revision: u64,
}

impl Server {
    fn revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Writes blocks on the node that is meant, unless it has others.
    fn assign(&mut self, assignment: &Assignment) -> Outcome {
        let cidrs: Vec<String> = assignment.cidrs.iter().map(ToString::to_string).collect();
        let node = self.nodes.get_mut(&*assignment.name).filter(|node| node["metadata"]["uid"] == *assignment.uid);
        let Some(node) = node else { return Outcome::Gone };
        if !node["spec"]["podCIDRs"].is_null() && node["spec"]["podCIDRs"] != json!(cidrs) {
            return Outcome::Failed("node updates may not change podCIDR except from \"\" to valid".to_owned());
        }
        node["spec"] = json!({"podCIDR": cidrs[0], "podCIDRs": cidrs});
        self.check();
        Outcome::Written
    }

    /// Writes the waybill, if nobody else has since.
    fn note(&mut self, mut page: Value) -> Option<String> {
        let seen = &page["metadata"]["resourceVersion"];
        let is_current = match &self.waybill {
            Some(there) => there["metadata"]["resourceVersion"] == *seen,
            None => seen.is_null(),
        };
        is_current.then(|| {
            let revision = self.revision().to_string();
            page["metadata"]["resourceVersion"] = json!(revision);
            self.waybill = Some(page);
            revision
        })
    }

    fn check(&self) {
        let held: Vec<&str> = self.nodes.values().filter_map(|node| node["spec"]["podCIDR"].as_str()).collect();
        let different: BTreeSet<&str> = held.iter().copied().collect();
        assert_eq!(held.len(), different.len(), "a block was given twice: {held:?}");
    }
}

/// What a controller has not been shown yet.
enum News {
    Is(Value),
    Gone(String),
}

struct Controller {
    plan: Plan,
    waybill: Waybill,
    news: VecDeque<News>,
    /// Writes that were sent and have not arrived.
    sent: Vec<Assignment>,
    note: Option<Value>,
    now: u64,
}

impl Controller {
    /// Reads the waybill, and then everything else.
    fn new(server: &Server, writer: u64) -> Self {
        let page = server.waybill.clone().and_then(Object::from_value);
        let mut plan = Plan::new(Settings { terms: Terms::Any, rest: 0 });
        plan.see_range(&object(&server.range));
        for node in server.nodes.values() {
            plan.see_node(Node::read(&object(node)));
        }
        let mut waybill = Waybill::new(writer.to_string(), page.as_ref());
        waybill.keep(plan.take_over(&waybill::left(page.as_ref())));
        plan.begin();
        Self { plan, waybill, news: VecDeque::new(), sent: Vec::new(), note: None, now: 0 }
    }

    fn hear(&mut self) -> bool {
        match self.news.pop_front() {
            Some(News::Is(node)) => self.plan.see_node(Node::read(&object(&node))),
            Some(News::Gone(name)) => self.plan.lose_node(&name),
            None => return false,
        }
        true
    }

    /// Decides, and sends what may be sent.
    fn act(&mut self) {
        while let Some(intent) = self.plan.next(Moment(self.now)) {
            if let Intent::Assign(assignment) = intent {
                self.waybill.want(assignment);
            }
        }
        if self.note.is_none() {
            self.note = self.waybill.turn(|assignment| self.plan.is_pending(assignment));
        }
        while let Some(assignment) = self.waybill.send() {
            self.sent.push(assignment);
        }
    }
}

fn object(value: &Value) -> Object {
    Object::from_value(value.clone()).unwrap()
}

struct Two {
    server: Server,
    controllers: [Controller; 2],
    /// Writes of controllers that were killed or began anew: they may still arrive.
    stray: Vec<Assignment>,
    dice: Dice,
    born: u64,
}

impl Two {
    fn new(seed: u64) -> Self {
        let metadata = json!({
            "name": "r", "uid": "r", "resourceVersion": "1", "finalizers": [api::kinds::ClusterCidr::FINALIZER],
        });
        let range = json!({"metadata": metadata, "spec": {"perNodeHostBits": 4, "ipv4": "10.0.0.0/24"}});
        let server = Server { nodes: BTreeMap::new(), range, waybill: None, revision: 1 };
        let controllers = [Controller::new(&server, 0), Controller::new(&server, 1)];
        Self { server, controllers, stray: Vec::new(), dice: Dice(seed), born: 1 }
    }

    fn tell(&mut self, name: &str) {
        for controller in &mut self.controllers {
            controller.news.push_back(match self.server.nodes.get(name) {
                Some(node) => News::Is(node.clone()),
                None => News::Gone(name.to_owned()),
            });
        }
    }

    fn begin_anew(&mut self, index: usize) {
        self.born += 1;
        let fresh = Controller::new(&self.server, self.born);
        let old = std::mem::replace(&mut self.controllers[index], fresh);
        self.stray.extend(old.sent);
    }

    fn come_and_go(&mut self) {
        let name = format!("n{}", self.dice.below(BLOCKS + 4));
        if self.server.nodes.remove(&name).is_none() {
            let uid = self.server.revision().to_string();
            self.server.nodes.insert(name.clone(), json!({"metadata": {"name": name, "uid": uid}, "spec": {}}));
        }
        self.tell(&name);
    }

    /// The waybill of a controller arrives or gets lost, and its answer comes or gets lost.
    fn note(&mut self, index: usize) {
        let Some(page) = self.controllers[index].note.take() else { return };
        let written = if self.dice.one_in(6) { None } else { self.server.note(page) };
        let heard = written.filter(|_| !self.dice.one_in(6));
        let controller = &mut self.controllers[index];
        let went_well = match heard {
            Some(revision) => {
                controller.waybill.written(revision);
                Ok(())
            }
            None => controller.waybill.looked(self.server.waybill.as_ref().map(object).as_ref()),
        };
        if went_well == Err(Overtaken) {
            self.begin_anew(index);
        }
    }

    /// A write arrives, or gets lost, and so may its answer.
    fn arrive(&mut self, index: usize) {
        let sent = &mut self.controllers[index].sent;
        if sent.is_empty() {
            return;
        }
        let assignment = sent.swap_remove(self.dice.below(sent.len()));
        let outcome = if self.dice.one_in(5) {
            // It may arrive after all.
            self.stray.push(assignment.clone());
            Outcome::Failed("no answer in time".to_owned())
        } else {
            self.server.assign(&assignment)
        };
        self.controllers[index].plan.assigned(assignment.key, outcome);
        self.tell(&assignment.name);
    }

    fn arrive_late(&mut self) {
        if !self.stray.is_empty() {
            let assignment = self.stray.swap_remove(self.dice.below(self.stray.len()));
            self.server.assign(&assignment);
            self.tell(&assignment.name);
        }
    }

    fn step(&mut self) {
        let index = self.dice.below(2);
        match self.dice.below(14) {
            0 | 1 => self.come_and_go(),
            2..=4 => drop(self.controllers[index].hear()),
            5 | 6 => self.controllers[index].act(),
            7 | 8 => self.note(index),
            9 | 10 => self.arrive(index),
            11 => self.arrive_late(),
            12 => self.controllers[index].now += 10_000,
            _ if self.dice.one_in(10) => self.begin_anew(index),
            _ => {}
        }
        self.server.check();
    }

    /// Everybody hears everything and everything arrives, again and again.
    fn rest(&mut self) {
        for _ in 0..200 {
            for index in 0..2 {
                while self.controllers[index].hear() {}
                self.controllers[index].now += 60_000;
                self.controllers[index].act();
                self.note(index);
                while !self.controllers[index].sent.is_empty() {
                    self.arrive(index);
                }
            }
            self.arrive_late();
        }
    }
}

#[test]
fn two_that_act_at_once_give_no_block_twice_and_serve_everybody() {
    for_seeds(40, |seed| {
        let mut two = Two::new(seed);
        for _ in 0..STEPS {
            two.step();
        }
        two.rest();
        let served = two.server.nodes.values().filter(|node| !node["spec"]["podCIDR"].is_null()).count();
        assert_eq!(served, two.server.nodes.len().min(BLOCKS), "not everybody who can be served is");
    });
}
