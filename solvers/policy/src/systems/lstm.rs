//! Long short-term memory (Hochreiter and Schmidhuber, Neural Computation 1997).

use candle_core::{Result, Tensor};
use candle_nn::ops::sigmoid;

use crate::network::layers::Linear;
use crate::weights::{Nursery, WeightsError};

/// A cell; what it reads is brought to its gates by the caller, for all steps at once where they are known.
#[derive(Debug, Clone)]
pub(super) struct Lstm {
    input: Linear,
    hidden: Linear,
    width: usize,
}

/// What a cell remembers: both b × width.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) hidden: Tensor,
    cell: Tensor,
}

impl Lstm {
    pub(super) fn new(
        nursery: &mut Nursery,
        name: &str,
        inputs: usize,
        width: usize,
    ) -> std::result::Result<Lstm, WeightsError> {
        Ok(Lstm {
            input: Linear::new(nursery, &format!("{name}.input"), inputs, 4 * width)?,
            hidden: Linear::new(nursery, &format!("{name}.hidden"), width, 4 * width)?,
            width,
        })
    }

    /// Before the first step of a batch like `x`.
    pub(super) fn start(&self, batch: usize, like: &Tensor) -> Result<Memory> {
        let zero = Tensor::zeros((batch, self.width), like.dtype(), like.device())?;
        Ok(Memory { hidden: zero.clone(), cell: zero })
    }

    /// What is read, at the gates: any × inputs to any × 4 width.
    pub(super) fn read(&self, x: &Tensor) -> Result<Tensor> {
        self.input.forward(x)
    }

    /// One step, from what is read at the gates: b × 4 width.
    pub(super) fn step(&self, read: &Tensor, memory: &Memory) -> Result<Memory> {
        let gates = (read + self.hidden.forward(&memory.hidden)?)?;
        let part = |at: usize| gates.narrow(1, at * self.width, self.width);
        let (keep, take, show) = (sigmoid(&(part(0)? + 1.0)?)?, sigmoid(&part(1)?)?, sigmoid(&part(2)?)?);
        let cell = ((keep * &memory.cell)? + (take * part(3)?.tanh()?)?)?;
        Ok(Memory { hidden: (show * cell.tanh()?)?, cell })
    }
}
