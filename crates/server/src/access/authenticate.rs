//! Who sent a request: a client certificate, a bearer token, or nobody that we know.
//!
//! The certificate was checked against the client CA when the connection was made; here it is only read. Tokens are kept
//! as digests: looking one up takes the same time however much of it was guessed, and memory holds none of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::accounts::{Accounts, Issuer, Lookup};
use super::{Denied, User, impersonate};

/// What a certificate or token is called in a user's extra fields.
pub(super) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The user that a client certificate names, worked out once for each connection.
#[derive(Clone, Debug)]
pub struct PeerUser {
    user: Arc<User>,
    ends: SystemTime,
}

impl PeerUser {
    /// Reads the user from a certificate that was verified: the common name is the name, organizations are the groups.
    /// A certificate without a common name names nobody.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned);
        let ends = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
        let mut user = User::authenticated(name, groups);
        user.extra = BTreeMap::from([(CREDENTIAL.to_owned(), vec![fingerprint(certificate)])]);
        Some(Self { user: Arc::new(user), ends: SystemTime::UNIX_EPOCH + Duration::from_secs(ends) })
    }
}

fn fingerprint(certificate: &[u8]) -> String {
    digest(&SHA256, certificate).as_ref().iter().fold("X509SHA256=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The request carries something that should show who sent it and does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Unauthorized")]
pub struct Unauthenticated;

/// Why a request does not come in at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A token nobody has, or a certificate that has run out.
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    /// It asks to be taken for somebody else and may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It asks to be taken for somebody else and does not say properly for whom.
    #[error("{0}")]
    Malformed(String),
}

/// Knows all tokens.
#[derive(Debug)]
pub struct Authenticator {
    tokens: HashMap<[u8; 32], Arc<User>>,
    accounts: Option<Accounts>,
    anonymous: Arc<User>,
}

impl Default for Authenticator {
    fn default() -> Self {
        Self { tokens: HashMap::new(), accounts: None, anonymous: Arc::new(User::anonymous()) }
    }
}

impl Authenticator {
    /// Takes whoever shows this token for that user. Gives back the user who had it before.
    pub fn admit(&mut self, token: &str, user: User) -> Option<Arc<User>> {
        self.tokens.insert(digest_of(token.as_bytes()), Arc::new(user))
    }

    /// Also takes the tokens of `ServiceAccount`s which that issuer signed, as long as what they refer to is there.
    pub fn trust(&mut self, issuer: Arc<Issuer>, lookup: impl Lookup + 'static) {
        self.accounts = Some(Accounts::new(issuer, Box::new(lookup)));
    }

    /// Who a token names, and for whom of the audiences it is: those of the API, if none are given. An error is the text that
    /// clients are told.
    pub fn review(&self, token: &str, audiences: &[String]) -> Result<(Arc<User>, Vec<String>), String> {
        const WRONG: &str = "invalid bearer token";
        let own = self.accounts.as_ref().map(Accounts::audiences).unwrap_or_default();
        let asked = if audiences.is_empty() { &own } else { audiences };
        if let Some(user) = self.tokens.get(&digest_of(token.as_bytes())) {
            // These tokens are for the API and nobody else.
            let common: Vec<String> = asked.iter().filter(|one| own.contains(one)).cloned().collect();
            let suits = audiences.is_empty() || !common.is_empty();
            return if suits { Ok((Arc::clone(user), common)) } else { Err(WRONG.to_owned()) };
        }
        match self.accounts.as_ref().and_then(|accounts| accounts.user(token, asked, now())) {
            Some(Ok((user, common))) => Ok((Arc::new(user), common)),
            Some(Err(why)) => Err(format!("[{WRONG}, {why}]")),
            None => Err(WRONG.to_owned()),
        }
    }

    fn holder(&self, token: &[u8]) -> Option<Arc<User>> {
        if let Some(user) = self.tokens.get(&digest_of(token)) {
            return Some(Arc::clone(user));
        }
        let accounts = self.accounts.as_ref()?;
        let (user, _) = accounts.user(std::str::from_utf8(token).ok()?, &accounts.audiences(), now())?.ok()?;
        Some(Arc::new(user))
    }

    /// Who sent a request with these headers over a connection with that certificate. A certificate goes before a token;
    /// with neither the request is anonymous.
    pub fn user(&self, peer: Option<&PeerUser>, headers: &HeaderMap) -> Result<Arc<User>, Unauthenticated> {
        match (peer, bearer(headers)) {
            // Connections outlive certificates, and so do resumed sessions.
            (Some(peer), _) if SystemTime::now() <= peer.ends => Ok(Arc::clone(&peer.user)),
            (_, Some(token)) => self.holder(token).ok_or(Unauthenticated),
            (Some(_), None) => Err(Unauthenticated),
            (None, None) => Ok(Arc::clone(&self.anonymous)),
        }
    }

    /// Who a request is to be taken for: the user who sent it, or the one it asks to be taken for.
    pub fn admitted(&self, peer: Option<&PeerUser>, headers: &HeaderMap) -> Result<Arc<User>, Refused> {
        impersonate::wanted(self.user(peer, headers)?, headers)
    }
}

/// The token of `Authorization: Bearer TOKEN`; the scheme in any case, as RFC 9110 has it.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    Some(token.trim_ascii()).filter(|token| scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty())
}

/// The present, in seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn digest_of(token: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;
    use crate::access::{ANONYMOUS, AUTHENTICATED, MASTERS};

    fn authenticator() -> Authenticator {
        let mut authenticator = Authenticator::default();
        authenticator.admit("s3cret", User::authenticated("jane", ["devs".to_owned()]));
        authenticator
    }

    fn with(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(authorization))])
    }

    fn peer(ends: SystemTime) -> PeerUser {
        let mut params = CertificateParams::default();
        params.not_after = ends.into();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "bob");
        params.distinguished_name.push(DnType::OrganizationName, "cadastre:readers");
        // The maker of certificates takes one value for each type, so the second organization goes by its number.
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "staff");
        PeerUser::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der()).unwrap()
    }

    fn tomorrow() -> SystemTime {
        SystemTime::now() + Duration::from_hours(24)
    }

    #[test]
    fn a_token_names_its_user_and_a_wrong_one_nobody() {
        let authenticator = authenticator();
        let user = |header| authenticator.user(None, &with(header)).map(|user| user.name.clone());
        assert_eq!(user("Bearer s3cret").as_deref(), Ok("jane"));
        assert_eq!(user("bearer  s3cret ").as_deref(), Ok("jane"));
        for wrong in ["Bearer s3cre", "Bearer s3crets", "Bearer S3CRET", "Bearer x"] {
            assert_eq!(user(wrong), Err(Unauthenticated), "{wrong}");
        }
        for none in ["Bearer", "Bearer ", "Basic amFuZTpzM2NyZXQ=", ""] {
            assert_eq!(user(none).as_deref(), Ok(ANONYMOUS), "{none}");
        }
    }

    #[test]
    fn a_certificate_gives_name_and_groups() {
        let peer = peer(tomorrow());
        let user = authenticator().user(Some(&peer), &HeaderMap::new()).unwrap();
        assert_eq!(user.name, "bob");
        assert_eq!(user.groups, ["cadastre:readers", "staff", AUTHENTICATED]);
        assert!(!user.is_in(MASTERS));
        assert!(user.extra[CREDENTIAL][0].starts_with("X509SHA256="));
    }

    #[test]
    fn a_certificate_goes_before_a_token() {
        let peer = peer(tomorrow());
        assert_eq!(authenticator().user(Some(&peer), &with("Bearer wrong")).unwrap().name, "bob");
    }

    #[test]
    fn a_certificate_that_ran_out_on_an_open_connection_is_refused() {
        let peer = peer(SystemTime::now() - Duration::from_hours(1));
        assert_eq!(authenticator().user(Some(&peer), &HeaderMap::new()), Err(Unauthenticated));
        assert_eq!(authenticator().user(Some(&peer), &with("Bearer s3cret")).unwrap().name, "jane");
    }
}
