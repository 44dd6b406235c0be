//! Moves drawn from a prior over good schedules.
//!
//! An unguided walk moves any group anywhere. A caller may have a prior, such as a learned policy, on which units are
//! misplaced, where they belong, and which of them belong together, and passes it as weights. A guided walk draws half
//! of its moves of groups from these weights and the other half without guidance, so a wrong prior costs at most half
//! of the steps.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::csr::Csr;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::{Id, Keyed};

use super::groups::Groups;
use super::instance::Instance;
use super::multilevel::{ClusterId, Level};

/// Weights from which moves are drawn.
#[derive(Debug, Clone)]
pub struct Guidance {
    /// Prefix sums of the weights of units to move.
    picks: Vec<f64>,
    /// The classes of every unit.
    classes: Csr<ClassId>,
    /// The unit of every class.
    unit_of: Keyed<ClassId, ClusterId>,
    devices: usize,
    /// Prefix sums of the weights of devices, by unit.
    targets: Vec<f64>,
    groups: Groups,
}

impl Guidance {
    /// Guidance over the units of a level. `picks` has the weight of each unit as the one to move; `targets` has, by
    /// unit, the weight of each device as the destination. `together` is a sorted list of (from, to, weight) over pairs
    /// of units: the fraction, from 0 to 1, of the communication between the two units that counts when units are
    /// grouped; communication within a unit counts in full. Negative and non-finite weights count as zero. O(units ·
    /// devices + edges log edges).
    ///
    /// # Panics
    /// If `picks` does not have one weight per unit, or `targets` one per unit and device.
    pub fn new(
        instance: &Instance<'_>,
        level: &Level,
        picks: &[f64],
        targets: &[f64],
        together: &[(ClusterId, ClusterId, f64)],
    ) -> Guidance {
        let (units, devices) = (level.len(), instance.device_count());
        assert_eq!(picks.len(), units, "a weight for every unit");
        assert_eq!(targets.len(), units * devices, "a weight for every unit and device");
        let unit_of: Keyed<ClassId, ClusterId> =
            instance.graph().class_ids().map(|class| level.cluster_of(class)).collect();
        let mut members: Vec<(ClusterId, ClassId)> =
            unit_of.iter().copied().zip(instance.graph().class_ids()).collect();
        members.sort_unstable();
        let kept = |a: ClassId, b: ClassId| {
            let [a, b] = [a, b].map(|class| unit_of[class]);
            let affinity = |from, to| {
                let index = together.binary_search_by_key(&(from, to), |&(from, to, _)| (from, to));
                index.map_or(0.0, |index| weight(together[index].2))
            };
            if a == b { 1.0 } else { affinity(a, b).max(affinity(b, a)) }
        };
        let groups = Groups::weighted(instance, kept);
        Guidance {
            picks: running(picks),
            classes: Csr::from_sorted(units, members.into_iter()),
            unit_of,
            devices,
            targets: targets.chunks(devices.max(1)).flat_map(running).collect(),
            groups,
        }
    }

    /// Groups of units that belong together.
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// A class to move; `None` if no unit has a positive weight.
    pub(super) fn pick(&self, rng: &mut impl Rng) -> Option<ClassId> {
        let unit: ClusterId = draw(&self.picks, rng)?;
        let classes = self.classes.row(unit);
        (!classes.is_empty()).then(|| classes[rng.random_range(0..classes.len())])
    }

    /// A device for a class; `None` if no device has a positive weight.
    pub(super) fn target(&self, class: ClassId, rng: &mut impl Rng) -> Option<DeviceId> {
        let first = self.unit_of[class].index() * self.devices;
        draw(&self.targets[first..first + self.devices], rng)
    }
}

/// Cap on weights, so that their sums are finite.
const MOST: f64 = 1e200;

/// The weight that is used: capped, and zero if negative or not finite.
fn weight(weight: f64) -> f64 {
    if weight.is_finite() { weight.clamp(0.0, MOST) } else { 0.0 }
}

fn running(weights: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, &next: &f64| {
        *sum += weight(next);
        Some(*sum)
    };
    weights.iter().scan(0.0, add).collect()
}

/// A random index with probability proportional to its weight, given the prefix sums.
fn draw<I: Id>(sums: &[f64], rng: &mut impl Rng) -> Option<I> {
    let all = *sums.last()?;
    if all <= 0.0 {
        return None;
    }
    let drawn = rng.random_range(0.0..all);
    Some(I::new(sums.partition_point(|&sum| sum <= drawn).min(sums.len() - 1)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stagewright_core::document::ObjectiveKind;
    use stagewright_core::seed;
    use stagewright_testing::random::{self, Size};

    use super::*;
    use crate::level_of;

    #[test]
    fn every_class_of_a_unit_is_picked() {
        let problem = random::problem(3, Size { operators: 24, devices: 3, groups: false });
        let problem = problem.with_objective(ObjectiveKind::Makespan).expect("a valid objective");
        let instance = Instance::new(&problem);
        let mut rng = seed::stream(5, 0);
        let level = level_of(&instance, 6, &mut rng);
        assert!(level.len() < instance.graph().class_count());
        let (picks, targets) = (vec![1.0; level.len()], vec![1.0; level.len() * 3]);
        let guidance = Guidance::new(&instance, &level, &picks, &targets, &[]);
        let picked: BTreeSet<ClassId> = (0..2000).filter_map(|_| guidance.pick(&mut rng)).collect();
        assert_eq!(picked.len(), instance.graph().class_count());
    }
}
