//! What goes wrong again and again is told once: when it begins, when it is something else, and when it is over.

use tracing::{debug, info, warn};

/// Something that is tried all the time.
#[derive(Debug)]
pub struct Trouble {
    what: Box<str>,
    why: Option<String>,
}

impl Trouble {
    /// There is none yet.
    pub fn new(what: &str) -> Self {
        Self { what: what.into(), why: None }
    }

    /// It failed.
    pub fn is(&mut self, why: &str) {
        if self.why.as_deref() == Some(why) {
            debug!(what = &*self.what, why, "still cannot be reached");
        } else {
            warn!(what = &*self.what, why, "cannot be reached; this is tried again");
            self.why = Some(why.to_owned());
        }
    }

    /// It worked.
    pub fn is_over(&mut self) {
        if self.why.take().is_some() {
            info!(what = &*self.what, "can be reached again");
        }
    }
}
