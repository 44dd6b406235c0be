//! Operators that a step runs one after another while little else can run.

use serde::Serialize;
use stagewright_core::bound::{Bound, CriticalPath, Fluid, Windows};
use stagewright_core::certificate::Certificate;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;

use crate::report::units::{name, percent, seconds};

/// Maximum number of operators that the text names.
const NAMED: usize = 3;

/// Minimum ratio of the bound to the larger of total work and longest path at which the operators are reported.
const GAIN: f64 = 1.001;

/// The operators that make a step longer than both its longest path and its work spread over all devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Serial {
    /// Lower bound on the step in seconds, from the operators that run one after another and the work that is confined
    /// to the rest of the step.
    pub bound_s: f64,
    /// Total seconds of the operators that run one after another.
    pub serial_s: f64,
    /// Number of operators that run one after another.
    pub operators: usize,
    /// Names of the longest operators, the longest first.
    pub longest: Vec<String>,
}

impl Serial {
    /// The operators on the window bound's path during which the bound counts no other work. `None` if the bound is
    /// hardly above the work or the longest path alone. Takes the time of computing the bounds.
    pub fn from_problem(problem: &Problem) -> Option<Serial> {
        if !Windows.applies(problem) {
            return None;
        }
        let bound = Windows.compute(problem)?;
        let alone = [Fluid.compute(problem)?.value, CriticalPath.compute(problem)?.value];
        if bound.value <= GAIN * alone[0].max(alone[1]) {
            return None;
        }
        let Some(Certificate::Windows { path, windows, .. }) = bound.certificate else { return None };
        let graph = problem.graph();
        let least = |op: OpId| {
            let class = graph.class(graph.class_of(op));
            let runs = |&pool: &usize| class.iter().all(|&op| problem.seconds(op, pool).is_some());
            let seconds =
                (0..problem.pools().len()).filter(runs).filter_map(|pool| problem.seconds(op, pool));
            seconds.min_by(f64::total_cmp).unwrap_or(0.0)
        };
        let mut serial: Vec<(OpId, f64)> = path
            .iter()
            .zip((1..).step_by(2))
            .filter(|(_, window)| windows.binary_search(window).is_err())
            .map(|(&op, _)| (op, least(op)))
            .collect();
        serial.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = |&(op, _): &(OpId, f64)| graph.operator(op).name.clone();
        (!serial.is_empty()).then(|| Serial {
            bound_s: bound.value,
            serial_s: serial.iter().map(|(_, seconds)| seconds).sum(),
            operators: serial.len(),
            longest: serial.iter().take(NAMED).map(named).collect(),
        })
    }

    /// A sentence about the operators and the bound from them.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.longest.iter().map(|it| name(it)).collect();
        let others = match self.operators - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let run = if self.operators == 1 { "runs" } else { "run one after another" };
        let (names, time) = (names.join(", "), seconds(self.serial_s));
        let share = percent(self.serial_s / self.bound_s);
        format!("{names}{others} {run} for {time}, {share} of the bound, while little else can run")
    }
}
