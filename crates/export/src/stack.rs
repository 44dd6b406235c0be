//! Models with a single stack of layers, for language model runtimes that divide it by counts.
//!
//! Operators before the stack are in the first stage and those after it in the last, except those that run in the
//! kernels of the stack, such as a norm that runs in the kernel of the last sum. The tensors of the model determine
//! which operators come before the stack and which after it. Without the model, this is clear only for a stage without
//! layers of the stack, since forward tensors never lead to an earlier stage: an operator in a stage with such layers
//! may feed them or read them.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::graph::{Graph, OpId};

use super::error::{ExportError, Result};
use super::layers::{Layer, layers};
use super::paths::Paths;
use super::pipeline::Pipeline;
use super::placed::Placed;
use stagewright_report::units::name as shown;

/// Hint for an embedding or a head in the wrong stage.
const PIN_ENDS: &str = "with --pins, pin operators before the stack to the device of the first stage and operators \
                        after it to that of the last, and plan again";

/// Hint for a stage without layers of the stack.
pub const PIN_OUTER: &str =
    "plan with fewer devices, or pin the embedding and the head to the devices of the outer layers";

/// A stack divided among the stages of a pipeline.
#[derive(Debug)]
pub struct Stack {
    /// The stages.
    pub pipeline: Pipeline,
    /// Number of layers of the stack in each stage.
    pub counts: Vec<usize>,
    /// The stages with operators outside of the stack, each with the first such operator.
    pub others: BTreeMap<usize, usize>,
    /// The paths of the layers before the stack; for a single stage without the model, of all layers outside of
    /// it.
    pub before: Vec<String>,
    /// The paths of the layers after the stack.
    pub after: Vec<String>,
    /// The place of every operator, in all passes.
    pub sides: Vec<Side>,
}

/// Place of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before the stack, or for a single stage without the model, anywhere outside of it.
    Before,
    /// In a layer of the stack.
    Inside,
    /// After the stack.
    After,
}

/// Checks that no layer is in an earlier stage than the previous one. Each layer is given with one of its operators.
fn check_order(placed: &Placed, pipeline: &Pipeline, layers: &[(u64, usize)]) -> Result<()> {
    for pair in layers.windows(2) {
        if pipeline.stage(placed, pair[0].1) > pipeline.stage(placed, pair[1].1) {
            let rule = "the previous layer is in a later stage: a stage runs consecutive layers";
            let help =
                "plan for throughput with --split contiguous, which keeps layers in the order of the tensors";
            return Err(pipeline.misplaced(placed, pair[1].1, (rule, help)));
        }
    }
    Ok(())
}

/// The stages with operators outside of the stack, which are the first and the last, each with the first such operator.
fn others(placed: &Placed, pipeline: &Pipeline, layers: &[Layer]) -> Result<BTreeMap<usize, usize>> {
    let mut others = BTreeMap::new();
    for layer in layers.iter().filter(|layer| layer.number.is_none() && !layer.rides) {
        for &operator in &layer.operators {
            let stage = pipeline.stage(placed, operator);
            if !pipeline.is_end(stage) {
                let rule =
                    ("operators outside of numbered layers run in the first stage or the last", PIN_ENDS);
                return Err(pipeline.misplaced(placed, operator, rule));
            }
            if !placed.is_input(operator) {
                others.entry(stage).or_insert(operator);
            }
        }
    }
    Ok(others)
}

impl Stack {
    /// Divides the stack of a plan.
    ///
    /// # Errors
    /// If the plan does not divide one stack into stages (E006 to E012, E014, E015 and E021).
    pub fn new(placed: &Placed, runtime: &'static str) -> Result<Stack> {
        let pipeline = Pipeline::new(placed, runtime)?;
        let layers = layers(placed, &Paths::new(placed)?)?;
        let mut counts = vec![0; pipeline.stages()];
        let mut stages: Vec<(u64, usize)> = Vec::new();
        let mut stacks: BTreeSet<&str> = BTreeSet::new();
        for layer in &layers {
            let Some(numbered) = &layer.number else { continue };
            let stage = pipeline.stage_of[layer.device(placed)?];
            stacks.insert(&numbered.stack);
            stages.push((numbered.number, layer.operators[0]));
            counts[stage] += 1;
        }
        check_stacks(&stacks, runtime)?;
        stages.sort_unstable();
        if let Some(missing) = (0..).zip(&stages).find(|(expected, (number, _))| number != expected) {
            let stack = stacks.first().map(|stack| shown(stack)).unwrap_or_default();
            let why = format!("layer {} of `{stack}` is missing", missing.0);
            return Err(ExportError::NoStack { runtime, why });
        }
        check_order(placed, &pipeline, &stages)?;
        let others = others(placed, &pipeline, &layers)?;
        let sides = vec![Side::Before; placed.operators.len()];
        let mut stack = Stack { pipeline, counts, others, before: Vec::new(), after: Vec::new(), sides };
        let after = stack.after(placed, &layers, runtime)?;
        let homes = placed.homes()?;
        for (side, _) in stack.sides.iter_mut().zip(&homes).filter(|&(_, &home)| after[home]) {
            *side = Side::After;
        }
        for layer in layers.iter().filter(|layer| layer.number.is_some()) {
            layer.operators.iter().for_each(|&op| stack.sides[op] = Side::Inside);
        }
        for layer in layers.into_iter().filter(|layer| layer.number.is_none()) {
            let own = layer
                .operators
                .iter()
                .filter(|&&operator| placed.operators[operator].is_forward() && !placed.is_input(operator));
            let sides: BTreeSet<bool> = own.map(|&operator| after[operator]).collect();
            if sides.contains(&false) {
                stack.before.extend(layer.paths().map(str::to_owned));
            }
            if sides.contains(&true) {
                stack.after.extend(layer.paths().map(str::to_owned));
            }
        }
        Ok(stack)
    }

    /// Marks the operators after the stack, which are reachable from it by tensors. Checks that none of them
    /// is in the first stage and that no operator in the last stage leads to the stack.
    ///
    /// Without the model, only stages without layers of the stack can be decided: forward tensors never lead to an
    /// earlier stage.
    fn after(&self, placed: &Placed, layers: &[Layer], runtime: &'static str) -> Result<Vec<bool>> {
        let last = self.pipeline.stages() - 1;
        let stage = |operator: usize| self.pipeline.stage(placed, operator);
        if placed.graph.is_none() {
            if last > 0 && self.others.keys().any(|&stage| self.counts[stage] > 0) {
                let why =
                    "the plan does not state whether operators outside of the stack run before or after it";
                placed.model(runtime, why)?;
            }
            return Ok((0..placed.operators.len())
                .map(|operator| stage(operator) == last && last > 0)
                .collect());
        }
        let mut beside: Vec<bool> =
            (0..placed.operators.len()).map(|operator| !placed.is_input(operator)).collect();
        for &operator in layers.iter().filter(|layer| layer.rides).flat_map(|layer| &layer.operators) {
            beside[operator] = false;
        }
        let stack: Vec<usize> = layers
            .iter()
            .filter(|layer| layer.number.is_some())
            .flat_map(|layer| layer.operators.iter().copied())
            .filter(|&operator| placed.operators[operator].is_forward())
            .collect();
        for &operator in &stack {
            beside[operator] = false;
        }
        let after = reached(placed, &stack, Graph::successors);
        let before = reached(placed, &stack, Graph::predecessors);
        for operator in (0..beside.len()).filter(|&operator| beside[operator] && last > 0) {
            if after[operator] && stage(operator) == 0 {
                let rule = ("operators after the stack run in the last stage", PIN_ENDS);
                return Err(self.pipeline.misplaced(placed, operator, rule));
            }
            if before[operator] && stage(operator) == last {
                let rule = ("operators before the stack run in the first stage", PIN_ENDS);
                return Err(self.pipeline.misplaced(placed, operator, rule));
            }
        }
        // An operator without a path to or from the stack is placed by its stage.
        Ok((0..beside.len())
            .map(|operator| after[operator] || (last > 0 && !before[operator] && stage(operator) == last))
            .collect())
    }

    /// Number of layers in the stack.
    pub fn layers(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Refuses stages without a layer.
    ///
    /// # Errors
    /// If there is one (E017).
    pub fn no_stage_empty(&self, rule: &'static str, help: &'static str) -> Result<()> {
        if self.counts.contains(&0) {
            return Err(ExportError::Counts { counts: self.counts.clone(), rule, help });
        }
        Ok(())
    }

    /// The counts, separated by commas.
    pub fn listed(&self) -> String {
        self.counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// The forward operators reachable from `from` along tensors in one direction.
fn reached(placed: &Placed, from: &[usize], beyond: fn(&Graph, OpId) -> &[OpId]) -> Vec<bool> {
    let mut reached = vec![false; placed.operators.len()];
    let Some(graph) = placed.graph else { return reached };
    let mut open = from.to_vec();
    while let Some(operator) = open.pop() {
        for next in beyond(graph, OpId::new(operator)).iter().map(|op| op.index()) {
            if placed.operators[next].is_forward() && !std::mem::replace(&mut reached[next], true) {
                open.push(next);
            }
        }
    }
    reached
}

fn check_stacks(stacks: &BTreeSet<&str>, runtime: &'static str) -> Result<()> {
    let mut found = stacks.iter();
    let why = match (found.next(), found.next()) {
        (Some(_), None) => return Ok(()),
        (Some(first), Some(second)) => format!("the model has `{}` and `{}`", shown(first), shown(second)),
        (None, _) => "no operator has a numbered layer in its path".to_owned(),
    };
    Err(ExportError::NoStack { runtime, why })
}
