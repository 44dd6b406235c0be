//! Usage vectors: the number of devices of each pool in use, the state of every recurrence over stages.
//!
//! Where a stage's memory depends on its distance from the last stage, recurrences peel stages from the end
//! and need the number of peeled stages. Without replication that is the number of devices in use; with it, a
//! further coordinate counts stages, up to the number of microbatches, beyond which nothing changes.

use stagewright_core::problem::Problem;

/// The space of usage vectors, numbered so that adding devices increases the number.
#[derive(Debug, Clone)]
pub struct UsageSpace {
    limits: Vec<u32>,
    strides: Vec<usize>,
    stage_levels: usize,
    len: usize,
    max_replicas: u32,
}

impl UsageSpace {
    /// Space for a problem with `units` units; a pool never needs more devices than units times replicas.
    /// `None` if the space is larger than `limit`.
    pub fn new(problem: &Problem, units: usize, limit: usize) -> Option<UsageSpace> {
        UsageSpace::with_limits(problem, needed(problem, units), limit)
    }

    /// The space of [`UsageSpace::new`], or, if that is larger than `limit`, the largest space with a common
    /// limit on the devices of every pool, at least 1. `None` if one device of each pool already exceeds
    /// `limit`.
    pub fn fitting(problem: &Problem, units: usize, limit: usize) -> Option<UsageSpace> {
        let limits = needed(problem, units);
        let cut_to = |devices: u32| {
            let limits = limits.iter().map(|&limit| limit.min(devices)).collect();
            UsageSpace::with_limits(problem, limits, limit)
        };
        let all = limits.iter().copied().max().unwrap_or(0).max(1);
        if let Some(space) = cut_to(all) {
            return Some(space);
        }
        // The size grows with the number of devices: `fits` fits, `too_many` does not.
        let mut space = cut_to(1)?;
        let (mut fits, mut too_many) = (1, all);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            match cut_to(middle) {
                Some(larger) => (fits, space) = (middle, larger),
                None => too_many = middle,
            }
        }
        Some(space)
    }

    fn with_limits(problem: &Problem, limits: Vec<u32>, max_states: usize) -> Option<UsageSpace> {
        let stage_levels = stage_levels(problem, &limits);
        let mut strides = Vec::with_capacity(limits.len());
        let mut len = Some(stage_levels).filter(|&len| len <= max_states)?;
        for &limit in limits.iter().rev() {
            strides.push(len);
            len = len.checked_mul(limit as usize + 1).filter(|&len| len <= max_states)?;
        }
        strides.reverse();
        let max_replicas = problem.objective().rules().max_replicas;
        Some(UsageSpace { limits, strides, stage_levels, len, max_replicas })
    }

    /// Size of the space that [`UsageSpace::new`] would make without a limit.
    pub fn size(problem: &Problem, units: usize) -> f64 {
        let limits = needed(problem, units);
        let levels = stage_levels(problem, &limits) as f64;
        limits.iter().map(|&limit| f64::from(limit) + 1.0).product::<f64>() * levels
    }

    /// Number of usage vectors.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always `false`: the empty usage always exists.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Devices of a pool in use.
    pub fn count(&self, usage: usize, pool: usize) -> u32 {
        (usage / self.strides[pool]) as u32 % (self.limits[pool] + 1)
    }

    /// Devices of a pool not in use.
    pub fn left(&self, usage: usize, pool: usize) -> u32 {
        self.limits[pool] - self.count(usage, pool)
    }

    /// Number of devices of a pool.
    pub fn limit(&self, pool: usize) -> u32 {
        self.limits[pool]
    }

    /// Maximum number of replicas of one more stage on a pool.
    pub fn most_replicas(&self, usage: usize, pool: usize) -> u32 {
        self.left(usage, pool).min(self.max_replicas)
    }

    /// The usage after one more stage on a pool, which must have enough devices left.
    pub fn after(&self, usage: usize, pool: usize, replicas: u32) -> usize {
        let mut next = usage + self.strides[pool] * replicas as usize;
        if self.stage_levels > 1 && usage % self.stage_levels + 1 < self.stage_levels {
            next += 1;
        }
        next
    }

    /// Whether `usage` is at most `other` in every coordinate.
    pub fn within(&self, usage: usize, other: usize) -> bool {
        (0..self.limits.len()).all(|pool| self.count(usage, pool) <= self.count(other, pool))
            && self.stages(usage) <= self.stages(other)
    }

    /// Number of stages so far, as in-flight memory counts them (see the module head).
    pub fn stages(&self, usage: usize) -> u32 {
        if self.stage_levels > 1 {
            (usage % self.stage_levels) as u32
        } else {
            (0..self.limits.len()).map(|pool| self.count(usage, pool)).sum()
        }
    }
}

/// Number of devices of each pool that a plan can use.
fn needed(problem: &Problem, units: usize) -> Vec<u32> {
    let limit = u64::from(problem.objective().rules().max_replicas) * units as u64;
    problem.pools().iter().map(|pool| u64::from(pool.count()).min(limit) as u32).collect()
}

/// Number of values of the coordinate that counts stages; 1 if the devices in use determine it.
fn stage_levels(problem: &Problem, limits: &[u32]) -> usize {
    let objective = problem.objective();
    if objective.memory_depends_on_stage() && objective.rules().max_replicas > 1 {
        let devices: u64 = limits.iter().map(|&limit| u64::from(limit)).sum();
        (u64::from(objective.rules().microbatches).min(devices) + 1) as usize
    } else {
        1
    }
}
