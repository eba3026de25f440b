//! The parameters of operations: what may stand in a path and after its question mark.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A parameter of an operation.
#[derive(Debug)]
pub(super) struct Parameter {
    name: &'static str,
    /// `path` or `query`.
    place: &'static str,
    ty: &'static str,
    description: &'static str,
}

/// Parameters by name: each is there once, and documents have them in this order.
pub(super) type Parameters = BTreeMap<&'static str, &'static Parameter>;

const fn query(name: &'static str, ty: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "query", ty, description }
}

pub(super) const NAME: Parameter =
    Parameter { name: "name", place: "path", ty: "string", description: "The name of the object." };
pub(super) const NAMESPACE: Parameter =
    Parameter { name: "namespace", place: "path", ty: "string", description: "The namespace of the objects." };
pub(super) const PRETTY: Parameter = query("pretty", "string", "Lay the answer out for people if this is true.");

const DRY_RUN: Parameter =
    query("dryRun", "string", "With the value All, everything is done except keeping the result.");
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "Who writes, for the record of who owns which field. At most 128 printable characters; applying demands it, other writes use the beginning of the user agent without it.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What becomes of fields that are unknown or given twice: Ignore drops them, Warn (the default) drops them and says so in a warning, Strict refuses the request.",
);
const FORCE: Parameter = query(
    "force",
    "boolean",
    "Take over fields that other managers own, instead of failing with a conflict. Only for applying.",
);

const CONTINUE: Parameter = query(
    "continue",
    "string",
    "Asks for the next page of a list: the value that the page before had in its metadata, with all other parameters unchanged. If it is too old, the answer is 410 and has a value with which the list can go on from the present state.",
);
const FIELD_SELECTOR: Parameter =
    query("fieldSelector", "string", "Only objects whose fields have the given values, such as metadata.name=one.");
const LABEL_SELECTOR: Parameter =
    query("labelSelector", "string", "Only objects whose labels match, such as app=web,tier!=back.");
const LIMIT: Parameter = query(
    "limit",
    "integer",
    "At most so many objects in one answer. If there are more, the list's metadata says how to continue; all pages show one state.",
);
const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "How old the answer may be, or where a watch begins: empty for the newest state, 0 for any, otherwise a version that an earlier answer had.",
);
const RESOURCE_VERSION_MATCH: Parameter =
    query("resourceVersionMatch", "string", "How resourceVersion is meant when listing: Exact, or NotOlderThan.");
const SEND_INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    "boolean",
    "Begin a watch with an event for each object that is there and a bookmark after them. Needs resourceVersionMatch=NotOlderThan and allowWatchBookmarks.",
);
const SHARD_SELECTOR: Parameter =
    query("shardSelector", "string", "Reserved for reading a part of a collection; it has no effect here.");
const TIMEOUT: Parameter =
    query("timeoutSeconds", "integer", "How many seconds a list or watch may take before it ends.");
const BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    "boolean",
    "The client understands bookmarks: events of a watch that carry a resource version and nothing else.",
);
const WATCH: Parameter = query("watch", "boolean", "Follow the changes as a stream of events instead of listing.");

const GRACE_PERIOD: Parameter = query(
    "gracePeriodSeconds",
    "integer",
    "How many seconds the object gets to wind down; 0 deletes it at once. Without it the kind decides.",
);
const IGNORE_READ_ERRORS: Parameter = query(
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Delete an object although it cannot be read from the store. Dangerous: finalizers and whatever it refers to are not looked at.",
);
const ORPHAN: Parameter = query(
    "orphanDependents",
    "boolean",
    "Deprecated, propagationPolicy says more: whether dependents stay as orphans.",
);
const PROPAGATION: Parameter = query(
    "propagationPolicy",
    "string",
    "What becomes of dependents: Orphan leaves them, Background deletes them afterwards, Foreground deletes them first.",
);

pub(super) const READ: &[&Parameter] = &[&PRETTY];
pub(super) const WRITE: &[&Parameter] = &[&DRY_RUN, &FIELD_MANAGER, &FIELD_VALIDATION, &PRETTY];
pub(super) const CHANGE: &[&Parameter] = &[&DRY_RUN, &FIELD_MANAGER, &FIELD_VALIDATION, &FORCE, &PRETTY];
pub(super) const LIST: &[&Parameter] = &[
    &BOOKMARKS,
    &CONTINUE,
    &FIELD_SELECTOR,
    &LABEL_SELECTOR,
    &LIMIT,
    &PRETTY,
    &RESOURCE_VERSION,
    &RESOURCE_VERSION_MATCH,
    &SEND_INITIAL_EVENTS,
    &SHARD_SELECTOR,
    &TIMEOUT,
    &WATCH,
];
pub(super) const REMOVE: &[&Parameter] =
    &[&DRY_RUN, &GRACE_PERIOD, &IGNORE_READ_ERRORS, &ORPHAN, &PRETTY, &PROPAGATION];
pub(super) const REMOVE_ALL: &[&Parameter] = &[
    &CONTINUE,
    &DRY_RUN,
    &FIELD_SELECTOR,
    &GRACE_PERIOD,
    &IGNORE_READ_ERRORS,
    &LABEL_SELECTOR,
    &LIMIT,
    &ORPHAN,
    &PRETTY,
    &PROPAGATION,
    &RESOURCE_VERSION,
    &RESOURCE_VERSION_MATCH,
    &SEND_INITIAL_EVENTS,
    &SHARD_SELECTOR,
    &TIMEOUT,
];

/// The parameters by name.
pub(super) fn by_name(all: impl IntoIterator<Item = &'static Parameter>) -> Parameters {
    all.into_iter().map(|parameter| (parameter.name, parameter)).collect()
}

/// The parameters as documents have them.
pub(super) fn shown(parameters: &Parameters) -> Value {
    let shown = parameters.values().map(|parameter| {
        let Parameter { name, place, ty, description } = parameter;
        let schema = json!({ "type": ty, "uniqueItems": true });
        let mut shown = json!({ "name": name, "in": place, "description": description, "schema": schema });
        if *place == "path" {
            shown["required"] = true.into();
        }
        shown
    });
    shown.collect()
}
