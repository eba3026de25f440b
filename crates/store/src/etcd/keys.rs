//! Where the store's keys are in etcd: below a prefix that is theirs alone.

use bytes::Bytes;

/// The part of etcd's keys that a store has.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// The prefix with its slash: `/cadastre/`.
    root: String,
}

impl Keys {
    /// The keys below `prefix`, with or without a slash at its end.
    pub(super) fn new(prefix: &str) -> Self {
        Self { root: format!("{}/", prefix.trim_end_matches('/')) }
    }

    /// Where a key is in etcd.
    pub(super) fn remote(&self, key: &str) -> Bytes {
        let mut remote = Vec::with_capacity(self.root.len() + key.len());
        remote.extend_from_slice(self.root.as_bytes());
        remote.extend_from_slice(key.as_bytes());
        remote.into()
    }

    /// The store's key that is there in etcd; `None` for what is not one, which somebody else put there.
    pub(super) fn local<'a>(&self, remote: &'a [u8]) -> Option<&'a str> {
        let local = std::str::from_utf8(remote.strip_prefix(self.root.as_bytes())?).ok()?;
        crate::is_key(local).then_some(local)
    }

    /// The first key that a range covers and the first one that it no longer covers.
    pub(super) fn span(&self, prefix: &str, after: Option<&str>) -> (Bytes, Bytes) {
        let from = match after.filter(|&after| after >= prefix) {
            Some(after) => successor(&self.remote(after)),
            None => self.remote(prefix),
        };
        // A prefix covers what is below it; anything else is one key.
        let whole = self.remote(prefix);
        let to = match whole.strip_suffix(b"/") {
            // `0` is the character after `/`.
            Some(segment) => [segment, b"0"].concat().into(),
            None => successor(&whole),
        };
        (from, to)
    }
}

/// The first key after this one.
pub(super) fn successor(remote: &[u8]) -> Bytes {
    [remote, b"\0"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(prefix: &str, after: Option<&str>) -> (String, String) {
        let (from, to) = Keys::new("/r").span(prefix, after);
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        (text(from), text(to))
    }

    #[test]
    fn a_key_comes_back_as_it_went() {
        for prefix in ["/cadastre", "/cadastre/", "cadastre"] {
            let keys = Keys::new(prefix);
            assert_eq!(keys.local(&keys.remote("configmaps/ns/name")), Some("configmaps/ns/name"));
        }
    }

    #[test]
    fn what_is_no_key_of_the_store_is_left_alone() {
        let keys = Keys::new("/cadastre");
        for foreign in
            [&b"/cadastre/"[..], b"/cadastre", b"/cadastre2/a", b"/cadastre//a", b"/cadastre/a/", b"/cadastre/\xff"]
        {
            assert_eq!(keys.local(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn a_span_is_what_the_prefix_covers() {
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(span("", None), pair("/r/", "/r0"));
        assert_eq!(span("a/", None), pair("/r/a/", "/r/a0"));
        assert_eq!(span("a/b", None), pair("/r/a/b", "/r/a/b\0"), "one key");
        assert_eq!(span("a/", Some("a/b")), pair("/r/a/b\0", "/r/a0"), "without the key that it is after");
        assert_eq!(span("b/", Some("a/b")), pair("/r/b/", "/r/b0"), "what it is after lies before it");
    }
}
