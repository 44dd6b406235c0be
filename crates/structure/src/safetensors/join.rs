//! Structures with the tensors of a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_formats::code::M;
use stagewright_formats::{InputError, Result};

use super::header::{Entry, Header};
use super::index::Index;
use super::place::{Part, Place, Places, restack};
use super::stored::Stored;
use crate::module::bare;
use crate::structure::Structure;
use crate::tensor::{Role, Tensor};

/// Share of the derived bytes by which those of an index may differ without a note. Scales of activations and small tensors
/// in 32 bits stay below.
const SMALL_DIFFERENCE: f64 = 1e-3;

/// A tensor of a file.
#[derive(Clone, Copy)]
struct Given<'a> {
    /// Type and shape, if a header gave them.
    entry: Option<&'a Entry>,
    /// Name of the file.
    label: &'a str,
}

/// A tensor of the structure in the files.
#[derive(Clone, Default)]
struct Found {
    /// Path before the name of the bare tensor, as the files have it.
    before: Option<String>,
    /// Whether there are weights of all experts at once.
    whole: bool,
    /// Experts with weights of their own.
    experts: BTreeSet<u64>,
    stored: Stored,
}

/// Gives a structure the tensors of its weights, from the headers of all files: their names, bytes and encodings.
///
/// Names may have other modules around those of the language model (`model.`, `transformer.`). The parts of a quantised
/// tensor count to its bytes: scales, zero points, and what else the methods store. Experts may be stacked or apart.
/// Buffers that are computed (rotary frequencies, masks, positions) do not count, and neither do copies of the table of
/// tokens in tied models and prediction layers. `label` names the checkpoint in errors.
///
/// # Errors
/// If two files have a tensor of the same name (M016); if the shape of a tensor contradicts the structure, or the structure or
/// the weights lack it (M017); if the bytes are absurdly many (M015). The structure is then as it was.
pub fn join(structure: &mut Structure, label: &str, headers: &[Header]) -> Result<()> {
    let mut files: BTreeMap<&str, Given> = BTreeMap::new();
    for header in headers {
        for (name, entry) in &header.tensors {
            let given = Given { entry: Some(entry), label: &header.label };
            if let Some(other) = files.insert(name, given) {
                let message = format!("the tensor is in {} too", other.label);
                let help = "give every file of one checkpoint once";
                return Err(InputError::at_path(M::M016, &header.label, name.as_str(), message, help));
            }
        }
    }
    let (mut tensors, found) = gather(structure, label, &files)?;
    for (tensor, found) in tensors.iter_mut().zip(found) {
        let fault = |message: String| contradiction(label, &tensor.name, format!("the tensor {message}"));
        let encoding = found.stored.encoding(tensor).map_err(fault)?;
        if encoding != tensor.encoding {
            tensor.compute = None;
        }
        tensor.encoding = encoding;
        tensor.bytes = found.stored.bytes;
        if let Some(before) = found.before {
            tensor.name = format!("{before}{}", bare(&tensor.name));
        }
    }
    let joined = Structure { tensors, ..structure.clone() };
    joined.check(label)?;
    *structure = joined;
    Ok(())
}

/// Compares the tensors of a structure with an index: their names, and the bytes of all. The structure stays as it is,
/// since an index has no shapes.
///
/// A note says by how much the bytes differ, if by more than 0.1%.
///
/// # Errors
/// If the structure or the index lacks a tensor (M017).
pub fn compare(structure: &Structure, index: &Index) -> Result<Option<String>> {
    let given = Given { entry: None, label: &index.label };
    let files = index.files.keys().map(|name| (name.as_str(), given)).collect();
    gather(structure, &index.label, &files)?;
    let Some(total) = index.total else { return Ok(None) };
    let derived = structure.weight_bytes();
    let difference = (total as f64 - derived as f64) / (derived as f64).max(1.0);
    let note = || {
        format!(
            "the index has {total} bytes of weights, and the configuration gives {derived} ({:+.2}%); with the files beside \
             it, sizes are exact",
            100.0 * difference
        )
    };
    Ok((difference.abs() > SMALL_DIFFERENCE).then(note))
}

/// The tensors of a structure, with experts as the files have them, and what files have of each.
fn gather(
    structure: &Structure,
    label: &str,
    files: &BTreeMap<&str, Given>,
) -> Result<(Vec<Tensor>, Vec<Found>)> {
    let names: BTreeSet<&str> = files.keys().copied().collect();
    let tensors = restack(&structure.tensors, &names);
    let places = Places::new(&tensors, &names);
    let table = tensors.iter().position(|tensor| tensor.role == Role::Embedding);
    let mut found = vec![Found::default(); tensors.len()];
    let mut copies = Vec::new();
    for (&name, &given) in files {
        let place = places.find(name);
        let is_shape = |shape: &[u64]| given.entry.is_none_or(|entry| entry.shape == shape);
        match place {
            Place::Part { index, expert, part } => {
                found[index].add(&tensors[index], name, expert, part, given)?;
            }
            Place::Ignored => {}
            Place::Mask if given.entry.is_none_or(|entry| entry.shape.len() == 4) => {}
            Place::Copy if table.is_some_and(|table| is_shape(&tensors[table].shape)) => {
                copies.push((name, given))
            }
            Place::Mask | Place::Copy | Place::Unknown => {
                let message = "the configuration has no such tensor".to_owned();
                return Err(contradiction(given.label, name, message));
            }
        }
    }
    if let Some(table) = table.filter(|&table| !found[table].whole)
        && let Some(&(name, given)) = copies.first()
    {
        // A tied model may store its table as the head.
        found[table].add(&tensors[table], name, None, Part::Weight, given)?;
        found[table].before = None;
    }
    for (tensor, found) in tensors.iter().zip(&found) {
        found.check(tensor, label)?;
    }
    Ok((tensors, found))
}

impl Found {
    /// Adds a part that is named `name` in a file.
    fn add(
        &mut self,
        tensor: &Tensor,
        name: &str,
        expert: Option<u64>,
        part: Part,
        given: Given,
    ) -> Result<()> {
        let fault = |message: String| contradiction(given.label, name, message);
        let count = tensor.shape.first().copied().unwrap_or(0);
        if let Some(expert) = expert.filter(|&expert| expert >= count) {
            return Err(fault(format!(
                "the configuration has {count} of these tensors, and no number {expert}"
            )));
        }
        if matches!(part, Part::Weight | Part::Packed) {
            let repeated = match expert {
                Some(expert) => !self.experts.insert(expert),
                None => std::mem::replace(&mut self.whole, true),
            };
            if repeated {
                return Err(fault("the weights have this tensor twice, by two names".to_owned()));
            }
            self.before.get_or_insert_with(|| name[..name.len() - bare(name).len()].to_owned());
        }
        let Some(entry) = given.entry else { return Ok(()) };
        let added = self.stored.add(tensor, expert.is_some(), part, entry);
        added.map_err(|message| fault(format!("the tensor {message}")))
    }

    /// Checks that the files have the weights of a tensor.
    fn check(&self, tensor: &Tensor, label: &str) -> Result<()> {
        let count = tensor.shape.first().copied().unwrap_or(0);
        let missing = (0..count).find(|expert| !self.experts.contains(expert));
        let name = match (self.whole, self.experts.is_empty(), missing) {
            (true, true, _) | (false, false, None) => return Ok(()),
            (false, false, Some(expert)) => tensor.name.replacen('*', &expert.to_string(), 1),
            (true, false, _) => {
                return Err(contradiction(
                    label,
                    &tensor.name,
                    "the weights have this tensor stacked and apart".to_owned(),
                ));
            }
            (false, true, _) => tensor.name.clone(),
        };
        Err(contradiction(label, &name, "the weights lack this tensor of the configuration".to_owned()))
    }
}

fn contradiction(label: &str, name: &str, message: String) -> InputError {
    let help = "check that the configuration and the weights are of the same model; a head that is missing is tied, and \
                the configuration then has `tie_word_embeddings`";
    InputError::at_path(M::M017, label, name, message, help)
}
