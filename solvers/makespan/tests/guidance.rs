//! Guided walks: never worse than their start, feasible, and independent of the number of threads.

use stagewright_testing::random;

use random::Size;
use stagewright_core::bound::strongest;
use stagewright_core::document::Execution;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent};
use stagewright_makespan::guidance::Guidance;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Best, Evaluator, Schedule};
use stagewright_makespan::{anneal, assigned, level_of};

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };

fn problem(number: u64) -> Problem {
    let problem = random::problem(number, Size { operators: 24, devices: 4, groups: false });
    let objective = Objective::Makespan { execution: Execution::Ports };
    problem.with_objective(objective).expect("a valid objective")
}

/// Every operator on the first possible device of its class.
fn start(instance: &Instance<'_>) -> Best {
    let device_of: Vec<_> = instance.graph().operators().map(|op| instance.homes(op)[0]).collect();
    let order = assigned::order(instance, &device_of);
    let mut evaluator = Evaluator::new(instance);
    Best::better_of(None, &mut evaluator, Schedule::by_order(device_of, &order)).expect("a schedule")
}

fn walked(instance: &Instance<'_>, start: &Best, guidance: Option<&Guidance>, threads: usize) -> Best {
    let mut silent = Silent;
    let mut context =
        Context::new(Settings { limits: UNLIMITED, seed: 7, threads, ..Settings::default() }, &mut silent);
    let bound = strongest(instance.problem());
    anneal(instance, start.clone(), guidance, &bound, &mut context).expect("a walk")
}

#[test]
fn guided_walks_are_sound_whatever_the_guidance() {
    let mut seen = 0;
    for number in 0..40 {
        let problem = problem(number);
        let instance = Instance::new(&problem);
        if instance.impossible().is_some() {
            continue;
        }
        seen += 1;
        let level = level_of(&instance, usize::MAX, &mut seed::stream(0, 0));
        let devices = instance.device_count();
        // Zero, negative and non-finite weights, and devices that cannot run a unit.
        for weight in [0.0, f64::NAN, -1.0, f64::INFINITY, f64::MAX, 1.0] {
            let edges: Vec<_> = level
                .ids()
                .flat_map(|from| level.next(from).iter().map(move |&(to, _)| (from, to, weight)))
                .collect();
            let picks = vec![weight; level.len()];
            let targets = vec![weight; level.len() * devices];
            let guidance = Guidance::new(&instance, &level, &picks, &targets, &edges);
            let start = start(&instance);
            let found = walked(&instance, &start, Some(&guidance), 1);
            assert!(found.score <= start.score, "{number}");
            assert!(instance.admits(&found.schedule.device_of), "{number}");
            if weight == 1.0 && seen % 8 == 0 {
                assert_eq!(
                    found.schedule,
                    walked(&instance, &start, Some(&guidance), 3).schedule,
                    "{number}"
                );
            }
        }
    }
    assert!(seen >= 15, "{seen} of 40");
}
