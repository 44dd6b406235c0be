//! `bench`: solves the inputs of a suite and prints a table.
//!
//! Every case runs `plan --json` of this program in a child process, so that times are end to end, including
//! parsing, and peak memory is that of the case alone. Peak memory is the high-water mark of resident memory that
//! Linux keeps for a process. The child reports it on standard error; on other systems the column stays empty.

mod baseline;
mod case;
mod convergence;
mod journal;
mod paired;
mod plot;
mod runs;
mod suite;
mod summary;
mod table;
mod variant;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::args::BenchArguments;
use super::error::Result;
use super::exit::Exit;
use super::files::{self, Outputs};
use super::{interrupt, output, resolve};
use baseline::Baseline;
use case::{Case, Row};
use journal::Journal;
use runs::Runs;
use suite::Suite;

/// Start of the line in which a child reports its peak memory in bytes.
pub(crate) const PEAK_MEMORY: &str = "peak memory bytes: ";

pub(crate) fn run(arguments: &BenchArguments) -> Result<Exit> {
    resolve::count("--jobs", arguments.jobs as u64, 1..=resolve::MAX_THREADS as u64)?;
    let outputs = files::outputs(&[
        ("--out-markdown", arguments.out_markdown.as_deref()),
        ("--out-csv", arguments.out_csv.as_deref()),
    ])?;
    let suite = Suite::read(&arguments.suite)?;
    let bench = Bench {
        baseline: suite.baseline.as_ref().map(Baseline::read).transpose()?.flatten(),
        journal: Journal::open(arguments.journal.as_deref())?,
        cases: suite.cases(),
        suite,
    };
    let runs = Arc::new(Runs::default());
    interrupt::watch_and({
        let runs = runs.clone();
        move || runs.end()
    });
    let all = bench.run(arguments.jobs, &runs)?;
    let rows: Vec<Row> = all.iter().filter(|row| row.is_run()).cloned().collect();
    let is_partial = rows.len() < all.len() || rows.iter().any(|row| row.is_cut_off);
    if is_partial {
        output::note(&format!("interrupted: {} of {} cases were run", rows.len(), all.len()));
    }
    if is_partial && rows.is_empty() {
        return Ok(Exit::NoPlan);
    }
    let summaries = summary::summaries(&rows);
    let mut markdown = table::markdown(&bench.suite, &rows, all.len()) + &summary::markdown(&summaries);
    if let Some(looked_at) = &bench.suite.look_at {
        markdown += &paired::markdown(&paired::paired(&rows, looked_at), looked_at);
    }
    if let Some(asked) = &bench.suite.convergence {
        markdown += &convergence::markdown(&rows, asked);
    }
    if bench.suite.by_group {
        markdown += &summary::markdown_by_group(&rows);
    }
    if outputs == Outputs::Files {
        output::result(&markdown)?;
    }
    if let Some(path) = &arguments.out_markdown {
        files::write(path, &markdown)?;
    }
    if let Some(path) = &arguments.out_csv {
        files::write(path, &table::csv(&all)?)?;
    }
    if let Some(folder) = &arguments.plots {
        let name = &bench.suite.name;
        let name = if is_partial { format!("{name} (interrupted)") } else { name.clone() };
        plot::write(folder, &name, &rows, &summaries)?;
    }
    Ok(if is_partial { Exit::Partial } else { Exit::Done })
}

/// A run of a suite.
struct Bench {
    suite: Suite,
    cases: Vec<Case>,
    baseline: Option<Baseline>,
    journal: Journal,
}

impl Bench {
    /// Runs all cases, `jobs` in parallel, until runs are ended, and returns their rows.
    fn run(&self, jobs: usize, runs: &Runs) -> Result<Vec<Row>> {
        let next = AtomicUsize::new(0);
        let rows = Mutex::new(self.cases.iter().map(Case::row).collect::<Vec<Row>>());
        let outcome = Mutex::new(Ok(()));
        let work = || {
            while !runs.are_ended() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = self.cases.get(at) else { return };
                match self.row(at, case, runs) {
                    Ok(row) => locked(&rows)[at] = row,
                    Err(error) => {
                        *locked(&outcome) = Err(error);
                        runs.end();
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..jobs.min(self.cases.len()) {
                scope.spawn(work);
            }
            work();
        });
        into_inner(outcome)?;
        Ok(into_inner(rows))
    }

    /// The row of a case: from the journal, or run now and kept there.
    fn row(&self, at: usize, case: &Case, runs: &Runs) -> Result<Row> {
        let key = case.key(&self.suite, self.journal.program());
        if let Some(row) = self.journal.row(&key) {
            let mut row = row.clone();
            row.compare(self.baseline.as_ref());
            return Ok(row);
        }
        output::note(&format!("{} of {}: {}", at + 1, self.cases.len(), case.describe()));
        let mut row = case.run(&self.suite, runs)?;
        // A case with an error is not recorded: it runs again once the cause is fixed.
        if row.is_answered(self.suite.repeat) {
            self.journal.keep(key, &row)?;
        }
        row.compare(self.baseline.as_ref());
        Ok(row)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
