//! What a client wants to get, and what it says it sends: `Accept` and `Content-Type`.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};

use super::failure::Failure;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What an answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object itself, or a list of objects.
    Object,
    /// A `Table` for people to read, of that version of `meta.k8s.io`.
    Table(&'static str),
    /// Metadata alone, of that version of `meta.k8s.io`.
    Partial(&'static str),
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

/// The media types that a body may be sent in and an answer may be asked for.
pub(crate) const ACCEPTED: &str = "application/json, application/yaml";

/// A clause of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value).unwrap_or_default()
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            _ => None,
        }
    }
}

/// The clauses of the `Accept` header, the most wanted first.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses: Vec<Clause<'_>> = header
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|part| part.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
            Clause { media, parameters }
        })
        .filter(|clause| !clause.media.is_empty())
        .collect();
    let weight = |clause: &Clause<'_>| clause.parameter("q").parse::<f32>().unwrap_or(1.0);
    clauses.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    clauses
}

/// What the client wants of a resource.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Wanted, Failure> {
    if !headers.contains_key(ACCEPT) {
        return Ok(Wanted { form: Form::Object, encoding: Encoding::Json });
    }
    let understood = |clause: &Clause<'_>| {
        let encoding = clause.encoding()?;
        let version = match clause.parameter("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let form = match (clause.parameter("as"), clause.parameter("g"), version) {
            ("", _, _) => Form::Object,
            ("Table", "meta.k8s.io", "v1" | "v1beta1") => Form::Table(version),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                Form::Partial(version)
            }
            _ => return None,
        };
        Some(Wanted { form, encoding })
    };
    clauses(headers).iter().find_map(understood).ok_or_else(|| Failure::not_acceptable(ACCEPTED))
}

/// The version of aggregated discovery that the client wants before plain discovery, if it does.
pub(crate) fn aggregated_discovery(headers: &HeaderMap) -> Option<&'static str> {
    for clause in clauses(headers) {
        if clause.media != "application/json" {
            continue;
        }
        match (clause.parameter("as"), clause.parameter("g"), clause.parameter("v")) {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Some("v2"),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => return Some("v2beta1"),
            ("", ..) => return None,
            _ => {}
        }
    }
    None
}

/// The media type of the body, without parameters; empty if the client does not say.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// Whether the client takes answers compressed with gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let header = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(',').any(|one| {
        let (name, parameters) = one.split_once(';').unwrap_or((one, ""));
        name.trim() == "gzip" && parameters.trim().replace(' ', "") != "q=0"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, text.parse().unwrap())])
    }

    #[test]
    fn the_first_clause_that_is_understood_wins() {
        let form = |text: &str| wanted(&accept(text)).map(|wanted| wanted.form);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(form(table), Ok(Form::Table("v1")));
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Object));
        assert_eq!(form("application/json;as=Nonsense;v=v1;g=meta.k8s.io,*/*"), Ok(Form::Object));
        assert_eq!(form("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io"), Ok(Form::Table("v1")));
        assert_eq!(wanted(&accept("application/yaml")).unwrap().encoding, Encoding::Yaml);
        assert_eq!(wanted(&HeaderMap::new()).unwrap().encoding, Encoding::Json);
    }

    #[test]
    fn a_client_that_takes_nothing_we_have_is_told_what_we_have() {
        let failure = wanted(&accept("application/vnd.kubernetes.protobuf")).unwrap_err();
        assert_eq!(failure.code, 406);
        assert_eq!(failure.message, "only the following media types are accepted: application/json, application/yaml");
    }

    #[test]
    fn aggregated_discovery_is_given_to_those_who_ask_for_it_first() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(aggregated_discovery(&accept(v2)), Some("v2"));
        assert_eq!(aggregated_discovery(&accept("application/json")), None);
        assert_eq!(aggregated_discovery(&HeaderMap::new()), None);
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        let takes = |text: &str| takes_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, text.parse().unwrap())]));
        assert!(takes("gzip") && takes("deflate, gzip;q=1.0"));
        assert!(!takes("identity") && !takes("gzip;q=0"));
    }
}
