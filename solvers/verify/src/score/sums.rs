//! Seconds by pass, from which every load is computed.

use std::ops::Add;

use stagewright_core::document::{Communication, Pass};

/// Half of a training step that a pass counts towards: updates belong to the backward half.
pub(super) fn half(pass: Pass) -> usize {
    match pass {
        Pass::Forward => 0,
        Pass::Backward | Pass::Update => 1,
    }
}

/// Seconds of compute, of tensors sent and of tensors received.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) compute: f64,
    pub(super) sent: f64,
    pub(super) received: f64,
}

impl Sums {
    /// Load under a communication mode.
    pub(super) fn load(&self, communication: Communication) -> f64 {
        match communication {
            Communication::Serial => self.compute + self.communication(),
            Communication::Overlap => self.compute.max(self.communication()),
            Communication::Duplex => self.compute.max(self.sent).max(self.received),
        }
    }

    /// Seconds of all tensors sent and received.
    pub(super) fn communication(&self) -> f64 {
        self.sent + self.received
    }
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, other: Sums) -> Sums {
        Sums {
            compute: self.compute + other.compute,
            sent: self.sent + other.sent,
            received: self.received + other.received,
        }
    }
}
