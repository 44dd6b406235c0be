//! `bench merge`: merges the journals of shards, and prints the table of the whole suite.

use std::collections::BTreeSet;

use super::case::{Case, Row};
use super::suite::Suite;
use super::{Bench, Journal, journal, outputs};
use crate::args::MergeArguments;
use crate::code::B008;
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::{origin, output};

pub(super) fn run(arguments: &MergeArguments) -> Result<Exit> {
    let outputs = outputs(&arguments.table)?;
    let origin = origin::origin()?;
    let mut found = Vec::new();
    for path in &arguments.journals {
        found.push((path.display().to_string(), journal::read(path)?));
    }
    let suite = Suite::read(&arguments.suite)?;
    let mut bench = Bench::new(suite, Journal::open(None, true)?, None, false)?;
    let keys: Vec<Vec<String>> = bench.cases.iter().map(|case| bench.key(case)).collect();
    let known: BTreeSet<&Vec<String>> = keys.iter().collect();
    // All journals are validated before the first row is written.
    for (label, rows) in &found {
        let others: Vec<&Vec<String>> = rows.keys().filter(|key| !known.contains(key)).collect();
        if !others.is_empty() && others.len() == rows.len() {
            return Err(bench.foreign(label, &others));
        }
        if !others.is_empty() {
            output::note(&format!(
                "{label}: {} of {} cases are of another build or suite, and are left out",
                others.len(),
                rows.len()
            ));
        }
    }
    bench.journal = Journal::open(Some(&arguments.journal), true)?;
    let mut all: Vec<Row> = Vec::new();
    let mut written: BTreeSet<&Vec<String>> = BTreeSet::new();
    for (case, key) in bench.cases.iter().zip(&keys) {
        let row = found.iter().find_map(|(_, rows)| rows.get(key));
        all.push(match (bench.finished(key), row) {
            (Some(row), _) => row,
            (None, Some(row)) if written.insert(key) => bench.kept(key.clone(), row.clone())?,
            (None, Some(row)) => bench.compared(row.clone()),
            (None, None) => case.row(),
        });
    }
    bench.show(&arguments.table, outputs, &origin, &all, &all)?;
    Ok(if all.iter().all(Row::is_run) { Exit::Done } else { Exit::Partial })
}

impl Bench {
    /// The error for a journal that contains no case of this suite and build.
    fn foreign(&self, label: &str, keys: &[&Vec<String>]) -> CliError {
        let is_other_build = |key: &&Vec<String>| {
            key.get(Case::PROGRAM).is_none_or(|program| program != self.journal.program())
        };
        let (cause, help) = if keys.iter().all(is_other_build) {
            ("another build of the program wrote the journal", "merge with the program that ran the shards")
        } else {
            (
                "the journal is of another suite, or of other inputs",
                "give the suite that the shards ran, in the same folder, with the same files",
            )
        };
        CliError::new(B008, cause).at(label).help(help)
    }
}
