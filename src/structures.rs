//! Structures of language models from what a path holds: a folder of Hugging Face, a configuration, an index or a file of
//! safetensors, a GGUF file, or a structure.
//!
//! No weight is read, only configurations and headers.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use stagewright_core::document::ModelOptionsDocument;
use stagewright_formats::code::{F006, M};
use stagewright_formats::{At, InputError};
use stagewright_structure::huggingface::Reading;
use stagewright_structure::safetensors::{Header, Index, compare, join};
use stagewright_structure::{SCHEMA, Structure, gguf, huggingface, read_structure};

use crate::failure::{Failure, Result};
use crate::files::{self, Input, Opened, unreadable};

const CONFIG: &str = "config.json";
const QUANTISATION: &str = "hf_quant_config.json";
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";
/// Endings of the names of weights and of their index.
const WEIGHTS_ENDINGS: [&str; 2] = [".safetensors", ".safetensors.index.json"];
/// Number of bytes that suffice to recognise GGUF or a structure.
const HEAD: u64 = 4096;

/// How the options of a model say that its configuration is read.
pub fn reading(options: &ModelOptionsDocument) -> Reading<'_> {
    Reading { architecture: options.architecture.as_deref(), set: &options.set }
}

/// Whether the files of a language model are read together: a folder, which can only be of such a model, a GGUF file,
/// which may have further shards, weights or an index with a configuration beside them, a configuration with one of its
/// quantisation, or a structure that is too large to be recognised in memory.
pub fn is_several_files(path: &Path) -> bool {
    if path.is_dir() {
        return true;
    }
    let is_beside = |name: &str| path.with_file_name(name).is_file();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if WEIGHTS_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return is_beside(CONFIG);
    }
    let head = head(path);
    let is_structure = || head.windows(SCHEMA.len()).any(|window| window == SCHEMA.as_bytes());
    gguf::is_gguf(&head) || (name == CONFIG && is_beside(QUANTISATION)) || is_structure()
}

/// Reads the structure of a model. `reading` says what replaces the architecture and the widths of a configuration. Notes
/// tell where sizes are derived although the weights should give them.
///
/// # Errors
/// If a file cannot be read (I001), is of no kind that describes a model (F006), or is malformed or contradicts another
/// (M013 to M017), or a value of `reading` is for no width that the model has (M018).
pub fn structure(path: &Path, reading: &Reading, notes: &mut Vec<String>) -> Result<Structure> {
    if path.is_dir() {
        return match only_gguf(path)? {
            _ if path.join(CONFIG).is_file() => of_folder(path, reading, notes),
            Some(file) => of_gguf(&file, reading),
            None => {
                let message = "the folder has no config.json, and not exactly one GGUF model";
                Err(no_layers(&path.display().to_string(), message))
            }
        };
    }
    if gguf::is_gguf(&head(path)) {
        return of_gguf(path, reading);
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let name = path.to_string_lossy();
    if WEIGHTS_ENDINGS.iter().any(|ending| name.ends_with(ending)) && folder.join(CONFIG).is_file() {
        return of_folder(&folder, reading, notes);
    }
    let Input { label, bytes } = files::read(path)?;
    let beside = path.with_file_name(QUANTISATION);
    let beside = beside.is_file().then(|| files::read(&beside)).transpose()?;
    of_text(&label, &bytes, beside.as_ref(), reading)
}

/// Reads the structure of a model that was opened.
///
/// # Errors
/// As for [`structure`].
pub fn of_opened(opened: Opened, reading: &Reading, notes: &mut Vec<String>) -> Result<Structure> {
    match opened {
        Opened::Language(path) => structure(&path, reading, notes),
        other => of_bytes(&other.whole()?, reading),
    }
}

/// Reads the structure of a model in memory: a GGUF model of one file, a configuration or a structure.
///
/// # Errors
/// As for [`structure`].
pub fn of_bytes(input: &Input, reading: &Reading) -> Result<Structure> {
    let Input { label, bytes } = input;
    if gguf::is_gguf(bytes) {
        let alone = |name: &str| Err(io::Error::new(io::ErrorKind::NotFound, name.to_owned()));
        let structure = gguf::read(label, Box::new(Cursor::new(bytes.clone())), &mut { alone })?;
        return as_it_is(structure, label, reading);
    }
    of_text(label, bytes, None, reading)
}

fn of_text(label: &str, bytes: &[u8], quantisation: Option<&Input>, reading: &Reading) -> Result<Structure> {
    if let Some(structure) = read_structure(label, bytes)? {
        return as_it_is(structure, label, reading);
    }
    if reading.architecture.is_none() && !huggingface::is_config(bytes) {
        return Err(no_layers(label, "the file does not describe the layers of a model"));
    }
    let beside = quantisation.map(|input| (input.label.as_str(), &*input.bytes));
    Ok(huggingface::read(label, bytes, beside, reading)?)
}

/// A structure whose tensors are given, and with them its widths.
fn as_it_is(structure: Structure, label: &str, reading: &Reading) -> Result<Structure> {
    let (option, help) = match (reading.set.keys().next(), reading.architecture) {
        (None, None) => return Ok(structure),
        (Some(name), _) => (format!("--set {name}"), "give the config.json of the model for other widths"),
        (None, Some(name)) => {
            (format!("--as {name}"), "only a configuration can be read as another architecture")
        }
    };
    let message = "the layers and tensors of the file are what they are";
    Err(InputError::at_path(M::M018, label, option, message, format!("{help}; leave the option out")).into())
}

fn no_layers(label: &str, message: &str) -> Failure {
    let help = "give a folder with a config.json, a config.json, a GGUF file, or a structure";
    InputError::new(F006, label, At::Whole, message, help).into()
}

/// The first bytes of a regular file; none of anything else, which cannot be read twice.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if path.is_file() {
        // Errors are reported by the code that reads the file.
        let _unreadable = File::open(path).map(|file| file.take(HEAD).read_to_end(&mut head));
    }
    head
}

/// The only whole model, or first shard, among the GGUF files of a folder.
fn only_gguf(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = folder.read_dir().map_err(|error| unreadable(folder.display().to_string(), &error))?;
    let is_first = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.ends_with(".gguf") && (!name.contains("-of-") || name.contains("-00001-of-"))
    };
    let mut found = entries.flatten().map(|entry| entry.path()).filter(is_first);
    Ok(found.next().filter(|_| found.next().is_none()))
}

fn of_gguf(path: &Path, reading: &Reading) -> Result<Structure> {
    let label = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(label.as_str(), &error))?;
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let mut sibling =
        |name: &str| -> io::Result<Box<dyn gguf::ReadSeek>> { Ok(Box::new(File::open(folder.join(name))?)) };
    as_it_is(gguf::read(&label, Box::new(file), &mut sibling)?, &label, reading)
}

/// Reads a configuration with the headers of the weights beside it, or with their index where the weights are not there.
fn of_folder(folder: &Path, reading: &Reading, notes: &mut Vec<String>) -> Result<Structure> {
    let config = folder.join(CONFIG);
    let mut structure = self::structure(&config, reading, notes)?;
    let contradicts = |error: InputError| {
        let mut error = reading.explain(error);
        if !reading.set.is_empty() {
            error.help =
                format!("{}; give {} to leave the weights beside it out", error.help, config.display());
        }
        error
    };
    let index = folder.join(INDEX);
    let shards = match (index.is_file(), folder.join(WEIGHTS)) {
        (true, _) => {
            let Input { label, bytes } = files::read(&index)?;
            let index = Index::read(&label, &bytes)?;
            let mut names: Vec<String> = index.files.values().cloned().collect();
            names.sort();
            names.dedup();
            let shards: Vec<PathBuf> =
                names.iter().map(|name| within(folder, &label, name)).collect::<Result<_>>()?;
            let missing = shards.iter().filter(|shard| !shard.is_file()).count();
            if missing > 0 {
                notes.extend(compare(&structure, &index).map_err(contradicts)?);
                let count = shards.len();
                notes.push(format!(
                    "{label}: {missing} of {count} files of weights are not there; sizes follow from the configuration"
                ));
                return Ok(structure);
            }
            shards
        }
        (false, weights) if weights.is_file() => vec![weights],
        _ => return Ok(structure),
    };
    let headers = shards.iter().map(|shard| header(shard)).collect::<Result<Vec<_>>>()?;
    join(&mut structure, &folder.display().to_string(), &headers).map_err(contradicts)?;
    Ok(structure)
}

/// The path of a shard that an index names, which must be in the folder of the index.
fn within(folder: &Path, label: &str, name: &str) -> Result<PathBuf> {
    if Path::new(name).file_name().is_some_and(|file| file == name) {
        return Ok(folder.join(name));
    }
    let help = "name files in the folder of the index";
    let message = format!("`{name}` is no name of a file in the folder");
    Err(InputError::at_path(M::M016, label, "weight_map", message, help).into())
}

fn header(path: &Path) -> Result<Header> {
    let label = path.display().to_string();
    let failed = |error: io::Error| unreadable(label.as_str(), &error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok(Header::read(&label, io::BufReader::new(file), Some(length))?)
}
