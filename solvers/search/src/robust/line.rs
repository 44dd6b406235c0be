//! The program over one linear order: stages are intervals of it.

use stagewright_core::contract::UnitId;
use stagewright_core::placement::StageAssignment;

use super::search::Program;
use super::states::States;
use crate::dpl::Positions;
use crate::usage::UsageSpace;

/// Intervals between checks of the clock.
const INTERVALS_BETWEEN_CHECKS: usize = 256;

impl Program<'_> {
    /// The best stages over an order with a worst value below the cap, by the recurrence of
    /// [`best_stages`](crate::dpl::best_stages) with worst loads. `None` if there are none, or if the solve has to stop
    /// first. O(p · (w + q · (sources + usages))) for p cut positions, w units and q positions in the longest stage below
    /// the cap, times the pools.
    pub(super) fn on_line(
        &self,
        order: &[UnitId],
        positions: &Positions,
        space: &UsageSpace,
        cap: f64,
    ) -> Option<(f64, Vec<StageAssignment>)> {
        let cuts: Vec<usize> = positions.list().iter().copied().collect();
        let mut states = States::new(space, cuts.len());
        let mut meters: Vec<_> = (0..self.problem.pools().len()).map(|pool| self.meter(pool)).collect();
        let mut open = Vec::new();
        let mut intervals = 0usize;
        for start in 0..cuts.len() - 1 {
            for (pool, meter) in meters.iter_mut().enumerate() {
                states.open(start, pool, cap, &mut open);
                if open.is_empty() {
                    continue;
                }
                let most = self.most_replicas(pool);
                meter.clear();
                let mut end = start + 1;
                for (at, &unit) in order.iter().enumerate().skip(cuts[start]) {
                    meter.add(unit);
                    if meter.is_hopeless(cap, most) {
                        break;
                    }
                    if cuts[end] != at + 1 {
                        continue;
                    }
                    intervals += 1;
                    if intervals.is_multiple_of(INTERVALS_BETWEEN_CHECKS) && self.stop.reason().is_some() {
                        return None;
                    }
                    for replicas in 1..=most {
                        let load = meter.worst(replicas);
                        if load < cap {
                            if !meter.fits() {
                                break;
                            }
                            states.extend(&open, start, end, (pool, replicas), load);
                        }
                    }
                    end += 1;
                }
            }
        }
        let last = cuts.len() - 1;
        let (usage, value) = states.best(last)?;
        let stages = states.stages(last, usage).into_iter().map(|(last, end)| StageAssignment {
            pool: last.pool as usize,
            replicas: last.replicas,
            units: order[cuts[last.start as usize]..cuts[end]].to_vec(),
        });
        Some((value, stages.collect()))
    }
}
