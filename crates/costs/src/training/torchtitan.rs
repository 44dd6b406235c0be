//! Logs of torchtitan.
//!
//! ```text
//! [titan] … - root - INFO - step: 20  loss:  7.1205  grad_norm:  1.9  memory: 35.30GiB(37.17%)  tps: 7,012  tflops: …
//! ```
//!
//! A line is printed for the first step and for every `log_freq` steps; its rate is the mean since the last line,
//! on one device. `wps` is an earlier name of the rate. The memory is what the allocator reserved at most, since no
//! line says what was in use. Lines of validation do not count.
//!
//! Source: `torchtitan/components/metrics.py`.

use super::lines::{lines, number_after, positive, raise};
use super::{Kind, Log, Pace, settled, warm_up};

const RATES: [&str; 2] = [" tps:", " wps:"];

pub(super) fn detect(text: &str) -> bool {
    lines(text).any(|line| is_step(&line))
}

/// Whether a line is that of a training step.
fn is_step(line: &str) -> bool {
    line.contains("step:")
        && line.contains("loss:")
        && !line.contains("validate step:")
        && RATES.iter().any(|rate| line.contains(rate))
}

/// Reads a log; `None` if it has no iteration.
pub(super) fn read(text: &str) -> Option<Log> {
    let mut rates = Vec::new();
    let mut memory_bytes = None;
    for line in lines(text).filter(|line| is_step(line)) {
        let rate = RATES.iter().find_map(|label| number_after(&line, label)).and_then(positive);
        rates.extend(rate);
        let gib = number_after(&line, "memory:").filter(|_| line.contains("GiB"));
        raise(&mut memory_bytes, gib.map(|gib| gib * f64::from(1 << 30)));
    }
    let warm_up = warm_up(rates.len());
    Some(Log {
        kind: Kind::Torchtitan,
        readings: rates.len() - warm_up,
        warm_up,
        pace: Pace::Tokens(settled(&rates)?),
        timed: Vec::new(),
        exposed: Vec::new(),
        rest: Vec::new(),
        memory_bytes,
    })
}
