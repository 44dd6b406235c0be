//! One factor a model, system and engine, from measurements of other configurations.

use std::collections::BTreeMap;

use stagewright_serving::calibration::factor;
use stagewright_serving::{Calibration, Factor};

use super::cases::Case;

/// Errors with factors that are fitted without the configuration of each case; without enough other rows they stay.
pub(crate) fn calibrated(cases: &[&Case], errors: &[Option<[f64; 2]>]) -> Vec<Option<[f64; 2]>> {
    let groups = groups(cases);
    let of_case = |index: usize| {
        let own = errors[index]?;
        let configuration = cases[index].row.configuration();
        let others = groups[&setting(cases[index])]
            .iter()
            .filter(|&&other| cases[other].row.configuration() != configuration);
        let others: Vec<[f64; 2]> = others.filter_map(|&other| errors[other]).collect();
        let corrected = |time: usize| {
            let factor = factor(others.iter().map(|errors| 1.0 / (1.0 + errors[time])));
            (1.0 + own[time]) * factor.unwrap_or(1.0) - 1.0
        };
        Some([corrected(0), corrected(1)])
    };
    (0..cases.len()).map(of_case).collect()
}

/// The calibration that all rows give together.
pub(crate) fn calibration(cases: &[&Case], errors: &[Option<[f64; 2]>]) -> Calibration {
    let factors = groups(cases).into_values().filter_map(|members| {
        let row = &cases[*members.first()?].row;
        let ratios =
            |time: usize| members.iter().filter_map(move |&index| Some(1.0 / (1.0 + errors[index]?[time])));
        Some(Factor {
            model: row.model_path.clone(),
            system: row.system.clone(),
            engine: row.backend.clone(),
            ttft: factor(ratios(0))?,
            tpot: factor(ratios(1))?,
            measurements: ratios(0).count() as u64,
        })
    });
    Calibration::new(factors.collect())
}

/// Model, system, engine, and whether prompts have devices of their own, whose times follow another formula.
fn setting(case: &Case) -> (String, bool) {
    (case.row.setting(), case.row.is_disaggregated())
}

fn groups(cases: &[&Case]) -> BTreeMap<(String, bool), Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        groups.entry(setting(case)).or_default().push(index);
    }
    groups
}
