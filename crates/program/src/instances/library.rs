//! A library: the one in the program, or a folder with the same layout.

use std::path::{Path, PathBuf};

use stagewright::formats::read_toml;
use stagewright::nearest::instead;

use super::embedded;
use super::entry::{Entry, Index, SCHEMA};
use crate::code::{O001, O002};
use crate::error::{CliError, Result};
use crate::files::{self, Input};

/// Hint for an index.
const DESCRIBED: &str = "data/instances/README.md describes the index";

/// Name of the index file.
pub(super) const INDEX: &str = "index.toml";

/// A library with its index.
pub(super) struct Library {
    /// The folder; `None` for the library in the program.
    folder: Option<PathBuf>,
    pub(super) index: Index,
}

impl Library {
    /// Reads the index of a folder, or of the library in the program.
    pub(super) fn open(folder: Option<&Path>) -> Result<Library> {
        let empty = Index { schema: SCHEMA.into(), instances: Vec::new() };
        let library = Library { folder: folder.map(Path::to_owned), index: empty };
        let Input { label, bytes } = library.file(INDEX)?;
        let wrong = |place: String, cause: String| CliError::new(O002, cause).at(place).help(DESCRIBED);
        let index: Index = read_toml(&label, &bytes).map_err(|error| {
            wrong(error.place.to_string(), error.message).help(format!("{}; {DESCRIBED}", error.help))
        })?;
        if index.schema != SCHEMA {
            return Err(wrong(label, format!("the schema is `{}`, expected `{SCHEMA}`", index.schema)));
        }
        for (at, entry) in index.instances.iter().enumerate() {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if entry.name.is_empty() || !entry.name.chars().all(is_plain) {
                let cause = format!("the name `{}` is not of letters, digits, `-`, `_` and `.`", entry.name);
                return Err(wrong(label, cause));
            }
            if index.instances[..at].iter().any(|other| other.name == entry.name) {
                return Err(wrong(label, format!("the instance `{}` is listed twice", entry.name)));
            }
        }
        Ok(Library { index, ..library })
    }

    /// Reads a file of the library, unpacked.
    pub(super) fn file(&self, name: &str) -> Result<Input> {
        match &self.folder {
            Some(folder) => files::read(&folder.join(name)),
            None => match embedded::file(name) {
                Some(bytes) => files::unpack(format!("data/instances/{name}"), bytes.to_vec()),
                None => Err(CliError::new(O002, format!("the library has no file {name}"))
                    .at(format!("data/instances/{INDEX}"))),
            },
        }
    }

    /// The instance with a name.
    pub(super) fn find(&self, name: &str) -> Result<&Entry> {
        let known = || self.index.instances.iter().map(|entry| entry.name.as_str());
        self.index.instances.iter().find(|entry| entry.name == name).ok_or_else(|| {
            CliError::new(O001, format!("unknown instance `{name}`"))
                .help(format!("{}; `instances list` shows all", instead(name, known())))
        })
    }
}
