//! Local plans: a language model under llama.cpp on one machine, the fastest that fits.

mod check;
mod document;
mod explain;
mod machine;
mod page;
mod question;
mod rules;
mod text;

use std::io::{self, Write};

use stagewright_core::document::{ClusterDocument, LocalBoundDocument, LocalPlanDocument, PlanStatus};
use stagewright_llamacpp::Setting;
use stagewright_local::{self as solver, Plan, Solution};
use stagewright_report::comparison::{Comparison, Contender};

use super::answer::bound_json;
use super::compare::Contest;
use super::options::no_effect;
use super::{
    Answer, Bounds, Checked, Document, Entered, Explaining, Kind, PlanFile, Request, Session, Shown, Size,
    SolverChoice, Task,
};
use crate::code::X001;
use crate::failure::{Failure, Result};
use page::LocalSheet;
use question::Fixed;
pub use question::{Local, LocalOptions};

/// Name of the solver.
pub(super) const NAME: &str = "local";

/// Share of seconds that a context may cost, if none is given, before a smaller one is chosen.
const CONTEXT_COST: f64 = 0.05;

/// The smallest context that is chosen if none is given and the model reads as much.
const SMALLEST_CONTEXT: u64 = 4096;

/// A solution for one context and one encoding of the cache.
struct Found {
    fixed: Fixed,
    solution: Solution,
}

impl Local {
    /// Reads a question or, if there is a plan, that of the plan.
    ///
    /// # Errors
    /// Options without effect (U013), a model without the names of GGUF, or a cluster that is no machine (L010).
    pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<(Local, Vec<String>)> {
        if let SolverChoice::Named(name) = &request.solver
            && name != NAME
        {
            return Err(no_effect("solver", &format!("a {}", Kind::Local.name()), &request.place));
        }
        question::read(request, plan)
    }

    /// Solves for one context and encoding.
    fn solved(&self, fixed: Fixed, session: &mut Session<'_>) -> Result<Found> {
        let mut context = session.context();
        let solution = solver::solve(&self.label, &self.question(&fixed), &mut context)?;
        Ok(Found { fixed, solution })
    }

    /// Solves for the contexts and encodings that are left open: the largest context that costs little, with a cache of 16 bits
    /// if anything fits with it.
    fn best(&self, session: &mut Session<'_>) -> Result<Found> {
        let mut last = None;
        for keys in self.encodings() {
            let contexts = self.contexts();
            let (Some(&smallest), larger) = (contexts.last(), &contexts[..contexts.len() - 1]) else {
                continue;
            };
            let base = match (self.solved(self.fixed(smallest, keys), session), last.is_some()) {
                (Ok(base), _) => base,
                // A second encoding that the model does not allow changes nothing.
                (Err(_), true) => continue,
                (Err(error), false) => return Err(error),
            };
            // Each search has the limits of its own, so that one which was ended is the last.
            if base.solution.stop.is_some() {
                return Ok(base);
            }
            let Some(limit) = base.solution.plan.as_ref().map(|plan| plan.seconds * (1.0 + CONTEXT_COST))
            else {
                last = Some(base);
                continue;
            };
            for &context in larger {
                let found = self.solved(self.fixed(context, keys), session)?;
                if found.solution.stop.is_some() {
                    return Ok(base);
                }
                if found.solution.plan.as_ref().is_some_and(|plan| plan.seconds <= limit) {
                    return Ok(found);
                }
            }
            return Ok(base);
        }
        last.ok_or_else(|| Failure::new(X001, "no context to plan for"))
    }

    /// The plan document of what was found.
    fn document(&self, found: &Found, took: f64) -> LocalPlanDocument {
        let Found { fixed, solution } = found;
        let plan = solution.plan.as_ref();
        let bound = Some(solution.bound).filter(|bound| bound.is_finite());
        let status = match (plan, solution.stop) {
            (Some(plan), None) if solution.bound >= plan.seconds => PlanStatus::Optimal,
            (Some(_), _) => PlanStatus::Feasible,
            (None, None) if bound.is_none() => PlanStatus::Infeasible,
            (None, _) => PlanStatus::Unknown,
        };
        let reason = plan.is_none().then(|| match status {
            PlanStatus::Infeasible => format!(
                "no division among the devices and RAM fits with {} tokens of context and a cache of {}",
                fixed.context,
                fixed.cache.name()
            ),
            _ => "the search ended before it found a plan".to_owned(),
        });
        document::with_gap(LocalPlanDocument {
            status,
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            reason,
            bound: LocalBoundDocument { value_s: bound, source: NAME.into() },
            ..self.planned(NAME, fixed, plan, took)
        })
    }

    /// A setting of the command line with what follows from it, whether it fits or not.
    ///
    /// # Errors
    /// If the line cannot be read (L007, L008), or its memory is not followed (L009).
    fn given_line(&self, label: &str, flags: &str) -> Result<(Fixed, Plan)> {
        let setting = Setting::parse(label, flags, &self.machine.devices)?;
        let fixed = self.fixed_of(&setting);
        let plan = document::judged(self, label, setting)?;
        Ok((fixed, plan))
    }
}

impl Task for Local {
    fn kind(&self) -> Kind {
        Kind::Local
    }

    fn size(&self) -> Result<Size> {
        let devices = Some(self.machine.devices.len() as u64);
        Ok(Size { parts: self.structure.layers.len(), devices })
    }

    fn cluster(&self) -> Option<&ClusterDocument> {
        Some(&self.cluster)
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Whole(_, document) => Ok(document),
            PlanFile::Placement { label, .. } => {
                Err(Failure::new(X001, "a placement is no local plan").at(label))
            }
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        match plan {
            Document::Local(plan) => {
                let mut asked = self.objective.clone();
                asked.value_s = plan.objective.value_s;
                asked.tokens = plan.objective.tokens;
                (asked != plan.objective).then_some("the plan is for another objective")
            }
            _ => Some("the plan is for a question of another kind"),
        }
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let started = std::time::Instant::now();
        let found = self.best(session)?;
        let document = self.document(&found, started.elapsed().as_secs_f64());
        let times = found.solution.plan.as_ref().map(|plan| page::of_plan(self, &found.fixed, plan));
        Ok(Answer::new(Document::Local(Box::new(document)), LocalSheet(times)))
    }

    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let found = self.best(session)?;
        let document = self.document(&found, 0.0);
        let bound = document.bound.clone();
        let json = bound_json(&bound)?;
        Ok(Bounds {
            strongest: bound.value_s,
            is_infeasible: document.status == PlanStatus::Infeasible,
            is_cut_short: bound.value_s.is_none() && document.status != PlanStatus::Infeasible,
            shown: Shown::new(json, move |width| text::bound(&document, width)),
        })
    }

    fn check(&self, plan: Document, label: &str, session: &mut Session<'_>) -> Result<Checked> {
        check::check(self, local(plan)?, label, session)
    }

    fn line(&self, flags: &str) -> Result<Document> {
        let label = (self.place)("flags");
        let (fixed, plan) = self.given_line(&label, flags)?;
        let document = self.planned("given", &fixed, Some(&plan), 0.0);
        Ok(Document::Local(Box::new(LocalPlanDocument { status: PlanStatus::Feasible, ..document })))
    }

    fn explain(
        &self,
        plan: Document,
        label: &str,
        asked: Explaining<'_>,
        session: &mut Session<'_>,
    ) -> Result<Shown> {
        explain::explain(self, local(plan)?, label, asked, session)
    }

    fn given(&self, name: &str, plan: PlanFile<'_>) -> Result<Contender> {
        let label = plan.label();
        rules::given(self, name, label, local(self.plan(plan)?)?)
    }

    fn entrants(
        &self,
        list: &[String],
        _choice: &dyn Fn(&str) -> Result<SolverChoice>,
    ) -> Result<Vec<Entered>> {
        rules::entrants(self, list)
    }

    fn compare(&self, contest: Contest<'_>, session: &mut Session<'_>) -> Result<Comparison> {
        rules::compare(self, contest, session)
    }

    fn page(
        &self,
        comparison: &Comparison,
        _cluster: Option<&str>,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        page::page(self, comparison, out)
    }
}

/// The local plan of a document.
fn local(plan: Document) -> Result<LocalPlanDocument> {
    match plan {
        Document::Local(plan) => Ok(*plan),
        other => Err(Failure::new(X001, format!("a plan of a {} is no local plan", other.kind().name()))),
    }
}
