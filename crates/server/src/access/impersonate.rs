//! Requests that ask to be taken for somebody else: `kubectl --as`.
//!
//! Who may not impersonate is told so. To pass such a request on under its sender's own name would do with full rights
//! what was meant to be tried with few.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use super::{
    ANONYMOUS, Attributes, Refused, SERVICE_ACCOUNT, UNAUTHENTICATED, User, authorize, service_account_groups,
};

const PREFIX: &str = "impersonate-";
const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const EXTRA: &str = "impersonate-extra-";

/// The user that the headers ask for, or the sender if they ask for none.
pub(super) fn wanted(sender: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, Refused> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(sender);
    }
    let name = one(headers, &USER)?;
    if name.is_empty() {
        return Err(Refused::Malformed("impersonation headers are set without Impersonate-User".to_owned()));
    }
    may_impersonate(&sender, name)?;
    let mut user = User { name: name.to_owned(), uid: one(headers, &UID)?.to_owned(), ..User::default() };
    for group in headers.get_all(GROUP) {
        user.groups.push(text(group)?.to_owned());
    }
    if user.groups.is_empty() {
        user.groups = own_groups(name);
    }
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            user.extra.entry(unescape(key)?).or_default().push(text(value)?.to_owned());
        }
    }
    if user.name != ANONYMOUS && !user.is_in(UNAUTHENTICATED) {
        user = User { uid: user.uid, extra: user.extra, ..User::authenticated(user.name, user.groups) };
    }
    Ok(Arc::new(user))
}

fn may_impersonate(sender: &User, name: &str) -> Result<(), Refused> {
    let asks = Attributes { verb: "impersonate", resource: "users", name, is_resource: true, ..Attributes::default() };
    let account = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let asks = match account {
        Some((namespace, name)) => Attributes { resource: "serviceaccounts", namespace, name, ..asks },
        None => asks,
    };
    Ok(authorize(sender, &asks)?)
}

/// The groups of a user whose groups are not said: service accounts and anonymous have theirs by name.
fn own_groups(name: &str) -> Vec<String> {
    if name == ANONYMOUS {
        return vec![UNAUTHENTICATED.to_owned()];
    }
    match name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':')) {
        Some((namespace, _)) => service_account_groups(namespace).to_vec(),
        None => Vec::new(),
    }
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Refused> {
    headers.get(name).map_or(Ok(""), text)
}

fn text(value: &http::HeaderValue) -> Result<&str, Refused> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| Refused::Malformed("an impersonation header is not UTF-8".to_owned()))
}

/// Keys of extra fields may have characters that a header name may not; those come percent-encoded.
fn unescape(key: &str) -> Result<String, Refused> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = || std::str::from_utf8(after.get(..2)?).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let (b'%', Some(decoded)) = (byte, escaped()) {
            bytes.push(decoded);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| Refused::Malformed(format!("{EXTRA}{key} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AUTHENTICATED, MASTERS};

    fn master() -> Arc<User> {
        Arc::new(User::authenticated("root", [MASTERS.to_owned()]))
    }

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn without_the_headers_the_sender_is_the_user() {
        assert_eq!(wanted(master(), &headers(&[("accept", "*/*")])).unwrap(), master());
    }

    #[test]
    fn masters_become_whom_they_name_and_no_more() {
        let jane = wanted(
            master(),
            &headers(&[
                ("impersonate-user", "jane"),
                ("impersonate-group", "devs"),
                ("impersonate-group", "ops"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-acme.com%2Fproject", "x"),
            ]),
        )
        .unwrap();
        assert_eq!(jane.name, "jane");
        assert_eq!(jane.groups, ["devs", "ops", AUTHENTICATED]);
        assert_eq!(jane.uid, "7");
        assert_eq!(jane.extra["acme.com/project"], ["x"]);
    }

    #[test]
    fn groups_that_are_not_said_follow_from_the_name() {
        let become_ = |name| wanted(master(), &headers(&[("impersonate-user", name)])).unwrap().groups.clone();
        assert_eq!(become_("jane"), [AUTHENTICATED]);
        assert_eq!(become_("system:anonymous"), [UNAUTHENTICATED]);
        let account = ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED];
        assert_eq!(become_("system:serviceaccount:ns:bot"), account);
    }

    #[test]
    fn everybody_else_is_denied() {
        let jane = Arc::new(User::authenticated("jane", []));
        let refused = wanted(Arc::clone(&jane), &headers(&[("impersonate-user", "root")])).unwrap_err();
        assert_eq!(
            refused.to_string(),
            r#"users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
        let refused = wanted(jane, &headers(&[("impersonate-user", "system:serviceaccount:ns:bot")])).unwrap_err();
        assert_eq!(
            refused.to_string(),
            r#"serviceaccounts "bot" is forbidden: User "jane" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#
        );
    }

    #[test]
    fn a_group_without_a_user_is_malformed_not_ignored() {
        let refused = wanted(master(), &headers(&[("impersonate-group", "devs")])).unwrap_err();
        assert!(matches!(refused, Refused::Malformed(_)), "{refused:?}");
    }
}
