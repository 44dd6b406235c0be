//! The dependency rules as a longest path over all tasks, independent of the engine and of the computation by slots.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::document::Schedule;
use stagewright_core::schedule::{Pipeline, Task, Work, chunked, iteration, orders};
use stagewright_core::seed;

use super::{close, pipeline, run, times};

/// The end of every task, found by repeated sweeps over the tasks until nothing changes.
fn ends(pipeline: &Pipeline) -> BTreeMap<Task, f64> {
    let is_split = pipeline.schedule.is_split();
    let orders = orders(pipeline.schedule, pipeline.devices, pipeline.stages.len(), pipeline.microbatches)
        .expect("orders");
    let sent: BTreeMap<Task, Task> = match pipeline.schedule {
        Schedule::DualPipeV => sent_together(&orders, pipeline.microbatches as usize),
        _ => BTreeMap::new(),
    };
    let mut ends: BTreeMap<Task, f64> = BTreeMap::new();
    let mut waiting: Vec<(usize, usize)> = orders.iter().enumerate().map(|(device, _)| (device, 0)).collect();
    let last = pipeline.stages.len() as u32 - 1;
    loop {
        let mut moved = false;
        for (device, done) in &mut waiting {
            let Some(&task) = orders[*device].get(*done) else { continue };
            let mut needs = Vec::new();
            if *done > 0 {
                needs.push(orders[*device][*done - 1]);
            }
            match task.work {
                Work::Forward if task.stage > 0 => needs.push(Task { stage: task.stage - 1, ..task }),
                Work::Forward => {}
                Work::Backward => {
                    needs.push(Task { work: Work::Forward, ..task });
                    if task.stage < last {
                        needs.push(Task { stage: task.stage + 1, ..task });
                    }
                }
                Work::Weight => needs.push(Task { work: Work::Backward, ..task }),
            }
            let is_elsewhere =
                |need: &Task| pipeline.schedule.device(need.stage as usize, orders.len()) != *device;
            for need in needs.iter_mut().filter(|need| is_elsewhere(need)) {
                *need = sent.get(need).copied().unwrap_or(*need);
            }
            let Some(ready) = needs.iter().map(|need| ends.get(need).copied()).collect::<Option<Vec<f64>>>()
            else {
                continue;
            };
            let times = pipeline.stages[task.stage as usize].times;
            let seconds = match task.work {
                Work::Forward => times.forward,
                Work::Backward if is_split => times.backward,
                Work::Backward => times.backward + times.weight,
                Work::Weight => times.weight,
            };
            ends.insert(task, ready.into_iter().fold(0.0, f64::max) + seconds);
            *done += 1;
            moved = true;
        }
        if !moved {
            assert!(
                waiting.iter().all(|&(device, done)| done == orders[device].len()),
                "the orders wait for each other"
            );
            return ends;
        }
    }
}

/// Tasks under DualPipeV and the task with whose end their results are sent, from the published numbers of steps.
fn sent_together(orders: &[Vec<Task>], microbatches: usize) -> BTreeMap<Task, Task> {
    let devices = orders.len();
    let mut sent = BTreeMap::new();
    for (device, order) in orders.iter().enumerate() {
        let behind = devices - 1 - device;
        let mut lengths = vec![1; 2 * behind + 2 * (device + 1) + 3 * behind];
        for pair in 0..microbatches + device + 1 - 2 * devices {
            lengths.extend(if pair == 0 && behind == 0 { vec![1, 2] } else { vec![3] });
            lengths.push(3);
        }
        lengths.extend([2, 3].repeat(behind));
        lengths.extend(vec![2; device + 1]);
        let mut left = order.as_slice();
        for length in lengths {
            let (together, others) = left.split_at(length);
            sent.extend(together.iter().map(|&task| (task, together[length - 1])));
            left = others;
        }
    }
    sent
}

fn random(schedule: Schedule, rng: &mut impl rand::Rng) -> Pipeline {
    let devices = rng.random_range(1..=5);
    let chunks = match schedule {
        Schedule::Interleaved => rng.random_range(1..=3),
        Schedule::DualPipeV => 2,
        _ => 1,
    };
    let microbatches = match schedule {
        Schedule::Interleaved => devices * rng.random_range(1..=3),
        Schedule::DualPipeV => 2 * devices + rng.random_range(0..=5),
        _ => rng.random_range(1..=9),
    };
    let mut time = || if rng.random_bool(0.15) { 0.0 } else { rng.random_range(0.0..3.0) };
    let stages: Vec<[f64; 3]> = (0..devices * chunks).map(|_| [time(), time(), time()]).collect();
    Pipeline { devices, ..pipeline(schedule, microbatches, &stages) }
}

#[test]
fn every_task_ends_when_the_rules_say() {
    let schedules = [
        Schedule::GPipe,
        Schedule::OneFOneB,
        Schedule::Interleaved,
        Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice,
        Schedule::DualPipeV,
    ];
    for (number, schedule) in (0..600).zip(schedules.into_iter().cycle()) {
        let mut rng = seed::stream(number, 0);
        let pipeline = random(schedule, &mut rng);
        let run = run(&pipeline);
        let ends = ends(&pipeline);
        let mut ran = 0;
        for &(task, span) in run.tasks.iter().flatten() {
            assert!(
                close(span.end, ends[&task]),
                "{number} {schedule:?} {task:?}: {} for {}",
                span.end,
                ends[&task]
            );
            ran += 1;
        }
        assert_eq!(ran, ends.len());
        let time = match schedule {
            _ if schedule.has_chunks() => {
                let (devices, m) = (pipeline.devices, pipeline.microbatches);
                chunked(schedule, &times(&pipeline), devices, m).expect("a schedule")
            }
            _ => iteration(schedule, &times(&pipeline), pipeline.microbatches),
        };
        assert!(close(run.seconds, time), "{number} {schedule:?}: {} and {time}", run.seconds);
        let busy: f64 = pipeline.stages.iter().map(|stage| stage.times.total()).sum::<f64>();
        let share =
            1.0 - busy * f64::from(pipeline.microbatches) / (f64::from(pipeline.devices) * run.seconds);
        assert!((run.bubble - share.max(0.0)).abs() < 1e-9, "{number}: {} for {share}", run.bubble);
    }
}

#[test]
fn transfers_delay_the_next_stage_and_wait_for_their_link() {
    let mut pipeline = pipeline(Schedule::GPipe, 3, &[[1.0, 1.0, 0.0]; 2]);
    pipeline.transfers = vec![[2.0, 0.5]];
    // The forward passes on the first stage end at 1, 2, 3, and the link delivers them at 3, 5, 7. The last forward
    // pass on the second stage ends at 8, its backward passes at 9, 10, 11. The last gradient arrives at 11.5, and the
    // backward pass that reads it ends at 12.5.
    let run = run(&pipeline);
    assert_eq!(run.seconds, 12.5);
    assert_eq!(run.busy, [6.0, 6.0]);
}
