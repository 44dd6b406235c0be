//! Improvements during runs, and the settings of a suite for reporting them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::code::B004;
use crate::error::{CliError, Result};

/// A suite's settings for convergence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Times of the solve at which values are compared, in seconds.
    #[serde(default)]
    pub(super) seconds: Vec<f64>,
    /// Numbers of simulations at which values are compared, for solvers that count them.
    #[serde(default)]
    pub(super) simulations: Vec<u64>,
    /// Solvers whose answers are targets for the other solvers.
    #[serde(default)]
    pub(super) reaches: Vec<String>,
}

/// An improvement during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// Seconds since the solve began.
    pub(super) elapsed_s: f64,
    /// Number of simulations up to the improvement, if they are counted.
    pub(super) simulations: Option<u64>,
    pub(super) value_s: f64,
}

/// Reads the improvements from a file written by `plan --convergence`, in order.
pub(super) fn read(path: &Path) -> Result<Vec<Moment>> {
    #[derive(Deserialize)]
    struct Line {
        elapsed_s: f64,
        simulations: Option<u64>,
        value_s: Option<f64>,
    }
    let failed = |error: csv::Error| {
        CliError::new(B004, format!("cannot read the convergence of a run: {error}"))
            .at(path.display().to_string())
    };
    let mut moments = Vec::new();
    for line in csv::Reader::from_path(path).map_err(failed)?.into_deserialize() {
        let Line { elapsed_s, simulations, value_s } = line.map_err(failed)?;
        moments.extend(value_s.map(|value_s| Moment { elapsed_s, simulations, value_s }));
    }
    Ok(moments)
}
