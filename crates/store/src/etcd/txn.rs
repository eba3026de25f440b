//! A transaction in etcd's words, and etcd's answer in the store's. No I/O.

use std::sync::Arc;

use super::keys::Keys;
use super::wire::{
    Comparison, DeleteRequest, KeyValue, Operand, Property, PutRequest, RangeRequest, Relation, Request, RequestOp,
    Response, TxnRequest, TxnResponse,
};
use crate::types::{Compare, Entry, Key, Outcome, Revision, StoreError, Txn, Write};

/// A transaction as etcd is asked to carry it out, and what its answer is read with.
pub(super) struct Plan {
    pub(super) request: TxnRequest,
    txn: Txn,
    /// For each write, what was at its key if the compares hold.
    before: Vec<Before>,
}

/// What is at a key before it is written.
enum Before {
    /// Nothing: a compare says so.
    Nothing,
    /// This: a compare says so, and the mirror has it.
    Entry(Arc<Entry>),
    /// Whatever etcd says in its answer.
    Asked,
}

impl Plan {
    /// Puts the transaction into etcd's words. `find` is the mirror: what it has need not be sent back by etcd.
    pub(super) fn new(keys: &Keys, txn: Txn, find: impl Fn(&str) -> Option<Arc<Entry>>) -> Self {
        let before: Vec<_> = txn.writes.iter().map(|write| before(write.key(), &txn.compares, &find)).collect();
        let success = txn.writes.iter().zip(&before).map(|(write, before)| {
            let prev_kv = matches!(before, Before::Asked);
            match write {
                Write::Put { key, value } => {
                    Request::Put(PutRequest { key: keys.remote(key), value: value.clone(), prev_kv }).into()
                }
                Write::Delete { key } => Request::Delete(DeleteRequest { key: keys.remote(key), prev_kv }).into(),
            }
        });
        let request = TxnRequest {
            compare: txn.compares.iter().map(|compare| comparison(keys, compare)).collect(),
            success: success.collect(),
            // What is there instead is read in the same step, or it could be something else by the time it is read.
            failure: txn.compares.iter().map(|compare| look(keys, compare.key())).collect(),
        };
        Self { request, txn, before }
    }

    /// What the answer means, and the revision at which reads see why.
    pub(super) fn outcome(self, answer: TxnResponse) -> Result<(Outcome, Revision), StoreError> {
        let revision = revision(answer.header.map_or(0, |header| header.revision));
        let mut responses = answer.responses.into_iter().map(|step| step.response);
        if !answer.succeeded {
            let outcome = refused(self.txn.compares, responses)?;
            // When what is there went away is not said, but it was before the answer.
            let since = match &outcome {
                Outcome::Refused { current: Some(current), .. } => current.revision,
                _ => revision,
            };
            return Ok((outcome, since));
        }
        let entries = self.txn.writes.into_iter().zip(self.before).zip(0..).map(|((write, before), index)| {
            let found = match (responses.next().flatten(), &write) {
                (Some(Response::Put(put)), Write::Put { .. }) => put.prev_kv,
                (Some(Response::Delete(delete)), Write::Delete { .. }) => delete.prev_kvs.into_iter().next(),
                // It was carried out, but what came of it can only be read back.
                _ => return Err(StoreError::Unknown(senseless(OTHER_STEPS))),
            };
            Ok(written(write, before, found, revision, index))
        });
        Ok((Outcome::Committed { revision, entries: entries.collect::<Result<_, _>>()? }, revision))
    }
}

/// What the compares say of the key, and the mirror knows.
fn before(key: &Key, compares: &[Compare], find: &impl Fn(&str) -> Option<Arc<Entry>>) -> Before {
    for compare in compares.iter().filter(|compare| compare.key() == key) {
        match compare {
            Compare::Absent(_) => return Before::Nothing,
            Compare::At(_, at) => {
                if let Some(entry) = find(key).filter(|entry| entry.revision == *at) {
                    return Before::Entry(entry);
                }
            }
            Compare::Exists(_) => {}
        }
    }
    Before::Asked
}

/// The entry that a write left: the put one, or the last state of a deleted one.
fn written(write: Write, before: Before, found: Option<KeyValue>, at: Revision, index: u32) -> Option<Arc<Entry>> {
    match (write, before) {
        (Write::Put { key, value }, before) => {
            let created = match before {
                Before::Nothing => at,
                Before::Entry(entry) => entry.created,
                Before::Asked => found.map_or(at, |found| revision(found.create_revision)),
            };
            Some(Arc::new(Entry::stamped(key, &value, created, at, index)))
        }
        (Write::Delete { .. }, Before::Nothing) => None,
        (Write::Delete { .. }, Before::Entry(entry)) => Some(Arc::new(entry.restamped(at, index))),
        (Write::Delete { key }, Before::Asked) => {
            let found = found?;
            Some(Arc::new(Entry::read(key, &found.value, revision(found.create_revision), at, index)))
        }
    }
}

/// The first compare that does not hold for what etcd found at the compared keys.
fn refused(
    compares: Vec<Compare>,
    mut responses: impl Iterator<Item = Option<Response>>,
) -> Result<Outcome, StoreError> {
    for (number, compare) in compares.into_iter().enumerate() {
        let Some(Some(Response::Range(range))) = responses.next() else {
            return Err(StoreError::Corrupt(senseless(OTHER_STEPS)));
        };
        let current = range.kvs.into_iter().next().map(|kv| Arc::new(entry(compare.key().clone(), &kv, 0)));
        if !compare.holds(current.as_deref()) {
            return Ok(Outcome::Refused { compare: number, current });
        }
    }
    Err(StoreError::Corrupt(senseless("it refused a transaction whose compares all hold")))
}

/// A version as etcd has it.
pub(super) fn entry(key: Key, kv: &KeyValue, index: u32) -> Entry {
    Entry::read(key, &kv.value, revision(kv.create_revision), revision(kv.mod_revision), index)
}

/// etcd counts from 1 and never says a negative one.
pub(super) const fn revision(remote: i64) -> Revision {
    Revision(remote.cast_unsigned())
}

/// The revision in etcd's words.
pub(super) const fn remote(revision: Revision) -> i64 {
    revision.0.cast_signed()
}

/// What cannot be made of an answer.
const OTHER_STEPS: &str = "its answer has other steps than the transaction";

fn senseless(what: &str) -> String {
    format!("etcd made no sense: {what}")
}

fn comparison(keys: &Keys, compare: &Compare) -> Comparison {
    let (relation, property, operand) = match compare {
        Compare::Absent(_) => (Relation::Equal, Property::Created, Operand::Created(0)),
        Compare::Exists(_) => (Relation::Greater, Property::Created, Operand::Created(0)),
        // To etcd a key that is absent was modified at 0, but nothing is there that could have been.
        Compare::At(_, Revision(0)) => (Relation::Equal, Property::Modified, Operand::Modified(-1)),
        Compare::At(_, at) => (Relation::Equal, Property::Modified, Operand::Modified(remote(*at))),
    };
    Comparison {
        relation: relation.into(),
        property: property.into(),
        key: keys.remote(compare.key()),
        operand: Some(operand),
    }
}

fn look(keys: &Keys, key: &str) -> RequestOp {
    Request::Range(RangeRequest { key: keys.remote(key), ..RangeRequest::default() }).into()
}

#[cfg(test)]
mod tests {
    use super::super::wire::{DeleteResponse, Header, PutResponse, RangeResponse, ResponseOp};
    use super::*;

    const ROOM: &str = r#"{"resourceVersion":""}"#;

    fn plan(compares: Vec<Compare>, writes: Vec<Write>, mirror: &[Arc<Entry>]) -> Plan {
        let find = |key: &str| mirror.iter().find(|entry| &*entry.key == key).cloned();
        Plan::new(&Keys::new("/r"), Txn { compares, writes }, find)
    }

    fn put(key: &str) -> Write {
        Write::Put { key: key.into(), value: ROOM.into() }
    }

    fn delete(key: &str) -> Write {
        Write::Delete { key: key.into() }
    }

    fn kv(created: i64, modified: i64) -> KeyValue {
        KeyValue { create_revision: created, mod_revision: modified, value: ROOM.into(), ..KeyValue::default() }
    }

    fn answer(succeeded: bool, responses: Vec<Response>) -> TxnResponse {
        let responses = responses.into_iter().map(|response| ResponseOp { response: Some(response) }).collect();
        TxnResponse { header: Some(Header { cluster_id: 1, revision: 9 }), succeeded, responses }
    }

    fn known(key: &str, created: u64, modified: u64) -> Arc<Entry> {
        Arc::new(Entry::read(key.into(), ROOM.as_bytes(), Revision(created), Revision(modified), 0))
    }

    /// Which writes etcd is asked to send the former state back for.
    fn asked(plan: &Plan) -> Vec<bool> {
        let steps = plan.request.success.iter().map(|step| match &step.request {
            Some(Request::Put(put)) => put.prev_kv,
            Some(Request::Delete(delete)) => delete.prev_kv,
            other => panic!("{other:?}"),
        });
        steps.collect()
    }

    /// When each entry of the outcome was created and written, and its bytes.
    fn told(outcome: &Outcome) -> Vec<Option<(u64, u64, &[u8])>> {
        let Outcome::Committed { revision: Revision(9), entries } = outcome else { panic!("{outcome:?}") };
        let told = entries.iter().map(Option::as_ref);
        told.map(|entry| entry.map(|entry| (entry.created.0, entry.revision.0, &*entry.value))).collect()
    }

    #[test]
    fn what_the_compares_and_the_mirror_tell_is_not_sent_back_by_etcd() {
        let compares = vec![
            Compare::Absent("new".into()),
            Compare::At("old".into(), Revision(5)),
            Compare::At("stale".into(), Revision(6)),
            Compare::Exists("there".into()),
        ];
        let writes = vec![put("new"), put("old"), delete("stale"), put("there"), delete("any")];
        let plan = plan(compares, writes, &[known("old", 3, 5), known("stale", 3, 4), known("there", 3, 4)]);
        assert_eq!(asked(&plan), [false, false, true, true, true]);
    }

    #[test]
    fn each_write_is_answered_with_what_it_left() {
        let compares = vec![Compare::Absent("new".into()), Compare::At("old".into(), Revision(5))];
        let mirror = [known("old", 3, 5)];
        let all = [put("new"), put("old"), put("any"), put("none"), delete("gone"), delete("nothing")];
        let plan = plan(compares, all.to_vec(), &mirror);
        let put = |prev_kv| Response::Put(PutResponse { prev_kv });
        let deleted = |prev_kvs| Response::Delete(DeleteResponse { prev_kvs });
        let responses =
            vec![put(None), put(None), put(Some(kv(2, 4))), put(None), deleted(vec![kv(1, 2)]), deleted(vec![])];
        let (outcome, visible) = plan.outcome(answer(true, responses)).unwrap();
        assert_eq!(visible, Revision(9));
        let stamped = &br#"{"resourceVersion":"9"}"#[..];
        let expected = [Some((9, 9)), Some((3, 9)), Some((2, 9)), Some((9, 9)), Some((1, 9)), None];
        assert_eq!(told(&outcome), expected.map(|told| told.map(|(created, revision)| (created, revision, stamped))));
    }

    #[test]
    fn a_deleted_entry_that_the_mirror_has_is_restamped() {
        let compares = vec![Compare::At("old".into(), Revision(5))];
        let plan = plan(compares, vec![delete("old")], &[known("old", 3, 5)]);
        let (outcome, _) = plan.outcome(answer(true, vec![Response::Delete(DeleteResponse::default())])).unwrap();
        assert_eq!(told(&outcome), [Some((3, 9, &br#"{"resourceVersion":"9"}"#[..]))]);
    }

    #[test]
    fn the_first_compare_that_fails_is_named_with_what_is_there() {
        let compares =
            vec![Compare::Exists("a".into()), Compare::At("b".into(), Revision(4)), Compare::Absent("c".into())];
        let range = |kvs| Response::Range(RangeResponse { kvs, ..RangeResponse::default() });
        let found = vec![range(vec![kv(1, 1)]), range(vec![kv(2, 5)]), range(vec![kv(3, 3)])];
        let outcome = plan(compares.clone(), vec![], &[]).outcome(answer(false, found)).unwrap();
        assert_eq!(outcome, (Outcome::Refused { compare: 1, current: Some(known("b", 2, 5)) }, Revision(5)));
        let all_hold = vec![range(vec![kv(1, 1)]), range(vec![kv(2, 4)]), range(vec![])];
        let senseless = plan(compares, vec![], &[]).outcome(answer(false, all_hold));
        assert!(matches!(senseless, Err(StoreError::Corrupt(_))), "{senseless:?}");
    }

    #[test]
    fn that_nothing_is_there_is_seen_at_the_revision_of_the_answer() {
        let gone = vec![Response::Range(RangeResponse::default())];
        let outcome = plan(vec![Compare::Exists("a".into())], vec![], &[]).outcome(answer(false, gone)).unwrap();
        assert_eq!(outcome, (Outcome::Refused { compare: 0, current: None }, Revision(9)));
    }

    #[test]
    fn an_answer_with_other_steps_leaves_open_what_was_carried_out() {
        let carried_out = plan(vec![], vec![put("a")], &[]).outcome(answer(true, vec![]));
        assert!(matches!(carried_out, Err(StoreError::Unknown(_))), "{carried_out:?}");
        let refused = plan(vec![Compare::Exists("a".into())], vec![put("a")], &[]).outcome(answer(false, vec![]));
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    }
}
