//! The layers of every stage, as runtimes cut them.

use super::rows::Run;

/// Number of numbered layers of every stage.
///
/// Megatron cuts evenly, and counts the table of tokens and the head as layers if the number of layers cannot be divided; nanotron
/// fills the stages in turn by their parameters.
///
/// # Errors
/// A reason, if there are fewer layers than stages.
pub(crate) fn cut(run: &Run) -> Result<Vec<u64>, String> {
    let stages = u64::from(run.pipeline).saturating_mul(run.chunks.into());
    let layers = run.model.layers;
    let few = || "fewer layers than stages".to_owned();
    if stages > 1 && run.runtime == Some("nanotron") {
        return by_parameters(run, stages).ok_or_else(few);
    }
    if stages == 0 || stages > layers.saturating_add(2) {
        return Err(few());
    }
    let largest = layers.div_ceil(stages);
    let all_but_last = (stages - 1) * largest;
    let mut counts = vec![largest; stages as usize];
    let last = counts.len() - 1;
    if layers.is_multiple_of(stages) {
        return Ok(counts);
    }
    if (layers + 2).is_multiple_of(stages) {
        counts.fill((layers + 2) / stages);
        // A cut into one stage is even.
        counts[0] -= 1;
        counts[last] -= 1;
    } else if all_but_last < layers {
        counts[last] = layers - all_but_last;
    } else if stages < layers {
        counts[(layers % stages) as usize..].fill(layers / stages);
    } else {
        return Err(few());
    }
    Ok(counts)
}

/// A stage ends with the block that exceeds its share of the parameters; `None` if a stage has no block.
fn by_parameters(run: &Run, stages: u64) -> Option<Vec<u64>> {
    let model = &run.model;
    let (hidden, layers) = (model.hidden as f64, model.layers as usize);
    let layer = 4.0 * hidden * hidden + 3.0 * model.inner as f64 * hidden;
    let head = model.vocabulary as f64 * hidden;
    let blocks = [0.0].into_iter().chain(vec![layer; layers]).chain([0.0, head, 0.0]);
    let total = layer * layers as f64 + head;
    let (mut counts, mut stage, mut sum) = (vec![0; stages as usize], 0, 0.0);
    for (index, block) in blocks.enumerate() {
        sum += block;
        counts[stage] += u64::from((1..=layers).contains(&index));
        if sum > total * (stage + 1) as f64 / stages as f64 && stage + 1 < counts.len() {
            stage += 1;
        }
    }
    // The last stages may be empty, and a stage may hold the head alone; stages in between that are empty are left out.
    let last = counts.len() - 1;
    let is_empty = |&(index, &count): &(usize, &u64)| count == 0 && index != 0 && index != last;
    let filled = counts.iter().enumerate().filter(|stage| !is_empty(stage));
    Some(filled.map(|(_, &count)| count).collect())
}
