//! What a user may do: five rules, and everything else is denied.
//!
//! | who | may |
//! |---|---|
//! | everybody | get `/livez`, `/readyz`, `/healthz` and `/version` |
//! | who has shown who they are | also read discovery and OpenAPI, and ask what they themselves may do |
//! | `system:serviceaccounts` | also get what tokens of accounts are checked with |
//! | `cadastre:readers` | also get, list and watch everything but Secrets, and read metrics and single health checks |
//! | `system:masters` | everything |

use thiserror::Error;

use super::{AUTHENTICATED, MASTERS, READERS, SERVICE_ACCOUNTS, User};

/// Where it is said who signs the tokens of accounts, and with which key.
const ABOUT_TOKENS: [&str; 4] =
    ["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"];

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get list watch create update patch delete deletecollection`; for other paths the HTTP method in lower case.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The resource, in the plural.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace; empty for what has none, and for requests across all of them.
    pub namespace: &'a str,
    /// The name of one object, or empty.
    pub name: &'a str,
    /// The path of the URL.
    pub path: &'a str,
    /// Whether the path is that of a resource; otherwise only verb and path matter.
    pub is_resource: bool,
}

/// The request is not allowed. The text is the message of the Status, the fields are its details.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Denied {
    /// The API group that was asked for.
    pub group: String,
    /// The resource that was asked for; empty for other paths.
    pub resource: String,
    /// The name that was asked for, if it was one.
    pub name: String,
    /// All of the text.
    pub message: String,
}

/// Whether this user may do that.
pub fn authorize(user: &User, attributes: &Attributes<'_>) -> Result<(), Denied> {
    let allowed = user.is_in(MASTERS)
        || if attributes.is_resource { may_use(user, attributes) } else { may_visit(user, attributes) };
    if allowed { Ok(()) } else { Err(denied(user, attributes)) }
}

fn may_use(user: &User, attributes: &Attributes<'_>) -> bool {
    asks_about_itself(user, attributes) || (user.is_in(READERS) && reads(attributes))
}

/// `kubectl auth can-i` and `whoami`.
fn asks_about_itself(user: &User, attributes: &Attributes<'_>) -> bool {
    user.is_in(AUTHENTICATED)
        && attributes.verb == "create"
        && attributes.subresource.is_empty()
        && matches!(
            (attributes.group, attributes.resource),
            ("authorization.k8s.io", "selfsubjectaccessreviews" | "selfsubjectrulesreviews")
                | ("authentication.k8s.io", "selfsubjectreviews")
        )
}

/// Subresources are named one by one, because a `get` of `proxy` or `exec` does much more than read.
fn reads(attributes: &Attributes<'_>) -> bool {
    matches!(attributes.verb, "get" | "list" | "watch")
        && matches!(attributes.subresource, "" | "status" | "scale")
        && !means_secrets(attributes)
}

/// Whether Secrets are among what is asked for. Reviews may ask for all resources, or all groups, at once.
fn means_secrets(attributes: &Attributes<'_>) -> bool {
    matches!(attributes.group, "" | "*") && matches!(attributes.resource, "secrets" | "*")
}

fn may_visit(user: &User, attributes: &Attributes<'_>) -> bool {
    let path = attributes.path;
    attributes.verb == "get"
        && (is_public(path)
            || (user.is_in(AUTHENTICATED) && is_discovery(path))
            || (user.is_in(SERVICE_ACCOUNTS) && is_about_tokens(path))
            || (user.is_in(READERS) && is_measurement(path)))
}

/// What is needed to check the token of another account.
fn is_about_tokens(path: &str) -> bool {
    ABOUT_TOKENS.contains(&path)
}

fn is_public(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/healthz" | "/version" | "/version/")
}

fn is_discovery(path: &str) -> bool {
    ["/api", "/apis", "/openapi"].iter().any(|root| is_within(path, root))
}

fn is_measurement(path: &str) -> bool {
    ["/metrics", "/livez", "/readyz", "/healthz"].iter().any(|root| is_within(path, root))
}

fn is_within(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a user may do with resources, as clients are told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs; `*` is all of them.
    pub verbs: &'static [&'static str],
    /// The API group; `*` is all of them.
    pub group: String,
    /// The resources; `*` is all of them.
    pub resources: Vec<String>,
}

/// What a user may do with other paths, as clients are told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The verbs; `*` is all of them.
    pub verbs: &'static [&'static str],
    /// The paths; a star at the end of one is any text.
    pub paths: &'static [&'static str],
}

/// What a user may do with resources, of which those are all that there are, by group and name.
pub fn resource_rules<'a>(user: &User, served: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<ResourceRule> {
    let rule = |verbs, group: &str, resources: &[&str]| ResourceRule {
        verbs,
        group: group.to_owned(),
        resources: resources.iter().map(|&name| name.to_owned()).collect(),
    };
    let mut rules = Vec::new();
    if user.is_in(MASTERS) {
        rules.push(rule(&["*"], "*", &["*"]));
    }
    if user.is_in(AUTHENTICATED) {
        let authorization = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
        rules.push(rule(&["create"], "authorization.k8s.io", &authorization));
        rules.push(rule(&["create"], "authentication.k8s.io", &["selfsubjectreviews"]));
    }
    if user.is_in(READERS) {
        let readable = |group, resource| {
            reads(&Attributes { verb: "get", group, resource, is_resource: true, ..Attributes::default() })
        };
        let mut groups: Vec<ResourceRule> = Vec::new();
        for (group, resource) in served.into_iter().filter(|(group, resource)| readable(group, resource)) {
            match groups.iter_mut().find(|rule| rule.group == group) {
                Some(known) => known.resources.push(resource.to_owned()),
                None => groups.push(rule(&["get", "list", "watch"], group, &[resource])),
            }
        }
        rules.append(&mut groups);
    }
    rules
}

/// What a user may do with paths that are no resources.
pub fn path_rules(user: &User) -> Vec<PathRule> {
    let mut rules = Vec::new();
    let mut allow = |allowed: bool, verbs, paths| {
        if allowed {
            rules.push(PathRule { verbs, paths });
        }
    };
    allow(
        user.is_in(AUTHENTICATED),
        &["get"],
        &[
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
    );
    allow(user.is_in(MASTERS), &["*"], &["*"]);
    allow(user.is_in(SERVICE_ACCOUNTS), &["get"], &ABOUT_TOKENS);
    allow(true, &["get"], &["/healthz", "/livez", "/readyz", "/version", "/version/"]);
    allow(user.is_in(READERS), &["get"], &["/healthz/*", "/livez/*", "/metrics", "/metrics/*", "/readyz/*"]);
    rules
}

fn denied(user: &User, attributes: &Attributes<'_>) -> Denied {
    let Attributes { verb, group, resource, subresource, namespace, name, path, is_resource } = *attributes;
    let who = &user.name;
    if !is_resource {
        let message = format!("forbidden: User {who:?} cannot {verb} path {path:?}");
        return Denied { group: String::new(), resource: String::new(), name: String::new(), message };
    }
    let subject = match (group, name) {
        ("", "") => resource.to_owned(),
        ("", name) => format!("{resource} {name:?}"),
        (group, "") => format!("{resource}.{group}"),
        (group, name) => format!("{resource}.{group} {name:?}"),
    };
    let whole = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    Denied {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        message: format!(
            "{subject} is forbidden: User {who:?} cannot {verb} resource {whole:?} in API group {group:?} {place}"
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_user_is_told_is_what_a_user_may() {
        let served =
            [("", "pods"), ("", "secrets"), ("a.b", "things"), ("authorization.k8s.io", "selfsubjectaccessreviews")];
        let groups = [&[][..], &[READERS], &[SERVICE_ACCOUNTS], &[MASTERS]];
        for user in groups.map(|groups| User::authenticated("jane", groups.iter().map(|&group| group.to_owned()))) {
            let rules = resource_rules(&user, served);
            for ((group, resource), verb) in
                served.iter().flat_map(|one| ["get", "list", "create"].map(|verb| (one, verb)))
            {
                let has = |list: &[&str], wanted: &str| list.contains(&"*") || list.contains(&wanted);
                let told = rules.iter().any(|rule| {
                    let resources: Vec<&str> = rule.resources.iter().map(String::as_str).collect();
                    has(rule.verbs, verb) && has(&[&rule.group], group) && has(&resources, resource)
                });
                let asks = Attributes { verb, group, resource, is_resource: true, ..Attributes::default() };
                assert_eq!(told, authorize(&user, &asks).is_ok(), "{verb} {resource} {:?}", user.groups);
            }
            for path in [
                "/api/v1",
                "/version",
                "/healthz/etcd",
                "/metrics",
                "/livez",
                "/debug",
                "/openapi/v3",
                "/openid/v1/jwks",
            ] {
                let covers = |rule: &&str| match rule.strip_suffix('*') {
                    Some(begin) => path.starts_with(begin),
                    None => *rule == path,
                };
                let told = path_rules(&user).iter().any(|rule| rule.paths.iter().any(&covers));
                let asks = Attributes { verb: "get", path, ..Attributes::default() };
                assert_eq!(told, authorize(&user, &asks).is_ok(), "{path} {:?}", user.groups);
            }
        }
    }

    use super::*;

    fn user(groups: &[&str]) -> User {
        User::authenticated("jane", groups.iter().map(ToString::to_string))
    }

    fn path(path: &'static str) -> Attributes<'static> {
        Attributes { verb: "get", path, ..Attributes::default() }
    }

    fn resource(verb: &'static str, group: &'static str, resource: &'static str) -> Attributes<'static> {
        Attributes { verb, group, resource, namespace: "default", is_resource: true, ..Attributes::default() }
    }

    fn may(user: &User, attributes: Attributes<'_>) -> bool {
        authorize(user, &attributes).is_ok()
    }

    #[test]
    fn anonymous_gets_health_and_version_only() {
        let anonymous = User::anonymous();
        for open in ["/livez", "/readyz", "/healthz", "/version", "/version/"] {
            assert!(may(&anonymous, path(open)), "{open}");
        }
        for shut in ["/", "/api", "/apis", "/openapi/v3", "/metrics", "/readyz/store", "/livezz", "/cadastre/backup"] {
            assert!(!may(&anonymous, path(shut)), "{shut}");
        }
        assert!(!may(&anonymous, Attributes { verb: "post", ..path("/version") }));
        assert!(!may(&anonymous, resource("list", "", "configmaps")));
        assert!(!may(&anonymous, resource("create", "authorization.k8s.io", "selfsubjectaccessreviews")));
    }

    #[test]
    fn a_user_without_groups_sees_discovery_and_asks_about_itself() {
        let jane = user(&[]);
        for open in ["/version", "/api", "/api/v1", "/apis", "/apis/networking.k8s.io/v1", "/openapi/v3", "/openapi/v2"]
        {
            assert!(may(&jane, path(open)), "{open}");
        }
        assert!(may(&jane, resource("create", "authorization.k8s.io", "selfsubjectaccessreviews")));
        assert!(may(&jane, resource("create", "authorization.k8s.io", "selfsubjectrulesreviews")));
        assert!(may(&jane, resource("create", "authentication.k8s.io", "selfsubjectreviews")));
        for shut in ["/metrics", "/apiserver", "/readyz/store", "/"] {
            assert!(!may(&jane, path(shut)), "{shut}");
        }
        assert!(!may(&jane, resource("get", "", "configmaps")));
        assert!(!may(&jane, resource("create", "authorization.k8s.io", "subjectaccessreviews")));
    }

    #[test]
    fn readers_read_everything_but_secrets_and_write_nothing() {
        let reader = user(&[READERS]);
        for verb in ["get", "list", "watch"] {
            assert!(may(&reader, resource(verb, "", "configmaps")));
            assert!(may(&reader, resource(verb, "networking.k8s.io", "ipaddresses")));
            assert!(!may(&reader, resource(verb, "", "secrets")), "{verb} secrets");
            for (group, plural) in [("", "*"), ("*", "*"), ("*", "secrets")] {
                assert!(!may(&reader, resource(verb, group, plural)), "{verb} {group}/{plural}, which has secrets");
            }
            assert!(may(&reader, resource(verb, "apps", "*")), "{verb} a whole group without secrets");
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection", "impersonate"] {
            assert!(!may(&reader, resource(verb, "", "configmaps")), "{verb}");
        }
        let subresource = |subresource| Attributes { subresource, ..resource("get", "", "services") };
        assert!(may(&reader, subresource("status")));
        assert!(!may(&reader, subresource("proxy")));
        for open in ["/api/v1", "/metrics", "/readyz/store", "/version"] {
            assert!(may(&reader, path(open)), "{open}");
        }
        assert!(!may(&reader, path("/cadastre/backup")));
        assert!(!may(&reader, Attributes { verb: "post", ..path("/cadastre/backup") }));
    }

    #[test]
    fn masters_may_do_everything() {
        let master = user(&[MASTERS]);
        assert!(may(&master, resource("delete", "", "secrets")));
        assert!(may(&master, Attributes { verb: "post", ..path("/cadastre/backup") }));
    }

    #[test]
    fn a_denial_reads_as_clients_know_it() {
        let said = |attributes: Attributes<'_>| authorize(&user(&[]), &attributes).unwrap_err().to_string();
        assert_eq!(said(path("/foo")), r#"forbidden: User "jane" cannot get path "/foo""#);
        let pods = resource("list", "", "pods");
        assert_eq!(
            said(pods),
            r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#
        );
        let leases =
            Attributes { name: "a", subresource: "status", ..resource("update", "coordination.k8s.io", "leases") };
        assert_eq!(
            said(Attributes { namespace: "", ..leases }),
            r#"leases.coordination.k8s.io "a" is forbidden: User "jane" cannot update resource "leases/status" in API group "coordination.k8s.io" at the cluster scope"#
        );
    }
}
