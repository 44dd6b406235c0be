//! Memory of the devices of a pipeline, summed over their stages.

use stagewright_core::document::Schedule;
use stagewright_core::tolerance;

use super::devices::Devices;
use super::order::{self, Pass, Pipeline};
use super::stage::Sums;
use crate::joint::JointViolation;

/// Memory of a stage and of its device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Memory {
    /// Maximum number of the stage's microbatches in flight.
    pub(super) in_flight: usize,
    /// Bytes of the stage's activations with the maximum number of microbatches in flight.
    pub(super) activations: f64,
    /// Bytes that all stages of the device need.
    pub(super) bytes: f64,
    /// Bytes of the host's memory that the stage needs by itself, and that all stages of the device need.
    pub(super) host: [f64; 2],
}

/// Memory of the stages. O(stages), and O(passes) if devices have several stages.
pub(super) fn of_stages(sums: &[Sums], pipeline: &Pipeline) -> Vec<Memory> {
    match pipeline.schedule {
        Schedule::Interleaved | Schedule::DualPipeV => chunked(sums, pipeline),
        schedule => sums
            .iter()
            .enumerate()
            .map(|(stage, sums)| {
                let [held, all] = pipeline.in_flight(stage);
                let [until_backward, until_weight] = sums.activations;
                let activations = held as f64 * until_backward + all as f64 * until_weight;
                let in_flight = if order::has_weights_apart(schedule) { all } else { held };
                let bytes = sums.state + activations + sums.workspace;
                Memory { in_flight, activations, bytes, host: [sums.host + held as f64 * sums.on_host; 2] }
            })
            .collect(),
    }
}

/// Memory of devices that have several stages each. Under DualPipeV all weight gradients up to the last forward pass follow
/// their backward pass, so that what they need adds nothing to the maximum.
fn chunked(sums: &[Sums], pipeline: &Pipeline) -> Vec<Memory> {
    let mut memory = vec![Memory::default(); sums.len()];
    let mut now = vec![0; sums.len()];
    for device in 0..pipeline.devices {
        // Bytes on the device, and on its host.
        let (mut kept, mut largest) = ([0.0; 2], [0.0f64; 2]);
        for task in pipeline.tasks(device) {
            let stage = &sums[task.stage];
            let bytes = [stage.activations.iter().sum(), stage.on_host];
            let in_flight = &mut now[task.stage];
            let sign = match task.pass {
                Pass::Forward => {
                    *in_flight += 1;
                    1.0
                }
                Pass::Backward => {
                    *in_flight -= 1;
                    -1.0
                }
                Pass::Weight => 0.0,
            };
            for ((kept, largest), bytes) in kept.iter_mut().zip(&mut largest).zip(bytes) {
                *kept += sign * bytes;
                *largest = largest.max(*kept);
            }
            let stage = &mut memory[task.stage];
            stage.in_flight = stage.in_flight.max(*in_flight);
        }
        let own = || (0..sums.len()).filter(|&stage| pipeline.device(stage) == device);
        let state: f64 = own().map(|stage| sums[stage].state).sum();
        let workspaces = own().map(|stage| sums[stage].workspace);
        let workspace = match pipeline.schedule {
            // Passes of both stages run beside each other.
            Schedule::DualPipeV => workspaces.sum(),
            _ => workspaces.fold(0.0, f64::max),
        };
        let on_host: f64 = own().map(|stage| sums[stage].host).sum();
        for stage in own() {
            let activations: f64 = sums[stage].activations.iter().sum();
            let in_flight = memory[stage].in_flight as f64;
            memory[stage].activations = in_flight * activations;
            memory[stage].bytes = state + largest[0] + workspace;
            let own = sums[stage].host + in_flight * sums[stage].on_host;
            memory[stage].host = [own, on_host + largest[1]];
        }
    }
    memory
}

/// Reports devices whose share of the host's memory is less than all their stages have there.
pub(super) fn check_hosts(
    devices: &[Vec<Devices>],
    memory: &[Memory],
    pipeline: &Pipeline,
    violations: &mut Vec<JointViolation>,
) {
    // Each device of the pipeline runs exactly one of the first stages.
    for (stage, (sides, memory)) in devices.iter().zip(memory).enumerate().take(pipeline.devices) {
        let [_, bytes] = memory.host;
        let limits = sides.iter().filter_map(|devices| devices.kind.document.ram?.memory_bytes);
        if let Some(limit) = limits.reduce(f64::min)
            && !tolerance::fits(bytes, limit)
        {
            violations.push(JointViolation::HostMemory { stage, bytes, limit });
        }
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::{Memory, Pipeline, Sums, of_stages};

    /// Memory of stages, given the bytes of a microbatch that they keep until the backward pass and until the weight
    /// gradients.
    fn memory(schedule: Schedule, chunks: usize, microbatches: usize, kept: &[[f64; 2]]) -> Vec<Memory> {
        let sums: Vec<Sums> = kept
            .iter()
            .map(|&activations| Sums { activations, state: 100.0, workspace: 10.0, ..Sums::default() })
            .collect();
        let devices = kept.len() / chunks;
        of_stages(&sums, &Pipeline { schedule, devices, chunks, microbatches })
    }

    #[test]
    fn earlier_stages_keep_more_microbatches() {
        let found = memory(Schedule::OneFOneB, 1, 2, &[[1.0, 0.0]; 3]);
        assert_eq!(found.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(found.iter().map(|stage| stage.bytes).collect::<Vec<_>>(), [112.0, 112.0, 111.0]);
    }

    #[test]
    fn what_weight_gradients_need_is_kept_for_as_many_microbatches_as_there_are_stages() {
        let found = memory(Schedule::ZeroBubble, 1, 5, &[[1.0, 4.0]; 3]);
        assert_eq!(found.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(found.iter().map(|stage| stage.activations).collect::<Vec<_>>(), [15.0, 14.0, 13.0]);
    }

    #[test]
    fn zero_bubble_2p_keeps_about_twice_as_many() {
        let found = memory(Schedule::ZeroBubbleTwice, 1, 6, &[[1.0, 4.0]; 3]);
        assert_eq!(found.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [5, 5, 5]);
        assert_eq!(found.iter().map(|stage| stage.activations).collect::<Vec<_>>(), [25.0, 23.0, 21.0]);
        let few = memory(Schedule::ZeroBubbleTwice, 1, 2, &[[1.0, 4.0]; 3]);
        assert_eq!(few.iter().map(|stage| stage.activations).collect::<Vec<_>>(), [10.0, 10.0, 9.0]);
    }

    #[test]
    fn both_stages_of_a_device_work_at_once_under_dualpipe_v() {
        // Device 0 has the stages 0 and 3, and keeps 4 microbatches of the first with 1 of the other, device 1 3 and 2.
        let found = memory(Schedule::DualPipeV, 2, 6, &[[1.0, 0.0], [0.0, 2.0], [4.0, 0.0], [8.0, 0.0]]);
        assert_eq!(found.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [4, 3, 2, 1]);
        assert_eq!(found.iter().map(|stage| stage.bytes).collect::<Vec<_>>(), [232.0, 234.0, 234.0, 232.0]);
    }

    #[test]
    fn chunks_of_a_device_share_its_memory() {
        // Device 0 runs F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 …, device 1 F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 ….
        let found = memory(Schedule::Interleaved, 2, 4, &[[1.0, 0.0], [2.0, 0.0], [4.0, 0.0], [8.0, 0.0]]);
        assert_eq!(found.iter().map(|stage| stage.in_flight).collect::<Vec<_>>(), [4, 3, 2, 1]);
        // After F0.2 device 0 keeps 3 · 1 + 2 · 4, and after F1.0 device 1 keeps 2 · 2 + 1 · 8.
        assert_eq!(found.iter().map(|stage| stage.bytes).collect::<Vec<_>>(), [221.0, 222.0, 221.0, 222.0]);
        assert_eq!(found.iter().map(|stage| stage.activations).collect::<Vec<_>>(), [4.0, 6.0, 8.0, 8.0]);
    }
}
