//! Files: reading as much of them as needed, and replacing them atomically.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::code::{I001, I002, I005, I006};
use crate::failure::{Failure, Result};

/// The content of a file, with the name that errors give it.
#[derive(Debug, Clone)]
pub struct Input {
    /// Name in errors.
    pub label: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// An input that may be large.
pub enum Opened {
    /// The whole content.
    Memory(Input),
    /// A file of more than [`HELD`] bytes, with the name that errors give it; its reader may not need all of it.
    File(String, File),
    /// A language model whose files are read together: see [`structures`](crate::structures).
    Language(PathBuf),
}

impl Opened {
    /// Label in errors.
    pub fn label(&self) -> String {
        match self {
            Opened::Memory(Input { label, .. }) | Opened::File(label, _) => label.clone(),
            Opened::Language(path) => path.display().to_string(),
        }
    }

    /// The whole content in memory.
    ///
    /// # Errors
    /// If it cannot be read (I001), or is larger than [`LARGEST`] (I006).
    pub fn whole(self) -> Result<Input> {
        match self {
            Opened::Memory(input) => Ok(input),
            Opened::Language(path) => read(&path),
            Opened::File(label, file) => {
                let bytes = drain(file, &label)?;
                Ok(Input { label, bytes })
            }
        }
    }
}

/// Files up to this size in bytes are always read into memory whole.
pub const HELD: u64 = 16 << 20;

/// Magic number of gzip files.
pub const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Maximum size in bytes of an input that is held in memory whole, and of an unpacked gzip file: a graph of a million
/// operators is smaller. The limit guards against device files that never end and gzip files that unpack to any size.
pub const LARGEST: u64 = 1 << 30;

/// Opens a file that is larger than [`HELD`] and not compressed; `None` for all others.
pub fn large(path: &Path) -> Option<File> {
    // Only regular files are opened here: opening a pipe a second time would wait for another writer.
    fs::metadata(path).ok().filter(|metadata| metadata.is_file() && metadata.len() > HELD)?;
    let mut file = File::open(path).ok()?;
    let mut first = [0; GZIP.len()];
    (file.read_exact(&mut first).is_ok() && first != GZIP && file.rewind().is_ok()).then_some(file)
}

/// Opens a file; small or compressed ones are read whole.
///
/// # Errors
/// If it cannot be read (I001) or unpacked (I005), or is larger than [`LARGEST`] and has to be held whole (I006).
pub fn open(path: &Path) -> Result<Opened> {
    let label = path.display().to_string();
    match large(path) {
        Some(file) => Ok(Opened::File(label, file)),
        None => read(path).map(Opened::Memory),
    }
}

/// Reads a file whole, and unpacks gzip.
///
/// # Errors
/// If it cannot be read (I001) or unpacked (I005), or is larger than [`LARGEST`] (I006).
pub fn read(path: &Path) -> Result<Input> {
    let label = path.display().to_string();
    let bytes = whole(path, &label)?;
    Ok(Input { bytes: unpacked(&label, bytes)?, label })
}

/// The bytes of a file as they are, without unpacking gzip.
///
/// # Errors
/// If it cannot be read (I001), or is larger than [`LARGEST`] (I006).
pub fn whole(path: &Path, label: &str) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| unreadable(label, &error))?;
    match file.metadata() {
        // A file that is too large is refused before any of it is read.
        Ok(metadata) if metadata.is_file() && metadata.len() > LARGEST => Err(too_large(label)),
        _ => drain(file, label),
    }
}

/// Reads the rest of a file or stream, at most [`LARGEST`] bytes.
///
/// # Errors
/// If it cannot be read (I001), or has more bytes than [`LARGEST`] (I006).
pub fn drain(source: impl Read, label: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match source.take(LARGEST + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 <= LARGEST => Ok(bytes),
        Ok(_) => Err(too_large(label)),
        Err(error) => Err(unreadable(label, &error)),
    }
}

/// The error for an input that is too large to be held whole (I006).
pub fn too_large(label: &str) -> Failure {
    Failure::new(I006, "the input is larger than 1 GiB").at(label).help(
        "check that it is the file you mean; only ONNX models with their weights may be larger, as files",
    )
}

/// The error for a file that cannot be read (I001).
pub fn unreadable(label: impl Into<String>, error: &io::Error) -> Failure {
    Failure::new(I001, format!("cannot read the file: {error}"))
        .at(label)
        .help("check the path and its permissions")
}

/// Unpacks bytes if they are packed with gzip.
///
/// # Errors
/// If they are damaged or unpack to more than 1 GiB (I005).
pub fn unpacked(label: &str, packed: Vec<u8>) -> Result<Vec<u8>> {
    if !packed.starts_with(&GZIP) {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    match MultiGzDecoder::new(&packed[..]).take(LARGEST + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 <= LARGEST => Ok(bytes),
        Ok(_) => Err(Failure::new(I005, "the gzip file unpacks to more than 1 GiB")
            .at(label)
            .help("unpack it with gunzip, and give the unpacked file")),
        Err(error) => Err(Failure::new(I005, format!("the gzip file cannot be unpacked: {error}"))
            .at(label)
            .help("create it again: it is truncated or damaged")),
    }
}

/// Writes a file atomically: to a temporary file in the same folder, which is then renamed. Anything but a regular file
/// (a device, a pipe) is written directly, and a symbolic link is kept. `fill` writes the content; the writer is
/// buffered.
///
/// # Errors
/// If the file cannot be written (I002); the old file is then kept.
pub fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file());
    let written = if special {
        File::create(&target).and_then(|mut file| buffered(&mut file, fill))
    } else {
        renamed(&target, fill)
    };
    written.map_err(|error| {
        Failure::new(I002, format!("cannot write the file: {error}"))
            .at(path.display().to_string())
            .help("check that the folder exists and is writable, and that the disk has space")
    })
}

fn buffered(file: &mut File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = BufWriter::new(file);
    fill(&mut buffer)?;
    buffer.flush()
}

fn renamed(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".stagewright-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The usual mode of new files before the umask; temporary files would otherwise be private.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    buffered(file.as_file_mut(), fill)?;
    file.as_file().sync_all()?;
    file.persist(target).map(drop).map_err(|error| error.error)
}
