//! Why a call was not done, as a runtime reads it: a code, what happened, and what may help.

use std::fmt;

use serde_json::{Map, Value};

use crate::grants::GrantsError;
use crate::journal::JournalError;
use crate::lock::LockError;

/// The codes of the CNI specification, and our own from 100 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// The configuration is of a version that the plugin or the command does not know.
    IncompatibleVersion = 1,
    /// An environment variable is missing or malformed.
    Environment = 4,
    /// Reading or writing failed.
    Io = 5,
    /// The configuration is no JSON.
    Decode = 6,
    /// The configuration is JSON and still wrong.
    Config = 7,
    /// The namespace cannot be the pod's.
    Netns = 8,
    /// It may work later, with nothing changed.
    TryLater = 11,
    /// STATUS: no ADD can be served.
    CannotServe = 50,
    /// Every address is held.
    Exhausted = 100,
    /// The node holds no slice.
    NoSlice = 101,
    /// The address that was asked for cannot be had.
    Unavailable = 102,
    /// CHECK: the attachment does not hold what it should.
    NotHeld = 103,
    /// A fault of the plugin itself.
    Internal = 999,
}

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure.
    pub code: Code,
    /// What happened, in one sentence, with the name of the field or variable.
    pub message: String,
    /// What may help; may be empty.
    pub details: String,
}

impl Failure {
    /// One without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: String::new() }
    }

    /// The same with details.
    #[must_use]
    pub fn with(self, details: impl Into<String>) -> Self {
        Self { details: details.into(), ..self }
    }

    /// What is printed. `version` is that of the configuration, if that could be read.
    pub fn to_json(&self, version: &str) -> Value {
        let mut object = Map::new();
        object.insert("cniVersion".to_owned(), version.into());
        object.insert("code".to_owned(), (self.code as u16).into());
        object.insert("msg".to_owned(), self.message.as_str().into());
        if !self.details.is_empty() {
            object.insert("details".to_owned(), self.details.as_str().into());
        }
        object.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match error {
            LockError::Io { .. } => Code::Io,
            LockError::Busy { .. } | LockError::NoThread { .. } => Code::TryLater,
        };
        Self::new(code, error.to_string())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::new(Code::Io, error.to_string())
    }
}

impl From<GrantsError> for Failure {
    fn from(error: GrantsError) -> Self {
        let code = match error {
            GrantsError::Missing(_) => Code::NoSlice,
            GrantsError::Io { .. } | GrantsError::Malformed { .. } => Code::Io,
        };
        Self::new(code, error.to_string())
    }
}
