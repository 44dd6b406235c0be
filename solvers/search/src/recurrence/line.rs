//! The dynamic program over one linear order, in which stages are intervals.

use stagewright_core::contraction::UnitId;

use super::states::{Recurrence, Stages};
use super::{Growing, Program};
use crate::dpl::Positions;
use crate::usage::UsageSpace;

impl<G: Growing> Program<'_, G> {
    /// The best stages over an order with a score below the cap, by the recurrence of
    /// [`best_stages`](crate::dpl::best_stages) with scores; `Some(None)` if there are no such stages, `None` if
    /// the solve has to stop first. O(p · (w + q · replicas · usages)) for p cut positions, w units and q
    /// positions in the longest stage below the cap, times the pools.
    pub(crate) fn on_line(
        &self,
        order: &[UnitId],
        positions: &Positions,
        space: &UsageSpace,
        cap: f64,
    ) -> Option<Option<Stages>> {
        let cuts: Vec<usize> = positions.list().iter().copied().collect();
        let mut recurrence = Recurrence::new(self, space, cuts.len(), cap);
        for start in 0..cuts.len() - 1 {
            for pool in 0..self.problem.pools().len() {
                if !recurrence.begin(start, pool) {
                    continue;
                }
                let mut end = start + 1;
                for (position, &unit) in order.iter().enumerate().skip(cuts[start]) {
                    recurrence.add(unit)?;
                    if recurrence.is_hopeless() {
                        break;
                    }
                    if cuts[end] == position + 1 {
                        recurrence.end(end)?;
                        end += 1;
                    }
                }
            }
        }
        Some(recurrence.best(cuts.len() - 1, |start, end| order[cuts[start]..cuts[end]].to_vec()))
    }
}
