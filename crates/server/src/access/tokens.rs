//! The token file: `TOKEN,USER,UID,"GROUP1,GROUP2"` on each line, as kube-apiserver's `--token-auth-file` has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::warn;

use super::User;

/// Why a token file cannot be used.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// It cannot be read, or is no CSV.
    #[error("the token file {} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: csv::Error,
    },
    /// A line has too little on it.
    #[error(
        "token file '{}' must have at least 3 columns (token, user name, user uid), found {found} in record {record}",
        .path.display()
    )]
    TooFewColumns {
        /// The file.
        path: PathBuf,
        /// Which record, counted from one.
        record: usize,
        /// How many columns it has.
        found: usize,
    },
}

/// Reads all tokens and their users. Records without a token are left out, with a warning.
///
/// The file is written by people and may be shared with another server, so one that others may read is not closed to them,
/// as our own files are: whoever runs the server is told.
pub fn read(path: &Path) -> Result<Vec<(String, User)>, TokenFileError> {
    let unreadable = |source| TokenFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(|error| unreadable(error.into()))?;
    if is_open_to_others(&file).map_err(|error| unreadable(error.into()))? {
        warn!("others than its owner may read the token file '{path}': chmod 600 '{path}'", path = path.display());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
    let mut tokens = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.map_err(unreadable)?;
        let number = index + 1;
        let (Some(token), Some(name), Some(uid)) = (record.get(0), record.get(1), record.get(2)) else {
            return Err(TokenFileError::TooFewColumns { path: path.to_owned(), record: number, found: record.len() });
        };
        if token.is_empty() {
            warn!("empty token has been found in token file '{}', record number '{number}'", path.display());
            continue;
        }
        let groups = record.get(3).unwrap_or_default().split(',').map(str::trim).filter(|group| !group.is_empty());
        let user = User { uid: uid.to_owned(), ..User::authenticated(name, groups.map(str::to_owned)) };
        tokens.push((token.to_owned(), user));
    }
    Ok(tokens)
}

/// Whether others than its owner may read or write a file.
fn is_open_to_others(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;
    use crate::access::AUTHENTICATED;

    fn read_text(text: &str) -> Result<Vec<(String, User)>, TokenFileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn a_line_gives_token_user_uid_and_groups() {
        let tokens = read_text("t1,jane,7,\"devs,ops\"\nt2,joe,8\n,nobody,9\nt3,\"a,b\",,solo\n").unwrap();
        let seen: Vec<_> = tokens.iter().map(|(token, user)| (token.as_str(), user.name.as_str())).collect();
        assert_eq!(seen, [("t1", "jane"), ("t2", "joe"), ("t3", "a,b")]);
        assert_eq!(tokens[0].1.groups, ["devs", "ops", AUTHENTICATED]);
        assert_eq!(tokens[0].1.uid, "7");
        assert_eq!(tokens[1].1.groups, [AUTHENTICATED]);
        assert_eq!(tokens[2].1.groups, ["solo", AUTHENTICATED]);
    }

    #[test]
    fn a_line_with_two_columns_is_refused_with_its_number() {
        let error = read_text("t1,jane,7\nt2,joe\n").unwrap_err().to_string();
        assert!(
            error.contains("must have at least 3 columns (token, user name, user uid), found 2 in record 2"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_others_may_read_is_known_and_read_all_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "t1,jane,7\n").unwrap();
        for (mode, open) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o602, true)] {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(file.as_file()).unwrap(), open, "{mode:o}");
            assert_eq!(read(file.path()).unwrap().len(), 1);
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(Path::new("/nowhere/tokens.csv")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/tokens.csv"), "{error}");
    }
}
