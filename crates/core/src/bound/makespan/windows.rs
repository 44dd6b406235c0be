//! The window bound: work confined to windows that a path cuts into the step.

use super::cut::CutPath;
use crate::bound::{Bound, LowerBound};
use crate::certificate::{Certificate, Limits};
use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Alternations between choosing windows for the prices and choosing prices for the windows.
const ROUNDS: usize = 2;

/// Maximum number of entries of the table of seconds by operator and kind.
const MAX_ENTRIES: usize = 1 << 22;

/// A path v₁ ≺ … ≺ v_C cuts the step into windows, in the order of time: busy windows Bᵢ from the start to the end of
/// vᵢ, and free windows Fᵢ between vᵢ and vᵢ₊₁, where F₀ precedes v₁ and F_C follows v_C. Let ℓ be the minimum length
/// of a window: for Bᵢ the minimum seconds of vᵢ, for Fᵢ the longest path between its ends. Let Aⱼ be the windows in
/// which operator j may run: after the last vᵢ ≺ j, before the first vᵢ ≻ j, and in no Bᵢ whose vᵢ has j's colocation
/// class. For prices λ_k ≥ 0 of a second on a device of kind k, with Σ m_k λ_k = 1 where m_k is the number of devices
/// of kind k, and any set Z of windows,
///
/// ```text
/// T  ≥  Σ_{i ∉ Z} ℓᵢ  +  Σ_u min_k λ_k Σ_{j ∈ u, Aⱼ ⊆ Z} p_jk
/// ```
///
/// with u over colocation classes.
///
/// *Proof.* The windows partition the step. Each window outside Z lasts at least its ℓ. An operator with Aⱼ ⊆ Z runs
/// wholly inside Z: precedence excludes the earlier and the later windows, and in the others the device of its class is
/// busy with vᵢ. The priced seconds that all devices compute inside Z are at most Σ m_k λ_k times the duration of Z,
/// which is that duration. Every class takes λ_k times its seconds for the kind k that runs it. With Z empty the bound
/// is the longest path; with all windows in Z, it is the fluid bound.
///
/// The sum over Z is the value of a closure in a graph, so the best Z is a minimum cut. This computes the best union of
/// runs of windows in O(cuts²), and removes long busy windows from it as long as that helps. Operators of the longest
/// path cut the windows: the longest of them, and some at equal distances. Valid for the makespan, any priority;
/// ignores communication. O(pins + pools · operators + holes · (cuts² + holes · operators)) and the prices of
/// [`Fluid`].
///
/// [`Fluid`]: crate::bound::Fluid
#[derive(Debug, Clone, Copy)]
pub struct Windows;

impl Bound for Windows {
    fn name(&self) -> &'static str {
        "windows"
    }

    fn applies(&self, problem: &Problem) -> bool {
        problem.objective().kind() == ObjectiveKind::Makespan
            && problem.graph().operator_count().saturating_mul(problem.cluster().kind_count()) <= MAX_ENTRIES
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let cut = CutPath::new(problem, 0, stop)?;
        let windows = cut.lengths.len();
        let mut inside = vec![true; windows];
        let mut best = (0.0, Vec::new(), inside.clone());
        for _ in 0..ROUNDS {
            let prices = cut.prices(&inside)?;
            let work = cut.least(&prices);
            let (_, found) = cut.choose(&work, &[]);
            for inside in [&inside, &found] {
                let value = cut.value(inside, &prices);
                if value > best.0 {
                    best = (value, prices.clone(), inside.clone());
                }
            }
            if cut.kinds == 1 || stop.reason().is_some() {
                break;
            }
            inside = found;
        }
        let (value, prices, inside) = best;
        let certificate = (!prices.is_empty()).then(|| Certificate::Windows {
            prices,
            path: cut.path,
            windows: (0..windows).filter(|&window| inside[window]).map(|window| window as u32).collect(),
            limits: Limits::default(),
        });
        Some(LowerBound { value: round_down(value), source: self.name(), certificate })
    }
}

/// For every operator that cuts windows, the seconds that the windows prove from its end to the end of the step.
pub(super) fn tails(problem: &Problem, stop: &Stop) -> Vec<(OpId, f64)> {
    let values = || {
        let cut = Windows.applies(problem).then(|| CutPath::new(problem, 0, stop))??;
        let prices = cut.prices(&vec![true; cut.lengths.len()])?;
        let (values, _) = cut.choose(&cut.least(&prices), &[]);
        Some(cut.path.iter().enumerate().map(|(index, &op)| (op, values[2 * index + 2])).collect())
    };
    values().unwrap_or_default()
}
