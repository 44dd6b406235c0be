//! Optima of tables against brute force.

use stagewright_core::document::ServingGoal;

use super::super::space::Space;
use super::super::table;
use super::bounds::brute;
use super::{Random, problem};

#[test]
fn tables_have_the_optimum_of_brute_force() {
    let mut random = Random(23);
    let (mut cases, mut refused, mut empty) = (0, 0, 0);
    let mut goals = [0; 3];
    while cases < 300 {
        let problem = problem(&mut random);
        let space = Space::new(&problem);
        let columns: usize = space.sizes.iter().map(|size| size.columns.len()).sum();
        if columns > 40 {
            continue;
        }
        let (question, kinds) = (&problem.question, &problem.fleet.kinds);
        let is_load = question.goal == ServingGoal::Throughput || question.rate.is_some();
        let is_packed =
            kinds.iter().all(|kind| kind.count <= kind.device.server || kind.device.server.is_power_of_two());
        let is_for =
            is_load && is_packed && question.goal != ServingGoal::Cache && question.classes.len() == 1;
        let found = table::bound(&problem, &space);
        assert_eq!(found.is_some(), is_for, "{question:?}");
        let Some(found) = found else {
            refused += 1;
            continue;
        };
        cases += 1;
        let best = brute(&problem, &space, (0, 0))[0];
        let goal = match question.goal {
            ServingGoal::Throughput if question.concurrency.is_some() => 0,
            ServingGoal::Throughput => 1,
            _ => 2,
        };
        // Brute force calls a plan without requests none.
        let best = if goal < 2 { best.max(0.0) } else { best };
        empty += usize::from(best == 0.0 || best.is_infinite());
        goals[goal] += usize::from(best != 0.0 && best.is_finite());
        let is_same = found == best || (found - best).abs() <= 1e-12 * best.abs();
        assert!(is_same, "{found} {best}: {question:?}");
        assert!(found >= best, "{found} is less than {best}");
    }
    assert!(refused >= 50 && empty >= 20, "{refused} refused, {empty} without a plan");
    assert!(goals.iter().all(|cases| *cases >= 30), "{goals:?}");
}

#[test]
fn tables_that_are_too_large_are_refused() {
    let mut random = Random(5);
    let mut problem = problem(&mut random);
    problem.question.goal = ServingGoal::Throughput;
    problem.question.classes.truncate(1);
    problem.question.concurrency = None;
    problem.fleet.kinds.truncate(1);
    problem.fleet.kinds[0].device.server = 8;
    let space = Space { sizes: Vec::new(), steps: Vec::new() };
    problem.fleet.kinds[0].count = 24_000;
    assert_eq!(table::bound(&problem, &space), Some(0.0));
    problem.fleet.kinds[0].count = 25_000;
    assert_eq!(table::bound(&problem, &space), None);
    problem.fleet.kinds[0].count = 8;
    for load in [1e12, f64::MAX] {
        problem.question.concurrency = Some(load);
        assert_eq!(table::bound(&problem, &space), None);
    }
}
