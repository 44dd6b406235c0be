//! Data that column generation derives from a problem, and from a node of the search over it.

use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;

use super::cuts::Cuts;
use super::kind::{Kind, kinds};
use super::order;
use super::rules::Rules;
use super::states::States;

/// Kinds, an order, and the state graphs along it.
pub struct Preparation {
    /// The kinds of columns.
    pub kinds: Vec<Kind>,
    /// The state graph.
    pub states: States,
    /// The state graph without nets, for pools that pay for no transfers.
    pub plain: States,
    /// Whether nets were left out of the state graph.
    pub relaxed: bool,
    /// The nets of the state graph.
    cuts: Cuts,
}

impl Preparation {
    /// Computes an order, the nets and a state graph of at most `max_states` states. `None` if even the smallest
    /// relaxation has more states, or if time runs out.
    pub fn new(problem: &Problem, units: &Units, max_states: usize, stop: &Stop) -> Option<Preparation> {
        let all = Cuts::new(units);
        let order = order::narrow(units.len(), &all, stop);
        let (states, narrowed) = States::relaxed(&order, &all, units.pools(), max_states, stop)?;
        let relaxed = narrowed.is_some();
        let cuts = narrowed.unwrap_or(all);
        let plain = States::new(&order, &Cuts::default(), &Rules::default(), units.pools(), max_states)?;
        Some(Preparation { kinds: kinds(problem, units), states, plain, relaxed, cuts })
    }

    /// The preparation under rules; `None` if a state graph under these rules has more than `max_states` states.
    pub fn under(&self, rules: &Rules, max_states: usize) -> Option<Preparation> {
        let graph = |cuts: &Cuts| {
            let pools = self.kinds.iter().map(|kind| kind.pool + 1).max().unwrap_or(0);
            States::new(self.states.order(), cuts, rules, pools, max_states)
        };
        Some(Preparation {
            kinds: rules.narrow(&self.kinds),
            states: graph(&self.cuts)?,
            plain: graph(&Cuts::default())?,
            relaxed: self.relaxed,
            cuts: self.cuts.clone(),
        })
    }

    /// The state graph that a kind is priced on.
    pub fn states(&self, kind: &Kind) -> &States {
        if self.states.cut(kind.pool).is_some() { &self.states } else { &self.plain }
    }
}
