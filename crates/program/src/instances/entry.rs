//! The index of a library: one entry per instance.

use serde::{Deserialize, Serialize};
use stagewright::core::tolerance;

/// The content of `index.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    /// Always [`SCHEMA`].
    pub(super) schema: String,
    /// The instances, in the order in which they are listed.
    #[serde(rename = "instance", default)]
    pub(super) instances: Vec<Entry>,
}

/// The schema of an index.
pub(super) const SCHEMA: &str = "stagewright.instances/1";

/// An instance: its definition, and the known values and bounds.
///
/// `add` writes the digests, sizes and claims; everything else is written by hand.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Unique name.
    pub(super) name: String,
    /// One line about the instance.
    pub(super) about: String,
    /// The devices: a built-in name or a shorthand. Absent if the model carries its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// Options of `plan` besides the cluster: the objective and its rules.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) options: String,
    /// SHA-256 of the model.
    #[serde(default)]
    pub(super) model_sha256: String,
    /// Number of operators of the model, of layers of a Piper file, or of nodes of a strategy problem.
    #[serde(default)]
    pub(super) operators: usize,
    /// Number of devices; absent for a strategy problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) devices: Option<u64>,
    /// SHA-256 of the best-known plan; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plan_sha256: Option<String>,
    /// Value of the best-known plan: seconds, or the cost of a strategy problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<f64>,
    /// The best-known lower bound, in the unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<f64>,
    /// Status implied by value and bound.
    #[serde(default)]
    pub(super) status: Standing,
    /// Who found the value.
    #[serde(default)]
    pub(super) found_by: String,
    /// The day on which the value was found: YYYY-MM-DD.
    #[serde(default)]
    pub(super) found_on: String,
    /// Evidence for the bound.
    pub(super) proof: Proof,
    /// Source of the model.
    pub(super) model: Source,
}

impl Entry {
    /// Status implied by the claims of the instance.
    pub(super) fn standing(&self) -> Standing {
        match (self.value, self.bound) {
            (None, None) if matches!(self.proof, Proof::Solver(_)) => Standing::Infeasible,
            (Some(value), Some(bound)) if tolerance::gap(value, bound) == 0.0 => Standing::Optimal,
            _ => Standing::Open,
        }
    }

    /// Relative gap: (value − bound) / value.
    pub(super) fn gap(&self) -> Option<f64> {
        Some(tolerance::gap(self.value?, self.bound?))
    }

    /// Path of the instance's plan file.
    pub(super) fn plan(&self) -> String {
        format!("plans/{}.json.gz", self.name)
    }

    /// Whether the model of the instance is a file published by others.
    pub(super) fn is_published(&self) -> bool {
        matches!(self.model, Source::Published { .. })
    }

    /// The objective, in the words of its options.
    pub(super) fn objective(&self) -> String {
        let words = self.options.replace("--objective ", "").replace("--", "");
        if words.is_empty() { "throughput".into() } else { words }
    }
}

/// Status of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    /// The bound proves the value optimal.
    Optimal,
    /// A gap between value and bound is left.
    #[default]
    Open,
    /// Proved to have no plan.
    Infeasible,
}

impl Standing {
    /// Stable name of the status.
    pub(super) fn name(self) -> &'static str {
        match self {
            Standing::Optimal => "optimal",
            Standing::Open => "open",
            Standing::Infeasible => "infeasible",
        }
    }
}

/// Evidence for the bound of an instance, or for its infeasibility.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Proof {
    /// No bound is claimed.
    None,
    /// The checker proves the plan's bound, from its certificate or by itself.
    Certificate,
    /// The strongest of the bounds that need no search, which `bound` shows.
    Bounds,
    /// A run of the named solver.
    Solver(String),
    /// A publication, which is not replayed.
    Published(String),
}

impl Proof {
    /// Description for tables.
    pub(super) fn text(&self) -> String {
        match self {
            Proof::None => "none".into(),
            Proof::Certificate => "certificate".into(),
            Proof::Bounds => "bounds".into(),
            Proof::Solver(name) => format!("solver {name}"),
            Proof::Published(source) => format!("published: {source}"),
        }
    }
}

/// Source of the model of an instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected workload, export, file or published, as in data/instances"
)]
pub(super) enum Source {
    /// A built-in family.
    Workload {
        /// Arguments of `workload`.
        workload: String,
    },
    /// A file in `data/models`.
    Export {
        /// Name of the file in `data/models`.
        export: String,
        /// Options of `convert`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        options: String,
    },
    /// A file of the library.
    File {
        /// Path of the file in the library.
        file: String,
        /// The command that made the file.
        from: String,
    },
    /// A file published by others, which is not part of the library.
    Published {
        /// Path of the file in a folder of published files.
        published: String,
        /// Where to get the file.
        from: String,
    },
}

impl Source {
    /// Description: the command that makes the model, or the file.
    pub(super) fn text(&self) -> String {
        match self {
            Source::Workload { workload } => format!("stagewright workload {workload}"),
            Source::Export { export, options } => {
                format!("stagewright convert data/models/{export} model.json {options}").trim_end().into()
            }
            Source::File { file, from } => format!("{file}, made by {from}"),
            Source::Published { published, from } => format!("{published}, from {from}"),
        }
    }
}
