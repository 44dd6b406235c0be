//! Placement tasks: a device for every operator of a graph.

mod check;
mod compare;
mod documents;
mod explain;
mod judge;
mod selected;
mod sheet;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stagewright_core::document::{
    BatchDocument, BoundDocument, ClusterDocument, ModelOptionsDocument, ObjectiveDocument, ObjectiveKind,
    PinsDocument, PlanDocument, SourcesDocument, Split,
};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement as Assignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Observer, Solution, SolveError, Solver, Status, Stop, StopReason};
use stagewright_core::text::visible;
use stagewright_core::uncertainty::Uncertainty;
use stagewright_costs::Coverage;
use stagewright_formats::layers::keep_whole;
use stagewright_formats::{Format, PlanFile as PlacementFile, ReferenceIds, sibling};
use stagewright_report::comparison::{Comparison, Contender};
use stagewright_report::document::{Provenance, plan_document};
use stagewright_report::table;
use stagewright_report::throughput::throughput;
use stagewright_report::wrap::facts;

use super::compare::Contest;
use super::{
    Answer, Bounds, Checked, Document, Entered, Explaining, Kind, ObjectiveOptions, PlanFile, Request,
    Session, Shown, Size, SolverChoice, Task, is_same_objective, json,
};
use crate::bounds::{self, Proving};
use crate::code::{U001, U003, U004, X001};
use crate::diagnose::{DiagnosisEffort, diagnose};
use crate::explain::Merged;
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::nearest::instead;
use crate::reading::{self, Place};
use crate::selection::{self, Selection};
use crate::solve::{Options, Robustness};
use crate::{portfolio, registry, robust};
pub use compare::groups;
pub use documents::{Documents, Parts};
pub use judge::judge;
use sheet::PlacementSheet;
pub use sheet::{cluster_name, model_name, step_problem, unwritten};

/// Maximum time of a diagnosis, which also ends at the time limit of the solve.
const DIAGNOSIS: Duration = Duration::from_secs(20);

/// Maximum number of operators for which layers are counted to give a hint: counting more takes longer than an answer
/// may wait.
const MOST_HINTED: usize = 50_000;

/// Minimum ratio of units to whole layers at which the hint is given.
const FEWER: usize = 4;

/// A placement problem, or the documents of a plan's problem.
pub struct Placement {
    question: Question,
    /// The model's label.
    label: String,
    place: Place,
}

/// The problem to solve, or the documents of a plan's problem.
enum Question {
    /// The objective is given.
    Asked(Box<Asked>),
    /// The objective is stated by a plan; the rules here override the plan's.
    Planned(Box<Documents>, ObjectiveOptions),
}

/// A problem, its solver, and the provenance that its plan records.
struct Asked {
    problem: Problem,
    chosen: Option<Chosen>,
    start: Option<(String, PlanDocument)>,
    pins: PinsDocument,
    /// Requirements on the plan, and a second goal.
    selection: Selection,
    options: Option<ModelOptionsDocument>,
    batch: Option<BatchDocument>,
    coverage: Coverage,
    /// Format of the model's file, and its node ids, for plans in the notation of that format.
    format: Format,
    ids: Option<ReferenceIds>,
}

/// The error of a name that no solver has (U003), without a place.
pub fn unknown_solver(name: &str) -> Failure {
    let known = registry::SOLVERS.iter().map(|entry| entry.solver.name());
    let help = format!("{}; auto chooses one; `stagewright solvers` lists all", instead(name, known));
    Failure::new(U003, format!("unknown solver `{name}`")).help(help)
}

/// A solver with its label.
#[derive(Clone)]
pub struct Chosen {
    /// The solver.
    pub solver: Arc<dyn Solver>,
    /// Name of the solver, with the rule of `auto` that chose it.
    pub label: String,
}

impl Chosen {
    /// The solver for a choice.
    ///
    /// # Errors
    /// An unknown name (U003), or a solver that does not support the objective (U004).
    pub fn new(choice: &SolverChoice, objective: &Objective, place: &Place) -> Result<Chosen> {
        match choice {
            SolverChoice::None => Err(Failure::new(X001, "no solver was chosen")),
            SolverChoice::Auto => {
                let choice = portfolio::auto(objective).map_err(|error| {
                    Failure::new(U004, error.to_string())
                        .at(format!("{} auto", place("solver")))
                        .help("use throughput with a contiguous split, which is solved exactly, with or without a schedule")
                })?;
                let label = format!("{} (auto: {})", choice.solver.name(), choice.rule);
                Ok(Chosen { solver: Arc::new(choice.solver), label })
            }
            SolverChoice::Own(solver, label) => {
                Chosen::supporting(solver.clone(), label.clone(), objective, place)
            }
            SolverChoice::Named(name) => Chosen::named(name, objective, place),
        }
    }

    fn named(name: &str, objective: &Objective, place: &Place) -> Result<Chosen> {
        let ablation = name.strip_prefix(registry::ABLATION).and_then(registry::ablation);
        let solver = ablation
            .or_else(|| registry::named(name))
            .ok_or_else(|| unknown_solver(name).at(place("solver")))?;
        Chosen::supporting(Arc::new(solver), name.into(), objective, place)
    }

    /// A solver with its label, if it supports the objective.
    fn supporting(
        solver: Arc<dyn Solver>,
        label: String,
        objective: &Objective,
        place: &Place,
    ) -> Result<Chosen> {
        let Some(what) = solver.unsupported(objective) else { return Ok(Chosen { solver, label }) };
        let help = match registry::supporting(objective).as_slice() {
            [] => "no solver supports it yet".into(),
            supporting => format!("solvers that support it: {}", supporting.join(", ")),
        };
        let cause = format!("solver `{}` does not support {what}", solver.name());
        Err(Failure::new(U004, cause).at(place("solver")).help(help))
    }

    /// Solves a problem with all bounds of the registry.
    ///
    /// # Errors
    /// An objective that the solver does not support (U004), or a defect (X001).
    pub fn solve(
        &self,
        problem: &Problem,
        options: &Options,
        observer: &mut dyn Observer,
        place: &Place,
    ) -> Result<Solution> {
        self.solve_in(problem, &mut options.context(observer), place)
    }

    /// Solves a problem in a context, with all bounds of the registry.
    fn solve_in(&self, problem: &Problem, context: &mut Context<'_>, place: &Place) -> Result<Solution> {
        Proving(&*self.solver).solve(problem, context).map_err(|error| self.failed(&error, place))
    }

    /// The error for a failed solve.
    fn failed(&self, error: &SolveError, place: &Place) -> Failure {
        let option = place("solver");
        match error {
            SolveError::Unsupported { .. } => Failure::new(U004, error.to_string()).at(option),
            _ => Failure::new(X001, error.to_string()).at(format!("{option} {}", self.solver.name())),
        }
    }
}

impl Placement {
    /// Reads a problem. With `is_planned`, a plan states the objective.
    ///
    /// # Errors
    /// Options of the objective that exclude each other, a solver that does not support the objective, or invalid
    /// documents.
    pub(super) fn read(mut request: Request, is_planned: bool) -> Result<(Placement, Vec<String>)> {
        let place = request.place.clone();
        let rules = request.objective.clone();
        if is_planned {
            let unnamed = request.unnamed(true);
            let (documents, notes) = Documents::read(request, true, unnamed, None)?;
            let label = documents.label.clone();
            let question = Question::Planned(Box::new(documents), rules);
            return Ok((Placement { question, label, place }, as_notes(notes)));
        }
        // Checked before the model is read, so that a mistake in the options is reported without waiting.
        let (objective, effectless) = rules.objective(&place)?;
        let chosen = match &request.solver {
            SolverChoice::None => None,
            choice => Some(Chosen::new(choice, &objective, &place)?),
        };
        let start = request.start.take();
        let chosen_by = std::mem::take(&mut request.selection);
        let unnamed = request.unnamed(false);
        let (documents, notes) = Documents::read(request, false, unnamed, None)?;
        let selection = selected::selection(&chosen_by, &documents.model.graph, &place)?;
        let start = match &start {
            None => None,
            Some(Input { label, bytes }) => {
                let file = PlacementFile::read(label, bytes)?;
                Some((label.clone(), file.for_model(&documents.model, Some(&documents.cluster))?))
            }
        };
        let (options, batch, coverage) =
            (documents.options.clone(), documents.batch(), documents.coverage.clone());
        let (label, pins) = (documents.label.clone(), documents.pins.clone().unwrap_or_default());
        let (format, ids) = (documents.model.format, documents.model.ids.clone());
        let problem = documents.problem(objective)?;
        let question = Question::Asked(Box::new(Asked {
            problem,
            chosen,
            start,
            pins,
            selection,
            options,
            batch,
            coverage,
            format,
            ids,
        }));
        let notes = effectless.into_iter().chain(as_notes(notes)).collect();
        Ok((Placement { question, label, place }, notes))
    }

    /// The problem to solve, with its solver.
    fn asked(&self) -> Result<&Asked> {
        match &self.question {
            Question::Asked(asked) => Ok(asked),
            Question::Planned(..) => {
                Err(Failure::new(X001, "a problem of a plan has no objective of its own"))
            }
        }
    }

    /// Refuses limits and uncertainty that have no effect on the solver or the objective.
    fn suit(&self, options: &Options, chosen: &Chosen) -> Result<()> {
        if options.settings.limits.simulations.is_some() && !chosen.solver.capabilities().counts_simulations {
            let solvers = registry::SOLVERS.iter().map(|entry| entry.solver);
            let counting: Vec<&str> = solvers
                .filter(|solver| solver.capabilities().counts_simulations)
                .map(|solver| solver.name())
                .collect();
            let cause = format!("`{}` does not count simulations", chosen.solver.name());
            return Err(Failure::new(U001, cause)
                .at((self.place)("simulations"))
                .help(format!("leave it out, or use one of {}", counting.join(", "))));
        }
        let objective = self.asked()?.problem.objective();
        if options.robust.is_some() && self.asked()?.selection != Selection::default() {
            let option = (self.place)("robust");
            let cause = format!("{option} cannot be combined with requirements on the plan or a second goal");
            return Err(Failure::new(U001, cause).at(option).help("leave one of them out"));
        }
        if let Some(what) = options.robust.and_then(|_| Uncertainty::unsupported(objective)) {
            let option = (self.place)("robust");
            return Err(Failure::new(U004, format!("{option} does not support {what}"))
                .at(option)
                .help("leave it out; `explain` shows how sensitive any plan is to its costs"));
        }
        Ok(())
    }

    /// The documents of a plan's problem, and the rules that override the plan's.
    fn planned(&self) -> Result<(&Documents, &ObjectiveOptions)> {
        match &self.question {
            Question::Planned(documents, rules) => Ok((documents, rules)),
            Question::Asked(_) => Err(Failure::new(X001, "the problem was read for no plan")),
        }
    }
}

/// Formats notes as lines.
pub(super) fn as_notes(notes: Vec<String>) -> Vec<String> {
    notes.into_iter().map(|note| format!("note: {note}")).collect()
}

impl Asked {
    /// The plan document of a solution of the problem, perhaps under another split, with the options of the model, the rate and
    /// the sources of the costs.
    fn document(&self, problem: &Problem, solution: &Solution, provenance: Provenance) -> PlanDocument {
        let mut document = plan_document(problem, solution, provenance);
        document.model.clone_from(&self.options);
        let placement = solution.plan.as_ref().map(|plan| &plan.placement);
        document.sources =
            placement.and_then(|placement| reading::sources(problem, placement, &self.coverage));
        document.throughput = solution
            .value()
            .and_then(|value| throughput(&document.objective, value, self.batch, problem.graph().document()));
        document
    }

    /// How far costs may be off. For learned seconds that is their mean spread over the operators and the kinds of devices, by
    /// shares of the seconds.
    ///
    /// # Errors
    /// If no seconds are learned (U001).
    fn uncertainty(&self, robustness: Robustness, place: &Place) -> Result<Uncertainty> {
        let budget = match robustness {
            Robustness::Given(uncertainty) => return Ok(uncertainty),
            Robustness::Learned { budget } => budget,
        };
        let (graph, cluster) = (self.problem.graph(), self.problem.cluster());
        let (mut shares, mut spread) = (0.0, 0.0);
        for kind in cluster.document().kinds.iter().filter(|kind| !kind.host) {
            let sources = self.coverage.operators.get(&kind.class).into_iter().flatten().enumerate();
            let operators =
                sources.filter_map(|(index, source)| source.map(|_| (index, kind.class.as_str())));
            let of_kind =
                reading::sources_on(graph.document(), cluster.document(), operators, &self.coverage);
            if let Some(SourcesDocument { learned, learned_spread: Some(own), .. }) = of_kind {
                shares += learned;
                spread += learned * own;
            }
        }
        if shares <= 0.0 {
            let option = place("robust");
            return Err(Failure::new(U001, "no seconds of the problem are learned")
                .at(option)
                .help("give the share by which costs may be off, such as 10%"));
        }
        Ok(Uncertainty { deviation: spread / shares, budget })
    }

    /// Where the seconds of the operators of a plan come from; `None` if the plan is no placement of this model.
    fn sources(&self, plan: &PlanDocument) -> Option<SourcesDocument> {
        let placement = crate::placement::placement(&self.problem, plan).ok()?;
        reading::sources(&self.problem, &placement, &self.coverage)
    }

    /// The placement to start from, transferred to this model if it belongs to another.
    fn start(&self, session: &mut Session<'_>) -> Result<Option<Assignment>> {
        let Some((label, plan)) = &self.start else { return Ok(None) };
        let found = sibling::start(&self.problem, plan).map_err(|error| Failure::placement(label, &error))?;
        found.notes(&self.problem).iter().for_each(|note| session.note(&format!("{label}: {note}")));
        Ok(Some(found.placement))
    }

    /// Causes of infeasibility, for display.
    fn diagnosis(&self, chosen: &Chosen, spent: Duration, session: &Session<'_>) -> Vec<String> {
        let limits = session.options.settings.limits;
        let effort = DiagnosisEffort {
            solver: chosen.solver.clone(),
            time: limits.time.map_or(DIAGNOSIS, |limit| limit.saturating_sub(spent).min(DIAGNOSIS)),
            memory: limits.memory,
            threads: session.options.settings.threads,
            interrupt: session.options.settings.interrupt.clone(),
            reserve_is_given: self.options.as_ref().is_some_and(|options| options.memory_reserve.is_some()),
        };
        let findings = diagnose(&self.problem, &effort);
        findings.iter().map(|finding| visible(&finding.to_string()).into_owned()).collect()
    }
}

impl Task for Placement {
    fn kind(&self) -> Kind {
        Kind::Placement
    }

    fn size(&self) -> Result<Size> {
        let parts = match &self.question {
            Question::Asked(asked) => asked.problem.graph().operator_count(),
            Question::Planned(documents, _) => documents.model.graph.operators.len(),
        };
        let count = |cluster: &ClusterDocument| cluster.kinds.iter().map(|kind| u64::from(kind.count)).sum();
        Ok(Size { parts, devices: self.cluster().map(count) })
    }

    fn cluster(&self) -> Option<&ClusterDocument> {
        Some(match &self.question {
            Question::Asked(asked) => asked.problem.cluster().document(),
            Question::Planned(documents, _) => &documents.cluster,
        })
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Placement { file, .. } => {
                let (documents, _) = self.planned()?;
                let plan = file.for_model(&documents.model, Some(&documents.cluster))?;
                Ok(Document::Placement(Box::new(plan)))
            }
            PlanFile::Whole(_, document) => Ok(document),
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        let (Question::Asked(asked), Document::Placement(plan)) = (&self.question, plan) else {
            return Some("the plan is for a question of another kind");
        };
        let objective = asked.problem.objective().to_document(None);
        match is_same_objective(&objective, &plan.objective) {
            false => Some("the plan is for another objective or for other options"),
            // Additional pins of the plan restrict its bound to plans with these pins.
            true if plan.pins != asked.pins => Some("the plan has other pins than the instance"),
            true if plan.requirements.is_some() => Some("the plan has requirements that the instance lacks"),
            true => None,
        }
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let asked = self.asked()?;
        let problem = &asked.problem;
        let chosen = asked.chosen.as_ref().ok_or_else(|| Failure::new(X001, "no solver was chosen"))?;
        self.suit(&session.options, chosen)?;
        if let Some(merged) = Merged::from_problem(problem) {
            session.note(&format!("note: {}", merged.text()));
        }
        let start = asked.start(session)?;
        if start.is_some() && !chosen.solver.capabilities().starts_from_plan {
            let (name, option) = (chosen.solver.name(), (self.place)("start"));
            session.note(&format!("`{name}` does not start from a plan, so `{option}` has no effect"));
        }
        let started = Instant::now();
        let solver = &Proving(&*chosen.solver);
        let failed = |error| chosen.failed(&error, &self.place);
        let uncertainty = match session.options.robust {
            None => None,
            Some(robustness) => Some(asked.uncertainty(robustness, &self.place)?),
        };
        let mut context = session.context();
        context.warm_start = start;
        let mut second = None;
        let (solution, robust) = match uncertainty {
            None => {
                let found =
                    selection::solve(problem, &asked.selection, solver, &mut context).map_err(failed)?;
                second = found.second;
                (found.solution, None)
            }
            Some(uncertainty) => {
                let found = robust::solve(problem, uncertainty, solver, &mut context).map_err(failed)?;
                let document = robust::document(&found, uncertainty);
                (found.solution(&context), document)
            }
        };
        let elapsed = started.elapsed();
        let provenance = Provenance {
            solver: chosen.label.clone(),
            seconds: elapsed.as_secs_f64(),
            seed: session.options.settings.seed,
        };
        let mut document = asked.document(problem, &solution, provenance);
        document.robust = robust;
        selected::write(&asked.selection, problem, second, &mut document);
        // The diagnosis is about the problem without requirements.
        let is_plain = asked.selection.requirements.is_empty();
        if solution.status == Status::Infeasible && session.with_diagnosis && is_plain {
            let why = asked.diagnosis(chosen, elapsed, session);
            document.reason = Some(document.reason.into_iter().chain(why).collect::<Vec<_>>().join("\n"));
        }
        let of_worst_case = document.robust.as_ref().map(|robust| robust.gap);
        let hint = hint_of_layers(problem, &solution, &self.place);
        let is_unselected = asked.selection == Selection::default();
        let idle = is_unselected.then(|| selected::idle(problem, &solution, &self.place)).flatten();
        let sheet = PlacementSheet { label: self.label.clone(), problem: problem.clone(), solution };
        let mut answer = Answer::new(Document::Placement(Box::new(document)), sheet);
        answer.gap = of_worst_case.or(answer.gap);
        answer.hints.extend(hint.into_iter().chain(idle));
        Ok(answer)
    }

    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let Asked { problem, chosen, .. } = self.asked()?;
        let stop =
            Stop::new(session.options.settings.limits.time, session.options.settings.interrupt.clone());
        let mut bounds: Vec<BoundDocument> = bounds::by_name(problem, &stop)
            .into_iter()
            .map(|(name, found)| BoundDocument {
                value_s: found.as_ref().map(|bound| bound.value),
                source: name.into(),
                certificate: found
                    .and_then(|bound| bound.certificate)
                    .map(|certificate| certificate.to_document(problem)),
            })
            .collect();
        let mut is_infeasible = false;
        if let Some(chosen) = chosen {
            let seed = session.options.settings.seed;
            let solution = chosen.solve(problem, &session.options, session.observer, &self.place)?;
            is_infeasible = solution.status == Status::Infeasible;
            let provenance = Provenance { solver: chosen.label.clone(), seconds: 0.0, seed };
            let mut proved = plan_document(problem, &solution, provenance).bound;
            proved.source = format!("{}: {}", chosen.label, proved.source);
            bounds.push(proved);
        }
        let value = |bound: &BoundDocument| bound.value_s.unwrap_or(f64::NEG_INFINITY);
        // On a tie the first bound wins, as in a plan.
        let strongest = bounds
            .iter()
            .rev()
            .filter(|bound| bound.value_s.is_some())
            .max_by(|left, right| value(left).total_cmp(&value(right)))
            .cloned();
        let document = BoundsDocument { objective: problem.objective().to_document(None), bounds, strongest };
        Ok(Bounds {
            strongest: document.strongest.as_ref().and_then(|bound| bound.value_s),
            is_infeasible,
            is_cut_short: false,
            shown: Shown::new(json(&document)?, move |width| document.text(width)),
        })
    }

    fn bound_without_search(&self, stop: &Stop) -> Result<Option<f64>> {
        Ok(Some(bounds::strongest(&self.asked()?.problem, stop).value).filter(|&value| value > 0.0))
    }

    fn check(&self, plan: Document, label: &str, session: &mut Session<'_>) -> Result<Checked> {
        check::check(self, placed(plan)?, label, session)
    }

    fn explain(
        &self,
        plan: Document,
        label: &str,
        asked: Explaining<'_>,
        session: &mut Session<'_>,
    ) -> Result<Shown> {
        explain::explain(self, placed(plan)?, label, asked, session)
    }

    fn given(&self, name: &str, plan: PlanFile<'_>) -> Result<Contender> {
        match plan {
            PlanFile::Placement { label, file } => compare::given(self.asked()?, name, label, file),
            PlanFile::Whole(label, _) => Err(Failure::new(X001, "the plan is no placement").at(label)),
        }
    }

    fn entrants(
        &self,
        list: &[String],
        choice: &dyn Fn(&str) -> Result<SolverChoice>,
    ) -> Result<Vec<Entered>> {
        selected::refuse(&self.asked()?.selection)?;
        compare::entrants(self, list, choice)
    }

    fn compare(&self, contest: Contest<'_>, session: &mut Session<'_>) -> Result<Comparison> {
        compare::compare(self, contest, session)
    }

    fn page(
        &self,
        comparison: &Comparison,
        cluster: Option<&str>,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        compare::page(self, comparison, cluster, out)
    }

    fn chosen(&self) -> Option<&Chosen> {
        self.asked().ok().and_then(|asked| asked.chosen.as_ref())
    }
}

/// The placement plan in a document.
fn placed(plan: Document) -> Result<PlanDocument> {
    match plan {
        Document::Placement(plan) => Ok(*plan),
        other => Err(Failure::new(X001, format!("a plan of a {} is no placement", other.kind().name()))),
    }
}

/// Bounds by source as JSON.
#[derive(Serialize)]
struct BoundsDocument {
    objective: ObjectiveDocument,
    bounds: Vec<BoundDocument>,
    strongest: Option<BoundDocument>,
}

impl BoundsDocument {
    fn text(&self, width: Option<u16>) -> String {
        if self.bounds.is_empty() {
            return "no bound applies to this objective\n".into();
        }
        let line = self.strongest.as_ref().map_or_else(|| "none".into(), table::bound);
        let lines = [("objective", table::objective(&self.objective)), ("strongest", line)];
        format!("{}\n{}", facts(lines, width), table::bounds(&self.bounds).text(width))
    }
}

/// A hint to keep layers whole, given if a limit of time or memory ended the search for a contiguous split and there
/// are far fewer layers than units.
fn hint_of_layers(problem: &Problem, solution: &Solution, place: &Place) -> Option<String> {
    let graph = problem.graph();
    let rules = problem.objective().rules();
    let is_cut_short = solution.status != Status::Optimal
        && matches!(solution.stop, Some(StopReason::Time | StopReason::Memory));
    let is_split =
        problem.objective().kind() == ObjectiveKind::Throughput && rules.split == Split::Contiguous;
    if !is_cut_short || !is_split || graph.operator_count() > MOST_HINTED {
        return None;
    }
    let mut whole = graph.document().clone();
    keep_whole(&mut whole);
    let classes: std::collections::BTreeSet<&str> =
        whole.operators.iter().filter_map(|op| op.colocation.as_deref()).collect();
    let alone = whole.operators.iter().filter(|op| op.colocation.is_none()).count();
    let (units, layers) = (graph.class_count(), classes.len() + alone);
    (layers * FEWER <= units).then(|| {
        format!(
            "hint: {units} units smaller than layers make the search long; {} leaves {layers}",
            place("whole_layers")
        )
    })
}
