//! The check of a joint plan for a training graph: the time of one iteration, and the [`proof`] of its bound.

mod attention;
mod boundary;
mod collective;
mod configuration;
mod context;
mod cut;
mod devices;
mod execution;
mod experts;
mod heads;
mod host;
mod kinds;
mod membership;
mod memory;
mod model;
mod order;
mod proof;
mod runtime;
mod schedule;
mod sharding;
mod stage;
mod work;

use std::collections::BTreeMap;

use stagewright_core::document::{
    BatchDocument, CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, JointExecutionDocument,
    JointObjectiveKind, JointPlanDocument, Parallelism,
};
use stagewright_core::tolerance;

use super::claims::{self, Figures};
use super::placed::{self, Placed};
use super::rules::{self, Allowed};
use super::{JointReport, JointStageFigures, JointViolation};
use crate::error::CheckError;
use crate::read::{self, Cluster, Graph};
use configuration::Configuration;
use context::Limits;
use devices::Devices;
use host::Home;
use model::Model;
use order::Pipeline;
use runtime::Depth;
use stage::{Costs, Stage, Sums};
use work::Work;

/// Maximum number of passes of the schedule, since the checker simulates all of them.
const MOST_PASSES: u64 = 1 << 24;

/// Checks a joint plan for a training graph. O((operators + pins) · log + stages · (tensors + microbatches)), plus the
/// proof of a stated bound, whose steps are limited.
///
/// # Errors
/// If the documents do not describe a problem and a plan.
pub fn check_joint(
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    plan: &JointPlanDocument,
) -> Result<JointReport, CheckError> {
    rules::read_plan(plan, JointObjectiveKind::Iteration)?;
    if !graph.is_version_2() {
        read::schema("graph", &graph.schema, GRAPH_SCHEMA)?;
    }
    read::schema("cluster", &cluster.schema, CLUSTER_SCHEMA)?;
    let batch = graph.batch;
    let graph = Graph::read(graph)?;
    if !graph.has_backward {
        return Err(CheckError::Rule { rule: "the objective iteration", needs: "a backward pass" });
    }
    let cluster = Cluster::read(cluster)?;
    devices::read_servers(&cluster)?;
    host::read_hosts(&cluster)?;
    let mixed = devices::mixed_kinds(&cluster, plan)?;
    let mut violations = Vec::new();
    let figures = match claims::has_plan(plan) {
        true => figures(&graph, &cluster, plan, (batch, mixed), &mut violations)?,
        false => None,
    };
    Ok(claims::report(plan, figures, violations))
}

/// The figures of the plan; `None` if the plan does not describe a pipeline of this graph on this cluster.
fn figures(
    graph: &Graph,
    cluster: &Cluster,
    plan: &JointPlanDocument,
    (batch, mixed): (Option<BatchDocument>, Option<[usize; 2]>),
    violations: &mut Vec<JointViolation>,
) -> Result<Option<Figures>, CheckError> {
    let samples = batch.map_or(1.0, |batch| batch.samples.get() as f64);
    rules::check(plan, violations);
    let devices = devices::of_stages(cluster, plan, mixed, violations);
    let placed = placed::layers(plan, violations);
    let layers: Vec<(&str, Placed)> = placed.into_iter().collect();
    let layer_of = members(graph, &layers, violations);
    let configurations = configurations(plan, &layers, violations);
    let Some(execution) = &plan.execution else {
        let why = "the plan does not say how the stages run the batch".to_owned();
        violations.push(JointViolation::Stages { why });
        return Ok(None);
    };
    let (Some(layer_of), Some(configurations)) = (layer_of, configurations) else { return Ok(None) };
    if devices.len() != plan.stages.len() {
        return Ok(None);
    }
    let model =
        Model::new(graph, plan.objective.runtime.as_ref(), layer_of, layers.iter().map(|&(name, _)| name));
    execution::check(plan, execution, &model.experts, violations);
    execution::check_schedule(plan, execution, violations);
    let limits = Limits::new(graph, &model.kinds, &model.attention, model.runtime, batch);
    execution::check_context(plan, execution, &limits, violations);
    let heads = heads::heads(graph, &model.attention, batch);
    check_heads(&heads, &devices, execution, violations);
    let mut has_activations_on_host = vec![false; devices.len()];
    for ((_, placed), configuration) in layers.iter().zip(&configurations) {
        has_activations_on_host[placed.stage] |= *configuration == Configuration::Offload;
    }
    let homes = host::of_stages(&devices, execution, &has_activations_on_host, violations);
    cut::check(plan, &model, &layers, violations);
    if !violations.is_empty() {
        return Ok(None);
    }
    let pipeline = Pipeline {
        schedule: execution.schedule,
        devices: rules::pipeline(plan),
        chunks: rules::chunks(plan),
        microbatches: execution.microbatches as usize,
    };
    let passes = (pipeline.sorts() * plan.stages.len()) as u64;
    if passes.saturating_mul(u64::from(execution.microbatches)) > MOST_PASSES {
        return Err(CheckError::NotChecked { what: "a schedule of more than 16777216 passes" });
    }
    let found = Plan {
        model: &model,
        pipeline,
        devices: &devices,
        homes: &homes,
        has_activations_on_host: &has_activations_on_host,
        layers: &layers,
        configurations: &configurations,
    };
    let mut figures = found.figures(execution, samples, violations)?;
    let limit = figures.value * (1.0 + tolerance::VALUE_RELATIVE);
    if let Some(bound) = plan.bound.value_s.filter(|&bound| bound <= limit)
        && violations.is_empty()
    {
        let problem =
            proof::Problem { model: &model, cluster, plan, samples, heads: &heads, limits: &limits, mixed };
        figures.is_bound_proven = proof::proves(&problem, &layers, bound);
    }
    Ok(Some(figures))
}

/// Reports stages whose devices do not divide the heads of an attention.
fn check_heads(
    heads: &[u64],
    devices: &[Vec<Devices>],
    execution: &JointExecutionDocument,
    violations: &mut Vec<JointViolation>,
) {
    let divides = |divisor: u64, count: u64| divisor > 0 && count.is_multiple_of(divisor);
    for &count in heads {
        let tensors =
            devices.iter().enumerate().filter_map(|(index, sides)| Some((index, sides.first()?.tensor)));
        for (index, tensor) in tensors {
            let over = context::over_heads(tensor, execution.context, execution.exchange);
            let (name, found, needs) = if !divides(tensor, count) {
                ("tensor", tensor, format!("a divisor of the {count} heads of an attention"))
            } else if !divides(over, count) {
                let needs = format!("a divisor of {} of the {count} heads of an attention", count / tensor);
                ("context", u64::from(execution.context), needs)
            } else {
                continue;
            };
            violations.push(JointViolation::Degree { stage: Some(index), name, found, needs });
        }
    }
}

/// The layer of every operator. Reports operators in no layer and layers without operators.
fn members(
    graph: &Graph,
    layers: &[(&str, Placed)],
    violations: &mut Vec<JointViolation>,
) -> Option<Vec<usize>> {
    let listed: BTreeMap<&str, usize> =
        layers.iter().enumerate().map(|(layer, &(name, _))| (name, layer)).collect();
    let found = membership::layers(graph, &listed);
    let mut layer_of = Vec::with_capacity(found.len());
    let mut is_there = vec![false; layers.len()];
    for (operator, layer) in graph.operators.iter().zip(found) {
        match layer {
            Some(layer) => {
                layer_of.push(layer);
                is_there[layer] = true;
            }
            None => {
                let (operator, why) = (operator.name.clone(), "is in no layer of the plan".to_owned());
                violations.push(JointViolation::Operator { operator, why });
            }
        }
    }
    for (&(name, _), _) in layers.iter().zip(&is_there).filter(|(_, is_there)| !**is_there) {
        violations.push(JointViolation::Layer { layer: name.to_owned(), why: "is not in the graph" });
    }
    (layer_of.len() == graph.operators.len()).then_some(layer_of)
}

/// The configurations of the layers. Reports those that do not exist or are not allowed.
fn configurations(
    plan: &JointPlanDocument,
    layers: &[(&str, Placed)],
    violations: &mut Vec<JointViolation>,
) -> Option<Vec<Configuration>> {
    let allowed = Allowed::new(plan);
    let may_recompute = allowed.has(Parallelism::Recompute);
    let given = allowed.given(Parallelism::Recompute);
    let mut configurations = Vec::with_capacity(layers.len());
    for &(layer, Placed { configuration, .. }) in layers {
        let found = Configuration::named(configuration);
        configurations.extend(found);
        let why = match found {
            None => "does not exist",
            Some(found)
                if given.is_some_and(|given| given != found as u32) && membership::is_numbered(layer) =>
            {
                "is not the given one"
            }
            Some(Configuration::None) => continue,
            Some(_) if !may_recompute => "is not allowed without recompute",
            Some(_) if !membership::is_numbered(layer) => "is not allowed, since the layer has no number",
            Some(found) if !found.is_allowed(allowed) => {
                "is not allowed unless recompute and offload are free"
            }
            Some(_) => continue,
        };
        let (layer, configuration) = (layer.to_owned(), configuration.to_owned());
        violations.push(JointViolation::Configuration { layer, configuration, why });
    }
    (configurations.len() == layers.len()).then_some(configurations)
}

/// A plan whose layers, configurations and devices exist.
#[derive(Debug, Clone, Copy)]
struct Plan<'a> {
    model: &'a Model<'a>,
    pipeline: Pipeline,
    /// Devices of every stage, by kind.
    devices: &'a [Vec<Devices<'a>>],
    /// Where every stage has the states of the optimizer, by kind.
    homes: &'a [Vec<Home>],
    /// Whether a stage has activations on the host.
    has_activations_on_host: &'a [bool],
    layers: &'a [(&'a str, Placed<'a>)],
    configurations: &'a [Configuration],
}

impl Plan<'_> {
    /// The figures of the stages and the value. Reports operators that cannot run, tensors that contradict the order of
    /// the stages, and exceeded memory.
    fn figures(
        &self,
        execution: &JointExecutionDocument,
        samples: f64,
        violations: &mut Vec<JointViolation>,
    ) -> Result<Figures, CheckError> {
        let stages: Vec<Vec<Stage>> = self
            .devices
            .iter()
            .zip(self.homes)
            .map(|(sides, homes)| {
                let sides = sides.iter().zip(homes);
                sides
                    .map(|(&devices, &home)| Stage::new(devices, home, execution, samples, self.depth()))
                    .collect()
            })
            .collect();
        let mut sums = vec![Sums::default(); stages.len()];
        for (layer, (&(_, placed), &configuration)) in self.layers.iter().zip(self.configurations).enumerate()
        {
            let layer = &self.model.layers[layer];
            let mut costs: Option<Costs> = None;
            for (stage, devices) in stages[placed.stage].iter().zip(&self.devices[placed.stage]) {
                let work = Work::new(self.model, layer, devices.kind, violations);
                let on_kind = stage.costs(layer, &work, configuration)?;
                costs = Some(costs.map_or(on_kind, |costs| costs.beside(on_kind)));
            }
            sums[placed.stage].add(&costs.unwrap_or_default());
        }
        self.transfer(&stages, &mut sums, violations)?;

        let memory = memory::of_stages(&sums, &self.pipeline);
        // Each device of the pipeline runs exactly one of the first stages.
        for (stage, memory) in memory.iter().enumerate().take(self.pipeline.devices) {
            let is_version_2 = self.model.graph.is_version_2;
            let limits = self.devices[stage].iter().filter_map(|devices| devices.usable_memory(is_version_2));
            if let Some(limit) = limits.reduce(f64::min)
                && !tolerance::fits(memory.bytes, limit)
            {
                violations.push(JointViolation::Memory { stage, bytes: memory.bytes, limit });
            }
        }
        memory::check_hosts(self.devices, &memory, &self.pipeline, violations);
        let stages = sums.iter().zip(&memory).zip(self.has_activations_on_host);
        let figures = stages.map(|((sums, memory), &has_activations_on_host)| JointStageFigures {
            in_flight: memory.in_flight as u64,
            seconds: sums.passes.iter().sum(),
            forward_s: Some(sums.passes[0]),
            weight_s: Some(sums.passes[2]),
            update_s: Some(sums.update),
            memory_bytes: memory.bytes,
            state_bytes: Some(sums.state),
            host_bytes: (execution.offload || has_activations_on_host).then_some(memory.host[0]),
            activation_bytes: Some(memory.activations),
        });
        let times: Vec<_> = sums.iter().map(|sums| sums.passes).collect();
        // A device updates the parameters of all its stages.
        let mut updates = vec![0.0; self.pipeline.devices];
        for (stage, sums) in sums.iter().enumerate() {
            updates[self.pipeline.device(stage)] += sums.update;
        }
        let besides = self.model.runtime.map_or(0.0, |runtime| runtime.iteration_s);
        let value = schedule::seconds(&times, &updates, &self.pipeline) + besides;
        Ok(Figures { value, stages: figures.collect(), is_bound_proven: false })
    }

    /// Number of consecutive devices of the plan; of no limit if they are of different kinds, which are in different
    /// servers.
    fn span(&self) -> u64 {
        let mut names = self.devices.iter().flatten().map(|devices| &devices.kind.document.name);
        if let Some(first) = names.next()
            && names.any(|name| name != first)
        {
            return u64::MAX;
        }
        let all = self.devices.iter().take(self.pipeline.devices).flatten();
        all.map(Devices::of_stage).fold(0, u64::saturating_add)
    }

    /// How far the pipeline reaches.
    fn depth(&self) -> Depth {
        match self.devices.iter().flatten().next() {
            Some(first) if self.pipeline.devices > 1 && self.span() > first.of_server() => Depth::Across,
            Some(_) if self.pipeline.devices > 1 => Depth::Inside,
            _ => Depth::Alone,
        }
    }

    /// Adds the transfers between stages to the passes of the stages that receive them.
    fn transfer(
        &self,
        stages: &[Vec<Stage>],
        sums: &mut [Sums],
        violations: &mut Vec<JointViolation>,
    ) -> Result<(), CheckError> {
        let stage_of_layer: Vec<usize> = self.layers.iter().map(|(_, placed)| placed.stage).collect();
        let crossings = boundary::crossings(self.model, &stage_of_layer, stages.len(), violations);
        let all = self.span();
        for (boundary, crossing) in crossings.into_iter().enumerate() {
            if crossing.forward.is_none() && crossing.backward.is_none()
                || !self.pipeline.is_crossed(boundary)
            {
                continue;
            }
            let link = |stage: usize| devices::transfer_link(&self.devices[stage], all);
            let link = devices::slower(&link(boundary)?, &link(boundary + 1)?);
            for (reader, pass, bytes) in
                [(boundary + 1, 0, crossing.forward), (boundary, 1, crossing.backward)]
            {
                // The share is the same on all kinds of a stage.
                let (Some(stage), Some(devices)) = (stages[reader].first(), self.devices[reader].first())
                else {
                    continue;
                };
                if let Some(bytes) = bytes.filter(|&bytes| bytes > 0.0) {
                    let seconds = collective::point_to_point(bytes * stage.share(), &link);
                    sums[reader].passes[pass] += devices.transfers() * seconds;
                }
            }
        }
        Ok(())
    }
}
