//! The best joint plan beside those of expert rules, under one cost model.
//!
//! | rule | degrees |
//! | --- | --- |
//! | `megatron` | tensor parallelism within a server first, then the fewest stages that fit, copies for the rest, all layers recomputed (Narayanan et al., SC 2021, section 3) |
//! | `fsdp` | copies alone, which divide all states (Zhao et al., "PyTorch FSDP", VLDB 2023) |
//! | `data-parallel` | copies alone, without sharding |
//!
//! A rule gives degrees; the microbatch, the layers of the stages, and for `fsdp` the recomputation are optimised.

use serde::Serialize;
use stagewright_core::document::{JointPlanDocument, Parallelism, Schedule};
use stagewright_core::solver::Observer;
use stagewright_report::grid::{Column, Grid};
use stagewright_report::units::{percent, seconds};

use super::graph::Graph;
use super::{Joint, Question};
use crate::code::U013;
use crate::failure::{Failure, Result};
use crate::tasks::{Kind, Request, Session, json};

/// A row of the comparison.
#[derive(Serialize)]
struct Row {
    plan: &'static str,
    value_s: Option<f64>,
    bound_s: Option<f64>,
    stages: usize,
    tensor: Vec<u32>,
    data: Option<u32>,
    expert: Option<u32>,
    zero: Option<u32>,
    microbatch: Option<u32>,
    schedule: Option<Schedule>,
    chunks: Option<u32>,
}

/// The best plan and those of expert rules, one row each.
pub struct Comparison {
    rows: Vec<Row>,
}

impl Comparison {
    /// Reads a question of a training graph, and solves it without and with the degrees of each rule.
    ///
    /// # Errors
    /// A file of Piper, whose stages have no degrees to give (U013), or a defect of the solver.
    pub fn new(
        request: Request,
        session: &mut Session<'_>,
        observer: &dyn Fn() -> Box<dyn Observer>,
    ) -> Result<Comparison> {
        request.refuse_for(Kind::Joint)?;
        let (task, notes) = Joint::read(request, None)?;
        notes.iter().for_each(|note| session.note(note));
        let Question::Graph(graph) = &task.question else {
            return Err(Failure::new(U013, "expert rules do not apply to a file of Piper")
                .at("MODEL")
                .help("compare a training graph"));
        };
        // An observer for each solve, since an improvement under one rule need not be one under another.
        let solve = |degrees: &Degrees, session: &Session<'_>| {
            graph.with_degrees(degrees)?.solve(&mut session.options.context(&mut *observer()))
        };
        let mut rows = vec![row("best", Some(solve(&[], session)?))];
        rows.push(row("megatron", megatron(graph, &mut |degrees| solve(degrees, session))?));
        let devices: u32 = graph.cluster.kinds.iter().filter(|kind| !kind.host).map(|kind| kind.count).sum();
        let batch = u32::try_from(graph.objective.global_batch).unwrap_or(u32::MAX);
        let copies = (1..=devices.min(batch)).rev().find(|&copies| batch.is_multiple_of(copies)).unwrap_or(1);
        let alone = [(Parallelism::Tp, Some(1)), (Parallelism::Pp, Some(1)), (Parallelism::Dp, Some(copies))];
        let fsdp = [&alone[..], &[(Parallelism::Zero, Some(3)), (Parallelism::Recompute, None)]].concat();
        rows.push(row("fsdp", Some(solve(&fsdp, session)?)));
        let plain = [&alone[..], &[(Parallelism::Zero, Some(0)), (Parallelism::Recompute, Some(0))]].concat();
        rows.push(row("data-parallel", Some(solve(&plain, session)?)));
        Ok(Comparison { rows })
    }

    /// Whether any row has a plan.
    pub fn is_planned(&self) -> bool {
        self.rows.iter().any(|row| row.value_s.is_some())
    }

    /// The rows as JSON.
    ///
    /// # Errors
    /// If they have no JSON (X001).
    pub fn json(&self) -> Result<String> {
        json(&self.rows)
    }

    /// The rows as CSV with a header.
    pub fn csv(&self) -> String {
        csv(&self.rows)
    }

    /// The rows as a table.
    pub fn table(&self) -> Grid {
        table(&self.rows)
    }
}

/// Kinds of parallelism with the degrees that a rule gives them; `None` for any.
type Degrees = [(Parallelism, Option<u32>)];

/// The first plan of Megatron's rule that fits.
fn megatron(
    graph: &Graph,
    solve: &mut dyn FnMut(&Degrees) -> Result<JointPlanDocument>,
) -> Result<Option<JointPlanDocument>> {
    let kinds: Vec<_> = graph.cluster.kinds.iter().filter(|kind| !kind.host).collect();
    // The rule is for one kind.
    let [kind] = kinds[..] else { return Ok(None) };
    let server = kind.server.map_or(kind.count, |server| server.devices).min(kind.count);
    let within = (1..=server).filter(|&degree| server.is_multiple_of(degree)).map(|degree| (degree, 1));
    let across = (2..=kind.count / server.max(1)).map(|stages| (server, stages));
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
        let plan = solve(&given)?;
        if !plan.stages.is_empty() {
            return Ok(Some(plan));
        }
    }
    Ok(None)
}

fn row(name: &'static str, plan: Option<JointPlanDocument>) -> Row {
    let execution = plan.as_ref().and_then(|plan| plan.execution.clone());
    let mut tensor: Vec<u32> = plan.iter().flat_map(|plan| &plan.stages).map(|stage| stage.tensor).collect();
    tensor.dedup();
    Row {
        plan: name,
        value_s: plan.as_ref().and_then(|plan| plan.objective.value_s),
        bound_s: plan.as_ref().and_then(|plan| plan.bound.value_s),
        stages: plan.as_ref().map_or(0, |plan| plan.stages.len()),
        tensor,
        data: execution.as_ref().map(|execution| execution.data),
        expert: execution.as_ref().map(|execution| execution.expert),
        zero: execution.as_ref().map(|execution| execution.zero),
        microbatch: execution.as_ref().map(|execution| execution.microbatch),
        schedule: execution.as_ref().map(|execution| execution.schedule),
        chunks: execution.as_ref().map(|execution| execution.chunks),
    }
}

fn cells(row: &Row) -> [String; 8] {
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let tensor: Vec<String> = row.tensor.iter().map(u32::to_string).collect();
    let stages = if row.stages > 0 { row.stages.to_string() } else { String::new() };
    [
        stages,
        tensor.join("/"),
        number(row.data),
        number(row.expert),
        number(row.zero),
        number(row.microbatch),
        row.schedule.map(|schedule| schedule.name().to_owned()).unwrap_or_default(),
        number(row.chunks),
    ]
}

fn table(rows: &[Row]) -> Grid {
    let mut columns =
        vec![("plan", Column::Words), ("value", Column::Figures), ("slower by", Column::Figures)];
    columns.extend(["stages", "tp", "dp", "ep", "ZeRO", "microbatch"].map(|name| (name, Column::Figures)));
    columns.push(("schedule", Column::Words));
    let mut grid = Grid::new(columns);
    let best = rows.iter().filter_map(|row| row.value_s).fold(f64::INFINITY, f64::min);
    for row in rows {
        let [stages, tensor, data, expert, zero, microbatch, schedule, _] = cells(row);
        grid.row([
            row.plan.to_owned(),
            row.value_s.map_or_else(|| "no plan".into(), seconds),
            row.value_s.map(|value| percent(value / best - 1.0)).unwrap_or_default(),
            stages,
            tensor,
            data,
            expert,
            zero,
            microbatch,
            schedule,
        ]);
    }
    grid
}

fn csv(rows: &[Row]) -> String {
    let mut text = "plan,value_s,bound_s,stages,tp,dp,ep,zero,microbatch,schedule,chunks\n".to_owned();
    for row in rows {
        let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let figures = [number(row.value_s), number(row.bound_s)];
        text.push_str(&format!("{},{},{}\n", row.plan, figures.join(","), cells(row).join(",")));
    }
    text
}
