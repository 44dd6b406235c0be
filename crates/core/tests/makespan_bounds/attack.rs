//! No bound exceeds the best placement, and each exceeds the cheaper bounds on some problem; heads and tails hold in
//! every timeline.

use rand::RngExt;
use stagewright_core::bound::makespan::{Reach, tails};
use stagewright_core::bound::{
    Bound, CriticalPath, Destructive, Energetic, Fluid, HeaviestUnit, OneMachine, Segments, Windows,
};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::simulate::{Flow, Simulator, Template, Timeline};
use stagewright_core::tolerance::round_down;

use super::{exhaustive, random};

/// Number of problems with few operators, for which all placements are tried, and of problems with more operators, for
/// which `SAMPLES` placements are tried.
const SMALL: u64 = 2500;
const LARGE: u64 = 400;
const SAMPLES: u64 = 150;

/// The bounds, cheapest first.
const BOUNDS: [&dyn Bound; 8] =
    [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic, &Windows, &Segments, &Destructive];

/// Checks that every operator starts at its head or later, and ends at least its tail before the end of the step.
fn check_reach(
    number: u64,
    problem: &Problem,
    (reach, tails): (&Reach<'_>, &[f64]),
    placement: &Placement,
    timeline: &Timeline,
) {
    for (op, span) in problem.graph().operators().zip(timeline.operators()) {
        let pool = problem.pool_of(placement.device_of(op));
        let (head, tail) = (reach.head(op, pool), reach.tail(op, pool));
        assert!(round_down(head) <= span.start, "{number}: {op:?} {head} > {}, {placement:?}", span.start);
        let tail = round_down(tail).max(tails[op.index()]);
        let end = span.end + tail;
        assert!(
            round_down(end) <= timeline.makespan(),
            "{number}: {op:?} {tail} after {}, {placement:?}",
            span.end
        );
    }
}

/// The values of the bounds, in the order of `BOUNDS`; checks that none exceeds `value`.
fn values(number: u64, problem: &Problem, value: f64) -> [f64; BOUNDS.len()] {
    BOUNDS.map(|bound| {
        assert!(bound.applies(problem), "{}", bound.name());
        let found = bound.compute(problem).expect("a feasible problem has bounds").value;
        assert!(found <= value, "{number}: {} says {found} > {value}", bound.name());
        found
    })
}

#[test]
fn no_bound_passes_the_best_placement() {
    let (mut attacked, mut reached, mut passed) = (0, [0; BOUNDS.len()], [0; BOUNDS.len()]);
    for number in 0..SMALL {
        let operators = if number % 250 == 0 { 6 } else { [2, 3, 4, 4, 4, 5][number as usize % 6] };
        let problem = random::problem(number, operators);
        let (reach, tails) = (Reach::new(&problem), tails(&problem));
        let mut optimum = f64::INFINITY;
        exhaustive::visit(&problem, |placement, timeline| {
            let reach = (reach.as_ref().expect("it runs"), &tails[..]);
            check_reach(number, &problem, reach, placement, timeline);
            optimum = optimum.min(timeline.makespan());
        });
        if optimum.is_infinite() {
            continue;
        }
        attacked += 1;
        let mut strongest = 0.0f64;
        for (index, value) in values(number, &problem, optimum).into_iter().enumerate() {
            reached[index] += u32::from(value >= optimum * (1.0 - 1e-6));
            passed[index] += u32::from(value > strongest * (1.0 + 1e-6));
            strongest = strongest.max(value);
        }
    }
    assert!(attacked > 1400, "{attacked} attacked");
    assert!(reached.iter().all(|&count| count > 200) && reached[3] > 700, "{reached:?} reached the optimum");
    assert!(
        passed[..4].iter().all(|&count| count > 150) && passed[4] > 3 && passed[7] > 30,
        "{passed:?} passed the cheaper ones"
    );
}

/// A random placement of whole classes on devices that can run them, most of them on one device, with a random
/// priority.
fn sample(number: u64, problem: &Problem, reach: &Reach<'_>) -> Placement {
    let mut rng = seed::stream(0x5A3, number);
    let graph = problem.graph();
    let home = DeviceId(rng.random_range(0..problem.cluster().device_count() as u32));
    let away = rng.random_range(0.0..0.8);
    let of_class: Keyed<ClassId, DeviceId> = graph
        .class_ids()
        .map(|class| {
            let runs = |device: &DeviceId| {
                reach.seconds(graph.class(class)[0], problem.pool_of(*device)).is_finite()
            };
            let devices: Vec<DeviceId> = problem.cluster().devices().filter(runs).collect();
            let stays = runs(&home) && !rng.random_bool(away);
            if stays { home } else { devices[rng.random_range(0..devices.len())] }
        })
        .collect();
    let mut priority: Vec<OpId> = graph.operators().collect();
    for index in 1..priority.len() {
        priority.swap(index, rng.random_range(0..=index));
    }
    Placement::with_priority(graph.operators().map(|op| of_class[graph.class_of(op)]).collect(), priority)
}

#[test]
fn heads_and_tails_hold_in_larger_graphs() {
    let (mut held, mut near) = (0, 0);
    let mut simulator = Simulator::new();
    for number in 0..LARGE {
        let problem = random::problem(SMALL + number, 8 + number as usize % 13);
        let Some(reach) = Reach::new(&problem) else { continue };
        let tails = tails(&problem);
        let mut template = Template::new(&problem);
        let mut best = f64::INFINITY;
        let mut flow = Flow::default();
        for index in 0..SAMPLES {
            let placement = sample(number * SAMPLES + index, &problem, &reach);
            flow = template.flow_of(&placement, flow);
            let timeline = simulator.run(&flow);
            if exhaustive::fits_everywhere(&problem, timeline) {
                check_reach(number, &problem, (&reach, &tails), &placement, timeline);
                best = best.min(timeline.makespan());
                held += 1;
            }
        }
        if best.is_finite() {
            let strongest = values(number, &problem, best).into_iter().fold(0.0, f64::max);
            near += u32::from(best <= 1.2 * strongest);
        }
    }
    assert!(held > 10_000 && near > 40, "{held} timelines, {near} near their bounds");
}
