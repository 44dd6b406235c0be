//! The combinations of degrees that plans may have.

use stagewright_core::document::{ContextExchange, JointExecutionDocument, JointPlanDocument, Parallelism};

use super::Problem;
use crate::joint::iteration::context::Limits;
use crate::joint::iteration::experts::Experts;
use crate::joint::iteration::{devices, execution};
use crate::joint::rules::{self, Allowed};
use crate::read::Cluster;

/// Maximum number of samples of a microbatch, and of devices of a tensor-parallel group, if they are not given.
const MOST: u64 = 64;

/// Largest batch whose divisors are found.
const MOST_SAMPLES: u64 = 1 << 32;

/// Maximum number of steps to find the divisors of all numbers of copies.
const MOST_STEPS: u64 = 1 << 28;

/// Maximum number of combinations listed.
const MOST_EXECUTIONS: usize = 1 << 20;

/// Degrees and executions that plans may have.
#[derive(Debug)]
pub(super) struct Space {
    /// Indices of the kinds that a stage may be on: one, or two.
    pub(super) kinds: Vec<Vec<usize>>,
    /// Degrees of tensor parallelism on these.
    pub(super) tensor: Vec<Vec<u64>>,
    /// Number of devices of a pipeline; `None` for any number.
    pub(super) devices: Option<usize>,
    /// All combinations of how the stages may run the batch.
    pub(super) executions: Vec<JointExecutionDocument>,
}

/// Degrees of a kind of parallelism: `without` if it is not allowed, the given degree if there is one, otherwise `any`.
fn degrees(
    allowed: &Allowed,
    parallelism: Parallelism,
    without: u64,
    any: impl Fn() -> Vec<u64>,
) -> Vec<u64> {
    match (allowed.has(parallelism), allowed.given(parallelism)) {
        (false, _) => vec![without],
        (true, Some(given)) => vec![u64::from(given)],
        (true, None) => any(),
    }
}

/// A degree of context parallelism, with the way to exchange tokens.
type Context = (u64, Option<ContextExchange>);

/// The degrees of context parallelism of plans; `None` if they cannot all be listed.
fn contexts(allowed: &Allowed, limits: &Limits) -> Option<Vec<Context>> {
    let tokens = limits.tokens().unwrap_or(2);
    if tokens > MOST_SAMPLES && allowed.has(Parallelism::Cp) && allowed.given(Parallelism::Cp).is_none() {
        return None;
    }
    let degrees = degrees(allowed, Parallelism::Cp, 1, || divisors((tokens / 2).max(1)));
    let degrees = degrees.into_iter().filter(|&degree| degree > 0 && limits.allow(degree).is_ok());
    let with_exchanges = |degree: u64| match degree {
        1 => vec![(degree, None)],
        _ => ContextExchange::ALL.map(|exchange| (degree, Some(exchange))).to_vec(),
    };
    Some(degrees.flat_map(with_exchanges).collect())
}

/// All ways in which stages may run the batch; `None` if they cannot all be listed.
fn executions(
    plan: &JointPlanDocument,
    cluster: &Cluster,
    experts: &Experts,
    limits: &Limits,
    allowed: &Allowed,
) -> Option<Vec<JointExecutionDocument>> {
    let batch = plan.objective.global_batch;
    let all: u64 = cluster.kinds.iter().map(|kind| u64::from(kind.document.count)).sum();
    let is_divisor = |whole: u64, divisor: u64| divisor > 0 && whole.is_multiple_of(divisor);
    let (mut executions, mut steps) = (Vec::new(), 0);
    let data = degrees(allowed, Parallelism::Dp, 1, || divisors(batch)).into_iter();
    let data = data.filter(|&data| is_divisor(batch, data));
    let contexts = contexts(allowed, limits)?;
    let pairs = data.flat_map(|data| contexts.iter().map(move |&context| (data, context)));
    for (data, (context, exchange)) in pairs {
        let copies = data.saturating_mul(context);
        steps += 1;
        if copies > all {
            continue;
        }
        steps += copies.isqrt();
        if steps > MOST_STEPS {
            return None;
        }
        let of_copies = divisors(copies);
        let expert = degrees(allowed, Parallelism::Ep, 1, || of_copies.clone()).into_iter();
        let expert: Vec<u64> =
            expert.filter(|&expert| is_divisor(copies, expert) && experts.allow(expert).is_ok()).collect();
        // Without copies, ZeRO divides nothing, and ZeRO 3 only needs more workspace.
        let zero =
            degrees(allowed, Parallelism::Zero, 0, || if copies == 1 { vec![0] } else { (0..=3).collect() });
        let zero: Vec<u64> = zero.into_iter().filter(|&zero| zero <= execution::MOST_ZERO).collect();
        let offload = degrees(allowed, Parallelism::Offload, 0, || vec![0, 1]).into_iter();
        let offload: Vec<bool> =
            offload.filter(|&offload| offload <= 1).map(|offload| offload == 1).collect();
        let shards: Vec<Option<u64>> = match allowed.has(Parallelism::Shard) {
            true => std::iter::once(None).chain(of_copies.into_iter().map(Some)).collect(),
            false => vec![None],
        };
        let microbatch = match plan.objective.microbatch {
            Some(given) => vec![u64::from(given)],
            None => (1..=MOST).collect(),
        };
        for microbatch in microbatch.into_iter().filter(|&samples| is_divisor(batch / data, samples)) {
            let microbatches = u32::try_from(batch / data / microbatch).ok()?;
            if executions.len() > MOST_EXECUTIONS {
                return None;
            }
            let (shards, offload) = (&shards, &offload);
            let all = execution::schedules(plan).into_iter().flat_map(|schedule| {
                let all = expert.iter().flat_map(|&expert| zero.iter().map(move |&zero| (expert, zero)));
                all.flat_map(move |(expert, zero)| {
                    // Only states that are divided, and not those of experts, may be divided over fewer copies.
                    let count = if expert == 1 && zero > 0 { shards.len() } else { 1 };
                    let shards = shards[..count].iter();
                    shards.flat_map(move |&shards| {
                        offload.iter().map(move |&offload| (schedule, expert, zero, shards, offload))
                    })
                })
            });
            for (schedule, expert, zero, shards, offload) in all {
                let execution = JointExecutionDocument {
                    microbatch: u32::try_from(microbatch).ok()?,
                    microbatches,
                    data: u32::try_from(data).ok()?,
                    context: u32::try_from(context).ok()?,
                    exchange,
                    expert: u32::try_from(expert).ok()?,
                    zero: u32::try_from(zero).ok()?,
                    shards: shards.map(u32::try_from).transpose().ok()?,
                    offload,
                    schedule,
                    // The proof considers every number of chunks of interleaved pipelines.
                    chunks: if super::has_chunks(schedule) { 2 } else { 1 },
                };
                if execution::allow_shards(*allowed, &execution).is_ok() {
                    executions.push(execution);
                }
            }
        }
    }
    Some(executions)
}

impl Space {
    /// The combinations that an objective allows; `None` if they cannot all be listed. Degrees of tensor parallelism
    /// divide the heads.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let Problem { plan, cluster, model, heads, limits, mixed, .. } = *problem;
        let allowed = Allowed::new(plan);
        if plan.objective.global_batch > MOST_SAMPLES {
            return None;
        }
        let single = (0..cluster.kinds.len()).map(|kind| vec![kind]);
        let kinds: Vec<Vec<usize>> = single.chain(mixed.map(|kinds| kinds.to_vec())).collect();
        let tensor = kinds.iter().map(|kinds| {
            let all = degrees(&allowed, Parallelism::Tp, 1, || (1..=MOST).collect());
            let has_runtime = plan.objective.runtime.is_some();
            let may_split = |&tensor: &u64| {
                tensor > 0
                    && heads.iter().all(|heads| heads.is_multiple_of(tensor))
                    && kinds
                        .iter()
                        .all(|&kind| devices::allow_tensor(&cluster.kinds[kind], has_runtime, tensor).is_ok())
            };
            all.into_iter().filter(may_split).collect()
        });
        let tensor = tensor.collect();
        let devices = match allowed.has(Parallelism::Pp) {
            false => Some(1),
            true => allowed.given(Parallelism::Pp).map(|devices| devices as usize),
        };
        let executions = executions(plan, cluster, &model.experts, limits, &allowed)?;
        Some(Space { kinds, tensor, devices, executions })
    }

    /// Whether the plan is among the combinations.
    pub(super) fn has(&self, plan: &JointPlanDocument, cluster: &Cluster) -> bool {
        let Some(found) = &plan.execution else { return false };
        let is_listed = self.executions.iter().any(|listed| {
            listed.microbatch == found.microbatch
                && listed.microbatches == found.microbatches
                && listed.data == found.data
                && listed.schedule == found.schedule
                && listed.context == found.context
                && listed.exchange == found.exchange
                && listed.shards == found.shards
                && listed.offload == found.offload
                && (listed.zero == found.zero || execution::copies(found) == 1)
                && listed.expert == found.expert
        });
        let may_split = plan.stages.iter().all(|stage| {
            // A stage on two kinds names no kind; it is on the last of the places.
            let kind = match &stage.kind {
                Some(kind) => cluster.find_kind(kind),
                None => self.tensor.len().checked_sub(1).filter(|_| !stage.mixed.is_empty()),
            };
            kind.is_some_and(|kind| self.tensor[kind].contains(&u64::from(stage.tensor)))
        });
        is_listed && may_split && self.may_have(rules::pipeline(plan))
    }

    /// Whether a pipeline may have this number of devices.
    pub(super) fn may_have(&self, devices: usize) -> bool {
        self.devices.is_none_or(|given| given == devices)
    }
}

/// The divisors of a number in ascending order. O(√number).
fn divisors(number: u64) -> Vec<u64> {
    let small: Vec<u64> = (1..=number.isqrt()).filter(|&divisor| number.is_multiple_of(divisor)).collect();
    let large =
        small.iter().rev().map(|&divisor| number / divisor).filter(|divisor| !small.contains(divisor));
    small.iter().copied().chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::divisors;

    #[test]
    fn divisors_come_in_order() {
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(7), [1, 7]);
    }
}
