//! Time and memory of a stage.

mod copies;

use stagewright_core::document::{ContextExchange, JointExecutionDocument, RuntimeDocument, Schedule};

use super::collective::all_to_all;
use super::configuration::Configuration;
use super::devices::{Devices, Group};
use super::host::Home;
use super::model::{Divided, Layer};
use super::order;
use super::runtime::{self, Depth, PassParts};
use super::schedule::Times;
use super::sharding::Converted;
use super::work::{Seconds, Work};
use crate::error::CheckError;

/// Costs of a layer in a configuration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    /// Seconds of the forward pass, the backward pass and the weight gradients of a microbatch.
    pub(super) passes: Times,
    /// Seconds after the last microbatch.
    pub(super) update: f64,
    /// Bytes of parameters, gradients and the optimizer in the memory of the device.
    pub(super) state: f64,
    /// Bytes of the optimizer in the host's memory.
    pub(super) host: f64,
    /// Bytes of the activations of a microbatch that are kept until the backward pass, and until the weight gradients.
    pub(super) activations: [f64; 2],
    /// Bytes of the activations of a microbatch that the host keeps until the backward pass.
    pub(super) on_host: f64,
    pub(super) workspace: f64,
}

/// Sums over the layers of a stage, and the maximum of the workspace.
pub(super) type Sums = Costs;

impl Sums {
    /// Adds a layer.
    pub(super) fn add(&mut self, layer: &Costs) {
        let add =
            |sum: &mut [f64], more: &[f64]| sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        add(&mut self.passes, &layer.passes);
        self.update += layer.update;
        self.state += layer.state;
        self.host += layer.host;
        add(&mut self.activations, &layer.activations);
        self.on_host += layer.on_host;
        self.workspace = self.workspace.max(layer.workspace);
    }

    /// Costs on devices of two kinds: the larger of each. The weight gradients take what they and the backward pass
    /// take longer together than the backward pass.
    pub(super) fn beside(self, other: Costs) -> Costs {
        let [forward, backward, _] = [0, 1, 2].map(|pass| larger(self.passes[pass], other.passes[pass]));
        let [both, both_of_other] = [self, other].map(|costs| costs.passes[1] + costs.passes[2]);
        Costs {
            passes: [forward, backward, larger(both, both_of_other) - backward],
            update: larger(self.update, other.update),
            state: larger(self.state, other.state),
            host: larger(self.host, other.host),
            activations: [0, 1].map(|until| larger(self.activations[until], other.activations[until])),
            on_host: larger(self.on_host, other.on_host),
            workspace: larger(self.workspace, other.workspace),
        }
    }
}

/// The larger of two figures; one that is not a number stays.
fn larger(first: f64, second: f64) -> f64 {
    if second > first || second.is_nan() { second } else { first }
}

/// A stage: its devices, and how it runs the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage<'a> {
    devices: Devices<'a>,
    /// Where the states of the optimizer are.
    pub(super) home: Home,
    tensor: f64,
    expert: u64,
    zero: u32,
    context: u64,
    exchange: Option<ContextExchange>,
    /// Number of copies that divide states among themselves; `None` for all.
    shards: Option<u64>,
    /// Share of the graph's samples that a tensor-parallel group processes in a microbatch.
    microbatch: f64,
    microbatches: f64,
    /// How far the pipeline reaches; of no importance without a runtime.
    depth: Depth,
    /// Whether weight gradients of layers that are not recomputed run separately.
    has_weights_apart: bool,
    /// Whether passes run beside those of the other direction, which hide their exchanges with experts.
    is_paired: bool,
}

impl<'a> Stage<'a> {
    /// A stage on `devices` with the states of the optimizer at `home`; `samples` is the number of samples of the graph.
    pub(super) fn new(
        devices: Devices<'a>,
        home: Home,
        execution: &JointExecutionDocument,
        samples: f64,
        depth: Depth,
    ) -> Self {
        Stage {
            devices,
            home,
            tensor: devices.tensor as f64,
            expert: u64::from(execution.expert),
            zero: execution.zero,
            context: u64::from(execution.context),
            exchange: execution.exchange,
            shards: execution.shards.map(u64::from),
            microbatch: f64::from(execution.microbatch) / samples / f64::from(execution.context.max(1)),
            microbatches: f64::from(execution.microbatches),
            depth,
            has_weights_apart: order::has_weights_apart(execution.schedule),
            is_paired: execution.schedule == Schedule::DualPipeV,
        }
    }

    /// Whether the kind states a host.
    pub(super) fn has_host(&self) -> bool {
        self.devices.kind.document.ram.is_some()
    }

    /// σ: the share of the graph's samples, and of its operators, that a device processes in a microbatch.
    pub(super) fn share(&self) -> f64 {
        self.microbatch / self.tensor
    }

    /// The costs of a layer. `work` is the work of its operators on the kind of the devices.
    ///
    /// # Errors
    /// If a collective has no link.
    pub(super) fn costs(
        &self,
        layer: &Layer,
        work: &Work,
        configuration: Configuration,
    ) -> Result<Costs, CheckError> {
        let [stashed, inputs, products, loss] = [&layer.stashed, &layer.inputs, &layer.products, &layer.loss]
            .map(|kept| kept.on_all(self.tensor));
        let kept = match configuration {
            Configuration::None => stashed,
            Configuration::Selective => inputs + products,
            Configuration::Full => inputs,
            Configuration::Offload => stashed,
        };
        let recomputed = match configuration {
            Configuration::None | Configuration::Offload => 0.0,
            Configuration::Selective | Configuration::Full => (stashed - kept).max(0.0),
        };
        let whole = if self.tensor > 1.0 { 2.0 * self.tensor * layer.gathered } else { 0.0 };
        let exchanged =
            layer.attended.iter().map(|exchange| self.exchange.map_or(0.0, |by| exchange.workspace(by)));
        let exchanged = exchanged.fold(0.0, f64::max);
        let kept = kept * self.share() * self.devices.runtime.map_or(1.0, |runtime| runtime.activations);
        let is_apart = self.has_weights_apart && configuration == Configuration::None;
        let [state, host] = self.states(layer);
        let mut passes = match self.devices.runtime {
            None => self.passes(layer, work, configuration, is_apart)?,
            Some(runtime) => {
                let host = match layer.is_numbered {
                    true => runtime::host(runtime, self.depth, self.tensor),
                    false => 0.0,
                };
                let parts = self.parts(layer, work, configuration, runtime)?;
                parts.passes(runtime, configuration, is_apart, host)
            }
        };
        let (mut activations, mut on_host, mut moving) = ([kept, 0.0], 0.0, 0.0);
        if is_apart {
            activations = [0.0, kept];
        }
        if configuration == Configuration::Offload {
            passes[1] += self.beyond_passes(kept, passes);
            // The layer's own, and those of another layer on their way.
            (activations, on_host, moving) = ([0.0; 2], kept, 2.0 * kept);
        }
        Ok(Costs {
            passes,
            update: self.once(layer)? + self.updates(layer, work),
            state,
            host,
            activations,
            on_host,
            workspace: (layer.workspace + recomputed + loss + whole + exchanged) * self.share()
                + moving
                + self.gathered(layer),
        })
    }

    /// Seconds of the transfers of activations to the host and back that exceed the passes beside them; none on a kind
    /// without a host, on which no layer may have them there.
    fn beyond_passes(&self, bytes: f64, [forward, backward, _]: Times) -> f64 {
        let Some(ram) = self.devices.kind.document.ram else { return 0.0 };
        let seconds = bytes / ram.link_bandwidth;
        [forward, backward].iter().map(|pass| (seconds - pass).max(0.0)).sum()
    }

    /// Bytes of the workspace of a layer for parameters that are divided over copies, and for their gradients.
    fn gathered(&self, layer: &Layer) -> f64 {
        let on_device = |amount: &Divided| -> f64 { self.per_device(amount).iter().sum() };
        match self.devices.runtime {
            _ if self.zero < 3 => 0.0,
            None => on_device(&layer.parameters),
            // A pipeline does not divide them.
            Some(_) if self.depth.is_pipeline() => 0.0,
            Some(runtime) => {
                2.0 * on_device(&layer.parameters) + runtime.reduction * on_device(&layer.gradients)
            }
        }
    }

    /// Seconds of the passes of a layer: its operators, conversions, exchanges and collectives over copies, and
    /// recomputation.
    fn passes(
        &self,
        layer: &Layer,
        work: &Work,
        configuration: Configuration,
        is_apart: bool,
    ) -> Result<Times, CheckError> {
        let seconds = |seconds: Seconds| seconds.of(self.microbatch, self.tensor);
        let mut forward = seconds(work.forward);
        let mut backward = seconds(work.backward) + seconds(work.again);
        let mut weights = seconds(work.weights);
        for Converted { there, again } in self.conversions(layer)? {
            forward += there;
            backward += there;
            weights += again;
        }
        for seconds in self.exchanges(layer)? {
            forward += seconds;
            backward += seconds;
        }
        let [there, back] = self.attended(layer, work)?;
        forward += there;
        backward += back;
        backward += match configuration {
            Configuration::None | Configuration::Offload => 0.0,
            Configuration::Selective => seconds(work.others),
            Configuration::Full => forward,
        };
        let [gathered, scattered] = self.in_microbatch(layer)?;
        weights += scattered;
        forward += gathered;
        backward += gathered;
        Ok(if is_apart { [forward, backward, weights] } else { [forward, backward + weights, 0.0] })
    }

    /// Seconds of the parts of the passes of a layer that a runtime overlaps.
    fn parts(
        &self,
        layer: &Layer,
        work: &Work,
        configuration: Configuration,
        runtime: &RuntimeDocument,
    ) -> Result<PassParts, CheckError> {
        let seconds = |seconds: Seconds| runtime.compute * seconds.of(self.microbatch, self.tensor);
        let converted: f64 = self.conversions(layer)?.iter().map(|found| found.there).sum();
        let exchanged: f64 = self.exchanges(layer)?.iter().sum();
        let [gathered, scattered] = self.in_microbatch(layer)?;
        // A pipeline gathers and scatters once.
        let is_once = self.zero == 3 && self.depth.is_pipeline();
        let part = |seconds: f64| if is_once { seconds / self.microbatches } else { seconds };
        Ok(PassParts {
            forward: seconds(work.forward),
            backward: seconds(work.backward) + seconds(work.again),
            weights: seconds(work.weights),
            repeated: match configuration {
                Configuration::None | Configuration::Offload => 0.0,
                Configuration::Selective => seconds(work.others),
                Configuration::Full => seconds(work.forward),
            },
            exchanged: converted * runtime.tensor + if self.is_paired { 0.0 } else { exchanged },
            hidden: if self.is_paired { exchanged } else { 0.0 },
            attended: self.attended(layer, work)?,
            gathered: [part(gathered), if is_once { 0.0 } else { gathered }],
            scattered: part(scattered),
        })
    }

    /// Seconds of the conversions of a layer.
    fn conversions(&self, layer: &Layer) -> Result<Vec<Converted>, CheckError> {
        let tensor = self.devices.tensor;
        if tensor <= 1 || layer.conversions.is_empty() {
            return Ok(Vec::new());
        }
        let group = Group { count: tensor, apart: 1, span: tensor };
        let link = self.devices.link(group, "tensor parallelism")?;
        let seconds = layer.conversions.iter();
        Ok(seconds.map(|conversion| conversion.seconds(tensor, self.microbatch, &link)).collect())
    }

    /// Seconds of the exchanges of a layer with experts, in a pass.
    fn exchanges(&self, layer: &Layer) -> Result<Vec<f64>, CheckError> {
        if self.expert <= 1 || layer.exchanges.is_empty() {
            return Ok(Vec::new());
        }
        let tensor = self.devices.tensor;
        let group = Group { count: self.expert, apart: tensor, span: tensor.saturating_mul(self.expert) };
        let link = self.devices.link(group, "expert parallelism")?;
        let bytes = layer.exchanges.iter().map(|bytes| self.expert as f64 * self.share() * bytes);
        let factor = self.devices.runtime.map_or(1.0, |runtime| runtime.exchanges);
        Ok(bytes.map(|bytes| factor * all_to_all(self.expert, bytes, &link)).collect())
    }

    /// Seconds of the exchanges of tokens of a layer in the forward and in the backward pass, beyond those of its
    /// attentions. A ring passes keys and values while attentions work, and in the backward pass also their gradients.
    fn attended(&self, layer: &Layer, work: &Work) -> Result<[f64; 2], CheckError> {
        let Some(exchange) = self.exchange.filter(|_| !layer.attended.is_empty()) else {
            return Ok([0.0; 2]);
        };
        let Devices { tensor, runtime, .. } = self.devices;
        let group = Group { count: self.context, apart: tensor, span: tensor.saturating_mul(self.context) };
        let link = self.devices.link(group, "context parallelism")?;
        let seconds = layer.attended.iter();
        let seconds: f64 =
            seconds.map(|found| found.seconds(exchange, self.context, self.share(), &link)).sum();
        let seconds = runtime.map_or(1.0, |runtime| runtime.exchanges) * seconds;
        Ok(match (exchange, runtime) {
            (ContextExchange::AllToAll, _) => [seconds; 2],
            (ContextExchange::Ring, None) => [seconds, 2.0 * seconds],
            (ContextExchange::Ring, Some(runtime)) => [0, 1].map(|pass| {
                let compute = runtime.compute * work.attended[pass].of(self.microbatch, self.tensor);
                let moved = [seconds, 2.0 * seconds][pass];
                runtime::mix(runtime, compute, moved) - compute
            }),
        })
    }
}
