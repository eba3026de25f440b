//! JSON patch (RFC 6902), with the leniency that clients of Kubernetes rely on: a negative index counts from the end,
//! `replace` of an absent field adds it, `test` for null holds for an absent field, `copy` of an absent field is null.
//!
//! The crate `json-patch` (4.2) keeps to the letter of the RFC and refuses these, and it can panic when it undoes a
//! failed patch. So the tests use it as a judge instead: what it accepts has the same outcome here.

use api::schema::Told;
use serde_json::Value;

use super::{Fields, PatchError, document};

/// The most operations that one patch may have.
pub(super) const MOST_OPERATIONS: usize = 10_000;

/// How many bytes all copies of one patch may add: a few that copy each other's outcome can otherwise become any amount
/// of memory.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// The deepest nesting, which is that of the reader of bodies: what is deeper could be stored and never be read again, and
/// every level costs stack.
const DEEPEST: usize = 127;

/// One operation, as it was sent.
#[derive(Default)]
struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Applies the operations in `patch` one after the other. Returns the patched object, and the fields of operations that
/// there is no meaning for.
pub(super) fn apply(patch: Value, current: &Fields) -> Result<(Fields, Vec<String>), PatchError> {
    let mut unknown = Told::default();
    let operations = operations(patch, &mut unknown).map_err(PatchError::BadRequest)?;
    if operations.len() > MOST_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut document = Value::Object(current.clone());
    let mut copied = 0;
    for operation in operations {
        operation.run(&mut document, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    let Value::Object(fields) = document else { unreachable!("no operation makes it anything else") };
    Ok((fields, unknown.into_texts()))
}

fn operations(patch: Value, unknown: &mut Told) -> Result<Vec<Operation>, String> {
    let wrong = |why| format!("error decoding patch: {why}");
    let items = match patch {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(wrong(document::mismatch(&other, "Go value of type []handlers.jsonPatchOp"))),
    };
    let mut operations = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let mut operation = Operation::default();
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => Fields::new(),
            other => return Err(wrong(document::mismatch(&other, "Go value of type handlers.jsonPatchOp"))),
        };
        for (name, value) in fields {
            match name.as_str() {
                "op" => operation.op = text(&name, value).map_err(wrong)?.unwrap_or_default(),
                "path" => operation.path = text(&name, value).map_err(wrong)?,
                "from" => operation.from = text(&name, value).map_err(wrong)?,
                "value" => operation.value = value,
                _ => unknown.say(|| format!("unknown field \"[{index}].{name}\"")),
            }
        }
        operations.push(operation);
    }
    Ok(operations)
}

fn text(name: &str, value: Value) -> Result<Option<String>, String> {
    match value {
        Value::String(text) => Ok(Some(text)),
        Value::Null => Ok(None),
        other => Err(document::mismatch(&other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
    }
}

impl Operation {
    /// Does it to the document. `copied` is how much this patch has copied already.
    fn run(self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let Self { op, path, from, value } = self;
        let path = path.ok_or_else(|| format!("{op} operation without a path"))?;
        let origin = || from.ok_or_else(|| format!("{op} operation without a from"));
        match op.as_str() {
            "add" => {
                check_depth(&path, &value)?;
                place(document, &path, value)
            }
            "remove" => take(document, &path).map(drop),
            "replace" => {
                check_depth(&path, &value)?;
                replace(document, &path, value)
            }
            "move" => {
                let origin = origin()?;
                let moved = take(document, &origin)?;
                // To look into a large value costs more than to move it, so that is done only if it goes down.
                if steps(&path) > steps(&origin) {
                    check_depth(&path, &moved)?;
                }
                place(document, &path, moved)
            }
            "copy" => {
                let value = look(document, &origin()?)?.unwrap_or(&Value::Null);
                *copied += value.to_string().len();
                if *copied > MOST_COPIED {
                    return Err(format!("copies add {copied} bytes, which is more than {MOST_COPIED}"));
                }
                check_depth(&path, value)?;
                let value = value.clone();
                place(document, &path, value)
            }
            "test" if path.is_empty() && *document == value => Ok(()),
            "test" if !path.is_empty() && *look(document, &path)?.unwrap_or(&Value::Null) == value => Ok(()),
            "test" => Err(format!("testing value {path} failed")),
            _ => Err(format!("unexpected operation {op:?}")),
        }
    }
}

/// Puts a value at a path; in a list it goes before what is there, in an object it replaces what is there.
fn place(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match holder(document, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, value);
        }
        (Value::Array(items), name) if name == "-" => items.push(value),
        (Value::Array(items), name) => items.insert(index(&name, items.len() + 1, path)?, value),
        _ => return Err(missing(path)),
    }
    Ok(())
}

/// Removes the value at a path.
fn take(document: &mut Value, path: &str) -> Result<Value, String> {
    match holder(document, path)? {
        (Value::Object(fields), name) => fields.remove(&name).ok_or_else(|| missing(path)),
        (Value::Array(items), name) => Ok(items.remove(index(&name, items.len(), path)?)),
        _ => Err(missing(path)),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() {
            return Err("the document can only be replaced by an object".to_owned());
        }
        *document = value;
        return Ok(());
    }
    match holder(document, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, value);
        }
        (Value::Array(items), name) => {
            let at = index(&name, items.len(), path)?;
            items[at] = value;
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

/// Refuses a value that would be nested too deep at a path. Checked at each step, so no step meets anything deeper.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    let depth = steps(path) + depth(value);
    if depth > DEEPEST { Err(format!("a value is {depth} levels deep, which is more than {DEEPEST}")) } else { Ok(()) }
}

/// How many steps down a path leads.
fn steps(path: &str) -> usize {
    path.matches('/').count()
}

/// How many lists and objects are inside of one another, the value itself included.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The value at a path: `None` if its object is there and lacks it.
fn look<'a>(document: &'a mut Value, path: &str) -> Result<Option<&'a Value>, String> {
    match holder(document, path)? {
        (Value::Object(fields), name) => Ok(fields.get(&name)),
        (Value::Array(items), name) => Ok(items.get(index(&name, items.len(), path)?)),
        _ => Err(missing(path)),
    }
}

/// What holds the value at a path, and under which name.
fn holder<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let mut names = path.strip_prefix('/').ok_or_else(|| missing(path))?.split('/').map(unescape).peekable();
    let mut holder = document;
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return Ok((holder, name));
        }
        holder = match holder {
            Value::Object(fields) => fields.get_mut(&name).ok_or_else(|| missing(path))?,
            Value::Array(items) => {
                let at = index(&name, items.len(), path)?;
                &mut items[at]
            }
            _ => return Err(missing(path)),
        };
    }
    Err(missing(path))
}

/// The index that a name means, below `end`; negative ones count from there.
fn index(name: &str, end: usize, path: &str) -> Result<usize, String> {
    let given: i64 = name.parse().map_err(|_| format!("no index of a list: {name:?} in {path}"))?;
    let counted = if given < 0 { given.checked_add_unsigned(end as u64) } else { Some(given) };
    counted
        .and_then(|index| usize::try_from(index).ok())
        .filter(|index| *index < end)
        .ok_or_else(|| format!("index out of range: {given} in {path}"))
}

fn unescape(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

fn missing(path: &str) -> String {
    format!("the document has nothing at {path:?}")
}
