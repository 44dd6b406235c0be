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

/// Seconds of compute, of tensors sent and received, and of gradients of shared parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) compute: f64,
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) synchronised: f64,
}

impl Sums {
    /// Load of each replica under a communication mode: a share of everything but the gradients, which every replica
    /// synchronises when the rest is done.
    pub(super) fn load(&self, communication: Communication, replicas: u32) -> f64 {
        let tensors = self.sent + self.received;
        let shared = match communication {
            Communication::Serial => self.compute + tensors,
            Communication::Overlap => self.compute.max(tensors),
            Communication::Duplex => self.compute.max(self.sent).max(self.received),
        };
        shared / f64::from(replicas) + self.synchronised
    }

    /// Seconds of all tensors and gradients.
    pub(super) fn communication(&self) -> f64 {
        self.sent + self.received + self.synchronised
    }
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, other: Sums) -> Sums {
        Sums {
            compute: self.compute + other.compute,
            sent: self.sent + other.sent,
            received: self.received + other.received,
            synchronised: self.synchronised + other.synchronised,
        }
    }
}
