//! Moves drawn from what somebody expects of good schedules.
//!
//! A walk that knows nothing moves any group anywhere. Whoever has an idea of what is misplaced, of where it belongs and
//! of what belongs together, a learned policy say, gives it as weights; a guided walk draws half of its moves from
//! them, and the others as it would without, so that a wrong idea costs at most half of the steps.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;

use super::groups::Groups;
use super::multilevel::Level;
use super::scene::Scene;

/// Weights that moves are drawn from.
#[derive(Debug, Clone)]
pub struct Guidance {
    /// Running sums of the weights with which units are picked.
    picks: Vec<f64>,
    /// One class of every unit.
    class_of: Vec<u32>,
    /// The unit of every class.
    unit_of: Vec<u32>,
    devices: usize,
    /// Running sums of the weights of devices, by unit.
    targets: Vec<f64>,
    groups: Groups,
}

impl Guidance {
    /// Guidance over the units of a level. `picks` says by unit how likely it should be moved, `targets` by unit and
    /// device how likely it should be there, and `together` for pairs of units (from, to, weight), sorted, what of the
    /// heaviest edges should be kept together: an edge counts as much as its weight, from 0 to 1, and one within a unit
    /// counts in full. Weights below zero or that are no numbers count as zero. O(units · devices + edges log edges).
    ///
    /// # Panics
    /// Where `picks` or `targets` have other lengths than units, or units times devices.
    pub fn new(
        scene: &Scene<'_>,
        level: &Level,
        picks: &[f64],
        targets: &[f64],
        together: &[(u32, u32, f64)],
    ) -> Guidance {
        let (units, devices) = (level.len(), scene.device_count());
        assert_eq!(picks.len(), units, "a weight for every unit");
        assert_eq!(targets.len(), units * devices, "a weight for every unit and device");
        let classes = scene.graph().class_count();
        let mut class_of = vec![0; units];
        for class in (0..classes).rev() {
            class_of[level.cluster_of(class)] = class as u32;
        }
        let unit_of: Vec<u32> = (0..classes).map(|class| level.cluster_of(class) as u32).collect();
        let kept = |a: u32, b: u32| {
            let [a, b] = [a, b].map(|class| unit_of[class as usize]);
            let of = |from, to| {
                let at = together.binary_search_by_key(&(from, to), |&(from, to, _)| (from, to));
                at.map_or(0.0, |at| weight(together[at].2))
            };
            if a == b { 1.0 } else { of(a, b).max(of(b, a)) }
        };
        let groups = Groups::weighted(scene, kept);
        Guidance {
            picks: running(picks),
            class_of,
            unit_of,
            devices,
            targets: targets.chunks(devices.max(1)).flat_map(running).collect(),
            groups,
        }
    }

    /// The groups of what belongs together.
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// A class to move; none where no unit has a weight.
    pub(super) fn pick(&self, rng: &mut impl Rng) -> Option<u32> {
        draw(&self.picks, rng).map(|unit| self.class_of[unit])
    }

    /// A device for a class; none where no device has a weight.
    pub(super) fn target(&self, class: usize, rng: &mut impl Rng) -> Option<DeviceId> {
        let first = self.unit_of[class] as usize * self.devices;
        draw(&self.targets[first..first + self.devices], rng).map(|device| DeviceId(device as u32))
    }
}

/// No weight counts more, so that their sums are finite.
const MOST: f64 = 1e200;

/// What a weight counts.
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

/// An index in proportion to the weights whose running sums are given.
fn draw(sums: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let all = *sums.last()?;
    if all <= 0.0 {
        return None;
    }
    let at = rng.random_range(0.0..all);
    Some(sums.partition_point(|&sum| sum <= at).min(sums.len() - 1))
}
