//! Plans and bounds compared with exhaustive enumeration.

use stagewright_core::document::{
    PlanStatus, STRATEGY_PLAN_SCHEMA, StrategyBoundDocument, StrategyPlanDocument, StrategyProblemDocument,
};
use stagewright_core::solver::{Context, Limits, Settings, Silent, Status};
use stagewright_shard::{Problem, Request, Solution, solve};
use stagewright_verify::{StrategyVerdict, StrategyViolation, check_strategies};

use super::random;

fn solved(problem: &Problem, request: Request<'_>, threads: usize) -> Solution {
    let mut observer = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, &mut observer);
    solve(problem, request, &mut context).expect("the solver keeps its invariants")
}

fn document(problem: &Problem, solution: &Solution) -> StrategyPlanDocument {
    StrategyPlanDocument {
        schema: STRATEGY_PLAN_SCHEMA.into(),
        status: if solution.cost.is_some() { PlanStatus::Feasible } else { PlanStatus::Unknown },
        solver: "test".into(),
        problem: problem.document().name.clone(),
        cost: solution.cost,
        peak_usage: solution.peak_usage,
        bound: StrategyBoundDocument {
            cost: solution.certificate.as_ref().map(|certificate| certificate.cost),
            source: "lagrangian".into(),
            certificate: solution.certificate.clone(),
        },
        gap: None,
        seconds: 0.0,
        seed: 0,
        origin: None,
        stop: None,
        strategies: solution.strategies.clone().unwrap_or_default(),
    }
}

#[test]
fn solutions_are_those_of_exhaustion_and_certificates_are_replayed() {
    let (mut optimal, mut infeasible, mut verified, mut tight, mut trees, mut messages) = (0, 0, 0, 0, 0, 0);
    for number in 0..3000 {
        let problem = random::problem(number);
        let optimum = random::optimum(&problem);
        let solution = solved(&problem, Request::default(), 1);
        assert_eq!(solution.cost, optimum, "{number}");
        match optimum {
            None => {
                assert_eq!(solution.status, Status::Infeasible, "{number}");
                infeasible += 1;
                continue;
            }
            Some(cost) => {
                assert_eq!(solution.status, Status::Optimal, "{number}");
                assert_eq!(solution.bound, Some(cost as f64), "{number}");
                optimal += 1;
                trees += u32::from(solution.tree_nodes > 1);
            }
        }
        let certificate = solution.certificate.as_ref().expect("the root was bounded");
        let cost = optimum.unwrap_or(0) as f64;
        messages += u32::from(!certificate.messages.is_empty());
        assert!(certificate.cost <= cost, "{number}: the root says {} > {cost}", certificate.cost);
        tight += u32::from(certificate.cost > cost - 1.0);
        let report =
            check_strategies(problem.document(), &document(&problem, &solution)).expect("sound documents");
        assert!(report.holds(), "{number}: {:?}", report.violations);
        verified += u32::from(matches!(report.bound, StrategyVerdict::Verified { .. }));
    }
    assert_eq!(verified, optimal);
    assert!(infeasible > 200 && trees > 100 && messages > 200, "{infeasible} {trees} {messages}");
    assert!(tight > optimal / 2, "{tight} of {optimal}");
}

#[test]
fn a_solve_depends_on_neither_threads_nor_its_start() {
    for number in 0..200 {
        let problem = random::problem(number);
        let single = solved(&problem, Request::default(), 1);
        let two = solved(&problem, Request::default(), 2);
        assert_eq!((&single.strategies, single.tree_nodes), (&two.strategies, two.tree_nodes), "{number}");
        let request = Request {
            strategies: single.strategies.as_deref(),
            certificate: single.certificate.as_ref(),
            root_only: false,
        };
        let again = solved(&problem, request, 1);
        assert_eq!((again.cost, again.bound), (single.cost, single.bound), "{number}");
        let nonsense = Request { strategies: Some(&[9, 9]), certificate: None, root_only: false };
        assert_eq!(solved(&problem, nonsense, 1).cost, single.cost, "{number}");
    }
}

#[test]
fn a_certificate_that_claims_more_is_refuted() {
    let mut refuted = 0;
    for number in 0..2000 {
        let problem = random::problem(number);
        let solution = solved(&problem, Request { root_only: true, ..Request::default() }, 1);
        let (Some(certificate), Some(optimum)) = (&solution.certificate, random::optimum(&problem)) else {
            continue;
        };
        let sound = document(&problem, &solution);
        let violations = |change: &dyn Fn(&mut StrategyPlanDocument)| {
            let mut changed = sound.clone();
            change(&mut changed);
            check_strategies(problem.document(), &changed).expect("sound documents").violations
        };
        let raised = violations(&|plan| {
            if let Some(certificate) = &mut plan.bound.certificate {
                certificate.cost = optimum as f64 + 0.01;
            }
        });
        assert!(matches!(raised[..], [StrategyViolation::Bound { .. }, ..]), "{number}: {raised:?}");
        if let Some(messages) = certificate.messages.first() {
            let stretched = violations(&|plan| {
                if let Some(certificate) = &mut plan.bound.certificate {
                    certificate.messages[0][0][0] += 1e3 + messages[0][0].abs();
                }
            });
            assert!(!stretched.is_empty(), "{number}");
            refuted += 1;
        }
        let negative = violations(&|plan| {
            if let Some(certificate) = &mut plan.bound.certificate {
                certificate.prices.push((0, -1.0));
            }
        });
        assert!(matches!(negative[..], [StrategyViolation::Bound { most: None, .. }, ..]), "{number}");
    }
    assert!(refuted > 20, "{refuted}");
}

/// A problem with a plan.
fn feasible() -> Problem {
    (0..).map(random::problem).find(|problem| random::optimum(problem).is_some()).expect("some have a plan")
}

#[test]
fn faults_of_plans_are_found() {
    let problem = feasible();
    let solution = solved(&problem, Request::default(), 1);
    let sound = document(&problem, &solution);
    let kinds = |change: &dyn Fn(&mut StrategyPlanDocument)| -> Vec<&str> {
        let mut changed = sound.clone();
        change(&mut changed);
        let report = check_strategies(problem.document(), &changed).expect("sound documents");
        report.violations.iter().map(StrategyViolation::kind).collect()
    };
    assert_eq!(kinds(&|_| {}), [""; 0]);
    assert_eq!(kinds(&|plan| plan.cost = plan.cost.map(|cost| cost + 1)), ["figure"]);
    assert_eq!(kinds(&|plan| plan.peak_usage = Some(-1)), ["figure"]);
    assert_eq!(kinds(&|plan| plan.strategies.push(0)), ["length"]);
    assert_eq!(kinds(&|plan| plan.strategies[0] = 99), ["strategy"]);
    assert_eq!(kinds(&|plan| plan.bound.cost = Some(1e18)), ["bound"]);
    let optimal = |plan: &mut StrategyPlanDocument| {
        (plan.status, plan.bound.cost, plan.bound.certificate) = (PlanStatus::Optimal, Some(0.0), None);
    };
    assert_eq!(kinds(&optimal), ["status"]);
    assert_eq!(kinds(&|plan| plan.status = PlanStatus::Infeasible), ["status"]);
    assert_eq!(kinds(&|plan| plan.problem = "another".into()), ["figure"]);
    assert_eq!(kinds(&|plan| plan.strategies.clear()), ["length"]);
}

#[test]
fn malformed_problems_are_refused() {
    let error = |change: &dyn Fn(&mut StrategyProblemDocument)| {
        let mut document = random::problem(3).document().clone();
        change(&mut document);
        Problem::new(document).expect_err("the problem is malformed").code().name
    };
    assert_eq!(error(&|problem| problem.nodes.intervals.push([0, 1])), "Y001");
    assert_eq!(error(&|problem| problem.nodes.usages[0].push(1)), "Y001");
    assert_eq!(error(&|problem| problem.nodes.costs[0].clear()), "Y002");
    assert_eq!(error(&|problem| problem.nodes.costs[0][0] = -1), "Y003");
    assert_eq!(error(&|problem| problem.usage_limit = Some(-1)), "Y003");
    assert_eq!(error(&|problem| problem.nodes.intervals[0] = [3, 2]), "Y004");
    let edge = |ends: [usize; 2]| {
        error(&|problem| {
            problem.edges.nodes.push(ends);
            problem.edges.costs.push(Vec::new());
        })
    };
    assert_eq!((edge([0, 99]), edge([0, 0])), ("Y005", "Y005"));
    assert_eq!(error(&|problem| problem.nodes.usages[0][0] = 1 << 55), "Y006");
}

#[test]
fn a_problem_without_nodes_has_a_plan_without_strategies() {
    let document = r#"{"name": "none", "usage_limit": 0, "nodes": {"intervals": [], "costs": [], "usages": []},
                       "edges": {"nodes": [], "costs": []}}"#;
    let problem = Problem::new(serde_json::from_str(document).expect("JSON")).expect("nothing is sound");
    let solution = solved(&problem, Request::default(), 1);
    assert_eq!((solution.status, solution.cost, solution.bound), (Status::Optimal, Some(0), Some(0.0)));
}
