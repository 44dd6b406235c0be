//! Branch and price on random small problems: the tree against every placement, pairs in pricing against every set.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::RngExt;
use rayon::{ThreadPool, ThreadPoolBuilder};
use stagewright_core::contract::Units;
use stagewright_core::document::Split;
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_milp::colgen::generation::{Generation, Verdict};
use stagewright_milp::colgen::node::Ground;
use stagewright_milp::colgen::preparation::Preparation;
use stagewright_milp::colgen::pricing::{Effort, Pricing, Question};
use stagewright_milp::colgen::rules::{Bar, Column, Pair, Rules};
use stagewright_milp::colgen::tree;
use support::optimum;
use support::random::Size;

const STATES: usize = 1 << 16;
/// Just below a value, by more than the tolerance of optimality.
const BELOW: f64 = 1.0 - 1e-8;

fn never() -> Stop {
    Stop::new(None, Arc::new(AtomicBool::new(false)))
}

fn threads(count: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(count).build().expect("threads")
}

fn problem(number: u64, operators: usize, devices: u32) -> Problem {
    support::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) }, Split::Free, false)
}

fn search(problem: &Problem, threshold: f64, most: u64, pool: &ThreadPool) -> tree::Verdict {
    let units = Units::new(problem);
    let preparation = Preparation::new(problem, &units, STATES, &never()).expect("a small problem");
    let ground =
        Ground { problem, units: &units, preparation: &preparation, states: STATES, memory: None };
    tree::search(&ground, Arc::new([]), threshold, most, pool, &never(), |_| ()).expect("a sound master")
}

/// Whether the relaxation of the root alone excludes a threshold.
fn root_excludes(problem: &Problem, threshold: f64) -> bool {
    let units = Units::new(problem);
    let preparation = Preparation::new(problem, &units, STATES, &never()).expect("a small problem");
    let mut generation = Generation::new(problem, &units, &preparation, None);
    let verdict = generation.decide(threshold, 1000, &never()).expect("a sound master");
    matches!(verdict, Verdict::Excluded(_))
}

#[test]
fn the_tree_closes_what_the_root_leaves_open() {
    let pool = threads(2);
    let (mut compared, mut open, mut nodes) = (0, 0, 0);
    for number in 0..1500 {
        let problem = problem(number, 9, 4);
        let Some(Some(best)) = optimum(&problem) else { continue };
        if best == 0.0 {
            continue;
        }
        let verdict = search(&problem, best * BELOW, 20_000, &pool);
        assert!(verdict.plan.is_none(), "{number}: a plan below the optimum");
        assert!(verdict.excluded, "{number}: open after {} nodes", verdict.nodes);
        compared += 1;
        if !root_excludes(&problem, best * BELOW) {
            open += 1;
            nodes += verdict.nodes;
        }
    }
    println!("{compared} compared, {open} open at the root, {nodes} nodes");
    assert!(compared > 500 && open > 30, "{compared} compared, {open} open at the root");
}
