//! One step: the forward pass of a tape and, for training, the backward pass and the update derived from it.
//!
//! Reverse mode (Linnainmaa 1970; Griewank and Walther, "Evaluating Derivatives", 2nd ed., chapter 3): operators are
//! visited from the last to the first. The gradient of a tensor is the sum of what its readers contribute, by an
//! `accumulate` operator where there are several; an operator's pieces read the gradients of its outputs and
//! contribute those of its inputs and parameters. Only gradients that parameters depend on are computed. Every
//! parameterised operator gets one update.
//!
//! Backward, accumulation and update operators are colocated with their forward operator.
//!
//! Memory, in bytes for each element of the parameters, with a width of w bytes:
//!
//! | | parameters | gradient | moments, fp32 | master weights, where w < 4 |
//! | --- | --- | --- | --- | --- |
//! | `sgd` | w | w | 0 | 4 |
//! | `momentum` | w | w | 4 | 4 |
//! | `adam` | w | w | 8 | 4 |
//!
//! `optimizer_bytes` of the update operator holds all but the parameters, so that mixed-precision Adam takes the 16
//! bytes of Rajbhandari et al., "ZeRO" (SC 2020), section 3.1. `activation_bytes` holds what the backward pass reads
//! of the forward pass, every tensor once, at the first operator whose gradient needs it.

use stagewright_core::document::{OperatorDocument, Pass};

use super::draft::Draft;
use super::error::WorkloadError;
use super::tape::{MOST_OPERATORS, Operator, Piece, Read, Tape};

/// How parameters are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimizer {
    /// Stochastic gradient descent without state.
    Sgd,
    /// Stochastic gradient descent with momentum.
    Momentum,
    /// Adam (Kingma and Ba 2015).
    Adam,
}

impl Optimizer {
    /// The optimisers.
    pub const ALL: [Optimizer; 3] = [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Optimizer::Sgd => "sgd",
            Optimizer::Momentum => "momentum",
            Optimizer::Adam => "adam",
        }
    }

    /// Numbers kept for each parameter.
    fn moments(self) -> f64 {
        match self {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
        }
    }

    /// FLOP for each parameter: a scaled step, one more multiply-add for each first moment, and for Adam the
    /// second moment, two bias corrections, a root, a sum and a quotient.
    fn flop(self) -> f64 {
        match self {
            Optimizer::Sgd => 2.0,
            Optimizer::Momentum => 4.0,
            Optimizer::Adam => 14.0,
        }
    }
}

/// Bytes of a number that optimisers keep.
const STATE_WIDTH: f64 = 4.0;

/// The forward pass alone.
pub(super) fn forward(tape: &Tape) -> Draft {
    let mut draft = Draft::default();
    for operator in &tape.operators {
        draft.operator(OperatorDocument {
            kind: Some(operator.kind.into()),
            layer: layer_of(operator),
            flop: Some(operator.flop),
            bytes_moved: Some(operator.moved),
            parameter_bytes: operator.parameters * tape.width,
            workspace_bytes: operator.workspace,
            ..OperatorDocument::named(operator.name.clone())
        });
    }
    // Edges have the indices of the tape's values.
    for value in &tape.values {
        draft.edge(value.producer, value.bytes);
    }
    for (at, operator) in tape.operators.iter().enumerate() {
        for &input in &operator.inputs {
            draft.read(input, at as u32);
        }
    }
    draft
}

/// The forward pass, the backward pass and the update.
///
/// # Errors
/// More operators than [`MOST_OPERATORS`].
pub(super) fn training(tape: &Tape, optimizer: Optimizer) -> Result<Draft, WorkloadError> {
    let mut draft = forward(tape);
    for operator in &mut draft.operators {
        operator.colocation = Some(operator.name.clone());
    }
    let mut step = Step {
        tape,
        optimizer,
        draft,
        gradients: vec![Vec::new(); tape.values.len()],
        of_parameters: vec![Vec::new(); tape.operators.len()],
        stashed_by: vec![None; tape.values.len()],
    };
    for at in (0..tape.operators.len()).rev() {
        step.backward(at);
        if step.draft.operators.len() > MOST_OPERATORS {
            return Err(WorkloadError::TooManyOperators { most: MOST_OPERATORS });
        }
    }
    for (value, by) in step.stashed_by.iter().enumerate() {
        if let Some(by) = by {
            step.draft.operators[*by as usize].activation_bytes += tape.values[value].bytes;
        }
    }
    Ok(step.draft)
}

fn layer_of(operator: &Operator) -> Option<String> {
    (operator.layer > 0).then(|| operator.name[..operator.layer].to_owned())
}

/// Whether parameters depend on what a piece yields.
fn wanted(tape: &Tape, operator: &Operator, piece: &Piece) -> bool {
    let needs = |&input: &usize| tape.values[operator.inputs[input] as usize].differentiable;
    piece.parameters.is_some() || piece.inputs.iter().any(needs)
}

/// A gradient: an edge of the draft and its bytes.
#[derive(Debug, Clone, Copy)]
struct Gradient {
    edge: u32,
    bytes: f64,
}

struct Step<'a> {
    tape: &'a Tape,
    optimizer: Optimizer,
    draft: Draft,
    /// Per value what its readers contribute.
    gradients: Vec<Vec<Gradient>>,
    /// Per operator what contributes to the gradient of its parameters.
    of_parameters: Vec<Vec<Gradient>>,
    /// Per value the first operator whose gradient needs it.
    stashed_by: Vec<Option<u32>>,
}

impl Step<'_> {
    /// Everything after the forward pass that belongs to one operator. All its readers have been visited.
    fn backward(&mut self, at: usize) {
        let tape = self.tape;
        let operator = &tape.operators[at];
        let outputs: Vec<Gradient> = operator
            .outputs
            .iter()
            .enumerate()
            .filter_map(|(place, &value)| {
                let parts = std::mem::take(&mut self.gradients[value as usize]);
                let name = match operator.outputs.len() {
                    1 => "grad_sum".to_owned(),
                    _ => format!("grad_sum.{place}"),
                };
                self.sum(at, &name, parts)
            })
            .collect();
        // The outputs of a loss have no gradient; what only feeds something without parameters has none either.
        let ends = operator.kind == LOSS;
        if !outputs.is_empty() || ends {
            for piece in operator.pieces.iter().filter(|piece| wanted(tape, operator, piece)) {
                self.piece(at, piece, &outputs);
            }
            for &input in &operator.pass_through {
                let value = operator.inputs[input] as usize;
                if tape.values[value].differentiable {
                    self.gradients[value].extend(outputs.first());
                }
            }
            if operator.kind == VARIABLE {
                self.of_parameters[at].extend(outputs.first());
            }
        }
        let parts = std::mem::take(&mut self.of_parameters[at]);
        if let Some(gradient) = self.sum(at, "grad_weight_sum", parts) {
            self.update(at, gradient);
        }
    }

    fn piece(&mut self, at: usize, piece: &Piece, outputs: &[Gradient]) {
        let tape = self.tape;
        let operator = &tape.operators[at];
        let own = self.colocated(at, piece.suffix, Pass::Backward);
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
            let bytes = tape.values[value as usize].bytes;
            moved += bytes;
            self.draft.read(value, own);
            // Weights of a variable are no activations. Operators come in reverse, so the last to ask is the first.
            if tape.operators[tape.values[value as usize].producer as usize].kind != VARIABLE {
                self.stashed_by[value as usize] = Some(at as u32);
            }
        }
        for &input in &piece.inputs {
            let value = operator.inputs[input] as usize;
            if tape.values[value].differentiable {
                let bytes = tape.values[value].bytes;
                moved += bytes;
                let edge = self.draft.edge(own, bytes);
                self.gradients[value].push(Gradient { edge, bytes });
            }
        }
        if let Some(elements) = piece.parameters {
            let bytes = elements * tape.width;
            moved += bytes;
            let edge = self.draft.edge(own, bytes);
            self.of_parameters[operator.owner as usize].push(Gradient { edge, bytes });
        }
        let document = &mut self.draft.operators[own as usize];
        document.flop = Some(piece.flop);
        document.bytes_moved = Some(moved);
        document.workspace_bytes = piece.workspace;
    }

    /// The sum of contributions, by an operator where there are several.
    fn sum(&mut self, at: usize, name: &str, parts: Vec<Gradient>) -> Option<Gradient> {
        let (&first, more) = parts.split_first()?;
        if more.is_empty() {
            return Some(first);
        }
        let own = self.colocated(at, name, Pass::Backward);
        let bytes = parts.iter().map(|part| part.bytes).fold(0.0, f64::max);
        let read: f64 = parts.iter().map(|part| part.bytes).sum();
        for part in &parts {
            self.draft.read(part.edge, own);
        }
        let document = &mut self.draft.operators[own as usize];
        document.kind = Some("accumulate".into());
        document.flop = Some((read - bytes) / self.tape.width);
        document.bytes_moved = Some(read + bytes);
        let edge = self.draft.edge(own, bytes);
        Some(Gradient { edge, bytes })
    }

    fn update(&mut self, at: usize, gradient: Gradient) {
        let width = self.tape.width;
        let parameters = self.tape.operators[at].parameters;
        let own = self.colocated(at, "update", Pass::Update);
        self.draft.read(gradient.edge, own);
        let master = if width < STATE_WIDTH { STATE_WIDTH } else { 0.0 };
        let state = self.optimizer.moments() * STATE_WIDTH + master;
        // Rows of an embedding that no index names have no gradient and are left alone.
        let touched = gradient.bytes / width;
        let document = &mut self.draft.operators[own as usize];
        document.kind = Some(self.optimizer.name().into());
        document.flop = Some(self.optimizer.flop() * touched);
        document.bytes_moved = Some(gradient.bytes + touched * 2.0 * (width + state));
        document.optimizer_bytes = gradient.bytes + parameters * state;
    }

    /// A new operator beside a forward operator.
    fn colocated(&mut self, at: usize, suffix: &str, pass: Pass) -> u32 {
        let operator = &self.tape.operators[at];
        self.draft.operator(OperatorDocument {
            kind: Some(format!("{}_{suffix}", operator.kind)),
            pass,
            colocation: Some(operator.name.clone()),
            layer: layer_of(operator),
            ..OperatorDocument::named(format!("{}.{suffix}", operator.name))
        })
    }
}

/// Kind of the operators that a backward pass starts from.
pub(super) const LOSS: &str = "loss";

/// Kind of the operators that only hold parameters.
pub(super) const VARIABLE: &str = "variable";
