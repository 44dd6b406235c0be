//! Measurement of a model and of the links between processes.
//!
//! A copy of the model runs on every core at the same time: like the stages of a pipeline, the copies share memory
//! bandwidth and caches. Each copy is first timed as a whole, without a profile; then ONNX Runtime times its nodes. As
//! the clock and the bookkeeping of the profile take time, the seconds of the nodes are scaled to add up to those of
//! the whole. The time of a fused kernel is divided among the nodes that it replaces, in proportion to their work.

use std::collections::BTreeMap;
use std::path::Path;

use stagewright_formats::onnx::Whole;

use crate::cut::write_whole;
use crate::error::{Result, RunError};
use crate::kernels::{NodeTimes, by_operator, median, node_times};
use crate::pipeline::{Host, connect, out_of_turn, token};
use crate::protocol::{Order, PingTask, ProfileReport, ProfileTask, Report, Work};

/// Sizes of the tensors that links are measured with, and the number of each.
const SIZES: [(u64, u32); 9] = [
    (1 << 6, 2000),
    (1 << 10, 2000),
    (1 << 13, 2000),
    (1 << 16, 1000),
    (1 << 18, 500),
    (1 << 20, 200),
    (1 << 22, 60),
    (1 << 24, 20),
    (1 << 26, 6),
];

/// Measured seconds of a model.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Median seconds of the whole model.
    pub whole_s: f64,
    /// Interquartile range of the whole model, as a share of the median.
    pub spread: f64,
    /// Median seconds by operator; they add up to the seconds of the whole model.
    pub seconds: BTreeMap<String, f64>,
    /// Interquartile range by operator, as a share of the median.
    pub spreads: BTreeMap<String, f64>,
    /// Sum of the nodes' seconds before scaling, as a share of the seconds of the whole model.
    pub covered: f64,
}

/// Measures a model on all cores of a host at once. The weights have been [gathered](crate::weights::gather) in the
/// folder. `share` returns the amount of work of an operator; the seconds of a fused kernel are divided in proportion
/// to it.
///
/// # Errors
/// If a process fails, or its profile cannot be read.
pub fn profile(
    host: &Host,
    whole: &Whole,
    share: &dyn Fn(&str) -> f64,
    runs: u32,
    seed: u64,
    folder: &Path,
) -> Result<Profile> {
    let model = folder.join("whole.onnx");
    let inputs = write_whole(whole, &model)?;
    let optimized = folder.join("optimized.onnx");
    let copies = host.cores.len().max(1);
    let work = (0..copies).map(|index| {
        let task = ProfileTask {
            model: model.clone(),
            inputs: inputs.clone(),
            seed,
            runs,
            profile: Some(folder.join(format!("profile-{index}"))),
            optimized: (index == 0).then(|| optimized.clone()),
            outputs: None,
        };
        (format!("copy {index}"), Work::Profile(task))
    });
    let mut children = host.start(work.collect())?;
    let mut ready = 0;
    let mut reports: Vec<Option<ProfileReport>> = vec![None; copies];
    while reports.iter().any(Option::is_none) {
        let pending: Vec<bool> = reports.iter().map(Option::is_none).collect();
        match children.next(&|index| pending[index])? {
            (_, Report::Ready { .. }) => ready += 1,
            (index, Report::Profile(report)) => reports[index] = Some(report),
            (index, _) => return Err(out_of_turn(&children, index)),
        }
        if ready == copies {
            (0..copies).try_for_each(|index| children.order(index, &Order::Go))?;
            ready = 0;
        }
    }
    children.finish();
    let reports: Vec<ProfileReport> = reports.into_iter().flatten().collect();
    let mut seconds: Vec<f64> = reports.iter().flat_map(|report| report.seconds.clone()).collect();
    let (whole_s, spread) = median(&mut seconds);
    let mut times = NodeTimes::new();
    for path in reports.iter().filter_map(|report| report.profile.as_ref()) {
        node_times(path, &mut times)?;
    }
    let (mut seconds, spreads) = by_operator(whole, &optimized, times, share)?;
    let sum: f64 = seconds.values().sum();
    if sum <= 0.0 || whole_s <= 0.0 {
        let message = "its profile has no times of nodes".to_owned();
        return Err(RunError::Failed { device: "the whole model".into(), message });
    }
    seconds.values_mut().for_each(|seconds| *seconds *= whole_s / sum);
    Ok(Profile { whole_s, spread, seconds, spreads, covered: sum / whole_s })
}

/// Bytes of a tensor, and seconds to send it from one process to another, each on a core of its own: medians of three
/// rounds.
///
/// # Errors
/// If a process fails.
pub fn links(host: &Host) -> Result<Vec<[f64; 2]>> {
    let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for _ in 0..3 {
        let token = token();
        let task = |index| Work::Ping(PingTask { index, token: token.clone(), sizes: SIZES.to_vec() });
        let mut children =
            host.start(vec![("the sender".into(), task(0)), ("the receiver".into(), task(1))])?;
        connect(&mut children)?;
        let mut reports = 0;
        while reports < 2 {
            match children.next(&|_| true)? {
                (1, Report::Ping(times)) => {
                    reports += 1;
                    times
                        .into_iter()
                        .for_each(|(bytes, seconds)| rounds.entry(bytes).or_default().push(seconds));
                }
                (0, Report::Ping(_)) => reports += 1,
                (index, _) => return Err(out_of_turn(&children, index)),
            }
        }
        children.finish();
    }
    Ok(rounds.into_iter().map(|(bytes, mut seconds)| [bytes as f64, median(&mut seconds).0]).collect())
}
