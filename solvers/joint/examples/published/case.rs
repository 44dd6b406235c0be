//! Runs as questions: a training graph, a cluster and a joint plan, and their price.

use std::collections::BTreeMap;
use std::sync::Arc;

use stagewright_core::document::{
    ContextExchange, JOINT_PLAN_SCHEMA, JointBoundDocument, JointExecutionDocument, JointLayerDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPlanDocument, JointStageDocument, Parallelism,
    PlanStatus, RecomputeWorkspace, RuntimeDocument, Schedule,
};
use stagewright_formats::layers::layer_names;
use stagewright_formats::runtimes;
use stagewright_joint::iteration::{Problem, Request};

use super::constants::Constants;
use super::cut::cut;
use super::devices::Machines;
use super::models::Drawing;
use super::rows::{Kernel, Recompute, Run};

/// A run and its question, or the reason that there is none.
pub(crate) struct Outcome {
    pub(crate) run: Run,
    pub(crate) case: Result<Case, String>,
}

/// A run that can be priced.
pub(crate) struct Case {
    pub(crate) run: Run,
    pub(crate) runtime: &'static str,
    pub(crate) machines: Machines,
    pub(crate) drawing: Arc<Drawing>,
    problem: Arc<Problem>,
    /// The plan of the run, without constants of a runtime.
    plan: JointPlanDocument,
}

/// Predicted figures of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Price {
    /// Seconds of an iteration.
    pub(crate) seconds: f64,
    /// Bytes of the fullest device, with those outside the plan.
    pub(crate) memory_bytes: f64,
    /// Bytes of the smallest GPU without the margin of the runtime.
    pub(crate) usable_bytes: f64,
}

impl Price {
    /// Whether a plan fits.
    pub(crate) fn fits(&self) -> bool {
        self.memory_bytes <= self.usable_bytes
    }
}

/// Problems by their model, devices and kernels of attention.
pub(crate) type Problems = BTreeMap<String, Arc<Problem>>;

impl Case {
    /// The question of a run.
    ///
    /// # Errors
    /// The reason that the run is no joint plan.
    pub(crate) fn new(
        run: &Run,
        drawing: &Result<Arc<Drawing>, String>,
        problems: &mut Problems,
    ) -> Result<Case, String> {
        let runtime = run.runtime.ok_or("the runtime is not known")?;
        let product = [run.tensor, run.pipeline, run.data, run.context]
            .into_iter()
            .try_fold(1_u32, u32::checked_mul)
            .filter(|&product| product > 0);
        if product != Some(run.gpus) {
            return Err("the degrees do not multiply to the GPUs".into());
        }
        let heads = [run.model.heads, run.model.kv_heads];
        if !heads.iter().all(|heads| heads.is_multiple_of(run.tensor.into())) {
            return Err("tensor parallelism does not divide the heads".into());
        }
        let schedule = run.schedule.clone()?;
        let drawing = drawing.clone()?;
        let machines = Machines::new(run)?;
        let (execution, stages) = (execution(run, schedule)?, stages(run, &machines, &drawing)?);
        let plan = plan(schedule, execution, stages);
        let problem = problem(run, &drawing, &machines, problems)?;
        Ok(Case { run: run.clone(), runtime, machines, drawing, problem, plan })
    }

    /// Seconds and bytes with constants of runtimes and devices.
    ///
    /// # Errors
    /// The reason that the model of joint plans cannot say the run.
    pub(crate) fn price(&self, constants: &Constants) -> Result<Price, String> {
        let runtime = constants.runtime(self);
        let generations = self.machines.generations.iter();
        let efficiency: Vec<f64> = generations.map(|&generation| constants.efficiency(generation)).collect();
        let problem =
            self.problem.with_runtime(&runtime, &efficiency).ok_or("the problem is of another kernel")?;
        let price = problem.price(&self.plan).ok_or("the plan has no price")?;
        Ok(Price {
            seconds: price.seconds,
            memory_bytes: price.memory_bytes + runtime.reserve_bytes,
            usable_bytes: self.machines.memory * (1.0 - runtime.margin),
        })
    }
}

/// The problem of a run, read once for all runs of the same model, devices and kernels.
fn problem(
    run: &Run,
    drawing: &Drawing,
    machines: &Machines,
    problems: &mut Problems,
) -> Result<Arc<Problem>, String> {
    let is_fused = run.kernel > Kernel::Unfused;
    let key = format!("{:?} {:?} {is_fused}", run.drawn(), machines.cluster);
    if let Some(known) = problems.get(&key) {
        return Ok(known.clone());
    }
    let any = runtimes::runtime(runtimes::DEFAULT).cloned();
    let runtime = any.map(|any| RuntimeDocument { fused_attention: is_fused, ..any });
    let schedules = vec![Schedule::OneFOneB];
    let request = Request {
        // Stages on two kinds have costs of their own.
        parallel: (machines.cluster.kinds.len() == 2)
            .then_some((Parallelism::Mixed, None))
            .into_iter()
            .collect(),
        global_batch: 1,
        microbatch: None,
        schedules,
        chunks: None,
        cut: None,
        runtime,
    };
    let problem = Problem::new(&drawing.graph, &layer_names(&drawing.graph), &machines.cluster, request);
    let problem = Arc::new(problem.map_err(|error| error.to_string())?);
    Ok(problems.entry(key).or_insert(problem).clone())
}

/// How stages run the batch. With states divided in a server, the copies of a server are a group.
fn execution(run: &Run, schedule: Schedule) -> Result<JointExecutionDocument, String> {
    let samples = u64::from(run.data) * u64::from(run.microbatch);
    let whole = run.batch.checked_div(samples).filter(|count| count * samples == run.batch && *count > 0);
    let microbatches = whole.and_then(|count| u32::try_from(count).ok());
    let copies = run.data * run.context;
    let in_server = run.per_server / run.tensor;
    let is_divided = run.is_hybrid && (2..copies).contains(&in_server);
    Ok(JointExecutionDocument {
        microbatch: run.microbatch,
        microbatches: microbatches.ok_or("the microbatches are not a whole number")?,
        data: run.data,
        context: run.context,
        exchange: (run.context > 1).then_some(ContextExchange::Ring),
        expert: run.expert,
        zero: if copies == 1 { 0 } else { run.zero },
        shards: is_divided.then_some(in_server),
        offload: false,
        schedule,
        chunks: run.chunks,
    })
}

/// Configuration of the numbered layer with an index.
///
/// Selective recomputation of Megatron repeats the scores, which an attention in one kernel never keeps.
fn configuration(run: &Run, index: usize) -> &'static str {
    let keeps_scores = run.kernel <= Kernel::Unfused || run.runtime == Some("torchtitan");
    match run.recompute {
        Recompute::Full => "full",
        Recompute::Half if index.is_multiple_of(2) => "full",
        Recompute::Selective if keeps_scores => "selective",
        Recompute::None | Recompute::Half | Recompute::Selective => "none",
    }
}

/// The stages: layers before the numbered ones in the first, and those after them in the last.
fn stages(run: &Run, machines: &Machines, drawing: &Drawing) -> Result<Vec<JointStageDocument>, String> {
    let pipeline = machines.pipeline(run)?;
    let counts = cut(run)?;
    let layers = &drawing.layers;
    let first = layers.iter().position(|(_, is_numbered)| *is_numbered).ok_or("the model has no layers")?;
    let mut end = first;
    let mut stages = Vec::with_capacity(counts.len());
    let mut start = 0;
    for (index, &count) in counts.iter().enumerate() {
        end += count as usize;
        let is_last = index + 1 == counts.len();
        let listed = layers.get(start..if is_last { layers.len() } else { end });
        let listed = listed.ok_or("the cut has too many layers")?.iter().enumerate();
        let listed = listed.map(|(index, (name, is_numbered))| JointLayerDocument {
            layer: name.clone(),
            configuration: if *is_numbered { configuration(run, start + index) } else { "none" }.into(),
        });
        let schedule = run.schedule.clone()?;
        let copies = match pipeline.len() {
            0 => return Err("the plan has no devices".into()),
            devices => &pipeline[schedule.device(index, devices)],
        };
        let (kind, mixed) = match copies.len() {
            1 => (copies.keys().next().cloned(), BTreeMap::new()),
            _ => (None, copies.clone()),
        };
        stages.push(JointStageDocument {
            kind,
            mixed,
            data: run.data,
            tensor: run.tensor,
            layers: listed.collect(),
            ..JointStageDocument::default()
        });
        start = end;
    }
    Ok(stages)
}

fn plan(
    schedule: Schedule,
    execution: JointExecutionDocument,
    stages: Vec<JointStageDocument>,
) -> JointPlanDocument {
    let JointExecutionDocument { microbatch, microbatches, data, .. } = execution;
    let batch = u64::from(microbatch) * u64::from(microbatches) * u64::from(data);
    JointPlanDocument {
        schema: JOINT_PLAN_SCHEMA.into(),
        status: PlanStatus::Feasible,
        solver: "published".into(),
        model: "published".into(),
        options: None,
        cluster: None,
        objective: JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel: Parallelism::ALL
                .map(|parallelism| (parallelism, None))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            global_batch: batch,
            microbatch: None,
            schedules: vec![schedule],
            chunks: None,
            cut: None,
            recompute_workspace: RecomputeWorkspace::Max,
            runtime: None,
            value_s: None,
        },
        bound: JointBoundDocument { value_s: None, source: "none".into() },
        gap: None,
        seconds: 0.0,
        origin: None,
        stop: None,
        reason: None,
        throughput: None,
        sources: None,
        execution: Some(execution),
        stages,
    }
}
