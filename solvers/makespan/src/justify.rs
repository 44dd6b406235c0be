//! Forward-backward improvement of priorities.
//!
//! The devices stay. The step is scheduled from its end: every device runs, of the operators whose readers have all run, the
//! one that ended last. The order of that schedule, reversed, gives the priorities of the next simulation. Operators that others
//! wait for get ahead of those that can wait, which no longest path shows if devices are busy.
//!
//! Li and Willis, "An iterative scheduling technique for resource-constrained project scheduling", EJOR 1992; Tormos and Lova,
//! "A competitive heuristic solution technique for resource-constrained project scheduling", Annals of Operations Research
//! 2001.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::instance::Instance;
use super::schedule::{Best, Evaluator, Schedule, is_better};

/// Number of passes without an improvement after which the last one ends.
const PATIENCE: usize = 2;
/// Factor below which a makespan counts as an improvement.
const BETTER: f64 = 0.9999;

/// Number of simulations for which a search reserves time, and the largest share of its time.
const RESERVED: u32 = 10;
const RESERVED_SHARE: f64 = 0.25;

/// Time that a search of some length leaves to [`justified`], if a simulation takes as long as given.
pub(super) fn reserve(simulation: Duration, search: Option<Duration>) -> Duration {
    let most = search.map_or(Duration::MAX, |time| time.mul_f64(RESERVED_SHARE));
    (simulation * RESERVED).min(most)
}

/// The best of a schedule and the schedules that forward and backward passes derive from it. O(pins log operators) for
/// each pass.
pub(super) fn justified(evaluator: &mut Evaluator<'_, '_>, schedule: Schedule, stop: &Stop) -> Best {
    let instance = evaluator.instance();
    let begin = Instant::now();
    let mut best = Best { score: evaluator.score(&schedule), schedule };
    // A pass schedules the step twice, and ends only with its simulation.
    let mut longest = 2 * begin.elapsed();
    let mut idle = 0;
    while idle < PATIENCE && stop.reason().is_none() && stop.remaining().is_none_or(|left| left >= longest) {
        let begin = Instant::now();
        let ends = evaluator.last().1.operators().iter().map(|span| span.end).collect();
        let order = backward(instance, &best.schedule.device_of, &ends);
        let schedule = Schedule::by_order(best.schedule.device_of.clone(), &order);
        let score = evaluator.score(&schedule);
        let is_enough = score.lack < best.score.lack || score.makespan < BETTER * best.score.makespan;
        let is_new = is_better(score, best.score);
        idle = if is_new && is_enough { 0 } else { idle + 1 };
        if is_new {
            best = Best { score, schedule };
        }
        longest = longest.max(begin.elapsed());
    }
    best
}

/// A time or a rank in a heap.
#[derive(Debug, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// An event on the way from the end of the step to its beginning. The variants are in the order in which events of
/// the same time are handled.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// All readers of an operator have run.
    Ready(OpId),
    Done(OpId),
}

/// The operators in the order of a schedule from the end of the step, reversed. Of the operators that can run, a device runs
/// the one with the latest end. Transfers do not queue.
fn backward(instance: &Instance<'_>, device_of: &[DeviceId], ends: &Keyed<OpId, f64>) -> Vec<OpId> {
    let graph = instance.graph();
    let readers = |op: OpId| graph.outputs(op).iter().map(|&tensor| graph.consumers(tensor).len()).sum();
    let mut waits: Keyed<OpId, usize> = graph.operators().map(readers).collect();
    let mut ready = Keyed::filled(0.0f64, graph.operator_count());
    let mut done = Keyed::filled(0.0f64, graph.operator_count());
    let mut queues: Keyed<DeviceId, BinaryHeap<(Time, OpId)>> =
        (0..instance.device_count()).map(|_| BinaryHeap::new()).collect();
    let mut is_busy = Keyed::filled(false, instance.device_count());
    let last = graph.operators().filter(|&op| waits[op] == 0);
    let mut events: BinaryHeap<Reverse<(Time, Event)>> =
        last.map(|op| Reverse((Time(0.0), Event::Ready(op)))).collect();
    let mut waiting = Vec::new();
    while let Some(Reverse((Time(now), event))) = events.pop() {
        let device = match event {
            Event::Ready(op) => {
                let device = device_of[op.index()];
                queues[device].push((Time(ends[op]), op));
                device
            }
            Event::Done(op) => {
                let device = device_of[op.index()];
                is_busy[device] = false;
                for &tensor in graph.inputs(op) {
                    let producer = graph.producer(tensor);
                    let from = device_of[producer.index()];
                    let sent = if from == device {
                        0.0
                    } else {
                        instance.fabric().route(tensor, from, device).seconds
                    };
                    ready[producer] = ready[producer].max(now + sent);
                    waits[producer] -= 1;
                    if waits[producer] == 0 {
                        events.push(Reverse((Time(ready[producer]), Event::Ready(producer))));
                    }
                }
                device
            }
        };
        waiting.push(device);
        // A device chooses once everything that happens at the same time is known.
        if events.peek().is_some_and(|Reverse((Time(next), _))| *next <= now) {
            continue;
        }
        for device in waiting.drain(..) {
            if !is_busy[device]
                && let Some((_, op)) = queues[device].pop()
            {
                is_busy[device] = true;
                done[op] = now + instance.seconds(op, device);
                events.push(Reverse((Time(done[op]), Event::Done(op))));
            }
        }
    }
    let mut order = graph.topological().to_vec();
    order.sort_by(|&a, &b| done[b].total_cmp(&done[a]));
    order
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Execution;
    use stagewright_core::objective::Objective;
    use stagewright_testing::random::{self, Size};

    use super::*;
    use crate::heft::HEFT;

    #[test]
    fn passes_keep_devices_and_never_make_a_schedule_longer() {
        let mut shorter = 0;
        for number in 0..200 {
            let size = Size { operators: 40, devices: 4, groups: number % 2 == 0 };
            let objective = Objective::Makespan { execution: Execution::Ports };
            let problem = random::problem(number, size).with_objective(objective).expect("an objective");
            let instance = Instance::new(&problem);
            if instance.unplaceable().is_some() {
                continue;
            }
            let mut evaluator = Evaluator::new(&instance);
            let Some(start) = HEFT.best(&mut evaluator, &Stop::never()) else { continue };
            let found = justified(&mut evaluator, start.schedule.clone(), &Stop::never());
            assert_eq!(found.schedule.device_of, start.schedule.device_of, "{number}");
            assert!(found.score <= start.score, "{number}");
            assert_eq!(evaluator.score(&found.schedule), found.score, "{number}");
            shorter += u32::from(found.score.makespan < start.score.makespan);
        }
        assert!(shorter >= 5, "{shorter} of 200 schedules became shorter");
    }

    #[test]
    fn an_order_from_the_end_is_a_topological_order() {
        for number in 0..100 {
            let size = Size { operators: 30, devices: 3, groups: false };
            let objective = Objective::Makespan { execution: Execution::Ports };
            let problem = random::problem(number, size).with_objective(objective).expect("an objective");
            let instance = Instance::new(&problem);
            if instance.unplaceable().is_some() {
                continue;
            }
            let graph = problem.graph();
            let device_of: Vec<DeviceId> = graph.operators().map(|op| instance.homes(op)[0]).collect();
            let order = backward(&instance, &device_of, &Keyed::filled(1.0, graph.operator_count()));
            let mut place = vec![0; order.len()];
            order.iter().enumerate().for_each(|(index, op)| place[op.index()] = index);
            for op in graph.operators() {
                assert!(graph.successors(op).iter().all(|next| place[op.index()] < place[next.index()]));
            }
        }
    }
}
