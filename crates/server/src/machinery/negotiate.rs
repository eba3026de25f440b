//! What a client wants to get, and what it says it sends: `Accept` and `Content-Type`.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};

use super::failure::Failure;
use super::protobuf;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => protobuf::MEDIA_TYPE,
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

/// The media types that an answer may be asked for. Kinds without protobuf have it of their metadata.
const GIVEN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Those of a watch.
const STREAMED: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// A clause of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> Clause<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        let mut clause = Self { media, parameters, weight: 1.0 };
        clause.weight = clause.parameter("q").parse().unwrap_or(1.0);
        clause
    }

    fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value).unwrap_or_default()
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            protobuf::MEDIA_TYPE => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    /// What is to be made of the object: a kind, its group and its version.
    fn conversion(&self) -> (&'a str, &'a str, &'a str) {
        (self.parameter("as"), self.parameter("g"), self.parameter("v"))
    }

    fn wanted(&self) -> Option<Wanted> {
        let encoding = self.encoding()?;
        if !matches!(self.parameter("stream"), "" | "watch") {
            return None;
        }
        let version = match self.parameter("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let form = match self.conversion() {
            ("", "", "") => Form::Object,
            ("Table", "meta.k8s.io", "v1" | "v1beta1") if encoding != Encoding::Protobuf => Form::Table(version),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                Form::Partial(version)
            }
            _ => return None,
        };
        Some(Wanted { form, encoding })
    }
}

/// The clauses of the `Accept` header, the most wanted first.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses: Vec<Clause<'_>> =
        header.split(',').map(Clause::read).filter(|clause| !clause.media.is_empty()).collect();
    clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    clauses
}

/// The first that somebody can have who wants these; but JSON, which is at hand, in the place of protobuf that is wanted no
/// more than it, unless it would not say the same.
fn first<T: Copy + PartialEq>(
    clauses: &[Clause<'_>],
    can_have: impl Fn(&Clause<'_>) -> Option<(T, Encoding)>,
    same: impl Fn(T) -> bool,
) -> Option<(T, Encoding)> {
    let can_have = |clause: &Clause<'_>| can_have(clause).map(|had| (had, clause.weight));
    let mut had = clauses.iter().filter_map(can_have);
    let (found, weight) = had.next()?;
    let json = (found.0, Encoding::Json);
    let instead = found.1 == Encoding::Protobuf && same(found.0) && had.any(|other| other == (json, weight));
    Some(if instead { json } else { found })
}

/// Whether the client takes JSON.
pub(crate) fn takes_json(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT) || clauses(headers).iter().any(|clause| clause.encoding() == Some(Encoding::Json))
}

/// Whether the client takes one of these media types of `application`.
pub(crate) fn takes(headers: &HeaderMap, media: &[&str]) -> bool {
    let any = |clause: &Clause<'_>| matches!(clause.media, "*/*" | "application/*") || media.contains(&clause.media);
    !headers.contains_key(ACCEPT) || clauses(headers).iter().any(any)
}

/// What there is of a resource besides JSON and YAML, and metadata alone.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    /// Built-in kinds have protobuf.
    pub(crate) protobuf: bool,
    /// What is stored can be shown as a table.
    pub(crate) table: bool,
}

/// What the client wants of a resource.
pub(crate) fn wanted(headers: &HeaderMap, given: Given) -> Result<Wanted, Failure> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Wanted { form: Form::Object, encoding: Encoding::Json });
    }
    let can_have = |clause: &Clause<'_>| {
        let Wanted { form, encoding } = clause.wanted()?;
        let there_is = match (form, encoding) {
            (Form::Object, Encoding::Protobuf) => given.protobuf,
            (Form::Table(_), _) => given.table,
            _ => true,
        };
        there_is.then_some((form, encoding))
    };
    // In JSON each object in a list of metadata says its kind, and in protobuf none does. Go's client for metadata shows its
    // callers that difference, and its informers compare what they listed with what they watch.
    match first(&clauses, can_have, |form| !matches!(form, Form::Partial(_))) {
        Some((form, encoding)) => Ok(Wanted { form, encoding }),
        // Clients know another text from where kinds are built in.
        None if clauses.iter().all(|clause| clause.encoding().is_none()) && given.protobuf => {
            Err(Failure::no_representation(GIVEN))
        }
        None => Err(Failure::not_acceptable(GIVEN)),
    }
}

/// How the events of a watch are written for who wants this: there is no YAML of them.
pub(crate) fn streamed(wanted: Wanted) -> Result<Encoding, Failure> {
    match wanted.encoding {
        Encoding::Yaml => Err(Failure::not_acceptable(STREAMED)),
        encoding => Ok(encoding),
    }
}

/// How something is written that is always what it is: discovery, or what went wrong.
pub(crate) fn plain(headers: &HeaderMap) -> Result<Encoding, Failure> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Encoding::Json);
    }
    let can_have = |clause: &Clause<'_>| {
        clause.wanted().filter(|wanted| wanted.form == Form::Object).map(|wanted| ((), wanted.encoding))
    };
    first(&clauses, can_have, |()| true).map(|((), encoding)| encoding).ok_or_else(|| Failure::not_acceptable(GIVEN))
}

/// The version of aggregated discovery that the client wants before plain discovery, if it does, and how it is written.
pub(crate) fn aggregated_discovery(headers: &HeaderMap) -> Option<(&'static str, Encoding)> {
    let can_have = |clause: &Clause<'_>| {
        let encoding = clause.encoding()?;
        match clause.conversion() {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some((Some("v2"), encoding)),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") if encoding == Encoding::Json => {
                Some((Some("v2beta1"), encoding))
            }
            ("", ..) => Some((None, encoding)),
            _ => None,
        }
    };
    let (version, encoding) = first(&clauses(headers), can_have, |_| true)?;
    Some((version?, encoding))
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

    const PROTOBUF: &str = protobuf::MEDIA_TYPE;
    const PARTIAL: &str = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

    fn built_in(text: &str) -> Result<(Form, Encoding), Failure> {
        wanted(&accept(text), Given { protobuf: true, table: true }).map(|wanted| (wanted.form, wanted.encoding))
    }

    fn own(text: &str) -> Result<(Form, Encoding), Failure> {
        wanted(&accept(text), Given { protobuf: false, table: true }).map(|wanted| (wanted.form, wanted.encoding))
    }

    #[test]
    fn the_first_clause_that_is_understood_wins() {
        let form = |text: &str| built_in(text).map(|wanted| wanted.0);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(form(table), Ok(Form::Table("v1")));
        assert_eq!(form("application/json;as=Nonsense;v=v1;g=meta.k8s.io,*/*"), Ok(Form::Object));
        assert_eq!(form("application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io"), Ok(Form::Table("v1")));
        assert_eq!(built_in("application/yaml").unwrap().1, Encoding::Yaml);
        let anything = Given { protobuf: true, table: true };
        assert_eq!(wanted(&HeaderMap::new(), anything).unwrap().encoding, Encoding::Json);
        assert_eq!(built_in(""), Ok((Form::Object, Encoding::Json)), "nothing is anything");
    }

    #[test]
    fn protobuf_is_for_those_who_do_not_take_json_as_well() {
        assert_eq!(built_in(PROTOBUF), Ok((Form::Object, Encoding::Protobuf)));
        assert_eq!(built_in(&format!("{PROTOBUF},application/json")), Ok((Form::Object, Encoding::Json)));
        assert_eq!(built_in(&format!("{PROTOBUF},application/json;q=0.9")), Ok((Form::Object, Encoding::Protobuf)));
        assert_eq!(built_in(&format!("{PROTOBUF},application/yaml")), Ok((Form::Object, Encoding::Protobuf)));
        assert_eq!(built_in(&format!("{PROTOBUF};stream=watch")), Ok((Form::Object, Encoding::Protobuf)));
        let partial = format!("{PROTOBUF};{PARTIAL}");
        assert_eq!(built_in(&format!("{partial},application/json")), Ok((Form::Partial("v1"), Encoding::Protobuf)));
        let both = format!("{partial},application/json;{PARTIAL},application/json");
        assert_eq!(built_in(&both), Ok((Form::Partial("v1"), Encoding::Protobuf)), "JSON would not say the same");
        let json_first = format!("application/json;{PARTIAL},{partial}");
        assert_eq!(built_in(&json_first), Ok((Form::Partial("v1"), Encoding::Json)));
        assert_eq!(own(&format!("{PROTOBUF},application/json")), Ok((Form::Object, Encoding::Json)));
        assert_eq!(own(&partial), Ok((Form::Partial("v1"), Encoding::Protobuf)));
    }

    #[test]
    fn there_is_no_table_of_what_is_not_stored() {
        let answer = Given { protobuf: true, table: false };
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(wanted(&accept(table), answer).unwrap_err().code, 406);
        let or_json = wanted(&accept(&format!("{table},application/json")), answer).unwrap();
        assert_eq!((or_json.form, or_json.encoding), (Form::Object, Encoding::Json));
    }

    #[test]
    fn a_client_that_takes_nothing_we_have_is_told_what_we_have() {
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let only = format!("only the following media types are accepted: {types}");
        let refused = |wanted: Result<(Form, Encoding), Failure>| {
            let failure = wanted.unwrap_err();
            assert_eq!(failure.code, 406);
            failure.message
        };
        let table = format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io");
        for text in [table.as_str(), "application/json;as=Nonsense", "application/json;stream=nonsense"] {
            assert_eq!(refused(built_in(text)), only, "{text}");
        }
        let none = format!("406: Not Acceptable\n\nAvailable representations: {types}");
        assert_eq!(refused(built_in("text/plain")), none);
        assert_eq!(refused(own("text/plain")), only);
        assert_eq!(refused(own(PROTOBUF)), only);
        let yaml = streamed(Wanted { form: Form::Object, encoding: Encoding::Yaml }).unwrap_err().message;
        assert!(yaml.ends_with(": application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"));
    }

    #[test]
    fn what_went_wrong_is_not_converted() {
        let said = |text: &str| plain(&accept(text)).ok();
        assert_eq!(said(PROTOBUF), Some(Encoding::Protobuf));
        assert_eq!(said("application/yaml"), Some(Encoding::Yaml));
        assert_eq!(said(&format!("{PROTOBUF};{PARTIAL},application/json")), Some(Encoding::Json));
        assert_eq!(said(&format!("{PROTOBUF};{PARTIAL}")), None);
        assert_eq!(plain(&HeaderMap::new()), Ok(Encoding::Json));
    }

    #[test]
    fn aggregated_discovery_is_given_to_those_who_ask_for_it_first() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let in_protobuf = v2.replace("application/json", PROTOBUF);
        let given = |text: &str| aggregated_discovery(&accept(text));
        assert_eq!(given(&format!("{v2},application/json")), Some(("v2", Encoding::Json)));
        assert_eq!(given(&in_protobuf), Some(("v2", Encoding::Protobuf)));
        assert_eq!(given(&format!("{in_protobuf},{v2}")), Some(("v2", Encoding::Json)));
        assert_eq!(given(&in_protobuf.replace("v=v2", "v=v2beta1")), None, "an old version is not there in protobuf");
        assert_eq!(given("application/json"), None);
        assert_eq!(aggregated_discovery(&HeaderMap::new()), None);
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        let takes = |text: &str| takes_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, text.parse().unwrap())]));
        assert!(takes("gzip") && takes("deflate, gzip;q=1.0"));
        assert!(!takes("identity") && !takes("gzip;q=0"));
    }
}
