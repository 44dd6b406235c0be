//! The planner's own choice for every group of runs, beside the runs that are the same plan.
//!
//! Runs of a group have one model, batch, devices and kernels. The planner chooses any degree of each kind of parallelism that a
//! run of the group has, and any microbatch; devices of a pipeline, schedule, stage of ZeRO and recomputation are those of some
//! run, and layers are cut as the runtime cuts them. A *twin* of its plan is a run with the same degrees; selective recomputation
//! of a run counts as none.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{JointStageDocument, Parallelism, Schedule};
use stagewright_core::solver::{Context, Limits, Settings, Silent};
use stagewright_formats::layers::layer_names;
use stagewright_joint::iteration::{Problem, Request, Solution, solve};

use super::case::Case;
use super::constants::Constants;
use super::cut::cut;
use super::rows::{Recompute, Run, Status};

/// Runs of a group that is judged.
const LEAST_OF_GROUP: usize = 4;

/// Degrees of a plan, and whether its layers are recomputed.
#[derive(Debug, PartialEq)]
struct Choice {
    tensor: u32,
    devices: u32,
    data: u32,
    context: u32,
    expert: u32,
    microbatch: u32,
    zero: u32,
    schedule: Schedule,
    chunks: u32,
    /// Whether groups of copies divide states.
    is_hybrid: bool,
    is_recomputed: bool,
}

/// Prints a line for every group, and the mistakes.
pub(crate) fn print(cases: &[&Case], constants: &Constants) {
    let mut groups: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        let Run { file, name, gpu, gpus, sequence, batch, kernel, .. } = &case.run;
        let Run { sequence_parallel, fused_norms, is_fp8, is_pure, .. } = &case.run;
        let facts = (kernel, sequence_parallel, fused_norms, is_fp8, is_pure);
        groups
            .entry(format!("{file} {name} {gpus}x{gpu} {sequence} {batch} {facts:?}"))
            .or_default()
            .push(case);
    }
    groups.retain(|_, group| {
        group.len() >= LEAST_OF_GROUP && group.iter().any(|case| case.run.timed().is_some())
    });
    println!("| group | runs | plan | predicted s | twin | measured s | best measured s |");
    println!("| --- | ---: | --- | ---: | --- | ---: | ---: |");
    let (mut twins, mut regrets): (BTreeMap<&str, usize>, Vec<f64>) = (BTreeMap::new(), Vec::new());
    for (name, group) in &groups {
        let Some((solution, value)) = choose(group, constants) else {
            println!("| {name} | {} | no plan | | | | |", group.len());
            continue;
        };
        let choice = Choice::of(&solution);
        let same: Vec<&&Case> =
            group.iter().filter(|case| choice.as_ref() == Some(&Choice::of_run(&case.run))).collect();
        let timed = |cases: &mut dyn Iterator<Item = &Case>| {
            cases.filter_map(|case| case.run.timed()).fold(f64::INFINITY, f64::min)
        };
        let of_twin = timed(&mut same.iter().map(|case| **case));
        let best = timed(&mut group.iter().copied());
        let is = |status| same.iter().any(|case| case.run.status == status);
        let twin = match () {
            () if of_twin.is_finite() => "ran",
            () if is(Status::OutOfMemory) => "out of memory",
            () if is(Status::Failed) => "failed",
            () => "none",
        };
        *twins.entry(twin).or_default() += 1;
        let measured = if of_twin.is_finite() { format!("{of_twin:.3}") } else { "-".into() };
        if of_twin.is_finite() {
            regrets.push(of_twin / best);
        }
        let plan = choice.map_or_else(|| "-".to_owned(), |choice| choice.to_string());
        println!("| {name} | {} | {plan} | {value:.3} | {twin} | {measured} | {best:.3} |", group.len());
    }
    println!("\n| twin of the plan | groups |\n| --- | ---: |");
    twins.iter().for_each(|(twin, count)| println!("| {twin} | {count} |"));
    regrets.sort_by(f64::total_cmp);
    let mean = regrets.iter().sum::<f64>() / regrets.len().max(1) as f64;
    let largest = regrets.last().copied().unwrap_or(f64::NAN);
    println!(
        "\nmeasured regret of {} plans with twins that ran: mean {mean:.3}, largest {largest:.3}",
        regrets.len()
    );
}

/// The best plan of a group, with its seconds: all its layers recomputed, or none.
fn choose(group: &[&Case], constants: &Constants) -> Option<(Solution, f64)> {
    let first = group.first()?;
    let distinct =
        |figure: fn(&Run) -> u32| group.iter().map(|case| figure(&case.run)).collect::<BTreeSet<u32>>();
    let any = |figure: fn(&Run) -> u32, parallelism: Parallelism| {
        let found = distinct(figure);
        (found.iter().any(|&degree| degree > 1)).then_some((parallelism, None))
    };
    let degrees = [
        any(|run| run.tensor, Parallelism::Tp),
        any(|run| run.data, Parallelism::Dp),
        any(|run| run.context, Parallelism::Cp),
        any(|run| run.expert, Parallelism::Ep),
    ];
    let recompute = distinct(|run| u32::from(run.recompute == Recompute::Full) * 2);
    let mut solutions = Vec::new();
    let mut asked = BTreeSet::new();
    for Run { pipeline, chunks, schedule, .. } in group.iter().map(|case| &case.run) {
        let Ok(schedule) = schedule.clone() else { continue };
        if !asked.insert((*pipeline, *chunks, schedule)) {
            continue;
        }
        let shape = Run { pipeline: *pipeline, chunks: *chunks, schedule: Ok(schedule), ..first.run.clone() };
        // A runtime cuts layers by its own rule.
        let Ok(counts) = cut(&shape) else { continue };
        let counts: Vec<u32> = counts.into_iter().map(|count| count as u32).collect();
        for &zero in &distinct(|run| run.zero) {
            for &configuration in &recompute {
                let fixed = [
                    (Parallelism::Pp, Some(*pipeline)),
                    (Parallelism::Zero, Some(zero)),
                    (Parallelism::Recompute, Some(configuration)),
                ];
                let request = Request {
                    parallel: degrees.iter().flatten().copied().chain(fixed).collect(),
                    global_batch: first.run.batch,
                    microbatch: None,
                    schedules: vec![schedule],
                    chunks: schedule.has_chunks().then_some(*chunks),
                    cut: (counts.len() > 1).then(|| counts.clone()),
                    runtime: Some(constants.runtime(first)),
                };
                solutions.extend(best(first, request, constants));
            }
        }
    }
    solutions.into_iter().min_by(|left, right| left.1.total_cmp(&right.1))
}

/// The best plan of a request.
fn best(case: &Case, request: Request, constants: &Constants) -> Option<(Solution, f64)> {
    let (graph, mut cluster) = (&case.drawing.graph, case.machines.cluster.clone());
    for (kind, &generation) in case.machines.cluster.kinds.iter().zip(&case.machines.generations) {
        let class = cluster.classes.get_mut(&kind.class)?;
        class.training_efficiency = Some(constants.efficiency(generation));
    }
    let problem = Problem::new(graph, &layer_names(graph), &cluster, request).ok()?;
    let mut observer = Silent;
    let settings = Settings { limits: Limits { time: None, ..Limits::default() }, ..Settings::default() };
    let solution = solve(&problem, &mut Context::new(settings, &mut observer)).ok()?;
    let value = solution.value?;
    Some((solution, value))
}

impl Choice {
    /// The degrees of a plan; `None` without one, or if kinds of devices have different ones.
    fn of(solution: &Solution) -> Option<Choice> {
        let execution = solution.execution.as_ref()?;
        let is_full =
            |stage: &JointStageDocument| stage.layers.iter().any(|layer| layer.configuration == "full");
        let tensor = solution.stages.first()?.tensor;
        let is_alike = solution.stages.iter().all(|stage| stage.tensor == tensor);
        let (data, context) = (execution.data, execution.context);
        is_alike.then(|| Choice {
            tensor,
            devices: solution.stages.len() as u32 / execution.chunks.max(1),
            data,
            context,
            expert: execution.expert,
            microbatch: execution.microbatch,
            zero: if data * context == 1 { 0 } else { execution.zero },
            schedule: execution.schedule,
            chunks: execution.chunks,
            is_hybrid: execution.shards.is_some(),
            is_recomputed: solution.stages.iter().any(is_full),
        })
    }

    /// The degrees of a run.
    fn of_run(run: &Run) -> Choice {
        let Run { tensor, pipeline, data, context, expert, microbatch, .. } = *run;
        Choice {
            tensor,
            devices: pipeline,
            data,
            context,
            expert,
            microbatch,
            zero: if data * context == 1 { 0 } else { run.zero },
            schedule: run.schedule.clone().unwrap_or(Schedule::OneFOneB),
            chunks: run.chunks,
            is_hybrid: run.is_hybrid,
            is_recomputed: run.recompute == Recompute::Full,
        }
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Choice {
            tensor, devices, data, context, expert, microbatch, zero, schedule, is_recomputed, ..
        } = self;
        write!(formatter, "tp {tensor}, pp {devices}, dp {data}")?;
        if *context > 1 {
            write!(formatter, ", cp {context}")?;
        }
        if *expert > 1 {
            write!(formatter, ", ep {expert}")?;
        }
        write!(formatter, ", microbatch {microbatch}, ZeRO {zero}, {}", schedule.name())?;
        if *is_recomputed { write!(formatter, ", recomputed") } else { Ok(()) }
    }
}
