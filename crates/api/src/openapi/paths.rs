//! The paths of a kind and what can be done on each.

use serde_json::{Map, Value, json};

use super::{group_version_kind, list_schema, reference};
use crate::kind::{Kind, Subresource};
use crate::schema;

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = super::schemas::PATCH;

/// A query parameter: its name, its type, what it does.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = ("dryRun", "string", "All: do everything but keep it.");
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Who writes, for the record of who owns which field.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields: Ignore, Warn (the default) or Strict.",
);
const FORCE: Parameter = ("force", "boolean", "Take over fields that others own.");

const WRITE: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const CHANGE: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const SELECT: [Parameter; 6] = [
    ("continue", "string", "The next page of a list: what the page before gave."),
    ("fieldSelector", "string", "Only objects whose fields have these values."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "At most so many objects in an answer."),
    ("resourceVersion", "string", "How old the answer may be, or where a watch begins."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
];
const WATCH: [Parameter; 4] = [
    ("allowWatchBookmarks", "boolean", "The client understands events that carry a revision and nothing else."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that are there."),
    ("timeoutSeconds", "integer", "How long a list or watch may take."),
    ("watch", "boolean", "Follow the changes instead of listing."),
];
const REMOVE: [Parameter; 4] = [
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the object may take to end."),
    ("orphanDependents", "boolean", "Deprecated: propagationPolicy says more."),
    ("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
];

/// What is done with a path, in the words of the documents: the method, the action, the verb in the operation's name.
type Action = (&'static str, &'static str, &'static str);

const GET: Action = ("get", "get", "read");
const LIST: Action = ("get", "list", "list");
const POST: Action = ("post", "post", "create");
const PUT: Action = ("put", "put", "replace");
const CHANGE_PART: Action = ("patch", "patch", "patch");
const DELETE: Action = ("delete", "delete", "delete");
const DELETE_ALL: Action = ("delete", "deletecollection", "delete");

/// The paths of a kind under the root of its group and version.
pub(super) fn of(kind: &Kind, root: &str) -> Vec<(String, Value)> {
    let plural = kind.plural;
    let place = if kind.is_namespaced() { format!("/{root}/namespaces/{{namespace}}") } else { format!("/{root}") };
    let collection = Place { kind, all_namespaces: false, named: false, subresource: "" };
    if kind.is_question {
        return vec![(format!("{place}/{plural}"), collection.item(vec![collection.post()]))];
    }
    let object = Place { named: true, ..collection };
    let mut operations = vec![collection.list(), collection.post()];
    operations.extend(kind.deletes_collection.then(|| collection.delete_all()));
    let mut paths = vec![
        (format!("{place}/{plural}"), collection.item(operations)),
        (
            format!("{place}/{plural}/{{name}}"),
            object.item(vec![object.get(), object.put(), object.patch(), object.delete()]),
        ),
    ];
    if kind.is_namespaced() {
        let everywhere = Place { all_namespaces: true, ..collection };
        paths.push((format!("/{root}/{plural}"), everywhere.item(vec![everywhere.list()])));
    }
    for subresource in kind.subresources {
        let part = Place { subresource: subresource.name(), ..object };
        let operations = match subresource {
            Subresource::Status => vec![part.get(), part.put(), part.patch()],
            Subresource::Finalize => vec![part.put()],
        };
        paths.push((format!("{place}/{plural}/{{name}}/{}", subresource.name()), part.item(operations)));
    }
    for question in kind.questions {
        let part = Place { subresource: question.name, ..object };
        paths.push((format!("{place}/{plural}/{{name}}/{}", question.name), part.item(vec![part.ask(question.kind)])));
    }
    paths
}

/// One path of a kind.
#[derive(Clone, Copy)]
struct Place<'a> {
    kind: &'a Kind,
    all_namespaces: bool,
    named: bool,
    subresource: &'static str,
}

impl Place<'_> {
    fn list(&self) -> (&'static str, Value) {
        self.operation(LIST, &[&SELECT, &WATCH], None, &list_schema(self.kind))
    }

    fn post(&self) -> (&'static str, Value) {
        self.operation(POST, &[&WRITE], Some(body(self.kind.schema)), self.kind.schema)
    }

    /// A create of something else than the kind.
    fn ask(&self, question: &Kind) -> (&'static str, Value) {
        let (method, mut operation) = self.operation(POST, &[&WRITE], Some(body(question.schema)), question.schema);
        operation["x-kubernetes-group-version-kind"] = group_version_kind(question, question.kind);
        (method, operation)
    }

    fn get(&self) -> (&'static str, Value) {
        self.operation(GET, &[], None, self.kind.schema)
    }

    fn put(&self) -> (&'static str, Value) {
        self.operation(PUT, &[&WRITE], Some(body(self.kind.schema)), self.kind.schema)
    }

    fn patch(&self) -> (&'static str, Value) {
        let custom = schema::definition(self.kind.schema).is_some_and(|definition| definition.custom);
        let strategic = (!custom).then_some("application/strategic-merge-patch+json");
        let types = ["application/json-patch+json", "application/merge-patch+json"].into_iter().chain(strategic);
        let content: Map<_, _> = types.map(|ty| (ty.to_owned(), json!({ "schema": reference(PATCH) }))).collect();
        self.operation(CHANGE_PART, &[&CHANGE], Some(content.into()), self.kind.schema)
    }

    fn delete(&self) -> (&'static str, Value) {
        let answer = if self.kind.answers_deleted { self.kind.schema } else { STATUS };
        self.operation(DELETE, &[&REMOVE], Some(body(DELETE_OPTIONS)), answer)
    }

    fn delete_all(&self) -> (&'static str, Value) {
        self.operation(DELETE_ALL, &[&REMOVE, &SELECT], Some(body(DELETE_OPTIONS)), STATUS)
    }

    fn operation(
        &self,
        action: Action,
        parameters: &[&[Parameter]],
        body: Option<Value>,
        answer: &str,
    ) -> (&'static str, Value) {
        let (method, name, _) = action;
        let mut types = vec!["application/json", "application/yaml"];
        if name == "list" {
            types.push("application/json;stream=watch");
        }
        let content: Map<_, _> =
            types.into_iter().map(|ty| (ty.to_owned(), json!({ "schema": reference(answer) }))).collect();
        let answered = |text: &str| json!({ "description": text, "content": content });
        let mut responses = Map::from_iter([("200".to_owned(), answered("OK"))]);
        match name {
            "post" => {
                responses.insert("201".to_owned(), answered("Created"));
                responses.insert("202".to_owned(), answered("Accepted"));
            }
            "put" | "patch" => {
                responses.insert("201".to_owned(), answered("Created"));
            }
            "delete" => {
                responses.insert("202".to_owned(), answered("Accepted"));
            }
            _ => {}
        }
        responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
        let mut operation = json!({
            "tags": [tag(self.kind)],
            "operationId": self.operation_id(action),
            "responses": responses,
            "x-kubernetes-action": name,
            "x-kubernetes-group-version-kind": group_version_kind(self.kind, self.kind.kind),
        });
        let parameters: Vec<Value> = parameters.iter().copied().flatten().map(query_parameter).collect();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(content) = body {
            operation["requestBody"] = json!({ "content": content, "required": !name.starts_with("delete") });
        }
        (method, operation)
    }

    /// `patchCoreV1NamespacedServiceStatus`.
    fn operation_id(&self, (_, action, verb): Action) -> String {
        let collection = if action == "deletecollection" { "Collection" } else { "" };
        let namespaced = if self.kind.is_namespaced() && !self.all_namespaces { "Namespaced" } else { "" };
        let everywhere = if self.all_namespaces { "ForAllNamespaces" } else { "" };
        let (group, version) = (group_words(self.kind), capitalized(self.kind.version));
        let part = capitalized(self.subresource);
        format!("{verb}{group}{version}{collection}{namespaced}{}{part}{everywhere}", self.kind.kind)
    }

    /// The operations of the path, and the parameters that they share.
    fn item(&self, operations: Vec<(&'static str, Value)>) -> Value {
        let mut parameters = Vec::new();
        if self.named {
            parameters.push(path_parameter("name", "The name of the object."));
        }
        if self.kind.is_namespaced() && !self.all_namespaces {
            parameters.push(path_parameter("namespace", "The namespace of the objects."));
        }
        parameters.push(query_parameter(&("pretty", "string", "true: an answer that is laid out for people.")));
        let mut item: Map<_, _> =
            operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
        item.insert("parameters".to_owned(), parameters.into());
        item.into()
    }
}

/// A request body of that schema, in whatever type it comes.
fn body(schema: &str) -> Value {
    json!({ "*/*": { "schema": reference(schema) } })
}

fn query_parameter((name, ty, description): &Parameter) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": { "type": ty, "uniqueItems": true } })
}

fn path_parameter(name: &str, description: &str) -> Value {
    let schema = json!({ "type": "string", "uniqueItems": true });
    json!({ "name": name, "in": "path", "description": description, "required": true, "schema": schema })
}

/// `core_v1`, `networking_v1`, `whereaboutsCniCncfIo_v1alpha1`.
fn tag(kind: &Kind) -> String {
    let words = group_words(kind);
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    format!("{}{}_{}", first.map(String::from).unwrap_or_default(), letters.as_str(), kind.version)
}

/// The group in the names of operations: `Core`, `Networking` for networking.k8s.io, `WhereaboutsCniCncfIo`.
fn group_words(kind: &Kind) -> String {
    match kind.group.strip_suffix(".k8s.io").unwrap_or(kind.group) {
        "" => "Core".to_owned(),
        group => group.split(['.', '-']).map(capitalized).collect(),
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{}{}", first.map(String::from).unwrap_or_default(), letters.as_str())
}
