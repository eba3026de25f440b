//! The way from the root of a body to a value in it, kept on the stack.
//!
//! Nothing is written down until there is something to say about a value, so a body without faults costs no allocation.

use super::table::{Definition, Field, Type};

/// One step on the way down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// Into a field of a structure.
    Field(&'a Definition, &'a Field),
    /// Under a name: of an entry of a map, or of a field that no structure has.
    Key(&'a str),
    /// To an item of a list.
    Item(usize),
}

/// The way to a value: the last step, and the way before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    before: Option<&'a Way<'a>>,
    step: Step<'a>,
}

impl<'a> Way<'a> {
    /// One step further.
    pub(super) fn new(before: Option<&'a Way<'a>>, step: Step<'a>) -> Self {
        Self { before, step }
    }

    /// As strict decoding names it: `spec.ports[0].port`.
    pub(super) fn path(&self) -> String {
        let mut path = self.before.map_or_else(String::new, Way::path);
        match self.step {
            Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
            Step::Field(_, Field { name, .. }) => add_name(&mut path, name),
            Step::Key(key) => add_name(&mut path, key),
        }
        path
    }

    /// As Go's decoder names it: `ServicePort.spec.ports.port`, the structure that has the field and the fields that lead
    /// there, with what JSON does not show and without the items and keys between them.
    pub(super) fn go_field(&self) -> String {
        format!("{}.{}", self.go_structure(), self.go_names())
    }

    /// How Go spells the type of the value here, which is `ty` in the table.
    pub(super) fn go_type(&self, ty: &Type) -> String {
        self.declared_go_type().unwrap_or_else(|| spelled(ty))
    }

    fn declared_go_type(&self) -> Option<String> {
        match self.step {
            Step::Field(_, field) => field.go.ty.clone(),
            Step::Item(_) | Step::Key(_) => item_type(&self.before?.declared_go_type()?).map(str::to_owned),
        }
    }

    fn go_structure(&self) -> &'a str {
        match (self.step, self.before) {
            (Step::Field(definition, _), _) => definition.short_name(),
            (_, Some(before)) => before.go_structure(),
            (_, None) => "",
        }
    }

    fn go_names(&self) -> String {
        let mut names = self.before.map_or_else(String::new, Way::go_names);
        // What has no Go type is decoded apart from its metadata, which has one.
        if let Step::Field(definition, field) = self.step
            && !definition.custom
        {
            for inlined in &field.go.inlined {
                add_name(&mut names, &inlined.name);
            }
            add_name(&mut names, &field.name);
        }
        names
    }
}

/// The way to a field as strict decoding names it, where the way to its structure may be none at all.
pub(super) fn path_to(before: Option<&Way<'_>>, step: Step<'_>) -> String {
    Way::new(before, step).path()
}

fn add_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// How Go spells a type that has no name of its own.
pub(super) fn spelled(ty: &Type) -> String {
    match ty {
        Type::String => "string".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Double => "float64".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Duration => "v1.Duration".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Json => "interface {}".to_owned(),
        Type::Struct(_) => super::resolve(ty).map_or_else(String::new, |definition| definition.go_type().to_owned()),
        Type::List(item) => format!("[]{}", spelled(item)),
        Type::Map(value) => format!("map[string]{}", spelled(value)),
    }
}

/// The items' type in the spelling of a list or map type; none if the type has a name of its own.
fn item_type(go: &str) -> Option<&str> {
    go.strip_prefix("[]").or_else(|| go.strip_prefix("map[")?.split_once(']').map(|(_, value)| value))
}
