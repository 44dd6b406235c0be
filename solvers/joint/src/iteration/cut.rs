//! The cut into stages, if it is given.

use stagewright_core::document::Schedule;

use super::error::{CutFault, ModelError};
use super::model::Layer;

/// The layer after the last of each stage; `cut` has the number of numbered layers of each.
///
/// # Errors
/// If the numbers do not add up to those of the model, or a stage has no layers.
pub(super) fn ends(layers: &[Layer], cut: &[u32]) -> Result<Vec<usize>, ModelError> {
    let fault = |fault| Err(ModelError::Cut(fault));
    let numbered: Vec<usize> = (0..layers.len()).filter(|&layer| layers[layer].is_numbered).collect();
    let sum: u64 = cut.iter().map(|&count| u64::from(count)).sum();
    if sum != numbered.len() as u64 || cut.is_empty() {
        return fault(CutFault::Layers { found: sum, layers: numbered.len() });
    }
    let (mut ends, mut first, mut before) = (Vec::with_capacity(cut.len()), 0, 0);
    for (stage, &count) in cut.iter().enumerate() {
        let is_last = stage + 1 == cut.len();
        before += count as usize;
        let behind_all = || numbered.last().map_or(0, |last| last + 1);
        let end = match numbered.get(before) {
            _ if is_last => layers.len(),
            Some(&next) => next,
            None => behind_all(),
        };
        if (count == 0 && stage > 0 && !is_last) || end <= first {
            return fault(CutFault::Stage { stage });
        }
        ends.push(end);
        first = end;
    }
    Ok(ends)
}

/// Refuses chunks and numbers of stages that no plan can have; `devices` is the number of devices of a pipeline, if given.
///
/// # Errors
/// If the schedules, the devices, the chunks and the cut exclude each other.
pub(super) fn check(
    schedules: &[Schedule],
    devices: Option<u32>,
    chunks: Option<u32>,
    cut: Option<&[u32]>,
) -> Result<(), ModelError> {
    let may_have_chunks = |chunks: u64| {
        chunks > 1 && schedules.contains(&Schedule::Interleaved)
            || chunks == 2 && schedules.contains(&Schedule::DualPipeV)
    };
    if let Some(chunks) = chunks
        && !may_have_chunks(chunks.into())
    {
        let allowed = match schedules.iter().find(|schedule| schedule.has_chunks()) {
            Some(Schedule::DualPipeV) => "2 under dualpipe-v",
            Some(_) => "2 or more",
            None => "absent without the schedules interleaved and dualpipe-v",
        };
        return Err(ModelError::Range { what: "the number of chunks", found: chunks.into(), range: allowed });
    }
    let Some(cut) = cut else { return Ok(()) };
    let stages = cut.len() as u64;
    let given = devices.map(u64::from);
    let is_given = |devices: u64| given.is_none_or(|given| given == devices);
    let are_chunks = |chunks: u64| {
        may_have_chunks(chunks)
            && stages.is_multiple_of(chunks)
            && stages / chunks > 1
            && is_given(stages / chunks)
    };
    let may_share_devices = match chunks {
        Some(chunks) => are_chunks(chunks.into()),
        None => (2..=stages / 2).any(are_chunks),
    };
    let may_be_plain = schedules.iter().any(|schedule| !schedule.has_chunks());
    if may_share_devices || (chunks.is_none() && may_be_plain && is_given(stages)) {
        Ok(())
    } else {
        Err(ModelError::Cut(CutFault::Stages { stages }))
    }
}
