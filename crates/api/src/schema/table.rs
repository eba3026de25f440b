//! The tables of definitions, and how to read them.
//!
//! A line is a definition or, two spaces in, a field of the definition before it. Empty lines and lines that begin with `#`
//! say nothing.
//!
//! ```text
//! definition NAME [atomic] [custom] [unions=JSON] [-- DESCRIPTION]
//!   NAME NUMBER TYPE [WORD...] [-- DESCRIPTION]
//! ```
//!
//! A table that a program makes has no descriptions, they are in `descriptions/`. `unions` is what is published as
//! `x-kubernetes-unions`. NUMBER is the field's number in protobuf, 0 if it has none. TYPE is `string`, `boolean`, `int32`,
//! `int64`, `double`, `bytes`, `time`, `microtime`, `duration`, `quantity`, `intorstring`, `json`, the name of a definition, `[]TYPE` or
//! `{}TYPE`. The words, in any order:
//!
//! | word | meaning |
//! |---|---|
//! | `required` | must be given |
//! | `set`, `map=KEY,...`, `atomic` | the list type; `atomic` also for a map that is replaced as a whole |
//! | `patch=merge`, `patch=replace`, `patch=retainKeys`, `key=KEY` | how a strategic merge treats it; several with commas |
//! | `default=JSON`, `enum=JSON` | the value of an absent field, the values that are allowed |
//! | `pointer`, `omitempty`, `omitzero`, `go=TYPE`, `in=NAME:NUMBER/...` | how Go has it: see [`Go`] |

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::form;

/// A structure: the fields of a kind or of a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name: `io.k8s.api.core.v1.ServicePort`.
    pub name: String,
    /// Its fields by JSON name.
    pub fields: Fields,
    /// Those of its fields that Go writes also when they are zero. They are few, and looked for in every object.
    pub(super) always: Vec<String>,
    /// What it is, for those who ask the server; empty if the table does not say.
    pub description: String,
    /// Whether it is applied as a whole, never field by field.
    pub atomic: bool,
    /// Whether it has no Go type, as kinds from a `CustomResourceDefinition` have none: what is written is kept.
    pub custom: bool,
    /// Which of its fields exclude one another, as clients are told.
    pub unions: Option<Value>,
}

impl Definition {
    /// How Go spells the type in messages: `v1.ServicePort`.
    pub fn go_type(&self) -> &str {
        let mut dots = self.name.rmatch_indices('.').map(|(at, _)| at);
        dots.nth(1).map_or(&self.name, |at| &self.name[at + 1..])
    }

    /// Its name without what is before it: `ServicePort`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

/// The fields of a structure, in the order of their names. They are looked up for everything that comes in and goes out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Their names, close together: most names differ in their length already, and none but the right one is read.
    names: Vec<Box<str>>,
    fields: Vec<Field>,
}

impl Fields {
    /// The field of that name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.names.iter().position(|own| **own == *name)?)
    }

    /// Whether there is a field of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Their names.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The fields themselves.
    pub fn values(&self) -> std::slice::Iter<'_, Field> {
        self.fields.iter()
    }

    /// Adds a field, unless there is one of that name.
    fn insert(&mut self, field: Field) -> bool {
        let Err(place) = self.names.binary_search_by(|own| (**own).cmp(&field.name)) else { return false };
        self.names.insert(place, field.name.as_str().into());
        self.fields.insert(place, field);
        true
    }
}

#[cfg(test)]
impl std::ops::Index<&str> for Fields {
    type Output = Field;

    fn index(&self, name: &str) -> &Field {
        self.get(name).unwrap()
    }
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// Its number in protobuf, in the innermost message that holds it; 0 if it has none.
    pub number: u32,
    /// The type of its values.
    pub ty: Type,
    /// Whether it must be given.
    pub required: bool,
    /// If it is a list: which items are the same one.
    pub list: ListKind,
    /// Whether it is said to be replaced as a whole when it is applied. Lists that say nothing are, maps are not.
    pub atomic: bool,
    /// How a strategic merge patch treats it.
    pub patch: Patch,
    /// What an absent field means.
    pub default: Option<Value>,
    /// The values that are allowed, of a list's items if it is one; empty if all are.
    pub values: Vec<Value>,
    /// What it is, for those who ask the server; empty if the table does not say.
    pub description: String,
    /// How Go has it.
    pub go: Go,
}

/// The type of a field's values, of the items of a list or of the values of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// true or false.
    Boolean,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Double,
    /// Bytes, in base64.
    Bytes,
    /// A time of whole seconds.
    Time,
    /// A time of microseconds.
    MicroTime,
    /// A span of time: `1h2m`.
    Duration,
    /// An amount with a unit: `100Mi`.
    Quantity,
    /// A whole number or text.
    IntOrString,
    /// Anything.
    Json,
    /// A structure: [`super::resolve`] finds its definition.
    Struct(usize),
    /// A list.
    List(Box<Type>),
    /// A map from text.
    Map(Box<Type>),
}

/// What makes two items of a list the same item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Nothing: the list is replaced as a whole.
    #[default]
    Atomic,
    /// Being equal.
    Set,
    /// Having equal values in these fields.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A list is merged item by item instead of being replaced.
    pub merge: bool,
    /// The field that tells the items of a merged list apart; none for lists of plain values.
    pub key: Option<String>,
    /// Fields that the patch does not name in `$retainKeys` go.
    pub retain_keys: bool,
    /// A structure or map is replaced instead of being merged.
    pub replace: bool,
}

/// How Go has a field. That shows: in messages, in what is left out when a zero value is written, and in protobuf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    /// The spelling of its type where it is more than the table's type says: `v1.Protocol`, `[]v1.IPFamily`.
    pub ty: Option<String>,
    /// The structures around it that JSON does not show, from the outermost.
    pub inlined: Vec<Inlined>,
    /// A pointer tells zero from absent.
    pub pointer: bool,
    /// Left out when it is false, 0, nil, or an empty string, list or map. Structures never are.
    pub omitempty: bool,
    /// Left out when it is the zero value of its type, structures too.
    pub omitzero: bool,
}

/// A structure that JSON does not show, but Go and protobuf do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// Its name in Go: `VolumeSource`.
    pub name: String,
    /// Its number in protobuf; 0 if protobuf does not have it either.
    pub number: u32,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line that is neither a definition nor a field.
    #[error("`{line}`: not a line of a table: {why}")]
    Line {
        /// The line.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// A name that two definitions have.
    #[error("{0} is defined twice")]
    Twice(String),
    /// A type that nothing defines.
    #[error("{0} is not defined")]
    Undefined(String),
}

/// All definitions, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    definitions: Vec<Definition>,
    /// Where each is among them.
    places: HashMap<String, usize>,
}

impl Table {
    /// Reads tables whose definitions refer to one another.
    pub fn parse(texts: &[&str]) -> Result<Self, TableError> {
        let mut blocks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for text in texts {
            let mut fields = None;
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                if let Some(rest) = line.strip_prefix("definition ") {
                    let name = rest.split(' ').next().unwrap_or_default();
                    if blocks.contains_key(name) {
                        return Err(TableError::Twice(name.to_owned()));
                    }
                    fields = Some(blocks.entry(name).or_insert_with(|| vec![rest]));
                } else if let Some(fields) = fields.as_mut().filter(|_| line.starts_with("  ")) {
                    fields.push(line);
                } else {
                    return Err(wrong(line, "it is outside of a definition"));
                }
            }
        }
        let names: Vec<&str> = blocks.keys().copied().collect();
        let definitions = blocks.values().map(|lines| parse_definition(lines, &names)).collect::<Result<_, _>>()?;
        let places = names.iter().enumerate().map(|(place, name)| ((*name).to_owned(), place)).collect();
        Ok(Self { definitions, places })
    }

    /// The definitions, in the order of their names.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// The definition of that name.
    pub fn named(&self, name: &str) -> Option<&Definition> {
        self.definitions.get(*self.places.get(name)?)
    }
}

fn parse_definition(lines: &[&str], names: &[&str]) -> Result<Definition, TableError> {
    let Some((head, fields)) = lines.split_first() else { return Err(wrong("", "it is empty")) };
    let (facts, description) = described(head);
    let mut words = facts.split_whitespace();
    let mut definition = Definition {
        name: words.next().unwrap_or_default().to_owned(),
        fields: Fields::default(),
        always: Vec::new(),
        description,
        atomic: false,
        custom: false,
        unions: None,
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("atomic", "") => definition.atomic = true,
            ("custom", "") => definition.custom = true,
            ("unions", value) => {
                definition.unions = Some(serde_json::from_str(value).map_err(|error| wrong(head, error.to_string()))?);
            }
            _ => return Err(wrong(head, format!("`{word}` is not a word of a definition"))),
        }
    }
    for line in fields {
        let field = parse_field(line, names)?;
        if form::writes_zero(&field) {
            definition.always.push(field.name.clone());
        }
        let name = field.name.clone();
        if !definition.fields.insert(field) {
            return Err(TableError::Twice(format!("{}.{name}", definition.name)));
        }
    }
    Ok(definition)
}

fn parse_field(line: &str, names: &[&str]) -> Result<Field, TableError> {
    let (facts, description) = described(line);
    let mut words = facts.split_whitespace();
    let (Some(name), Some(number), Some(ty)) = (words.next(), words.next(), words.next()) else {
        return Err(wrong(line, "a field has a name, a number and a type"));
    };
    let mut field = Field {
        name: name.to_owned(),
        number: number.parse().map_err(|_| wrong(line, format!("`{number}` is not a number")))?,
        ty: parse_type(ty, names)?,
        required: false,
        list: ListKind::Atomic,
        atomic: false,
        patch: Patch::default(),
        default: None,
        values: Vec::new(),
        description,
        go: Go::default(),
    };
    for word in words {
        add_word(&mut field, word).map_err(|why| wrong(line, why))?;
    }
    Ok(field)
}

fn add_word(field: &mut Field, word: &str) -> Result<(), String> {
    let unknown = || format!("`{word}` is not a word of a field");
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "required" => field.required = true,
        "atomic" => field.atomic = true,
        "set" => field.list = ListKind::Set,
        "map" => field.list = ListKind::Map(value.split(',').map(str::to_owned).collect()),
        "patch" => {
            for strategy in value.split(',') {
                match strategy {
                    "merge" => field.patch.merge = true,
                    "retainKeys" => field.patch.retain_keys = true,
                    "replace" => field.patch.replace = true,
                    _ => return Err(unknown()),
                }
            }
        }
        "key" => field.patch.key = Some(value.to_owned()),
        "default" => field.default = Some(serde_json::from_str(value).map_err(|error| error.to_string())?),
        "enum" => field.values = serde_json::from_str(value).map_err(|error| error.to_string())?,
        "pointer" => field.go.pointer = true,
        "omitempty" => field.go.omitempty = true,
        "omitzero" => field.go.omitzero = true,
        "go" => field.go.ty = Some(value.to_owned()),
        "in" => {
            for part in value.split('/') {
                let (name, number) = part.split_once(':').ok_or_else(unknown)?;
                let number = number.parse().map_err(|_| unknown())?;
                field.go.inlined.push(Inlined { name: name.to_owned(), number });
            }
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

fn parse_type(word: &str, names: &[&str]) -> Result<Type, TableError> {
    if let Some(item) = word.strip_prefix("[]") {
        return Ok(Type::List(Box::new(parse_type(item, names)?)));
    }
    if let Some(value) = word.strip_prefix("{}") {
        return Ok(Type::Map(Box::new(parse_type(value, names)?)));
    }
    Ok(match word {
        "string" => Type::String,
        "boolean" => Type::Boolean,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "duration" => Type::Duration,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "json" => Type::Json,
        _ => Type::Struct(names.binary_search(&word).map_err(|_| TableError::Undefined(word.to_owned()))?),
    })
}

/// A line's facts and the description after them.
fn described(line: &str) -> (&str, String) {
    line.split_once(" -- ").map_or((line, String::new()), |(facts, description)| (facts, description.to_owned()))
}

fn wrong(line: &str, why: impl Into<String>) -> TableError {
    TableError::Line { line: line.trim().to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SMALL: &str = r#"
# A comment.
definition io.x.v1.Pool custom unions=[{"a":1}] -- A pool -- of things.
  ports 3 []io.x.v1.Port required map=port,protocol patch=merge,retainKeys key=port in=Inner:2 -- Its ports.

definition io.x.v1.Port atomic
  protocol 1 string go=v1.Protocol pointer omitempty omitzero default="TCP" enum=["TCP","UDP"]
  labels 0 {}string atomic
"#;

    #[test]
    fn every_word_of_a_line_is_in_what_is_read() {
        let table = Table::parse(&[SMALL]).unwrap();
        let pool = table.named("io.x.v1.Pool").unwrap();
        assert!(pool.custom && !pool.atomic);
        assert_eq!((pool.go_type(), pool.short_name()), ("v1.Pool", "Pool"));
        assert_eq!(pool.description, "A pool -- of things.");
        assert_eq!(pool.unions, Some(json!([{"a": 1}])));
        let ports = &pool.fields["ports"];
        assert_eq!((ports.number, ports.required, ports.description.as_str()), (3, true, "Its ports."));
        assert_eq!(ports.list, ListKind::Map(vec!["port".into(), "protocol".into()]));
        let patch = Patch { merge: true, key: Some("port".into()), retain_keys: true, replace: false };
        assert_eq!(ports.patch, patch);
        assert_eq!(ports.go.inlined, [Inlined { name: "Inner".into(), number: 2 }]);
        let Type::List(item) = &ports.ty else { panic!("{:?}", ports.ty) };
        let Type::Struct(index) = **item else { panic!("{item:?}") };
        let port = &table.definitions()[index];
        assert!(port.atomic && !port.custom);
        let protocol = &port.fields["protocol"];
        assert_eq!(protocol.go.ty.as_deref(), Some("v1.Protocol"));
        assert!(protocol.go.pointer && protocol.go.omitempty && protocol.go.omitzero);
        assert_eq!((&protocol.default, &protocol.values), (&Some(json!("TCP")), &vec![json!("TCP"), json!("UDP")]));
        assert_eq!(port.fields["labels"].ty, Type::Map(Box::new(Type::String)));
        assert!(port.fields["labels"].atomic);
    }

    #[test]
    fn what_is_not_a_table_is_refused_with_the_line() {
        let refused = |text: &str| Table::parse(&[text]).unwrap_err().to_string();
        assert_eq!(refused("  a 1 string"), "`a 1 string`: not a line of a table: it is outside of a definition");
        assert_eq!(refused("definition A\n  a 1 B"), "B is not defined");
        assert_eq!(refused("definition A\ndefinition A"), "A is defined twice");
        assert_eq!(refused("definition A\n  a 1 string\n  a 2 string"), "A.a is defined twice");
        assert!(refused("definition A\n  a x string").contains("`x` is not a number"));
        assert!(refused("definition A\n  a 1 string big").contains("`big` is not a word of a field"));
        assert!(refused("definition A big").contains("`big` is not a word of a definition"));
        assert!(refused("definition A\n  a 1").contains("a name, a number and a type"));
    }

    #[test]
    fn the_tables_of_the_program_can_be_read() {
        let table = Table::parse(&[include_str!("builtin.table"), include_str!("own.table")]).unwrap();
        let port = table.named("io.k8s.api.core.v1.ServicePort").unwrap();
        assert_eq!((port.fields["nodePort"].number, &port.fields["nodePort"].ty), (5, &Type::Int32));
        for definition in table.definitions() {
            for field in definition.fields.values().filter(|_| definition.custom) {
                assert!(!field.description.is_empty(), "{}.{} needs a description", definition.name, field.name);
            }
            let numbered = definition.fields.values().filter(|field| field.number > 0);
            let mut numbers: Vec<_> = numbered.map(|field| (&field.go.inlined, field.number)).collect();
            numbers.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
            numbers.dedup();
            let all = definition.fields.values().filter(|field| field.number > 0).count();
            assert_eq!(numbers.len(), all, "two fields of {} have one number", definition.name);
        }
    }
}
