//! The best joint plan beside those of expert rules, under one cost model.
//!
//! | rule | degrees |
//! | --- | --- |
//! | `best` | the best plan of all |
//! | `megatron` | tensor parallelism within a server first, then the fewest stages that fit, copies for the rest, all layers recomputed (Narayanan et al., SC 2021, section 3) |
//! | `fsdp` | copies alone, which divide all states (Zhao et al., "PyTorch FSDP", VLDB 2023) |
//! | `data-parallel` | copies alone, without sharding |
//!
//! A rule gives degrees; the microbatch, the layers of the stages, and for `fsdp` the recomputation are optimised.
//! Recipes of published runs take part if they are named. A file of Piper has no degrees to give, so only its best plan
//! and given ones are compared.

use std::io::{self, Write};

use stagewright_core::document::{
    CONFIGURATIONS, JointBoundDocument, JointObjectiveDocument, JointPlanDocument, Parallelism, PlanStatus,
    Schedule,
};
use stagewright_core::solver::Context;
use stagewright_formats::recipes::{Recipe, recipes};
use stagewright_report::comparison::{
    Comparison, Contender, Entry, Known, Planned, Question as Objective, Setting,
};
use stagewright_report::html;
use stagewright_report::html::joint::JointPage;
use stagewright_report::joint::{self, JointFigures};
use stagewright_report::throughput::joint_rate as rate;
use stagewright_verify::{check_joint, check_joint_layers};

use super::graph::{Graph, tokens};
use super::{Joint, Question, unplanned};
use crate::code::{U001, U004};
use crate::failure::{Failure, Result};
use crate::tasks::Session;
use crate::tasks::compare::{Contest, Entered, Entrant, listed};

/// Compares contenders.
///
/// # Errors
/// As [`Task::compare`](crate::tasks::Task::compare) says.
pub(super) fn compare(task: &Joint, contest: Contest<'_>, session: &mut Session<'_>) -> Result<Comparison> {
    let entrants = taking_part(task, contest.solvers)?;
    let baseline = contest.baseline(&entrants, None);
    let model = contest.model.to_owned();
    let (objective, setting, tokens) = match &task.question {
        Question::Graph(graph) => {
            let setting = contest.setting(Some(&graph.cluster), graph.options.as_ref());
            (&graph.objective, setting, tokens(&graph.graph))
        }
        Question::Layers(layers) => {
            let setting = contest.setting(layers.cluster(), layers.options());
            (&layers.objective, setting, None)
        }
        Question::Planned(_) => return Err(unplanned()),
    };
    let known = Known { question: Objective::Joint(objective), bounds: &[], recorded_s: contest.recorded_s };
    let contenders = contest.solve(entrants, session)?;
    let compared =
        Comparison::new(&model, None, contenders, &known, baseline.as_deref()).with_rates(|row, value| {
            let microbatch = row.degrees.as_ref().and_then(|degrees| degrees.microbatch);
            rate(objective, microbatch, value, tokens)
        });
    let sources = match compared.leader() {
        Some((_, Planned::Joint(plan))) => plan.sources,
        _ => None,
    };
    let runtime = joint::runtime(objective).map(str::to_owned);
    Ok(Comparison { setting: Setting { runtime, sources, ..setting }, ..compared })
}

/// Names of the rules of a list.
///
/// # Errors
/// As [`Task::entrants`](crate::tasks::Task::entrants) says.
pub(super) fn entrants(task: &Joint, list: &[String]) -> Result<Vec<Entered>> {
    let entrants = taking_part(task, list)?;
    Ok(entrants.into_iter().map(Entrant::entered).collect())
}

/// The rules that apply only to training graphs.
const OF_GRAPHS: [&str; 3] = ["megatron", "fsdp", "data-parallel"];

/// Names of the rules and recipes of joint plans: those that take part unless others are named, and the recipes.
pub fn contenders() -> (Vec<&'static str>, Vec<&'static str>) {
    let rules = [&["best"][..], &OF_GRAPHS].concat();
    (rules, recipes().iter().map(|recipe| recipe.name.as_str()).collect())
}

/// The entrants of a list, all rules but no recipe if it is empty.
fn taking_part<'t>(task: &'t Joint, list: &[String]) -> Result<Vec<Entrant<'t>>> {
    let mut known = rules(task)?;
    if list.is_empty() {
        let (rules, _) = contenders();
        known.retain(|entrant| rules.contains(&entrant.name.as_str()));
    }
    listed(known, list, task.place())
}

/// The rules for a question, and the recipes.
fn rules(task: &Joint) -> Result<Vec<Entrant<'_>>> {
    fn entrant<'t>(
        name: &str,
        solve: impl Fn(&mut Context<'_>) -> Result<JointPlanDocument> + 't,
    ) -> Entrant<'t> {
        let solve = move |context: &mut Context<'_>| Ok(Planned::Joint(Box::new(solve(context)?)));
        Entrant { name: name.to_owned(), solve: Ok(Box::new(solve)), depends_on_seed: false }
    }
    let graph = match &task.question {
        Question::Layers(layers) => {
            let (_, recipes) = contenders();
            let of_graphs = OF_GRAPHS.into_iter().chain(recipes).map(|name| {
                let cause = format!("the rule `{name}` does not support files of Piper");
                let refusal = Failure::new(U004, cause).at((task.place())("solvers")).help("compare `best`");
                Entrant { name: name.to_owned(), solve: Err(refusal), depends_on_seed: false }
            });
            return Ok([entrant("best", |context| layers.solve(context))]
                .into_iter()
                .chain(of_graphs)
                .collect());
        }
        Question::Planned(_) => return Err(unplanned()),
        Question::Graph(graph) => graph,
    };
    let devices = graph.devices();
    let batch = u32::try_from(graph.objective.global_batch).unwrap_or(u32::MAX);
    let copies = (1..=devices.min(batch)).rev().find(|&copies| batch.is_multiple_of(copies)).unwrap_or(1);
    let alone = [(Parallelism::Tp, Some(1)), (Parallelism::Pp, Some(1)), (Parallelism::Dp, Some(copies))];
    let fsdp = [&alone[..], &[(Parallelism::Zero, Some(3)), (Parallelism::Recompute, None)]].concat();
    let plain = [&alone[..], &[(Parallelism::Zero, Some(0)), (Parallelism::Recompute, Some(0))]].concat();
    let rules = [
        entrant("best", |context| graph.solve(context)),
        entrant("megatron", |context| megatron(graph, context)),
        entrant("fsdp", move |context| graph.solve_under(graph.with_degrees(&fsdp), context)),
        entrant("data-parallel", move |context| graph.solve_under(graph.with_degrees(&plain), context)),
    ];
    let of_recipe =
        |recipe: &'static Recipe| entrant(&recipe.name, move |context| followed(graph, recipe, context));
    Ok(rules.into_iter().chain(recipes().iter().map(of_recipe)).collect())
}

/// The plan of a recipe, whose copies fill the devices.
fn followed(graph: &Graph, recipe: &Recipe, context: &mut Context<'_>) -> Result<JointPlanDocument> {
    let (devices, of_copy) = (graph.devices(), recipe.tp * recipe.cp * recipe.pp);
    if devices == 0 || !devices.is_multiple_of(of_copy) {
        let reason =
            format!("the recipe takes multiples of {of_copy} devices, and the cluster has {devices}");
        return Ok(graph.infeasible(&reason));
    }
    let recompute = CONFIGURATIONS.iter().position(|name| *name == recipe.recompute);
    let given = [
        (Parallelism::Tp, recipe.tp),
        (Parallelism::Cp, recipe.cp),
        (Parallelism::Dp, devices / of_copy),
        (Parallelism::Pp, recipe.pp),
        (Parallelism::Ep, recipe.ep),
        (Parallelism::Zero, recipe.zero),
        (Parallelism::Recompute, recompute.unwrap_or(0) as u32),
    ];
    let mut objective = graph.with_degrees(&given.map(|(kind, degree)| (kind, Some(degree))));
    objective.schedules.clone_from(&recipe.schedules);
    let may_have = |chunks: &u32| {
        recipe.schedules.contains(&Schedule::Interleaved)
            || recipe.schedules.contains(&Schedule::DualPipeV) && *chunks == 2
    };
    objective.chunks = recipe.chunks.or(objective.chunks.filter(may_have));
    if let Some(rule) = recipe.cut {
        let (layers, stages) = (graph.numbered_layers(), recipe.pp * recipe.chunks.unwrap_or(1));
        objective.cut = rule.divide(layers, stages);
        if objective.cut.is_none() {
            let reason = format!(
                "the {layers} layers of the model do not divide into {stages} stages as the recipe says"
            );
            return Ok(graph.infeasible(&reason));
        }
    }
    graph.solve_under(objective, context)
}

/// The first plan of Megatron's rule that fits, all within the limits of the context.
fn megatron(graph: &Graph, context: &mut Context<'_>) -> Result<JointPlanDocument> {
    let kinds: Vec<_> = graph.cluster.kinds.iter().filter(|kind| !kind.host).collect();
    let [kind] = kinds[..] else { return Ok(graph.without_plan("the rule is for one kind of devices")) };
    let server = kind.server.map_or(kind.count, |server| server.devices).min(kind.count);
    let within = (1..=server).filter(|&degree| server.is_multiple_of(degree)).map(|degree| (degree, 1));
    let across = (2..=kind.count / server.max(1)).map(|stages| (server, stages));
    let mut is_refuted = true;
    for (tensor, stages) in within.chain(across) {
        let batch = u32::try_from(graph.objective.global_batch).unwrap_or(u32::MAX);
        let most = kind.count / (tensor * stages);
        let Some(data) = (1..=most.min(batch)).rev().find(|&data| batch.is_multiple_of(data)) else {
            continue;
        };
        let given = [
            (Parallelism::Tp, Some(tensor)),
            (Parallelism::Pp, Some(stages)),
            (Parallelism::Dp, Some(data)),
            (Parallelism::Zero, Some(0)),
            (Parallelism::Recompute, Some(2)),
        ];
        let plan = graph.solve_under(graph.with_degrees(&given), context)?;
        // A solve that was cut short does not say that its degrees do not fit.
        if !plan.stages.is_empty() || plan.stop.is_some() {
            return Ok(plan);
        }
        is_refuted &= plan.status == PlanStatus::Infeasible;
    }
    let status = if is_refuted { PlanStatus::Infeasible } else { PlanStatus::Unknown };
    Ok(JointPlanDocument { status, ..graph.without_plan("no degrees of the rule fit into memory") })
}

/// A given plan, evaluated by the independent checker under the objective of the question.
///
/// # Errors
/// A plan for another kind of objective (U001), or documents that cannot be checked.
pub(super) fn given(task: &Joint, name: &str, label: &str, plan: JointPlanDocument) -> Result<Contender> {
    let objective = match &task.question {
        Question::Graph(graph) => &graph.objective,
        Question::Layers(layers) => &layers.objective,
        Question::Planned(_) => return Err(unplanned()),
    };
    if plan.objective.kind != objective.kind {
        return Err(Failure::new(U001, "the plan is for another objective").at(label).help("leave it out"));
    }
    let mut plan = JointPlanDocument {
        status: PlanStatus::Feasible,
        objective: JointObjectiveDocument { value_s: None, ..objective.clone() },
        bound: JointBoundDocument { value_s: None, source: "none".into() },
        gap: None,
        stop: None,
        // The solve that found the plan, with its command, is not the one that evaluates it.
        origin: None,
        options: None,
        seconds: 0.0,
        ..plan
    };
    let report = match &task.question {
        Question::Graph(graph) => {
            plan.cluster = Some(graph.cluster.clone());
            plan.options.clone_from(&graph.options);
            check_joint(&graph.graph, &graph.cluster, &plan)
        }
        Question::Layers(layers) => {
            plan.cluster = layers.cluster().cloned();
            plan.options = layers.options().cloned();
            check_joint_layers(layers.document(), &plan)
        }
        Question::Planned(_) => return Err(unplanned()),
    }
    .map_err(|error| {
        Failure::new(error.code(), error.to_string()).at(label).help("correct the plan, or leave it out")
    })?;
    plan.objective.value_s = report.value_s;
    for (stage, figures) in plan.stages.iter_mut().zip(&report.stages) {
        stage.in_flight = u32::try_from(figures.in_flight).unwrap_or(u32::MAX);
        stage.seconds = figures.seconds;
        stage.forward_s = figures.forward_s;
        stage.weight_s = figures.weight_s;
        stage.update_s = figures.update_s;
        stage.memory_bytes = figures.memory_bytes;
        stage.state_bytes = figures.state_bytes;
        stage.host_bytes = figures.host_bytes;
        stage.activation_bytes = figures.activation_bytes;
    }
    (plan.throughput, plan.sources) = (None, None);
    if let Question::Graph(graph) = &task.question {
        plan = graph.complete(plan);
    }
    plan.reason = report.value_s.is_none().then(|| "the plan cannot be evaluated".to_owned());
    // Claims of the plan about its stages were for its own question.
    let mut breaks: Vec<String> = report
        .violations
        .iter()
        .filter(|violation| violation.breaks_feasibility())
        .map(|violation| violation.kind().to_owned())
        .collect();
    breaks.sort_unstable();
    breaks.dedup();
    Ok(Contender { name: name.to_owned(), entry: Entry::Given(Planned::Joint(Box::new(plan)), breaks) })
}

/// Writes a page of the best plan, with the comparison.
pub(super) fn page(task: &Joint, comparison: &Comparison, out: &mut dyn Write) -> Result<io::Result<()>> {
    let Some((_, Planned::Joint(plan))) = comparison.leader() else { return Ok(Ok(())) };
    let (figures, parts) = match &task.question {
        Question::Graph(graph) => (graph.figures(), graph.parts(plan)),
        _ => (JointFigures::default(), None),
    };
    let page = JointPage {
        model: &plan.model,
        cluster: plan.cluster.as_ref().map(|cluster| cluster.name.as_str()),
        document: plan,
        parts: parts.as_deref(),
        figures,
        comparison: Some(comparison),
    };
    Ok(html::joint::write(&page, out))
}
