//! The folder of a run. Files are written to a temporary file and renamed, so that each is always complete.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Result, RunError};
use crate::lock::{self, Locked};

/// Maximum size in bytes of a checkpoint that a run starts from. A device file may never end.
const LARGEST: u64 = 1 << 30;

/// The folder of a run, which no other process runs in meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Closed with the process, so that a kill leaves nothing locked.
    _lock: Locked,
}

impl Folder {
    /// Opens a folder and creates it if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created, or another process runs in it.
    pub fn new(path: &Path) -> Result<Folder> {
        std::fs::create_dir_all(path).map_err(|error| RunError::file("make", path, &error))?;
        let lock = path.join("lock");
        let failed = |error: std::io::Error| RunError::file("lock", &lock, &error);
        let file = File::options().append(true).create(true).open(&lock).map_err(failed)?;
        match lock::take(file).map_err(failed)? {
            Some(lock) => Ok(Folder { path: path.into(), _lock: lock }),
            None => Err(RunError::InUse { folder: path.display().to_string() }),
        }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Labels of the training set.
    pub fn labels(&self) -> PathBuf {
        self.path.join("labels.jsonl")
    }

    /// Labels of the held-out set.
    pub fn held_out(&self) -> PathBuf {
        self.path.join("held-out.jsonl")
    }

    /// The state to resume from.
    pub fn state(&self) -> PathBuf {
        self.path.join("state.safetensors")
    }

    /// The best checkpoint so far.
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// The measurements as CSV.
    pub fn csv(&self) -> PathBuf {
        self.path.join("metrics.csv")
    }

    /// The measurements as JSON lines.
    pub fn json_lines(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// Converts the progress of a run to JSON, for the run's state.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    pub(in super::super) fn progress(&self, kept: &impl Serialize) -> Result<serde_json::Value> {
        serde_json::to_value(kept).map_err(|error| RunError::File {
            doing: "write",
            file: self.state().display().to_string(),
            cause: error.to_string(),
        })
    }

    /// The bytes of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RunError::file("read", path, &error)),
        }
    }

    /// The bytes of the checkpoint that the run starts from.
    ///
    /// # Errors
    /// If it cannot be read, has more than [`LARGEST`] bytes, or is a file that the run replaces.
    pub(in super::super) fn origin(&self, path: &Path) -> Result<Vec<u8>> {
        let places = [entry(path), std::fs::canonicalize(path).ok()];
        if [self.best(), self.state()].iter().any(|replaced| places.contains(&entry(replaced))) {
            return Err(RunError::Replaced { file: path.display().to_string() });
        }
        let failed = |error: std::io::Error| RunError::file("read", path, &error);
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(failed)?;
        match bytes.len() as u64 > LARGEST {
            true => Err(failed(std::io::Error::other("it is larger than 1 GiB"))),
            false => Ok(bytes),
        }
    }

    /// Replaces a file atomically.
    ///
    /// # Errors
    /// If it cannot be written; the previous content stays.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        let failed = |error: std::io::Error| RunError::file("write", path, &error);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        // Permissions as for any other file: the process's default, not owner only.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder).map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// A path with its folder resolved: equal results are the same file or link.
fn entry(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

/// Digest of a checkpoint, by which a run recognises the checkpoint that it started from.
pub(in super::super) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
