//! Baseline values of a suite.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::code::B003;
use crate::error::{CliError, Result};
use crate::files;

/// The CSV file of the baseline values. Lines that start with `#` are ignored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BaselineTable {
    /// Path of the file.
    pub(super) file: String,
    /// The column that holds the input's file name without extension.
    pub(super) key: String,
    /// Seconds per unit of the values.
    #[serde(default = "unit")]
    pub(super) unit_s: f64,
    /// Column of each solver; a solver without one has no ratio.
    pub(super) columns: BTreeMap<String, String>,
}

fn unit() -> f64 {
    1.0
}

/// Baseline values in seconds, by input and solver.
pub(super) struct Baseline {
    values: BTreeMap<(String, String), f64>,
}

impl Baseline {
    /// Reads the baseline file of a suite; `None` if the file is in the shared folder, which is not available.
    pub(super) fn read(table: &BaselineTable) -> Result<Option<Baseline>> {
        if table.file.is_empty() {
            return Ok(None);
        }
        let input = files::read(Path::new(&table.file))?;
        let bad = |cause: String| CliError::new(B003, cause).at(input.label.clone());
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(&input.bytes[..]);
        let header = reader.headers().map_err(|error| bad(error.to_string()))?.clone();
        let column = |name: &str| {
            header
                .iter()
                .position(|found| found == name)
                .ok_or_else(|| bad(format!("there is no column `{name}`")))
        };
        let key = column(&table.key)?;
        let columns: Vec<(&String, usize)> =
            table.columns.iter().map(|(solver, name)| Ok((solver, column(name)?))).collect::<Result<_>>()?;
        let mut values = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(|error| bad(error.to_string()))?;
            for &(solver, at) in &columns {
                // A cell that is not a number means that the value is unknown.
                let value = record.get(at).and_then(|text| text.parse::<f64>().ok());
                if let (Some(value), Some(input)) = (value, record.get(key)) {
                    values.insert((input.to_owned(), solver.clone()), value * table.unit_s);
                }
            }
        }
        Ok(Some(Baseline { values }))
    }

    /// The baseline value of a solver on an input, which is given by its file name without extension.
    pub(super) fn of(&self, input: &str, solver: &str) -> Option<f64> {
        let of = |input: &str| self.values.get(&(input.to_owned(), solver.to_owned())).copied();
        // The name of a compressed file has two extensions.
        of(input).or_else(|| of(input.strip_suffix(".json")?))
    }
}
