//! Linear orders decoded from a prediction, for the exact program over an order.

use rand::{Rng, RngExt};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_search::order::by_priority;

use crate::predict::Prediction;
use crate::subject::Subject;

/// Position, from 0 to 1, of every unit in the linear order that follows the network's priorities.
pub(crate) fn places(
    subject: &Subject<'_, '_>,
    prediction: &Prediction,
    units: &Units,
) -> Keyed<UnitId, f64> {
    let (graph, level) = (subject.instance.graph(), &subject.level);
    let of_unit = |unit: UnitId| {
        let members = units.members(unit);
        let sum: f64 =
            members.iter().map(|&op| prediction.priority[level.cluster_of(graph.class_of(op)).index()]).sum();
        sum / members.len() as f64
    };
    let priority: Keyed<UnitId, f64> = units.ids().map(of_unit).collect();
    of_order(&by_priority(units, |unit| priority[unit]))
}

/// Position of every unit in an order, from 0 to 1.
pub(crate) fn of_order(order: &[UnitId]) -> Keyed<UnitId, f64> {
    let mut places = Keyed::filled(0.0, order.len());
    for (position, &unit) in order.iter().enumerate() {
        places[unit] = position as f64 / order.len() as f64;
    }
    places
}

/// The units in the order of the weighted means of two positions, with weight `weight` on the second, plus noise.
pub(crate) fn mixed(
    units: &Units,
    a: &Keyed<UnitId, f64>,
    b: &Keyed<UnitId, f64>,
    weight: f64,
    noise: f64,
    rng: &mut impl Rng,
) -> Vec<UnitId> {
    let places: Keyed<UnitId, f64> = units
        .ids()
        .map(|unit| {
            let noise = if noise > 0.0 { rng.random_range(-noise..noise) } else { 0.0 };
            (1.0 - weight) * a[unit] + weight * b[unit] + noise
        })
        .collect();
    by_priority(units, |unit| places[unit])
}
