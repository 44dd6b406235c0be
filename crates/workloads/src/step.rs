//! One step: the forward pass of a tape and, for training, the backward pass and the update derived from it.
//!
//! Reverse mode (Linnainmaa 1970; Griewank and Walther, "Evaluating Derivatives", 2nd ed., chapter 3): operators are
//! visited from the last to the first. The gradient of a tensor is the sum of the contributions of its readers,
//! computed by an `accumulate` operator if there are several; the pieces of an operator read the gradients of its
//! outputs and contribute those of its inputs and parameters. Only gradients that parameters depend on are computed.
//!
//! Backward and update operators are colocated with their forward operator, and an accumulation with the first of the
//! readers whose contributions it sums. `optimizer` defines the contents of an update.
//!
//! | in the model | in the graph |
//! | --- | --- |
//! | forward tensors that the backward pass reads | the tensors themselves |
//! | weights that two operators read | a shared parameter; an update beside each gradient |
//! | weights of an unrolled layer (`variable`) | a shared parameter; every step adds to the gradient in place, and one update follows |
//! | inputs | operators without a launch |
//! | outputs of inference | tensors without readers |

use std::collections::BTreeMap;

use stagewright_core::document::{OperatorDocument, Pass, Precision};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;

use super::draft::{Draft, Shared};
use super::error::WorkloadError;
use super::optimizer::Optimizer;
use super::record::{Piece, Product, Read};
use super::tape::{MAX_OPERATORS, Operator, Tape};

/// The forward pass alone.
pub(super) fn inference(tape: &Tape) -> Draft {
    let mut draft = forward(tape);
    for &output in tape.operators.iter().flat_map(|operator| &operator.outputs) {
        let edge = &mut draft.edges[output];
        edge.is_output = edge.consumers.is_empty();
    }
    draft.ordered(is_variable)
}

fn is_variable(operator: &OperatorDocument) -> bool {
    operator.kind.as_deref() == Some(VARIABLE)
}

fn forward(tape: &Tape) -> Draft {
    let mut draft = Draft::default();
    for operator in &tape.operators {
        draft.operator(OperatorDocument {
            kind: Some(operator.kind.into()),
            layer: layer_of(operator),
            flop: Some(operator.flop),
            bytes_moved: Some(operator.moved),
            parameter_bytes: operator.held,
            workspace_bytes: operator.workspace,
            kernels: Product::kernels(operator.product).into_iter().chain(operator.kernel).collect(),
            precision: Some(operator.precision),
            launches: (operator.kind == INPUT || operator.is_idle).then_some(0.0),
            experts: operator.experts,
            causal: operator.causal,
            ..OperatorDocument::named(operator.name.clone())
        });
    }
    // Edges have the same indices as the values of the tape.
    for value in &tape.values {
        draft.edge(value.producer, value.bytes);
    }
    for (id, operator) in tape.operators.enumerate() {
        for &input in &operator.inputs {
            draft.read(input, id);
        }
    }
    share(tape, &mut draft);
    draft
}

/// Turns parameters with several readers, and caches, into shared parameters.
fn share(tape: &Tape, draft: &mut Draft) {
    let mut readers: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    for (id, operator) in tape.operators.enumerate() {
        if operator.kind == VARIABLE {
            readers.insert(id, draft.edges[operator.outputs[0]].consumers.clone());
        } else if operator.owner != id {
            readers.entry(operator.owner).or_insert_with(|| vec![operator.owner]).push(id);
        }
    }
    for (owner, readers) in readers {
        let operator = &mut draft.operators[owner];
        let bytes = std::mem::take(&mut operator.parameter_bytes);
        let name = match is_variable(operator) {
            true => operator.name.clone(),
            false => format!("{}.weight", operator.name),
        };
        draft.shared.push(Shared { name, owner, bytes, optimizer_bytes: 0.0, readers, is_cache: false });
    }
    for cache in tape.caches.values() {
        let Some(&owner) = cache.readers.first() else { continue };
        draft.shared.push(Shared {
            name: cache.name.clone(),
            owner,
            bytes: cache.bytes,
            optimizer_bytes: 0.0,
            readers: cache.readers.clone(),
            is_cache: true,
        });
    }
}

/// The forward pass, the backward pass and the update.
///
/// # Errors
/// If there are more than [`MAX_OPERATORS`] operators.
pub(super) fn training(tape: &Tape, optimizer: Optimizer) -> Result<Draft, WorkloadError> {
    let mut draft = forward(tape);
    for operator in draft.operators.iter_mut() {
        operator.colocation = Some(operator.name.clone());
    }
    let mut step = StepBuilder {
        tape,
        optimizer,
        draft,
        gradients: Keyed::filled(Vec::new(), tape.values.len()),
        of_parameters: Keyed::filled(Vec::new(), tape.operators.len()),
    };
    for op in tape.operators.ids().rev() {
        step.backward(op);
        if step.draft.operators.len() > MAX_OPERATORS {
            return Err(WorkloadError::TooManyOperators { most: MAX_OPERATORS });
        }
    }
    Ok(step.draft.ordered(is_variable))
}

fn layer_of(operator: &Operator) -> Option<String> {
    (operator.layer > 0).then(|| operator.name[..operator.layer].to_owned())
}

/// Whether parameters depend on the output of a piece.
fn wanted(tape: &Tape, operator: &Operator, piece: &Piece) -> bool {
    let needs = |&input: &usize| tape.values[operator.inputs[input]].differentiable;
    piece.parameters.is_some() || piece.inputs.iter().any(needs)
}

/// A gradient: an edge of the draft, its bytes, and the forward operator whose backward pass contributes it.
#[derive(Debug, Clone, Copy)]
struct Gradient {
    edge: TensorId,
    bytes: f64,
    from: OpId,
}

struct StepBuilder<'a> {
    tape: &'a Tape,
    optimizer: Optimizer,
    draft: Draft,
    /// Per value, the contributions of its readers.
    gradients: Keyed<TensorId, Vec<Gradient>>,
    /// Per operator, the contributions to the gradient of its parameters.
    of_parameters: Keyed<OpId, Vec<Gradient>>,
}

impl StepBuilder<'_> {
    /// Records the backward pass of one operator. All its readers have been visited.
    fn backward(&mut self, op: OpId) {
        let tape = self.tape;
        let operator = &tape.operators[op];
        let outputs: Vec<Gradient> = operator
            .outputs
            .iter()
            .enumerate()
            .filter_map(|(place, &value)| {
                let parts = std::mem::take(&mut self.gradients[value]);
                let name = match operator.outputs.len() {
                    1 => "grad_sum".to_owned(),
                    _ => format!("grad_sum.{place}"),
                };
                if operator.kind == VARIABLE {
                    self.sum_in_place(op, &parts);
                    return None;
                }
                // The sum is beside the first reader, so that a single gradient is sent to the producer instead of all
                // contributions.
                let home = parts.iter().map(|part| part.from).min()?;
                self.sum(op, home, &name, parts)
            })
            .collect();
        // The outputs of a loss have no gradient, and neither do tensors that only feed operators without parameters.
        let ends = operator.kind == LOSS;
        if !outputs.is_empty() || ends {
            for piece in operator.pieces.iter().filter(|piece| wanted(tape, operator, piece)) {
                self.piece(op, piece, &outputs);
            }
            for &input in &operator.pass_through {
                let value = operator.inputs[input];
                if tape.values[value].differentiable {
                    let passed = outputs.first().map(|gradient| Gradient { from: op, ..*gradient });
                    self.gradients[value].extend(passed);
                }
            }
        }
        self.update_parameters(op);
    }

    /// Sums the gradients of the parameters of an operator, and records their updates.
    fn update_parameters(&mut self, op: OpId) {
        let parts = std::mem::take(&mut self.of_parameters[op]);
        // Every reader's device holds a copy of the parameters, so gradient and update are computed beside the reader.
        let mut by_reader: BTreeMap<OpId, Vec<Gradient>> = BTreeMap::new();
        for part in parts {
            by_reader.entry(part.from).or_default().push(part);
        }
        for (reader, parts) in by_reader {
            if let Some(gradient) = self.sum(reader, reader, "grad_weight_sum", parts) {
                self.update(op, reader, gradient.bytes, &[gradient]);
            }
        }
    }

    /// Sums the gradient of a variable in place: every step but the first to be computed reads the current sum and adds
    /// to it. The update waits for all steps.
    fn sum_in_place(&mut self, op: OpId, parts: &[Gradient]) {
        let Some(home) = parts.iter().map(|part| part.from).min() else { return };
        for (place, part) in parts.iter().enumerate() {
            let edge = &mut self.draft.edges[part.edge];
            edge.bytes = 0.0;
            let piece = &mut self.draft.operators[edge.producer];
            if place > 0 {
                piece.flop = piece.flop.map(|flop| flop + part.bytes / self.tape.width);
                piece.bytes_moved = piece.bytes_moved.map(|moved| moved + part.bytes);
            }
        }
        let bytes = parts.iter().map(|part| part.bytes).fold(0.0, f64::max);
        self.update(op, home, bytes, parts);
        if let Some(shared) = self.shared(op) {
            shared.optimizer_bytes += bytes;
        }
    }

    /// The shared parameter owned by an operator.
    fn shared(&mut self, owner: OpId) -> Option<&mut Shared> {
        self.draft.shared.iter_mut().find(|shared| shared.owner == owner)
    }

    fn piece(&mut self, op: OpId, piece: &Piece, outputs: &[Gradient]) {
        let tape = self.tape;
        let operator = &tape.operators[op];
        let own = self.beside(op, op, piece.suffix, Pass::Backward);
        let mut moved = 0.0;
        for gradient in outputs {
            moved += gradient.bytes;
            self.draft.read(gradient.edge, own);
        }
        for read in &piece.reads {
            let value = match *read {
                Read::Input(input) => operator.inputs[input],
                Read::Output => operator.outputs[0],
                Read::Saved => match operator.saved {
                    Some(saved) => saved,
                    None => continue,
                },
                Read::Weights => {
                    moved += operator.weight_bytes;
                    continue;
                }
            };
            let bytes = tape.values[value].bytes;
            moved += bytes;
            self.draft.read(value, own);
        }
        for &input in &piece.inputs {
            let value = operator.inputs[input];
            if tape.values[value].differentiable {
                let bytes = tape.values[value].bytes;
                moved += bytes;
                let edge = self.draft.edge(own, bytes);
                self.gradients[value].push(Gradient { edge, bytes, from: op });
            }
        }
        if let Some(elements) = piece.parameters {
            let bytes = elements * tape.width;
            moved += bytes;
            let edge = self.draft.edge(own, bytes);
            self.of_parameters[operator.owner].push(Gradient { edge, bytes, from: op });
        }
        let document = &mut self.draft.operators[own];
        document.flop = Some(piece.flop);
        document.kernels = Product::kernels(piece.product);
        document.bytes_moved = Some(moved);
        document.workspace_bytes = piece.workspace;
    }

    /// Sums the contributions to the gradient of an operator, in an operator beside `home` if there are several.
    fn sum(&mut self, op: OpId, home: OpId, name: &str, parts: Vec<Gradient>) -> Option<Gradient> {
        let (&first, more) = parts.split_first()?;
        if more.is_empty() {
            return Some(first);
        }
        let own = self.beside(op, home, name, Pass::Backward);
        let bytes = parts.iter().map(|part| part.bytes).fold(0.0, f64::max);
        let read: f64 = parts.iter().map(|part| part.bytes).sum();
        for part in &parts {
            self.draft.read(part.edge, own);
        }
        let document = &mut self.draft.operators[own];
        document.kind = Some("accumulate".into());
        document.flop = Some((read - bytes) / self.tape.width);
        document.bytes_moved = Some(read + bytes);
        let edge = self.draft.edge(own, bytes);
        Some(Gradient { edge, bytes, from: home })
    }

    /// Records the update of the parameters of `owner` beside an operator that reads them, once their gradient is
    /// available.
    fn update(&mut self, owner: OpId, reader: OpId, gradient_bytes: f64, gradients: &[Gradient]) {
        let width = self.tape.width;
        let own = match self.tape.operators[owner].kind {
            VARIABLE => self.beside(owner, reader, "update", Pass::Update),
            _ => self.beside(reader, reader, "update", Pass::Update),
        };
        for gradient in gradients {
            self.draft.read(gradient.edge, own);
        }
        let state = self.optimizer.state_bytes(width);
        let held = self.tape.operators[owner].parameters * state;
        // Rows of an embedding that no index selects have no gradient and are not updated.
        let touched = gradient_bytes / width;
        let document = &mut self.draft.operators[own];
        document.kind = Some(self.optimizer.name().into());
        document.flop = Some(self.optimizer.flop() * touched);
        document.bytes_moved = Some(gradient_bytes + touched * 2.0 * (width + state));
        document.precision = Some(Precision::Fp32);
        match self.shared(owner) {
            Some(shared) => shared.optimizer_bytes = held,
            None => self.draft.operators[own].optimizer_bytes = held,
        }
    }

    /// A new operator derived from a forward operator and colocated with `home`.
    fn beside(&mut self, op: OpId, home: OpId, suffix: &str, pass: Pass) -> OpId {
        let (operator, home) = (&self.tape.operators[op], &self.tape.operators[home]);
        self.draft.operator(OperatorDocument {
            kind: Some(format!("{}_{suffix}", operator.kind)),
            precision: Some(self.tape.precision),
            pass,
            colocation: Some(home.name.clone()),
            layer: layer_of(home),
            ..OperatorDocument::named(format!("{}.{suffix}", operator.name))
        })
    }
}

/// Kind of the operators that start a backward pass.
pub(super) const LOSS: &str = "loss";

/// Kind of the operators that represent inputs of the model.
pub(super) const INPUT: &str = "input";

/// Kind of the operators that only hold parameters.
pub(super) const VARIABLE: &str = "variable";

#[cfg(test)]
mod tests {
    use super::super::Precision as Kept;
    use super::super::operators::Loss;
    use super::*;

    /// x → a → (b, shortcut) → sum → loss, ten samples, four bytes per number.
    fn residual() -> Tape {
        let mut tape = Tape::new(Kept::Fp32, true);
        let x = tape.input("x", [10, 3]);
        let a = tape.linear("a", x, 5);
        let b = tape.relu("b", a);
        let sum = tape.add("sum", a, b);
        tape.loss("loss", sum, Loss::Square);
        tape.finish().unwrap()
    }

    fn operator<'a>(draft: &'a Draft, name: &str) -> &'a OperatorDocument {
        draft.operators.iter().find(|operator| operator.name == name).unwrap()
    }

    /// Names of the readers of each output of an operator.
    fn readers(draft: &Draft, name: &str) -> Vec<Vec<String>> {
        let edges = draft.edges.iter().filter(|edge| draft.operators[edge.producer].name == name);
        let names = |consumers: &[OpId]| {
            consumers.iter().map(|&op| draft.operators[op].name.clone()).collect::<Vec<_>>()
        };
        edges.map(|edge| names(&edge.consumers)).collect()
    }

    #[test]
    fn a_residual_sums_its_gradients_and_passes_through_its_sum() {
        let draft = training(&residual(), Optimizer::Adam).unwrap();
        let names: Vec<&str> =
            draft.operators.iter().skip(5).map(|operator| operator.name.as_str()).collect();
        assert_eq!(names, ["loss.grad", "b.grad", "a.grad_sum", "a.grad_weight", "a.update"]);
        // One gradient of the sum serves both operands; the gradient of the model's input is not needed.
        assert_eq!(readers(&draft, "loss.grad"), [["b.grad", "a.grad_sum"]]);
        assert_eq!(readers(&draft, "b.grad"), [["a.grad_sum"]]);
        assert_eq!(readers(&draft, "a.grad_sum"), [["a.grad_weight"]]);
        assert_eq!(readers(&draft, "x"), [["a", "a.grad_weight"]]);
        // The sum is beside the first reader of a, so that a split between a and b sends one gradient.
        assert_eq!(operator(&draft, "a.grad_sum").colocation.as_deref(), Some("b"));
        assert_eq!(operator(&draft, "a.update").colocation.as_deref(), Some("a"));
    }

    #[test]
    fn costs_of_a_step_are_those_of_its_parts() {
        let draft = training(&residual(), Optimizer::Adam).unwrap();
        let (x, y, weights) = (4.0 * 30.0, 4.0 * 50.0, 4.0 * 20.0);
        let weight = operator(&draft, "a.grad_weight");
        assert_eq!((weight.flop, weight.bytes_moved), (Some(2.0 * 10.0 * 3.0 * 5.0), Some(y + x + weights)));
        let sum = operator(&draft, "a.grad_sum");
        assert_eq!((sum.flop, sum.bytes_moved), (Some(50.0), Some(3.0 * y)));
        let update = operator(&draft, "a.update");
        assert_eq!((update.pass, update.optimizer_bytes), (Pass::Update, 2.0 * weights));
        // The update reads the gradient; it reads and writes the parameters and two moments.
        assert_eq!(update.bytes_moved, Some(weights + 2.0 * 3.0 * weights));
    }

    #[test]
    fn each_reader_of_a_shared_parameter_updates_its_copy() {
        let mut tape = Tape::new(Kept::Fp16, true);
        let tokens = tape.indices("tokens", [4, 1]);
        let (x, table) = tape.embedding("table", tokens, 100, [4, 8]);
        let y = tape.tied("head", x, 100, table);
        tape.loss("loss", y, Loss::Square);
        let draft = training(&tape.finish().unwrap(), Optimizer::Momentum).unwrap();
        let [shared] = &draft.shared[..] else { panic!("one table: {:?}", draft.shared) };
        assert_eq!((shared.name.as_str(), shared.bytes), ("table.weight", 1600.0));
        // One moment and the master weights of 800 parameters.
        assert_eq!(shared.optimizer_bytes, 800.0 * (4.0 + 4.0));
        let readers: Vec<&str> = shared.readers.iter().map(|&op| draft.operators[op].name.as_str()).collect();
        assert_eq!(readers, ["table", "head"]);
        for reader in readers {
            let update = operator(&draft, &format!("{reader}.update"));
            assert_eq!((update.pass, update.colocation.as_deref()), (Pass::Update, Some(reader)));
            assert_eq!(operator(&draft, reader).parameter_bytes, 0.0);
        }
    }

    #[test]
    fn the_gradient_of_a_variable_is_summed_in_place() {
        let mut tape = Tape::new(Kept::Fp32, true);
        let weights = tape.variable("w", [8, 8]);
        let mut x = tape.input("x", [2, 8]);
        for step in 0..3 {
            x = tape.contract(&format!("step{step}"), x, weights, 8, [2, 8]);
        }
        tape.loss("loss", x, Loss::Square);
        let draft = training(&tape.finish().unwrap(), Optimizer::Sgd).unwrap();
        // The update is beside the first step and waits for all steps; those before the last add to the last step's
        // gradient.
        let update = draft.operators.ids().find(|&op| draft.operators[op].name == "w.update").unwrap();
        assert_eq!(draft.operators[update].colocation.as_deref(), Some("step0"));
        let parts = draft.edges.iter().filter(|edge| edge.consumers == [update]);
        let parts: Vec<(&str, Option<f64>, f64)> = parts
            .map(|edge| {
                let piece = &draft.operators[edge.producer];
                (piece.name.as_str(), piece.flop, edge.bytes)
            })
            .collect();
        let part = |name, flop| (name, Some(flop), 0.0);
        assert_eq!(
            parts,
            [part("step2.grad_1", 256.0), part("step1.grad_1", 320.0), part("step0.grad_1", 320.0)]
        );
        let [shared] = &draft.shared[..] else { panic!("one variable: {:?}", draft.shared) };
        assert_eq!((shared.bytes, shared.optimizer_bytes, shared.readers.len()), (256.0, 256.0, 3));
        assert!(draft.operators.iter().all(|operator| operator.name != "w"), "a variable is no operator");
    }
}
