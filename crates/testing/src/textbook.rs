//! The dynamic program over ideals as in the textbook: all ideals, all pairs, no windows, no bounds. Supports only
//! combined training, without replicas and without schedules that depend on the stage.

use std::collections::BTreeMap;

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::stage_load::StageLoad;

/// Whether each unit is in the ideal.
type Ideal = Keyed<UnitId, bool>;

/// Minimum value over chains of ideals; `None` if no chain fits. Panics if there are more than `limit` ideals.
pub fn optimum(problem: &Problem, limit: usize) -> Option<f64> {
    let units = Units::new(problem);
    let ideals = ideals(&units, limit).expect("few enough ideals for the textbook");
    let pools = problem.pools();
    let mut usages: Vec<Vec<u32>> = vec![vec![]];
    for pool in pools {
        usages = usages
            .into_iter()
            .flat_map(|usage| {
                (0..=pool.count()).map(move |count| usage.iter().copied().chain([count]).collect())
            })
            .collect();
    }
    let mut value: BTreeMap<(Vec<u32>, usize), f64> = BTreeMap::new();
    let mut best = None;
    for usage in usages {
        value.insert((usage.clone(), 0), 0.0);
        for (index, ideal) in ideals.iter().enumerate().skip(1) {
            let mut least = f64::INFINITY;
            for pool in (0..pools.len()).filter(|&pool| usage[pool] > 0) {
                let mut before = usage.clone();
                before[pool] -= 1;
                for (sub, smaller) in ideals[..index].iter().enumerate() {
                    if smaller.iter().zip(ideal.iter()).any(|(&smaller, &ideal)| smaller && !ideal) {
                        continue;
                    }
                    if let Some(&known) = value.get(&(before.clone(), sub))
                        && let Some(load) = load(problem, &units, pool, smaller, ideal)
                    {
                        least = least.min(known.max(load));
                    }
                }
            }
            if least.is_finite() {
                value.insert((usage.clone(), index), least);
            }
        }
        if let Some(&full) = value.get(&(usage, ideals.len() - 1))
            && best.is_none_or(|best| full < best)
        {
            best = Some(full);
        }
    }
    best
}

fn load(problem: &Problem, units: &Units, pool: usize, smaller: &Ideal, ideal: &Ideal) -> Option<f64> {
    let mut load = StageLoad::new(units, problem.objective(), pool);
    for unit in units.ids().filter(|&unit| ideal[unit] && !smaller[unit]) {
        load.add(unit);
    }
    let fits = load.memory().fits(problem.objective().in_flight(1), problem.pools()[pool].memory);
    (load.supported() && fits).then(|| load.load(0, 1))
}

/// Number of ideals; `None` if there are more than `limit`.
pub fn count_ideals(units: &Units, limit: usize) -> Option<usize> {
    ideals(units, limit).map(|ideals| ideals.len())
}

/// All ideals by ascending size, from the empty to the full one; `None` if there are more than `limit`.
fn ideals(units: &Units, limit: usize) -> Option<Vec<Ideal>> {
    let mut all = vec![Ideal::filled(false, units.len())];
    let mut level = all.clone();
    while !level.is_empty() {
        let mut next = Vec::new();
        for ideal in &level {
            for unit in units.ids().filter(|&unit| !ideal[unit]) {
                if units.predecessors(unit).iter().all(|&before| ideal[before]) {
                    let mut larger = ideal.clone();
                    larger[unit] = true;
                    next.push(larger);
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        all.extend(next.iter().cloned());
        if all.len() > limit {
            return None;
        }
        level = next;
    }
    Some(all)
}
