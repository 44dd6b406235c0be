//! Plans with projections on devices that do not have their layer: a bound on them, and a search where it is below the plan.

use std::rc::Rc;

use stagewright_core::solver::Context;
use stagewright_formats::Result;
use stagewright_llamacpp::Setting;

use crate::anywhere::{Anywhere, Bound};
use crate::cuts::Cuts;
use crate::devices::Used;
use crate::guests::Rooms;
use crate::model::Model;
use crate::prices::{Scenario, Sizes, scenarios_of};
use crate::question::{DeviceKind, Question};
use crate::unit::Unit;
use crate::{Solution, moves};

/// Share by which a bound may be below a plan without a search for a better one.
const CLOSE: f64 = 5e-3;

/// Plans of one micro-batch.
pub(crate) struct Elsewhere<'a> {
    pub(crate) label: &'a str,
    pub(crate) question: &'a Question<'a>,
    pub(crate) kinds: &'a [DeviceKind],
    pub(crate) used: &'a Used,
    pub(crate) micro_batch: u64,
}

impl Elsewhere<'_> {
    /// Keeps faster plans, and lowers the bound of a solution to one on all plans of the micro-batch.
    ///
    /// # Errors
    /// If the memory of the model is not followed (L007, L009).
    pub(crate) fn run(&self, solution: &mut Solution, context: &mut Context<'_>) -> Result<()> {
        let Elsewhere { label, question, kinds, used, micro_batch } = *self;
        let setting = &question.setting(vec![kinds[0].device.clone()], micro_batch);
        let model = &Model::new(question.structure, setting);
        let sizes = &Sizes::new(label, model, setting)?;
        let memory = question.devices.iter().map(|device| device.memory).max().unwrap_or(0);
        let unit = Unit::new(model, memory);
        let rooms = Rc::new(Rooms::new(model, unit, memory));
        let anywhere = Anywhere { question, setting, model, sizes, kinds, used, unit, rooms };
        self.moved(model, solution, context)?;
        if solution.plan.is_none() {
            if self.is_infeasible(&anywhere, context) {
                return Ok(());
            }
            self.cut(model, solution, context)?;
        }
        let mut bounds = Vec::new();
        for scenario in scenarios_of(question, model, kinds, sizes) {
            let bound = match &solution.plan {
                // Nothing is known of the scenarios that are left.
                _ if context.stop().reason().is_some() => Bound::NONE,
                Some(plan) => anywhere.bound(scenario, plan.seconds, context.stop()),
                None => anywhere.free(scenario),
            };
            bounds.push((bound, scenario));
        }
        let least = match solution.plan.is_some() {
            true => self.close_gap(&anywhere, bounds, solution, context)?,
            false => bounds.iter().map(|known| known.0.seconds).fold(f64::INFINITY, f64::min),
        };
        solution.bound = solution.bound.min(least.max(0.0));
        solution.stop = solution.stop.or(context.stop().reason());
        Ok(())
    }

    /// Moves projections of the fastest plan, and of those with all layers on the host.
    fn moved(&self, model: &Model<'_>, solution: &mut Solution, context: &Context<'_>) -> Result<()> {
        let on_host = |kind: &DeviceKind| {
            let setting = self.question.setting(vec![kind.device.clone()], self.micro_batch);
            Setting { layers: Some(0), ..setting }
        };
        let fastest = solution.plan.iter().map(|plan| plan.setting.clone());
        let fastest = fastest.filter(|setting| setting.micro_batch == self.micro_batch);
        let starts: Vec<Setting> = fastest.chain(self.kinds.iter().map(on_host)).collect();
        for setting in starts {
            solution.keep(moves::improve(
                self.label,
                self.question,
                model,
                setting,
                None,
                u64::MAX,
                context.stop(),
            )?);
        }
        Ok(())
    }

    /// Whether it is proved that no plan fits.
    fn is_infeasible(&self, anywhere: &Anywhere<'_>, context: &Context<'_>) -> bool {
        let limit = anywhere.most_seconds();
        let scenarios = scenarios_of(self.question, anywhere.model, self.kinds, anywhere.sizes);
        scenarios.into_iter().all(|scenario| anywhere.is_infeasible(scenario, limit, context.stop()))
    }

    /// Looks for other cuts.
    fn cut(&self, model: &Model<'_>, solution: &mut Solution, context: &Context<'_>) -> Result<()> {
        let Elsewhere { label, question, micro_batch, .. } = *self;
        let found = Cuts { label, question, model, micro_batch, stop: context.stop() }.run()?;
        solution.keep(found);
        Ok(())
    }

    /// Raises the least bound of all scenarios and looks for faster plans until they are close. Returns the bound.
    fn close_gap(
        &self,
        anywhere: &Anywhere<'_>,
        mut bounds: Vec<(Bound, Scenario)>,
        solution: &mut Solution,
        context: &mut Context<'_>,
    ) -> Result<f64> {
        let mut is_cut = false;
        loop {
            bounds.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
            let Some((bound, scenario)) = bounds.first_mut() else { return Ok(f64::INFINITY) };
            let best = solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds);
            let is_close = bound.seconds >= best * (1.0 - CLOSE);
            if is_close || (is_cut && bound.is_ascended) {
                return Ok(bound.seconds);
            }
            // The bound of one micro-batch says nothing of a target gap.
            if context.stop().reason().is_some() {
                return Ok(bound.seconds);
            }
            if !is_cut {
                is_cut = true;
                self.cut(anywhere.model, solution, context)?;
                continue;
            }
            anywhere.ascend(*scenario, bound, best, context.stop());
            if let Some(setting) = bound.setting.take() {
                let (largest, model) = (scenario.largest, anywhere.model);
                let found =
                    moves::improve(self.label, self.question, model, setting, None, largest, context.stop())?;
                solution.keep(found);
            }
        }
    }
}
