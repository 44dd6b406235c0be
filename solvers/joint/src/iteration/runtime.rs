//! The runtime that trains the model: which of its constants apply where.

use stagewright_core::document::RuntimeDocument;

/// Constants of a runtime; those of the ideal runtime, which loses nothing and overlaps nothing, if none is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Runtime {
    constants: RuntimeDocument,
    /// Whether no runtime is given: operators have launch overheads, a group uses one port of a server, and inputs
    /// are gathered again for weight gradients.
    pub(crate) is_ideal: bool,
}

impl Runtime {
    pub(crate) fn new(given: Option<&RuntimeDocument>) -> Runtime {
        let ideal = || RuntimeDocument {
            name: "ideal".into(),
            source: None,
            compute: 1.0,
            copies: 1.0,
            exchanges: 1.0,
            transfers: 1.0,
            sequence_parallel: true,
            fused_attention: true,
            attention: 1.0,
            memory: 1.0,
            passes: 1.0,
            norms: 1.0,
            scores: 1.0,
            link: 1.0,
            network: 1.0,
            tensor: 1.0,
            contention: 1.0,
            host_s: 0.0,
            pipeline_host_s: 0.0,
            iteration_s: 0.0,
            reduction: 1.0,
            gradients: 1.0,
            activations: 1.0,
            buckets: 1.0,
            loss: 0.0,
            whole_loss: false,
            reserve_bytes: 0.0,
            margin: 0.0,
            wide_transfer_s: 0.0,
            wide_servers: 0,
        };
        Runtime { constants: given.cloned().unwrap_or_else(ideal), is_ideal: given.is_none() }
    }

    /// The runtime without the seconds of collectives over copies.
    pub(crate) fn without_copies(&self) -> Runtime {
        let constants = RuntimeDocument { copies: 0.0, ..self.constants.clone() };
        Runtime { constants, is_ideal: self.is_ideal }
    }

    /// Seconds of compute and of collectives that overlap with it.
    pub(crate) fn mix(&self, compute: f64, collectives: f64) -> f64 {
        compute.max(collectives) + self.contention * compute.min(collectives)
    }

    /// Seconds of the host for the forward pass of a layer on a tensor-parallel group.
    pub(crate) fn host(&self, reach: Reach, tensor: u32) -> f64 {
        match reach {
            Reach::Servers => self.host_s + self.pipeline_host_s * f64::from(tensor).powf(1.25),
            Reach::Device | Reach::Server => self.host_s,
        }
    }

    /// Whether parameters that copies divide among themselves are gathered once in an iteration instead of once in a
    /// pass, and gradients scattered once.
    pub(crate) fn gathers_once(&self, reach: Reach, zero: u32) -> bool {
        !self.is_ideal && zero == 3 && reach != Reach::Device
    }
}

impl std::ops::Deref for Runtime {
    type Target = RuntimeDocument;

    fn deref(&self) -> &RuntimeDocument {
        &self.constants
    }
}

/// Extent of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// One stage: no pipeline.
    Device,
    /// Several stages, with all copies in one server.
    Server,
    /// Several stages, in several servers.
    Servers,
}

/// The runtime of a layer, and what its costs depend on besides degrees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) reach: Reach,
    pub(crate) microbatches: u32,
    /// Whether passes run beside those of the other direction, which hide their exchanges with experts. Those that run alone
    /// while the pipeline fills and drains count as hidden too.
    pub(crate) is_paired: bool,
}
