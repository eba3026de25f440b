//! Who may come in, and what they may do: certificates, tokens, and the few rules of authorization.
//!
//! Nothing here knows HTTP routes, kinds or the store. Whoever calls has worked out what a request asks for (its
//! [`Attributes`]) and who sent it (a [`User`]); the answer is yes, or a [`Denied`] with the text that clients expect.

pub mod accounts;
mod authenticate;
mod authorize;
pub mod credentials;
pub mod files;
mod impersonate;
pub mod kubeconfig;
pub mod pki;
pub mod tokens;

use std::collections::BTreeMap;

pub use authenticate::{Authenticator, PeerUser, Refused, Unauthenticated};
pub use authorize::{Attributes, Denied, PathRule, ResourceRule, authorize, path_rules, resource_rules};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// The group whose members may read everything but Secrets.
pub const READERS: &str = "cadastre:readers";

/// The group of everybody who has shown who they are.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of everybody who has not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group of all `ServiceAccount`s.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// What the names of `ServiceAccount`s begin with.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The name of everybody who has not shown who they are.
pub const ANONYMOUS: &str = "system:anonymous";

/// Who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique among all users.
    pub name: String,
    /// What tells this user from an earlier one of the same name; often empty.
    pub uid: String,
    /// The groups, with `system:authenticated` or `system:unauthenticated` at the end.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody who has shown who they are.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// Somebody who has not.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether the user is a member.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// The groups of the `ServiceAccount`s of a namespace.
fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}
