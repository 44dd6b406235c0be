//! Joint plans of a Piper file, which minimise the time per sample of the slowest stage.

use std::collections::BTreeMap;

use stagewright_core::document::{
    ClusterDocument, JOINT_PLAN_SCHEMA, JointLayerDocument, JointObjectiveDocument, JointObjectiveKind,
    JointPlanDocument, JointStageDocument, ModelOptionsDocument, OriginDocument, Parallelism, PiperDocument,
    SourcesDocument,
};
use stagewright_core::solver::{Context, Status};
use stagewright_core::tolerance;
use stagewright_formats::piper::{self, configuration_names, layer_names};
use stagewright_formats::{Format, import_piper};
use stagewright_joint::sample;
use stagewright_report::throughput::joint_throughput;

use super::{bound_document, failed};
use crate::code::{U001, U013};
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::reading::{self, Place};
use crate::tasks::options::no_effect;
use crate::tasks::{ParallelOptions, Request};

/// A file of Piper, with the devices of the request.
pub(super) struct Layers {
    label: String,
    document: PiperDocument,
    cluster: Option<ClusterDocument>,
    options: Option<ModelOptionsDocument>,
    pub(super) objective: JointObjectiveDocument,
    problem: sample::Problem,
    place: Place,
}

impl Layers {
    /// Number of layers.
    pub(super) fn layer_count(&self) -> usize {
        self.document.nodes.len()
    }

    /// The cluster, if the request has one.
    pub(super) fn cluster(&self) -> Option<&ClusterDocument> {
        self.cluster.as_ref()
    }

    /// The file.
    pub(super) fn document(&self) -> &PiperDocument {
        &self.document
    }

    /// The options to store in a plan.
    pub(super) fn options(&self) -> Option<&ModelOptionsDocument> {
        self.options.as_ref()
    }

    /// Reads a file of Piper as a question.
    ///
    /// # Errors
    /// Options without effect on such a file (U012, U013), degrees (U001), or a file that is not valid.
    pub(super) fn read(
        Input { label, bytes }: &Input,
        request: &Request,
        given: &ParallelOptions,
        parallel: BTreeMap<Parallelism, Option<u32>>,
    ) -> Result<Layers> {
        let Request { options, place, .. } = request;
        let model_place = |name: &str| (options.place)(name);
        reading::suit(options.given.iter().map(String::as_str), Format::Piper, model_place)?;
        let without = [
            ("costs", !request.costs.is_empty(), "leave it out"),
            ("microbatch", given.microbatch.is_some(), "leave it out"),
            ("chunks", given.chunks.is_some(), "leave it out"),
            ("cut", given.cut.is_some(), "leave it out"),
            ("runtime", given.runtime.is_some(), "leave it out: the file has measured times"),
            (
                "schedule",
                !request.objective.schedule.is_empty(),
                "leave it out: its plans are for the time per sample of the slowest stage",
            ),
        ];
        if let Some((name, _, help)) = without.iter().find(|(_, is_given, _)| *is_given) {
            return Err(no_effect(name, "a file of Piper", place).help(*help));
        }
        if let Some((parallelism, _)) = parallel.iter().find(|(_, degree)| degree.is_some()) {
            let cause = format!(
                "a degree of {} is given, but stages of a file of Piper have degrees of their own",
                parallelism.name()
            );
            return Err(Failure::new(U001, cause).at(place("parallel")).help("leave the degree out"));
        }
        let of_graphs = [Parallelism::Cp, Parallelism::Shard, Parallelism::Offload, Parallelism::Mixed]
            .map(|kind| parallel.get_key_value(&kind));
        if let Some((parallelism, _)) = of_graphs.into_iter().flatten().next() {
            let cause = format!("{} does not apply to a file of Piper", parallelism.name());
            return Err(Failure::new(U013, cause).at(place("parallel")).help("leave it out"));
        }
        let mut document = import_piper(label, bytes)?;
        let cluster = match &request.cluster {
            None => None,
            Some((_, cluster)) => {
                let mut cluster = cluster.clone();
                reading::reserve(&mut cluster, &options.document);
                on_cluster(&mut document, &cluster, place)?;
                Some(cluster)
            }
        };
        if let Some(batch) = given.global_batch {
            let batch = u32::try_from(batch).ok().filter(|&batch| batch > 0);
            document.microbatches = Some(batch.ok_or_else(|| {
                Failure::new(U001, "the batch must be from 1 to 4294967295").at(place("global_batch"))
            })?);
        }
        let time_unit = reading::import_options(&options.document, model_place)?.time_unit;
        let per_second = piper::per_second(label, time_unit)?;
        let workspace = given.recompute_workspace.unwrap_or_default();
        let terms = sample::Terms {
            workspace,
            tensor: parallel.contains_key(&Parallelism::Tp),
            data: parallel.contains_key(&Parallelism::Dp),
            pipeline: parallel.contains_key(&Parallelism::Pp),
            recompute: parallel.contains_key(&Parallelism::Recompute),
            per_second,
        };
        let problem = sample::Problem::new(&document, terms)
            .map_err(|error| Failure::new(error.code(), error.to_string()).at(label).help(error.help()))?;
        let objective = JointObjectiveDocument {
            kind: JointObjectiveKind::TimePerSample,
            parallel,
            global_batch: document.microbatches.unwrap_or(0).into(),
            microbatch: None,
            schedules: Vec::new(),
            chunks: None,
            cut: None,
            recompute_workspace: workspace,
            runtime: None,
            value_s: None,
        };
        Ok(Layers {
            label: label.clone(),
            document,
            cluster,
            options: options.kept(),
            objective,
            problem,
            place: place.clone(),
        })
    }

    /// Finds a plan.
    ///
    /// # Errors
    /// A defect of the solver (X001).
    pub(super) fn solve(&self, context: &mut Context<'_>) -> Result<JointPlanDocument> {
        let solution = sample::solve(&self.problem, context).map_err(|error| failed(&error, &self.place))?;
        let names = layer_names(&self.document);
        let stage = |stage: &sample::PlannedStage| {
            let layers = stage.layers.iter().zip(&stage.configurations).map(|(&layer, &index)| {
                let of_layer = &self.document.nodes[layer].configurations;
                let listed = of_layer.iter().find(|(degree, _)| degree.trim().parse() == Ok(stage.tensor));
                let configurations =
                    listed.map(|(_, listed)| configuration_names(listed)).unwrap_or_default();
                JointLayerDocument {
                    layer: names[layer].clone(),
                    configuration: configurations.get(index as usize).cloned().unwrap_or_default(),
                }
            });
            JointStageDocument {
                data: stage.data,
                tensor: stage.tensor,
                in_flight: stage.in_flight,
                seconds: stage.seconds,
                memory_bytes: stage.memory_bytes,
                layers: layers.collect(),
                ..JointStageDocument::default()
            }
        };
        let objective = JointObjectiveDocument { value_s: solution.value, ..self.objective.clone() };
        Ok(JointPlanDocument {
            schema: JOINT_PLAN_SCHEMA.into(),
            status: solution.status.into(),
            solver: sample::NAME.into(),
            model: self.label.clone(),
            options: self.options.clone(),
            cluster: self.cluster.clone(),
            throughput: objective.value_s.and_then(|value| joint_throughput(&objective, None, value, None)),
            // The file has a measured time for every configuration.
            sources: solution.value.map(|_| SourcesDocument { measured: 1.0, ..SourcesDocument::default() }),
            objective,
            bound: bound_document(solution.bound, sample::NAME),
            gap: solution.value.zip(solution.bound).map(|(value, bound)| tolerance::gap(value, bound)),
            seconds: context.elapsed().as_secs_f64(),
            origin: Some(OriginDocument::of_library()),
            stop: solution.stop.map(|reason| reason.name().to_owned()),
            reason: (solution.status == Status::Infeasible)
                .then(|| "no stages fit into the memory of the devices at any degrees".to_owned()),
            execution: None,
            stages: solution.stages.iter().map(stage).collect(),
        })
    }
}

/// Replaces the devices of a file of Piper by those of a cluster.
fn on_cluster(document: &mut PiperDocument, cluster: &ClusterDocument, place: &Place) -> Result<()> {
    let wrong = |cause: &str| {
        Failure::new(U001, cause)
            .at(place("cluster"))
            .help("give one kind with a memory and a link, or leave it out")
    };
    let kinds: Vec<_> = cluster.kinds.iter().filter(|kind| !kind.host).collect();
    let [kind] = kinds[..] else {
        return Err(wrong("a file of Piper is planned for devices of one kind"));
    };
    let (Some(memory), Some(link)) = (kind.memory_bytes, kind.link) else {
        return Err(wrong("the kind has no memory or no link"));
    };
    document.max_devices = kind.count;
    document.max_memory_per_device = (memory - kind.reserve_bytes.unwrap_or(0.0)).max(0.0);
    document.bandwidth = link.bandwidth;
    Ok(())
}
