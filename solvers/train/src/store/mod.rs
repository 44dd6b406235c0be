//! A file of labels, so that each problem is labelled only once.
//!
//! The file has a header with the recipe and the effort, then one line of JSON per instance, appended in the order of
//! their numbers as soon as they are labelled. It is append-only, and an incomplete last line, left by a kill, is
//! ignored: only unfinished instances are labelled again. The file contains neither problems nor costs, because the
//! recipe and the number reproduce them.

mod error;
mod fill;
mod labeller;
mod line;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stagewright_formats::fault::Fault;

pub use self::error::StoreError;
pub use self::fill::{Filling, Progress, fill};
pub use self::labeller::{Labeller, Local, Take, Wanted};
pub use self::line::{StoredLabel, StoredPlan};
use super::label::LabelEffort;
use super::recipe::{Recipe, RecipeDocument};
use crate::lock::{self, Locked};

/// The value of `schema` in a header.
pub const LABELS_SCHEMA: &str = "stagewright.labels/1";

/// Version of the instance generator. It must be increased with every change of the instances that a recipe draws;
/// otherwise old labels would be used for different problems.
pub const GENERATION: u32 = 2;

/// The first line of a file of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Always `stagewright.labels/1`.
    pub schema: String,
    /// Version of the instance generator, see [`GENERATION`].
    pub generation: u32,
    /// The recipe of the problems.
    pub recipe: RecipeDocument,
    /// Search effort per label.
    pub effort: LabelEffort,
}

impl Header {
    /// The header for a recipe and an effort.
    pub fn new(recipe: &Recipe, effort: &LabelEffort) -> Header {
        Header {
            schema: LABELS_SCHEMA.into(),
            generation: GENERATION,
            recipe: recipe.document().clone(),
            effort: *effort,
        }
    }

    fn line(&self) -> String {
        json(self) + "\n"
    }
}

/// A value as one line of JSON.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("headers and labels have nothing that JSON cannot hold")
}

/// A parsed file of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// Header of the file.
    pub header: Header,
    /// Labels by the number of their instance.
    pub labels: BTreeMap<u64, StoredLabel>,
    /// Number of bytes up to the end of the last complete line.
    whole: u64,
}

impl Labels {
    /// Reads a file of labels of any recipe. An incomplete last line is dropped.
    ///
    /// # Errors
    /// If the file cannot be read or is not a file of labels, or a line is not a label, with its number.
    pub fn read(path: &Path) -> Result<Labels, StoreError> {
        let bytes = std::fs::read(path).map_err(|error| StoreError::file(path, "read", &error))?;
        let mut lines = Lines { bytes: &bytes, at: 0, number: 0 };
        let header = lines.next().ok_or_else(|| StoreError::NoLabels { file: shown(path) })?;
        Labels::of_lines(path, read_header(path, header)?, lines)
    }

    fn of_lines(path: &Path, header: Header, mut lines: Lines<'_>) -> Result<Labels, StoreError> {
        let mut labels = BTreeMap::new();
        while let Some(line) = lines.next() {
            let broken = |cause: String| StoreError::Line { file: shown(path), line: lines.number, cause };
            let label: StoredLabel =
                serde_json::from_slice(line).map_err(|error| broken(Fault::of_json(&error).message))?;
            let index = label.index;
            if labels.insert(index, label).is_some() {
                return Err(broken(format!("instance {index} has a label already")));
            }
        }
        Ok(Labels { header, labels, whole: lines.at as u64 })
    }
}

/// Iterates over the complete lines of a text, those that end with a newline.
struct Lines<'a> {
    bytes: &'a [u8],
    /// Offset of the next line.
    at: usize,
    /// Number of lines so far.
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += end + 1;
        self.number += 1;
        Some(&rest[..end])
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn read_header(path: &Path, line: &[u8]) -> Result<Header, StoreError> {
    /// The schema only: other schemas have other fields.
    #[derive(Deserialize)]
    struct Schema {
        schema: String,
    }
    let found: Schema =
        serde_json::from_slice(line).map_err(|_| StoreError::NoLabels { file: shown(path) })?;
    if found.schema != LABELS_SCHEMA {
        return Err(StoreError::Schema { file: shown(path), found: found.schema });
    }
    serde_json::from_slice(line).map_err(|error| StoreError::Line {
        file: shown(path),
        line: 1,
        cause: Fault::of_json(&error).message,
    })
}

/// An open file of labels. It is locked, so that no two programs write to it.
struct Store {
    file: Locked,
    name: String,
    labels: BTreeMap<u64, StoredLabel>,
}

impl Store {
    /// Opens the labels of a recipe, or creates the file.
    fn open(path: &Path, recipe: &Recipe, effort: &LabelEffort) -> Result<Store, StoreError> {
        let failed = |doing: &'static str| move |error: std::io::Error| StoreError::file(path, doing, &error);
        let file = File::options().read(true).append(true).create(true).open(path).map_err(failed("open"))?;
        let Some(mut file) = lock::take(file).map_err(failed("lock"))? else {
            return Err(StoreError::InUse { file: shown(path) });
        };
        let wanted = Header::new(recipe, effort);
        let bytes = std::fs::read(path).map_err(failed("read"))?;
        // The header itself may be incomplete after a kill.
        if !bytes.contains(&b'\n') && wanted.line().as_bytes().starts_with(&bytes) {
            file.set_len(0)
                .and_then(|()| file.write_all(wanted.line().as_bytes()))
                .map_err(failed("write"))?;
            return Ok(Store { file, name: shown(path), labels: BTreeMap::new() });
        }
        let read = Labels::read(path)?;
        if let Some(what) = differs(&read.header, &wanted) {
            return Err(StoreError::OtherRecipe { file: shown(path), what });
        }
        file.set_len(read.whole).map_err(failed("write"))?;
        Ok(Store { file, name: shown(path), labels: read.labels })
    }

    /// Appends a label in a single write.
    fn append(&mut self, label: StoredLabel) -> Result<(), StoreError> {
        let line = json(&label) + "\n";
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| StoreError::file(Path::new(&self.name), "write", &error))?;
        self.labels.insert(label.index, label);
        Ok(())
    }
}

/// The first field in which two headers differ.
fn differs(found: &Header, wanted: &Header) -> Option<&'static str> {
    let (a, b) = (&found.recipe, &wanted.recipe);
    // Defaults count as their values. The destructuring makes sure that a new field is compared here.
    let RecipeDocument {
        seed: _,
        families: _,
        except: _,
        operators: _,
        devices: _,
        objectives: _,
        communication: _,
        room: _,
        alike: _,
    } = a;
    let fields = [
        ("generation", found.generation == wanted.generation),
        ("recipe.seed", a.seed == b.seed),
        ("recipe.families", a.families == b.families),
        ("recipe.operators", a.operators == b.operators),
        ("recipe.devices", a.devices == b.devices),
        ("recipe.objectives", a.objectives == b.objectives),
        ("recipe.communication", a.proportions().communication == b.proportions().communication),
        ("recipe.room", a.proportions().room == b.proportions().room),
        ("recipe.alike", a.alike == b.alike),
        ("effort", found.effort == wanted.effort),
    ];
    fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}
