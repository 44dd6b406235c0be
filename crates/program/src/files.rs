//! Reading of inputs and writing of results.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use stagewright::code::{I002, I004, U001};
pub(crate) use stagewright::files::{Input, Opened};
use stagewright::files::{drain, large, replace, unpacked, whole};

use super::error::{CliError, Result};
use super::{instances, output};

/// Path that means standard input or output.
const STANDARD: &str = "-";

/// Whether a path means standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == OsStr::new(STANDARD)
}

/// Rejects commands that read standard input more than once.
pub(crate) fn at_most_one_standard(paths: &[Option<&Path>]) -> Result<()> {
    if paths.iter().flatten().filter(|path| is_standard(path)).count() > 1 {
        return Err(
            CliError::new(I004, "two inputs are `-`, standard input").help("give one of them as a file")
        );
    }
    Ok(())
}

/// Destinations of a command's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// No output file is standard output, so the result is printed there.
    Files,
    /// One of the files is standard output, and replaces the printed result.
    Standard,
}

/// Existing files that the command will overwrite, with the options that name them.
static WRITTEN: Mutex<Vec<(String, PathBuf)>> = Mutex::new(Vec::new());

/// Rejects a command that writes the same file for two options; returns whether one of the outputs is standard output.
/// Anything but a regular file may be written twice. Afterwards, the command refuses to read these files, so this must
/// be called before any input is read.
pub(crate) fn outputs(outputs: &[(&str, Option<&Path>)]) -> Result<Outputs> {
    // A file that does not exist yet is identified by its folder and its name.
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let there =
            fs::canonicalize(folder).ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
        fs::canonicalize(path).ok().or(there).unwrap_or_else(|| path.to_owned())
    };
    let given: Vec<(&str, PathBuf)> =
        outputs.iter().filter_map(|&(option, path)| Some((option, place(path?)))).collect();
    for (at, (option, path)) in given.iter().enumerate() {
        let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        if let Some((other, _)) = given[..at].iter().find(|(_, earlier)| earlier == path && !is_special) {
            return Err(CliError::new(
                U001,
                format!("{other} and {option} both write to {}", path.display()),
            )
            .at(*option)
            .help("give each its own file"));
        }
    }
    let written = given.into_iter().map(|(option, path)| (option.to_owned(), path));
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).extend(written);
    let is_standard = outputs.iter().any(|(_, path)| path.is_some_and(is_standard));
    Ok(if is_standard { Outputs::Standard } else { Outputs::Files })
}

/// Rejects an input that the command will overwrite, under any name or link.
///
/// # Errors
/// If it is one of the files of [`outputs`] (U001).
pub(crate) fn kept(path: &Path) -> Result<()> {
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    match written.iter().find(|(_, output)| is_same(path, output)) {
        Some((option, _)) => Err(would_overwrite(option, path, "give another file")),
        None => Ok(()),
    }
}

/// The error for an option whose output would overwrite an input (U001).
pub(crate) fn would_overwrite(option: &str, input: &Path, help: &str) -> CliError {
    let cause = format!("{option} would overwrite {}, which the command reads", input.display());
    CliError::new(U001, cause).at(option).help(help)
}

/// Whether two paths refer to the same regular file, perhaps through links.
#[cfg(unix)]
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(one).is_some_and(|file| identity(other) == Some(file))
}

/// Whether two paths refer to the same regular file, perhaps through links.
#[cfg(not(unix))]
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::canonicalize(path).ok().filter(|path| path.is_file());
    place(one).is_some_and(|file| place(other) == Some(file))
}

/// Opens a file. Small or compressed files, standard input and pipes are read whole.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    kept(path)?;
    match large(path).filter(|_| !is_standard(path)) {
        Some(file) => Ok(Opened::File(path.display().to_string(), file)),
        None => read(path).map(Opened::Memory),
    }
}

/// The content of a file or of standard input.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    kept(path)?;
    if let Some(name) = instances::name(path) {
        return instances::document(name);
    }
    let label = label(path);
    if is_standard(path) { drain(io::stdin().lock(), &label) } else { whole(path, &label) }
}

/// Name of an input in errors.
fn label(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}

/// Reads a file, the model of an instance for `instance:NAME`, or standard input for `-`, and unpacks gzip.
pub(crate) fn read(path: &Path) -> Result<Input> {
    if let Some(name) = instances::name(path) {
        return Ok(Input { label: path.display().to_string(), bytes: instances::document(name)? });
    }
    unpack(label(path), bytes(path)?)
}

/// An input in memory, unpacked if it is compressed with gzip.
pub(crate) fn unpack(label: String, bytes: Vec<u8>) -> Result<Input> {
    Ok(Input { bytes: unpacked(&label, bytes)?, label })
}

/// Writes a text to a file with [`write_with`].
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    write_with(path, |file| file.write_all(text.as_bytes()))
}

/// Writes a file atomically, or standard output for `-`. `fill` writes the content; the writer is buffered.
pub(crate) fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if is_standard(path) {
        let mut out = BufWriter::new(io::stdout().lock());
        return output::judged(fill(&mut out).and_then(|()| out.flush()));
    }
    replace(path, fill)
}

/// Writes a file like [`write_with`], where `fill` may fail before it writes.
pub(crate) fn write_fallibly(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>,
) -> Result<()> {
    let mut refused = None;
    let written = write_with(path, |file| match fill(file) {
        Ok(written) => written,
        Err(error) => {
            refused = Some(error);
            Err(io::Error::other("nothing to write"))
        }
    });
    refused.map_or(written, Err)
}

/// Creates a folder and its parents, if they do not exist.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        CliError::new(I002, format!("cannot create the folder: {error}"))
            .at(path.display().to_string())
            .help("check the permissions of its parent folder")
    })
}
