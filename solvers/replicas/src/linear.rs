//! The program on HiGHS: its relaxation with prices, and the program itself.

use std::time::Duration;

use highs::{Col, HighsModelStatus, Model, RowProblem, Sense};

use crate::program::{Program, Ranges};

/// Objective lost by a row that is exceeded by its limit, or by 1 if it has none, as a multiple of the largest goal. It keeps every
/// relaxation feasible, and its prices finite.
const EXCESS: f64 = 1e4;

/// The optimum of a relaxation.
pub(crate) struct Relaxed {
    /// Numbers of replicas by column.
    pub(crate) counts: Vec<f64>,
    /// Prices of rows, at least 0.
    pub(crate) prices: Vec<f64>,
}

/// The relaxation within ranges; `None` if HiGHS does not solve it.
pub(crate) fn relaxed(program: &Program, ranges: &Ranges) -> Option<Relaxed> {
    let mut rows = Builder::new(program, ranges, false);
    let scale = program.largest_goal().max(1.0) * EXCESS;
    let slacks = program.limits.iter().map(|limit| {
        let unit = if *limit == 0.0 { 1.0 } else { limit.abs() };
        rows.problem.add_column(-scale / unit, 0.0..)
    });
    let slacks: Vec<Col> = slacks.collect();
    let mut model = rows.finish(program, ranges, &slacks)?;
    model.set_option("presolve", "off");
    let solved = model.try_solve().ok()?;
    if solved.status() != HighsModelStatus::Optimal {
        return None;
    }
    let solution = solved.get_solution();
    let counts = solution.columns()[..program.replicas.len()].to_vec();
    let prices = solution.dual_rows()[..program.limits.len()].iter().map(|price| price.abs()).collect();
    Some(Relaxed { counts, prices })
}

/// Whole numbers of replicas by column, good ones or the best, within a time.
pub(crate) fn whole(program: &Program, ranges: &Ranges, time: Duration) -> Option<Vec<u64>> {
    let rows = Builder::new(program, ranges, true);
    let mut model = rows.finish(program, ranges, &[])?;
    model.set_option("time_limit", time.as_secs_f64());
    model.set_option("mip_rel_gap", 1e-9);
    let solved = model.try_solve().ok()?;
    let is_known = matches!(
        solved.status(),
        HighsModelStatus::Optimal
            | HighsModelStatus::ReachedTimeLimit
            | HighsModelStatus::ReachedSolutionLimit
            | HighsModelStatus::ReachedIterationLimit
    );
    let solution = solved.get_solution();
    let columns = solution.columns();
    let is_found = is_known && columns.len() >= program.replicas.len();
    is_found.then(|| {
        columns[..program.replicas.len()].iter().map(|count| count.round().max(0.0) as u64).collect()
    })
}

struct Builder {
    problem: RowProblem,
    columns: Vec<Col>,
}

impl Builder {
    fn new(program: &Program, ranges: &Ranges, is_whole: bool) -> Builder {
        let mut problem = RowProblem::default();
        let mut columns = Vec::with_capacity(program.replicas.len() + program.flows.len());
        for (size, range) in program.sizes.iter().enumerate() {
            for entries in &program.replicas[range.clone()] {
                let high = ranges.high[size] as f64;
                columns.push(if is_whole {
                    problem.add_integer_column(entries.goal, 0.0..=high)
                } else {
                    problem.add_column(entries.goal, 0.0..=high)
                });
            }
        }
        for entries in &program.flows {
            columns.push(problem.add_column(entries.goal, 0.0..=program.most_flow));
        }
        Builder { problem, columns }
    }

    fn finish(mut self, program: &Program, ranges: &Ranges, slacks: &[Col]) -> Option<Model> {
        let mut rows: Vec<Vec<(Col, f64)>> = vec![Vec::new(); program.limits.len()];
        let all = program.replicas.iter().chain(&program.flows);
        for (&column, entries) in self.columns.iter().zip(all) {
            for &(row, entry) in &entries.rows {
                rows[row].push((column, entry));
            }
        }
        for (row, &slack) in slacks.iter().enumerate() {
            rows[row].push((slack, -1.0));
        }
        for (entries, &limit) in rows.into_iter().zip(&program.limits) {
            self.problem.add_row(..=limit, entries);
        }
        for (size, range) in program.sizes.iter().enumerate() {
            // Ranges that one column, or the rows of devices, imply need no row.
            if range.len() > 1 || ranges.low[size] > 0 {
                let members = self.columns[range.clone()].iter().map(|&column| (column, 1.0));
                self.problem.add_row(ranges.low[size] as f64..=ranges.high[size] as f64, members);
            }
        }
        let mut model = self.problem.try_optimise(Sense::Maximise).ok()?;
        model.make_quiet();
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        model.set_option("random_seed", 0);
        Some(model)
    }
}

impl Program {
    /// An upper bound on the size of any sum of goals.
    fn largest_goal(&self) -> f64 {
        let replicas = self.sizes.iter().map(|range| {
            self.replicas[range.clone()].iter().map(|entries| entries.goal.abs()).fold(0.0, f64::max)
        });
        let flows = self.flows.iter().map(|entries| entries.goal.abs() * self.most_flow);
        replicas.chain(flows).fold(0.0, f64::max)
    }
}
