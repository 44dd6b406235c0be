//! Diagnosis of infeasible problems: the cause, and the smallest change that makes the problem feasible.
//!
//! Three causes follow from the problem directly: operators that no device may run, a unit (operators that must share a
//! device) larger than every device that may run it, and more bytes in total than memory. In any case, the module
//! `smallest` then solves the problem at growing device counts and memory sizes, one kind at a time: both only ever
//! make more plans feasible, so doubling and bisection find the smallest of each. A probe that reaches its time limit
//! counts as infeasible, so the result suffices but need not be the smallest.

mod smallest;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::graph::OpId;
use stagewright_core::memory::reserve;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Solver;
use stagewright_core::tolerance;

use crate::report::units::{bytes, bytes_closely};

/// Limits of a diagnosis.
pub struct DiagnosisEffort {
    /// The solver for the probes.
    pub solver: Arc<dyn Solver>,
    /// Total time.
    pub time: Duration,
    /// Bytes for the solver's tables.
    pub memory: Option<u64>,
    /// Worker threads.
    pub threads: usize,
    /// Flag that ends the diagnosis early.
    pub interrupt: Arc<AtomicBool>,
    /// Whether the memory reserve was given for all devices. If not, a reserve that equals the default for a kind's
    /// memory changes with that memory.
    pub reserve_is_given: bool,
}

/// A cause of infeasibility, or a change that would help.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// No device of the cluster may run certain operators.
    NowhereToRun {
        /// The first few operators that no device may run.
        operators: Vec<String>,
        /// Number of operators that no device may run.
        count: usize,
        /// Classes that have a time for the first of the operators, regardless of pins.
        timed_on: Vec<String>,
        /// Whether a pin excludes devices for the first of the operators.
        pinned: bool,
    },
    /// Operators that must share a device, although no device may run all of them.
    NothingInCommon {
        /// Description of the operators, for display.
        unit: String,
    },
    /// A unit is larger than every device that may run it.
    UnitTooLarge {
        /// Description of the unit, for display.
        unit: String,
        /// Bytes that the unit needs.
        bytes: f64,
        /// Bytes of the largest device that may run the unit.
        limit: f64,
        /// The kind of the largest device.
        kind: String,
    },
    /// The model needs more bytes than all devices have.
    TotalMemory {
        /// Bytes of the model.
        bytes: f64,
        /// Bytes of all devices.
        available: f64,
    },
    /// The reserve of a kind uses up all of its memory.
    Reserve {
        /// The kind.
        kind: String,
        /// Bytes of one device.
        memory: f64,
        /// Bytes reserved for the runtime.
        reserve: f64,
    },
    /// More devices of one kind are enough.
    MoreDevices {
        /// The kind.
        kind: String,
        /// A sufficient number of devices.
        count: u32,
        /// Whether one device fewer is proved insufficient.
        smallest: bool,
    },
    /// More memory on each device of one kind is enough.
    MoreMemory {
        /// The kind.
        kind: String,
        /// A sufficient number of bytes.
        bytes: f64,
        /// A number of bytes proved insufficient, if there is one.
        too_few: Option<f64>,
    },
    /// No change that was tried helps.
    NothingHelps,
}

/// Explains why a problem has no plan.
pub fn diagnose(problem: &Problem, effort: &DiagnosisEffort) -> Vec<Finding> {
    let begun = Instant::now();
    let units = Units::of(problem);
    let mut findings = nowhere_to_run(problem);
    if findings.is_empty() {
        findings = nothing_in_common(problem, &units);
    }
    if !findings.is_empty() {
        // Neither more devices nor more memory would let any device run these operators.
        return findings;
    }
    let too_large = largest_misfit(problem, &units);
    let more_devices_can_help = too_large.is_none();
    findings.extend(too_large);
    findings.extend(total_memory(problem));
    findings.extend(reserves(problem));
    let known = findings.len();
    if more_devices_can_help {
        findings.extend(smallest::counts(problem, units.len(), effort, begun.checked_add(effort.time / 2)));
    }
    findings.extend(smallest::memories(problem, effort, begun.checked_add(effort.time)));
    if findings.len() == known {
        findings.push(Finding::NothingHelps);
    }
    findings
}

fn nowhere_to_run(problem: &Problem) -> Vec<Finding> {
    const SHOWN: usize = 5;
    let pools = problem.pools().len();
    let graph = problem.graph();
    let stuck: Vec<OpId> =
        graph.operators().filter(|&op| (0..pools).all(|pool| problem.seconds(op, pool).is_none())).collect();
    let Some(&first) = stuck.first() else { return Vec::new() };
    let cluster = problem.cluster();
    let mut timed_on: Vec<String> = (0..cluster.kind_count())
        .filter(|&kind| problem.costs().seconds(first, kind).is_some())
        .map(|kind| cluster.kind(kind).class.clone())
        .chain(graph.operator(first).seconds.keys().cloned())
        .filter(|class| !graph.operator(first).unsupported.contains(class))
        .collect();
    timed_on.sort_unstable();
    timed_on.dedup();
    vec![Finding::NowhereToRun {
        operators: stuck.iter().take(SHOWN).map(|&op| graph.operator(op).name.clone()).collect(),
        count: stuck.len(),
        timed_on,
        pinned: (0..pools).any(|pool| !problem.pinned_to(first, pool)),
    }]
}

fn nothing_in_common(problem: &Problem, units: &Units) -> Vec<Finding> {
    units
        .ids()
        .find(|&unit| (0..units.pools()).all(|pool| !units.supported(unit, pool)))
        .map(|unit| Finding::NothingInCommon { unit: describe(problem, units, unit) })
        .into_iter()
        .collect()
}

/// The unit that exceeds its largest device by the most bytes.
fn largest_misfit(problem: &Problem, units: &Units) -> Option<Finding> {
    // The last stage holds the fewest microbatches, so a unit that does not fit there fits nowhere.
    let in_flight = problem.objective().in_flight(1);
    let mut worst: Option<(f64, Finding)> = None;
    for unit in units.ids() {
        let need = match problem.objective().kind() {
            ObjectiveKind::Makespan => {
                let members = units.members(unit).iter();
                let standing: f64 = members.clone().map(|&op| standing_bytes(problem, op)).sum();
                standing + members.map(|&op| working_bytes(problem, op)).fold(0.0, f64::max)
            }
            _ => units.bytes(unit, in_flight),
        };
        let best = problem
            .pools()
            .iter()
            .enumerate()
            .filter(|&(pool, _)| units.supported(unit, pool))
            .rev()
            .max_by(|a, b| a.1.memory.total_cmp(&b.1.memory));
        let Some((_, pool)) = best else { continue };
        let excess = need - pool.memory;
        if tolerance::fits(need, pool.memory) || worst.as_ref().is_some_and(|(largest, _)| *largest >= excess)
        {
            continue;
        }
        worst = Some((
            excess,
            Finding::UnitTooLarge {
                unit: describe(problem, units, unit),
                bytes: need,
                limit: pool.memory,
                kind: problem.cluster().kind(pool.kind).name.clone(),
            },
        ));
    }
    worst.map(|(_, finding)| finding)
}

fn total_memory(problem: &Problem) -> Option<Finding> {
    let available: f64 = problem.pools().iter().map(|pool| f64::from(pool.count()) * pool.memory).sum();
    let bytes = total_bytes(problem, problem.objective().in_flight(1));
    (!tolerance::fits(bytes, available)).then_some(Finding::TotalMemory { bytes, available })
}

/// The kinds without usable memory.
fn reserves(problem: &Problem) -> impl Iterator<Item = Finding> {
    let document = problem.graph().document();
    problem.cluster().document().kinds.iter().filter_map(|kind| {
        let (memory, reserve) = (kind.memory_bytes?, reserve(document, kind));
        let name = kind.name.clone();
        (kind.count > 0 && reserve > 0.0 && memory <= reserve).then_some(Finding::Reserve {
            kind: name,
            memory,
            reserve,
        })
    })
}

/// Bytes that the whole model needs with `in_flight` microbatches in flight.
fn total_bytes(problem: &Problem, in_flight: u32) -> f64 {
    let graph = problem.graph();
    let shared = graph.parameters().iter().map(|parameter| parameter.bytes + parameter.optimizer_bytes);
    if graph.is_version_2() {
        let in_flight = match problem.objective().kind() {
            ObjectiveKind::Throughput => f64::from(in_flight),
            ObjectiveKind::Latency | ObjectiveKind::Makespan => 1.0,
        };
        let own = graph.document().operators.iter().map(|operator| {
            operator.parameter_bytes + operator.optimizer_bytes + in_flight * operator.activation_bytes
        });
        return own.chain(shared).sum();
    }
    if problem.objective().kind() == ObjectiveKind::Makespan {
        return graph.operators().map(|op| standing_bytes(problem, op)).sum();
    }
    let operators = &graph.document().operators;
    operators
        .iter()
        .map(|op| {
            op.parameter_bytes
                + op.optimizer_bytes
                + op.workspace_bytes
                + f64::from(in_flight) * op.activation_bytes
        })
        .sum()
}

/// Bytes of an operator that stay on its device throughout a step; its other bytes come and go.
fn standing_bytes(problem: &Problem, op: OpId) -> f64 {
    let operator = problem.graph().operator(op);
    operator.parameter_bytes + operator.optimizer_bytes
}

/// Bytes that an operator of a step reads, writes and works on at once.
fn working_bytes(problem: &Problem, op: OpId) -> f64 {
    let graph = problem.graph();
    let touched = graph.inputs(op).iter().chain(graph.outputs(op));
    touched.map(|&tensor| graph.bytes(tensor)).sum::<f64>() + graph.operator(op).workspace_bytes
}

/// Describes a unit by its colocation group, or else by its operators.
fn describe(problem: &Problem, units: &Units, unit: UnitId) -> String {
    let graph = problem.graph();
    let members = units.members(unit);
    let name = |op: &OpId| format!("`{}`", graph.operator(*op).name);
    match members {
        [] => "nothing".into(),
        [only] => format!("operator {}", name(only)),
        [first, ..] => {
            let group = graph.operator(*first).colocation.as_deref();
            let whole = members.iter().all(|&op| graph.operator(op).colocation.as_deref() == group);
            match group {
                Some(group) if whole => format!("colocated group `{group}` of {} operators", members.len()),
                _ => format!(
                    "{} operators that must share a device, {} among them",
                    members.len(),
                    name(first)
                ),
            }
        }
    }
}

/// Writes that no device may run certain operators, and why. `operators` names the first few of all `count` of them.
fn write_nowhere_to_run(
    f: &mut fmt::Formatter<'_>,
    operators: &[String],
    count: usize,
    timed_on: &[String],
    pinned: bool,
) -> fmt::Result {
    let names: Vec<String> = operators.iter().map(|name| format!("`{name}`")).collect();
    let more = count - operators.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    write!(f, "no device may run {}{more}", names.join(", "))?;
    match (timed_on, pinned) {
        ([], _) => write!(f, "; no class has a time for it: give seconds, or flop and a class with a peak"),
        (classes, true) => {
            write!(f, "; its pin leaves out class {}, which has a time for it", classes.join(", "))
        }
        (classes, false) => {
            let classes = classes.join(", ");
            write!(f, "; it has a time for class {classes}, of which the cluster has no device")
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::NowhereToRun { operators, count, timed_on, pinned } => {
                write_nowhere_to_run(f, operators, *count, timed_on, *pinned)
            }
            Finding::NothingInCommon { unit } => {
                write!(
                    f,
                    "no single device may run all of {unit}, although each operator has one that may run it"
                )
            }
            Finding::UnitTooLarge { unit, bytes: need, limit, kind } => write!(
                f,
                "largest {unit} needs {} of {} on `{kind}`, the largest device that may run it",
                bytes(*need),
                bytes(*limit)
            ),
            Finding::TotalMemory { bytes: need, available } => {
                write!(f, "the model needs {}, all devices together have {}", bytes(*need), bytes(*available))
            }
            Finding::Reserve { kind, memory, reserve } => write!(
                f,
                "each `{kind}` reserves {} for the runtime and has {}: give a smaller --memory-reserve or reserve_bytes",
                bytes(*reserve),
                bytes(*memory)
            ),
            Finding::MoreDevices { kind, count, smallest: true } => {
                write!(f, "feasible from k = {count} devices of kind `{kind}`")
            }
            Finding::MoreDevices { kind, count, smallest: false } => {
                write!(f, "feasible with {count} devices of kind `{kind}`; fewer may suffice")
            }
            Finding::MoreMemory { kind, bytes: enough, too_few } => {
                write!(f, "feasible with {} on each device of kind `{kind}`", bytes_closely(*enough))?;
                match too_few {
                    Some(too_few) => write!(f, ", not with {}", bytes_closely(*too_few)),
                    None => write!(f, "; less may suffice"),
                }
            }
            Finding::NothingHelps => write!(
                f,
                "within the time limit, neither more devices of a kind nor more memory on them was found to help"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
