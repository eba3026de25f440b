//! Conflicts: fields that an apply would take from somebody else, and how they are told.

use std::fmt;

use super::set::{Room, Set};

/// How many conflicts of one apply are told; those beyond are only counted. Upstream tells all, so this is far beyond what
/// an object has that people write.
const MOST_TOLD: usize = 1_000;

/// How many bytes of text the conflicts of one apply may have. The path of each may repeat a long name.
const MOST_BYTES: usize = 256 * 1024;

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
pub struct Conflicts {
    told: Vec<Conflict>,
    found: usize,
}

impl Conflicts {
    /// Of what each manager would lose.
    pub(super) fn new(losses: Vec<(String, Set)>) -> Self {
        let found = losses.iter().map(|(_, set)| set.count()).sum();
        let mut room = Room { paths: MOST_TOLD, bytes: MOST_BYTES };
        let mut told = Vec::new();
        for (manager, set) in losses {
            let paths = set.first_paths(&mut room);
            room.bytes = room.bytes.saturating_sub(manager.len().saturating_mul(paths.len()));
            told.extend(paths.into_iter().map(|field| Conflict { manager: manager.clone(), field }));
        }
        Self { told, found }
    }

    /// The conflicts. Of very many, the first ones.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.told.iter()
    }
}

/// The message of the 409.
impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.told.as_slice()
            && self.found == 1
        {
            return write!(f, "Apply failed with 1 conflict: {}: {}", one.message(), one.field);
        }
        write!(f, "Apply failed with {} conflicts:", self.found)?;
        let mut manager = None;
        for conflict in &self.told {
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
