//! The degrees that plans may have, and given degrees that do not divide the sizes they must divide.

use stagewright_core::document::Parallelism;

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
                let devices = if self.runtime.is_ideal { pool.server } else { pool.devices };
                (1..=devices.min(MAX_TENSOR)).filter(divides).collect()
            }
        }
    }

    /// The degree of a kind of parallelism, if given; the outer `None` means that the parallelism is not allowed.
    fn given(&self, parallelism: Parallelism) -> Option<Option<u32>> {
        self.request.parallel.get(&parallelism).copied()
    }

    /// Degrees of data parallelism, which divide the batch.
    fn copies(&self) -> Vec<u32> {
        let devices: u64 = self.pools.iter().map(|pool| u64::from(pool.devices)).sum();
        match self.given(Parallelism::Dp) {
            None => vec![1],
            Some(Some(degree)) => vec![degree],
            Some(None) => divisors(self.request.global_batch, devices),
        }
    }

    /// Degrees of expert parallelism for `data` copies.
    fn experts(&self, data: u32) -> Vec<u32> {
        let divides =
            |degree: &u32| data.is_multiple_of(*degree) && self.undivided_by_experts(*degree).is_none();
        match self.given(Parallelism::Ep) {
            None => vec![1],
            Some(Some(degree)) => Some(degree).filter(divides).into_iter().collect(),
            Some(None) => (1..=data).filter(divides).collect(),
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
        let mut shared = Vec::new();
        for data in self.copies() {
            let zero: Vec<u32> = match self.given(Parallelism::Zero) {
                None => vec![0],
                Some(Some(stage)) => vec![stage],
                Some(None) if data == 1 => vec![0],
                Some(None) => (0..=3).collect(),
            };
            let sizes = self.microbatches(data);
            for expert in self.experts(data) {
                for &zero in &zero {
                    for &microbatch in &sizes {
                        shared.push(Degrees { microbatch, data, expert, zero, tensor: 1 });
                    }
                }
            }
        }
        shared
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
            for tensor in &tensors {
                for &schedule in &self.request.schedules {
                    let tensor = tensor.clone();
                    combinations.push(Combination { degrees, tensor, microbatches, stages, schedule });
                }
            }
        }
        combinations
    }

    /// Names a size that a degree of tensor parallelism on a kind must divide and does not, if any.
    fn undivided_by_tensors(&self, pool: &Pool, degree: u32) -> Option<String> {
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

    /// A given degree that does not divide the sizes it must divide, and these sizes; `None` if valid degrees exist.
    pub(super) fn undivided(&self) -> Option<String> {
        if let Some(Some(degree)) = self.given(Parallelism::Tp)
            && let Some(whole) = self.pools.iter().find_map(|pool| self.undivided_by_tensors(pool, degree))
        {
            return Some(format!("tp {degree} does not divide {whole}"));
        }
        let copies = match self.copies()[..] {
            [1] => "the one copy, and more need dp".to_owned(),
            [data] => format!("the {data} copies of dp {data}"),
            _ => format!("any number of copies that divides the batch of {}", self.request.global_batch),
        };
        let mut divided = self.copies();
        if let Some(Some(degree)) = self.given(Parallelism::Ep) {
            if let Some(whole) = self.undivided_by_experts(degree) {
                return Some(format!("ep {degree} does not divide {whole}"));
            }
            divided.retain(|data| data.is_multiple_of(degree));
            if divided.is_empty() {
                return Some(format!("ep {degree} does not divide {copies}"));
            }
        }
        if divided.iter().all(|&data| self.microbatches(data).is_empty()) {
            let size = self.request.microbatch.unwrap_or(1);
            let samples = self.request.global_batch / u64::from(divided[0]);
            return Some(format!(
                "a microbatch of {size} does not divide the {samples} samples of each of {} copies",
                divided[0]
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
