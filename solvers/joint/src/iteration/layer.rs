//! Costs of a layer under given degrees, from the shard on one device.

use stagewright_core::document::{JointPartsDocument, LinkDocument};

use super::collective::{exchange, gather, reduce};
use super::model::{Divided, Layer, Update, Work};
use super::pool::Pool;
use super::sharding::{Conversion, Layout, Need};
use super::table::{Configuration, Degrees, LayerCosts};

/// The shard of a layer on a device.
pub(super) struct LayerShard<'l> {
    layer: &'l Layer,
    /// Index of the kind of the device, and of its class.
    kind: usize,
    pool: &'l Pool,
    degrees: Degrees,
    /// Work on a microbatch, as a share of the work on the whole batch of the graph.
    share: f64,
}

/// Seconds of a microbatch on a layer.
struct Times {
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
    copies: CopyTimes,
}

/// Seconds of the collectives over the copies of a layer, by the stage of ZeRO.
struct CopyTimes {
    /// Gathers of parameters, in each of the two passes.
    gathers: f64,
    /// Scatters of gradients, with the weight gradients.
    scatters: f64,
    /// Collectives after the last microbatch.
    last: f64,
}

impl Times {
    fn forward(&self) -> f64 {
        self.forward + self.conversions + self.exchanges + self.copies.gathers
    }

    fn backward(&self) -> f64 {
        self.input_gradients + self.conversions + self.exchanges + self.copies.gathers
    }

    fn weight(&self) -> f64 {
        self.weight_gradients + self.gathered_again + self.copies.scatters
    }

    /// The part of the forward pass that a configuration recomputes in the backward pass.
    fn recomputed(&self, configuration: usize) -> f64 {
        match configuration {
            0 => 0.0,
            1 => self.no_products,
            _ => self.forward + self.conversions + self.exchanges,
        }
    }
}

impl<'l> LayerShard<'l> {
    /// The shard of `layer`, in a graph with a batch of `samples`, on a device of `pool`, the kind with index `kind`.
    pub(super) fn new(
        samples: f64,
        layer: &'l Layer,
        kind: usize,
        pool: &'l Pool,
        degrees: Degrees,
    ) -> LayerShard<'l> {
        let share = f64::from(degrees.microbatch) / (samples * f64::from(degrees.tensor));
        LayerShard { layer, kind, pool, degrees, share }
    }

    /// Costs of the layer. `allowed` lists the configurations of numbered layers, the fastest first; `is_split` states
    /// whether weight gradients run separately from the backward pass. O(operators of the layer).
    pub(super) fn costs(&self, allowed: &[usize], is_split: bool) -> LayerCosts {
        let (layer, zero) = (self.layer, self.degrees.zero);
        let times = self.times();
        let parts = JointPartsDocument {
            compute_s: times.forward + times.input_gradients + times.weight_gradients,
            tensor_s: 2.0 * times.conversions + times.gathered_again,
            expert_s: 2.0 * times.exchanges,
            zero_s: 2.0 * times.copies.gathers + times.copies.scatters,
            parameter_bytes: self.bytes(&layer.parameters, zero >= 3),
            gradient_bytes: self.bytes(&layer.gradients, zero >= 2),
            optimizer_bytes: self.bytes(&layer.states, zero >= 1),
            ..JointPartsDocument::default()
        };
        let updates: f64 = layer.updates[self.kind].iter().map(|update| self.update(update)).sum();
        LayerCosts {
            class: layer.class,
            forward: times.forward(),
            configurations: self.configurations(&times, allowed, is_split),
            state: parts.parameter_bytes + parts.gradient_bytes + parts.optimizer_bytes,
            update: updates + times.copies.last,
            parts,
        }
    }

    fn times(&self) -> Times {
        let (layer, kind) = (self.layer, self.kind);
        let no_products = layer.forward[kind].iter().filter(|(_, is_product)| !is_product);
        Times {
            forward: self.seconds(layer.forward[kind].iter().map(|(work, _)| work)),
            no_products: self.seconds(no_products.map(|(work, _)| work)),
            input_gradients: self.seconds(&layer.backward[kind]),
            weight_gradients: self.seconds(&layer.weights[kind]),
            conversions: layer.conversions.iter().map(|conversion| self.convert(conversion)).sum(),
            gathered_again: self.gather_again(),
            exchanges: self.exchanges(),
            copies: self.copy_times(),
        }
    }

    fn seconds<'w>(&self, works: impl IntoIterator<Item = &'w Work>) -> f64 {
        works.into_iter().map(|work| work.seconds(self.share)).sum()
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
        let (link, bytes) = (self.pool.link_of(devices.into()), self.whole(conversion));
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
        let link = self.pool.link_of(devices.into());
        let gathered = self.layer.conversions.iter().filter(|conversion| conversion.to == Need::Whole);
        gathered.map(|conversion| gather(link, devices, self.whole(conversion))).sum()
    }

    /// Time of the exchanges with experts in a pass.
    fn exchanges(&self) -> f64 {
        let Degrees { tensor, expert, .. } = self.degrees;
        if expert == 1 {
            return 0.0;
        }
        let link = self.pool.link_of(u64::from(tensor) * u64::from(expert));
        let exchanged = |bytes: &f64| exchange(link, expert, bytes * self.share * f64::from(expert));
        self.layer.exchanges.iter().filter(|&&bytes| bytes > 0.0).map(exchanged).sum()
    }

    fn copy_times(&self) -> CopyTimes {
        let Layer { parameters, gradients, .. } = self.layer;
        let over_copies = |divided: &Divided, collective: Collective| self.over_copies(divided, collective);
        let (gathers, scatters, last) = match self.degrees.zero {
            0 => (0.0, 0.0, over_copies(gradients, reduce)),
            1 => (0.0, 0.0, over_copies(gradients, gather) + over_copies(parameters, gather)),
            2 => (0.0, over_copies(gradients, gather), over_copies(parameters, gather)),
            _ => (over_copies(parameters, gather), over_copies(gradients, gather), 0.0),
        };
        CopyTimes { gathers, scatters, last }
    }

    /// Time of a collective over the copies of the layer's state on each device.
    fn over_copies(&self, divided: &Divided, collective: Collective) -> f64 {
        let link = self.pool.link_of(u64::from(self.degrees.tensor) * u64::from(self.degrees.data));
        let moved = self.shards(divided).into_iter().filter(|&(bytes, copies)| bytes > 0.0 && copies > 1);
        moved.map(|(bytes, copies)| collective(link, copies, bytes)).sum()
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

    /// Number of copies of an expert, or of any other state.
    fn copies(&self, is_expert: bool) -> u32 {
        let Degrees { data, expert, .. } = self.degrees;
        if is_expert { data / expert } else { data }
    }

    /// Time of an update.
    fn update(&self, update: &Update) -> f64 {
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
        update.work.seconds(1.0) * part
    }

    /// Configurations that the layer may have.
    fn configurations(&self, times: &Times, allowed: &[usize], is_split: bool) -> Vec<Configuration> {
        let configuration = |index: usize| self.configuration(times, index, is_split && index == 0);
        match (self.layer.is_numbered, allowed) {
            (false, _) => vec![configuration(0)],
            (true, &[given]) => vec![configuration(given)],
            // A configuration that saves no memory over the first is useless.
            (true, allowed) => {
                let is_useful = |&&index: &&usize| index == 0 || self.kept(index) < self.kept(0) || is_split;
                allowed.iter().filter(is_useful).map(|&index| configuration(index)).collect()
            }
        }
    }

    /// The configuration with an index, with weight gradients separate from the backward pass or included in it.
    fn configuration(&self, times: &Times, index: usize, is_apart: bool) -> Configuration {
        let parameters = match self.degrees.zero {
            3 => self.bytes(&self.layer.parameters, false),
            _ => 0.0,
        };
        let own = self.layer.workspace * self.share + parameters;
        let (backward, weight) = (times.backward(), times.weight());
        Configuration {
            index: index as u32,
            backward: if is_apart { backward } else { backward + weight + times.recomputed(index) },
            weight: if is_apart { weight } else { 0.0 },
            is_apart,
            activations: self.kept(index) * self.share,
            workspace: own + (self.kept(0) - self.kept(index)).max(0.0) * self.share,
        }
    }

    /// Bytes of activations that a configuration keeps, for the whole batch of the graph.
    fn kept(&self, configuration: usize) -> f64 {
        match configuration {
            0 => self.layer.saved,
            1 => self.layer.inputs + self.layer.products,
            _ => self.layer.inputs,
        }
    }
}

/// Time of a collective, given the link, the number of devices and the bytes.
type Collective = fn(LinkDocument, u32, f64) -> f64;
