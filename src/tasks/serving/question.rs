//! A serving question: its options, and the document that they pose.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use serde::Deserialize;
use stagewright_core::document::{
    ClusterDocument, ModelOptionsDocument, RequestClassDocument, ServingFactorDocument, ServingGoal,
    ServingMode, ServingQuestionDocument, ServingStatistic, SpeculationDocument,
};
use stagewright_costs::Costs;
use stagewright_serving::{Calibration, Parallel, Problem};
use stagewright_structure::Structure;

use super::running;
use crate::code::{U001, U002};
use crate::failure::{Failure, Result};
use crate::files;
use crate::reading::{self, Place};
use crate::structures;
use crate::tasks::options::refuse;
use crate::tasks::{Document, Kind, PlanFile, Request};

/// Tokens of a step whose products are looked up in measurements for a note.
const TOKENS: f64 = 64.0;

/// Stages of a replica without `--max-stages`.
const STAGES: u32 = 4;

/// Options of a serving plan.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServingOptions {
    /// Whether a serving plan is asked for.
    pub serve: bool,
    /// Name of the engine.
    pub engine: Option<String>,
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens that are generated.
    pub output: Option<u64>,
    /// Tokens at the beginning of the prompt that are cached already.
    pub shared_prefix: Option<u64>,
    /// Classes: `INPUT:OUTPUT=SHARE` or `INPUT:OUTPUT:PREFIX=SHARE`.
    pub classes: Vec<String>,
    /// Requests in the system at once.
    pub concurrency: Option<u64>,
    /// Requests a second.
    pub rate: Option<String>,
    /// Limit on the time to the first token.
    pub ttft: Option<String>,
    /// Limit on the time between tokens.
    pub tpot: Option<String>,
    /// Figure of the times that limits are on.
    pub limits: Option<ServingStatistic>,
    /// Objective.
    pub goal: Option<ServingGoal>,
    /// Roles that replicas may have.
    pub modes: Vec<ServingMode>,
    /// Maximum number of tokens of prompts in a step.
    pub chunk: Option<u64>,
    /// Share of memory that the engine uses.
    pub memory_share: Option<String>,
    /// Maximum number of sequences of a rank.
    pub max_batch: Option<u64>,
    /// Maximum number of stages.
    pub max_stages: Option<u32>,
    /// Drafts, acceptance and share of drafting, separated by colons.
    pub speculation: Option<String>,
    /// Prices: `KIND=PRICE`.
    pub prices: Vec<String>,
    /// Path of a calibration.
    pub calibration: Option<String>,
    /// Price of a gigabyte of weights that replicas load which do not run yet.
    pub move_price: Option<String>,
}

/// A serving question.
pub struct Serving {
    pub(super) label: String,
    pub(super) problem: Problem,
    pub(super) cluster: ClusterDocument,
    pub(super) options: Option<ModelOptionsDocument>,
    pub(super) place: Place,
}

/// Reads a question, or that of a plan.
pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<(Serving, Vec<String>)> {
    let Request { model, cluster, kept_cluster, options, serving, costs, start, place, .. } = request;
    refuse(Kind::Serving, options.given.iter().map(String::as_str), &place)?;
    let Some((cluster_label, mut cluster)) = cluster.or(kept_cluster) else {
        return Err(Failure::new(U002, "no cluster given")
            .at(place("cluster"))
            .help(format!("give the devices: {} 8xh100+8xl40s", place("cluster"))));
    };
    reading::reserve(&mut cluster, &options.document);
    let mut notes = Vec::new();
    let label = model.label();
    let structure = structures::of_opened(model, &structures::reading(&options.document), &mut notes)?;
    let (source, question) = match plan {
        Some(PlanFile::Whole(label, Document::Serving(plan))) => ((*label).to_owned(), plan.question.clone()),
        _ => {
            let serving = serving.unwrap_or_default();
            let mut question = posed(&serving, options.document.cache.clone(), &cluster, &place)?;
            if let Some(path) = &serving.calibration {
                question.factors = factors(path, (&label, &structure), &question.engine, &cluster)?;
                if question.factors.is_empty() {
                    notes.push(format!(
                        "{path} has no factor for `{}` on these devices under {}",
                        structure.name, question.engine
                    ));
                }
            }
            question.costs = costs.iter().map(|(label, _)| label.clone()).collect();
            let given = (start, serving.move_price.as_deref());
            question.start = running::start(given, (&label, &structure), (&cluster, &question), &place)?;
            (place("serve"), question)
        }
    };
    if costs.is_empty() && !question.costs.is_empty() {
        let files = question.costs.join(", ");
        return Err(Failure::new(U002, format!("the plan is priced with measured products of {files}"))
            .at(source)
            .help(format!("give them again: {} {}", place("costs"), question.costs[0])));
    }
    let mut problem = Problem::new(&source, (&label, &structure), (&cluster_label, &cluster), question)?;
    if !costs.is_empty() {
        problem = problem.with_costs(Costs::new(costs)?);
        notes.extend(measured(&problem));
    }
    Ok((Serving { label, problem, cluster, options: options.kept(), place }, notes))
}

/// Notes on how many products of the model measurements have, a line for each kind of devices.
fn measured(problem: &Problem) -> Vec<String> {
    let of_kind = |kind: usize| {
        let worker = problem.worker(kind, Parallel::tensor(1))?;
        let (known, all) = worker.measured(TOKENS);
        let name = &problem.fleet.kinds[kind].device.name;
        Some(format!(
            "{known} of {all} products of layers are measured on {name}; closed forms price the others"
        ))
    };
    (0..problem.fleet.kinds.len()).filter_map(of_kind).collect()
}

/// The question that the options pose.
fn posed(
    options: &ServingOptions,
    cache: Option<String>,
    cluster: &ClusterDocument,
    place: &Place,
) -> Result<ServingQuestionDocument> {
    let time = |name: &str, text: &Option<String>| {
        let parse = |text: &String| duration(text).ok_or_else(|| wrong(place, name, text, "2s, 50ms"));
        text.as_ref().map(parse).transpose()
    };
    let rate = options.rate.as_ref();
    let rate = rate.map(|text| text.parse().map_err(|_| wrong(place, "rate", text, "12.5"))).transpose()?;
    let share = options.memory_share.as_ref();
    let share =
        share.map(|text| parse_share(text).ok_or_else(|| wrong(place, "memory_share", text, "90%, 0.9")));
    let goal = options.goal.unwrap_or(ServingGoal::Throughput);
    let has_load = options.concurrency.is_some() || rate.is_some();
    let modes = match (&options.modes[..], goal) {
        ([], ServingGoal::Cache) if !has_load => vec![ServingMode::Aggregated],
        ([], _) => vec![ServingMode::Aggregated, ServingMode::Disaggregated],
        (given, _) => given.to_vec(),
    };
    Ok(ServingQuestionDocument {
        engine: options.engine.clone().unwrap_or_else(|| "vllm".to_owned()),
        classes: classes(options, place)?,
        concurrency: options.concurrency.map(|concurrency| concurrency as f64),
        rate,
        ttft_s: time("ttft", &options.ttft)?,
        tpot_s: time("tpot", &options.tpot)?,
        limits: options.limits.unwrap_or_default(),
        goal,
        modes,
        cache,
        chunk: options.chunk,
        memory_share: share.transpose()?,
        max_batch: options.max_batch,
        max_stages: options.max_stages.unwrap_or(STAGES),
        speculation: options.speculation.as_ref().map(|text| speculation(text, place)).transpose()?,
        prices: prices(&options.prices, cluster, place)?,
        factors: BTreeMap::new(),
        costs: Vec::new(),
        start: None,
    })
}

fn wrong(place: &Place, name: &str, text: &str, example: &str) -> Failure {
    Failure::new(U001, format!("`{text}` cannot be read"))
        .at(place(name))
        .help(format!("write it like {example}"))
}

/// Seconds of a text such as `2s` or `50ms`; a number alone is in seconds.
pub(super) fn duration(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("min", 60.0), ("s", 1.0), ("", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), unit)))?;
    number.parse::<f64>().ok().map(|number| number * unit)
}

/// A share such as `90%` or `0.9`.
fn parse_share(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

fn classes(options: &ServingOptions, place: &Place) -> Result<Vec<RequestClassDocument>> {
    if options.classes.is_empty() {
        let needed = |name: &str, value: Option<u64>| {
            value.ok_or_else(|| {
                Failure::new(U001, format!("{} is not given", place(name)))
                    .at(place(name))
                    .help("give the tokens of a prompt and of its answer, or classes of requests")
            })
        };
        return Ok(vec![RequestClassDocument {
            input: needed("input", options.input)?,
            output: needed("output", options.output)?,
            shared_prefix: options.shared_prefix.unwrap_or(0),
            share: 1.0,
        }]);
    }
    for (name, given) in [
        ("input", options.input.is_some()),
        ("output", options.output.is_some()),
        ("shared_prefix", options.shared_prefix.is_some()),
    ] {
        if given {
            let cause = format!("{} is given beside classes", place(name));
            return Err(Failure::new(U001, cause).at(place(name)).help("leave it out"));
        }
    }
    let parse = |text: &String| {
        let (lengths, share) = text.split_once('=').unwrap_or((text, "1"));
        let numbers: Option<Vec<u64>> = lengths.split(':').map(|number| number.trim().parse().ok()).collect();
        let class = match numbers.as_deref() {
            Some(&[input, output]) => Some((input, output, 0)),
            Some(&[input, output, prefix]) => Some((input, output, prefix)),
            _ => None,
        };
        class
            .zip(parse_share(share))
            .map(|((input, output, shared_prefix), share)| RequestClassDocument {
                input,
                output,
                shared_prefix,
                share,
            })
            .ok_or_else(|| wrong(place, "classes", text, "4096:512=70%, or 4096:512:1024=0.7 with a prefix"))
    };
    options.classes.iter().map(parse).collect()
}

fn speculation(text: &str, place: &Place) -> Result<SpeculationDocument> {
    let parts: Vec<&str> = text.split(':').collect();
    let parse = || {
        let (drafts, acceptance, share) = match parts[..] {
            [drafts, acceptance] => (drafts, acceptance, "0"),
            [drafts, acceptance, share] => (drafts, acceptance, share),
            _ => return None,
        };
        Some(SpeculationDocument {
            drafts: drafts.trim().parse().ok()?,
            acceptance: parse_share(acceptance)?,
            draft_share: parse_share(share)?,
        })
    };
    parse().ok_or_else(|| wrong(place, "speculation", text, "3:0.7, or 3:0.7:0.1 with the share of drafting"))
}

/// Prices by kinds, which may be named by their classes.
fn prices(texts: &[String], cluster: &ClusterDocument, place: &Place) -> Result<BTreeMap<String, f64>> {
    let mut prices = BTreeMap::new();
    for text in texts {
        let parse = || {
            let (name, price) = text.rsplit_once('=')?;
            Some((name, price.trim().parse::<f64>().ok()?))
        };
        let (name, price) = parse().ok_or_else(|| wrong(place, "prices", text, "h100=2.50"))?;
        let kinds = cluster.kinds.iter().filter(|kind| !kind.host);
        let named: Vec<_> = kinds.filter(|kind| kind.name == name || kind.class == name).collect();
        if named.is_empty() {
            let names = cluster.kinds.iter().map(|kind| format!("`{}` ({})", kind.name, kind.class));
            return Err(Failure::new(U001, format!("the cluster has no kind or class `{name}`"))
                .at(place("prices"))
                .help(format!("it has {}", names.collect::<Vec<_>>().join(", "))));
        }
        prices.extend(named.into_iter().map(|kind| (kind.name.clone(), price)));
    }
    Ok(prices)
}

/// Factors of a calibration for the model under an engine, by classes of devices of the cluster.
fn factors(
    path: &str,
    (model, structure): (&str, &Structure),
    engine: &str,
    cluster: &ClusterDocument,
) -> Result<BTreeMap<String, ServingFactorDocument>> {
    let files::Input { label, bytes } = files::read(path.as_ref())?;
    let calibration = Calibration::read(&label, &bytes)?;
    // A folder often has the name of the model that the configuration leaves out.
    let folder = Path::new(model).parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let classes = cluster.kinds.iter().map(|kind| kind.class.clone());
    let known = |class: String| {
        let find = |name: &str| calibration.find(name, &class, engine);
        let factor = find(&structure.name).or_else(|| find(folder?))?;
        Some((class, ServingFactorDocument { ttft: factor.ttft, tpot: factor.tpot }))
    };
    Ok(classes.filter_map(known).collect())
}
