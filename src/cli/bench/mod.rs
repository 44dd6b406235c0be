//! `bench`: a table over many inputs.
//!
//! Every case is a `plan --json` of this same program in a process of its own, so that times are end to end,
//! parsing included, and peak memory is of that case alone. Peak memory is the high-water mark of resident memory
//! that Linux keeps for a process, which the child reports on standard error; elsewhere the column stays empty.

mod baseline;
mod case;
mod suite;
mod table;

use std::sync::atomic::Ordering;

use super::args::BenchArguments;
use super::error::CliError;
use super::exit::Exit;
use super::{files, interrupt, output};
use baseline::Baseline;
use suite::Suite;

/// How a child begins the line that tells its peak memory in bytes.
pub(crate) const PEAK_MEMORY: &str = "peak memory bytes: ";

pub(crate) fn run(arguments: &BenchArguments) -> Result<Exit, CliError> {
    let suite = Suite::read(&arguments.suite)?;
    let baseline = suite.baseline.as_ref().map(Baseline::read).transpose()?.flatten();
    let interrupt = interrupt::watch();
    let cases = suite.cases();
    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            output::note("interrupted: the table holds the cases done so far");
            break;
        }
        output::note(&format!("{} of {}: {}", at + 1, cases.len(), case.describe()));
        rows.push(case.run(&suite, baseline.as_ref())?);
    }
    let markdown = table::markdown(&suite, &rows);
    output::result(&markdown)?;
    if let Some(path) = &arguments.out_markdown {
        files::write(path, &markdown)?;
    }
    if let Some(path) = &arguments.out_csv {
        files::write(path, &table::csv(&rows)?)?;
    }
    Ok(Exit::Done)
}
