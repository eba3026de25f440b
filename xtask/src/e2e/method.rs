//! How suites that compare two servers write an object: the verb, and the media type of the body.

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Post,
    Put,
    /// A PUT of what is there, with the body laid over it.
    Edit,
    /// A PUT of what is there without its `managedFields`, or with the body in their place.
    Forget,
    Merge,
    Strategic,
    Json,
    Apply,
    Delete,
}

impl Method {
    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Apply => "application/apply-patch+yaml",
            _ => "application/json",
        }
    }

    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put | Self::Edit | Self::Forget => "PUT",
            Self::Merge | Self::Strategic | Self::Json | Self::Apply => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}
