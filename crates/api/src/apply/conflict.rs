//! Conflicts: fields that an apply would take from somebody else, and how they are told.

use std::fmt;

/// A field that somebody else has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who has it, as messages name managers: `"kubectl-edit" using v1`.
    pub manager: String,
    /// Its path: `.spec.ports[port=80,protocol="TCP"].nodePort`. The field of a cause.
    pub field: String,
}

impl Conflict {
    /// The type of a cause in the details of the 409.
    pub const CAUSE: &'static str = "FieldManagerConflict";

    /// The message of a cause.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Conflicts by manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// The message of the 409.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", one.message(), one.field);
        }
        write!(f, "Apply failed with {} conflicts:", self.0.len())?;
        let mut manager = None;
        for conflict in &self.0 {
            if manager != Some(&conflict.manager) {
                // The first one follows on the line that counts them.
                let before = if manager.is_none() { ' ' } else { '\n' };
                write!(f, "{before}conflicts with {}:", conflict.manager)?;
                manager = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.field)?;
        }
        Ok(())
    }
}
