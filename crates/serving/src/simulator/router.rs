//! The router in front of replicas.

use stagewright_core::ids::Keyed;

use super::machine::Machine;
use super::world::MachineId;

/// The replica with the fewest requests for its rate in the plan, counting the one to send; the first of several. Takes time
/// proportional to candidates.
///
/// By Little's law requests in a replica are its rate times the time they stay, so equal quotients mean equal times. Weighted
/// round robin follows the rates as well, but in a closed loop it lets the requests of a replica drift, and it queues
/// requests before one replica while another is idle.
pub(super) fn choose(machines: &Keyed<MachineId, Machine>, candidates: &[MachineId]) -> Option<MachineId> {
    let load = |id: &MachineId| (machines[*id].outstanding + 1) as f64 / machines[*id].group.weight;
    candidates.iter().copied().min_by(|left, right| load(left).total_cmp(&load(right)))
}
