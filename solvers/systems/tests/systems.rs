//! The learned systems: their solutions, that they learn, and that they resume exactly.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use candle_core::Var;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    self, Context, Limits, Silent, Solution, SolveError, Solver, Status, Stop, StopReason,
};
use stagewright_core::tolerance::same;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::Evaluator;
use stagewright_policy::checkpoint::CheckpointError;
use stagewright_policy::learn::{AdamConfig, Descent, TrainError};
use stagewright_systems::{Agent, Kind, Learned, Mode, Reading, Settings, Trials};
use stagewright_testing::learning::{empty, split, step};

use crate::support::{second_is_faster, slow_links, slow_links_between_diamonds};

const FEW: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: Some(60) };

/// Long enough for several episodes of most systems, and for part of an episode of the others.
const SHORT: Duration = Duration::from_millis(50);

fn name(kind: Kind) -> &'static str {
    kind.name()
}

/// Settings small enough for a test.
fn small(kind: Kind, devices: usize) -> Settings {
    let paper = kind.settings(devices);
    Settings { width: paper.width.min(16), ..paper }
}

fn solve(solver: &dyn Solver, problem: &Problem, limits: Limits, threads: usize) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(solver::Settings { threads, seed: 3, ..limits.into() }, &mut silent);
    solver.solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

fn endless() -> Stop {
    Stop::new(None, Arc::new(AtomicBool::new(false)))
}

/// Runs the given episodes with learning; returns the best value of each.
fn learn(
    agent: &mut Agent,
    descent: &mut Descent,
    problem: &Problem,
    episodes: std::ops::Range<u64>,
) -> Vec<f64> {
    let mut found = Vec::new();
    let instance = Instance::new(problem);
    let reading = Reading::new(&instance, agent.kind().most_units()).expect("few edges");
    let rate = descent.config.learning_rate;
    for number in episodes {
        let mut trials = Trials::new(&reading, Evaluator::new(&instance), u64::MAX, 0.0, endless());
        let mut rng = seed::stream(5, number);
        agent.learn(7, &reading, &mut trials, (descent, rate), &mut rng).expect("finite gradients");
        found.push(trials.best().expect("something was played").score.energy());
    }
    found
}

/// The best value of a greedy episode.
fn likeliest(agent: &Agent, problem: &Problem) -> f64 {
    best_of(agent, problem, |agent, reading, trials| agent.greedy(reading, trials, &mut seed::stream(0, 0)))
}

/// The best value of a sampled episode without learning.
fn drawn(agent: &Agent, problem: &Problem) -> f64 {
    best_of(agent, problem, |agent, reading, trials| agent.draw(reading, trials, &mut seed::stream(0, 0)))
}

fn best_of(
    agent: &Agent,
    problem: &Problem,
    play: impl for<'a, 's, 'p> Fn(&Agent, &'a Reading<'s, 'p>, &mut Trials<'a, 's, 'p>) -> Result<(), TrainError>,
) -> f64 {
    let instance = Instance::new(problem);
    let reading = Reading::new(&instance, agent.kind().most_units()).expect("few edges");
    let mut trials = Trials::new(&reading, Evaluator::new(&instance), u64::MAX, 0.0, endless());
    play(agent, &reading, &mut trials).expect("finite numbers");
    trials.best().expect("something was played").score.energy()
}

#[test]
fn answers_are_plans_worth_what_they_say_and_keep_to_the_limit() {
    for kind in Kind::ALL {
        let mut plans = 0;
        for number in 0..6 {
            let problem = step(number, 14, 3);
            let solution = solve(&Learned::new(name(kind), "a test", kind), &problem, FEW, 1);
            if solution.status == Status::Infeasible {
                continue;
            }
            let played = solution.statistics.iter().find(|(name, _)| *name == "simulations");
            assert!(played.is_some_and(|(_, played)| (1..=60).contains(played)), "{kind:?}: {played:?}");
            let Some(plan) = &solution.plan else { continue };
            plans += 1;
            let evaluation = evaluate(&problem, &plan.placement);
            assert!(evaluation.violations.is_empty(), "{kind:?} {number}: {:?}", evaluation.violations);
            assert!(same(evaluation.value, plan.value()), "{kind:?} {number}");
            assert!(solution.bound.value <= plan.value() * (1.0 + 1e-9), "{kind:?} {number}");
        }
        assert!(plans > 1, "{kind:?}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    // Enough units for a sum to be divided among threads.
    let problem = step(1, 300, 3);
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        let [single, two] = [1, 2].map(|threads| solve(&learned, &problem, FEW, threads));
        assert_eq!(single, two, "{kind:?}");
    }
}

#[test]
fn one_operator_and_one_device_are_enough_and_nothing_is_a_plan() {
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        for (operators, devices) in [(1, 1), (1, 3), (12, 1)] {
            let solution = solve(&learned, &step(2, operators, devices), FEW, 1);
            let is_answer = solution.plan.is_some() || solution.status == Status::Infeasible;
            assert!(is_answer, "{kind:?}, {operators} on {devices}: {:?}", solution.reason);
        }
        let nothing = empty(ObjectiveKind::Makespan);
        assert_eq!(solve(&learned, &nothing, FEW, 1).plan.map(|plan| plan.value()), Some(0.0), "{kind:?}");
        let mut silent = Silent;
        let mut context = Context::new(FEW, &mut silent);
        let refused = learned.solve(&split(0, 5, 2), &mut context);
        assert!(matches!(refused, Err(SolveError::Unsupported { .. })), "{kind:?}: {refused:?}");
    }
}

/// Whatever ends the solve, it returns the best placement simulated so far, and simulates at least one.
#[test]
fn a_limit_and_an_interrupt_end_it_with_a_plan() {
    let problem = slow_links_between_diamonds(300, 3);
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        let limits = |time| Limits { time, simulations: None, ..FEW };
        for (limits, is_interrupted) in
            [(limits(Some(Duration::ZERO)), false), (limits(None), true), (limits(Some(SHORT)), false)]
        {
            let mut silent = Silent;
            let interrupt = Arc::new(AtomicBool::new(is_interrupted));
            let mut context = Context::new(solver::Settings { interrupt, ..limits.into() }, &mut silent);
            let solution = learned.solve(&problem, &mut context).expect("a solution");
            assert!(solution.plan.is_some(), "{kind:?}: {:?}", solution.reason);
            let played = solution.statistics.iter().find(|(name, _)| *name == "simulations");
            let limit = if limits.time == Some(SHORT) { u64::MAX } else { 1 };
            assert!(played.is_some_and(|(_, played)| (1..=limit).contains(played)), "{kind:?}: {played:?}");
        }
    }
}

#[test]
fn what_is_too_large_is_not_begun() {
    for kind in Kind::ALL {
        let learned = Learned::new(name(kind), "a test", kind);
        let little = Limits { memory: Some(1 << 16), ..FEW };
        let solution = solve(&learned, &slow_links(6, 2), little, 1);
        let why = solution.reason.unwrap_or_default();
        assert!(solution.plan.is_none() && why.contains("of memory"), "{kind:?}: {why}");
        assert_eq!(solution.stop, Some(StopReason::Memory), "{kind:?}");
        let enough = Limits { memory: Some(1 << 30), ..FEW };
        assert!(solve(&learned, &slow_links(6, 2), enough, 1).plan.is_some(), "{kind:?}");
        let solution = solve(&learned, &slow_links(6, 1025), FEW, 1);
        let why = solution.reason.unwrap_or_default();
        assert!(solution.plan.is_none() && why.contains("`devices` is 1025"), "{kind:?}: {why}");
    }
    // Its classifier would take gigabytes.
    let mistake = Kind::Placeto.settings(1024).mistake(Kind::Placeto);
    assert!(mistake.is_some_and(|why| why.contains("too large")));
    let mistake = Settings { layers: 2, ..Kind::Hdp.settings(4) }.mistake(Kind::Hdp);
    assert!(mistake.is_some_and(|why| why.contains("hdp has one")));
}

/// Running without learning takes less memory, and has a separate estimate.
#[test]
fn the_memory_of_what_is_played_is_not_that_of_what_is_learned() {
    let problem = slow_links_between_diamonds(300, 3);
    for kind in [Kind::Placeto, Kind::Hsdag, Kind::Hdp] {
        let instance = Instance::new(&problem);
        let reading = Reading::new(&instance, kind.most_units()).expect("few edges");
        let [learn, draw] = [true, false].map(|learns| kind.bytes(&kind.settings(3), &reading, learns));
        assert!(draw < 0.9 * learn, "{kind:?}: {draw} of {learn}");
        let between = Limits { memory: Some((0.5 * draw + 0.5 * learn) as u64), ..FEW };
        let learning = solve(&Learned::new(name(kind), "a test", kind), &problem, between, 1);
        assert_eq!(learning.stop, Some(StopReason::Memory), "{kind:?}");
        let drawing = solve(&Learned::untrained(name(kind), "a test", kind), &problem, between, 1);
        assert!(drawing.plan.is_some(), "{kind:?}: {:?}", drawing.reason);
        let little = Limits { memory: Some((0.5 * draw) as u64), ..FEW };
        let refused = solve(&Learned::untrained(name(kind), "a test", kind), &problem, little, 1);
        assert_eq!(refused.stop, Some(StopReason::Memory), "{kind:?}");
    }
}

/// Chains that HSDAG contracts take no memory: a long chain takes as much as one of two units.
#[test]
fn the_memory_of_contracted_chains_is_that_of_what_is_left() {
    let bytes = |problem: &Problem| {
        let instance = Instance::new(problem);
        let reading = Reading::new(&instance, Kind::Hsdag.most_units()).expect("few edges");
        Kind::Hsdag.bytes(&Kind::Hsdag.settings(3), &reading, true)
    };
    assert_eq!(bytes(&slow_links(300, 3)), bytes(&slow_links(2, 3)));
    assert!(bytes(&slow_links_between_diamonds(300, 3)) > 10.0 * bytes(&slow_links(300, 3)));
}

#[test]
fn graphs_of_too_many_units_are_refused() {
    assert_eq!(Kind::Placeto.too_large(1024), None);
    assert!(
        Kind::Placeto
            .too_large(1025)
            .is_some_and(|why| why.contains("`placeto` asks for 256 and reads at most 1024"))
    );
    assert_eq!(Kind::Gdp.too_large(8192), None);
    assert!(Kind::Gdp.too_large(8193).is_some());
}

/// If everything is best on the faster of two devices, each system learns that placement: none excludes placements on a
/// single device by construction, and none starts from it.
#[test]
fn each_learns_to_use_one_device_where_that_is_best() {
    let problem = second_is_faster(8);
    for kind in Kind::ALL {
        let new = |seed| Agent::new(kind, small(kind, 2), seed).expect("a system");
        let mut agent =
            (0..20).map(new).find(|agent| likeliest(agent, &problem) > 8.0).expect("some have not");
        // Faster than in the papers, for a graph of a few operators.
        let config = AdamConfig { learning_rate: 3e-3, ..kind.adam() };
        let mut descent = Descent::new(agent.weights(), config).expect("moments");
        learn(&mut agent, &mut descent, &problem, 0..120);
        let found = likeliest(&agent, &problem);
        assert!(same(found, 8.0), "{kind:?}: {found} is not the 8 s of one device");
    }
}

/// The best placements of the last episodes are better than those of the first, in the geometric mean over several steps:
/// on a single step, a system may settle on a worse placement. HSDAG simulates enough placements in an episode for the
/// best of them to be good before any learning; the one-device test shows that it learns.
#[test]
fn what_is_played_gets_better() {
    let is_large = |problem: &Problem| {
        problem.graph().operator_count() > 8 && Instance::new(problem).impossible().is_none()
    };
    let problems: Vec<Problem> = (0..).map(|number| step(number, 14, 3)).filter(is_large).take(4).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    for kind in [Kind::Gdp, Kind::Placeto, Kind::Hdp] {
        let gain = |problem: &Problem| {
            let mut agent = Agent::new(kind, small(kind, 3), 1).expect("a system");
            let config = AdamConfig { learning_rate: 3e-3, ..kind.adam() };
            let mut descent = Descent::new(agent.weights(), config).expect("moments");
            let found = learn(&mut agent, &mut descent, problem, 0..120);
            (mean(&found[100..]) / mean(&found[..20])).ln()
        };
        let gains: Vec<f64> = problems.iter().map(gain).collect();
        assert!(mean(&gains).exp() < 0.97, "{kind:?}: {gains:?}");
    }
}

/// Placeto's first episode is its own baseline and teaches nothing; the second is compared with the first.
#[test]
fn placeto_learns_from_how_episodes_differ() {
    let problem = step(4, 12, 3);
    let mut agent = Agent::new(Kind::Placeto, small(Kind::Placeto, 3), 2).expect("a system");
    let mut descent = Descent::new(agent.weights(), Kind::Placeto.adam()).expect("moments");
    let parameters = |agent: &Agent| -> Vec<Vec<f32>> {
        let numbers = |var: &Var| var.flatten_all()?.to_vec1();
        agent.weights().vars().values().map(|var| numbers(var).expect("numbers")).collect()
    };
    let new = parameters(&agent);
    learn(&mut agent, &mut descent, &problem, 0..1);
    assert!(parameters(&agent) == new);
    learn(&mut agent, &mut descent, &problem, 1..2);
    assert!(parameters(&agent) != new);
}

/// Sampling without learning gives valid plans and takes no optimiser step.
#[test]
fn what_is_untrained_stays_so() {
    for kind in Kind::ALL {
        let (mut largest, mut plans) = (0, 0);
        for number in 0..6 {
            let problem = step(number, 14, 3);
            let solution = solve(&Learned::untrained(name(kind), "a test", kind), &problem, FEW, 1);
            if solution.status == Status::Infeasible {
                continue;
            }
            let statistic = |wanted: &str| {
                solution.statistics.iter().find(|(name, _)| *name == wanted).map(|pair| pair.1)
            };
            largest = largest.max(statistic("simulations").expect("they are counted"));
            assert_eq!(statistic("steps"), Some(0), "{kind:?} {number}");
            plans += usize::from(solution.plan.is_some());
        }
        assert!(plans > 1, "{kind:?}");
        // The limit was reached, not the bound, so a step could have been taken.
        assert_eq!(largest, 60, "{kind:?}");
    }
}

/// Evaluation does not affect learning.
#[test]
fn playing_changes_nothing() {
    for kind in Kind::ALL {
        let [asked, left_alone] = [true, false].map(|is_asked| {
            let mut agent = Agent::new(kind, small(kind, 3), 2).expect("a system");
            let mut descent = Descent::new(agent.weights(), kind.adam()).expect("moments");
            for episode in 0..3 {
                if is_asked {
                    likeliest(&agent, &slow_links(5, 2));
                    drawn(&agent, &step(4, 12, 3));
                }
                learn(&mut agent, &mut descent, &step(4, 12, 3), episode..episode + 1);
            }
            agent.to_bytes(&descent, serde_json::Value::Null).expect("bytes")
        });
        assert!(asked == left_alone, "{kind:?}");
    }
}

#[test]
fn what_is_kept_goes_on_as_if_it_had_not_been() {
    let problem = step(4, 12, 3);
    for kind in Kind::ALL {
        let mut agent = Agent::new(kind, small(kind, 4), 2).expect("a system");
        let mut descent = Descent::new(agent.weights(), kind.adam()).expect("moments");
        learn(&mut agent, &mut descent, &problem, 0..2);
        let bytes = agent.to_bytes(&descent, serde_json::Value::Null).expect("bytes");
        learn(&mut agent, &mut descent, &problem, 2..4);
        let at_once = agent.to_bytes(&descent, serde_json::Value::Null).expect("bytes");
        let (mut again, mut steps, card) = Agent::from_bytes(&bytes, None).expect("it was just written");
        assert_eq!((card.system, card.steps), (kind, steps.steps()));
        learn(&mut again, &mut steps, &problem, 2..4);
        assert!(again.to_bytes(&steps, serde_json::Value::Null).expect("bytes") == at_once, "{kind:?}");
    }
}

#[test]
fn files_that_are_no_such_system_are_refused() {
    let [gdp, hdp] = [Kind::Gdp, Kind::Hdp].map(|kind| {
        let agent = Agent::new(kind, small(kind, 2), 1).expect("a system");
        let descent = Descent::new(agent.weights(), kind.adam()).expect("moments");
        agent.to_bytes(&descent, serde_json::Value::Null).expect("bytes")
    });
    let learned =
        |bytes: &[u8], kind| Learned::of_file("a test", "a test", kind, Mode::Greedy, bytes.to_vec());
    assert!(learned(&gdp, Kind::Gdp).is_ok());
    assert!(matches!(learned(&hdp, Kind::Gdp), Err(CheckpointError::OtherSystem { .. })));
    assert!(matches!(learned(&gdp[..gdp.len() - 1], Kind::Gdp), Err(CheckpointError::Unreadable(_))));
    assert!(matches!(learned(b"", Kind::Gdp), Err(CheckpointError::Unreadable(_))));
    let mut broken = gdp.clone();
    let end = broken.len();
    broken[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(learned(&broken, Kind::Gdp), Err(CheckpointError::NotFinite(_))));
    // A system for two devices has no solution for three, and says why.
    let played = learned(&gdp, Kind::Gdp).expect("it is one");
    let solution = solve(&played, &slow_links(6, 3), FEW, 1);
    assert!(solution.plan.is_none() && solution.reason.is_some_and(|why| why.contains("at most 2 devices")));
}
