//! `bench`: solves the inputs of a suite and prints a table.
//!
//! Every case runs `plan --json` of this program in a child process, so that times are end to end, including parsing,
//! and peak memory is that of the case alone. Peak memory is the high-water mark of resident memory that Linux keeps
//! for each process. The child reports it on standard error; on other systems the column stays empty.

mod baseline;
mod case;
mod convergence;
mod input;
mod journal;
mod merge;
mod moment;
mod paired;
mod plot;
mod remote;
mod runs;
mod shard;
mod suite;
mod summary;
mod table;
mod variant;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::args::{BenchArguments, BenchCommand, TableArguments};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Outputs};
use super::{external, interrupt, origin, output, progress, resolve};
use baseline::Baseline;
use case::{Case, Row};
use journal::Journal;
use runs::Runs;
use shard::Shard;
use stagewright::code::U001;
use stagewright::core::document::OriginDocument;
use suite::Suite;

/// Start of the line in which a child reports its peak memory in bytes.
pub(crate) const PEAK_MEMORY: &str = "peak memory bytes: ";

pub(crate) fn run(arguments: &BenchArguments, verbose: bool) -> Result<Exit> {
    match (&arguments.command, &arguments.suite) {
        (Some(BenchCommand::Merge(arguments)), _) => merge::run(arguments),
        (None, Some(suite)) => sweep(suite, arguments, verbose),
        (None, None) => Err(CliError::new(U001, "a suite is missing").at("SUITE").help("see bench --help")),
    }
}

/// Runs the cases of a suite, here or on a cluster.
fn sweep(path: &Path, arguments: &BenchArguments, verbose: bool) -> Result<Exit> {
    resolve::count("--jobs", arguments.jobs as u64, 1..=resolve::MAX_THREADS as u64)?;
    let outputs = outputs(&arguments.table)?;
    // Before any case is run, because a wrong date in the environment is an error.
    let origin = origin::origin()?;
    let shard = arguments.shard.as_deref().map(Shard::parse).transpose()?;
    let suite = Suite::read(path)?;
    // A process on a node runs only cases whose keys its driver sends. Keys include the commands, which the user
    // allowed when starting the driver.
    if !arguments.allow_exec && !arguments.worker {
        suite.runs_no_command(path)?;
    }
    let is_remote = arguments.worker || arguments.ray.is_some();
    let journal = Journal::open(arguments.journal.as_deref(), is_remote)?;
    let bench = Bench::new(suite, journal, shard, verbose)?;
    let runs = Arc::new(Runs::default());
    interrupt::watch_and({
        let runs = runs.clone();
        move || runs.end()
    });
    if arguments.worker {
        bench.serve(&runs)?;
        return Ok(Exit::Done);
    }
    let all = match &arguments.ray {
        Some(address) => bench.run_on(address, &path.display().to_string(), &runs)?,
        None => bench.run(arguments.jobs, &runs)?,
    };
    let is_partial = all.iter().any(|row| !row.is_run() || row.is_cut_off);
    let rows: Vec<Row> = all.iter().filter(|row| row.is_run()).cloned().collect();
    if is_partial {
        output::note(&format!("interrupted: {} of {} cases were run", rows.len(), all.len()));
    }
    if is_partial && rows.is_empty() {
        return Ok(Exit::NoPlan);
    }
    bench.show(&arguments.table, outputs, &origin, &rows, &all)?;
    Ok(if is_partial { Exit::Partial } else { Exit::Done })
}

/// Determines where the files of a table are written, and checks that no two coincide.
fn outputs(arguments: &TableArguments) -> Result<Outputs> {
    files::outputs(&[
        ("--out-markdown", arguments.out_markdown.as_deref()),
        ("--out-csv", arguments.out_csv.as_deref()),
        ("--out-latex", arguments.out_latex.as_deref()),
    ])
}

/// A run of a suite.
struct Bench {
    suite: Suite,
    cases: Vec<Case>,
    baseline: Option<Baseline>,
    journal: Journal,
    /// Whether cases are reported to a file or a pipe, too.
    verbose: bool,
}

impl Bench {
    /// A run of a suite, or of one of its shards.
    fn new(suite: Suite, journal: Journal, shard: Option<Shard>, verbose: bool) -> Result<Bench> {
        let mut cases = suite.cases();
        cases.iter().flat_map(Case::files).try_for_each(|file| files::kept(&file))?;
        cases.retain(|case| shard.is_none_or(|shard| shard.has(case.number)));
        let baseline = suite.baseline.as_ref().map(Baseline::read).transpose()?.flatten();
        Ok(Bench { baseline, journal, cases, suite, verbose })
    }

    /// Prints the table of `rows`, writes `all` to the CSV file, and draws the plots.
    fn show(
        &self,
        arguments: &TableArguments,
        outputs: Outputs,
        origin: &OriginDocument,
        rows: &[Row],
        all: &[Row],
    ) -> Result<()> {
        let run: Vec<Row> = rows.iter().filter(|row| row.is_run()).cloned().collect();
        let summaries = summary::summaries(&run);
        let mut markdown = table::markdown(&self.suite, rows, all.len()) + &summary::markdown(&summaries);
        if let Some(looked_at) = &self.suite.look_at {
            markdown += &paired::markdown(&paired::paired(&run, looked_at), looked_at);
        }
        if let Some(asked) = &self.suite.convergence {
            markdown += &convergence::markdown(&run, asked);
        }
        if self.suite.by_group {
            markdown += &summary::markdown_by_group(&run);
        }
        if outputs == Outputs::Files {
            output::result(&markdown)?;
        }
        if let Some(path) = &arguments.out_markdown {
            files::write(path, &markdown)?;
        }
        if let Some(path) = &arguments.out_csv {
            files::write(path, &table::csv(all)?)?;
        }
        if let Some(path) = &arguments.out_latex {
            files::write(path, &summary::latex(&summaries, &self.suite.name, origin))?;
        }
        if let Some(folder) = &arguments.plots {
            let name = &self.suite.name;
            let is_partial = run.len() < all.len() || run.iter().any(|row| row.is_cut_off);
            let name = if is_partial { format!("{name} (interrupted)") } else { name.clone() };
            plot::write(folder, &name, &run, &summaries)?;
        }
        Ok(())
    }

    /// Runs all cases, `jobs` in parallel, until all runs are ended. Returns their rows.
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

    /// The row of a case, taken from the journal, or else produced by running the case and then recorded.
    fn row(&self, at: usize, case: &Case, runs: &Runs) -> Result<Row> {
        let key = self.key(case);
        if let Some(row) = self.finished(&key) {
            return Ok(row);
        }
        self.begun(at, case);
        self.kept(key, case.run(&self.suite, runs)?)
    }

    /// Reports that a case is run.
    fn begun(&self, at: usize, case: &Case) {
        progress::line(self.verbose, &format!("{} of {}: {}", at + 1, self.cases.len(), case.describe()));
    }

    /// The journal key of a case.
    fn key(&self, case: &Case) -> Vec<String> {
        case.key(&self.suite, self.journal.program())
    }

    /// The row of a finished case from the journal.
    fn finished(&self, key: &[String]) -> Option<Row> {
        Some(self.compared(self.journal.row(key)?.clone()))
    }

    /// A row with its ratio to the baseline.
    fn compared(&self, mut row: Row) -> Row {
        row.compare(self.baseline.as_ref());
        row
    }

    /// Records a row in the journal.
    fn kept(&self, key: Vec<String>, row: Row) -> Result<Row> {
        // A case with an error is not recorded, so that it is run again once the cause is fixed. Nor is a case of
        // another program without a plan, because the failure may have a cause that is not part of the key.
        let is_lost = row.value_s.is_none() && row.solver.starts_with(external::PREFIX);
        if row.is_answered(self.suite.repeat) && !is_lost {
            self.journal.keep(key, &row)?;
        }
        Ok(self.compared(row))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
