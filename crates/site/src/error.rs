//! Errors of the site.

use std::path::{Path, PathBuf};

/// Result of this program.
pub(crate) type Result<T> = std::result::Result<T, SiteError>;

/// A site that could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    /// A file or folder could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// An output folder with files that do not belong to an earlier site.
    #[error("{} is not empty and not an earlier site: name another folder", .0.display())]
    Foreign(PathBuf),
    /// A page of the repository that no part lists.
    #[error("{0} is in no part of the site: add it to `PARTS` in crates/site/src/contents.rs")]
    Unlisted(String),
    /// A page without a title.
    #[error("{0} does not begin with a title, `# …`")]
    Untitled(String),
    /// The program did not write its manual.
    #[error("`{command}` failed: {reason}")]
    Program {
        /// The command.
        command: String,
        /// Output of the command, or why it did not start.
        reason: String,
    },
    /// A schema with something that the reference cannot show.
    #[error("{file}: {reason}")]
    Schema {
        /// The schema.
        file: String,
        /// Items that the reference cannot show.
        reason: String,
    },
    /// mdBook failed.
    #[error("mdBook: {0}")]
    Book(String),
    /// Broken links, a line for each.
    #[error("{} broken links\n  {}", .0.len(), .0.join("\n  "))]
    Links(Vec<String>),
}

impl SiteError {
    /// A file or folder that could not be read or written, as an argument of `map_err`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> SiteError {
        let path = path.to_owned();
        |error| SiteError::File { path, error }
    }
}
