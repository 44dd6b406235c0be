//! The plan whose worst case is best when costs are off: see [`stagewright_search::robust`].

use stagewright_core::document::{RobustDocument, ScenarioDocument};
use stagewright_core::uncertainty::{SourceId, Sources, Uncertainty};

pub use stagewright_search::robust::{Robust, RobustPlan, solve};

/// The part of a plan document about the worst case; `None` without a plan.
pub fn document(robust: &Robust, uncertainty: Uncertainty) -> Option<RobustDocument> {
    let (best, nominal) = (robust.best.as_ref()?, robust.nominal.value()?);
    Some(RobustDocument {
        deviation: uncertainty.deviation,
        budget: uncertainty.budget,
        worst_s: best.worst.value,
        scenario: scenario(&robust.sources, &best.worst.sources),
        bound_s: robust.bound.value,
        source: robust.bound.source.into(),
        gap: robust.gap()?,
        nominal_best_s: nominal,
        nominal_best_worst_s: robust.nominal_worst?,
    })
}

/// The sources that are off in a worst case.
fn scenario(sources: &Sources, off: &[SourceId]) -> ScenarioDocument {
    let links = sources.links();
    let kinds = off.iter().filter(|&&source| source != links);
    ScenarioDocument {
        kinds: kinds.map(|&source| sources.kind(source).unwrap_or("").to_owned()).collect(),
        links: off.contains(&links),
    }
}
