//! What a plugin leaves for the agent when it has to refuse a pod: of which range nothing was left, and how far the journal was then.
//!
//! The agent counts what is held, but does not know the configurations, and so not what of a slice is never given. It is a hint, and
//! nothing is lost with it: it need not be on the disk, and it is over when anything else was written to the journal.

use std::fs;

use space::Cidr;

use crate::place::Place;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The range.
    pub range: Cidr,
    /// The number that the next record of the journal had.
    pub next: u64,
}

impl Shortage {
    /// Leaves it. A disk that does not take it has other troubles.
    pub fn leave(self, place: &Place) {
        let _ = fs::write(place.shortage(), format!("{} {}\n", self.range, self.next));
    }

    /// What was left last, if that can be read.
    pub fn read(place: &Place) -> Option<Self> {
        let text = fs::read_to_string(place.shortage()).ok()?;
        let (range, next) = text.trim().split_once(' ')?;
        Some(Self { range: Cidr::strict(range).ok()?, next: next.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_as_it_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), "net");
        fs::create_dir(place.folder()).unwrap();
        assert_eq!(Shortage::read(&place), None);
        for range in ["10.0.0.0/24", "fd00::/64"] {
            let shortage = Shortage { range: Cidr::strict(range).unwrap(), next: u64::MAX };
            shortage.leave(&place);
            assert_eq!(Shortage::read(&place), Some(shortage));
        }
        fs::write(place.shortage(), "10.0.0.0/24").unwrap();
        assert_eq!(Shortage::read(&place), None);
    }
}
