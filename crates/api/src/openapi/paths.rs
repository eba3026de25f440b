//! The paths of a kind and what can be done on each.

use serde_json::{Map, Value, json};

use super::parameters::{self, CHANGE, LIST, NAME, NAMESPACE, Parameter, Parameters, READ, REMOVE, REMOVE_ALL, WRITE};
use super::{DELETE_OPTIONS, PATCH, STATUS, capitalized, group_version_kind, group_words, list_schema, reference, tag};
use crate::kind::{Kind, Subresource};

/// What is done on a path, in the words of the documents.
struct Action {
    method: &'static str,
    /// `x-kubernetes-action`.
    name: &'static str,
    /// What the operation's name begins with.
    verb: &'static str,
    parameters: &'static [&'static Parameter],
    /// How it can end well.
    codes: &'static [(&'static str, &'static str)],
}

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

const GET_ONE: Action = Action { method: "get", name: "get", verb: "read", parameters: READ, codes: &[OK] };
const GET_ALL: Action = Action { method: "get", name: "list", verb: "list", parameters: LIST, codes: &[OK] };
const POST: Action =
    Action { method: "post", name: "post", verb: "create", parameters: WRITE, codes: &[OK, CREATED, ACCEPTED] };
const PUT: Action = Action { method: "put", name: "put", verb: "replace", parameters: WRITE, codes: &[OK, CREATED] };
const PATCH_ONE: Action =
    Action { method: "patch", name: "patch", verb: "patch", parameters: CHANGE, codes: &[OK, CREATED] };
const DELETE_ONE: Action =
    Action { method: "delete", name: "delete", verb: "delete", parameters: REMOVE, codes: &[OK, ACCEPTED] };
const DELETE_ALL: Action =
    Action { method: "delete", name: "deletecollection", verb: "delete", parameters: REMOVE_ALL, codes: &[OK] };

/// The paths of a kind under the root of its group and version.
pub(super) fn of(kind: &Kind, root: &str) -> Vec<(String, Value)> {
    let plural = kind.plural;
    let place = if kind.is_namespaced() { format!("/{root}/namespaces/{{namespace}}") } else { format!("/{root}") };
    let collection = Place { kind, all_namespaces: false, named: false, subresource: "" };
    if kind.is_question {
        return vec![(format!("{place}/{plural}"), item(vec![collection.post()]))];
    }
    let object = Place { named: true, ..collection };
    let mut operations = vec![collection.list(), collection.post()];
    operations.extend(kind.deletes_collection.then(|| collection.delete_all()));
    let mut paths = vec![
        (format!("{place}/{plural}"), item(operations)),
        (format!("{place}/{plural}/{{name}}"), item(vec![object.get(), object.put(), object.patch(), object.delete()])),
    ];
    if kind.is_namespaced() {
        let everywhere = Place { all_namespaces: true, ..collection };
        paths.push((format!("/{root}/{plural}"), item(vec![everywhere.list()])));
    }
    for subresource in kind.subresources {
        let part = Place { subresource: subresource.name(), ..object };
        let operations = match subresource {
            Subresource::Status => vec![part.get(), part.put(), part.patch()],
            Subresource::Finalize => vec![part.put()],
        };
        paths.push((format!("{place}/{plural}/{{name}}/{}", subresource.name()), item(operations)));
    }
    for question in kind.questions {
        let part = Place { subresource: question.name, ..object };
        paths.push((format!("{place}/{plural}/{{name}}/{}", question.name), item(vec![part.ask(question.kind)])));
    }
    paths
}

/// An operation, its parameters apart.
struct Operation {
    method: &'static str,
    shown: Value,
    parameters: Parameters,
}

/// The operations of a path. Parameters that all of them have are said once, for the path.
fn item(operations: Vec<Operation>) -> Value {
    let mut shared = operations.first().map(|first| first.parameters.clone()).unwrap_or_default();
    shared.retain(|name, _| operations.iter().all(|operation| operation.parameters.contains_key(name)));
    let mut item = Map::from_iter([("parameters".to_owned(), parameters::shown(&shared))]);
    for Operation { method, mut shown, mut parameters } in operations {
        parameters.retain(|name, _| !shared.contains_key(name));
        if !parameters.is_empty() {
            shown["parameters"] = parameters::shown(&parameters);
        }
        item.insert(method.to_owned(), shown);
    }
    item.into()
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
    fn list(&self) -> Operation {
        let plural = self.kind.plural;
        let says = if self.all_namespaces {
            format!("All {plural} of all namespaces: a list, or their changes if watch is true.")
        } else {
            format!("All {plural} here: a list, or their changes if watch is true.")
        };
        self.operation(&GET_ALL, &says, None, &list_schema(self.kind))
    }

    fn post(&self) -> Operation {
        let says = format!("Makes a new {}.", self.kind.kind);
        self.operation(&POST, &says, Some(self.body(self.kind.schema)), self.kind.schema)
    }

    /// A create of something else than the kind.
    fn ask(&self, question: &Kind) -> Operation {
        let says = format!("Makes a {} for one {}.", question.kind, self.kind.kind);
        let mut asked = self.operation(&POST, &says, Some(self.body(question.schema)), question.schema);
        asked.shown["x-kubernetes-group-version-kind"] =
            group_version_kind(question.group, question.version, question.kind);
        asked
    }

    fn get(&self) -> Operation {
        self.operation(&GET_ONE, &format!("Shows one {}{}.", self.kind.kind, self.part()), None, self.kind.schema)
    }

    fn put(&self) -> Operation {
        let says = format!("Puts what is sent in place of a {}{}.", self.kind.kind, self.part());
        self.operation(&PUT, &says, Some(self.body(self.kind.schema)), self.kind.schema)
    }

    fn patch(&self) -> Operation {
        let strategic = self.kind.is_built_in().then_some("application/strategic-merge-patch+json");
        let types = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
        let body = content(types.into_iter().chain(strategic), PATCH);
        let says = format!("Changes fields of a {}{}.", self.kind.kind, self.part());
        self.operation(&PATCH_ONE, &says, Some(body), self.kind.schema)
    }

    fn delete(&self) -> Operation {
        // A deleted namespace is answered too, but documents have always called it a Status.
        let shown = self.kind.answers_deleted && !self.kind.has(Subresource::Finalize);
        let answer = if shown { self.kind.schema } else { STATUS };
        let says = format!("Deletes a {}.", self.kind.kind);
        self.operation(&DELETE_ONE, &says, Some(self.body(DELETE_OPTIONS)), answer)
    }

    fn delete_all(&self) -> Operation {
        let says = format!("Deletes all {} that the selectors choose.", self.kind.plural);
        self.operation(&DELETE_ALL, &says, Some(self.body(DELETE_OPTIONS)), STATUS)
    }

    /// What an operation is about, if it is a part of the object.
    fn part(&self) -> String {
        if self.subresource.is_empty() { String::new() } else { format!(", as far as its {} goes", self.subresource) }
    }

    fn operation(&self, action: &Action, says: &str, body: Option<Value>, answer: &str) -> Operation {
        let mut types = vec!["application/json", "application/yaml"];
        if self.kind.is_built_in() {
            types.push("application/vnd.kubernetes.protobuf");
            if action.name == "list" {
                types.extend(["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]);
            }
        }
        let answered = content(types, answer);
        let code =
            |(code, text): &(&str, &str)| ((*code).to_owned(), json!({ "description": text, "content": answered }));
        let mut responses: Map<_, _> = action.codes.iter().map(code).collect();
        responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
        let mut shown = json!({
            "tags": [tag(self.kind.group, self.kind.version)],
            "description": says,
            "operationId": self.operation_id(action),
            "responses": responses,
            "x-kubernetes-action": action.name,
            "x-kubernetes-group-version-kind": group_version_kind(self.kind.group, self.kind.version, self.kind.kind),
        });
        if let Some(content) = body {
            shown["requestBody"] = json!({ "content": content });
            if !action.name.starts_with("delete") {
                shown["requestBody"]["required"] = true.into();
            }
        }
        let name = self.named.then_some(&NAME);
        let namespace = (self.kind.is_namespaced() && !self.all_namespaces).then_some(&NAMESPACE);
        let parameters = parameters::by_name(action.parameters.iter().copied().chain(name).chain(namespace));
        Operation { method: action.method, shown, parameters }
    }

    /// `patchCoreV1NamespacedServiceStatus`.
    fn operation_id(&self, action: &Action) -> String {
        let collection = if action.name == "deletecollection" { "Collection" } else { "" };
        let namespaced = if self.kind.is_namespaced() && !self.all_namespaces { "Namespaced" } else { "" };
        let everywhere = if self.all_namespaces { "ForAllNamespaces" } else { "" };
        let (group, version) = (group_words(self.kind.group), capitalized(self.kind.version));
        let (verb, kind, part) = (action.verb, self.kind.kind, capitalized(self.subresource));
        format!("{verb}{group}{version}{collection}{namespaced}{kind}{part}{everywhere}")
    }

    /// A request body of that schema.
    fn body(&self, schema: &str) -> Value {
        // Built-in kinds say nothing of the types they take, others do.
        let types: &[&str] = if self.kind.is_built_in() { &["*/*"] } else { &["application/json", "application/yaml"] };
        content(types.iter().copied(), schema)
    }
}

/// That schema in each of the media types.
pub(super) fn content(types: impl IntoIterator<Item = &'static str>, schema: &str) -> Value {
    types.into_iter().map(|ty| (ty.to_owned(), json!({ "schema": reference(schema) }))).collect::<Map<_, _>>().into()
}
