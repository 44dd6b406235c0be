//! `--start` of a serving plan: replicas that run already, as the new question has them.

use serde::Serialize;
use stagewright_core::document::{
    ClusterDocument, RequestClassDocument, RunningReplicaDocument, ServingPlanDocument,
    ServingQuestionDocument, ServingStartDocument,
};
use stagewright_formats::import_serving_plan;
use stagewright_serving::Problem;
use stagewright_structure::Structure;

use crate::code::{U001, U008};
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::reading::Place;

/// Reads the running plan and the price of a gigabyte of weights; `None` if neither is given.
///
/// # Errors
/// One without the other, a price that is no number, or a plan under other options of the engine (U001), without replicas (U008), or
/// of another model (U001).
pub(super) fn start(
    (file, price): (Option<Input>, Option<&str>),
    (label, structure): (&str, &Structure),
    (cluster, question): (&ClusterDocument, &ServingQuestionDocument),
    place: &Place,
) -> Result<Option<ServingStartDocument>> {
    let alone = |given: &str, other: &str, help: &str| {
        let cause = format!("{} is given without {}", place(given), place(other));
        Err(Failure::new(U001, cause).at(place(given)).help(help))
    };
    let (file, price) = match (file, price) {
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let help = "give the price of a gigabyte of weights that replicas load, in the unit of the goal";
            return alone("start", "move_price", help);
        }
        (None, Some(_)) => return alone("move_price", "start", "give the serving plan that runs to `plan`"),
        (Some(file), Some(price)) => (file, price),
    };
    let price_per_gb: f64 = price.parse().map_err(|_| {
        Failure::new(U001, format!("`{price}` cannot be read"))
            .at(place("move_price"))
            .help("write it like 0.05")
    })?;
    let plan = import_serving_plan(&file.label, &file.bytes)?;
    if plan.replicas.is_empty() {
        let help = "plan without it";
        return Err(Failure::new(U008, "the plan has no replicas that could run").at(file.label).help(help));
    }
    restarts(&file.label, &plan.question, question, place)?;
    is_of_model(&file.label, &plan, (label, structure))?;
    let mut replicas: Vec<RunningReplicaDocument> = Vec::new();
    for replica in &plan.replicas {
        let mut stages = replica.stages.clone();
        stages.iter_mut().for_each(|stage| stage.kind = kind(&stage.kind, &plan.cluster, cluster));
        let (role, batch, count) = (replica.role, replica.batch, 0);
        let class = class(replica.class as usize, &plan.question.classes, &question.classes);
        let running = RunningReplicaDocument { role, class, count, stages, batch };
        // Replicas for prompts may differ in nothing but their share of time.
        let known = replicas
            .iter_mut()
            .find(|known| RunningReplicaDocument { count, ..(**known).clone() } == running);
        match known {
            Some(known) => known.count = known.count.saturating_add(replica.count),
            None => replicas.push(RunningReplicaDocument { count: replica.count, ..running }),
        }
    }
    Ok(Some(ServingStartDocument { replicas, price_per_gb }))
}

/// Refuses a running plan with other options of the engine, under which every replica restarts.
fn restarts(
    label: &str,
    running: &ServingQuestionDocument,
    question: &ServingQuestionDocument,
    place: &Place,
) -> Result<()> {
    let options = |question: &ServingQuestionDocument| {
        [
            ("engine", shown(&question.engine)),
            ("cache", shown(&question.cache)),
            ("chunk", shown(&question.chunk)),
            ("memory_share", shown(&question.memory_share)),
            ("speculation", shown(&question.speculation)),
        ]
    };
    let differs = options(running).into_iter().zip(options(question)).find(|(before, now)| before != now);
    differs.map_or(Ok(()), |((name, before), (_, now))| {
        let cause = format!("{} is {before} in the plan that runs, and {now} now", place(name));
        Err(Failure::new(U001, cause)
            .at(label)
            .help("replicas restart for that: give the same, or plan without a start"))
    })
}

/// An option as JSON, `none` if it is absent.
fn shown(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    if text == "null" { "none".into() } else { text }
}

/// Refuses a plan of another model: its layers are others, or its replicas have room for other numbers of tokens.
fn is_of_model(label: &str, plan: &ServingPlanDocument, model: (&str, &Structure)) -> Result<()> {
    let problem = Problem::new(label, model, (label, &plan.cluster), plan.question.clone())?;
    for (index, document) in plan.replicas.iter().enumerate() {
        let class = document.class as usize;
        let tokens =
            problem.given(&document.stages).filter(|_| class < problem.classes.len()).map(|replica| {
                let kinds = document
                    .stages
                    .iter()
                    .filter_map(|stage| problem.fleet.kinds.iter().position(|kind| kind.name == stage.kind));
                problem.terms(class, kinds).cache_tokens(&replica)
            });
        if tokens != Some(document.cache_tokens) {
            let cause = format!("replicas[{index}] is no replica of the model {}", model.0);
            let help = "give the plan that runs for this model, read with the same options";
            return Err(Failure::new(U001, cause).at(label).help(help));
        }
    }
    Ok(())
}

/// Name of a kind of the running plan in the cluster: the same, or that of the only kind of its class. A kind that is gone has a name
/// that the cluster lacks.
fn kind(name: &str, before: &ClusterDocument, now: &ClusterDocument) -> String {
    let class = before.kinds.iter().find(|kind| kind.name == name).map_or("", |kind| kind.class.as_str());
    if now.kinds.iter().any(|kind| kind.name == name && kind.class == class) {
        return name.to_owned();
    }
    let of_class = |cluster: &ClusterDocument| -> Vec<String> {
        let own = cluster.kinds.iter().filter(|kind| kind.class == class);
        own.map(|kind| kind.name.clone()).collect()
    };
    if let ([_], [only]) = (&of_class(before)[..], &of_class(now)[..]) {
        return only.clone();
    }
    let mut gone = name.to_owned();
    while now.kinds.iter().any(|kind| kind.name == gone) {
        gone = format!("{gone} before");
    }
    gone
}

/// Class of the question that a replica of class `index` can serve without a restart: that with the same lengths, or else the one in
/// its place, if no request is longer than before.
fn class(index: usize, before: &[RequestClassDocument], now: &[RequestClassDocument]) -> Option<u32> {
    let lengths = |class: &RequestClassDocument| (class.input, class.output, class.shared_prefix);
    let own = before.get(index)?;
    let longest = |class: &RequestClassDocument| class.input.saturating_add(class.output);
    let is_servable = |class: &RequestClassDocument| {
        longest(class) <= longest(own) && (class.shared_prefix == 0 || own.shared_prefix > 0)
    };
    let same = now.iter().position(|class| lengths(class) == lengths(own));
    let place = if now.len() == 1 { 0 } else { index };
    let found = same.or_else(|| now.get(place).filter(|class| is_servable(class)).map(|_| place));
    found.map(|class| class as u32)
}
