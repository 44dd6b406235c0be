//! The rule of exo 0.0.15 (`RingMemoryWeightedPartitioningStrategy` and `map_partitions_to_shards`): one pipeline of all devices, with
//! layers in proportion to memory. Devices are in the order of the cluster, as plans have them, and not by memory, as there.

use stagewright_core::document::{ServingGoal, ServingMode, ServingRole, ServingStageDocument};
use stagewright_serving::{Division, Parallel, Problem};

use crate::column::Column;
use crate::pricing::{LARGEST_BATCH, batches, weight_bytes};
use crate::shape::Shape;
use crate::solution::{Chosen, Plan};

/// Digits after the point to which the ends of parts are rounded.
const DIGITS: f64 = 1e5;

/// The plan of the rule, with the batch that serves most; `None` for several classes of requests, for prompts apart
/// from decoding, or if it is not within the limits.
pub(super) fn ring(problem: &Problem) -> Option<Plan> {
    if problem.classes.len() > 1 || !problem.question.modes.contains(&ServingMode::Aggregated) {
        return None;
    }
    let (kinds, stages) = stages(problem);
    let replica = problem.given(&stages)?;
    let terms = problem.terms(0, kinds.iter().copied());
    let question = &problem.question;
    let is_limit = question.goal == ServingGoal::Throughput;
    let requests = question.concurrency.map_or(u64::MAX, |requests| requests as u64);
    let largest = requests.min(question.max_batch.unwrap_or(LARGEST_BATCH)).min(LARGEST_BATCH);
    let tried = batches().take_while(|&batch| batch < largest).chain([largest]);
    let offers = tried.filter_map(|batch| Some((batch, terms.aggregated(&replica, batch).ok().flatten()?)));
    let (batch, offer) = offers.max_by(|left, right| left.1.rate.total_cmp(&right.1.rate))?;
    let is_served = is_limit
        || (offer.rate >= question.rate.unwrap_or(0.0)
            && offer.in_flight >= question.concurrency.unwrap_or(0.0));
    let cache_tokens = terms.cache_tokens(&replica);
    let price = |kind: &usize| question.prices.get(&problem.fleet.kinds[*kind].name).copied().unwrap_or(0.0);
    let value = match question.goal {
        ServingGoal::Throughput => offer.rate.min(question.rate.unwrap_or(f64::INFINITY)),
        ServingGoal::Devices => kinds.len() as f64,
        ServingGoal::Price => kinds.iter().map(price).sum(),
        ServingGoal::Cache => cache_tokens as f64,
    };
    let parallel = Parallel { tensor: 1, data: 1, expert_tensor: 1, experts: 1 };
    let (shape, given) = (Shape { kinds, parallel }, Some(stages));
    let role = ServingRole::Aggregated;
    let column = Column {
        size: 0,
        role,
        class: 0,
        shape,
        division: Division::Balanced,
        given,
        batch,
        offer,
        cache_tokens,
        kept: None,
        moved_bytes: weight_bytes(&replica),
    };
    let rate = if is_limit { value } else { offer.rate };
    is_served.then(|| Plan { replicas: vec![Chosen { column, count: 1 }], rate, value })
}

/// The stages with their kinds: devices without layers are left out.
fn stages(problem: &Problem) -> (Vec<usize>, Vec<ServingStageDocument>) {
    let fleet = &problem.fleet.kinds;
    let devices: Vec<usize> =
        (0..fleet.len()).flat_map(|kind| std::iter::repeat_n(kind, fleet[kind].count as usize)).collect();
    let total: f64 = devices.iter().map(|&kind| fleet[kind].device.memory).sum();
    let layers = problem.model.layers.len();
    let (mut end, mut first) = (0.0, 0);
    let (mut kinds, mut stages) = (Vec::new(), Vec::new());
    for (index, &kind) in devices.iter().enumerate() {
        end = ((end + fleet[kind].device.memory / total) * DIGITS).round() / DIGITS;
        let is_last = index + 1 == devices.len();
        let next = if is_last { layers } else { ((end * layers as f64) as usize).min(layers) };
        if next > first {
            let name = fleet[kind].name.clone();
            let (first, layers) = (first as u32, (next - first) as u32);
            stages.push(ServingStageDocument { kind: name, tensor: 1, data: 1, experts: 1, first, layers });
            kinds.push(kind);
        }
        first = next;
    }
    (kinds, stages)
}
