//! Optimisers: the cost and the memory of an update.
//!
//! In bytes per parameter, with a width of w bytes:
//!
//! | | parameters | gradient | moments, fp32 | master weights, where w < 4 |
//! | --- | --- | --- | --- | --- |
//! | `sgd` | w | w | 0 | 4 |
//! | `momentum` | w | w | 4 | 4 |
//! | `adam` | w | w | 8 | 4 |
//!
//! `optimizer_bytes` are the moments and the master weights; the gradient is a tensor. In all, mixed-precision Adam
//! takes the 16 bytes of Rajbhandari et al., "ZeRO" (SC 2020), section 3.1.

/// Bytes per number of optimiser state.
const STATE_WIDTH: f64 = 4.0;

/// Update rule of the parameters.
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
    /// All optimisers.
    pub const ALL: [Optimizer; 3] = [Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Optimizer::Sgd => "sgd",
            Optimizer::Momentum => "momentum",
            Optimizer::Adam => "adam",
        }
    }

    /// Bytes of state per parameter besides its gradient, for parameters of `width` bytes.
    pub(super) fn state_bytes(self, width: f64) -> f64 {
        let moments = match self {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
        };
        let master = if width < STATE_WIDTH { 1.0 } else { 0.0 };
        (moments + master) * STATE_WIDTH
    }

    /// FLOP per parameter: a scaled step, one more multiply-add for each first moment, and for Adam the
    /// second moment, two bias corrections, a root, a sum and a quotient.
    pub(super) fn flop(self) -> f64 {
        match self {
            Optimizer::Sgd => 2.0,
            Optimizer::Momentum => 4.0,
            Optimizer::Adam => 14.0,
        }
    }
}
