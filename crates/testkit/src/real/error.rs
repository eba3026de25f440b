//! Why a part could not be started or used. Each says what to look at next.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// A part did not start, did not answer or did not end.
#[derive(Debug, Error)]
pub enum Error {
    /// The program is not there or cannot be executed.
    #[error("could not start {program}: {source}")]
    NotStarted {
        /// The path of the program.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The process ended while it was waited for.
    #[error("{name} ended before it was ready ({status}); the end of its log:\n{tail}")]
    Ended {
        /// Which part.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        tail: String,
    },
    /// The process runs and does not serve.
    #[error("{name} was not ready after {} s; the end of its log:\n{tail}", within.as_secs())]
    NotReady {
        /// Which part.
        name: String,
        /// How long it was waited for.
        within: Duration,
        /// The last lines that it wrote.
        tail: String,
    },
    /// The process was told to end and did not.
    #[error("{name} was still running {} s after it was told to end; the end of its log:\n{tail}", within.as_secs())]
    NotEnded {
        /// Which part.
        name: String,
        /// How long it was waited for.
        within: Duration,
        /// The last lines that it wrote.
        tail: String,
    },
    /// A file or folder that a part needs could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// No free port, or a process that could not be asked after.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A key or certificate could not be made.
    #[error("could not make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

impl Error {
    /// Makes an error of the operating system about a file one of ours, for `map_err`.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }

    /// Makes an error of the operating system about something else one of ours, for `map_err`.
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
