//! Recipes: distributions of training problems.
//!
//! ```toml
//! seed = 1
//! families = ["layered", "bert-training"]
//! operators = [20, 300]
//! devices = [2, 8]
//! objectives = ["makespan", "throughput"]
//! ```
//!
//! Without `families`, all families with graphs of these sizes are used, except those in `except`. A family or an
//! objective that is listed twice is drawn twice as often. `communication` and `room` set how slow links and how tight
//! memories are; `alike` makes the devices of a cluster identical.

use serde::{Deserialize, Serialize};
use stagewright_core::code::Code;
use stagewright_core::document::Execution;
use stagewright_core::objective::Objective;
use thiserror::Error;

use super::clusters::{COMMUNICATION, Proportions, ROOM};
use super::families::{FAMILIES, FEWEST, Family, MOST, family};
use crate::code::D::*;
use stagewright_formats::fault::Fault;
use stagewright_formats::nearest::instead;

/// Fewest and most devices of a cluster.
pub const DEVICES: [usize; 2] = [2, 16];
/// Limits of transfer seconds per second of computing.
const COMMUNICATIONS: [f64; 2] = [1e-4, 1e4];
/// Limits of memory per byte of persistent state.
const ROOMS: [f64; 2] = [1.0, 1e4];

/// Contents of a recipe file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeDocument {
    /// Seed of all random draws.
    pub seed: u64,
    /// Families of graphs by name; by default all that have graphs of these sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub families: Option<Vec<String>>,
    /// Families to leave out if `families` is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Fewest and most operators, both from [`FEWEST`] to [`MOST`].
    pub operators: [usize; 2],
    /// Fewest and most devices, both within [`DEVICES`].
    pub devices: [usize; 2],
    /// Objectives to draw from.
    pub objectives: Vec<Target>,
    /// Minimum and maximum of the seconds to send every tensor once over a link, per second of all operators on one
    /// device; by default [`COMMUNICATION`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communication: Option<[f64; 2]>,
    /// Minimum and maximum total accelerator memory, if limited, per byte of persistent state; by default [`ROOM`].
    /// Memory that fits no list schedule is increased until one fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<[f64; 2]>,
    /// Whether the devices of a cluster are identical: none slower, none behind an uplink, no host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alike: bool,
}

impl RecipeDocument {
    /// The distribution of clusters.
    pub fn proportions(&self) -> Proportions {
        Proportions {
            devices: self.devices,
            communication: self.communication.unwrap_or(COMMUNICATION),
            room: self.room.unwrap_or(ROOM),
            alike: self.alike,
        }
    }
}

/// Objective of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// One step under dataflow execution.
    Makespan,
    /// The bottleneck of a contiguous split.
    Throughput,
}

impl Target {
    /// Objective of the problems with this target.
    pub fn objective(self) -> Objective {
        match self {
            Target::Throughput => Objective::default(),
            Target::Makespan => Objective::Makespan { execution: Execution::Ports },
        }
    }
}

/// A checked recipe.
#[derive(Debug, Clone)]
pub struct Recipe {
    document: RecipeDocument,
    families: Vec<&'static Family>,
}

/// Error of an invalid recipe.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// Invalid TOML, or a field that is unknown, missing or of the wrong type.
    #[error("{message}")]
    Shape {
        /// The mistake.
        message: String,
        /// A hint for fixing the mistake.
        help: String,
        /// Line and column, both from 1; `None` if the error has no location.
        at: Option<[usize; 2]>,
    },
    /// An unknown family name.
    #[error("unknown graph family `{name}`")]
    UnknownFamily {
        /// The list that contains the name.
        field: &'static str,
        /// The name.
        name: String,
        /// Index of the name in the list.
        at: usize,
    },
    /// A range that is empty or out of bounds.
    #[error(
        "{field} is {least} to {most}, expected a range within {lowest} to {highest}, the smaller number first"
    )]
    Range {
        /// The field.
        field: &'static str,
        /// Lower end of the range.
        least: f64,
        /// Upper end of the range.
        most: f64,
        /// Smallest value allowed.
        lowest: f64,
        /// Largest value allowed.
        highest: f64,
    },
    /// A requested family without graphs of the requested sizes.
    #[error("the family `{name}` has no graphs of {least} to {most} operators")]
    NoGraphs {
        /// The family.
        name: String,
        /// Index of the family in the list.
        at: usize,
        /// Fewest operators requested.
        least: usize,
        /// Maximum number of operators requested.
        most: usize,
    },
    /// An empty list.
    #[error("{field} is empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
}

impl RecipeError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            RecipeError::Shape { .. } => D001,
            RecipeError::UnknownFamily { .. } => D002,
            RecipeError::Range { .. } => D003,
            RecipeError::NoGraphs { .. } => D004,
            RecipeError::Empty { .. } => D005,
        }
        .into()
    }

    /// Location in the file: a field, or line and column; empty for the whole file.
    pub fn place(&self) -> String {
        match self {
            RecipeError::Shape { at: Some([line, column]), .. } => format!("{line}:{column}"),
            RecipeError::Shape { at: None, .. } => String::new(),
            RecipeError::UnknownFamily { field, at, .. } => format!("{field}[{at}]"),
            RecipeError::NoGraphs { at, .. } => format!("families[{at}]"),
            RecipeError::Range { field, .. } | RecipeError::Empty { field } => (*field).into(),
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> String {
        match self {
            RecipeError::Shape { help, .. } => {
                format!(
                    "{help}; a recipe has seed, operators, devices, objectives and, optionally, families, except, \
                     communication, room and alike"
                )
            }
            RecipeError::UnknownFamily { name, .. } => {
                instead(name, FAMILIES.iter().map(|family| family.name))
            }
            RecipeError::Range { .. } => "correct the numbers".into(),
            RecipeError::NoGraphs { .. } => "widen `operators`, or leave the family out".into(),
            RecipeError::Empty { .. } => "name at least one, or omit `families` for all of them".into(),
        }
    }
}

impl Recipe {
    /// Checks a document. If its families include models, this generates small ones to learn their sizes.
    ///
    /// # Errors
    /// The first mistake.
    pub fn new(mut document: RecipeDocument) -> Result<Recipe, RecipeError> {
        let counts = |[least, largest]: [usize; 2]| [least as f64, largest as f64];
        check_range("operators", counts(document.operators), counts([FEWEST, MOST]))?;
        check_range("devices", counts(document.devices), counts(DEVICES))?;
        let proportions = document.proportions();
        check_range("communication", proportions.communication, COMMUNICATIONS)?;
        check_range("room", proportions.room, ROOMS)?;
        if document.objectives.is_empty() {
            return Err(RecipeError::Empty { field: "objectives" });
        }
        let [least, largest] = document.operators;
        let has_graphs = |family: &Family| family.nearest(least, [least, largest]).is_some();
        let Some(names) = &document.families else {
            let except = std::mem::take(&mut document.except);
            for (index, name) in except.iter().enumerate() {
                known("except", name, index)?;
            }
            let is_asked =
                |family: &&Family| has_graphs(family) && except.iter().all(|name| name != family.name);
            let families: Vec<&Family> = FAMILIES.iter().filter(is_asked).collect();
            if families.is_empty() {
                return Err(RecipeError::Empty { field: "families" });
            }
            // The families are part of the recipe, so that families added later do not change it.
            document.families = Some(families.iter().map(|family| family.name.to_owned()).collect());
            return Ok(Recipe { document, families });
        };
        if names.is_empty() {
            return Err(RecipeError::Empty { field: "families" });
        }
        let mut families = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let found = known("families", name, index)?;
            if !has_graphs(found) {
                return Err(RecipeError::NoGraphs { name: name.clone(), at: index, least, most: largest });
            }
            families.push(found);
        }
        Ok(Recipe { document, families })
    }

    /// Reads a recipe from TOML.
    ///
    /// # Errors
    /// The first mistake, with its location.
    pub fn from_toml(text: &str) -> Result<Recipe, RecipeError> {
        let document = toml::from_str(text).map_err(|error| {
            let Fault { message, help, .. } = Fault::of_toml(&error);
            RecipeError::Shape { message, help, at: error.span().map(|span| position(text, span.start)) }
        })?;
        Recipe::new(document)
    }

    /// The document, with its families listed.
    pub fn document(&self) -> &RecipeDocument {
        &self.document
    }

    /// The families to draw from, at least one, each with graphs of the requested sizes.
    pub fn families(&self) -> &[&'static Family] {
        &self.families
    }
}

fn known(field: &'static str, name: &str, index: usize) -> Result<&'static Family, RecipeError> {
    family(name).ok_or_else(|| RecipeError::UnknownFamily { field, name: name.into(), at: index })
}

fn check_range(
    field: &'static str,
    [least, largest]: [f64; 2],
    [lowest, highest]: [f64; 2],
) -> Result<(), RecipeError> {
    match lowest <= least && least <= largest && largest <= highest {
        true => Ok(()),
        false => Err(RecipeError::Range { field, least, most: largest, lowest, highest }),
    }
}

/// Line and column of a byte offset, both from 1; columns count characters.
fn position(text: &str, byte: usize) -> [usize; 2] {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    [1 + before.matches('\n').count(), 1 + line.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "seed = 3\nfamilies = [\"layered\", \"bert\"]\noperators = [20, 300]\ndevices = [2, 8]\n\
                        objectives = [\"makespan\"]\n";

    fn wrong(from: &str, to: &str) -> (&'static str, String, String) {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD);
        let error = Recipe::from_toml(&text).expect_err("a wrong recipe");
        (error.code().name, error.place(), error.help())
    }

    #[test]
    fn what_is_wrong_is_located() {
        assert!(Recipe::from_toml(GOOD).is_ok());
        let cases = [
            ("seed = 3", "seed = ,", "D001", "1:8"),
            ("seed = 3", "seeds = 3", "D001", "1:1"),
            ("devices = [2, 8]", "devices = \"many\"", "D001", "4:11"),
            ("makespan", "makespam", "D001", "5:15"),
            ("\"bert\"", "\"berd\"", "D002", "families[1]"),
            ("[20, 300]", "[19, 300]", "D003", "operators"),
            ("[20, 300]", "[300, 20]", "D003", "operators"),
            ("[20, 300]", "[20, 4001]", "D003", "operators"),
            ("[2, 8]", "[1, 8]", "D003", "devices"),
            ("[2, 8]", "[2, 17]", "D003", "devices"),
            ("seed = 3", "seed = 3\nroom = [2, 1.5]", "D003", "room"),
            ("seed = 3", "seed = 3\nalike = 1", "D001", "2:9"),
            ("seed = 3", "seed = 3\ncommunication = [nan, nan]", "D003", "communication"),
            ("\"layered\", \"bert\"", "", "D005", "families"),
            ("families = [\"layered\", \"bert\"]", "except = [\"vgg\", \"bird\"]", "D002", "except[1]"),
            ("\"makespan\"", "", "D005", "objectives"),
        ];
        for (from, to, code, place) in cases {
            let (found, found_at, help) = wrong(from, to);
            assert_eq!((found, found_at.as_str()), (code, place), "{to}");
            assert!(!help.is_empty());
        }
        assert!(wrong("\"bert\"", "\"berd\"").2.contains("bert"));
    }

    #[test]
    fn a_family_without_graphs_of_the_sizes_is_refused_when_named_and_left_out_otherwise() {
        let small = GOOD.replace("[20, 300]", "[20, 24]");
        let named = Recipe::from_toml(&small.replace("\"bert\"", "\"resnet\""));
        assert_eq!(named.map_err(|error| error.code().name).err(), Some("D004"));
        let all =
            Recipe::from_toml(&small.replace("families = [\"layered\", \"bert\"]\n", "")).expect("a recipe");
        let names: Vec<&str> = all.families().iter().map(|family| family.name).collect();
        assert!(names.contains(&"layered") && !names.contains(&"resnet"), "{names:?}");
        assert_eq!(all.document().families.as_ref().map(Vec::len), Some(names.len()));
        let except = "except = [\"layered\"]\n";
        let fewer = Recipe::from_toml(&small.replace("families = [\"layered\", \"bert\"]\n", except))
            .expect("a recipe");
        assert!(fewer.families().iter().all(|family| family.name != "layered"));
        assert_eq!(fewer.families().len() + 1, names.len());
    }
}
