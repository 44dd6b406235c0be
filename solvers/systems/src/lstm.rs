//! Long short-term memory (Hochreiter and Schmidhuber, Neural Computation 1997).

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Storage, Tensor};
use candle_nn::ops::sigmoid;
use stagewright_policy::network::layers::Linear;
use stagewright_policy::weights::{Built, ParameterBuilder};

/// An LSTM cell. The caller applies the input projection, in one product for all steps if all inputs are known. Names
/// are those of the literature: weights W and biases b from the input (`ih`) and from the output before (`hh`), output
/// h, cell state c, and gates i, f, g (the candidate) and o.
#[derive(Debug, Clone)]
pub(crate) struct Lstm {
    ih: Linear,
    hh: Linear,
    width: usize,
}

/// State of a cell: both b × width.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) h: Tensor,
    c: Tensor,
}

/// Activations of a step: gates, and tanh of the cell state after the step; each b × width.
#[derive(Debug, Clone)]
struct Gates {
    f: Tensor,
    i: Tensor,
    o: Tensor,
    g: Tensor,
    tanh_c: Tensor,
}

impl Gates {
    /// Forward pass of a step from its gate inputs, b × 4 width.
    fn pass(inputs: &Tensor, before: &Memory) -> Result<(Gates, Memory)> {
        let width = inputs.dim(1)? / 4;
        let chunk = |gate: usize| inputs.narrow(1, gate * width, width);
        // The bias of 1 lets the cell remember at first.
        let (f, i, o) = (sigmoid(&(chunk(0)? + 1.0)?)?, sigmoid(&chunk(1)?)?, sigmoid(&chunk(2)?)?);
        let g = chunk(3)?.tanh()?;
        let c = ((&f * &before.c)? + (&i * &g)?)?;
        let tanh_c = c.tanh()?;
        let h = (&o * &tanh_c)?;
        Ok((Gates { f, i, o, g, tanh_c }, Memory { h, c }))
    }

    /// Backward pass of a step: gradients of the gate inputs, b × 4 width, and of the previous cell state, from those
    /// of the output and of the cell state after the step.
    fn back(&self, before: &Memory, d_h: &Tensor, d_c: &Tensor) -> Result<(Tensor, Tensor)> {
        // 1 − y of a sigmoid y, and 1 − y² of a tanh y.
        let one_minus = |y: &Tensor| y.affine(-1.0, 1.0);
        let one_minus_square = |y: &Tensor| y.sqr()?.affine(-1.0, 1.0);
        let d_c = (d_c + ((d_h * &self.o)? * one_minus_square(&self.tanh_c)?)?)?;
        let d_f = (((&d_c * &before.c)? * &self.f)? * one_minus(&self.f)?)?;
        let d_i = (((&d_c * &self.g)? * &self.i)? * one_minus(&self.i)?)?;
        let d_o = (((d_h * &self.tanh_c)? * &self.o)? * one_minus(&self.o)?)?;
        let d_g = ((&d_c * &self.i)? * one_minus_square(&self.g)?)?;
        Ok((Tensor::cat(&[d_f, d_i, d_o, d_g], 1)?, (d_c * &self.f)?))
    }
}

impl Lstm {
    pub(crate) fn new(
        parameters: &mut ParameterBuilder,
        name: &str,
        inputs: usize,
        width: usize,
    ) -> Built<Lstm> {
        Ok(Lstm {
            ih: Linear::new(parameters, &format!("{name}.input"), inputs, 4 * width)?,
            hh: Linear::new(parameters, &format!("{name}.hidden"), width, 4 * width)?,
            width,
        })
    }

    /// The zero state for a batch of size `batch`, with the type and device of `like`.
    pub(crate) fn start(&self, batch: usize, like: &Tensor) -> Result<Memory> {
        let zero = Tensor::zeros((batch, self.width), like.dtype(), like.device())?;
        Ok(Memory { h: zero.clone(), c: zero })
    }

    /// Input projection: any × inputs to any × 4 width.
    pub(crate) fn read(&self, x: &Tensor) -> Result<Tensor> {
        self.ih.forward(x)
    }

    /// Runs one step from projected inputs, b × 4 width, without gradients.
    pub(crate) fn step(&self, read: &Tensor, memory: &Memory) -> Result<Memory> {
        let inputs = (read + self.hh.forward(&memory.h)?)?.detach();
        Ok(Gates::pass(&inputs, memory)?.1)
    }

    /// Runs all steps, at least one: projected inputs, b × steps × 4 width, to outputs after each step,
    /// b × steps × width; from the last step to the first if reversed.
    ///
    /// The gradient of the weights is one product over all steps. With single steps in the computation graph, adding up
    /// one matrix of 4 width × width per step would take most of the time.
    pub(crate) fn run(&self, reads: &Tensor, is_reversed: bool) -> Result<Tensor> {
        let (batch, steps, _) = reads.dims3()?;
        let (w_hh, b_hh) = (self.hh.weight(), self.hh.bias());
        let reads = reads.broadcast_add(b_hh)?;
        let (known, w_hh_t) = (reads.detach(), w_hh.detach().t()?.contiguous()?);
        let mut memory = self.start(batch, &known)?;
        let order: Vec<usize> = if is_reversed { (0..steps).rev().collect() } else { (0..steps).collect() };
        let (mut tape, mut outputs) = (Vec::with_capacity(steps), vec![memory.h.clone(); steps]);
        for step in order {
            let inputs = (known.narrow(1, step, 1)?.squeeze(1)? + memory.h.matmul(&w_hh_t)?)?;
            let (gates, after) = Gates::pass(&inputs, &memory)?;
            outputs[step] = after.h.clone();
            tape.push(StepRecord { step, gates, before: std::mem::replace(&mut memory, after) });
        }
        let h = Tensor::stack(&outputs, 1)?.contiguous()?;
        reads.apply_op2(w_hh, Unrolled { tape, h })
    }
}

/// Record of a step.
struct StepRecord {
    step: usize,
    gates: Gates,
    before: Memory,
}

/// Unrolled steps with a backward pass through time (Werbos, Proceedings of the IEEE 1990).
struct Unrolled {
    /// Records of the steps, in the order of execution.
    tape: Vec<StepRecord>,
    /// Outputs: b × steps × width.
    h: Tensor,
}

impl CustomOp2 for Unrolled {
    fn name(&self) -> &'static str {
        "lstm"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match &*self.h.storage_and_layout().0 {
            // The whole buffer: the tensor was just stacked.
            Storage::Cpu(numbers) => Ok((numbers.clone(), self.h.shape().clone())),
            _ => candle_core::bail!("the systems are on the processor"),
        }
    }

    /// Gradients of the projected inputs, b × steps × 4 width, and of the weights, 4 width × width.
    fn bwd(
        &self,
        _: &Tensor,
        w_hh: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let w_hh = w_hh.detach();
        let mut d_h = gradient.narrow(1, 0, 1)?.squeeze(1)?.zeros_like()?;
        let mut d_c = d_h.clone();
        let mut d_gates = vec![d_h.clone(); self.tape.len()];
        let mut h_before = d_gates.clone();
        for StepRecord { step, gates, before } in self.tape.iter().rev() {
            let d_output = (gradient.narrow(1, *step, 1)?.squeeze(1)? + d_h)?;
            let d_inputs;
            (d_inputs, d_c) = gates.back(before, &d_output, &d_c)?;
            d_h = d_inputs.matmul(&w_hh)?;
            d_gates[*step] = d_inputs;
            h_before[*step] = before.h.clone();
        }
        let (d_gates, h_before) = (Tensor::stack(&d_gates, 1)?, Tensor::stack(&h_before, 1)?);
        let d_w_hh = d_gates.flatten(0, 1)?.t()?.matmul(&h_before.flatten(0, 1)?)?;
        Ok((Some(d_gates), Some(d_w_hh)))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};

    use super::*;
    use stagewright_policy::weights::Source;

    /// Outputs of every step, from a computation graph of single steps.
    fn by_steps(cell: &Lstm, reads: &Tensor, is_reversed: bool) -> Result<Tensor> {
        let (batch, steps, _) = reads.dims3()?;
        let mut memory = cell.start(batch, reads)?;
        let mut outputs = vec![memory.h.clone(); steps];
        for step in 0..steps {
            let position = if is_reversed { steps - 1 - step } else { step };
            let inputs = (reads.narrow(1, position, 1)?.squeeze(1)? + cell.hh.forward(&memory.h)?)?;
            memory = Gates::pass(&inputs, &memory)?.1;
            outputs[position] = memory.h.clone();
        }
        Tensor::stack(&outputs, 1)
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
                .map(|outputs| (outputs.sqr()? * &measure)?.sum_all()?.backward())
                .collect::<Result<Vec<_>>>()?;
            let alike = |pair: [&Tensor; 2]| -> Result<()> {
                let off = (pair[0] - pair[1])?.abs()?.max_all()?.to_scalar::<f64>()?;
                assert!(off < 1e-12, "{off}");
                Ok(())
            };
            alike([&both[0], &both[1]])?;
            let gradients_of = |tensor: &Tensor| {
                gradients.iter().map(|all| all.get(tensor).cloned()).collect::<Option<Vec<_>>>()
            };
            for tensor in [x.as_tensor(), cell.hh.weight(), cell.hh.bias(), cell.ih.weight()] {
                let pair = gradients_of(tensor).expect("every parameter is felt");
                assert!(pair[0].abs()?.max_all()?.to_scalar::<f64>()? > 1e-3);
                alike([&pair[0], &pair[1]])?;
            }
        }
        Ok(())
    }
}
