//! Behaviour that `Solver::solve` gives to every solver.

use std::sync::atomic::{AtomicU32, Ordering};

use stagewright_core::bound::LowerBound;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solution, SolveError, Solver, Status};
use stagewright_testing::random::{Size, problem};

/// A solver that finds no plan and counts the calls of its `run`.
#[derive(Default)]
struct Counting(AtomicU32);

impl Solver for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn summary(&self) -> &'static str {
        "counts its runs"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        (objective.kind() != ObjectiveKind::Throughput).then_some("objectives other than throughput")
    }

    fn run(&self, _: &Problem, _: &mut Context<'_>) -> Result<Solution, SolveError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let bound = LowerBound::TRIVIAL;
        Ok(Solution::without_plan("counting", Status::Unknown, bound, None, "nothing was tried".into()))
    }
}

#[test]
fn an_unsupported_objective_is_refused_before_the_run() {
    let problem = problem(1, Size { operators: 4, devices: 2, groups: false });
    let other = problem.with_objective(ObjectiveKind::Latency).expect("a valid objective");
    let (counting, mut silent) = (Counting::default(), Silent);
    let mut context = Context::new(Limits::default(), &mut silent);
    let what = "objectives other than throughput".to_owned();
    let refused = Err(SolveError::Unsupported { solver: "counting", what });
    assert_eq!(counting.solve(&other, &mut context), refused);
    assert_eq!((&counting as &dyn Solver).solve(&other, &mut context), refused);
    assert_eq!((&&counting).solve(&other, &mut context), refused);
    assert_eq!(counting.0.load(Ordering::Relaxed), 0);
    let solution = (&counting as &dyn Solver).solve(&problem, &mut context).expect("a supported objective");
    assert_eq!((solution.status, counting.0.load(Ordering::Relaxed)), (Status::Unknown, 1));
}

#[test]
fn a_context_and_its_parts_have_the_settings() {
    let mut silent = Silent;
    let settings = Settings { seed: u64::MAX, threads: 3, ..Settings::default() };
    let mut context = Context::new(settings, &mut silent);
    let mut part = context.time_slice(0.5);
    assert_eq!((part.seed(), part.threads()), (u64::MAX, 3));
    part.shift_seed(2);
    assert_eq!((part.seed(), context.seed()), (1, u64::MAX));
    assert_eq!(Context::new(Settings { threads: 0, ..Settings::default() }, &mut silent).threads(), 1);
}
