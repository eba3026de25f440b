//! `Index`: who depends on whom, which owners wait for their dependents, and which namespaces are being emptied.
//!
//! Built from all entries and kept by the events after them. It does no I/O and knows no clock: what a change makes
//! necessary comes out as tasks. An object without owners that nobody deletes takes no room here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use store::{Key, What};

use super::place::namespace_of;
use super::seen::{Owner, Seen, Wait, concerns};
use super::{AUTHORITY, Task};
use crate::registry::namespaces::PREFIX as NAMESPACES;

/// Where Events are stored.
pub(super) const EVENTS: &str = "events/";

type Uid = Arc<str>;

/// A reference from an object to one of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tie {
    owner: Uid,
    blocks: bool,
}

/// What a change makes necessary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Todo {
    /// At once.
    pub(super) now: Vec<Task>,
    /// Before long: it changes only what people are told.
    pub(super) soon: Vec<Task>,
}

/// What is known of all objects.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The owners of every object that has some.
    ties: HashMap<Key, Vec<Tie>>,
    dependents: HashMap<Uid, BTreeSet<Key>>,
    /// Deleted owners that wait for something about their dependents.
    waiting: HashMap<Uid, (Key, Wait)>,
    /// The same by their keys.
    waiting_keys: HashMap<Key, Uid>,
    /// Namespaces that are being emptied, and how many objects were left when last counted, less those gone since.
    emptying: HashMap<String, usize>,
}

impl Index {
    /// Takes in a change.
    pub(super) fn note(&mut self, what: What, key: &Key, value: &[u8], todo: &mut Todo) {
        match what {
            What::Put => self.put(key, value, todo),
            What::Delete => self.delete(key, value, todo),
        }
        if let Some(namespace) = namespace_of(key) {
            self.inside(namespace, what, key, todo);
        }
    }

    fn put(&mut self, key: &Key, value: &[u8], todo: &mut Todo) {
        let name = key.strip_prefix(NAMESPACES).and_then(|rest| rest.strip_prefix('/'));
        if !concerns(value) && !self.ties.contains_key(key) && !self.waiting_keys.contains_key(key) {
            todo.now.extend(name.map(|name| Task::Furnish(name.to_owned())));
            return;
        }
        let seen = Seen::of(value);
        if let Some(name) = name {
            if seen.is_terminating() {
                self.emptying.entry(name.to_owned()).or_insert(0);
                todo.now.push(Task::Empty(name.to_owned()));
            } else {
                todo.now.push(Task::Furnish(name.to_owned()));
            }
        }
        self.tie(key, seen.owners(), todo);
        if !seen.owners().is_empty() && !seen.is_terminating() {
            todo.now.push(Task::Judge(key.clone()));
        }
        self.wait(key, &seen, todo);
    }

    fn delete(&mut self, key: &Key, value: &[u8], todo: &mut Todo) {
        if let Some(name) = key.strip_prefix(NAMESPACES).and_then(|rest| rest.strip_prefix('/')) {
            self.emptying.remove(name);
        }
        self.tie(key, &[], todo);
        if let Some(uid) = self.waiting_keys.remove(key) {
            self.waiting.remove(&uid);
        }
        if !self.dependents.is_empty() {
            todo.now.extend(self.dependents(&Seen::of(value).uid).map(|key| Task::Judge(key.clone())));
        }
    }

    /// Something changed in a namespace.
    fn inside(&mut self, namespace: &str, what: What, key: &str, todo: &mut Todo) {
        if let Some(left) = self.emptying.get_mut(namespace) {
            if what == What::Delete {
                *left = left.saturating_sub(1);
            }
            let task = Task::Empty(namespace.to_owned());
            let when = if what == What::Delete && *left == 0 { &mut todo.now } else { &mut todo.soon };
            when.push(task);
            return;
        }
        let is = |place: &str, name: &str| {
            key.strip_prefix(place).and_then(|rest| rest.strip_prefix(namespace)).is_some_and(|rest| rest == name)
        };
        let account = what == What::Delete && is("serviceaccounts/", "/default");
        if account || is("configmaps/", AUTHORITY) {
            todo.now.push(Task::Furnish(namespace.to_owned()));
        }
    }

    /// Those are the owners of that object now.
    fn tie(&mut self, key: &Key, owners: &[Owner], todo: &mut Todo) {
        let new: Vec<Tie> =
            owners.iter().map(|owner| Tie { owner: owner.uid.as_str().into(), blocks: owner.is_blocked() }).collect();
        let old = self.ties.remove(key).unwrap_or_default();
        if old == new {
            if !new.is_empty() {
                self.ties.insert(key.clone(), new);
            }
            return;
        }
        for tie in &old {
            if let Some(all) = self.dependents.get_mut(&tie.owner) {
                all.remove(key);
                if all.is_empty() {
                    self.dependents.remove(&tie.owner);
                }
            }
        }
        for tie in &new {
            self.dependents.entry(Arc::clone(&tie.owner)).or_default().insert(key.clone());
        }
        for tie in old.iter().chain(&new) {
            if let Some((owner, _)) = self.waiting.get(&tie.owner) {
                todo.now.push(Task::Release(owner.clone()));
            }
        }
        if !new.is_empty() {
            self.ties.insert(key.clone(), new);
        }
    }

    /// Notes whether an object waits for its dependents.
    fn wait(&mut self, key: &Key, seen: &Seen, todo: &mut Todo) {
        if let Some(uid) = self.waiting_keys.remove(key) {
            self.waiting.remove(&uid);
        }
        let Some(wait) = seen.waits() else { return };
        let uid: Uid = seen.uid.as_str().into();
        if wait == Wait::Foreground {
            todo.now.extend(self.dependents(&uid).map(|key| Task::Judge(key.clone())));
        }
        self.waiting.insert(Arc::clone(&uid), (key.clone(), wait));
        self.waiting_keys.insert(key.clone(), uid);
        todo.now.push(Task::Release(key.clone()));
    }

    /// The objects that refer to that owner.
    pub(super) fn dependents(&self, owner: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(owner).into_iter().flatten()
    }

    /// Whether some of them keep the owner from going.
    pub(super) fn is_blocked(&self, owner: &str) -> bool {
        let blocks = |tie: &Tie| tie.blocks && *tie.owner == *owner;
        self.dependents(owner).any(|key| self.ties.get(key).is_some_and(|ties| ties.iter().any(blocks)))
    }

    /// Whether one of them waits for dependents of its own to go.
    pub(super) fn has_waiting_dependent(&self, owner: &str) -> bool {
        self.dependents(owner).any(|key| {
            let wait = self.waiting_keys.get(key).and_then(|uid| self.waiting.get(uid));
            wait.is_some_and(|(_, wait)| *wait == Wait::Foreground)
        })
    }

    /// A namespace was looked through, and so many objects are left in it.
    pub(super) fn counted(&mut self, namespace: &str, left: usize) {
        if let Some(known) = self.emptying.get_mut(namespace) {
            *known = left;
        }
    }

    /// How many namespaces are being emptied.
    pub(super) fn emptying(&self) -> usize {
        self.emptying.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An index, and what each change of it makes necessary.
    #[derive(Default)]
    struct Model(Index);

    impl Model {
        fn note(&mut self, what: What, key: &str, metadata: Value) -> Todo {
            let mut object = api::Object::default();
            object.set(&["metadata"], metadata);
            let mut todo = Todo::default();
            self.0.note(what, &key.into(), &object.encode(), &mut todo);
            todo
        }

        fn put(&mut self, key: &str, metadata: Value) -> Vec<Task> {
            self.note(What::Put, key, metadata).now
        }

        fn delete(&mut self, key: &str, metadata: Value) -> Vec<Task> {
            self.note(What::Delete, key, metadata).now
        }
    }

    fn owned(uid: &str, owner: &str, blocks: bool) -> Value {
        json!({"uid": uid, "ownerReferences": [{"uid": owner, "blockOwnerDeletion": blocks}]})
    }

    fn going(uid: &str, finalizer: &str) -> Value {
        json!({"uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]})
    }

    fn judge(name: &str) -> Task {
        Task::Judge(format!("configmaps/n/{name}").into())
    }

    fn release(name: &str) -> Task {
        Task::Release(format!("configmaps/n/{name}").into())
    }

    #[test]
    fn dependents_are_judged_when_they_come_and_when_their_owner_goes() {
        let mut model = Model::default();
        assert_eq!(model.put("configmaps/n/a", json!({"uid": "a"})), []);
        assert_eq!(model.put("configmaps/n/b", owned("b", "a", false)), [judge("b")]);
        assert_eq!(model.put("configmaps/n/c", owned("c", "a", false)), [judge("c")]);
        assert_eq!(model.put("configmaps/n/c", json!({"uid": "c"})), [], "it has no owner any more");
        assert_eq!(model.delete("configmaps/n/a", json!({"uid": "a"})), [judge("b")]);
        assert_eq!(model.delete("configmaps/n/b", owned("b", "a", false)), []);
        assert_eq!(model.0.dependents("a").count(), 0);
    }

    #[test]
    fn an_owner_that_waits_is_looked_at_whenever_its_dependents_change() {
        let mut model = Model::default();
        model.put("configmaps/n/b", owned("b", "a", true));
        model.put("configmaps/n/c", owned("c", "a", false));
        let begun = model.put("configmaps/n/a", going("a", "foregroundDeletion"));
        assert_eq!(begun, [judge("b"), judge("c"), release("a")]);
        assert!(model.0.is_blocked("a"));
        assert_eq!(model.delete("configmaps/n/b", owned("b", "a", true)), [release("a")]);
        assert!(!model.0.is_blocked("a"), "the other one does not block it");
        assert_eq!(model.put("configmaps/n/a", json!({"uid": "a"})), []);
        assert_eq!(model.delete("configmaps/n/c", owned("c", "a", false)), [], "it no longer waits");
    }

    #[test]
    fn an_owner_of_orphans_leaves_them_alone() {
        let mut model = Model::default();
        model.put("configmaps/n/b", owned("b", "a", true));
        assert_eq!(model.put("configmaps/n/a", going("a", "orphan")), [release("a")]);
        assert_eq!(model.put("configmaps/n/b", json!({"uid": "b"})), [release("a")]);
        assert_eq!(model.0.dependents("a").count(), 0);
    }

    #[test]
    fn a_namespace_is_looked_through_at_once_when_nothing_can_be_left() {
        let mut model = Model::default();
        let empty = || Task::Empty("n".to_owned());
        assert_eq!(model.put("namespaces/n", json!({"uid": "n"})), [Task::Furnish("n".to_owned())]);
        assert_eq!(model.put("namespaces/n", going("n", "x")), [empty()]);
        model.0.counted("n", 2);
        let soon = Todo { now: vec![], soon: vec![empty()] };
        assert_eq!(model.note(What::Delete, "configmaps/n/a", json!({})), soon);
        assert_eq!(model.note(What::Put, "configmaps/n/b", json!({})), soon);
        assert_eq!(model.delete("configmaps/n/b", json!({})), [empty()]);
        assert_eq!(model.note(What::Delete, "configmaps/other/b", json!({})), Todo::default());
        assert_eq!(model.0.emptying(), 1);
        model.delete("namespaces/n", json!({}));
        assert_eq!(model.0.emptying(), 0);
    }

    #[test]
    fn what_a_namespace_is_furnished_with_is_missed() {
        let mut model = Model::default();
        let furnish = [Task::Furnish("n".to_owned())];
        assert_eq!(model.delete("serviceaccounts/n/default", json!({})), furnish);
        assert_eq!(model.delete("configmaps/n/kube-root-ca.crt", json!({})), furnish);
        assert_eq!(model.put("configmaps/n/kube-root-ca.crt", json!({})), furnish);
        assert_eq!(model.delete("serviceaccounts/n/other", json!({})), []);
    }
}
