//! Simulates and counts placements, and keeps the best.

use std::time::Instant;

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::Graph;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;
use stagewright_makespan::schedule::{Best, Evaluator, Schedule, Score, is_better};
use stagewright_makespan::{ClusterId, assigned};

use crate::Reading;

/// Cap on the memory overflow, in multiples of a device's memory: without it, one placement would outweigh all others.
const MAX_LACK: f64 = 10.0;

/// Step seconds for rewards: penalised for memory overflow as in the searches over schedules, up to a bound.
pub(crate) fn penalised(score: Score) -> f64 {
    Score { lack: score.lack.min(MAX_LACK), ..score }.energy()
}

/// The simulated placements of one problem.
///
/// A system places units only. The priorities on each device follow from the placement, by the same rule as for every
/// other solver, since none of the systems determines them.
pub struct Trials<'a, 's, 'p> {
    reading: &'a Reading<'s, 'p>,
    evaluator: Evaluator<'s, 'p>,
    /// The best placement so far.
    best: Option<Best>,
    /// Maximum number of placements to simulate.
    most: u64,
    played: u64,
    /// Step time that matches the bound.
    target: f64,
    stop: Stop,
    /// Improvements since [`Trials::news`] was last called.
    news: Vec<News>,
}

/// A placement that fits the memory and is better than all before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct News {
    /// Number of the placement among those simulated, from 1.
    pub played: u64,
    /// Time at which the placement was simulated.
    pub at: Instant,
    /// Step time in seconds.
    pub makespan: f64,
}

impl<'a, 's, 'p> Trials<'a, 's, 'p> {
    /// Trials of at most `limit` placements, until a step takes no more than `target` seconds or `stop` is set.
    pub fn new(
        reading: &'a Reading<'s, 'p>,
        evaluator: Evaluator<'s, 'p>,
        limit: u64,
        target: f64,
        stop: Stop,
    ) -> Trials<'a, 's, 'p> {
        Trials { reading, evaluator, best: None, most: limit, played: 0, target, stop, news: Vec::new() }
    }

    /// Simulates a placement of the units; `None` if the trials are over. The first placement is always simulated.
    pub fn play(&mut self, homes: &[DeviceId]) -> Option<Score> {
        if self.is_over() {
            return None;
        }
        let instance = self.reading.subject.instance();
        let level = self.reading.subject.level();
        let homes = level.ids().zip(homes).map(|(unit, &device)| self.reading.instead(unit, device));
        let device_of = level.project(instance, &homes.collect());
        let order = assigned::order(instance, &device_of);
        let schedule = Schedule::by_order(device_of, &order);
        let score = self.evaluator.score(&schedule);
        self.played += 1;
        if self.best.as_ref().is_none_or(|best| is_better(score, best.score)) {
            self.best = Some(Best { score, schedule });
            if score.fits() {
                self.news.push(News { played: self.played, at: Instant::now(), makespan: score.makespan });
            }
        }
        Some(score)
    }

    /// Mean start time of every unit's operators in the last placement, in seconds.
    pub(crate) fn starts(&self) -> Keyed<ClusterId, f64> {
        let (reading, (_, timeline)) = (self.reading, self.evaluator.last());
        let graph: &Graph = reading.subject.instance().graph();
        let (mut sum, mut count) = (vec![0.0; reading.units()], vec![0.0f64; reading.units()]);
        for (op, span) in graph.operators().zip(timeline.operators()) {
            let unit = reading.subject.level().cluster_of(graph.class_of(op));
            sum[unit.index()] += span.start;
            count[unit.index()] += 1.0;
        }
        sum.iter().zip(&count).map(|(sum, count)| sum / count.max(1.0)).collect()
    }

    /// Whether the bound or a limit is reached. Never before the first placement.
    pub fn is_over(&self) -> bool {
        let is_enough = |best: &Best| best.score.fits() && best.score.makespan <= self.target;
        self.best
            .as_ref()
            .is_some_and(|best| self.played >= self.most || is_enough(best) || self.stop.reason().is_some())
    }

    /// Number of placements simulated.
    pub fn played(&self) -> u64 {
        self.played
    }

    /// The best placement so far.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Improvements since the last call, in order.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The best placement.
    pub fn into_best(self) -> Option<Best> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_counts_up_to_a_bound() {
        let penalty = |lack| penalised(Score { lack, makespan: 2.0 });
        assert_eq!(penalty(0.0), 2.0);
        assert!(penalty(0.0) < penalty(0.1) && penalty(0.1) < penalty(5.0) && penalty(5.0) < penalty(10.0));
        assert_eq!(penalty(10.0), penalty(1e12));
    }
}
