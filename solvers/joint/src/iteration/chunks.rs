//! Configurations for the layers of a device with several stages, the chunks of an interleaved pipeline, which share
//! the memory of the device.
//!
//! The memory constraint is priced. At a price, each layer independently takes the configuration that minimises its time
//! plus the price of its memory; at the lowest price at which all fit together, they are nearly the fastest that fit
//! (Everett, "Generalized Lagrange Multiplier Method for Solving Problems of Optimum Allocation of Resources", 1963).

use super::table::{Configuration, LayerCosts};

/// Factor between successive prices, from one second per byte, until all configurations fit.
const PRICE_FACTOR: f64 = 1e6;

/// Price in seconds per byte above the savings of any layer.
const HIGHEST_PRICE: f64 = 1e30;

/// Steps of the search for the lowest price.
const STEPS: usize = 80;

/// The layers of a device.
pub(super) struct Chunks<'s> {
    /// Layers, and the chunk of each.
    layers: Vec<(usize, &'s LayerCosts)>,
    /// Undominated vectors of the numbers of microbatches in flight on the chunks.
    in_flight: &'s [Vec<f64>],
    /// Maximum number of microbatches in flight on each chunk.
    peak: Vec<f64>,
    /// Bytes of the layers' states.
    state: f64,
    capacity: f64,
}

impl<'s> Chunks<'s> {
    /// Chunks with the layers of `ranges`, on a device with `capacity` bytes of memory.
    pub(super) fn new(
        layers: &[&'s LayerCosts],
        ranges: &[(usize, usize)],
        in_flight: &'s [Vec<f64>],
        capacity: f64,
    ) -> Chunks<'s> {
        let of_chunk = |(chunk, &(first, end)): (usize, &(usize, usize))| {
            layers[first..end].iter().map(move |&layer| (chunk, layer))
        };
        let layers: Vec<(usize, &LayerCosts)> = ranges.iter().enumerate().flat_map(of_chunk).collect();
        let peak = |chunk: usize| in_flight.iter().map(|counts| counts[chunk]).fold(0.0, f64::max);
        Chunks {
            in_flight,
            peak: (0..ranges.len()).map(peak).collect(),
            state: layers.iter().map(|(_, layer)| layer.state).sum(),
            capacity,
            layers,
        }
    }

    /// Positions of configurations that fit, for every layer: those at the lowest price of memory, and faster ones that
    /// still fit. `None` if no choice fits.
    pub(super) fn choose(&self) -> Option<Vec<usize>> {
        let fastest = self.at_price(0.0);
        if self.fits(&fastest) {
            return Some(fastest);
        }
        let mut chosen = match self.at_high_price() {
            Some((price, chosen)) => self.at_least_price(price, chosen),
            None => self.least_memory()?,
        };
        self.quicken(&mut chosen);
        Some(chosen)
    }

    /// Bytes in use with the configurations chosen.
    pub(super) fn memory(&self, chosen: &[usize]) -> f64 {
        let mut bytes = vec![0.0; self.peak.len()];
        let mut workspace = 0.0f64;
        for (&(chunk, layer), &choice) in self.layers.iter().zip(chosen) {
            bytes[chunk] += layer.configurations[choice].activations;
            workspace = workspace.max(layer.configurations[choice].workspace);
        }
        let held = |counts: &Vec<f64>| counts.iter().zip(&bytes).map(|(count, bytes)| count * bytes).sum();
        self.state + self.in_flight.iter().map(held).fold(0.0, f64::max) + workspace
    }

    fn fits(&self, chosen: &[usize]) -> bool {
        self.memory(chosen) <= self.capacity
    }

    /// The configurations that minimise time plus priced memory, for a price in seconds per byte.
    fn at_price(&self, price: f64) -> Vec<usize> {
        self.cheapest(|chunk, configuration| {
            configuration.behind()
                + price * (self.peak[chunk] * configuration.activations + configuration.workspace)
        })
    }

    /// The cheapest configuration for each layer.
    fn cheapest(&self, cost: impl Fn(usize, &Configuration) -> f64) -> Vec<usize> {
        let cheapest = |&(chunk, layer): &(usize, &LayerCosts)| {
            let costs = layer.configurations.iter().map(|configuration| cost(chunk, configuration));
            costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
        };
        self.layers.iter().map(cheapest).collect()
    }

    /// A price at which all configurations fit, and these configurations.
    fn at_high_price(&self) -> Option<(f64, Vec<usize>)> {
        let mut price = 1.0;
        loop {
            let chosen = self.at_price(price);
            if self.fits(&chosen) {
                return Some((price, chosen));
            }
            if price >= HIGHEST_PRICE {
                return None;
            }
            price *= PRICE_FACTOR;
        }
    }

    /// Configurations at the lowest price at which all fit. At the price `high`, the configurations `chosen` all fit.
    fn at_least_price(&self, mut high: f64, mut chosen: Vec<usize>) -> Vec<usize> {
        let mut low = 0.0f64;
        for _ in 0..STEPS {
            let middle = if low == 0.0 { high / 16.0 } else { (low * high).sqrt() };
            let next = self.at_price(middle);
            if !self.fits(&next) {
                low = middle;
            } else if next == chosen && low > 0.0 {
                break;
            } else {
                (high, chosen) = (middle, next);
            }
        }
        chosen
    }

    /// Configurations for the case that none fit at any price, which happens because workspaces are not summed over
    /// layers: for each possible maximum workspace, those with the minimum activations.
    fn least_memory(&self) -> Option<Vec<usize>> {
        let configurations = self.layers.iter().flat_map(|(_, layer)| &layer.configurations);
        let within = |limit: f64| {
            self.cheapest(|chunk, configuration| match configuration.workspace <= limit {
                true => self.peak[chunk] * configuration.activations,
                false => f64::INFINITY,
            })
        };
        configurations.map(|configuration| within(configuration.workspace)).find(|chosen| self.fits(chosen))
    }

    /// Gives each layer in turn the fastest configuration with which all layers still fit.
    fn quicken(&self, chosen: &mut [usize]) {
        for layer in 0..chosen.len() {
            for faster in 0..chosen[layer] {
                let slower = std::mem::replace(&mut chosen[layer], faster);
                if self.fits(chosen) {
                    break;
                }
                chosen[layer] = slower;
            }
        }
    }
}
