//! Structures of language models from what a path holds: a folder of Hugging Face, a configuration, an index or a file of
//! safetensors, a GGUF file, or a structure.
//!
//! No weight is read, only configurations and headers.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stagewright_formats::code::{F006, M};
use stagewright_formats::{At, InputError};
use stagewright_structure::huggingface::Reading;
use stagewright_structure::safetensors::{Header, Index, compare, join};
use stagewright_structure::{Structure, gguf, huggingface, read_structure};

use crate::failure::{Failure, Result};
use crate::files::{self, Input, unreadable};

const CONFIG: &str = "config.json";
const QUANTISATION: &str = "hf_quant_config.json";
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";
/// Maximum number of bytes of a configuration or structure that is looked for among other files.
const LARGEST_CONFIG: u64 = 64 << 20;

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
    if is_gguf(path) {
        return of_gguf(path, reading);
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let is_beside = |ending: &str| path.to_string_lossy().ends_with(ending) && folder.join(CONFIG).is_file();
    if is_beside(".safetensors") || is_beside(".safetensors.index.json") {
        return of_folder(&folder, reading, notes);
    }
    let Input { label, bytes } = files::read(path)?;
    if let Some(structure) = read_structure(&label, &bytes)? {
        return as_it_is(structure, &label, reading);
    }
    if reading.architecture.is_none() && !huggingface::is_config(&bytes) {
        return Err(no_layers(&label, "the file does not describe the layers of a model"));
    }
    of_config(path, &label, &bytes, reading)
}

/// A structure whose tensors are given, and with them its widths.
fn as_it_is(structure: Structure, label: &str, reading: &Reading) -> Result<Structure> {
    let Some(name) = reading.set.keys().next() else { return Ok(structure) };
    let message = format!("`{name}` cannot be set: the tensors of the file are what they are");
    let help = "give the config.json of the model for other widths, or leave --set out";
    Err(InputError::at_path(M::M018, label, format!("--set {name}"), message, help).into())
}

fn no_layers(label: &str, message: &str) -> Failure {
    let help = "give a folder with a config.json, a config.json, a GGUF file, or a structure";
    InputError::new(F006, label, At::Whole, message, help).into()
}

/// Whether a path holds the structure of a model, by its content: such a folder, a configuration, a GGUF file or a structure.
/// Graphs and other documents are none.
pub fn describes_layers(path: &Path) -> bool {
    if path.is_dir() {
        return path.join(CONFIG).is_file() || only_gguf(path).is_ok_and(|file| file.is_some());
    }
    if is_gguf(path) {
        return true;
    }
    // Graphs may be large; a configuration is not.
    let is_small =
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= LARGEST_CONFIG);
    let Some(bytes) = is_small.then(|| files::read(path).ok()).flatten().map(|input| input.bytes) else {
        return false;
    };
    huggingface::is_config(&bytes) || read_structure("", &bytes).map_or(true, |found| found.is_some())
}

/// Whether a regular file begins like GGUF. Anything else cannot be read twice.
fn is_gguf(path: &Path) -> bool {
    let mut head = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|file| file.take(4).read_exact(&mut head).is_ok())
        && gguf::is_gguf(&head)
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

fn of_config(path: &Path, label: &str, bytes: &[u8], reading: &Reading) -> Result<Structure> {
    let beside = path.with_file_name(QUANTISATION);
    let beside = beside.is_file().then(|| files::read(&beside)).transpose()?;
    let beside = beside.as_ref().map(|input| (input.label.as_str(), &*input.bytes));
    Ok(huggingface::read(label, bytes, beside, reading)?)
}

/// Reads a configuration with the headers of the weights beside it, or with their index where the weights are not there.
fn of_folder(folder: &Path, reading: &Reading, notes: &mut Vec<String>) -> Result<Structure> {
    let config = folder.join(CONFIG);
    let Input { label, bytes } = files::read(&config)?;
    let mut structure = of_config(&config, &label, &bytes, reading)?;
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
