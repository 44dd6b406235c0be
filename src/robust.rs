//! The plan of least value in the worst case, when costs are off: see [`stagewright_search::robust`].

use stagewright_core::document::{
    OffDocument, RegretCaseDocument, RegretDocument, RobustDocument, ScenarioDocument,
};
use stagewright_core::problem::Problem;
use stagewright_core::uncertainty::{Off, Scenario, Sources, Uncertainty, When};

pub use stagewright_search::robust::{Regret, RegretCase, Robust, RobustPlan, listed, regret, solve};

/// The part of a plan document about the worst case; `None` without a plan.
pub fn document(robust: &Robust, uncertainty: Uncertainty) -> Option<RobustDocument> {
    let (best, nominal) = (robust.best.as_ref()?, robust.nominal.value()?);
    Some(RobustDocument {
        deviation: uncertainty.deviation,
        budget: uncertainty.budget,
        worst_s: best.worst.value,
        scenario: scenario(&robust.sources, &best.worst.when),
        bound_s: robust.bound.value,
        source: robust.bound.source.into(),
        gap: robust.gap()?,
        nominal_best_s: nominal,
        nominal_best_worst_s: robust.nominal_worst?,
    })
}

/// The sources that are off in a worst case.
fn scenario(sources: &Sources, when: &When) -> ScenarioDocument {
    let When::Sources(off) = when else { return ScenarioDocument::default() };
    let links = sources.links();
    let kinds = off.iter().filter(|&&source| source != links);
    ScenarioDocument {
        kinds: kinds.map(|&source| sources.kind(source).unwrap_or("").to_owned()).collect(),
        links: off.contains(&links),
    }
}

/// The part of a plan document about the regret; `None` without a plan.
pub fn regret_document(problem: &Problem, regret: &Regret, deviation: f64) -> Option<RegretDocument> {
    regret.plan.as_ref()?;
    let case = |case: &RegretCase| RegretCaseDocument {
        off: off(problem, &regret.sources, &case.scenario),
        factor: case.scenario.factor,
        value_s: case.value,
        best_s: case.best,
        bound_s: case.bound,
    };
    Some(RegretDocument {
        deviation,
        regret: regret.regret(),
        at_most: Some(regret.at_most()).filter(|limit| limit.is_finite()),
        bound: regret.bound,
        source: regret.source.into(),
        nominal_best_s: regret.nominal.value()?,
        nominal_best_regret: regret.of_nominal(),
        cases: regret.cases.iter().map(case).collect(),
    })
}

/// What is off in a scenario.
pub fn off(problem: &Problem, sources: &Sources, scenario: &Scenario) -> OffDocument {
    match &scenario.off {
        Off::Nothing => OffDocument::Nothing,
        Off::Class(kinds) => {
            let kind = kinds.iter().position(|&is_off| is_off).unwrap_or(0);
            OffDocument::Class { class: problem.cluster().kind(kind).class.clone() }
        }
        Off::Source(source) if *source == sources.links() => OffDocument::Links,
        Off::Source(source) => OffDocument::Kind { kind: sources.kind(*source).unwrap_or("").to_owned() },
    }
}
