//! How a runtime overlaps the parts of a pass, and the seconds that its host takes at least.

use stagewright_core::document::RuntimeDocument;

use super::configuration::Configuration;
use super::schedule::Times;

/// How far the pipeline of a plan reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// A single device; a tensor-parallel group counts as one.
    Alone,
    /// Several devices, all in one server.
    Inside,
    /// Several devices in several servers.
    Across,
}

impl Depth {
    /// The depths of all pipelines.
    pub(super) const ALL: [Depth; 3] = [Depth::Alone, Depth::Inside, Depth::Across];

    /// Whether a plan is a pipeline.
    pub(super) fn is_pipeline(self) -> bool {
        self != Depth::Alone
    }
}

/// Seconds of the parts of the passes of a layer, for a microbatch.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassParts {
    /// Forward operators, backward operators, and weight gradients.
    pub(super) forward: f64,
    pub(super) backward: f64,
    pub(super) weights: f64,
    /// Forward operators that the configuration repeats.
    pub(super) repeated: f64,
    /// Conversions and exchanges with experts, in a pass, but not those that a pass of the other direction hides.
    pub(super) exchanged: f64,
    /// Exchanges with experts in a pass that a pass of the other direction hides.
    pub(super) hidden: f64,
    /// Exchanges of tokens in the forward and in the backward pass that attentions do not hide.
    pub(super) attended: [f64; 2],
    /// Gathers of parameters in the forward and in the backward pass.
    pub(super) gathered: [f64; 2],
    /// Scatter of gradients.
    pub(super) scattered: f64,
}

impl PassParts {
    /// Seconds of the passes of a layer. `host` is the least time of a forward pass; if `is_apart`, the weight gradients
    /// take their share of the backward pass.
    pub(super) fn passes(
        &self,
        runtime: &RuntimeDocument,
        configuration: Configuration,
        is_apart: bool,
        host: f64,
    ) -> Times {
        let PassParts { forward, backward, weights, repeated, exchanged, hidden, .. } = *self;
        let PassParts { attended, gathered, scattered, .. } = *self;
        let is_full = configuration == Configuration::Full;
        let (times, hosts) = if is_full { (2.0, 3.0) } else { (1.0, 2.0) };
        let there = at_least(mix(runtime, forward, gathered[0] + hidden) + exchanged + attended[0], host);
        let [compute, moved] = [backward + weights + repeated, gathered[1] + scattered + times * hidden];
        let again = if is_full { attended[0] } else { 0.0 };
        let besides = times * exchanged + attended[1] + again;
        let back = at_least(mix(runtime, compute, moved) + besides, hosts * host);
        if !is_apart {
            return [there, back, 0.0];
        }
        let all = backward + weights + exchanged + hidden + attended[1] + gathered[1] + scattered;
        let share = if all > 0.0 { (weights + scattered) / all } else { 0.0 };
        [there, back - share * back, share * back]
    }
}

/// Seconds of compute and collectives that overlap.
pub(super) fn mix(runtime: &RuntimeDocument, compute: f64, moved: f64) -> f64 {
    compute.max(moved) + runtime.contention * compute.min(moved)
}

/// The larger of a time and of the `least` that it may be. A time that is not a number stays so.
fn at_least(seconds: f64, least: f64) -> f64 {
    if seconds < least { least } else { seconds }
}

/// Seconds that the host takes at least for the forward pass of a numbered layer.
pub(super) fn host(runtime: &RuntimeDocument, depth: Depth, tensor: f64) -> f64 {
    match depth {
        Depth::Alone | Depth::Inside => runtime.host_s,
        Depth::Across => runtime.host_s + runtime.pipeline_host_s * tensor.powf(1.25),
    }
}
