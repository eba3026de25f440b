//! The versions of the CNI protocol, and what differs between them.

/// A version that the plugin speaks, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.1.0: one address of each family.
    V0_1_0,
    /// 0.2.0: as before.
    V0_2_0,
    /// 0.3.0: any number of addresses.
    V0_3_0,
    /// 0.3.1: as before.
    V0_3_1,
    /// 0.4.0: CHECK.
    V0_4_0,
    /// 1.0.0: addresses do not say their family.
    V1_0_0,
    /// 1.1.0: GC and STATUS.
    V1_1_0,
}

/// All of them, with their texts.
const ALL: [(Version, &str); 7] = [
    (Version::V0_1_0, "0.1.0"),
    (Version::V0_2_0, "0.2.0"),
    (Version::V0_3_0, "0.3.0"),
    (Version::V0_3_1, "0.3.1"),
    (Version::V0_4_0, "0.4.0"),
    (Version::V1_0_0, "1.0.0"),
    (Version::V1_1_0, "1.1.0"),
];

impl Version {
    /// The newest.
    pub const NEWEST: Self = Self::V1_1_0;

    /// Reads a version; a configuration without one means the oldest.
    pub fn read(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::V0_1_0);
        }
        ALL.iter().find(|(_, known)| *known == text).map(|(version, _)| *version)
    }

    /// Its text.
    pub fn text(self) -> &'static str {
        ALL[self as usize].1
    }

    /// The texts of all, oldest first.
    pub fn all() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, text)| *text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_reads_back_and_none_means_the_oldest() {
        for text in Version::all() {
            assert_eq!(Version::read(text).map(Version::text), Some(text));
        }
        assert_eq!(Version::read(""), Some(Version::V0_1_0));
        assert_eq!(Version::all().last(), Some(Version::NEWEST.text()));
        for text in ["1", "1.1", "0.5.0", "1.2.0", "v1.0.0", "1.0.0 "] {
            assert_eq!(Version::read(text), None, "{text}");
        }
        assert!(Version::V0_3_1 < Version::V0_4_0 && Version::V0_4_0 < Version::V1_1_0);
    }
}
