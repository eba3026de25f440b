//! Who somebody is: self subject reviews, token reviews, and tokens for `ServiceAccount`s.

use api::{Errors, Kind, Object, Path};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store::Store;

use super::{Asking, invalid};
use crate::access::User;
use crate::access::accounts::{Found, Lookup, Reference, Subject};
use crate::machinery::{Failure, catalog, seconds};

/// Who am I?
pub(super) fn of_self(review: &Object, asking: &Asking<'_>) -> Object {
    let answer = json!({
        "kind": review.kind(), "apiVersion": review.api_version(),
        "metadata": {"creationTimestamp": seconds(Timestamp::now())},
        "status": {"userInfo": described(asking.user)},
    });
    Object::from_value(answer).unwrap_or_default()
}

/// Whose token is this?
pub(super) fn of_token(mut review: Object, asking: &Asking<'_>) -> Result<Object, Failure> {
    let token = review.text(&["spec", "token"]);
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = texts(review.at(&["spec", "audiences"]));
    let status = match asking.machinery.config.authenticator.review(token, &audiences) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": described(&user), "audiences": audiences})
        }
        Err(why) => json!({"error": why}),
    };
    review.set(&["status"], status);
    Ok(review)
}

fn described(user: &User) -> Value {
    json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra})
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A token for the account that the path names.
pub(super) async fn token(kind: &Kind, mut request: Object, asking: &Asking<'_>) -> Result<Object, Failure> {
    let Some(issuer) = &asking.machinery.config.issuer else { return Err(Failure::no_such_resource()) };
    let (namespace, name) = (asking.namespace, asking.name);
    if !request.name().is_empty() && request.name() != name {
        let mut errors = Errors::new();
        let why = "must match the service account name if specified";
        errors.invalid(&Path::new("metadata").child("name"), &json!(request.name()), why);
        return Err(Failure::invalid(kind, name, &errors));
    }
    let store = &asking.machinery.store;
    let account = object(store, "serviceaccounts", namespace, name).await?;
    if !request.uid().is_empty() && request.uid() != account.uid() {
        let (said, is) = (request.uid(), account.uid());
        let why = format!("the UID in the token request ({said}) does not match the UID of the service account ({is})");
        return Err(conflict(kind.group, kind.kind, name, &why));
    }
    let mut audiences = texts(request.at(&["spec", "audiences"]));
    if audiences.is_empty() {
        audiences.push(issuer.name().to_owned());
    }
    request.set(&["spec", "audiences"], json!(audiences));
    let now = Timestamp::now();
    for (field, value) in
        [("name", name), ("namespace", namespace), ("uid", account.uid()), ("creationTimestamp", &seconds(now))]
    {
        request.set(&["metadata", field], json!(value));
    }
    invalid(kind, "", &request)?;

    let lasts = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or_default();
    let mut subject =
        Subject { namespace: namespace.to_owned(), serviceaccount: reference(&account), ..Subject::default() };
    bind(&mut subject, &request, store).await?;
    let token = issuer.sign(subject, &audiences, now.as_second(), lasts);
    let token = token.ok_or_else(|| Failure::internal("failed to generate token"))?;
    let ends = now.checked_add(SignedDuration::from_secs(lasts)).unwrap_or(Timestamp::MAX);
    request.set(&["status"], json!({"token": token, "expirationTimestamp": seconds(ends)}));
    Ok(request)
}

/// Binds a token to the object that the request names, if it does: it is good as long as that is there.
async fn bind(subject: &mut Subject, request: &Object, store: &Store) -> Result<(), Failure> {
    let bound = |field: &str| request.text(&["spec", "boundObjectRef", field]);
    if !request.at(&["spec", "boundObjectRef"]).is_some_and(Value::is_object) {
        return Ok(());
    }
    let (version, kind, name) = (bound("apiVersion"), bound("kind"), bound("name"));
    let core = !version.contains('/');
    let namespace = subject.namespace.clone();
    let to = match kind {
        "Pod" if core => {
            let pod = object(store, "pods", &namespace, name).await?;
            let account = &subject.serviceaccount.name;
            if pod.text(&["spec", "serviceAccountName"]) != account {
                return Err(Failure::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            let node = pod.text(&["spec", "nodeName"]);
            if !node.is_empty() {
                // A node that is not there is at least named.
                let found = object(store, "nodes", "", node).await;
                let named = Reference { name: node.to_owned(), uid: String::new() };
                subject.node = Some(found.map_or(named, |node| reference(&node)));
            }
            subject.pod.insert(reference(&pod))
        }
        "Node" if core => subject.node.insert(reference(&object(store, "nodes", "", name).await?)),
        "Secret" if core => subject.secret.insert(reference(&object(store, "secrets", &namespace, name).await?)),
        _ => {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let what = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Failure::bad_request(what));
        }
    };
    let uid = bound("uid");
    if !uid.is_empty() && uid != to.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(conflict("", kind, name, &why));
    }
    Ok(())
}

fn reference(object: &Object) -> Reference {
    Reference { name: object.name().to_owned(), uid: object.uid().to_owned() }
}

/// Clients know these conflicts with the kind where the resource should be.
fn conflict(group: &str, kind: &str, name: &str, why: &str) -> Failure {
    let what = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let message = format!("Operation cannot be fulfilled on {what} {name:?}: {why}");
    let mut failure = Failure::new(StatusCode::CONFLICT, "Conflict", message);
    name.clone_into(&mut failure.details.name);
    group.clone_into(&mut failure.details.group);
    kind.clone_into(&mut failure.details.kind);
    failure
}

/// An object of the core group as it is now, or that it is not there.
async fn object(store: &Store, plural: &str, namespace: &str, name: &str) -> Result<Object, Failure> {
    let kind = catalog().resource("", "v1", plural).ok_or_else(Failure::no_such_resource)?.kind;
    present(store, plural, namespace, name).await?.ok_or_else(|| Failure::not_found(kind, name))
}

/// An object of the core group as it is now, if it is there.
pub(super) async fn present(
    store: &Store,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Failure> {
    let resource = catalog().resource("", "v1", plural).ok_or_else(Failure::no_such_resource)?;
    let key = resource.key(namespace, name);
    let mut entry = store.get(&key);
    if entry.is_none() {
        // It may have been made a moment ago through another server.
        store.settle().await?;
        entry = store.get(&key);
    }
    let object = entry.map(|entry| Object::parse(&entry.value)).transpose();
    object.map_err(|error| Failure::internal(error.to_string()))
}

/// The store as what tokens are held against.
pub(crate) struct Present(pub(crate) Store);

impl Lookup for Present {
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Found> {
        let key = catalog().resource("", "v1", resource)?.key(namespace, name);
        let object = Object::parse(&self.0.get(&key)?.value).ok()?;
        let deleted = object.text(&["metadata", "deletionTimestamp"]).parse::<Timestamp>();
        Some(Found { uid: object.uid().to_owned(), deleted: deleted.ok().map(Timestamp::as_second) })
    }
}
