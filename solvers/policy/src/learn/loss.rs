//! Imitation loss of a network against its targets.

use candle_core::{DType, Device, Result, Tensor};
use stagewright_core::ids::Id;

use super::example::Targets;
use crate::network::{Batch, Output};
use crate::rows::Rows;

/// Weights of the terms of the loss.
const AFFINITY: f64 = 1.0;
const TOGETHER: f64 = 1.0;
const PRIORITY: f64 = 0.5;
const VALUE: f64 = 0.2;

/// The loss and its terms, each averaged over graphs.
#[derive(Debug, Clone)]
pub struct Losses {
    /// Weighted sum, as a scalar to differentiate.
    pub total: Tensor,
    /// Cross entropy of the devices of units.
    pub affinity: f64,
    /// Binary cross entropy of edges with both ends on one device.
    pub together: f64,
    /// Logistic loss of the order of pairs.
    pub priority: f64,
    /// Squared error of the predicted value.
    pub value: f64,
    /// Accuracy: weighted share of the units whose most likely device is the one with the largest target.
    pub hits: f64,
}

/// Computes the loss of a batch against the targets of its graphs, in order.
///
/// # Errors
/// If a tensor operation fails.
pub fn imitation(output: &Output, batch: &Batch, targets: &[&Targets]) -> Result<Losses> {
    let graphs = targets.len().max(1) as f32;
    let column = |numbers: Vec<f32>| column(numbers, batch.dtype, output.value.device());
    let all = |figures: fn(&Targets) -> &[f32], scale: f32| -> Result<Tensor> {
        column(
            targets.iter().flat_map(|targets| figures(targets).iter().map(|number| number * scale)).collect(),
        )
    };
    // Kernels cannot run on empty tensors.
    let together = if batch.from.row_count() == 0 {
        Tensor::zeros((), batch.dtype, output.value.device())?
    } else {
        let edge_weight = all(|targets| &targets.edge_weight, 1.0 / graphs)?;
        let together = cross_entropy(&output.together, &all(|targets| &targets.together, 1.0)?)?;
        (together * edge_weight)?.sum_all()?
    };

    let likely = log_probabilities(&output.affinity, batch)?;
    let taught = all(|targets| &targets.affinity, 1.0)?;
    let unit_weight = all(|targets| &targets.unit_weight, 1.0 / graphs)?;
    let by_unit = batch.pairs_of_unit.sum(&(&likely * &taught)?)?.neg()?;
    let affinity = (by_unit * &unit_weight)?.sum_all()?;
    let hits = hits(&likely, &taught, &unit_weight, batch)?;

    let priority = ordered(output, batch, targets)?;
    let values = column(targets.iter().map(|targets| targets.value).collect())?;
    let value = ((&output.value - values)?.sqr()?.sum_all()? * f64::from(1.0 / graphs))?;
    let total = ((&affinity * AFFINITY)? + (&together * TOGETHER)?)?;
    let total = ((total + (&priority * PRIORITY)?)? + (&value * VALUE)?)?;
    Ok(Losses {
        total,
        affinity: number(&affinity)?,
        together: number(&together)?,
        priority: number(&priority)?,
        value: number(&value)?,
        hits,
    })
}

/// Log-probabilities of the devices of each unit, p × 1.
fn log_probabilities(affinity: &Tensor, batch: &Batch) -> Result<Tensor> {
    let largest = batch.unit_of_pair.sum(&batch.pairs_of_unit.max(&affinity.detach())?)?;
    let shifted = (affinity - largest)?;
    let sums = batch.pairs_of_unit.sum(&shifted.exp()?)?.log()?;
    shifted - batch.unit_of_pair.sum(&sums)?
}

/// Element-wise binary cross entropy of logits against probabilities, without overflow.
fn cross_entropy(logits: &Tensor, likely: &Tensor) -> Result<Tensor> {
    let tail = (logits.abs()?.neg()?.exp()? + 1.0)?.log()?;
    (logits.relu()? - (logits * likely)?)? + tail
}

/// Mean logistic loss of pairs, averaged over graphs.
fn ordered(output: &Output, batch: &Batch, targets: &[&Targets]) -> Result<Tensor> {
    let (mut earlier, mut later, mut weight) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    for (targets, size) in targets.iter().zip(&batch.sizes) {
        let share = 1.0 / (targets.before.len().max(1) * batch.sizes.len()) as f32;
        for &(a, b) in &targets.before {
            earlier.push(first + a.0);
            later.push(first + b.0);
            weight.push(share);
        }
        first += u32::new(size[0]);
    }
    if earlier.is_empty() {
        return Tensor::zeros((), batch.dtype, output.value.device());
    }
    let units = first as usize;
    let gather = |indices| Rows::gather(units, indices).map_err(candle_core::Error::wrap);
    let behind = (gather(later)?.sum(&output.priority)? - gather(earlier)?.sum(&output.priority)?)?;
    let ones = behind.ones_like()?;
    let weight = column(weight, batch.dtype, output.value.device())?;
    (cross_entropy(&behind, &ones)? * weight)?.sum_all()
}

/// Weighted share of the units whose most likely device is one with the largest target.
fn hits(likely: &Tensor, taught: &Tensor, weight: &Tensor, batch: &Batch) -> Result<f64> {
    let likely: Vec<f64> = numbers(likely)?;
    let taught: Vec<f64> = numbers(taught)?;
    let weight: Vec<f64> = numbers(weight)?;
    let (mut hits, mut pair, mut unit) = (0.0, 0, 0);
    for &[units, devices] in &batch.sizes {
        for _ in 0..units {
            let row = pair..pair + devices;
            let likeliest = row.clone().max_by(|&a, &b| likely[a].total_cmp(&likely[b]).then(b.cmp(&a)));
            let best = row.map(|pair| taught[pair]).fold(0.0, f64::max);
            if likeliest.is_some_and(|likeliest| taught[likeliest] >= best) {
                hits += weight[unit];
            }
            pair += devices;
            unit += 1;
        }
    }
    Ok(hits)
}

/// The numbers as a column tensor of the given type on the given device.
///
/// # Errors
/// If a tensor operation fails.
pub fn column(numbers: Vec<f32>, dtype: DType, device: &Device) -> Result<Tensor> {
    let rows = numbers.len();
    Tensor::from_vec(numbers, (rows, 1), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}

fn number(tensor: &Tensor) -> Result<f64> {
    tensor.to_dtype(DType::F64)?.to_scalar()
}
