//! Seconds of a stage in a step of the simulation.

use stagewright_core::document::ServingRole;

use crate::replica::Replica;
use crate::worker::Step;

/// Seconds that a step occupies a stage, and those by which its prompts end later than the step.
///
/// The formulas say that sequences decode through `prompt_share` of the time of other requests' prompts, and that a prompt takes its
/// whole time. So a step of D seconds with prompts that make it M seconds occupies the stage for D + `prompt_share` · (M − D), and
/// its prompts end the rest later, beside further steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// Seconds of the step on the stage.
    pub(super) seconds: f64,
    /// Seconds from its end to that of its prompts.
    pub(super) rest: f64,
}

/// The pace of a stage of a replica in a role.
pub(super) fn pace(replica: &Replica, role: ServingRole, stage: usize, step: &Step) -> Pace {
    let engine = replica.stages()[stage].engine();
    let whole = stage_seconds(replica, stage, step);
    if role == ServingRole::Decode {
        return Pace { seconds: engine.decode_share * whole, rest: 0.0 };
    }
    if step.prompt <= 0.0 || step.sequences <= 0.0 {
        return Pace { seconds: whole, rest: 0.0 };
    }
    let decode = stage_seconds(replica, stage, &Step { prompt: 0.0, seen: 0.0, ..*step });
    let delay = whole - decode;
    Pace {
        seconds: decode + engine.prompt_share * delay,
        rest: ((1.0 - engine.prompt_share) * delay).max(0.0),
    }
}

/// Seconds of a stage with sending its tokens on, and with drafts.
fn stage_seconds(replica: &Replica, stage: usize, step: &Step) -> f64 {
    let seconds = |step: &Step| replica.stages()[stage].seconds(step) + replica.hop(stage, step.tokens());
    let drafts = replica.speculation().filter(|_| step.sequences > 0.0).map_or(0.0, |speculation| {
        let plain = Step::decode(step.sequences, step.context);
        f64::from(speculation.drafts) * speculation.draft_share * seconds(&plain)
    });
    seconds(step) + drafts
}
