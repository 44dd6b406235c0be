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
mod suite;
mod summary;
mod table;
mod variant;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::args::BenchArguments;
use super::error::CliError;
use super::exit::Exit;
use super::{files, interrupt, output};
use baseline::Baseline;
use case::{Case, Row};
use journal::Journal;
use suite::Suite;

/// Start of the line in which a child reports its peak memory in bytes.
pub(crate) const PEAK_MEMORY: &str = "peak memory bytes: ";

pub(crate) fn run(arguments: &BenchArguments) -> Result<Exit, CliError> {
    if arguments.jobs == 0 {
        return Err(CliError::new("U001", "0 jobs do nothing").at("--jobs").help("give at least 1"));
    }
    let suite = Suite::read(&arguments.suite)?;
    let bench = Bench {
        baseline: suite.baseline.as_ref().map(Baseline::read).transpose()?.flatten(),
        journal: Journal::open(arguments.journal.as_deref())?,
        cases: suite.cases(),
        suite,
    };
    let rows = bench.run(arguments.jobs, &interrupt::watch())?;
    let summaries = summary::summaries(&rows);
    let mut markdown = table::markdown(&bench.suite, &rows) + &summary::markdown(&summaries);
    if let Some(looked_at) = &bench.suite.look_at {
        markdown += &paired::markdown(&paired::paired(&rows, looked_at), looked_at);
    }
    if let Some(asked) = &bench.suite.convergence {
        markdown += &convergence::markdown(&rows, asked);
    }
    if bench.suite.by_group {
        markdown += &summary::markdown_by_group(&rows);
    }
    output::result(&markdown)?;
    if let Some(path) = &arguments.out_markdown {
        files::write(path, &markdown)?;
    }
    if let Some(path) = &arguments.out_csv {
        files::write(path, &table::csv(&rows)?)?;
    }
    if let Some(folder) = &arguments.plots {
        plot::write(folder, &bench.suite.name, &rows, &summaries)?;
    }
    Ok(Exit::Done)
}

/// A run of a suite.
struct Bench {
    suite: Suite,
    cases: Vec<Case>,
    baseline: Option<Baseline>,
    journal: Journal,
}

impl Bench {
    /// Runs all cases, `jobs` in parallel, and returns the rows of the finished ones, in order.
    fn run(&self, jobs: usize, interrupt: &AtomicBool) -> Result<Vec<Row>, CliError> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let rows = Mutex::new(Vec::new());
        let outcome = Mutex::new(Ok(()));
        let work = || {
            while !failed.load(Ordering::Relaxed) && !interrupt.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = self.cases.get(at) else { return };
                match self.row(at, case, interrupt) {
                    Ok(Some(row)) => locked(&rows).push((at, row)),
                    Ok(None) => return,
                    Err(error) => {
                        *locked(&outcome) = Err(error);
                        failed.store(true, Ordering::Relaxed);
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
        let mut rows = into_inner(rows);
        rows.sort_by_key(|&(at, _)| at);
        if rows.len() < self.cases.len() {
            output::note("interrupted: the table holds the cases done so far");
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The row of a case, from the journal or from a run, which is then recorded. `None` if it was interrupted.
    fn row(&self, at: usize, case: &Case, interrupt: &AtomicBool) -> Result<Option<Row>, CliError> {
        let key = case.key(&self.suite, self.journal.program());
        if let Some(row) = self.journal.row(&key) {
            let mut row = row.clone();
            row.compare(self.baseline.as_ref());
            return Ok(Some(row));
        }
        output::note(&format!("{} of {}: {}", at + 1, self.cases.len(), case.describe()));
        let mut row = case.run(&self.suite)?;
        // The signal also interrupts the child, so its answer may differ from that of an undisturbed run.
        if interrupt.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // A case with an error is not recorded: it runs again once the cause is fixed.
        if row.is_answered(self.suite.repeat) {
            self.journal.keep(key, &row)?;
        }
        row.compare(self.baseline.as_ref());
        Ok(Some(row))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
