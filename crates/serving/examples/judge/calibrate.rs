//! One factor a setting, from measurements of other configurations.

use std::collections::BTreeMap;

use stagewright_serving::calibration::factor;
use stagewright_serving::{Calibration, Factor, engines};

use super::cases::Case;
use super::report::Errors;

/// What one factor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A model, a system and an engine.
    Model,
    /// A checkpoint, which is a model in a precision, a system and an engine.
    Checkpoint,
}

/// Errors with factors that are fitted without the configuration of each case; without enough other rows they stay.
pub(crate) fn calibrated(cases: &[&Case], errors: &[Errors], scope: Scope) -> Vec<Errors> {
    let groups = groups(cases, scope);
    let configurations: Vec<String> = cases.iter().map(|case| case.row.configuration()).collect();
    let of_case = |index: usize| {
        let members = &groups[&setting(cases[index], scope)];
        let is_other = |other: &&usize| configurations[**other] != configurations[index];
        [0, 1].map(|time| {
            let others = members.iter().filter(is_other).filter_map(|&other| errors[other][time]);
            let factor = factor(others.map(|error| 1.0 / (1.0 + error)));
            errors[index][time].map(|error| (1.0 + error) * factor.unwrap_or(1.0) - 1.0)
        })
    };
    (0..cases.len()).map(of_case).collect()
}

/// The calibration that all rows of aggregated serving give together.
pub(crate) fn calibration(cases: &[&Case], errors: &[Errors]) -> Calibration {
    let groups = groups(cases, Scope::Model);
    let aggregated = groups.iter().filter(|((_, is_disaggregated), _)| !is_disaggregated);
    let factors = aggregated.filter_map(|(_, members)| {
        let case = cases[*members.first()?];
        let ratios =
            |time: usize| members.iter().filter_map(move |&index| Some(1.0 / (1.0 + errors[index][time]?)));
        Some(Factor {
            model: case.row.model_path.clone(),
            system: case.device.name.clone(),
            engine: engines()[case.engine].name.clone(),
            ttft: factor(ratios(0))?,
            tpot: factor(ratios(1))?,
            measurements: ratios(0).count() as u64,
        })
    });
    Calibration::new(factors.collect())
}

/// Setting of a case, and whether prompts have devices of their own, whose times follow another formula.
fn setting(case: &Case, scope: Scope) -> (String, bool) {
    let precision = if scope == Scope::Checkpoint { &case.row.precision } else { "" };
    (format!("{}|{precision}", case.row.setting()), case.row.is_disaggregated())
}

fn groups(cases: &[&Case], scope: Scope) -> BTreeMap<(String, bool), Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        groups.entry(setting(case, scope)).or_default().push(index);
    }
    groups
}
