//! Cases on the nodes of a Ray cluster.
//!
//! A node runs this program on the same suite with `--worker`. A request names a case by its index and its key, so a
//! node with another build, suite or input refuses the request instead of returning a row for something else.

use serde::{Deserialize, Serialize};

use super::Bench;
use super::case::{Case, Row};
use super::runs::Runs;
use crate::cluster::{Cluster, Task, serve};
use crate::code::{B002, B004, B007};
use crate::error::{CliError, Result};
use crate::quantity;

/// Request to a node.
#[derive(Serialize, Deserialize)]
struct Request {
    /// Index of the case in the whole suite.
    case: usize,
    key: Vec<String>,
}

/// Argument that makes this program a worker process on a node.
const WORKER: &str = "--worker";

impl Bench {
    /// Runs the cases missing from the journal on a cluster, until all runs are ended. Returns the rows of all cases.
    pub(super) fn run_on(&self, address: &str, suite: &str, runs: &Runs) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = self.cases.iter().map(Case::row).collect();
        let keys: Vec<Vec<String>> = self.cases.iter().map(|case| self.key(case)).collect();
        let mut cluster = None;
        for (at, (case, key)) in self.cases.iter().zip(&keys).enumerate() {
            if let Some(row) = self.finished(key) {
                rows[at] = row;
                continue;
            }
            // If all cases are finished, no cluster is needed.
            let cluster = match &mut cluster {
                Some(cluster) => cluster,
                none => none.insert(Cluster::start(address, &["bench", suite, WORKER].map(str::to_owned))?),
            };
            let memory = self.suite.memory_limit.as_deref().map(quantity::size).transpose();
            let wrong = |cause| CliError::new(B002, cause).at("memory_limit").help("correct the suite");
            cluster.submit(&Task {
                id: at,
                label: case.describe(),
                cpus: self.suite.threads,
                memory: memory.map_err(wrong)?.flatten(),
                request: Request { case: case.number, key: key.clone() },
            })?;
        }
        let Some(mut cluster) = cluster else { return Ok(rows) };
        let is_stopped = || runs.are_ended();
        while let Some((at, answer)) = cluster.next::<Row>(is_stopped)? {
            let Some(case) = self.cases.get(at) else { continue };
            self.begun(at, case);
            rows[at] = match answer {
                Ok(row) => self.kept(keys[at].clone(), row)?,
                Err(error) => Row { status: first_line(error), ..case.row() },
            };
        }
        Ok(rows)
    }

    /// Runs the cases requested on standard input, until standard input is closed.
    pub(super) fn serve(&self, runs: &std::sync::Arc<Runs>) -> Result<()> {
        let ended = runs.clone();
        serve(
            move || ended.end(),
            |request: Request| {
                let case = self.cases.get(request.case).filter(|case| self.key(case) == request.key);
                let case = case.ok_or_else(|| self.other(&request))?;
                let row = case.run(&self.suite, runs)?;
                match row.is_cut_off {
                    true => Err(CliError::new(B004, "the run was ended").at(case.input.id())),
                    false => Ok(row),
                }
            },
        )
    }

    /// The error for a request from another build, or about another suite or input.
    fn other(&self, request: &Request) -> CliError {
        let own = self.cases.get(request.case).map(|case| (case, self.key(case)));
        let differs =
            |index: usize| own.as_ref().is_some_and(|(_, key)| key.get(index) != request.key.get(index));
        let (place, cause) = match &own {
            Some(_) if differs(Case::PROGRAM) => (None, "the node has another build of the program"),
            Some((case, _)) if differs(Case::INPUT) => (Some(case.input.id()), "the node has another input"),
            Some((case, _)) if differs(Case::CLUSTER) => {
                (case.cluster.clone(), "the node has another cluster file")
            }
            _ => (None, "the node has another suite"),
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = [host.trim().to_owned(), place.unwrap_or_default()];
        let place: Vec<String> = place.into_iter().filter(|part| !part.is_empty()).collect();
        CliError::new(B007, cause)
            .at(place.join(": "))
            .help("give all nodes the same program and files, in the same folders")
    }
}

/// The first line of an error, as the row of a case that failed on this machine would state it.
fn first_line(error: String) -> String {
    match error.lines().next() {
        Some(line) if line.starts_with("error") => line.to_owned(),
        line => format!("error: {}", line.unwrap_or_default()),
    }
}
