//! Reruns of changed schedules give the same results as runs from the beginning, to the last bit.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Execution;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::simulate::{
    Activity, Cause, Change, Flow, Operator, Outcome, Rerun, Simulator, Span, Template, Timeline,
};

use super::problems::{DEVICES, Figures, model_of};

const INSTANCES: u64 = 2500;
const MOVES: usize = 16;

/// An operator by its index, or a transfer by its tensor and destinations.
type Name = (u32, Option<Vec<u32>>);

/// All results of a run, independent of the numbers of its transfers.
#[derive(Debug, PartialEq)]
struct Said {
    operators: Vec<(Operator, Span)>,
    transfers: Vec<(Name, Span, Vec<u32>, [f64; 2])>,
    makespan: f64,
    peaks: Vec<f64>,
    path: Vec<(Name, Span, Cause)>,
    port_seconds: Vec<f64>,
}

fn said(flow: &Flow, timeline: &Timeline) -> Said {
    let name = |transfer: u32| (flow.tensor_of(transfer), Some(flow.destinations(transfer).collect()));
    let in_use = |&transfer: &u32| flow.destinations(transfer).len() > 0;
    let about = |transfer: u32| {
        let span = timeline.transfers()[transfer as usize];
        (name(transfer), span, flow.ports_of(transfer).to_vec(), flow.transfer_seconds(transfer))
    };
    let path = timeline.critical_path(flow).into_iter().map(|step| match step.activity {
        Activity::Operator(op) => ((op, None), step.span, step.cause),
        Activity::Transfer(transfer) => (name(transfer), step.span, step.cause),
    });
    let transfers = 0..flow.transfer_count() as u32;
    assert!(
        transfers.clone().filter(|transfer| !in_use(transfer)).all(|transfer| {
            timeline.transfers()[transfer as usize].start == f64::INFINITY
                && flow.ports_of(transfer).is_empty()
        }),
        "what is not in use never starts"
    );
    Said {
        operators: (0..).map(|op| *flow.operator(op)).zip(timeline.operators().iter().copied()).collect(),
        transfers: transfers.filter(in_use).map(about).collect(),
        makespan: timeline.makespan(),
        peaks: timeline.peak_bytes().to_vec(),
        path: path.collect(),
        port_seconds: flow.port_seconds(),
    }
}

/// A schedule that can be run from the beginning.
struct Fresh<'p> {
    template: Template<'p>,
    simulator: Simulator,
    device_of: Vec<DeviceId>,
    ranks: Vec<u32>,
}

impl Fresh<'_> {
    fn run(&mut self) -> (Flow, Timeline) {
        let flow = self.template.flow(&self.device_of, &self.ranks, Flow::default());
        let timeline = self.simulator.run(&flow).clone();
        (flow, timeline)
    }

    /// Checks that a run of the schedule agrees with a run from the beginning.
    fn agrees(&mut self, flow: &Flow, timeline: &Timeline, what: &str) {
        let (expected_flow, expected) = self.run();
        assert_eq!(said(flow, timeline), said(&expected_flow, &expected), "{what}");
    }

    /// Random changes: operators move, and ranks are exchanged or redrawn, possibly to equal ranks.
    fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<Change> {
        let count = self.device_of.len();
        let mut changes = Vec::new();
        for _ in 0..rng.random_range(0..4) {
            let [a, b] = [0; 2].map(|_| rng.random_range(0..count));
            let [op, other] = [a, b].map(|op| OpId(op as u32));
            match rng.random_range(0..4) {
                0 if !self.ranks.is_empty() => {
                    changes.push(Change::Rank(op, self.ranks[b]));
                    changes.push(Change::Rank(other, self.ranks[a]));
                }
                1 if !self.ranks.is_empty() => {
                    changes.push(Change::Rank(op, rng.random_range(0..count as u32)));
                }
                _ => changes.push(Change::Device(op, DeviceId(rng.random_range(0..DEVICES)))),
            }
        }
        changes
    }

    fn apply(&mut self, changes: &[Change]) {
        for &change in changes {
            match change {
                Change::Device(op, device) => self.device_of[op.index()] = device,
                Change::Rank(op, rank) => self.ranks[op.index()] = rank,
            }
        }
    }
}

fn problem(rng: &mut ChaCha8Rng, figures: Figures) -> Problem {
    let (operators, tensors) = match rng.random_bool(0.5) {
        true => (rng.random_range(1..10), 12),
        false => (rng.random_range(10..40), 60),
    };
    let mut model = model_of(rng, figures, operators, tensors);
    // Most inputs come from nearby operators, so that not everything depends on the first operators.
    for tensor in &mut model.tensors {
        let near = rng.random_range(1..10);
        tensor.consumers.truncate(near);
    }
    let execution = if rng.random_bool(0.25) { Execution::ContentionFree } else { Execution::Ports };
    model.problem_under(execution)
}

/// Lower bounds on the seconds from the end of every operator to the end of the step.
fn tails(problem: &Problem) -> Vec<f64> {
    let graph = problem.graph();
    let mut tails = vec![0.0f64; graph.operator_count()];
    for &op in graph.topological().iter().rev() {
        let after = |&next: &OpId| {
            let seconds = (0..problem.pools().len()).filter_map(|pool| problem.seconds(next, pool));
            seconds.fold(f64::INFINITY, f64::min) + tails[next.index()]
        };
        tails[op.index()] = graph.successors(op).iter().map(after).fold(0.0, f64::max);
    }
    // The simulator adds in another order, so its sums may be slightly smaller.
    tails.iter().map(|tail| tail * (1.0 - 1e-12)).collect()
}

fn limit(rng: &mut ChaCha8Rng, makespan: f64) -> f64 {
    match rng.random_range(0..5) {
        0 => makespan,
        1 => makespan.next_up(),
        2 => makespan * rng.random_range(0.5..1.5),
        _ => f64::INFINITY,
    }
}

#[test]
fn changed_schedules_run_as_from_the_beginning() {
    let [mut kept, mut late, mut below] = [0; 3];
    for instance in 0..INSTANCES {
        let mut rng = seed::stream(17, instance);
        let figures = if rng.random_bool(0.5) { Figures::Whole } else { Figures::Real };
        let problem = problem(&mut rng, figures);
        let count = problem.graph().operator_count();
        let mut fresh = Fresh {
            template: Template::new(&problem),
            simulator: Simulator::new(),
            device_of: (0..count).map(|_| DeviceId(rng.random_range(0..DEVICES))).collect(),
            ranks: Vec::new(),
        };
        if rng.random_bool(0.5) {
            fresh.ranks.extend((0..count).map(|_| rng.random_range(0..count as u32)));
        }
        let mut rerun = Rerun::new(&problem, tails(&problem));
        rerun.settle(&fresh.device_of, &fresh.ranks);
        fresh.agrees(rerun.flow(), rerun.timeline(), &format!("instance {instance}"));
        for number in 0..MOVES {
            let what = format!("instance {instance}, move {number}");
            let before = (fresh.device_of.clone(), fresh.ranks.clone());
            let mut is_settled = true;
            // One change, and sometimes a second on top of it.
            for _ in 0..rng.random_range(1..3) {
                let changes = fresh.draw(&mut rng);
                is_settled &= changes.is_empty();
                fresh.apply(&changes);
                rerun.change(changes);
                if rng.random_bool(0.2) {
                    continue;
                }
                let (_, timeline) = fresh.run();
                let (makespan, peak_bytes) = (timeline.makespan(), timeline.peak_bytes().to_vec());
                let limit = limit(&mut rng, makespan);
                let expected = (makespan < limit).then_some(Outcome { makespan, peak_bytes });
                assert_eq!(rerun.run_below(limit), expected.as_ref(), "{what}: limit {limit}");
                late += usize::from(makespan >= limit);
                below += usize::from(makespan < limit);
            }
            match rng.random_range(0..8) {
                0 => {
                    rerun.settle(&fresh.device_of, &fresh.ranks);
                }
                1..4 => {
                    rerun.keep();
                    kept += usize::from(!is_settled);
                }
                _ => {
                    rerun.take_back();
                    (fresh.device_of, fresh.ranks) = before;
                }
            }
            fresh.agrees(rerun.flow(), rerun.timeline(), &what);
        }
    }
    assert!(kept > 1000 && late > 1000 && below > 1000, "{kept} kept, {late} late, {below} below");
}
