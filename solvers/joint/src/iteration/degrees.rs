//! The degrees that plans may have, and given degrees that do not divide the sizes they must divide.

use stagewright_core::document::{ContextExchange, Parallelism};

use super::pool::Pool;
use super::solver::Problem;
use super::space::Combination;
use super::table::Degrees;

/// Largest degree of tensor parallelism that is tried if none is given.
const MAX_TENSOR: u32 = 64;
/// Maximum number of samples of a microbatch that are tried if none are given.
const MAX_MICROBATCH: u32 = 64;

impl Problem {
    /// Degrees of tensor parallelism on a kind.
    fn tensors(&self, pool: &Pool) -> Vec<u32> {
        let divides = |degree: &u32| self.undivided_by_tensors(pool, *degree).is_none();
        match self.given(Parallelism::Tp) {
            None => vec![1],
            Some(Some(degree)) => Some(degree).filter(divides).into_iter().collect(),
            Some(None) => {
                let devices = |kind: &Pool| if self.runtime.is_ideal { kind.server } else { kind.devices };
                let limit = pool.kinds().iter().map(devices).fold(MAX_TENSOR, u32::min);
                (1..=limit).filter(divides).collect()
            }
        }
    }

    /// The degree of a kind of parallelism, if given; the outer `None` means that the parallelism is not allowed.
    fn given(&self, parallelism: Parallelism) -> Option<Option<u32>> {
        self.request.parallel.get(&parallelism).copied()
    }

    /// Degrees of data parallelism, which divide the batch.
    fn copies(&self) -> Vec<u32> {
        let kinds = self.pools.iter().filter(|pool| pool.parts.is_none());
        let devices: u64 = kinds.map(|pool| u64::from(pool.devices)).sum();
        match self.given(Parallelism::Dp) {
            None => vec![1],
            Some(Some(degree)) => vec![degree],
            Some(None) => divisors(self.request.global_batch, devices),
        }
    }

    /// Degrees of context parallelism for `data` copies, which divide the tokens of a sample twice.
    fn contexts(&self, data: u32) -> Vec<u32> {
        let devices = self.pools.iter().map(|pool| pool.devices).max().unwrap_or(0);
        match (self.given(Parallelism::Cp), &self.model.tokens) {
            (None, _) => vec![1],
            (Some(Some(degree)), _) => Some(degree)
                .filter(|&degree| self.undivided_by_contexts(degree).is_none())
                .into_iter()
                .collect(),
            (Some(None), &Ok(tokens)) if tokens.is_multiple_of(2) => {
                divisors(tokens / 2, (devices / data).max(1).into())
            }
            (Some(None), _) => vec![1],
        }
    }

    /// Ways to exchange tokens.
    fn exchanges(&self, context: u32) -> Vec<Option<ContextExchange>> {
        match context {
            1 => vec![None],
            _ => ContextExchange::ALL.into_iter().map(Some).collect(),
        }
    }

    /// Whether the heads of every attention can be exchanged for tokens in tensor-parallel groups.
    fn may_exchange(&self, degrees: Degrees, tensor: &[u32]) -> bool {
        let divide = |&tensor: &u32| {
            let parts = u64::from(tensor) * u64::from(degrees.context);
            self.model.heads.iter().all(|&heads| u64::from(heads).is_multiple_of(parts))
        };
        degrees.exchange != Some(ContextExchange::AllToAll) || tensor.iter().all(divide)
    }

    /// Numbers of copies that divide states among themselves, with `None` for all of `copies`.
    fn shards(&self, copies: u32, expert: u32, zero: u32) -> Vec<Option<u32>> {
        match self.given(Parallelism::Shard) {
            Some(_) if zero == 0 || expert > 1 => vec![None],
            None => vec![None],
            Some(Some(given)) if given >= copies => vec![None],
            Some(Some(given)) => {
                Some(given).filter(|&given| copies.is_multiple_of(given)).map(Some).into_iter().collect()
            }
            Some(None) => {
                // More copies than devices have no plan.
                let limit = (copies / 2).min(self.pools.iter().map(|pool| pool.devices).max().unwrap_or(0));
                let groups = divisors(copies.into(), limit.into()).into_iter().filter(|&shards| shards > 1);
                groups.map(Some).chain([None]).collect()
            }
        }
    }

    /// Whether states of the optimizer may be on the host.
    fn offloads(&self) -> &'static [bool] {
        match self.given(Parallelism::Offload) {
            None | Some(Some(0)) => &[false],
            Some(Some(_)) => &[true],
            Some(None) if self.pools.iter().any(|pool| pool.ram.is_some()) => &[false, true],
            Some(None) => &[false],
        }
    }

    /// Degrees of expert parallelism for a number of copies.
    fn experts(&self, copies: u32) -> Vec<u32> {
        let divides =
            |degree: &u32| copies.is_multiple_of(*degree) && self.undivided_by_experts(*degree).is_none();
        match self.given(Parallelism::Ep) {
            None => vec![1],
            Some(Some(degree)) => Some(degree).filter(divides).into_iter().collect(),
            Some(None) => {
                let limit = self.model.experts().filter(|&count| count > 0).min().unwrap_or(1);
                (1..=copies.min(limit)).filter(divides).collect()
            }
        }
    }

    /// Numbers of samples of a microbatch for `data` copies.
    fn microbatches(&self, data: u32) -> Vec<u32> {
        let of_copy = self.request.global_batch / u64::from(data);
        match self.request.microbatch {
            Some(size) => {
                Some(size).filter(|&size| of_copy.is_multiple_of(size.into())).into_iter().collect()
            }
            None => divisors(of_copy, MAX_MICROBATCH.into()),
        }
    }

    /// Combinations of the degrees that all kinds share; the degree of tensor parallelism differs between kinds.
    pub(super) fn shared_degrees(&self) -> Vec<Degrees> {
        self.shared_up_to(usize::MAX)
    }

    /// Combinations of the shared degrees; not all of them if there are more than `limit`.
    pub(super) fn shared_up_to(&self, limit: usize) -> Vec<Degrees> {
        let mut shared = Vec::new();
        for data in self.copies() {
            let sizes = self.microbatches(data);
            for context in self.contexts(data) {
                if shared.len() > limit {
                    return shared;
                }
                for degrees in self.of_copies(data, context) {
                    shared.extend(sizes.iter().map(|&microbatch| Degrees { microbatch, ..degrees }));
                }
            }
        }
        shared
    }

    /// Combinations of the shared degrees besides the microbatch, for degrees of data and context parallelism.
    fn of_copies(&self, data: u32, context: u32) -> Vec<Degrees> {
        let none = Degrees {
            microbatch: 1,
            data,
            context,
            exchange: None,
            expert: 1,
            zero: 0,
            shards: None,
            offload: false,
            tensor: 1,
        };
        let zero: Vec<u32> = match self.given(Parallelism::Zero) {
            None => vec![0],
            Some(Some(stage)) => vec![stage],
            Some(None) if none.copies() == 1 => vec![0],
            Some(None) => (0..=3).collect(),
        };
        let mut found = Vec::new();
        for exchange in self.exchanges(context) {
            for expert in self.experts(none.copies()) {
                for &zero in &zero {
                    for shards in self.shards(none.copies(), expert, zero) {
                        let with = |&offload| Degrees { exchange, expert, zero, shards, offload, ..none };
                        found.extend(self.offloads().iter().map(with));
                    }
                }
            }
        }
        found
    }

    /// Number of ways to give every kind a degree of tensor parallelism.
    pub(super) fn tensors_of_all(&self) -> usize {
        self.pools.iter().map(|pool| self.tensors(pool).len()).product()
    }

    pub(super) fn combinations(&self) -> Vec<Combination> {
        let mut tensors: Vec<Vec<u32>> = vec![vec![]];
        for pool in &self.pools {
            let of_pool = self.tensors(pool);
            let with = |tensors: &Vec<u32>| -> Vec<Vec<u32>> {
                of_pool.iter().map(|&degree| tensors.iter().copied().chain([degree]).collect()).collect()
            };
            tensors = tensors.iter().flat_map(with).collect();
        }
        let stages = self.given(Parallelism::Pp).unwrap_or(Some(1));
        let mut combinations = Vec::new();
        for degrees in self.shared_degrees() {
            let of_copy = self.request.global_batch / u64::from(degrees.data);
            let microbatches = (of_copy / u64::from(degrees.microbatch)) as u32;
            for tensor in tensors.iter().filter(|tensor| self.may_exchange(degrees, tensor)) {
                for &schedule in &self.request.schedules {
                    let tensor = tensor.clone();
                    let of_cut = match &self.cut {
                        Some(ends) if !schedule.has_chunks() => Some(ends.len() as u32),
                        _ => None,
                    };
                    // Another schedule may have the given devices with this cut.
                    if of_cut.zip(stages).is_some_and(|(of_cut, given)| of_cut != given) {
                        continue;
                    }
                    let stages = of_cut.or(stages);
                    let found = Combination { degrees, tensor, microbatches, stages, schedule };
                    // Where no stage can be on two kinds, the degree of such stages is of no importance.
                    let mixed = self.pools.iter().rposition(|pool| pool.parts.is_some());
                    let may_mix = |pool| found.most_stages(pool, &self.pools, self.model.layers.len()) > 0;
                    if mixed.is_none_or(may_mix) || found.tensor.last() == tensors[0].last() {
                        combinations.push(found);
                    }
                }
            }
        }
        combinations
    }

    /// Names a size that a degree of tensor parallelism on a kind, or on two, must divide and does not, if any.
    fn undivided_by_tensors(&self, pool: &Pool, degree: u32) -> Option<String> {
        pool.kinds().iter().find_map(|kind| self.undivided_on_kind(kind, degree))
    }

    fn undivided_on_kind(&self, pool: &Pool, degree: u32) -> Option<String> {
        // Under a runtime a group may be several whole servers.
        let is_whole = !self.runtime.is_ideal && degree.is_multiple_of(pool.server) && degree <= pool.devices;
        if !is_whole && !pool.server.is_multiple_of(degree) {
            let server = format!("the {} devices of a server of kind {}", pool.server, pool.name);
            return Some(match self.runtime.is_ideal {
                true => server,
                false => format!("{server}, and is no multiple of them up to {}", pool.devices),
            });
        }
        let heads = self.model.heads.iter().find(|heads| !heads.is_multiple_of(degree))?;
        Some(format!("the {heads} heads of an attention"))
    }

    /// Names what a degree of context parallelism needs, if that is missing.
    fn undivided_by_contexts(&self, degree: u32) -> Option<String> {
        match self.model.tokens {
            _ if degree == 1 => None,
            Err(needed) => Some(format!("needs {needed}")),
            Ok(tokens) if !tokens.is_multiple_of(2 * u64::from(degree)) => Some(format!(
                "does not divide the {tokens} tokens of a sample into two equal parts for each device"
            )),
            Ok(_) => None,
        }
    }

    /// Names a size that a degree of expert parallelism must divide and does not, if any.
    fn undivided_by_experts(&self, degree: u32) -> Option<String> {
        match self.model.experts().find(|count| !count.is_multiple_of(degree)) {
            Some(count) => Some(format!("the {count} experts of a dispatch")),
            None if self.model.experts().all(|count| count == 0) && degree > 1 => {
                Some("any experts: the model has no dispatch to them".into())
            }
            None => None,
        }
    }

    /// A given degree that does not divide the sizes it must divide, and these sizes; or what a given technique needs and
    /// does not have. `None` if valid degrees exist.
    pub(super) fn undivided(&self) -> Option<String> {
        if self.given(Parallelism::Offload) == Some(Some(1))
            && self.pools.iter().all(|pool| pool.ram.is_none())
        {
            return Some(
                "offload 1 needs a kind of devices that states the memory of its host: add `ram`".into(),
            );
        }
        if let Some(Some(degree)) = self.given(Parallelism::Tp)
            && let Some(whole) = self.pools.iter().find_map(|pool| self.undivided_by_tensors(pool, degree))
        {
            return Some(format!("tp {degree} does not divide {whole}"));
        }
        if let Some(Some(degree)) = self.given(Parallelism::Cp)
            && let Some(needed) = self.undivided_by_contexts(degree)
        {
            return Some(format!("cp {degree} {needed}"));
        }
        let with_contexts = |data: u32| self.contexts(data).into_iter().map(move |context| (data, context));
        let mut divided: Vec<(u32, u32)> = self.copies().into_iter().flat_map(with_contexts).collect();
        let copies = match divided[..] {
            [(1, 1)] => "the one copy, and more need dp".to_owned(),
            [(data, 1)] => format!("the {data} copies of dp {data}"),
            [(data, context)] => {
                format!("the {} copies of dp {data} and cp {context}", u64::from(data) * u64::from(context))
            }
            _ if self.given(Parallelism::Cp).is_some() => "any number of copies that dp and cp allow".into(),
            _ => format!("any number of copies that divides the batch of {}", self.request.global_batch),
        };
        if let Some(Some(degree)) = self.given(Parallelism::Ep) {
            if let Some(whole) = self.undivided_by_experts(degree) {
                return Some(format!("ep {degree} does not divide {whole}"));
            }
            divided.retain(|(data, context)| data.saturating_mul(*context).is_multiple_of(degree));
            if divided.is_empty() {
                return Some(format!("ep {degree} does not divide {copies}"));
            }
        }
        if let Some(Some(degree)) = self.given(Parallelism::Shard)
            && divided.iter().all(|&(data, context)| self.of_copies(data, context).is_empty())
        {
            return Some(format!("shard {degree} does not divide {copies}"));
        }
        if divided.iter().all(|&(data, _)| self.microbatches(data).is_empty()) {
            let size = self.request.microbatch.unwrap_or(1);
            let data = divided[0].0;
            let samples = self.request.global_batch / u64::from(data);
            return Some(format!(
                "a microbatch of {size} does not divide the {samples} samples of each of {data} copies"
            ));
        }
        None
    }
}

/// The divisors of a number up to a limit.
fn divisors(number: u64, limit: u64) -> Vec<u32> {
    let all = (1..=limit.min(number)).filter(|&divisor| number.is_multiple_of(divisor));
    all.map(|divisor| divisor as u32).collect()
}
