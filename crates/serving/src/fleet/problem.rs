//! A serving question with everything that prices its replicas.

use std::sync::Arc;

use stagewright_core::document::{
    ClusterDocument, RequestClassDocument, ServingFactorDocument, ServingGoal, ServingMode,
    ServingQuestionDocument, ServingRole, ServingStageDocument,
};
use stagewright_costs::Costs;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};
use stagewright_structure::{Encoding, Structure};

use super::{Fleet, Terms, running};
use crate::balance::{Division, balance, equal};
use crate::engine::{Engine, engine};
use crate::model::Model;
use crate::parallel::Parallel;
use crate::replica::Replica;
use crate::request::RequestClass;
use crate::worker::{Speculation, Step, Worker};

/// How far the shares of classes may be from 1 together.
const SHARES: f64 = 1e-6;

/// The smallest share of a class: replicas of its own for a rarer one would idle, and their numbers are lost in rounding.
const RAREST: f64 = 1e-3;

/// The largest number that a load, a price or a limit may have.
const MOST: f64 = 1e12;

/// The largest number of shapes of replicas times classes, which take some ten seconds to list.
const SHAPES: f64 = 2e4;

/// A question about replicas: model, engine, devices, classes, load, limits and goal.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The model.
    pub model: Model,
    /// The engine, with the constants that the question changes.
    pub engine: Engine,
    /// The devices.
    pub fleet: Fleet,
    /// The question.
    pub question: ServingQuestionDocument,
    /// Classes of requests.
    pub classes: Vec<RequestClass>,
    /// Encoding of caches.
    pub cache: Encoding,
    /// Whether stages have equal numbers of layers, as engines divide them by default, instead of balanced ones.
    pub has_equal_layers: bool,
    /// Measured products; closed forms price the others.
    pub costs: Option<Arc<Costs>>,
}

impl Problem {
    /// Reads a question. `label` names it in errors, `model` and `devices` the model and the cluster.
    ///
    /// # Errors
    /// If the engine is unknown (L022), the model is no decoder (L023), a kind lacks a figure (L021), or a number of the question is out
    /// of its range, or contradicts another (L024).
    pub fn new(
        label: &str,
        (model, structure): (&str, &Structure),
        (devices, cluster): (&str, &ClusterDocument),
        question: ServingQuestionDocument,
    ) -> Result<Problem> {
        let mut constants = engine(label, &question.engine)?.clone();
        let fleet = Fleet::new(devices, cluster)?;
        check(label, &question, &fleet)?;
        let wrong = |path: &str, message: String, help: &str| {
            InputError::at_path(L::L024, label, path, message, help)
        };
        constants.chunk = question.chunk.unwrap_or(constants.chunk);
        constants.memory_share = question.memory_share.unwrap_or(constants.memory_share);
        if let Some((name, value)) = constants.fault() {
            return Err(wrong(name, format!("`{name}` is {value}"), "give a number in its range"));
        }
        let classes: Vec<RequestClass> = question.classes.iter().map(class).collect();
        for class in &classes {
            class.check(label)?;
        }
        let model = Model::new(model, structure)?;
        let cache = match &question.cache {
            None => model.cache,
            Some(name) => Encoding::named(name).ok_or_else(|| {
                wrong("cache", format!("unknown encoding `{name}`"), "give one such as bf16 or fp8")
            })?,
        };
        let problem = Problem {
            model,
            engine: constants,
            fleet,
            question,
            classes,
            cache,
            has_equal_layers: false,
            costs: None,
        };
        let shapes = problem.most_shapes() * problem.classes.len() as f64;
        if shapes > SHAPES {
            let message = format!("up to {shapes:.0} shapes of replicas, more than {SHAPES:.0}");
            return Err(wrong("max_stages", message, "allow fewer stages, or give fewer kinds or classes"));
        }
        Ok(problem)
    }

    /// The problem with tables of measured products, which price those that they have.
    #[must_use]
    pub fn with_costs(self, costs: Costs) -> Problem {
        Problem { costs: Some(Arc::new(costs)), ..self }
    }

    /// An upper bound on the number of shapes of replicas: degrees of tensors and experts times multisets of kinds.
    fn most_shapes(&self) -> f64 {
        let kinds = &self.fleet.kinds;
        let largest = kinds.iter().map(|kind| kind.count.min(kind.device.server)).max().unwrap_or(0);
        let powers = |number: u64| f64::from(number.checked_ilog2().map_or(0, |power| power + 1));
        let stages = (self.model.layers.len() as u64).min(u64::from(self.question.max_stages));
        let stages = stages.min(self.fleet.devices()) as f64;
        let chains: f64 = (1..=kinds.len()).map(|kind| (stages + kind as f64) / kind as f64).product();
        let degrees = powers(largest);
        if !self.has_experts() {
            return degrees * (chains - 1.0);
        }
        let data = powers(self.fleet.devices());
        2.0 * degrees * (chains - 1.0) + degrees * data * (degrees + data) * kinds.len() as f64
    }

    /// Conditions of a class for replicas with devices of some kinds: the largest factors of their classes count.
    pub fn terms(&self, class: usize, kinds: impl Iterator<Item = usize>) -> Terms {
        let known = |kind: usize| self.question.factors.get(&self.fleet.kinds[kind].device.name);
        let none = ServingFactorDocument { ttft: 1.0, tpot: 1.0 };
        let factor = kinds.map(|kind| known(kind).copied().unwrap_or(none)).reduce(|left, right| {
            ServingFactorDocument { ttft: left.ttft.max(right.ttft), tpot: left.tpot.max(right.tpot) }
        });
        Terms {
            class: self.classes[class],
            ttft: self.question.ttft_s.unwrap_or(f64::INFINITY),
            tpot: self.question.tpot_s.unwrap_or(f64::INFINITY),
            transfer: self.fleet.transfer(),
            factor: factor.unwrap_or(none),
            statistic: self.question.limits,
        }
    }

    /// A worker of a kind with all layers; `None` if the degrees do not fit the model.
    pub fn worker(&self, kind: usize, parallel: Parallel) -> Option<Worker<'_>> {
        let device = &self.fleet.kinds[kind].device;
        let worker = Worker::new("stage", &self.model, &self.engine, device, parallel).ok()?;
        let worker = worker.with_cache(self.cache);
        Some(match &self.costs {
            Some(costs) => worker.with_costs(costs),
            None => worker,
        })
    }

    /// Divisions of layers that are tried for replicas with some stages in a role. Decode replicas have balanced layers alone: no others have a
    /// shorter time between tokens, and prefill counts on the slowest of them.
    pub fn divisions(&self, role: ServingRole, stages: usize) -> &'static [Division] {
        match role {
            _ if stages == 1 => &[Division::Balanced],
            _ if self.has_equal_layers => &[Division::Equal],
            ServingRole::Aggregated => &[Division::Balanced, Division::ForPrompts, Division::Equal],
            ServingRole::Prefill => &[Division::Balanced, Division::Equal],
            ServingRole::Decode => &[Division::Balanced],
        }
    }

    /// A replica of workers in a row, each with its kind, with a batch, or if it is 0 for prompts alone; `None` if it does not fit.
    pub fn replica<'a>(
        &self,
        stages: &[(usize, Worker<'a>)],
        class: &RequestClass,
        batch: u64,
        division: Division,
    ) -> Option<Replica<'a>> {
        let kinds: Vec<usize> = stages.iter().map(|&(kind, _)| kind).collect();
        let workers: Vec<Worker<'a>> = stages.iter().map(|(_, worker)| worker.clone()).collect();
        let links = self.links(&kinds, &workers);
        let prompt = Step::prompt(class.computed().min(self.engine.chunk as f64), 0.0);
        let (step, sequences, context) = match batch {
            0 => (prompt, 1.0, class.input),
            batch => {
                let sequences = batch as f64;
                let microbatch = (sequences / workers.len() as f64).max(1.0);
                (Step::decode(microbatch, class.mean_context()), sequences, class.longest())
            }
        };
        let ranges = match division {
            Division::Balanced => balance(&workers, &links, &step, sequences, context)?,
            Division::ForPrompts => balance(&workers, &links, &prompt, sequences, context)?,
            Division::Equal => equal(self.model.layers.len(), workers.len())?,
        };
        let divided = workers.into_iter().zip(ranges).map(|(worker, range)| worker.with_layers(range));
        let replica = Replica::new("stages", divided.collect(), links).ok()?;
        Some(self.with_speculation(replica))
    }

    /// A replica with the speculation of the question.
    pub(super) fn with_speculation<'a>(&self, replica: Replica<'a>) -> Replica<'a> {
        match self.question.speculation {
            Some(speculation) => replica.with_speculation(speculation.into()),
            None => replica,
        }
    }

    /// The stages of a replica as a plan document has them. `kinds` are those of the stages.
    pub fn stages(&self, replica: &Replica, kinds: &[usize]) -> Vec<ServingStageDocument> {
        let stage = |(worker, &kind): (&Worker, &usize)| ServingStageDocument {
            kind: self.fleet.kinds[kind].name.clone(),
            tensor: worker.parallel().tensor,
            data: worker.parallel().data,
            experts: worker.parallel().experts,
            first: worker.layers().start as u32,
            layers: worker.layers().len() as u32,
        };
        replica.stages().iter().zip(kinds).map(stage).collect()
    }

    /// Whether any layer has experts.
    pub fn has_experts(&self) -> bool {
        self.model.kinds.iter().any(|kind| kind.experts.is_some())
    }
}

fn class(document: &RequestClassDocument) -> RequestClass {
    RequestClass { input: document.input, output: document.output, shared_prefix: document.shared_prefix }
}

fn check(label: &str, question: &ServingQuestionDocument, fleet: &Fleet) -> Result<()> {
    let wrong = |path: &str, message: String, help: &str| {
        Err(InputError::at_path(L::L024, label, path, message, help))
    };
    let positive = [
        ("concurrency", question.concurrency),
        ("rate", question.rate),
        ("ttft", question.ttft_s),
        ("tpot", question.tpot_s),
    ];
    for (name, value) in positive {
        if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= MOST)) {
            return wrong(name, format!("`{name}` is {value}"), "give a positive number");
        }
    }
    if let Some(concurrency) = question.concurrency.filter(|concurrency| *concurrency < 1.0) {
        return wrong("concurrency", format!("`concurrency` is {concurrency}"), "give at least 1");
    }
    if question.concurrency.is_some() && question.rate.is_some() {
        return wrong("rate", "the load has a rate and a concurrency".into(), "give one of them");
    }
    if question.classes.is_empty() {
        return wrong("classes", "there is no class of requests".into(), "give at least one");
    }
    let shares: f64 = question.classes.iter().map(|class| class.share).sum();
    if (shares - 1.0).abs() > SHARES || shares.is_nan() {
        return wrong("classes", format!("the shares add up to {shares}"), "give shares that add up to 1");
    }
    if let Some(class) = question.classes.iter().find(|class| class.share < RAREST) {
        let message = format!("a class has a share of {}, less than {RAREST}", class.share);
        return wrong("classes", message, "leave out classes that are this rare");
    }
    let needs_load = matches!(question.goal, ServingGoal::Devices | ServingGoal::Price);
    if needs_load && question.concurrency.is_none() && question.rate.is_none() {
        let message = format!("the goal `{}` needs a load", question.goal.name());
        return wrong("rate", message, "give a rate or a concurrency");
    }
    let has_load = question.concurrency.is_some() || question.rate.is_some();
    let is_plain = question.classes.len() == 1 && !question.modes.contains(&ServingMode::Disaggregated);
    if question.goal == ServingGoal::Cache && !has_load && !is_plain {
        let message = "several classes, or pools, have caches only for a load".into();
        return wrong("rate", message, "give a rate, or one class and aggregated replicas alone");
    }
    if question.goal != ServingGoal::Throughput
        && question.concurrency.is_some()
        && question.classes.len() > 1
    {
        let message = "several classes have no concurrency to serve together".into();
        return wrong("concurrency", message, "give a rate");
    }
    if question.modes.is_empty() {
        return wrong("modes", "no mode is allowed".into(), "give aggregated, disaggregated or both");
    }
    if question.max_stages == 0 || question.max_batch == Some(0) {
        let name = if question.max_stages == 0 { "max_stages" } else { "max_batch" };
        return wrong(name, format!("`{name}` is 0"), "give at least 1");
    }
    if let Some(speculation) = question.speculation {
        Speculation::from(speculation).check(label)?;
    }
    for (name, price) in &question.prices {
        let is_of_kind = fleet.kinds.iter().any(|kind| kind.name == *name);
        if !(is_of_kind && (0.0..=MOST).contains(price)) {
            return wrong("price", format!("the price of `{name}` is {price}"), "give prices of kinds");
        }
    }
    let unpriced = fleet.kinds.iter().find(|kind| !question.prices.contains_key(&kind.name));
    if let Some(kind) = unpriced.filter(|_| question.goal == ServingGoal::Price) {
        return wrong("price", format!("kind `{}` has no price", kind.name), "give a price of every kind");
    }
    for (name, factor) in &question.factors {
        let is_positive = |value: f64| value > 0.0 && value <= MOST;
        if !is_positive(factor.ttft) || !is_positive(factor.tpot) {
            let message = format!("factors {} and {} of `{name}`", factor.ttft, factor.tpot);
            return wrong("factors", message, "give positive numbers");
        }
    }
    question.start.as_ref().map_or(Ok(()), |start| running::check(label, start))
}
