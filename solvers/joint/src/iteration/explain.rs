//! What the time and memory of a plan are for, and what is missing where there is none.

use std::ops::Range;

use super::model::Layer;
use super::search::{Combination, Space};
use super::table::{Configuration, Degrees, InFlight, Parts};

/// A stage of a plan.
pub(crate) struct Listed {
    pub(crate) layers: Range<usize>,
    pub(crate) pool: usize,
    pub(crate) in_flight: InFlight,
    /// Configuration of every layer.
    pub(crate) configurations: Vec<usize>,
}

impl Space<'_> {
    /// What is missing for the least memory of all combinations.
    pub(crate) fn shortage(&self, combinations: &[Combination]) -> String {
        let gigabytes = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
        let mut least: Option<(f64, String)> = None;
        for combination in combinations {
            let costs = self.costs(combination);
            for (at, pool) in self.pools.iter().enumerate() {
                let stages = combination.most_stages(at, self.pools, self.model.layers.len());
                if stages == 0 || combination.stages.is_some_and(|given| given > stages) {
                    continue;
                }
                let memory = |layer: &Layer| {
                    let costs = &costs[at][&layer.class];
                    let of = |one: &Configuration| one.activations + one.workspace;
                    let open = costs.configurations.iter().map(of).fold(f64::INFINITY, f64::min);
                    costs.state + open
                };
                let layers = &self.model.layers;
                let state: f64 = layers.iter().map(|layer| costs[at][&layer.class].state).sum();
                let largest = layers.iter().max_by(|a, b| memory(a).total_cmp(&memory(b)));
                let Some(largest) = largest else { continue };
                // A device has its share of the states, and room for the largest layer.
                let share = state / f64::from(stages);
                let needed = share.max(memory(largest));
                if least.as_ref().is_none_or(|least| needed < least.0) {
                    let Degrees { microbatch, data, zero, .. } = combination.degrees;
                    let what = match share > memory(largest) {
                        true => "the states of the model need".to_owned(),
                        false => format!("the layer {} needs", largest.name),
                    };
                    let text = format!(
                        "a device of kind {} has {}; {what} at least {} of each at tp {}, dp {data}, {stages} stages, \
                         ZeRO {zero} and a microbatch of {microbatch}",
                        pool.name,
                        gigabytes(pool.capacity),
                        gigabytes(needed),
                        combination.tensor[at],
                    );
                    least = Some((needed, text));
                }
            }
        }
        least.map_or_else(|| "there are too few devices for the degrees".into(), |least| least.1)
    }

    /// Times and bytes of stages by part.
    pub(crate) fn parts(&self, combination: &Combination, stages: &[Listed]) -> Vec<Parts> {
        let costs = self.costs(combination);
        let of = |Listed { layers, pool, in_flight, configurations }: &Listed| {
            let mut sum = Parts::default();
            for (layer, &wanted) in self.model.layers[layers.clone()].iter().zip(configurations) {
                let costs = &costs[*pool][&layer.class];
                let parts = &costs.parts;
                sum.compute_s += parts.compute_s;
                sum.tensor_s += parts.tensor_s;
                sum.expert_s += parts.expert_s;
                sum.zero_s += parts.zero_s;
                sum.parameter_bytes += parts.parameter_bytes;
                sum.gradient_bytes += parts.gradient_bytes;
                sum.optimizer_bytes += parts.optimizer_bytes;
                if let Some(one) = costs.configurations.iter().find(|one| one.index as usize == wanted) {
                    let both_passes = parts.compute_s + parts.tensor_s + parts.expert_s + parts.zero_s;
                    sum.recompute_s += costs.forward + one.behind() - both_passes;
                    sum.activation_bytes += one.held(*in_flight);
                    sum.workspace_bytes = sum.workspace_bytes.max(one.workspace);
                }
            }
            sum
        };
        stages.iter().map(of).collect()
    }
}
