//! The tokens of `ServiceAccount`s: JSON Web Tokens that this server signs, and takes for what they say as long as the account
//! and what the token was bound to are there.
//!
//! Knows the clock and the keys; what is there it asks a [`Lookup`].

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::authenticate::CREDENTIAL;
use super::{SERVICE_ACCOUNT, User, service_account_groups};

/// The name by which the issuer is known if nothing else is said.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// How far the clocks of servers may be apart, in seconds.
const LEEWAY: i64 = 60;

/// The only signature that is made and taken.
const ALGORITHM: &str = "ES256";

/// Why there are no tokens for `ServiceAccount`s.
#[derive(Debug, Error)]
#[error("the key for the tokens of ServiceAccounts cannot be used: {0}; it has to be a P-256 key in PEM (PKCS #8)")]
pub struct KeyError(String);

/// A name and a uid in a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// What a token says of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The namespace of the account.
    #[serde(default)]
    pub namespace: String,
    /// The account.
    #[serde(default)]
    pub serviceaccount: Reference,
    /// The pod that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The secret that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The node that the token is bound to, or that of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claims {
    #[serde(default)]
    aud: Vec<String>,
    exp: i64,
    #[serde(default)]
    iat: i64,
    iss: String,
    #[serde(default)]
    jti: String,
    #[serde(default)]
    nbf: i64,
    sub: String,
    #[serde(rename = "kubernetes.io")]
    subject: Subject,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

/// An object that a token refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its uid.
    pub uid: String,
    /// When its deletion began, in seconds since 1970, if it did.
    pub deleted: Option<i64>,
}

/// Knows what is there.
pub trait Lookup: Send + Sync {
    /// The object of that resource (`serviceaccounts`, `pods`, `secrets`, `nodes`); the namespace of a node is empty.
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Found>;
}

/// Signs tokens.
pub struct Issuer {
    name: String,
    key: EcdsaKeyPair,
    id: String,
    random: SystemRandom,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

/// A new key, in PEM.
pub fn new_key() -> Result<String, KeyError> {
    KeyPair::generate().map(|key| key.serialize_pem()).map_err(|error| KeyError(error.to_string()))
}

impl Issuer {
    /// Signs with the key in that PEM text, under that name.
    pub fn new(name: &str, pem: &str) -> Result<Self, KeyError> {
        let pair = KeyPair::from_pem(pem).map_err(|error| KeyError(error.to_string()))?;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pair.serialize_der(), &random)
            .map_err(|error| KeyError(error.to_string()))?;
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &pair.subject_public_key_info()));
        Ok(Self { name: name.to_owned(), key, id, random })
    }

    /// The name under which it signs, which is also who its tokens are for if nothing else is said.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A token for those audiences, good from now for so many seconds.
    pub fn sign(&self, subject: Subject, audiences: &[String], now: i64, seconds: i64) -> Option<String> {
        let claims = Claims {
            aud: audiences.to_vec(),
            exp: now.saturating_add(seconds),
            iat: now,
            iss: self.name.clone(),
            jti: uuid::Uuid::new_v4().to_string(),
            nbf: now,
            sub: format!("{SERVICE_ACCOUNT}{}:{}", subject.namespace, subject.serviceaccount.name),
            subject,
        };
        let header = Header { alg: ALGORITHM.to_owned(), kid: self.id.clone() };
        let part = |json: Vec<u8>| BASE64_URL_SAFE_NO_PAD.encode(json);
        let signed = format!("{}.{}", part(serde_json::to_vec(&header).ok()?), part(serde_json::to_vec(&claims).ok()?));
        let signature = self.key.sign(&self.random, signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The public key, as those who check a token for themselves look it up.
    pub fn keys(&self) -> Value {
        // A point that is not compressed: a mark, and two numbers.
        let (x, y) =
            self.key.public_key().as_ref().get(1..).map_or((&[][..], &[][..]), |point| point.split_at(point.len() / 2));
        let number = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM, "x": number(x), "y": number(y),
        }]})
    }

    /// What those who check a token for themselves have to know of its issuer, which serves its key at that address.
    pub fn description(&self, address: &str) -> Value {
        json!({
            "issuer": self.name, "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        })
    }

    /// What a token says, if it is one that claims to be ours; and then whether it is.
    fn read(&self, token: &str) -> Option<Result<Claims, String>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let claims: Claims = serde_json::from_slice(&part(claims)?).ok()?;
        if claims.iss != self.name {
            return None;
        }
        let header: Header = serde_json::from_slice(&part(header)?).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        let genuine = header.alg == ALGORITHM
            && (header.kid.is_empty() || header.kid == self.id)
            && part(signature).is_some_and(|signature| public.verify(signed.as_bytes(), &signature).is_ok());
        Some(if genuine { Ok(claims) } else { Err("the signature of the token is not that of its issuer".to_owned()) })
    }
}

/// Takes tokens.
pub struct Accounts {
    issuer: std::sync::Arc<Issuer>,
    lookup: Box<dyn Lookup>,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Accounts {
    pub(super) fn new(issuer: std::sync::Arc<Issuer>, lookup: Box<dyn Lookup>) -> Self {
        Self { issuer, lookup }
    }

    /// Who a token names and for whom of those audiences it is, at that time; nobody if it is none of ours. An error says what
    /// is wrong with it.
    pub(super) fn user(
        &self,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Option<Result<(User, Vec<String>), String>> {
        Some(self.issuer.read(token)?.and_then(|claims| self.checked(claims, audiences, now)))
    }

    /// The audiences of the API itself.
    pub(super) fn audiences(&self) -> Vec<String> {
        vec![self.issuer.name.clone()]
    }

    fn checked(&self, claims: Claims, audiences: &[String], now: i64) -> Result<(User, Vec<String>), String> {
        let common: Vec<String> = claims.aud.iter().filter(|one| audiences.contains(one)).cloned().collect();
        if common.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&claims.aud),
                quoted(audiences)
            ));
        }
        if now - LEEWAY > claims.exp {
            return Err("service account token has expired".to_owned());
        }
        if now + LEEWAY < claims.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        if now + LEEWAY < claims.iat {
            return Err("service account token is issued in the future".to_owned());
        }
        let Subject { namespace, serviceaccount, pod, secret, node } = &claims.subject;
        let account = self.lookup.find("serviceaccounts", namespace, &serviceaccount.name);
        let account = account.ok_or_else(|| format!("serviceaccounts {:?} not found", serviceaccount.name))?;
        if account.uid != serviceaccount.uid {
            let (is, was) = (&account.uid, &serviceaccount.uid);
            return Err(format!("service account UID ({is}) does not match claim ({was})"));
        }
        if is_gone(&account, now) {
            return Err(format!("service account {namespace}/{} has been deleted", serviceaccount.name));
        }
        self.check_bound("secrets", "secret", namespace, secret.as_ref(), now)?;
        self.check_bound("pods", "pod", namespace, pod.as_ref(), now)?;
        if pod.is_none() {
            self.check_bound("nodes", "node", "", node.as_ref(), now)?;
        }
        Ok((user(claims), common))
    }

    fn check_bound(
        &self,
        resource: &str,
        kind: &str,
        namespace: &str,
        to: Option<&Reference>,
        now: i64,
    ) -> Result<(), String> {
        let Some(to) = to else { return Ok(()) };
        match self.lookup.find(resource, namespace, &to.name) {
            Some(found) if found.uid != to.uid => {
                Err(format!("{kind} UID ({}) does not match service account {kind} ref claim ({})", found.uid, to.uid))
            }
            Some(found) if !is_gone(&found, now) => Ok(()),
            _ => Err("service account token has been invalidated".to_owned()),
        }
    }
}

fn is_gone(found: &Found, now: i64) -> bool {
    found.deleted.is_some_and(|time| time < now - LEEWAY)
}

fn user(claims: Claims) -> User {
    let Subject { namespace, serviceaccount, pod, node, .. } = claims.subject;
    let mut extra = BTreeMap::new();
    let mut know = |name: &str, value: String| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value]);
        }
    };
    if let Some(pod) = pod {
        know("pod-name", pod.name);
        know("pod-uid", pod.uid);
    }
    if let Some(node) = node {
        know("node-name", node.name);
        know("node-uid", node.uid);
    }
    if !claims.jti.is_empty() {
        extra.insert(CREDENTIAL.to_owned(), vec![format!("JTI={}", claims.jti)]);
    }
    let name = format!("{SERVICE_ACCOUNT}{namespace}:{}", serviceaccount.name);
    User { uid: serviceaccount.uid, extra, ..User::authenticated(name, service_account_groups(&namespace)) }
}

/// A list as Go shows it with `%q`.
fn quoted(list: &[String]) -> String {
    let each: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
    format!("[{}]", each.join(" "))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    /// What is there, by resource and name.
    #[derive(Clone, Default)]
    struct House(Arc<Mutex<BTreeMap<(String, String), Found>>>);

    impl House {
        fn put(&self, resource: &str, name: &str, uid: &str, deleted: Option<i64>) {
            let found = Found { uid: uid.to_owned(), deleted };
            self.0.lock().unwrap().insert((resource.to_owned(), name.to_owned()), found);
        }
    }

    impl Lookup for House {
        fn find(&self, resource: &str, _namespace: &str, name: &str) -> Option<Found> {
            self.0.lock().unwrap().get(&(resource.to_owned(), name.to_owned())).cloned()
        }
    }

    fn reference(name: &str, uid: &str) -> Reference {
        Reference { name: name.to_owned(), uid: uid.to_owned() }
    }

    fn subject() -> Subject {
        Subject { namespace: "ns".to_owned(), serviceaccount: reference("bot", "u1"), ..Subject::default() }
    }

    fn accounts() -> (Accounts, House) {
        let house = House::default();
        house.put("serviceaccounts", "bot", "u1", None);
        let issuer = Issuer::new(ISSUER, &new_key().unwrap()).unwrap();
        (Accounts::new(Arc::new(issuer), Box::new(house.clone())), house)
    }

    fn why(accounts: &Accounts, token: &str, now: i64) -> String {
        accounts.user(token, &accounts.audiences(), now).unwrap().unwrap_err()
    }

    #[test]
    fn a_token_names_its_account_for_its_time() {
        let (accounts, _) = accounts();
        let token = accounts.issuer.sign(subject(), &accounts.audiences(), NOW, 600).unwrap();
        let (user, audiences) = accounts.user(&token, &accounts.audiences(), NOW + 660).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:ns:bot", "u1"));
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
        assert!(user.extra[CREDENTIAL][0].starts_with("JTI="));
        assert_eq!(audiences, [ISSUER]);
        assert_eq!(why(&accounts, &token, NOW + 661), "service account token has expired");
        assert_eq!(why(&accounts, &token, NOW - 61), "service account token is not valid yet");
        let others = accounts.user(&token, &["a".to_owned()], NOW).unwrap().unwrap_err();
        let ours = "[\"https://kubernetes.default.svc\"]";
        assert_eq!(others, format!("token audiences {ours} is invalid for the target audiences [\"a\"]"));
    }

    #[test]
    fn a_token_ends_with_its_account_and_with_what_it_is_bound_to() {
        let (accounts, house) = accounts();
        let bound = Subject { pod: Some(reference("p", "u2")), node: Some(reference("n", "u3")), ..subject() };
        let token = accounts.issuer.sign(bound, &accounts.audiences(), NOW, 600).unwrap();
        assert_eq!(why(&accounts, &token, NOW), "service account token has been invalidated");
        house.put("pods", "p", "u2", None);
        let (user, _) = accounts.user(&token, &accounts.audiences(), NOW).unwrap().unwrap();
        assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["u2"]);
        assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n"]);
        house.put("pods", "p", "u2", Some(NOW));
        assert_eq!(why(&accounts, &token, NOW + 61), "service account token has been invalidated");
        house.put("pods", "p", "u9", None);
        assert_eq!(why(&accounts, &token, NOW), "pod UID (u9) does not match service account pod ref claim (u2)");
        house.put("serviceaccounts", "bot", "u7", None);
        assert_eq!(why(&accounts, &token, NOW), "service account UID (u7) does not match claim (u1)");
    }

    #[test]
    fn a_token_that_was_changed_or_signed_by_another_is_none() {
        let (accounts, _) = accounts();
        let token = accounts.issuer.sign(subject(), &accounts.audiences(), NOW, 600).unwrap();
        let forged = Issuer::new(ISSUER, &new_key().unwrap()).unwrap();
        let forged = forged.sign(subject(), &accounts.audiences(), NOW, 600).unwrap();
        let (signed, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = forged.rsplit_once('.').unwrap();
        let unsigned =
            format!("{}.{}.", BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), token.split('.').nth(1).unwrap());
        for wrong in [forged.clone(), format!("{signed}.{signature}"), format!("{signed}."), unsigned] {
            assert_eq!(why(&accounts, &wrong, NOW), "the signature of the token is not that of its issuer", "{wrong}");
        }
        for none in ["", "a.b.c", "..", signed] {
            assert!(accounts.user(none, &accounts.audiences(), NOW).is_none(), "{none}");
        }
        let stranger = Issuer::new("https://elsewhere", &new_key().unwrap()).unwrap();
        let stranger = stranger.sign(subject(), &accounts.audiences(), NOW, 600).unwrap();
        assert!(accounts.user(&stranger, &accounts.audiences(), NOW).is_none());
    }

    #[test]
    fn a_token_can_be_checked_with_the_published_key() {
        let (accounts, _) = accounts();
        let token = accounts.issuer.sign(subject(), &accounts.audiences(), NOW, 600).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let keys = accounts.issuer.keys();
        let number = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(keys["keys"][0][name].as_str().unwrap()).unwrap();
        let point = [vec![4], number("x"), number("y")].concat();
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn a_key_of_another_sort_is_refused() {
        assert!(Issuer::new(ISSUER, "nonsense").unwrap_err().to_string().contains("P-256"));
    }
}
