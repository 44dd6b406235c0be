//! Journal of finished cases, so that an interrupted suite can be resumed.
//!
//! The file is a header, followed by one JSON object per line, which is written as soon as a case is finished. A line
//! truncated because the process was killed is ignored.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use stagewright::lock::{self, Locked};

use super::case::Row;
use crate::cluster;
use crate::code::{B004, B005, B006};
use crate::error::{CliError, Result};
use crate::files;

/// A file of finished cases, locked against other processes; without a file, nothing is kept.
pub(super) struct Journal {
    done: BTreeMap<Vec<String>, Row>,
    file: Option<Mutex<Locked>>,
    label: String,
    /// Digest of the running program: results of another build do not count.
    program: String,
}

/// The first line of a journal. It is checked so that other files are not overwritten by mistake.
const HEAD: &[u8] = b"{\"schema\":\"stagewright.journal/1\"}\n";

/// Text that ends a truncated line.
const CUT_OFF: &[u8] = b" cut off\n";

fn digest() -> Result<String> {
    cluster::digest_of_program()
        .map_err(|error| CliError::new(B004, format!("cannot read this program: {error}")))
}

#[derive(Serialize, Deserialize)]
struct Line {
    case: Vec<String>,
    row: Row,
}

/// Reads the finished cases of a journal, which another process may be using.
pub(super) fn read(path: &Path) -> Result<BTreeMap<Vec<String>, Row>> {
    let input = files::read(path)?;
    match input.bytes.strip_prefix(HEAD) {
        Some(text) => Ok(lines(text)),
        None => Err(CliError::new(B005, "not a journal of `bench`")
            .at(input.label)
            .help("give the journals of the shards, which --journal named")),
    }
}

fn lines(text: &[u8]) -> BTreeMap<Vec<String>, Row> {
    // A case whose line is truncated, or is in the format of another version, is run again.
    let lines = text.split(|&byte| byte == b'\n').map(serde_json::from_slice::<Line>);
    lines.filter_map(Result::ok).map(|line| (line.case, line.row)).collect()
}

impl Journal {
    /// Opens a journal and reads its finished cases; creates the file if it does not exist. Without a file, the program
    /// is hashed only if `identified` is true.
    pub(super) fn open(path: Option<&Path>, identified: bool) -> Result<Journal> {
        let Some(path) = path else {
            let program = if identified { digest()? } else { String::new() };
            return Ok(Journal { done: BTreeMap::new(), file: None, label: String::new(), program });
        };
        files::kept(path)?;
        let label = path.display().to_string();
        let bad = |cause: String| {
            CliError::new(B005, cause).at(label.clone()).help("give a journal of `bench`, or a new file")
        };
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(bad("not a regular file".into()));
        }
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = opened.map_err(|error| bad(format!("cannot open the journal: {error}")))?;
        let locked = lock::take(file).map_err(|error| bad(format!("cannot lock the journal: {error}")))?;
        let Some(mut file) = locked else {
            return Err(CliError::new(B006, "another `bench` process is writing this journal")
                .at(label)
                .help("wait for it to end, or give another file"));
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| bad(format!("cannot read the journal: {error}")))?;
        let end = match bytes.strip_prefix(HEAD) {
            None if bytes.is_empty() => HEAD,
            None => return Err(bad("not a journal of `bench`".into())),
            Some(lines) if lines.is_empty() || lines.ends_with(b"\n") => b"",
            // Ends the line, so that the next entry starts on a new one.
            Some(_) => CUT_OFF,
        };
        let done = lines(bytes.strip_prefix(HEAD).unwrap_or_default());
        file.write_all(end).map_err(|error| bad(format!("cannot write the journal: {error}")))?;
        Ok(Journal { done, file: Some(Mutex::new(file)), label, program: digest()? })
    }

    /// Digest of the running program, which is part of every key. Empty if the journal has no file and no
    /// identification was requested.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// The row of a finished case.
    pub(super) fn row(&self, case: &[String]) -> Option<&Row> {
        self.done.get(case)
    }

    /// Records a row.
    pub(super) fn keep(&self, case: Vec<String>, row: &Row) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let failed = |cause: String| {
            CliError::new(B005, format!("cannot write the journal: {cause}"))
                .at(self.label.clone())
                .help("free disk space; finished cases are not lost")
        };
        let line = serde_json::to_string(&Line { case, row: row.clone() });
        let line = line.map_err(|error| failed(error.to_string()))? + "\n";
        let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(line.as_bytes()).and_then(|()| file.flush()).map_err(|error| failed(error.to_string()))
    }
}
