//! How many devices of each pool the stages so far use: the states of every recurrence over stages.
//!
//! Where a stage's memory depends on its distance from the last stage, recurrences peel stages from the end and
//! need to know how many they have peeled. Without replication that is the number of devices in use; with it,
//! a further coordinate counts stages, up to the number of microbatches, beyond which nothing changes.

use stagewright_core::problem::Problem;

/// The space of usage vectors, numbered so that adding devices increases the number.
#[derive(Debug, Clone)]
pub struct UsageSpace {
    limits: Vec<u32>,
    strides: Vec<usize>,
    stage_levels: u32,
    len: usize,
    max_replicas: u32,
}

impl UsageSpace {
    /// The space for a problem with `units` units; a pool never needs more devices than there are units times
    /// replicas. None where the space is larger than `most`.
    pub fn new(problem: &Problem, units: usize, most: usize) -> Option<UsageSpace> {
        let objective = problem.objective();
        let replicas = objective.max_replicas;
        let cap = u64::from(replicas) * units as u64;
        let limits: Vec<u32> =
            problem.pools().iter().map(|pool| u64::from(pool.count()).min(cap) as u32).collect();
        let stage_levels = if objective.memory_depends_on_stage() && replicas > 1 {
            let devices: u64 = limits.iter().map(|&limit| u64::from(limit)).sum();
            (u64::from(objective.microbatches).min(devices) + 1) as u32
        } else {
            1
        };
        let mut strides = Vec::with_capacity(limits.len());
        let mut len = stage_levels as usize;
        for &limit in limits.iter().rev() {
            strides.push(len);
            len = len.checked_mul(limit as usize + 1).filter(|&len| len <= most)?;
        }
        strides.reverse();
        Some(UsageSpace { limits, strides, stage_levels, len, max_replicas: replicas })
    }

    /// Number of usage vectors.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: the empty usage is always there.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Devices of a pool in use.
    pub fn count(&self, usage: usize, pool: usize) -> u32 {
        (usage / self.strides[pool]) as u32 % (self.limits[pool] + 1)
    }

    /// Devices of a pool left.
    pub fn left(&self, usage: usize, pool: usize) -> u32 {
        self.limits[pool] - self.count(usage, pool)
    }

    /// Devices of a pool in all.
    pub fn limit(&self, pool: usize) -> u32 {
        self.limits[pool]
    }

    /// Most replicas that one more stage on a pool can have.
    pub fn most_replicas(&self, usage: usize, pool: usize) -> u32 {
        self.left(usage, pool).min(self.max_replicas)
    }

    /// The usage after one more stage on a pool, which must have the devices left.
    pub fn after(&self, usage: usize, pool: usize, replicas: u32) -> usize {
        let mut next = usage + self.strides[pool] * replicas as usize;
        if self.stage_levels > 1 && (usage as u32) % self.stage_levels + 1 < self.stage_levels {
            next += 1;
        }
        next
    }

    /// Whether one usage has no more of anything than another.
    pub fn within(&self, usage: usize, other: usize) -> bool {
        (0..self.limits.len()).all(|pool| self.count(usage, pool) <= self.count(other, pool))
            && self.stages(usage) <= self.stages(other)
    }

    /// Stages so far, as far as in-flight memory can tell.
    pub fn stages(&self, usage: usize) -> u32 {
        if self.stage_levels > 1 {
            usage as u32 % self.stage_levels
        } else {
            (0..self.limits.len()).map(|pool| self.count(usage, pool)).sum()
        }
    }
}
