//! What a request path names: a group, a version, a resource, an object, a part of it.
//!
//! Only the shape of paths is known here, not which resources there are.

use std::borrow::Cow;

/// A path under `/api` or `/apis` that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Version { group: String, version: String },
    /// Anything below a version.
    Resource(Target),
    /// Anything else.
    Other,
}

/// Reads a path.
pub(crate) fn read(path: &str) -> Path {
    // Before it is taken apart: a slash that is escaped is a slash, as clients know it.
    let path = decoded(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["api"] => Path::CoreVersions,
        ["apis"] => Path::Groups,
        ["apis", group] => Path::Group((*group).to_owned()),
        ["api", version] => Path::Version { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => Path::Version { group: (*group).to_owned(), version: (*version).to_owned() },
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Path::Other,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Path {
    let mut target = Target { group: group.to_owned(), version: version.to_owned(), ..Target::default() };
    let rest = match rest {
        // A namespace and its own parts, not something in it.
        ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => rest,
        ["namespaces", namespace, rest @ ..] => {
            (*namespace).clone_into(&mut target.namespace);
            rest
        }
        _ => rest,
    };
    let parts = [&mut target.resource, &mut target.name, &mut target.subresource];
    if rest.len() > parts.len() {
        return Path::Other;
    }
    for (slot, part) in parts.into_iter().zip(rest) {
        (*part).clone_into(slot);
    }
    Path::Resource(target)
}

/// A part of a path or query with its percent escapes undone; what is no escape stays as it is.
pub(crate) fn decoded(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(part.len());
    let mut bytes = part.as_bytes();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        match (first, rest) {
            (b'%', [high, low, rest @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                out.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                bytes = rest;
            }
            _ => out.push(first),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> [String; 6] {
        match read(path) {
            Path::Resource(t) => [t.group, t.version, t.resource, t.namespace, t.name, t.subresource],
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_groups_versions_and_resources() {
        assert_eq!(read("/api"), Path::CoreVersions);
        assert_eq!(read("/apis/"), Path::Groups);
        assert_eq!(read("/apis/coordination.k8s.io"), Path::Group("coordination.k8s.io".to_owned()));
        assert_eq!(read("/api/v1"), Path::Version { group: String::new(), version: "v1".to_owned() });
        assert_eq!(target("/api/v1/nodes"), ["", "v1", "nodes", "", "", ""]);
        assert_eq!(target("/api/v1/namespaces"), ["", "v1", "namespaces", "", "", ""]);
        assert_eq!(target("/api/v1/namespaces/a"), ["", "v1", "namespaces", "", "a", ""]);
        assert_eq!(target("/api/v1/namespaces/a/finalize"), ["", "v1", "namespaces", "", "a", "finalize"]);
        assert_eq!(target("/api/v1/namespaces/a/services"), ["", "v1", "services", "a", "", ""]);
        assert_eq!(target("/apis/g/v2/namespaces/a/things/b/status"), ["g", "v2", "things", "a", "b", "status"]);
        assert_eq!(target("/apis/networking.k8s.io/v1/ipaddresses/2001%3Adb8%3A%3A1")[4], "2001:db8::1");
        assert_eq!(read("/api/v1/namespaces/a/services/b/status/more"), Path::Other);
        assert_eq!(read("/metrics"), Path::Other);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(decoded("a%2Fb%zz%2"), "a/b%zz%2");
        assert_eq!(target("/api/v1/nodes/a%2Fstatus"), ["", "v1", "nodes", "", "a", "status"]);
    }
}
