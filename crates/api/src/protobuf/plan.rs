//! The tables of `schema` as the transcoder wants them: messages by their index, their fields in the order of their
//! numbers, and what Go makes of a field that is not there.
//!
//! It is made once, from the tables; nothing is looked up by name afterwards but the kind itself.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::decode::AROUND_NAMED;
use super::wire::wire_type;
use crate::schema::{self, Definition, Go, Type};

/// Kinds that every group has in each of its versions.
const EVERYWHERE: [&str; 6] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"];

/// Kinds that stand beside the groups and their versions: what became of a request, and what there is to request.
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

static PLAN: LazyLock<Plan> = LazyLock::new(Plan::new);

/// A message.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Its name in what Go says of it: `ServicePort`.
    pub(super) name: &'static str,
    /// Its fields in the order of their numbers, in which they are written.
    pub(super) fields: Vec<Field>,
    /// The place of a field in `fields` by its number.
    places: Vec<Option<u16>>,
    /// What Go writes to JSON although it was not given. What is inlined is in here too.
    pub(super) always: Vec<Zero>,
}

/// A field that Go writes to JSON also when nobody set it.
#[derive(Debug)]
pub(super) struct Zero {
    pub(super) name: &'static str,
    pub(super) value: Value,
    /// How many bytes of JSON it takes.
    pub(super) size: usize,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON; empty for what is inlined.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// Whether zero and absent are two things: then it is not written when it is absent.
    pub(super) pointer: bool,
    /// The value that Go leaves out of JSON, if there is one.
    pub(super) omitted: Option<Value>,
}

/// How often there is a value in a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once.
    One(Item),
    /// Any number of times.
    List(Item),
    /// Under any number of keys.
    Map(Item),
    /// A message whose fields stand among those of the message around it in JSON.
    Inlined(usize),
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    String,
    Boolean,
    Int32,
    Int64,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Json,
    Message(usize),
    /// A list of text where protobuf can have none, and so has a message with a list in it.
    Texts,
}

impl Item {
    /// How it is written.
    pub(super) fn wire_type(&self) -> u8 {
        match self {
            Self::Boolean | Self::Int32 | Self::Int64 => wire_type::VARINT,
            _ => wire_type::BYTES,
        }
    }

    /// What Go writes to JSON for the value that nobody set.
    pub(super) fn zero(&self) -> Value {
        match self {
            Self::String => Value::from(""),
            Self::Boolean => Value::from(false),
            Self::Int32 | Self::Int64 | Self::IntOrString => Value::from(0),
            Self::Quantity => Value::from("0"),
            Self::Bytes | Self::Time | Self::MicroTime | Self::Json | Self::Texts => Value::Null,
            Self::Message(index) => zero_structure(schema::definitions().get(*index)),
        }
    }
}

impl Field {
    /// Its name in Go, as far as it can be told from the one in JSON.
    pub(super) fn go_name(&self) -> String {
        if self.name == "metadata"
            && let Shape::One(Item::Message(index)) = self.shape
        {
            return message(index).name.to_owned();
        }
        let mut letters = self.name.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

impl Message {
    /// The field of that number.
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        let place = (*self.places.get(number as usize)?)?;
        self.fields.get(usize::from(place))
    }

    /// Puts the fields in their order and makes them be found.
    fn finish(&mut self) {
        self.fields.sort_by_key(|field| field.number);
        let last = self.fields.last().map_or(0, |field| field.number as usize);
        self.places = vec![None; last + 1];
        for (place, field) in self.fields.iter().enumerate() {
            if let Some(slot) = self.places.get_mut(field.number as usize) {
                *slot = u16::try_from(place).ok();
            }
        }
    }
}

/// The message of that index.
pub(super) fn message(index: usize) -> &'static Message {
    &PLAN.0[index]
}

/// The index of the message that holds the objects of a kind.
pub(super) fn root(api_version: &str, kind: &str) -> Option<usize> {
    let name = schema_name(api_version, kind)?;
    let definitions = schema::definitions();
    let index = definitions.binary_search_by(|definition| definition.name.as_str().cmp(&name)).ok()?;
    // Only what is an object of its own says of what kind it is, and not by a number.
    definitions[index].fields.get("kind").is_some_and(|kind| kind.number == 0).then_some(index)
}

fn schema_name(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_meta = match api_version {
        "meta.k8s.io/v1" => true,
        // The same structure as in v1; its list is another.
        "meta.k8s.io/v1beta1" => kind == "PartialObjectMetadata",
        // The oldest documents of discovery do not say their version.
        "v1" | "" => UNVERSIONED.contains(&kind),
        _ => false,
    };
    if is_meta || EVERYWHERE.contains(&kind) {
        return Some(format!("{META}.{kind}"));
    }
    if api_version == "meta.k8s.io/v1beta1" {
        return Some(format!("io.k8s.apimachinery.pkg.apis.meta.v1beta1.{kind}"));
    }
    let package = match group.strip_suffix(".k8s.io") {
        Some("core") => return None,
        None if group.is_empty() => "core",
        package => package?,
    };
    Some(format!("io.k8s.api.{package}.{version}.{kind}"))
}

/// All messages: those of the definitions at the same places, then those that are inlined somewhere.
struct Plan(Vec<Message>);

impl Plan {
    fn new() -> Self {
        let definitions = schema::definitions();
        let mut plan = Self(Vec::new());
        plan.0.resize_with(definitions.len(), Message::default);
        for (index, definition) in definitions.iter().enumerate().filter(|(_, definition)| !definition.custom) {
            plan.add_definition(index, definition);
        }
        plan.0.iter_mut().for_each(Message::finish);
        plan
    }

    fn add_definition(&mut self, index: usize, definition: &'static Definition) {
        let message = &mut self.0[index];
        message.name = definition.short_name();
        message.always = written_zeros(definition);
        // Inlined messages by the numbers that lead to them.
        let mut inlined: HashMap<Vec<u32>, usize> = HashMap::new();
        for field in definition.fields.values().filter(|field| field.number > 0) {
            let Some(shape) = shape(field) else { continue };
            let mut holder = index;
            let mut way = Vec::new();
            for step in &field.go.inlined {
                way.push(step.number);
                holder = *inlined.entry(way.clone()).or_insert_with(|| {
                    let inner = self.0.len();
                    self.0.push(Message { name: &step.name, ..Message::default() });
                    let shape = Shape::Inlined(inner);
                    self.0[holder].fields.push(Field {
                        number: step.number,
                        name: "",
                        shape,
                        pointer: false,
                        omitted: None,
                    });
                    inner
                });
            }
            let omitted = omitted(&shape, &field.go);
            // Like a pointer, such a list can be nil.
            let pointer = field.go.pointer || shape == Shape::One(Item::Texts);
            let field = Field { number: field.number, name: &field.name, shape, pointer, omitted };
            self.0[holder].fields.push(field);
        }
    }
}

/// How protobuf has a field; nothing for what it has no way to say.
fn shape(field: &schema::Field) -> Option<Shape> {
    let has_name = field.go.ty.as_ref().is_some_and(|ty| !ty.starts_with("[]"));
    match &field.ty {
        // A list of a type with a name is a message in protobuf.
        Type::List(ty) if **ty == Type::String && has_name => Some(Shape::One(Item::Texts)),
        Type::List(ty) => item(ty).map(Shape::List),
        Type::Map(ty) if **ty == Type::List(Box::new(Type::String)) => Some(Shape::Map(Item::Texts)),
        Type::Map(ty) => item(ty).map(Shape::Map),
        ty => item(ty).map(Shape::One),
    }
}

fn item(ty: &Type) -> Option<Item> {
    Some(match ty {
        Type::String => Item::String,
        Type::Boolean => Item::Boolean,
        Type::Int32 => Item::Int32,
        Type::Int64 => Item::Int64,
        Type::Bytes => Item::Bytes,
        Type::Time => Item::Time,
        Type::MicroTime => Item::MicroTime,
        Type::Quantity => Item::Quantity,
        Type::IntOrString => Item::IntOrString,
        Type::Json => Item::Json,
        Type::Struct(index) => Item::Message(*index),
        // No kind has these; a test tells when one does.
        Type::Double | Type::Duration | Type::List(_) | Type::Map(_) => return None,
    })
}

/// The value of a field that Go leaves out. A list or a map that was read has something in it.
fn omitted(shape: &Shape, go: &Go) -> Option<Value> {
    let Shape::One(item) = shape else { return None };
    let can_be_empty = matches!(item, Item::String | Item::Boolean | Item::Int32 | Item::Int64);
    (!go.pointer && (go.omitzero || (go.omitempty && can_be_empty))).then(|| item.zero())
}

/// What Go writes of a structure in which nothing was set.
fn written_zeros(definition: &'static Definition) -> Vec<Zero> {
    let zero = |field: &'static schema::Field| -> Option<Value> {
        let go = &field.go;
        if go.omitzero {
            return None;
        }
        let shape = shape(field)?;
        match &shape {
            _ if go.pointer => (!go.omitempty).then_some(Value::Null),
            Shape::One(item) if omitted(&shape, go).is_none() => Some(item.zero()),
            Shape::One(_) => None,
            _ => (!go.omitempty).then_some(Value::Null),
        }
    };
    let named = |field: &'static schema::Field| {
        let value = zero(field)?;
        let size = field.name.len() + AROUND_NAMED + value.to_string().len();
        Some(Zero { name: &field.name, value, size })
    };
    definition.fields.values().filter_map(named).collect()
}

fn zero_structure(definition: Option<&'static Definition>) -> Value {
    let zeros = definition.map(written_zeros).unwrap_or_default();
    Value::Object(zeros.into_iter().map(|zero| (zero.name.to_owned(), zero.value)).collect::<Map<_, _>>())
}
