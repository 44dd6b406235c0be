//! The plans whose value is close to the best: the least second goal among them, and then the least value again.

use stagewright_core::document::SecondGoal;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Solution, Status};
use stagewright_core::tolerance;

use super::aim::Aim;
use super::bound;
use super::measure::{Measure, measured};
use super::search::{Found, search};
use super::{Requirements, Second};

/// A problem that may have a plan within the limit.
struct Variant<'a> {
    problem: &'a Problem,
    /// Lower bound on the value of its plans, in seconds.
    bound: f64,
    /// Plans from which searches start.
    starts: Vec<Plan>,
}

/// The plans of at most a value that meet requirements.
pub(super) struct Close<'a> {
    /// The problem whose variants together have these plans.
    problem: &'a Problem,
    requirements: &'a Requirements,
    goal: SecondGoal,
    /// Largest value of a plan, in seconds.
    limit: f64,
    variants: Vec<Variant<'a>>,
}

impl<'a> Close<'a> {
    /// The plans whose value exceeds that of `best` by at most the share of `second`, from the variants of the problem and their
    /// solutions for the objective alone.
    pub(super) fn new(
        problem: &'a Problem,
        requirements: &'a Requirements,
        second: Second,
        best: &Plan,
        solved: Vec<(&'a Problem, Solution)>,
    ) -> Close<'a> {
        let limit = best.value() * (1.0 + second.within);
        let may_have = |solution: &Solution| {
            solution.status != Status::Infeasible
                && solution.bound.value <= limit * (1.0 + tolerance::VALUE_RELATIVE)
        };
        let variants = solved.into_iter().filter(|(_, solution)| may_have(solution));
        let variants = variants.map(|(problem, solution)| Variant {
            problem,
            bound: solution.bound.value,
            starts: solution.plan.into_iter().collect(),
        });
        Close { problem, requirements, goal: second.goal, limit, variants: variants.collect() }
    }

    /// The plan of least second goal that was found, and a lower bound on the second goal of every plan; infinite without a
    /// variant. `best` is a plan of the problem within the limit.
    ///
    /// # Errors
    /// A broken invariant.
    pub(super) fn least(&mut self, best: &Plan, context: &mut Context<'_>) -> Result<(Plan, f64)> {
        let (goal, limit, requirements) = (self.goal, self.limit, self.requirements);
        let aim = Aim { requirements, measure: Measure::Second(goal), limit, most: None };
        let measure = |plan: &Plan| measured(self.problem, goal, &plan.evaluation);
        let (mut plan, mut bound, count) = (best.clone(), f64::INFINITY, self.variants.len());
        for (index, variant) in self.variants.iter_mut().enumerate() {
            let mut part = context.time_slice(1.0 / (count - index) as f64);
            let found = search(variant.problem, aim, &variant.starts, &mut part.for_auxiliary())?;
            let proved = found.bound.map_or(0.0, |bound| match goal {
                SecondGoal::Devices => bound,
                SecondGoal::Memory | SecondGoal::Communication => tolerance::round_down(bound),
            });
            bound = bound.min(proved.max(bound::least(variant.problem, goal, limit, requirements)));
            if let Some(found) = found.plan {
                variant.starts.insert(0, found.clone());
                let found = Plan::new(self.problem, found.placement)?;
                plan = if measure(&found) < measure(&plan) { found } else { plan };
            }
        }
        Ok((plan, bound))
    }

    /// The plan of least value that was found among those whose second goal is at most that of `plan`, which is within the limit.
    ///
    /// # Errors
    /// A broken invariant.
    pub(super) fn fastest(&self, plan: Plan, context: &mut Context<'_>) -> Result<Plan> {
        let most = measured(self.problem, self.goal, &plan.evaluation);
        let mut fastest = plan;
        for (index, variant) in self.variants.iter().enumerate() {
            let limit = fastest.value();
            if tolerance::gap(limit, variant.bound) == 0.0 {
                continue;
            }
            let most = Some((self.goal, most));
            let aim = Aim { requirements: self.requirements, measure: Measure::Value, limit, most };
            let mut part = context.time_slice(1.0 / (self.variants.len() - index) as f64);
            let Found { plan: found, .. } =
                search(variant.problem, aim, &variant.starts, &mut part.for_auxiliary())?;
            let found = found.map(|found| Plan::new(self.problem, found.placement)).transpose()?;
            fastest = found.filter(|found| found.value() < limit).unwrap_or(fastest);
        }
        Ok(fastest)
    }
}
