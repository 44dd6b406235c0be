//! Optimisers: what an update costs and what it keeps.
//!
//! In bytes for each parameter, with a width of w bytes:
//!
//! | | parameters | gradient | moments, fp32 | master weights, where w < 4 |
//! | --- | --- | --- | --- | --- |
//! | `sgd` | w | w | 0 | 4 |
//! | `momentum` | w | w | 4 | 4 |
//! | `adam` | w | w | 8 | 4 |
//!
//! `optimizer_bytes` of the update operator holds all but the parameters, so that mixed-precision Adam takes
//! the 16 bytes of Rajbhandari et al., "ZeRO" (SC 2020), section 3.1.

/// Bytes of a number that optimisers keep.
const STATE_WIDTH: f64 = 4.0;

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

    /// Bytes kept for each parameter of some width, besides its gradient.
    pub(super) fn state_bytes(self, width: f64) -> f64 {
        let moments = match self {
            Optimizer::Sgd => 0.0,
            Optimizer::Momentum => 1.0,
            Optimizer::Adam => 2.0,
        };
        let master = if width < STATE_WIDTH { 1.0 } else { 0.0 };
        (moments + master) * STATE_WIDTH
    }

    /// FLOP for each parameter: a scaled step, one more multiply-add for each first moment, and for Adam the
    /// second moment, two bias corrections, a root, a sum and a quotient.
    pub(super) fn flop(self) -> f64 {
        match self {
            Optimizer::Sgd => 2.0,
            Optimizer::Momentum => 4.0,
            Optimizer::Adam => 14.0,
        }
    }
}
