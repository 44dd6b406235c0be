//! The time and memory of a stage.

use stagewright_core::tolerance::MEMORY_RELATIVE;

use crate::choice::{self, Candidate, Choice, Outcome};
use crate::sample::problem::{Configuration, Problem};

/// Maximum error of a sum of a few thousand terms and differences, relative to the sum of the terms.
const ROUNDING: f64 = 1e-12;

/// A stage, given by its layers.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'s> {
    /// Layers of the stage.
    pub(crate) layers: &'s [usize],
    /// Whether a layer is in this stage.
    pub(crate) is_inside: &'s [bool],
}

/// Degrees of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Degrees {
    /// Index of the degree of tensor parallelism.
    pub(crate) tensor: usize,
    /// Number of copies.
    pub(crate) copies: u32,
}

impl Problem {
    /// Seconds of a configuration of a layer in a stage.
    fn seconds(&self, stage: Stage<'_>, layer: usize, configuration: &Configuration, copies: u32) -> f64 {
        let crossing = |edges: &[usize], seconds: &[f64], is_source: bool| -> f64 {
            edges
                .iter()
                .zip(seconds)
                .filter(|&(&edge, _)| {
                    let edge = self.edges[edge];
                    !stage.is_inside[if is_source { edge.source } else { edge.target }]
                })
                .map(|(_, seconds)| seconds)
                .sum()
        };
        let transfers = crossing(&self.inputs[layer], &configuration.input_seconds, true)
            + crossing(&self.outputs[layer], &configuration.output_seconds, false);
        (configuration.seconds + transfers) / f64::from(copies)
            + configuration.parameters * self.synchronisation(copies)
    }

    /// The configurations of every layer of a stage, with the memory of `in_flight` microbatches.
    fn candidates(&self, stage: Stage<'_>, degrees: Degrees, in_flight: u32) -> Vec<Vec<Candidate>> {
        let of_layer = |&layer: &usize| -> Vec<Candidate> {
            let configurations = &self.layers[layer].configurations[degrees.tensor];
            let candidate = |(index, configuration): (usize, &Configuration)| Candidate {
                seconds: self.seconds(stage, layer, configuration, degrees.copies),
                bytes: configuration.activations * f64::from(in_flight) + configuration.fixed,
                workspace: configuration.workspace,
                index: index as u32,
            };
            configurations.iter().enumerate().map(candidate).collect()
        };
        stage.layers.iter().map(of_layer).collect()
    }

    /// Finds a choice of configurations that takes at most `cutoff` seconds: the fastest, or any that takes at most
    /// `enough` seconds.
    pub(crate) fn choose(
        &self,
        stage: Stage<'_>,
        degrees: Degrees,
        in_flight: u32,
        enough: f64,
        cutoff: f64,
    ) -> Outcome {
        let candidates = self.candidates(stage, degrees, in_flight);
        // In most stages that are fast enough, the fastest configurations fit.
        let fastest: Vec<Candidate> = candidates
            .iter()
            .filter_map(|options| {
                options.iter().copied().min_by(|a, b| {
                    a.seconds
                        .total_cmp(&b.seconds)
                        .then((a.bytes + a.workspace).total_cmp(&(b.bytes + b.workspace)))
                })
            })
            .collect();
        if fastest.len() < candidates.len() {
            return Outcome::Above(f64::INFINITY);
        }
        let seconds: f64 = fastest.iter().map(|option| option.seconds).sum();
        if seconds > cutoff {
            return Outcome::Above(seconds);
        }
        let capacity = self.capacity();
        let bytes: f64 = fastest.iter().map(|option| option.bytes).sum();
        let workspace = fastest.iter().map(|option| option.workspace).fold(0.0, f64::max);
        if bytes + workspace <= capacity {
            let configurations = fastest.iter().map(|option| option.index).collect();
            return Outcome::Found(Choice { seconds, configurations, is_best: true });
        }
        choice::least(&candidates, capacity, enough, cutoff)
    }

    /// Bytes that a stage may use, with the tolerance of sums.
    pub(crate) fn capacity(&self) -> f64 {
        self.memory * (1.0 + MEMORY_RELATIVE)
    }

    /// Bytes of a stage whose configurations are given by their positions among those of the degree.
    pub(crate) fn bytes(&self, layers: &[usize], tensor: usize, chosen: &[u32], in_flight: u32) -> f64 {
        let chosen = || {
            layers
                .iter()
                .zip(chosen)
                .map(|(&layer, &choice)| &self.layers[layer].configurations[tensor][choice as usize])
        };
        let bytes: f64 = chosen()
            .map(|configuration| configuration.activations * f64::from(in_flight) + configuration.fixed)
            .sum();
        bytes + chosen().map(|configuration| configuration.workspace).fold(0.0, f64::max)
    }
}

/// Lower bounds on the sums over the layers of a growing stage, by degree of tensor parallelism.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    /// Number of layers without a configuration.
    missing: u32,
    /// Minimum seconds of the layers.
    pub(crate) seconds: f64,
    /// Minimum seconds of transfers across the ends of the stage: a sum of terms and of differences.
    pub(crate) transfers: f64,
    /// Sum of the terms; the error of the transfers is at most a small fraction of it.
    terms: f64,
    /// Minimum bytes of parameters.
    pub(crate) parameters: f64,
    /// Minimum bytes with one microbatch in flight.
    bytes: f64,
    /// Minimum bytes per microbatch in flight, and minimum bytes independent of them.
    activations: f64,
    fixed: f64,
    /// Whether the configurations of some layer differ in more than time and memory, so that the extremes are unknown.
    is_open: bool,
    /// The fastest configurations, and those with the smallest activations.
    fast: Extreme,
    small: Extreme,
}

/// The sums of one configuration of every layer.
#[derive(Debug, Clone, Copy, Default)]
struct Extreme {
    seconds: f64,
    activations: f64,
    fixed: f64,
    workspace: f64,
}

impl Extreme {
    fn of(configuration: &Configuration) -> Extreme {
        Extreme {
            seconds: configuration.seconds,
            activations: configuration.activations,
            fixed: configuration.fixed,
            workspace: configuration.workspace,
        }
    }

    fn add(&mut self, other: &Extreme) {
        self.seconds += other.seconds;
        self.activations += other.activations;
        self.fixed += other.fixed;
        self.workspace = self.workspace.max(other.workspace);
    }

    fn bytes(&self, in_flight: u32) -> f64 {
        self.activations * f64::from(in_flight) + self.fixed + self.workspace
    }
}

/// Minimum figures of every layer, by degree.
pub(crate) struct Least {
    /// `[layer][degree]`: the figures of the layer alone, with all its transfers.
    alone: Vec<Vec<Option<Sums>>>,
    /// `[layer][degree][input]`: least seconds of transfers.
    inputs: Vec<Vec<Vec<f64>>>,
    /// `[layer][degree][output]`: least seconds of transfers.
    outputs: Vec<Vec<Vec<f64>>>,
    /// Minimum device seconds of every layer: seconds times devices.
    pub(crate) device_seconds: Vec<f64>,
}

impl Least {
    /// Computes the minimum figures. O(configurations · edges of their layers).
    pub(crate) fn new(problem: &Problem) -> Least {
        let mut alone = Vec::with_capacity(problem.layers.len());
        let (mut inputs, mut outputs, mut device_seconds) = (Vec::new(), Vec::new(), Vec::new());
        for (index, layer) in problem.layers.iter().enumerate() {
            let each = |edges: &[usize], seconds: fn(&Configuration, usize) -> f64| -> Vec<Vec<f64>> {
                let of_degree = |configurations: &Vec<Configuration>| {
                    let edges = 0..edges.len();
                    edges.map(|edge| least(configurations, |option| seconds(option, edge))).collect()
                };
                layer.configurations.iter().map(of_degree).collect()
            };
            inputs.push(each(&problem.inputs[index], |option, input| option.input_seconds[input]));
            outputs.push(each(&problem.outputs[index], |option, output| option.output_seconds[output]));
            let of_layer: Vec<Option<Sums>> =
                layer.configurations.iter().map(|configurations| Sums::of_layer(configurations)).collect();
            let on_devices = of_layer
                .iter()
                .zip(&problem.degrees)
                .filter_map(|(sums, &degree)| sums.map(|sums| sums.seconds * f64::from(degree)));
            device_seconds.push(on_devices.fold(f64::INFINITY, f64::min));
            alone.push(of_layer);
        }
        Least { alone, inputs, outputs, device_seconds }
    }

    /// Adds a layer to a stage; `is_inside` states for each layer whether it is already in the stage.
    pub(crate) fn add(&self, problem: &Problem, sums: &mut [Sums], layer: usize, is_inside: &[bool]) {
        for (degree, sums) in sums.iter_mut().enumerate() {
            let Some(alone) = self.alone[layer][degree] else {
                sums.missing += 1;
                continue;
            };
            if sums.missing > 0 {
                continue;
            }
            sums.seconds += alone.seconds;
            sums.parameters += alone.parameters;
            sums.bytes += alone.bytes;
            sums.activations += alone.activations;
            sums.fixed += alone.fixed;
            sums.is_open |= alone.is_open;
            sums.fast.add(&alone.fast);
            sums.small.add(&alone.small);
            let inputs: f64 = self.inputs[layer][degree].iter().sum();
            sums.transfers += inputs;
            sums.terms += inputs;
            for (&edge, &seconds) in problem.outputs[layer].iter().zip(&self.outputs[layer][degree]) {
                let target = problem.edges[edge].target;
                match is_inside[target] {
                    true => {
                        let input = problem.inputs[target].iter().position(|&input| input == edge);
                        sums.transfers -= input.map_or(0.0, |input| self.inputs[target][degree][input]);
                    }
                    false => {
                        sums.transfers += seconds;
                        sums.terms += seconds;
                    }
                }
            }
        }
    }
}

/// Minimum figure over some configurations.
fn least(configurations: &[Configuration], figure: impl Fn(&Configuration) -> f64) -> f64 {
    configurations.iter().map(figure).fold(f64::INFINITY, f64::min)
}

impl Sums {
    /// Minimum figures of a layer alone, without its transfers; `None` without configurations.
    fn of_layer(configurations: &[Configuration]) -> Option<Sums> {
        let first = configurations.first()?;
        let extreme = |figure: fn(&Configuration) -> (f64, f64)| {
            let by_figure = |a: &&Configuration, b: &&Configuration| {
                let (a, b) = (figure(a), figure(b));
                a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
            };
            configurations.iter().min_by(by_figure).map_or_else(Extreme::default, Extreme::of)
        };
        Some(Sums {
            missing: 0,
            seconds: least(configurations, |configuration| configuration.seconds),
            transfers: 0.0,
            terms: 0.0,
            parameters: least(configurations, |configuration| configuration.parameters),
            bytes: least(configurations, |configuration| configuration.activations + configuration.fixed),
            activations: least(configurations, |configuration| configuration.activations),
            fixed: least(configurations, |configuration| configuration.fixed),
            is_open: configurations.iter().any(|configuration| {
                configuration.parameters != first.parameters
                    || configuration.input_seconds != first.input_seconds
                    || configuration.output_seconds != first.output_seconds
            }),
            fast: extreme(|configuration| {
                (
                    configuration.seconds,
                    configuration.activations + configuration.fixed + configuration.workspace,
                )
            }),
            small: extreme(|configuration| (configuration.activations, configuration.seconds)),
        })
    }

    /// Minimum seconds of the stage, and of every stage that contains its layers.
    pub(crate) fn seconds(&self, problem: &Problem, copies: u32) -> (f64, f64) {
        if self.missing > 0 {
            return (f64::INFINITY, f64::INFINITY);
        }
        let synchronisation = self.parameters * problem.synchronisation(copies);
        let copies = f64::from(copies);
        let transfers = (self.transfers - self.terms * ROUNDING).max(0.0);
        ((self.seconds + transfers) / copies + synchronisation, self.seconds / copies + synchronisation)
    }

    /// Whether a choice within a time and the memory exists, if the extremes decide that.
    pub(crate) fn decide(&self, problem: &Problem, copies: u32, in_flight: u32, limit: f64) -> Option<bool> {
        let least = self.activations * f64::from(in_flight) + self.fixed;
        if least * (1.0 - MEMORY_RELATIVE) > problem.capacity() {
            return Some(false);
        }
        let fits = |extreme: &Extreme| {
            let sums = Sums { seconds: extreme.seconds, ..*self };
            // An upper bound on the time.
            let error = 2.0 * self.terms * ROUNDING / f64::from(copies);
            extreme.bytes(in_flight) <= problem.capacity() && sums.seconds(problem, copies).0 + error <= limit
        };
        // Time and memory are summed in a different order from those of a plan, whose configurations are chosen anew.
        (!self.is_open && (fits(&self.fast) || fits(&self.small))).then_some(true)
    }

    /// Whether one microbatch exceeds the memory of a device, in this stage and in every larger stage.
    pub(crate) fn is_too_large(&self, problem: &Problem) -> bool {
        self.missing > 0 || self.bytes * (1.0 - MEMORY_RELATIVE) > problem.capacity()
    }
}
