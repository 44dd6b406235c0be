//! Configurations for the layers of a device with several stages, its chunks, which share the memory of the device.
//!
//! The memory constraint is priced. At a price, each layer independently takes the configuration that minimises its time
//! plus the price of its memory; at the lowest price at which all fit together, they are nearly the fastest that fit
//! (Everett, "Generalized Lagrange Multiplier Method for Solving Problems of Optimum Allocation of Resources", 1963).

use super::table::{Configuration, LayerCosts, Room};

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
    /// Whether passes of two chunks run beside each other.
    is_paired: bool,
    /// Bytes of the layers' states, on the device and on its host.
    state: [f64; 2],
    room: Room,
}

impl<'s> Chunks<'s> {
    /// Chunks with the layers of `ranges`, on a device with `room`; `is_paired` states whether passes of two chunks run beside
    /// each other.
    pub(super) fn new(
        layers: &[&'s LayerCosts],
        ranges: &[(usize, usize)],
        in_flight: &'s [Vec<f64>],
        room: Room,
        is_paired: bool,
    ) -> Chunks<'s> {
        let of_chunk = |(chunk, &(first, end)): (usize, &(usize, usize))| {
            layers[first..end].iter().map(move |&layer| (chunk, layer))
        };
        let layers: Vec<(usize, &LayerCosts)> = ranges.iter().enumerate().flat_map(of_chunk).collect();
        let peak = |chunk: usize| in_flight.iter().map(|counts| counts[chunk]).fold(0.0, f64::max);
        Chunks {
            in_flight,
            peak: (0..ranges.len()).map(peak).collect(),
            state: [
                layers.iter().map(|(_, layer)| layer.state).sum(),
                layers.iter().map(|(_, layer)| layer.host).sum(),
            ],
            room,
            is_paired,
            layers,
        }
    }

    /// Positions of configurations that fit, for every layer: those at the lowest price of memory, and faster ones that
    /// still fit. If their activations exceed the host's memory, those without any there, and faster ones. `None` if no
    /// choice is found.
    pub(super) fn choose(&self) -> Option<Vec<usize>> {
        let chosen = self.within(f64::INFINITY)?;
        match self.used(&chosen)[1] <= self.room.host {
            true => Some(chosen),
            false => self.within(self.room.host),
        }
    }

    /// Whether some choice fits, if activations take nothing of the host's memory.
    pub(super) fn may_fit(&self) -> bool {
        self.state[1] <= self.room.host && self.within(f64::INFINITY).is_some()
    }

    /// A choice within a number of bytes on the host. If that is finite, the search begins without activations there.
    fn within(&self, host: f64) -> Option<Vec<usize>> {
        let fastest = self.at_price(0.0, host);
        if self.fits(&fastest, host) {
            return Some(fastest);
        }
        let mut chosen = match self.at_high_price(host) {
            Some((price, chosen)) => self.at_least_price(price, chosen, host),
            None => self.least_memory(host)?,
        };
        self.quicken(&mut chosen, host);
        Some(chosen)
    }

    /// Bytes in use with the configurations chosen, of the device and of its host.
    pub(super) fn used(&self, chosen: &[usize]) -> [f64; 2] {
        let mut bytes = [vec![0.0; self.peak.len()], vec![0.0; self.peak.len()]];
        let mut workspaces = vec![0.0f64; self.peak.len()];
        for (&(chunk, layer), &choice) in self.layers.iter().zip(chosen) {
            let configuration = &layer.configurations[choice];
            bytes[0][chunk] += configuration.activations;
            bytes[1][chunk] += configuration.host;
            workspaces[chunk] = workspaces[chunk].max(configuration.workspace);
        }
        let workspace = match self.is_paired {
            true => workspaces.iter().sum(),
            false => workspaces.into_iter().fold(0.0, f64::max),
        };
        let most = bytes.map(|bytes| {
            let held =
                |counts: &Vec<f64>| counts.iter().zip(&bytes).map(|(count, bytes)| count * bytes).sum();
            self.in_flight.iter().map(held).fold(0.0, f64::max)
        });
        [self.state[0] + most[0] + workspace, self.state[1] + most[1]]
    }

    fn fits(&self, chosen: &[usize], most_on_host: f64) -> bool {
        let [device, host] = self.used(chosen);
        device <= self.room.device && host <= most_on_host
    }

    /// The configurations that minimise time plus priced memory, for a price in seconds per byte.
    fn at_price(&self, price: f64, host: f64) -> Vec<usize> {
        self.cheapest(host, |chunk, configuration| {
            configuration.behind()
                + price * (self.peak[chunk] * configuration.activations + configuration.workspace)
        })
    }

    /// The cheapest configuration for each layer, without activations on the host if its memory is limited.
    fn cheapest(&self, host: f64, cost: impl Fn(usize, &Configuration) -> f64) -> Vec<usize> {
        let cost = |chunk: usize, configuration: &Configuration| match host.is_finite()
            && configuration.host > 0.0
        {
            true => f64::INFINITY,
            false => cost(chunk, configuration),
        };
        let cheapest = |&(chunk, layer): &(usize, &LayerCosts)| {
            let costs = layer.configurations.iter().map(|configuration| cost(chunk, configuration));
            costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
        };
        self.layers.iter().map(cheapest).collect()
    }

    /// A price at which all configurations fit, and these configurations.
    fn at_high_price(&self, host: f64) -> Option<(f64, Vec<usize>)> {
        let mut price = 1.0;
        loop {
            let chosen = self.at_price(price, host);
            if self.fits(&chosen, host) {
                return Some((price, chosen));
            }
            if price >= HIGHEST_PRICE {
                return None;
            }
            price *= PRICE_FACTOR;
        }
    }

    /// Configurations at the lowest price at which all fit. At the price `high`, the configurations `chosen` all fit.
    fn at_least_price(&self, mut high: f64, mut chosen: Vec<usize>, host: f64) -> Vec<usize> {
        let mut low = 0.0f64;
        for _ in 0..STEPS {
            let middle = if low == 0.0 { high / 16.0 } else { (low * high).sqrt() };
            let next = self.at_price(middle, host);
            if !self.fits(&next, host) {
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
    fn least_memory(&self, host: f64) -> Option<Vec<usize>> {
        let configurations = self.layers.iter().flat_map(|(_, layer)| &layer.configurations);
        let within = |limit: f64| {
            self.cheapest(host, |chunk, configuration| match configuration.workspace <= limit {
                true => self.peak[chunk] * configuration.activations,
                false => f64::INFINITY,
            })
        };
        configurations
            .map(|configuration| within(configuration.workspace))
            .find(|chosen| self.fits(chosen, host))
    }

    /// Gives each layer in turn the best configuration with which all layers still fit.
    fn quicken(&self, chosen: &mut [usize], host: f64) {
        for (place, &(_, layer)) in self.layers.iter().enumerate() {
            // With equal seconds, that with fewer bytes on the host is better.
            let compare = |left: &usize, right: &usize| {
                let [left, right] = [left, right].map(|&position| &layer.configurations[position]);
                left.behind().total_cmp(&right.behind()).then(left.host.total_cmp(&right.host))
            };
            let mut faster: Vec<usize> = (0..layer.configurations.len())
                .filter(|position| compare(position, &chosen[place]).is_lt())
                .collect();
            faster.sort_by(compare);
            for position in faster {
                let slower = std::mem::replace(&mut chosen[place], position);
                if self.fits(chosen, host) {
                    break;
                }
                chosen[place] = slower;
            }
        }
    }
}
