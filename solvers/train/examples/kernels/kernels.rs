//! Errors on files of kernels in single precision, by operator and device: of networks trained on the file's own `train`
//! rows, and of a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_costs::Summary;
use stagewright_learned::{Estimator, Group, Processor, Rowwise, Shape, checkpoint, features::features};
use stagewright_train::kernels::{KernelSettings, Sample};

use super::models;
use super::sources::Sources;
use super::{Outcome, fitted};

/// Share of the peak that the guess of plans without measurements assumes, and its seconds of a launch.
const GUESS: (f64, f64) = (0.5, 5e-6);

/// Prints the errors.
pub(crate) fn judge(
    sources: &Sources,
    settings: &KernelSettings,
    file: Option<&str>,
    models: Option<&str>,
    part: Option<&str>,
) -> Outcome<()> {
    let mut contenders: Vec<(&str, Estimator)> = Vec::new();
    if part.is_some_and(|part| !["kernels", "convolutions"].contains(&part)) {
        return Ok(());
    }
    // Convolutions of other devices are in the same file: they are learned with a device left out, below.
    let learned: Vec<&Sample> = sources
        .kernels
        .iter()
        .filter(|sample| !sample.is_test && sample.group() != Some(Group::Convolutions))
        .collect();
    let seen: BTreeSet<&str> = learned.iter().map(|sample| sample.device.name.as_str()).collect();
    if !learned.is_empty() {
        contenders.push(("of its train rows", Estimator::new(fitted(&learned, settings, None)?)));
    }
    if let Some(file) = file {
        contenders.push(("checkpoint", Estimator::new(checkpoint::read(&std::fs::read(file)?)?.0)));
    }
    let test: Vec<&Sample> = sources.kernels.iter().filter(|sample| sample.is_test).collect();
    println!("\nkernels to be predicted; devices that the train rows have: {seen:?}");
    table(&test, &contenders, &seen);
    if let Some(models) = models {
        let seen: Vec<&str> = seen.iter().copied().collect();
        let contenders: Vec<(&str, &Estimator)> =
            contenders.iter().map(|(name, estimator)| (*name, estimator)).collect();
        models::judge(models, &seen, &contenders)?;
    }
    let convolutions: Vec<&Sample> =
        sources.kernels.iter().filter(|sample| sample.group() == Some(Group::Convolutions)).collect();
    let devices: BTreeSet<&str> = convolutions.iter().map(|sample| sample.device.name.as_str()).collect();
    if devices.len() > 1 && part.is_none_or(|part| part == "convolutions") {
        println!("\nconvolutions, a device left out");
        for name in devices {
            let (test, learned): (Vec<&Sample>, Vec<&Sample>) =
                convolutions.iter().partition(|sample| sample.device.name == name);
            let estimator = Estimator::new(fitted(&learned, settings, None)?);
            table(&test, &[("of the others", estimator)], &BTreeSet::new());
        }
    }
    Ok(())
}

fn table(test: &[&Sample], contenders: &[(&str, Estimator)], seen: &BTreeSet<&str>) {
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    println!("| kernel | device | n | guess | {} |", names.join(" | "));
    println!("| --- | --- | ---: | ---: |{}", " ---: |".repeat(names.len()));
    let mut rows: BTreeMap<(&str, String), Vec<&Sample>> = BTreeMap::new();
    for sample in test {
        let kind = kind(&sample.shape);
        rows.entry((kind, sample.device.name.clone())).or_default().push(sample);
        let which = if seen.contains(sample.device.name.as_str()) { "all seen" } else { "all unseen" };
        rows.entry((kind, which.into())).or_default().push(sample);
    }
    for ((kind, device), samples) in rows {
        let cell = |predict: &dyn Fn(&Sample) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> =
                samples.iter().filter_map(|sample| Some((predict(sample)?, sample.seconds))).collect();
            Summary::of(&pairs).map_or("–".into(), |summary| {
                let [median, p90, mean] =
                    [summary.median, summary.p90, summary.mean].map(|share| 100.0 * share);
                format!("{median:.1} / {p90:.1}, mean {mean:.1}")
            })
        };
        let learned: Vec<String> = contenders
            .iter()
            .map(|(_, estimator)| {
                cell(&|sample| {
                    Some(estimator.seconds(sample.device, &sample.shape, sample.precision)?.seconds)
                })
            })
            .collect();
        println!("| {kind} | {device} | {} | {} | {} |", samples.len(), cell(&guess), learned.join(" | "));
    }
}

/// Seconds by the roofline at half of the peak.
fn guess(sample: &Sample) -> Option<f64> {
    let processor = Processor::new(sample.device, sample.precision)?;
    let seen = features(&sample.shape, sample.precision, &processor)?;
    let [compute, memory] = seen.kilocycles.map(|cycles| processor.seconds(cycles));
    Some((compute / GUESS.0).max(memory) + GUESS.1)
}

fn kind(shape: &Shape) -> &'static str {
    match shape {
        Shape::Library(document) => match document {
            stagewright_core::document::KernelDocument::Product { batch, .. } if *batch == 1.0 => "linear",
            _ => "batched product",
        },
        Shape::Rows { operation: Rowwise::Softmax, .. } => "softmax",
        Shape::Rows { operation: Rowwise::LayerNormalisation, .. } => "normalisation",
        Shape::Rows { .. } => "elementwise",
        Shape::Convolution { .. } => "convolution",
    }
}
