//! Reading and writing of files and folders.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Result, SiteError};

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(SiteError::file(path))
}

/// Writes a file, and the folders that it needs.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    make_parent(path)?;
    fs::write(path, text).map_err(SiteError::file(path))
}

/// Copies a file, or a folder with everything in it, and makes the folders that it needs.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        make_parent(to)?;
        return fs::copy(from, to).map(|_bytes| ()).map_err(SiteError::file(from));
    }
    for entry in list(from)? {
        if let Some(name) = entry.file_name() {
            copy(&entry, &to.join(name))?;
        }
    }
    Ok(())
}

/// The files and folders in a folder, by name.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(SiteError::file(folder))?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(SiteError::file(folder))?;
    paths.sort();
    Ok(paths)
}

/// Resolves a path relative to the folder of a file, without `.` and `..`; `None` if it leaves the repository.
pub(crate) fn resolve(from: &str, to: &str) -> Option<String> {
    let mut found = PathBuf::new();
    let folder = Path::new(from).parent()?;
    for component in folder.join(to).components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir if found.pop() => {}
            _ => return None,
        }
    }
    found.to_str().map(str::to_owned)
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(SiteError::file(parent))
}
