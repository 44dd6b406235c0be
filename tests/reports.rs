//! Values and bounds that solvers report while running hold for the given problem, although many solve other problems
//! internally: no reported plan is better than the result, and no bound exceeds the best result of all solvers.

use stagewright_testing::steps as problems;

use std::ops::ControlFlow;
use std::time::Duration;

use stagewright::portfolio;
use stagewright::registry::SOLVERS;
use stagewright_core::document::{BOUND_SOURCES, Split};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Limits, Observer, Solver};
use stagewright_testing::random::{self, Size};

/// Relative tolerance for values and bounds, including those of the integer programs.
const ERROR: f64 = 1e-5;

/// Values and bounds reported by a solver.
#[derive(Default)]
struct Heard {
    values: Vec<f64>,
    bounds: Vec<f64>,
    sources: Vec<&'static str>,
}

impl Observer for Heard {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        match event {
            Event::Incumbent { value } => self.values.push(*value),
            Event::Bound { value, source, .. } => {
                self.bounds.push(*value);
                self.sources.push(*source);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Solves problems with every solver that supports their objective, and with `auto` if it supports it. Returns the
/// number of reported plans and of reported bounds.
fn heard(problems: impl Iterator<Item = Problem>) -> [usize; 2] {
    let mut reported = [0; 2];
    for (number, problem) in problems.enumerate() {
        let takes = |solver: &&dyn Solver| solver.unsupported(problem.objective()).is_none();
        let named = SOLVERS.iter().map(|entry| entry.solver).filter(takes);
        let auto = portfolio::auto(problem.objective()).ok().map(|choice| choice.solver);
        let (mut best, mut bounds) = (f64::INFINITY, Vec::new());
        for solver in named.chain(auto) {
            let mut heard = Heard::default();
            let limits =
                Limits { time: Some(Duration::from_millis(30)), simulations: Some(60), ..Limits::default() };
            let solution = solver.solve(&problem, &mut Context::new(limits, &mut heard));
            let solution = solution.unwrap_or_else(|error| panic!("{number}, {}: {error}", solver.name()));
            let sources = heard.sources.iter().copied().chain([solution.bound.source]);
            for source in sources {
                assert!(
                    BOUND_SOURCES.contains(&source),
                    "{}: the checker knows no source {source}",
                    solver.name()
                );
            }
            let value = solution.value().unwrap_or(f64::INFINITY);
            let is_so = heard.values.iter().all(|&told| told >= value * (1.0 - ERROR));
            assert!(is_so, "{number}, {}: {value} after {:?}", solver.name(), heard.values);
            best = best.min(value);
            reported[0] += heard.values.len();
            bounds.extend(heard.bounds.into_iter().map(|bound| (solver.name(), bound)));
        }
        for &(who, bound) in &bounds {
            assert!(
                bound <= best * (1.0 + ERROR),
                "{number}, {who}: a bound of {bound}, and a plan of {best}"
            );
        }
        reported[1] += bounds.len();
    }
    reported
}

/// The first 20 random problems, numbered.
fn drawn() -> impl Iterator<Item = (u64, Problem)> {
    (0..20).map(|number| {
        let size = Size { operators: 8, devices: 4, groups: number % 4 == 0 };
        (number, random::problem(number, size))
    })
}

#[test]
fn reports_of_contiguous_splits_are_of_the_problem() {
    let [values, bounds] = heard(drawn().map(|(_, problem)| problem));
    assert!(values > 20 && bounds > 0, "{values}, {bounds}");
}

#[test]
fn reports_of_free_and_convex_splits_are_of_the_problem() {
    let [values, _] = heard(drawn().map(|(number, problem)| {
        let communication = problem.objective().rules().communication;
        let split = if number % 2 == 0 { Split::Free } else { Split::Convex };
        let objective =
            Throughput { communication, split, max_replicas: 1 + number as u32 % 3, ..Throughput::default() };
        problem.with_objective(objective).expect("a sound objective")
    }));
    assert!(values > 20, "{values}");
}

#[test]
fn reports_of_latency_are_of_the_problem() {
    let [values, bounds] = heard(drawn().map(|(number, problem)| {
        let calls = 1 + number as u32 % 2;
        let objective = Objective::Latency { calls };
        problem.with_objective(objective).expect("a sound objective")
    }));
    assert!(values > 20 && bounds > 0, "{values}, {bounds}");
}

#[test]
fn reports_of_the_makespan_are_of_the_problem() {
    let [values, _] = heard((0..20).map(problems::problem));
    assert!(values > 20, "{values}");
}
