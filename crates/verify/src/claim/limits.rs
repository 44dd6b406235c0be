//! Prices of memory, and the value below which a bound holds.
//!
//! Each class holds some bytes on its device, whichever other classes share the device. The bytes of the classes on a
//! device sum to at most its memory, and the same holds in whole quanta of any size: Σ ⌊bytes / quantum⌋ ≤ ⌊Σ bytes /
//! quantum⌋. So the classes on all devices of a kind have at most count · ⌊memory / quantum⌋ quanta, and pay at most
//! the price of that many.
//!
//! *Bytes.* Parameters and optimiser state are resident throughout. Every device that reads a shared parameter holds
//! it, so each of the classes that share it counts an equal part. For throughput and latency, version 1 counts
//! workspace and activations as well; version 2 counts activations for all microbatches in flight, and the forward
//! tensors that one class alone needs in the backward pass, since a device runs its forward operators first. In a step,
//! only the declared activations of version 2 count, because tensors need not be in memory at the same time.
//!
//! *Rounding.* Rents and payments may be far larger than their difference, which alone matters. Sums are compensated
//! (Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 1974), so that the error
//! does not grow with the number of classes, and the rounding of all rents is subtracted.
//!
//! *Below.* Assume that a plan has a value below a limit. Then no class is on a kind where its seconds alone make the
//! value reach that limit. A bound proved under this assumption holds for every plan, up to the limit.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{MemoryPriceDocument, Pass};
use stagewright_core::tolerance::{MEMORY_RELATIVE, round_down};

use crate::read::{Graph, InFlight, Objective, Problem};

/// Prices of memory, and a limit of the value; both may be missing.
pub(super) struct Limits {
    /// Bytes by class, rounded down.
    bytes: Vec<f64>,
    /// Memory of a device in bytes, by kind, with the tolerance for rounding; infinite if unlimited.
    memory: Vec<f64>,
    /// Quantum and its price by kind.
    prices: Vec<Option<MemoryPriceDocument>>,
    below: Option<f64>,
}

impl Limits {
    /// Reads prices and limit, or returns why they are malformed. O(operators + pins log pins).
    pub(super) fn read(
        problem: &Problem,
        memory: &BTreeMap<String, MemoryPriceDocument>,
        below: Option<f64>,
    ) -> Result<Limits, String> {
        let kinds = problem.cluster.kinds.len();
        if let Some(below) = below.filter(|below| !below.is_finite()) {
            return Err(format!("it holds below {below:?} s"));
        }
        let bytes_of = |kind| problem.usable_memory(kind).unwrap_or(f64::INFINITY) * (1.0 + MEMORY_RELATIVE);
        let mut prices = vec![None; kinds];
        for (name, &given) in memory {
            let Some(kind) = problem.cluster.find_kind(name) else {
                return Err(format!("it prices the memory of kind {name:?}, which the cluster lacks"));
            };
            let MemoryPriceDocument { quantum_bytes, price } = given;
            if !(quantum_bytes.is_finite() && quantum_bytes > 0.0 && price.is_finite() && price >= 0.0) {
                return Err(format!("memory of kind {name:?} costs {price:?} per {quantum_bytes:?} bytes"));
            }
            let Some(bytes) = problem.usable_memory(kind) else {
                return Err(format!("it prices the memory of kind {name:?}, which is unlimited"));
            };
            if !(price * (bytes / quantum_bytes)).is_finite() {
                return Err(format!("the memory of a device of kind {name:?} has no finite price"));
            }
            prices[kind] = Some(given);
        }
        let bytes = class_bytes(problem).into_iter().map(round_down).collect();
        Ok(Limits { bytes, memory: (0..kinds).map(bytes_of).collect(), prices, below })
    }

    /// Whether a device of a kind has memory for a class.
    pub(super) fn fits(&self, class: usize, kind: usize) -> bool {
        self.bytes[class] <= self.memory[kind]
    }

    /// Price of a class on a kind.
    pub(super) fn rent(&self, class: usize, kind: usize) -> f64 {
        self.prices[kind]
            .map_or(0.0, |memory| memory.price * (self.bytes[class] / memory.quantum_bytes).floor())
    }

    /// The sum before any class is added: minus the maximum that all classes pay for memory.
    pub(super) fn balance(&self, problem: &Problem) -> Balance {
        let paid = self.paid(problem);
        Balance { sum: -paid, compensation: 0.0, rents: paid }
    }

    /// Maximum that all classes together pay for memory.
    fn paid(&self, problem: &Problem) -> f64 {
        let kinds = problem.cluster.kinds.iter().zip(&self.prices).zip(&self.memory);
        kinds
            .filter_map(|((kind, price), memory)| {
                let MemoryPriceDocument { quantum_bytes, price } = (*price)?;
                Some(f64::from(kind.document.count) * price * (memory / quantum_bytes).floor())
            })
            .sum()
    }

    /// Whether a value reaches the limit.
    pub(super) fn reached(&self, value: f64) -> bool {
        self.below.is_some_and(|below| value >= below)
    }

    /// Turns a bound on values below the limit into a bound on every value; `is_impossible` means that no value is
    /// below the limit. An overflowed sum is returned unchanged.
    pub(super) fn capped(&self, bound: f64, is_impossible: bool) -> f64 {
        match self.below {
            Some(below) if is_impossible => below,
            Some(below) if bound.is_finite() => bound.min(below),
            _ => bound,
        }
    }
}

/// A compensated sum of seconds and rents.
pub(super) struct Balance {
    sum: f64,
    compensation: f64,
    /// Sum of the absolute values of all rents.
    rents: f64,
}

impl Balance {
    /// Rounding errors per rent: of the rent, of its sum with the seconds, and of the compensated sum, with a margin.
    const ROUNDINGS: f64 = 8.0;

    /// Adds seconds that include a rent.
    pub(super) fn add(&mut self, seconds: f64, rent: f64) {
        let sum = self.sum + seconds;
        self.compensation += match self.sum.abs() >= seconds.abs() {
            true => (self.sum - sum) + seconds,
            false => (seconds - sum) + self.sum,
        };
        self.sum = sum;
        self.rents += rent;
    }

    /// Minimum value of the sum.
    pub(super) fn least(&self) -> f64 {
        self.sum + self.compensation - Balance::ROUNDINGS * f64::EPSILON * self.rents
    }
}

/// Minimum bytes of every class on its device, whichever other classes share the device.
fn class_bytes(problem: &Problem) -> Vec<f64> {
    let graph = &problem.graph;
    let is_step = matches!(problem.rules.objective, Objective::Makespan { .. });
    let in_flight = match problem.rules.in_flight {
        InFlight::All(all) => f64::from(all),
        InFlight::One | InFlight::FromLast(_) | InFlight::Stages(_) => 1.0,
    };
    let own = |&operator: &usize| {
        let document = &graph.operators[operator];
        let always = document.parameter_bytes + document.optimizer_bytes;
        match (graph.is_version_2, is_step) {
            (true, _) => always + in_flight * document.activation_bytes,
            (false, true) => always,
            (false, false) => always + in_flight * document.activation_bytes + document.workspace_bytes,
        }
    };
    let mut bytes: Vec<f64> =
        graph.classes.iter().map(|members| members.iter().map(own).sum::<f64>()).collect();
    for parameter in &graph.parameters {
        let classes: BTreeSet<usize> =
            parameter.readers.iter().map(|&reader| graph.class_of[reader]).collect();
        let part = (parameter.document.bytes + parameter.document.optimizer_bytes) / classes.len() as f64;
        classes.into_iter().for_each(|class| bytes[class] += part);
    }
    if graph.is_version_2 && !is_step {
        for (class, kept) in kept_tensors(graph) {
            bytes[class] += in_flight * kept;
        }
    }
    bytes
}

/// Bytes of the forward tensors that one class alone has in both passes, each with the class.
fn kept_tensors<'a>(graph: &'a Graph) -> impl Iterator<Item = (usize, f64)> + 'a {
    let is_forward = |operator: usize| graph.pass(operator) == Pass::Forward;
    graph.tensors.iter().filter(move |tensor| is_forward(tensor.producer)).filter_map(move |tensor| {
        let in_pass = |forward: bool| -> BTreeSet<usize> {
            let pins = tensor.pins().filter(|&operator| is_forward(operator) == forward);
            pins.map(|operator| graph.class_of[operator]).collect()
        };
        let (before, after) = (in_pass(true), in_pass(false));
        let mut both = before.intersection(&after);
        both.next().filter(|_| both.next().is_none()).map(|&class| (class, tensor.document.bytes))
    })
}
