//! Long short-term memory (Hochreiter and Schmidhuber, Neural Computation 1997).

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Storage, Tensor};
use candle_nn::ops::sigmoid;

use crate::network::layers::Linear;
use crate::weights::{Built, ParameterBuilder};

/// An LSTM cell. The caller applies the input projection, for all steps in one product if they are known.
#[derive(Debug, Clone)]
pub(super) struct Lstm {
    input: Linear,
    hidden: Linear,
    width: usize,
}

/// State of a cell: both b × width.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) hidden: Tensor,
    cell: Tensor,
}

/// Activations of a step: forget, input and output gate, candidate, and tanh of the cell state after the step; each
/// b × width.
#[derive(Debug, Clone)]
struct Gates {
    forget: Tensor,
    input: Tensor,
    output: Tensor,
    candidate: Tensor,
    squashed: Tensor,
}

impl Gates {
    /// Forward pass of a step from its gate inputs, b × 4 width.
    fn pass(inputs: &Tensor, memory: &Memory) -> Result<(Gates, Memory)> {
        let width = inputs.dim(1)? / 4;
        let part = |at: usize| inputs.narrow(1, at * width, width);
        // The bias of 1 lets the cell remember at first.
        let (forget, input, output) =
            (sigmoid(&(part(0)? + 1.0)?)?, sigmoid(&part(1)?)?, sigmoid(&part(2)?)?);
        let candidate = part(3)?.tanh()?;
        let cell = ((&forget * &memory.cell)? + (&input * &candidate)?)?;
        let squashed = cell.tanh()?;
        let hidden = (&output * &squashed)?;
        Ok((Gates { forget, input, output, candidate, squashed }, Memory { hidden, cell }))
    }

    /// Backward pass of a step: gradients of the gate inputs, b × 4 width, and of the previous cell state, from those
    /// of the output and of the cell state after the step.
    fn back(&self, before: &Memory, shown: &Tensor, cell: &Tensor) -> Result<(Tensor, Tensor)> {
        let rest = |gate: &Tensor| gate.affine(-1.0, 1.0);
        let flat = |x: &Tensor| x.sqr()?.affine(-1.0, 1.0);
        let cell = (cell + ((shown * &self.output)? * flat(&self.squashed)?)?)?;
        let forget = (((&cell * &before.cell)? * &self.forget)? * rest(&self.forget)?)?;
        let input = (((&cell * &self.candidate)? * &self.input)? * rest(&self.input)?)?;
        let output = (((shown * &self.squashed)? * &self.output)? * rest(&self.output)?)?;
        let candidate = ((&cell * &self.input)? * flat(&self.candidate)?)?;
        Ok((Tensor::cat(&[forget, input, output, candidate], 1)?, (cell * &self.forget)?))
    }
}

impl Lstm {
    pub(super) fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        width: usize,
    ) -> Built<Lstm> {
        Ok(Lstm {
            input: Linear::new(parameters, &format!("{name}.input"), inputs, 4 * width)?,
            hidden: Linear::new(parameters, &format!("{name}.hidden"), width, 4 * width)?,
            width,
        })
    }

    /// The zero state for a batch of size `batch`, with the type and device of `like`.
    pub(super) fn start(&self, batch: usize, like: &Tensor) -> Result<Memory> {
        let zero = Tensor::zeros((batch, self.width), like.dtype(), like.device())?;
        Ok(Memory { hidden: zero.clone(), cell: zero })
    }

    /// Input projection: any × inputs to any × 4 width.
    pub(super) fn read(&self, x: &Tensor) -> Result<Tensor> {
        self.input.forward(x)
    }

    /// Runs one step from projected inputs, b × 4 width, without gradients.
    pub(super) fn step(&self, read: &Tensor, memory: &Memory) -> Result<Memory> {
        let inputs = (read + self.hidden.forward(&memory.hidden)?)?.detach();
        Ok(Gates::pass(&inputs, memory)?.1)
    }

    /// Runs all steps, at least one: projected inputs, b × steps × 4 width, to outputs after each step,
    /// b × steps × width; from the last step to the first if reversed.
    ///
    /// The gradient of the weights is one product over all steps. With single steps in the computation graph, adding up
    /// one matrix of 4 width × width per step would take most of the time.
    pub(super) fn run(&self, reads: &Tensor, is_reversed: bool) -> Result<Tensor> {
        let (batch, steps, _) = reads.dims3()?;
        let reads = reads.broadcast_add(self.hidden.bias())?;
        let (known, across) = (reads.detach(), self.hidden.weight().detach().t()?.contiguous()?);
        let mut memory = self.start(batch, &known)?;
        let order: Vec<usize> = if is_reversed { (0..steps).rev().collect() } else { (0..steps).collect() };
        let (mut tape, mut shown) = (Vec::with_capacity(steps), vec![memory.hidden.clone(); steps]);
        for at in order {
            let inputs = (known.narrow(1, at, 1)?.squeeze(1)? + memory.hidden.matmul(&across)?)?;
            let (gates, after) = Gates::pass(&inputs, &memory)?;
            shown[at] = after.hidden.clone();
            tape.push(StepRecord { at, gates, before: std::mem::replace(&mut memory, after) });
        }
        let shown = Tensor::stack(&shown, 1)?.contiguous()?;
        reads.apply_op2(self.hidden.weight(), Unrolled { tape, shown })
    }
}

/// Record of a step.
struct StepRecord {
    at: usize,
    gates: Gates,
    before: Memory,
}

/// Unrolled steps with a backward pass through time (Werbos, Proceedings of the IEEE 1990).
struct Unrolled {
    /// Records of the steps, in the order of execution.
    tape: Vec<StepRecord>,
    /// Outputs: b × steps × width.
    shown: Tensor,
}

impl CustomOp2 for Unrolled {
    fn name(&self) -> &'static str {
        "lstm"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match &*self.shown.storage_and_layout().0 {
            // The whole buffer: the tensor was just stacked.
            Storage::Cpu(numbers) => Ok((numbers.clone(), self.shown.shape().clone())),
            _ => candle_core::bail!("the systems are on the processor"),
        }
    }

    /// Gradients of the projected inputs, b × steps × 4 width, and of the weights, 4 width × width.
    fn bwd(
        &self,
        _: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let weight = weight.detach();
        let mut shown = gradient.narrow(1, 0, 1)?.squeeze(1)?.zeros_like()?;
        let mut cell = shown.clone();
        let mut at_gates = vec![shown.clone(); self.tape.len()];
        let mut before = at_gates.clone();
        for step in self.tape.iter().rev() {
            let now = (gradient.narrow(1, step.at, 1)?.squeeze(1)? + shown)?;
            let inputs;
            (inputs, cell) = step.gates.back(&step.before, &now, &cell)?;
            shown = inputs.matmul(&weight)?;
            at_gates[step.at] = inputs;
            before[step.at] = step.before.hidden.clone();
        }
        let (at_gates, before) = (Tensor::stack(&at_gates, 1)?, Tensor::stack(&before, 1)?);
        let of_weight = at_gates.flatten(0, 1)?.t()?.matmul(&before.flatten(0, 1)?)?;
        Ok((Some(at_gates), Some(of_weight)))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};

    use super::*;
    use crate::weights::Source;

    /// Outputs of every step, from a computation graph of single steps.
    fn by_steps(cell: &Lstm, reads: &Tensor, is_reversed: bool) -> Result<Tensor> {
        let (batch, steps, _) = reads.dims3()?;
        let mut memory = cell.start(batch, reads)?;
        let mut shown = vec![memory.hidden.clone(); steps];
        for step in 0..steps {
            let at = if is_reversed { steps - 1 - step } else { step };
            let inputs = (reads.narrow(1, at, 1)?.squeeze(1)? + cell.hidden.forward(&memory.hidden)?)?;
            memory = Gates::pass(&inputs, &memory)?.1;
            shown[at] = memory.hidden.clone();
        }
        Tensor::stack(&shown, 1)
    }

    #[test]
    fn gradients_are_those_of_single_steps() -> Result<()> {
        let mut parameters = ParameterBuilder::new(Source::Seed(3), false, DType::F64, &Device::Cpu);
        let cell = Lstm::new(&mut parameters, "cell", 5, 6).map_err(candle_core::Error::wrap)?;
        let x = Var::randn(0.0f64, 1.0, (2, 7, 5), &Device::Cpu)?;
        let measure = Tensor::randn(0.0f64, 1.0, (2, 7, 6), &Device::Cpu)?;
        for is_reversed in [false, true] {
            let reads = cell.read(&x)?;
            let both = [cell.run(&reads, is_reversed)?, by_steps(&cell, &reads, is_reversed)?];
            let gradients = both
                .iter()
                .map(|shown| (shown.sqr()? * &measure)?.sum_all()?.backward())
                .collect::<Result<Vec<_>>>()?;
            let alike = |pair: [&Tensor; 2]| -> Result<()> {
                let off = (pair[0] - pair[1])?.abs()?.max_all()?.to_scalar::<f64>()?;
                assert!(off < 1e-12, "{off}");
                Ok(())
            };
            alike([&both[0], &both[1]])?;
            let of = |tensor: &Tensor| {
                gradients.iter().map(|all| all.get(tensor).cloned()).collect::<Option<Vec<_>>>()
            };
            for tensor in [x.as_tensor(), cell.hidden.weight(), cell.hidden.bias(), cell.input.weight()] {
                let pair = of(tensor).expect("every parameter is felt");
                assert!(pair[0].abs()?.max_all()?.to_scalar::<f64>()? > 1e-3);
                alike([&pair[0], &pair[1]])?;
            }
        }
        Ok(())
    }
}
