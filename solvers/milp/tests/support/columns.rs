//! Reference for column generation: the resources of a set by definition.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_milp::colgen::kind::{Kind, Resource};

/// The two resources of a set by definition: sums over the units and the nets with pins on both sides.
pub(crate) fn resources(units: &Units, kind: &Kind, set: u32) -> [f64; 2] {
    let inside = |unit: UnitId| set >> unit.0 & 1 == 1;
    let cut: f64 = units
        .nets()
        .ids()
        .filter(|&net| {
            let count = units.pins(net).iter().filter(|&&unit| inside(unit)).count();
            0 < count && count < units.pins(net).len()
        })
        .map(|net| units.transfer(net, kind.pool))
        .sum();
    let load = |resource: &Resource| {
        let held = units.ids().filter(|&unit| inside(unit));
        held.map(|unit| resource.units[unit]).sum::<f64>() + resource.cut * cut
    };
    [load(&kind.first), kind.second.as_ref().map_or(0.0, load)]
}
