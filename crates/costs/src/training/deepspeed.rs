//! Logs of DeepSpeed.
//!
//! ```text
//! … [Rank 0] time (ms) | optimizer_allgather: 12.61 | optimizer_gradients: 4.10 | optimizer_step: 21.92
//! … [Rank 0] time (ms) | fwd_microstep: 90.1 | bwd_microstep: 181.4 | … | step_microstep: 40.0
//! … [Rank 0] time (ms) | fwd: 180.3 | bwd: 362.6 | bwd_inner: 341.1 | bwd_allreduce: 21.5 | step: 40.1
//! … epoch=0/micro_step=40/global_step=20, RunningAvgSamplesPerSec=54.9, CurrSamplesPerSec=55.2, MemAllocated=…
//! steps: 20 loss: 7.1205 iter time (s): 0.583 samples/sec: 54.883
//! ```
//!
//! The times need `wall_clock_breakdown`. Those without `microstep` are sums over the microbatches of an iteration;
//! the others count only in a log without them. `step` includes the gather of parameters, `optimizer_allgather`, which
//! only ZeRO 1 and 2 print. The last line is that of pipelines. Times are those of rank 0.
//!
//! Source: `deepspeed/utils/timer.py`, `deepspeed/runtime/engine.py`, `deepspeed/runtime/pipe/engine.py`.

use super::lines::{from_ms, lines, number, number_after, positive, raise};
use super::{Kind, Log, PASS, Pace, Part, Timed, settled, warm_up};

/// Labels of the maximum of the bytes in use, in GiB.
const MEMORY: [&str; 3] = ["MaxMemAllocated=", "max_mem_allocated:", "Max_MA "];

pub(super) fn detect(text: &str) -> bool {
    ["time (ms) | fwd", "SamplesPerSec=", "iter time (s):"].iter().any(|mark| text.contains(mark))
}

/// Seconds of a line of timers.
#[derive(Default)]
struct Breakdown {
    /// Seconds of both passes, of reductions and of steps, of every iteration or microbatch.
    passes: Vec<f64>,
    reductions: Vec<f64>,
    steps: Vec<f64>,
    whole: Vec<f64>,
}

impl Breakdown {
    /// Adds a line of timers whose names end in `suffix`, if it is one.
    fn add(&mut self, line: &str, suffix: &str) {
        let timer = |name: &str| {
            let is_named = |field: &&str| {
                field
                    .trim_start()
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.strip_prefix(suffix).is_some_and(|rest| rest.starts_with(':')))
            };
            let field = line.split('|').find(is_named)?;
            from_ms(number(field.split_once(':')?.1)?)
        };
        let Some(((forward, backward), step)) = timer("fwd").zip(timer("bwd")).zip(timer("step")) else {
            return;
        };
        let Some(whole) = positive(forward + backward + step) else { return };
        let reduction = timer("bwd_allreduce").unwrap_or(0.0);
        self.passes.push(forward + (backward - reduction).max(0.0));
        self.reductions.push(reduction);
        self.steps.push(step);
        self.whole.push(whole);
    }
}

/// Timers of iterations and of microbatches, and of gathers of parameters.
#[derive(Default)]
struct Timers {
    iterations: Breakdown,
    microbatches: Breakdown,
    gathers: Vec<f64>,
}

impl Timers {
    fn add(&mut self, line: &str) {
        let Some((_, fields)) = line.split_once("time (ms) |") else { return };
        self.iterations.add(fields, "");
        self.microbatches.add(fields, "_microstep");
        self.gathers.extend(number_after(fields, "optimizer_allgather:").and_then(from_ms));
    }

    /// Seconds of an iteration by part, and the parts of its rest.
    fn timed(&self) -> (Vec<Timed>, Vec<Part>) {
        let Breakdown { passes, reductions, steps, .. } = &self.iterations;
        let figures = settled(passes).zip(settled(reductions)).zip(settled(steps));
        let Some(((passes, reduction), _)) = figures else { return (Vec::new(), Vec::new()) };
        let gather = settled(&self.gathers);
        let timed = vec![
            Timed { parts: PASS.to_vec(), seconds: passes },
            // With ZeRO 2 and 3, this is what is left of the reductions in the passes.
            Timed {
                parts: vec![Part::CopiesInPasses, Part::Copies],
                seconds: reduction + gather.unwrap_or(0.0),
            },
        ];
        let rest = [Part::Update, Part::Outside, Part::Copies];
        (timed, rest[..if gather.is_some() { 2 } else { 3 }].to_vec())
    }
}

/// Seconds by part, and the parts of the rest of an iteration.
pub(super) fn timed(text: &str) -> (Vec<Timed>, Vec<Part>) {
    let mut timers = Timers::default();
    lines(text).for_each(|line| timers.add(&line));
    timers.timed()
}

/// Reads a log; `None` if it has no iteration.
pub(super) fn read(text: &str) -> Option<Log> {
    let (mut timers, mut rates, mut seconds) = (Timers::default(), Vec::new(), Vec::new());
    let mut memory_bytes = None;
    for line in lines(text) {
        timers.add(&line);
        rates.extend(number_after(&line, "CurrSamplesPerSec=").and_then(positive));
        seconds.extend(number_after(&line, "iter time (s):").and_then(positive));
        for label in MEMORY {
            raise(&mut memory_bytes, number_after(&line, label).map(|gib| gib * f64::from(1 << 30)));
        }
    }
    let whole = &timers.iterations.whole;
    let microbatches = &timers.microbatches.whole;
    let (pace, count) = if let Some(seconds_of) = settled(&seconds) {
        (Pace::Iteration(seconds_of), seconds.len())
    } else if let Some(rate) = settled(&rates) {
        (Pace::Samples(rate), rates.len())
    } else if let Some(seconds) = settled(whole) {
        (Pace::Iteration(seconds), whole.len())
    } else {
        // The mean, as only the last microbatch of an iteration has the step.
        let settled = &microbatches[warm_up(microbatches.len())..];
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        (Pace::Microbatch(Some(mean).filter(|mean| mean.is_finite())?), microbatches.len())
    };
    let (timed, rest) = timers.timed();
    let warm_up = warm_up(count);
    let readings = count - warm_up;
    Some(Log {
        kind: Kind::Deepspeed,
        readings,
        warm_up,
        pace,
        timed,
        exposed: Vec::new(),
        rest,
        memory_bytes,
    })
}
