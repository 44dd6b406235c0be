//! Problems of layer flow: layers on nodes that serve a model together, in place of operators on devices.

mod text;

use std::io::{self, Write};

use serde::Serialize;
use stagewright_core::document::{
    LAYER_PLAN_SCHEMA, LayerBoundDocument, LayerFlowDocument, LayerNodeDocument, LayerPlanDocument,
    OriginDocument,
};
use stagewright_core::tolerance;
use stagewright_flow::{NAME, Problem, Request as FlowRequest, Solution};
use stagewright_formats::import_layer_flow;
use stagewright_report::convergence::Convergence;
use stagewright_report::wrap::facts;
use stagewright_verify::{LayerReport, LayerVerdict, check_layers};

use super::answer::{BoundSummary, Sheet, ViolationSummary, bound_json};
use super::options::no_effect;
use super::{
    Answer, Bounds, Checked, Document, Explaining, Kind, PlanFile, Request, Session, Shown, Size,
    SolverChoice, Task, json,
};
use crate::code::{U008, U013, X001};
use crate::failure::{Failure, Result};
use crate::files::Input;
use text::{checked, shown, text};

/// A problem of layer flow.
pub struct LayerFlow {
    label: String,
    document: LayerFlowDocument,
    problem: Problem,
    max_hops: Option<u32>,
}

impl LayerFlow {
    /// Reads a problem.
    ///
    /// # Errors
    /// Options without effect (U013), or a document that is not valid (P010).
    pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<LayerFlow> {
        let Request { model, options, place, solver, selection, .. } = request;
        let is_other = match &solver {
            SolverChoice::None | SolverChoice::Auto => false,
            SolverChoice::Named(name) => name != NAME,
            SolverChoice::Own(..) => true,
        };
        let what = format!("a {}", Kind::LayerFlow.name());
        if is_other {
            return Err(no_effect("solver", &what, &place));
        }
        if let Some(name) = options.given.first() {
            return Err(no_effect(name, &what, &options.place));
        }
        let Input { label, bytes } = model.whole()?;
        let document = import_layer_flow(&label, &bytes)?;
        let problem = Problem::new(&document).map_err(|error| {
            Failure::new(error.code(), error.to_string()).at(label.clone()).help("correct the file")
        })?;
        let stated = match plan {
            Some(PlanFile::Whole(_, Document::LayerFlow(plan))) => plan.max_hops,
            _ => None,
        };
        Ok(LayerFlow { label, document, problem, max_hops: selection.max_hops.or(stated) })
    }

    /// Solves the problem. Also returns the seconds that the solve took.
    #[cfg(feature = "milp")]
    fn solved(&self, session: &mut Session<'_>) -> Result<(Solution, f64)> {
        let mut context = session.context();
        let request = FlowRequest { max_hops: self.max_hops };
        let solution = stagewright_flow::solve(&self.problem, &request, &mut context)
            .map_err(|error| Failure::new(X001, error.to_string()).at(self.label.clone()))?;
        let took = context.elapsed().as_secs_f64();
        Ok((solution, took))
    }

    #[cfg(not(feature = "milp"))]
    fn solved(&self, _session: &mut Session<'_>) -> Result<(Solution, f64)> {
        let _needs_highs = FlowRequest { max_hops: self.max_hops };
        let cause =
            format!("this build cannot solve a {}: it needs the feature `milp`", Kind::LayerFlow.name());
        Err(Failure::new(U013, cause).at(self.label.clone()).help("build with the default features"))
    }
}

impl Task for LayerFlow {
    fn kind(&self) -> Kind {
        Kind::LayerFlow
    }

    fn size(&self) -> Result<Size> {
        Ok(Size { parts: self.problem.layers, devices: Some(self.problem.nodes() as u64) })
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Whole(_, document) => Ok(document),
            PlanFile::Placement { label, .. } => {
                Err(Failure::new(X001, "a placement is no plan of layers").at(label))
            }
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        match plan {
            Document::LayerFlow(plan) if plan.max_hops == self.max_hops => None,
            Document::LayerFlow(_) => Some("the plan has another limit of hops"),
            _ => Some("the plan is for a question of another kind"),
        }
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let (solution, took) = self.solved(session)?;
        let document = self.answered(&solution, session.options.settings.seed, took);
        let sheet = LayerSheet { layers: self.problem.layers, nodes: self.problem.nodes() };
        Ok(Answer::new(Document::LayerFlow(Box::new(document)), sheet))
    }

    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let (solution, _) = self.solved(session)?;
        let bound = bound_of(&solution);
        let json = bound_json(&bound)?;
        Ok(Bounds {
            strongest: bound.value,
            is_infeasible: bound.value == Some(0.0),
            is_cut_short: false,
            shown: Shown::new(json, move |width| facts([("bound", shown(&bound))], width)),
        })
    }

    fn check(&self, plan: Document, label: &str, _session: &mut Session<'_>) -> Result<Checked> {
        let plan = layers(plan)?;
        let report = check_layers(&self.document, &plan).map_err(|error| {
            Failure::new(error.code(), error.to_string())
                .at(format!("{}, {label}", self.label))
                .help("correct the named document; the plan itself was not checked")
        })?;
        Ok(Checked {
            holds: report.holds(),
            value: report.value,
            bound: plan.bound.value,
            is_proved: matches!(report.bound, LayerVerdict::Verified { .. }),
            violations: report.violations.iter().map(ToString::to_string).collect(),
            shown: Shown::new(json(&Summary::new(&report))?, move |width| checked(&plan, &report, width)),
        })
    }

    fn explain(
        &self,
        _plan: Document,
        label: &str,
        _asked: Explaining<'_>,
        _session: &mut Session<'_>,
    ) -> Result<Shown> {
        Err(Failure::new(U008, "a flow of tokens has no parts to explain")
            .at(label)
            .help("`check` shows the tokens per second and the hops of the plan"))
    }
}

impl LayerFlow {
    fn answered(&self, solution: &Solution, seed: u64, took: f64) -> LayerPlanDocument {
        let plan = solution.plan.as_ref();
        let value = plan.map(|plan| plan.flow);
        let mut nodes = Vec::new();
        let mut links = Vec::new();
        if let Some(plan) = plan {
            let held = plan.ranges.iter().zip(&plan.routing.nodes).enumerate();
            nodes.extend(held.filter(|(_, (range, _))| range.1 > 0).map(
                |(node, (&(first, layers), &flow))| LayerNodeDocument {
                    node: node as u32,
                    first: first as u32,
                    layers: layers as u32,
                    flow,
                },
            ));
            nodes.sort_by_key(|held| (held.first, held.node));
            links.clone_from(&plan.routing.links);
        }
        LayerPlanDocument {
            schema: LAYER_PLAN_SCHEMA.into(),
            status: solution.status.into(),
            solver: NAME.into(),
            problem: self.problem.name.clone(),
            max_hops: self.max_hops,
            value,
            bound: bound_of(solution),
            gap: value.map(|value| tolerance::gap(solution.bound.flow, value)),
            hops: plan.map(|plan| plan.routing.hops(&plan.ranges) as u32),
            seconds: took,
            seed,
            origin: Some(OriginDocument::of_library()),
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            nodes,
            links,
        }
    }
}

fn bound_of(solution: &Solution) -> LayerBoundDocument {
    LayerBoundDocument {
        value: Some(solution.bound.flow),
        source: solution.bound.source().into(),
        certificate: Some(solution.bound.certificate.clone()),
    }
}

/// The plan of layers in a document.
fn layers(plan: Document) -> Result<LayerPlanDocument> {
    match plan {
        Document::LayerFlow(plan) => Ok(*plan),
        other => {
            Err(Failure::new(X001, format!("a plan of a {} has no layers on nodes", other.kind().name())))
        }
    }
}

/// Data besides the document that showing a plan needs.
struct LayerSheet {
    layers: usize,
    nodes: usize,
}

impl Sheet for LayerSheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        match document {
            Document::LayerFlow(plan) => text(plan, self.layers, self.nodes, width),
            _ => String::new(),
        }
    }

    fn html(
        &self,
        _document: &Document,
        _cluster: Option<&str>,
        _convergence: &Convergence,
        _out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        Err(Failure::new(U013, "a plan of layers has no page"))
    }
}

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    value: Option<f64>,
    hops: Option<u32>,
    bound: BoundSummary,
    violations: Vec<ViolationSummary>,
}

impl Summary {
    fn new(report: &LayerReport) -> Summary {
        let (verdict, proved) = match report.bound {
            LayerVerdict::NoClaim => ("no-claim", None),
            LayerVerdict::NotVerified => ("not-verified", None),
            LayerVerdict::Verified { proved } => ("verified", Some(proved)),
            LayerVerdict::Refuted => ("refuted", None),
        };
        let violations = report.violations.iter();
        Summary {
            holds: report.holds(),
            value: report.value,
            hops: report.hops,
            bound: BoundSummary { verdict, proved },
            violations: violations
                .map(|violation| ViolationSummary { kind: violation.kind, message: violation.to_string() })
                .collect(),
        }
    }
}
