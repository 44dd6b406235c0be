//! The field's learned systems: what they answer, that they learn, and that they go on where they were.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solution, SolveError, Solver, Status, Stop};
use stagewright_core::tolerance::same;
use stagewright_policy::checkpoint::CheckpointError;
use stagewright_policy::learn::Descent;
use stagewright_policy::systems::{Built, Kind, Learned, Reading, Settings, Trials, Use};
use stagewright_search::makespan::scene::Scene;
use stagewright_search::makespan::schedule::Judge;
use support::{empty, slow_links, split, step};

const FEW: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: Some(60) };

fn name(kind: Kind) -> &'static str {
    kind.name()
}

/// Small enough for a test.
fn small(kind: Kind, devices: usize) -> Settings {
    Settings { devices, width: 16, ..kind.settings(devices) }
}

fn solve(solver: &dyn Solver, problem: &Problem, limits: Limits, threads: usize) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(limits, Default::default(), &mut silent);
    (context.threads, context.seed) = (threads, 3);
    solver.solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

fn endless() -> Stop {
    Stop::new(None, Arc::new(AtomicBool::new(false)))
}

/// Plays so many episodes that are learned from; answers the step times of the best placements of each.
fn learn(
    built: &mut Built,
    descent: &mut Descent,
    problem: &Problem,
    episodes: std::ops::Range<u64>,
) -> Vec<f64> {
    let scene = Scene::new(problem);
    let reading = Reading::new(&scene, built.kind().most_units()).expect("few edges");
    let rate = descent.config.rate;
    let episode = |number| {
        let mut trials = Trials::new(&reading, Judge::new(&scene), u64::MAX, 0.0, endless());
        let mut rng = seed::stream(5, number);
        built.learn(7, &reading, &mut trials, (descent, rate), &mut rng).expect("finite gradients");
        trials.best().expect("something was played").score.energy()
    };
    episodes.map(episode).collect()
}

/// What is played as likeliest.
fn likeliest(built: &mut Built, problem: &Problem) -> f64 {
    let scene = Scene::new(problem);
    let reading = Reading::new(&scene, built.kind().most_units()).expect("few edges");
    let mut trials = Trials::new(&reading, Judge::new(&scene), u64::MAX, 0.0, endless());
    built.play(&reading, &mut trials, &mut seed::stream(0, 0)).expect("finite numbers");
    trials.best().expect("something was played").score.energy()
}

#[test]
fn answers_are_plans_worth_what_they_say_and_keep_to_the_limit() {
    for kind in Kind::ALL {
        for number in 0..6 {
            let problem = step(number, 14, 3);
            let solution = solve(&Learned::new(name(kind), "a test", kind), &problem, FEW, 1);
            if solution.status == Status::Infeasible {
                continue;
            }
            let played = solution.statistics.iter().find(|(name, _)| *name == "simulations");
            assert!(played.is_some_and(|(_, played)| (1..=60).contains(played)), "{kind:?}: {played:?}");
            let Some(plan) = &solution.plan else { continue };
            let evaluation = evaluate(&problem, &plan.placement);
            assert!(evaluation.violations.is_empty(), "{kind:?} {number}: {:?}", evaluation.violations);
            assert!(same(evaluation.value, plan.value()), "{kind:?} {number}");
            assert!(solution.bound.value <= plan.value() * (1.0 + 1e-9), "{kind:?} {number}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let problem = step(1, 20, 3);
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        let [one, two] = [1, 2].map(|threads| solve(&learned, &problem, FEW, threads));
        assert_eq!(one, two, "{kind:?}");
    }
}

#[test]
fn one_operator_and_one_device_are_enough_and_nothing_is_a_plan() {
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        for (operators, devices) in [(1, 1), (1, 3), (12, 1)] {
            let solution = solve(&learned, &step(2, operators, devices), FEW, 1);
            assert!(solution.plan.is_some() || solution.status != Status::Optimal, "{kind:?}");
        }
        let nothing = empty(ObjectiveKind::Makespan);
        assert_eq!(solve(&learned, &nothing, FEW, 1).plan.map(|plan| plan.value()), Some(0.0), "{kind:?}");
        let mut silent = Silent;
        let mut context = Context::new(FEW, Default::default(), &mut silent);
        let refused = learned.solve(&split(0, 5, 2), &mut context);
        assert!(matches!(refused, Err(SolveError::Unsupported { .. })), "{kind:?}: {refused:?}");
    }
}

/// Where links are so slow that one device is best, each of them finds that out: none leaves it out by construction.
#[test]
fn each_learns_to_use_one_device_where_that_is_best() {
    let problem = slow_links(8, 2);
    let scene = Scene::new(&problem);
    let alone = {
        let reading = Reading::new(&scene, 256).expect("few edges");
        let mut trials = Trials::new(&reading, Judge::new(&scene), u64::MAX, 0.0, endless());
        trials.play(&vec![0; reading.units()]).expect("it is the first").makespan
    };
    for kind in Kind::ALL {
        let mut built = Built::new(kind, small(kind, 2), 1).expect("a system");
        let mut config = kind.adam();
        // Quicker than the papers, for a graph of eight operators.
        config.rate = config.rate.max(3e-3);
        let mut descent = Descent::new(built.weights(), config).expect("moments");
        let first = learn(&mut built, &mut descent, &problem, 0..10);
        let last = learn(&mut built, &mut descent, &problem, 10..160);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let [first, last] = [mean(&first), mean(&last[last.len() - 10..])];
        assert!(last <= first * (1.0 + 1e-9), "{kind:?}: {first} to {last}");
        let found = likeliest(&mut built, &problem);
        assert!(same(found, alone), "{kind:?}: {found} is not the {alone} of one device");
    }
}

#[test]
fn what_is_kept_goes_on_as_if_it_had_not_been() {
    let problem = step(4, 12, 3);
    for kind in Kind::ALL {
        let mut built = Built::new(kind, small(kind, 4), 2).expect("a system");
        let mut descent = Descent::new(built.weights(), kind.adam()).expect("moments");
        learn(&mut built, &mut descent, &problem, 0..2);
        let bytes = built.to_bytes(&descent, serde_json::Value::Null).expect("bytes");
        learn(&mut built, &mut descent, &problem, 2..4);
        let at_once = built.to_bytes(&descent, serde_json::Value::Null).expect("bytes");
        let (mut again, mut steps, card) = Built::from_bytes(&bytes, None).expect("it was just written");
        assert_eq!((card.system, card.steps), (kind, steps.steps()));
        learn(&mut again, &mut steps, &problem, 2..4);
        assert!(again.to_bytes(&steps, serde_json::Value::Null).expect("bytes") == at_once, "{kind:?}");
    }
}

#[test]
fn files_that_are_no_such_system_are_refused() {
    let [gdp, hdp] = [Kind::Gdp, Kind::Hdp].map(|kind| {
        let built = Built::new(kind, small(kind, 2), 1).expect("a system");
        let descent = Descent::new(built.weights(), kind.adam()).expect("moments");
        built.to_bytes(&descent, serde_json::Value::Null).expect("bytes")
    });
    let of = |bytes: &[u8], kind| Learned::of_file("a test", "a test", kind, Use::Play, bytes.to_vec());
    assert!(of(&gdp, Kind::Gdp).is_ok());
    assert!(matches!(of(&hdp, Kind::Gdp), Err(CheckpointError::Foreign(_))));
    assert!(matches!(of(&gdp[..gdp.len() - 1], Kind::Gdp), Err(CheckpointError::Unreadable(_))));
    assert!(matches!(of(b"", Kind::Gdp), Err(CheckpointError::Unreadable(_))));
    let mut broken = gdp.clone();
    let end = broken.len();
    broken[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(of(&broken, Kind::Gdp), Err(CheckpointError::NotFinite(_))));
    // A system of two devices on three of them has no answer, and says why.
    let played = of(&gdp, Kind::Gdp).expect("it is one");
    let solution = solve(&played, &slow_links(6, 3), FEW, 1);
    assert!(solution.plan.is_none() && solution.reason.is_some_and(|why| why.contains("at most 2 devices")));
}
