//! Time and memory of a stage.

use stagewright_core::document::PiperConfigurationDocument;

use super::Choice;
use super::file::File;
use crate::joint::JointStageFigures;

/// Figures of a stage with `data` copies, each with `in_flight` microbatches in flight.
pub(super) fn figures(
    file: &File,
    choices: &[Choice],
    stage_of: &[usize],
    data: u64,
    in_flight: u64,
    takes_largest_workspace: bool,
) -> JointStageFigures {
    let (copies, microbatches) = (data as f64, file.microbatches as f64);
    let (mut seconds, mut memory, mut workspace) = (0.0, 0.0, 0.0f64);
    for choice in choices {
        let chosen = choice.chosen;
        let bytes = exchanged(file, choice.layer, chosen, stage_of);
        let busy = chosen.time_per_sample * file.unit + 2.0 * bytes / file.bandwidth;
        let synchronised = 4.0 * (copies - 1.0) / copies * chosen.parameter_size;
        seconds += busy / copies + synchronised / microbatches / file.bandwidth;

        let kept = match takes_largest_workspace {
            true => choice.all.iter().map(|other| other.memory_usage_b).fold(f64::INFINITY, f64::min),
            false => chosen.memory_usage_b,
        };
        memory += chosen.memory_usage_a * in_flight as f64 + kept;
        workspace = workspace.max(chosen.memory_usage_b - kept);
    }
    JointStageFigures {
        in_flight,
        seconds,
        forward_s: None,
        weight_s: None,
        update_s: None,
        memory_bytes: memory + workspace,
        state_bytes: None,
        host_bytes: None,
        activation_bytes: None,
    }
}

/// Bytes that a layer transfers and synchronises in each pass because its neighbours are in other stages.
fn exchanged(file: &File, layer: usize, chosen: &PiperConfigurationDocument, stage_of: &[usize]) -> f64 {
    let mut bytes = 0.0;
    for &(from, to) in &file.edges_of[layer] {
        if stage_of[from] == stage_of[to] {
            continue;
        }
        let synchronised = match layer == to {
            true => chosen.sync_time_fw.get(&file.nodes[from].id),
            false => chosen.sync_time_bw.get(&file.nodes[to].id),
        };
        bytes += file.edges[&(from, to)] + synchronised.copied().unwrap_or(0.0);
    }
    bytes
}
