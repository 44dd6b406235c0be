//! Logs of Megatron-LM, and of NeMo, Megatron Bridge and Megatron-DeepSpeed.
//!
//! ```text
//!  iteration       20/     100 | consumed samples: 1280 | elapsed time per iteration (ms): 812.5 | …
//! (min, max) time across ranks (ms):
//!     forward-backward ...............................: (701.20, 702.90)
//!     forward-compute ................................: (210.31, 214.02)
//! [Rank 0] (after 20 iterations) memory (MB) | allocated: 9120.5 | max allocated: 30011.2 | …
//! Training epoch 0, iteration 20/99 | … | train_step_timing in s: 0.812 | …
//! ```
//!
//! Timers depend on `--timing-log-level`: 1 has those of both passes together, of collectives and of the optimizer, 2
//! also those of each pass. They are means over the iterations between two lines. Of the shortest and the longest time
//! across ranks, compute counts with the longest, as the slowest stage sets the pace, and a collective with the
//! shortest: the others wait for that rank. With `--timing-log-option max` there is only the longest.
//!
//! Collectives over copies are timed within `forward-backward` as `all-grads-sync`, and beside it under earlier
//! names. `optimizer-inner-step` is the update alone, a part of `optimizer`.
//!
//! Source: `training/training.py`, `core/timers.py` and `core/pipeline_parallel/schedules.py` of Megatron-LM; logs of
//! BLOOM, and of NeMo 2.

use std::collections::BTreeMap;

use super::lines::{from_ms, lines, number, number_after, positive, raise};
use super::{Kind, Log, PASS, Pace, Part, Timed, deepspeed, settled, warm_up};

/// Labels of the time of an iteration, and their units in seconds.
const LABELS: [(&str, f64); 5] = [
    ("elapsed time per iteration (ms):", 1e3),
    ("elapsed time per iteration (s):", 1.0),
    ("elapsed_time_per_iteration_ms=", 1e3),
    ("train_step_timing in s:", 1.0),
    ("train_step_timing in s=", 1.0),
];

/// Labels of the maximum of the bytes in use, and their units in bytes.
const MEMORY: [(&str, f64); 3] =
    [("max allocated:", 1_048_576.0), ("max_memory_allocated:", 1.0), ("peak_memory_usage:", 1.0)];

/// A timer across ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ForwardBackward,
    Forward,
    Backward,
    /// Reductions of gradients, within `forward-backward`.
    Reduction,
    /// Reductions of gradients after it.
    LateReduction,
    Gather,
    Step,
}

const TIMERS: [(&str, Timer); 9] = [
    ("forward-backward", Timer::ForwardBackward),
    ("forward-compute", Timer::Forward),
    ("backward-compute", Timer::Backward),
    ("all-grads-sync", Timer::Reduction),
    ("grads-reduce-scatter", Timer::LateReduction),
    ("grads-all-reduce", Timer::LateReduction),
    ("backward-params-all-reduce", Timer::LateReduction),
    ("params-all-gather", Timer::Gather),
    ("optimizer-inner-step", Timer::Step),
];

pub(super) fn detect(text: &str) -> bool {
    LABELS.iter().any(|(label, _)| text.contains(label))
}

/// Reads a log; `None` if it has no iteration.
pub(super) fn read(text: &str) -> Option<Log> {
    let mut seconds = Vec::new();
    let mut timers: BTreeMap<Timer, Vec<f64>> = BTreeMap::new();
    let mut memory_bytes = None;
    for line in lines(text) {
        let labelled = LABELS.iter().find_map(|(label, unit)| Some(number_after(&line, label)? / unit));
        seconds.extend(labelled.and_then(positive));
        for (label, unit) in MEMORY {
            raise(&mut memory_bytes, number_after(&line, label).map(|figure| figure * unit));
        }
        if let Some((timer, seconds)) = timed(&line) {
            timers.entry(timer).or_default().push(seconds);
        }
    }
    let iteration = settled(&seconds)?;
    let timers = timers.into_iter().filter_map(|(timer, figures)| Some((timer, settled(&figures)?)));
    let (mut timed, mut rest) = parts(&timers.collect());
    if timed.is_empty() {
        // Megatron-DeepSpeed leaves timers to DeepSpeed.
        (timed, rest) = deepspeed::timed(text);
    }
    let warm_up = warm_up(seconds.len());
    Some(Log {
        kind: Kind::Megatron,
        readings: seconds.len() - warm_up,
        warm_up,
        pace: Pace::Iteration(iteration),
        timed,
        exposed: Vec::new(),
        rest,
        memory_bytes,
    })
}

/// A timer and its seconds, from a line such as `optimizer .....: (40.10, 41.20)`.
fn timed(line: &str) -> Option<(Timer, f64)> {
    let (before, after) = line.split_once(" ..")?;
    let name = before.rsplit([' ', '\t']).next()?;
    let &(_, timer) = TIMERS.iter().find(|(known, _)| *known == name)?;
    let value = after.trim_start_matches('.').strip_prefix(':')?.trim_start();
    let (shortest, longest) = match value.strip_prefix('(') {
        Some(both) => {
            let (shortest, longest) = both.split_once(", ")?;
            (number(shortest)?, number(longest)?)
        }
        None => (number(value)?, number(value)?),
    };
    let is_collective = matches!(timer, Timer::Reduction | Timer::LateReduction | Timer::Gather);
    Some((timer, from_ms(if is_collective { shortest } else { longest })?))
}

/// Seconds by part, and the parts of the rest of an iteration.
fn parts(timers: &BTreeMap<Timer, f64>) -> (Vec<Timed>, Vec<Part>) {
    let known = |timer: Timer| timers.get(&timer).copied();
    let sum = |names: &[Timer]| names.iter().filter_map(|&timer| known(timer)).sum::<f64>();
    let mut groups = Vec::new();
    let mut add = |parts: &[Part], seconds: f64| {
        groups.push(Timed { parts: parts.to_vec(), seconds: seconds.max(0.0) });
    };
    let compute =
        known(Timer::Forward).zip(known(Timer::Backward)).map(|(forward, backward)| forward + backward);
    let both = known(Timer::ForwardBackward).map(|both| both - sum(&[Timer::Reduction]));
    match (compute, both) {
        (Some(compute), Some(both)) => {
            add(&PASS, compute);
            add(&[Part::Transfers, Part::Bubble], both - compute);
        }
        (None, Some(both)) => add(&[&PASS[..], &[Part::Transfers, Part::Bubble]].concat(), both),
        // Without the time of both passes, nothing says what the rest is.
        (_, None) => return (Vec::new(), Vec::new()),
    }
    if [Timer::Reduction, Timer::LateReduction, Timer::Gather].iter().any(|&timer| known(timer).is_some()) {
        add(&[Part::Copies], sum(&[Timer::Reduction, Timer::LateReduction, Timer::Gather]));
    }
    match known(Timer::Step) {
        Some(step) => {
            add(&[Part::Update], step);
            (groups, vec![Part::Outside])
        }
        None => (groups, vec![Part::Update, Part::Outside]),
    }
}
