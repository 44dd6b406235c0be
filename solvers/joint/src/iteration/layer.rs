//! Costs of a layer under given degrees, from the shard on one device.

use stagewright_core::document::{ContextExchange, JointPartsDocument, LinkDocument};

use super::collective::{exchange, gather, reduce, reduce_by_trees};
use super::model::{Activations, Divided, Layer, Pieces, Rates, Update};
use super::network::Tokens;
use super::pool::{Group, Pool, slower};
use super::runtime::{Reach, Setting};
use super::sharding::{Conversion, Layout, Need};
use super::table::{Configuration, Degrees, LayerCosts, ON_HOST};

/// The shard of a layer on a device.
#[derive(Clone, Copy)]
pub(super) struct LayerShard<'l> {
    layer: &'l Layer,
    /// Index of the kind of the device, and of its class.
    kind: usize,
    pool: &'l Pool,
    /// The other kind of a stage with devices of two kinds.
    beside: Option<&'l Pool>,
    degrees: Degrees,
    setting: Setting<'l>,
    /// Work on a microbatch, as a share of the work on the whole batch of the graph.
    share: f64,
}

/// Seconds of a microbatch on a layer.
#[derive(Clone, Copy)]
struct Times<'r> {
    setting: Setting<'r>,
    /// Seconds of the host for a forward pass.
    host: f64,
    /// Seconds of the forward operators, and of those among them that are not products.
    forward: f64,
    no_products: f64,
    /// Seconds of the backward operators without weight gradients, and of the weight gradients.
    input_gradients: f64,
    weight_gradients: f64,
    /// Conversions of tensors, in each of the two passes.
    conversions: f64,
    /// Gathers that are repeated for the weight gradients.
    gathered_again: f64,
    /// Exchanges with experts, in each of the two passes.
    exchanges: f64,
    /// Exchanges of tokens that attentions do not hide, in the forward and in the backward pass.
    tokens: [f64; 2],
    copies: CopyTimes,
}

/// Seconds of the collectives over the copies of a layer, by the stage of ZeRO.
#[derive(Clone, Copy)]
struct CopyTimes {
    /// Gathers of parameters, in each of the two passes.
    gathers: [f64; 2],
    /// Scatters of gradients, with the weight gradients.
    scatters: f64,
    /// Collectives after the last microbatch.
    last: f64,
}

impl Times<'_> {
    /// Transfers of activations that nothing hides in the forward (0) or backward (1) pass.
    fn exposed(&self, pass: usize) -> f64 {
        self.conversions + self.exchanges - self.paired() + self.tokens[pass]
    }

    /// Exchanges with experts in a pass that run beside compute.
    fn paired(&self) -> f64 {
        if self.setting.is_paired { self.exchanges } else { 0.0 }
    }

    /// Collectives that run beside the compute of the forward (0) or backward (1) pass.
    fn beside(&self, pass: usize) -> f64 {
        let scatters = if pass == 0 { 0.0 } else { self.copies.scatters };
        self.copies.gathers[pass] + scatters + self.paired()
    }

    fn forward(&self) -> f64 {
        let mixed = self.setting.runtime.mix(self.forward, self.beside(0));
        (mixed + self.exposed(0)).max(self.host)
    }

    /// Seconds by which the exchanges with experts lengthen both passes.
    fn exposed_exchanges(&self) -> f64 {
        let without = Times { exchanges: 0.0, host: 0.0, ..*self };
        let with = Times { host: 0.0, ..*self };
        with.forward() - without.forward() + with.whole_backward(0) - without.whole_backward(0)
    }

    /// Collectives over copies that the compute of both passes does not hide.
    fn exposed_copies(&self) -> f64 {
        let backward = self.input_gradients + self.weight_gradients;
        let exposed = |compute: f64, copies: f64| self.setting.runtime.mix(compute, copies) - compute;
        exposed(self.forward, self.copies.gathers[0])
            + exposed(backward, self.copies.gathers[1] + self.copies.scatters)
    }

    /// Seconds for which both passes wait for the host.
    fn waits(&self) -> f64 {
        let device = Times { host: 0.0, ..*self };
        self.forward() - device.forward() + self.whole_backward(0) - device.whole_backward(0)
    }

    /// The backward pass without weight gradients, and the weight gradients. Together they take as long as a whole
    /// backward pass: a configuration that separates them is never slower than one that recomputes.
    fn apart(&self) -> (f64, f64) {
        let rest = self.input_gradients + self.exposed(1) + self.paired() + self.copies.gathers[1];
        let weight = self.weight_gradients + self.gathered_again + self.copies.scatters;
        let whole = self.whole_backward(0);
        let share = if weight > 0.0 { weight / (rest + weight) } else { 0.0 };
        (whole * (1.0 - share), whole * share)
    }

    /// The backward pass with weight gradients, and with what a configuration recomputes of the forward pass.
    fn whole_backward(&self, configuration: usize) -> f64 {
        let (recomputed, again, beside, passes) = match configuration {
            0 => (0.0, 0.0, 0.0, 2.0),
            1 => (self.no_products, 0.0, 0.0, 2.0),
            _ => (self.forward, self.exposed(0), self.paired(), 3.0),
        };
        let compute = self.input_gradients + self.weight_gradients + recomputed;
        let mixed = self.setting.runtime.mix(compute, self.beside(1) + beside);
        (mixed + self.exposed(1) + again + self.gathered_again).max(passes * self.host)
    }
}

impl<'l> LayerShard<'l> {
    /// The shard of `layer`, in a graph with a batch of `samples`, on a device of `pool`, the kind with index `kind`, in
    /// a runtime and a pipeline.
    pub(super) fn new(
        samples: f64,
        layer: &'l Layer,
        kind: usize,
        pool: &'l Pool,
        degrees: Degrees,
        setting: Setting<'l>,
    ) -> LayerShard<'l> {
        LayerShard { layer, kind, pool, beside: None, degrees, setting, share: degrees.share(samples) }
    }

    /// Costs of the layer. `allowed` lists the configurations of numbered layers, the fastest first; `is_split` states
    /// whether weight gradients run separately from the backward pass. O(operators of the layer).
    pub(super) fn costs(&self, allowed: &[usize], is_split: bool) -> LayerCosts {
        let Some(parts) = &self.pool.parts else { return self.on_kind(allowed, is_split) };
        let [first, second] = [0, 1].map(|kind| {
            let beside = Some(&parts[1 - kind]);
            LayerShard { kind, pool: &parts[kind], beside, ..*self }.on_kind(allowed, is_split)
        });
        first.beside(second)
    }

    fn on_kind(&self, allowed: &[usize], is_split: bool) -> LayerCosts {
        let (layer, Degrees { zero, offload, .. }) = (self.layer, self.degrees);
        let optimizer = self.bytes(&layer.states, zero >= 1);
        let Setting { runtime, reach, .. } = self.setting;
        let is_whole = runtime.gathers_once(reach, zero);
        let times = self.times();
        let parts = JointPartsDocument {
            compute_s: times.forward + times.input_gradients + times.weight_gradients,
            tensor_s: 2.0 * times.conversions + times.gathered_again,
            expert_s: if self.setting.is_paired { times.exposed_exchanges() } else { 2.0 * times.exchanges },
            context_s: times.tokens.iter().sum(),
            zero_s: times.exposed_copies(),
            host_s: times.waits(),
            parameter_bytes: self.bytes(&layer.parameters, zero >= 3 && !is_whole),
            gradient_bytes: runtime.gradients * self.bytes(&layer.gradients, zero >= 2 && !is_whole),
            optimizer_bytes: if offload { 0.0 } else { optimizer },
            ..JointPartsDocument::default()
        };
        let updates = if offload { self.updates_on_host() } else { self.updates() };
        LayerCosts {
            class: layer.class,
            forward: times.forward(),
            configurations: self.configurations(&times, allowed, is_split),
            state: parts.parameter_bytes + parts.gradient_bytes + parts.optimizer_bytes,
            host: if offload { optimizer } else { 0.0 },
            update: updates + times.copies.last,
            parts,
        }
    }

    fn times(&self) -> Times<'l> {
        let (layer, kind) = (self.layer, self.kind);
        let Setting { runtime, reach, .. } = self.setting;
        let no_products = layer.forward[kind].iter().filter(|(_, is_product)| !is_product);
        Times {
            setting: self.setting,
            host: if layer.is_numbered { runtime.host(reach, self.degrees.tensor) } else { 0.0 },
            forward: self.seconds(layer.forward[kind].iter().map(|(pieces, _)| pieces)),
            no_products: self.seconds(no_products.map(|(pieces, _)| pieces)),
            input_gradients: self.seconds(&layer.backward[kind]),
            weight_gradients: self.seconds(&layer.weights[kind]),
            conversions: runtime.tensor
                * layer.conversions.iter().map(|conversion| self.convert(conversion)).sum::<f64>(),
            gathered_again: self.gather_again(),
            exchanges: runtime.exchanges * self.exchanges(),
            tokens: self.tokens(),
            copies: self.copy_times(),
        }
    }

    fn seconds<'w>(&self, operators: impl IntoIterator<Item = &'w Pieces>) -> f64 {
        let rates = self.rates();
        let seconds = |pieces: &Pieces| {
            let share = if pieces.in_sequence { self.share * self.undivided() } else { self.share };
            pieces.work.seconds(share, rates)
        };
        self.setting.runtime.compute * operators.into_iter().map(seconds).sum::<f64>()
    }

    fn rates(&self) -> Rates<'l> {
        Rates { runtime: self.setting.runtime, efficiency: self.pool.efficiency }
    }

    /// Size of a part of the sequence on a device, over that with sequence parallelism.
    fn undivided(&self) -> f64 {
        match self.setting.runtime.sequence_parallel {
            true => 1.0,
            false => f64::from(self.degrees.tensor),
        }
    }

    /// The rate in a group of devices that are `stride` apart, within `span` devices. The devices of a copy are of one
    /// kind; beside those of another, larger groups are in several servers.
    fn link(&self, devices: u32, stride: u64, span: u64) -> LinkDocument {
        let runtime = self.setting.runtime;
        let of_copy = u64::from(self.degrees.tensor) * u64::from(self.degrees.context);
        let other = self.beside.filter(|_| !of_copy.is_multiple_of(span));
        let span = if other.is_some() { u64::MAX } else { span };
        let group = Group { devices: devices.into(), stride, span };
        let own = self.pool.link_of(runtime, group);
        other.map_or(own, |other| slower(own, other.link_of(runtime, group)))
    }

    /// Bytes of a whole tensor for a microbatch.
    fn whole(&self, conversion: &Conversion) -> f64 {
        conversion.bytes * (self.share * f64::from(self.degrees.tensor))
    }

    /// Time of a conversion of a tensor.
    fn convert(&self, conversion: &Conversion) -> f64 {
        let devices = self.degrees.tensor;
        if devices == 1 {
            return 0.0;
        }
        let (link, bytes) = (self.link(devices, 1, devices.into()), self.whole(conversion));
        match (conversion.from, conversion.to) {
            (Layout::Sequence, Need::Columns) | (Layout::Columns, Need::Sequence) => {
                exchange(link, devices, bytes)
            }
            (Layout::Partial, Need::Whole) => reduce(link, devices, bytes),
            _ => gather(link, devices, bytes),
        }
    }

    /// Time to gather the inputs of products again for their weight gradients.
    fn gather_again(&self) -> f64 {
        let devices = self.degrees.tensor;
        if !self.setting.runtime.is_ideal {
            return 0.0;
        }
        let link = self.link(devices, 1, devices.into());
        let gathered = self.layer.conversions.iter().filter(|conversion| conversion.to == Need::Whole);
        gathered.map(|conversion| gather(link, devices, self.whole(conversion))).sum()
    }

    /// Time of the exchanges with experts in a pass.
    fn exchanges(&self) -> f64 {
        let Degrees { tensor, expert, .. } = self.degrees;
        if expert == 1 {
            return 0.0;
        }
        let tensor = u64::from(tensor);
        let link = self.link(expert, tensor, tensor * u64::from(expert));
        let exchanged = |bytes: &f64| exchange(link, expert, bytes * self.share * f64::from(expert));
        self.layer.exchanges.iter().map(exchanged).sum()
    }

    /// Time of the exchanges of tokens that attentions do not hide, in the forward and in the backward pass.
    fn tokens(&self) -> [f64; 2] {
        let Some(exchange) = self.degrees.exchange else { return [0.0; 2] };
        let (layer, kind) = (self.layer, self.kind);
        let runtime = self.setting.runtime;
        let seconds: f64 = layer.attentions.iter().map(|tokens| self.exchange_tokens(exchange, tokens)).sum();
        let seconds = runtime.exchanges * seconds;
        if exchange == ContextExchange::AllToAll {
            return [seconds; 2];
        }
        let in_attention = |pieces: &&Pieces| pieces.in_attention;
        let forward = layer.forward[kind].iter().map(|(pieces, _)| pieces).filter(in_attention);
        let backward = layer.backward[kind].iter().chain(&layer.weights[kind]).filter(in_attention);
        let left = |compute: f64, seconds: f64| runtime.mix(compute, seconds) - compute;
        // Gradients pass as well as keys and values.
        [left(self.seconds(forward), seconds), left(self.seconds(backward), 2.0 * seconds)]
    }

    /// Time of an exchange of the tokens of an attention.
    fn exchange_tokens(&self, by: ContextExchange, tokens: &Tokens) -> f64 {
        let Degrees { tensor, context, .. } = self.degrees;
        let Tokens { queries, keys, values, results } = *tokens;
        let tensor = u64::from(tensor);
        let link = self.link(context, tensor, tensor * u64::from(context));
        let (tensors, collective): (&[f64], Collective) = match by {
            ContextExchange::Ring => (&[keys + values], gather),
            ContextExchange::AllToAll => (&[queries, keys, values, results], exchange),
        };
        let moved = tensors.iter().filter(|&&bytes| bytes > 0.0);
        moved.map(|bytes| collective(link, context, bytes * self.share * f64::from(context))).sum()
    }

    fn copy_times(&self) -> CopyTimes {
        let runtime = self.setting.runtime;
        let CopyTimes { gathers, scatters, last } = self.unscaled_copy_times();
        CopyTimes {
            gathers: gathers.map(|seconds| runtime.copies * seconds),
            scatters: runtime.copies * scatters,
            last: runtime.copies * (last + self.over_groups()),
        }
    }

    fn unscaled_copy_times(&self) -> CopyTimes {
        let Layer { parameters, gradients, .. } = self.layer;
        let Setting { runtime, reach, microbatches, .. } = self.setting;
        let gathered = || self.over_copies(parameters, 1.0, gather);
        let scattered = || self.over_copies(gradients, runtime.reduction, gather);
        match self.degrees.zero {
            0 => {
                let last = self.over_copies(gradients, runtime.reduction, self.all_reduce());
                CopyTimes { gathers: [0.0; 2], scatters: 0.0, last }
            }
            1 => CopyTimes { gathers: [0.0; 2], scatters: 0.0, last: scattered() + gathered() },
            2 => CopyTimes { gathers: [0.0; 2], scatters: scattered(), last: gathered() },
            zero if runtime.gathers_once(reach, zero) => {
                let m = f64::from(microbatches);
                CopyTimes { gathers: [gathered() / m, 0.0], scatters: scattered() / m, last: 0.0 }
            }
            _ => CopyTimes { gathers: [gathered(); 2], scatters: scattered(), last: 0.0 },
        }
    }

    /// Time of a collective over the copies of the layer's state on each device, of `scale` times its bytes.
    fn over_copies(&self, divided: &Divided, scale: f64, collective: Collective) -> f64 {
        let Degrees { tensor, expert, .. } = self.degrees;
        let tensor = u64::from(tensor);
        let span = tensor * u64::from(self.copies(false));
        let strides = [tensor, tensor * u64::from(expert)];
        let moved = self.shards(divided).into_iter().zip(strides);
        let moved = moved.filter(|&((bytes, copies), _)| bytes * scale > 0.0 && copies > 1);
        moved
            .map(|((bytes, copies), stride)| {
                collective(self.copy_link(copies, stride, span), copies, bytes * scale)
            })
            .sum()
    }

    /// Time of the all-reduce of gradients between the groups of copies that divide states.
    fn over_groups(&self) -> f64 {
        let Some(shards) = self.degrees.shards else { return 0.0 };
        let groups = self.degrees.copies() / shards;
        let stride = u64::from(self.degrees.tensor) * u64::from(shards);
        let link = self.copy_link(groups, stride, self.degrees.devices());
        let reduced = self.shards(&self.layer.gradients).into_iter().map(|(bytes, _)| {
            let part = self.setting.runtime.reduction * bytes / f64::from(shards);
            if part > 0.0 { self.all_reduce()(link, groups, part) } else { 0.0 }
        });
        reduced.sum()
    }

    fn all_reduce(&self) -> Collective {
        if self.setting.runtime.is_ideal { reduce } else { reduce_by_trees }
    }

    /// The rate in a group of copies.
    fn copy_link(&self, devices: u32, stride: u64, span: u64) -> LinkDocument {
        let link = self.link(devices, stride, span);
        LinkDocument { latency_s: link.latency_s * self.setting.runtime.buckets, ..link }
    }

    /// Bytes on a device, divided over the copies if `over_copies`.
    fn bytes(&self, divided: &Divided, over_copies: bool) -> f64 {
        let on_device = |(bytes, copies)| if over_copies { bytes / f64::from(copies) } else { bytes };
        self.shards(divided).into_iter().map(on_device).sum()
    }

    /// Bytes on a device without ZeRO, and the number of their copies: outside experts, and of experts.
    fn shards(&self, divided: &Divided) -> [(f64, u32); 2] {
        let Degrees { tensor, expert, .. } = self.degrees;
        let [others, experts] = divided.map(|[whole, split]| whole + split / f64::from(tensor));
        [(others, self.copies(false)), (experts / f64::from(expert), self.copies(true))]
    }

    /// Number of copies of an expert, or of any other state, that divide it among themselves.
    fn copies(&self, is_expert: bool) -> u32 {
        let Degrees { expert, shards, .. } = self.degrees;
        let copies = shards.unwrap_or(self.degrees.copies());
        if is_expert { copies / expert } else { copies }
    }

    /// Time of all updates on the device.
    fn updates(&self) -> f64 {
        let seconds = |update: &Update| update.work.seconds(1.0, self.rates()) * self.part_of_update(update);
        self.layer.updates[self.kind].iter().map(seconds).sum()
    }

    /// Time of all updates on the host, to which gradients go and from which parameters come; infinite if the kind states
    /// no memory of a host, since it has no stage then.
    fn updates_on_host(&self) -> f64 {
        let Some(ram) = self.pool.ram else { return f64::INFINITY };
        let Layer { updates, gradients, parameters, .. } = self.layer;
        let moved = updates[self.kind].iter().map(|update| update.moved * self.part_of_update(update));
        let is_divided = self.degrees.zero > 0;
        let transferred = self.bytes(gradients, is_divided) + self.bytes(parameters, is_divided);
        moved.sum::<f64>() / (ram.bandwidth * self.setting.runtime.memory) + transferred / ram.link
    }

    /// Share of an update that a device runs.
    fn part_of_update(&self, update: &Update) -> f64 {
        let mut part = 1.0;
        if update.is_split {
            part /= f64::from(self.degrees.tensor);
        }
        if update.is_expert {
            part /= f64::from(self.degrees.expert);
        }
        if self.degrees.zero > 0 {
            part /= f64::from(self.copies(update.is_expert));
        }
        part
    }

    /// Configurations that the layer may have. On a kind without a host, none has activations there, unless all must: that
    /// configuration then never fits.
    fn configurations(&self, times: &Times, allowed: &[usize], is_split: bool) -> Vec<Configuration> {
        let configuration = |index: usize| self.configuration(times, index, is_split && index == 0);
        match (self.layer.is_numbered, allowed) {
            (false, _) => vec![configuration(0)],
            (true, &[given]) => vec![configuration(given)],
            // A configuration that saves no memory over the first is useless.
            (true, allowed) => {
                let is_useful = |&&index: &&usize| match index {
                    ON_HOST => self.pool.ram.is_some() && self.kept(0) > 0.0,
                    _ => index == 0 || self.kept(index) < self.kept(0) || is_split,
                };
                allowed.iter().filter(is_useful).map(|&index| configuration(index)).collect()
            }
        }
    }

    /// The configuration with an index, with weight gradients separate from the backward pass or included in it.
    fn configuration(&self, times: &Times, index: usize, is_apart: bool) -> Configuration {
        if index == ON_HOST {
            return self.on_host(times);
        }
        let (backward, weight) = if is_apart { times.apart() } else { (times.whole_backward(index), 0.0) };
        Configuration {
            index: index as u32,
            backward,
            weight,
            is_apart,
            activations: self.setting.runtime.activations * self.kept(index) * self.share,
            host: 0.0,
            workspace: self.workspace() + (self.kept(0) - self.kept(index)).max(0.0) * self.share,
        }
    }

    /// The configuration whose activations go to the host after the forward pass and come back before the backward pass.
    /// What these transfers take longer than the pass beside them is part of the backward pass.
    fn on_host(&self, times: &Times) -> Configuration {
        let bytes = self.setting.runtime.activations * self.kept(0) * self.share;
        let whole = times.whole_backward(0);
        let (seconds, workspace) = match self.pool.ram {
            // While the layer runs, the activations of the layer before it or after it are on their way.
            Some(ram) => (bytes / ram.link, 2.0 * bytes),
            None => (0.0, f64::INFINITY),
        };
        let left = |pass: f64| (seconds - pass).max(0.0);
        Configuration {
            index: ON_HOST as u32,
            backward: whole + left(times.forward()) + left(whole),
            weight: 0.0,
            is_apart: false,
            activations: 0.0,
            host: bytes,
            workspace: self.workspace() + workspace,
        }
    }

    /// Bytes that a layer works on, without what it recomputes.
    fn workspace(&self) -> f64 {
        let Setting { runtime, reach, .. } = self.setting;
        let Degrees { tensor, zero, .. } = self.degrees;
        let of_sequence = self.share * f64::from(tensor);
        let mut bytes = self.layer.workspace * self.share;
        let loss = runtime.loss * self.layer.loss;
        bytes += loss * if runtime.whole_loss { of_sequence } else { self.share };
        if !runtime.is_ideal && tensor > 1 {
            // A gathered input, and its gradient.
            let whole = self.layer.conversions.iter().filter(|conversion| conversion.to == Need::Whole);
            bytes += 2.0 * of_sequence * whole.map(|conversion| conversion.bytes).fold(0.0, f64::max);
        }
        let held = |tokens: &Tokens| match self.degrees.exchange {
            None => 0.0,
            // The part of another device, while the next one arrives.
            Some(ContextExchange::Ring) => 2.0 * (tokens.keys + tokens.values),
            Some(ContextExchange::AllToAll) => tokens.queries + tokens.keys + tokens.values,
        };
        bytes += self.share * self.layer.attentions.iter().map(held).fold(0.0, f64::max);
        bytes
            + match zero {
                3 if runtime.is_ideal => self.bytes(&self.layer.parameters, false),
                // The parameters of the next layer are gathered while a layer runs.
                3 if reach == Reach::Device => {
                    2.0 * self.bytes(&self.layer.parameters, false)
                        + runtime.reduction * self.bytes(&self.layer.gradients, false)
                }
                _ => 0.0,
            }
    }

    /// Bytes of activations that a configuration keeps, for the whole batch of the graph, times the degree of tensor
    /// parallelism where a device has all of them.
    fn kept(&self, configuration: usize) -> f64 {
        let Layer { saved, products, inputs, normed, scored, .. } = self.layer;
        let runtime = self.setting.runtime;
        let bytes = |[divided, whole]: &Activations| divided + whole * self.undivided();
        match configuration {
            0 => {
                let extra = (runtime.norms - 1.0) * bytes(normed) + (runtime.scores - 1.0) * bytes(scored);
                bytes(saved) + extra
            }
            1 => bytes(inputs) + bytes(products),
            _ => bytes(inputs),
        }
    }
}

/// Time of a collective, given the link, the number of devices and the bytes.
type Collective = fn(LinkDocument, u32, f64) -> f64;
