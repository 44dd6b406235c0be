//! Search moves guided by a prediction.

use stagewright_makespan::guidance::Guidance;

use crate::predict::Prediction;
use crate::subject::{Base, Subject};

/// Picks units by the improbability of their current device and target devices by their probability, and moves together
/// the units that the network groups.
pub(crate) fn guidance(subject: &Subject<'_, '_>, base: &Base, prediction: &Prediction) -> Guidance {
    let devices = subject.instance().device_count();
    let mut targets = prediction.affinity.clone();
    let mut picks = Vec::with_capacity(subject.unit_count());
    for (unit, &home) in base.home.iter().enumerate() {
        let index = unit * devices + home.index();
        picks.push(1.0 - targets[index]);
        // Staying put is not a move.
        targets[index] = 0.0;
    }
    let together: Vec<_> = subject
        .edges()
        .iter()
        .zip(&prediction.together)
        .map(|(&(from, to, _), &likely)| (from, to, likely))
        .collect();
    Guidance::new(subject.instance(), subject.level(), &picks, &targets, &together)
}
