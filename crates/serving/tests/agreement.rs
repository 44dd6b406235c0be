//! The formulas against the simulator, on random plans under steady loads. `docs/serving-times.md` has the figures by situation.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use stagewright_core::document::ServingRole;
use stagewright_core::document::{LinkDocument, Precision};
use stagewright_core::seed;
use stagewright_serving::simulator::{Arrivals, Fleet, Group, Settings, Traffic, simulate};
use stagewright_serving::{
    Device, Engine, Load, Model, Parallel, Pools, Prediction, Replica, RequestClass, Worker, aggregated,
    disaggregated, engines,
};

use super::fixture::model;

/// Number of plans.
const PLANS: usize = 400;

/// Periods of a request that are cut off, and those that are measured.
const PERIODS: [f64; 2] = [2.0, 6.0];

/// A random number between two, uniform in its logarithm.
pub(crate) fn spread(rng: &mut ChaCha8Rng, low: f64, high: f64) -> f64 {
    (rng.random_range(low.ln()..high.ln())).exp()
}

pub(crate) fn pick<T: Copy>(rng: &mut ChaCha8Rng, items: &[T]) -> T {
    *items.choose(rng).expect("items")
}

/// A dense model or a mixture with random widths.
pub(crate) fn random_model(rng: &mut ChaCha8Rng) -> Model {
    let heads = pick(rng, &[4, 8, 16]);
    let (layers, keys, hidden) = (rng.random_range(3..=8), pick(rng, &[1, 2, 4]), 128 * heads);
    let shape = format!(
        r#""num_hidden_layers": {layers}, "hidden_size": {hidden}, "num_attention_heads": {heads}, "head_dim": 128,
        "num_key_value_heads": {keys}, "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16""#
    );
    if rng.random_bool(0.5) {
        let inner = pick(rng, &[2, 4]) * hidden;
        model(&format!(r#"{{"model_type": "llama", "intermediate_size": {inner}, {shape}}}"#))
    } else {
        let (experts, active) = (pick(rng, &[8, 16, 64]), pick(rng, &[1, 2, 4]));
        model(&format!(
            r#"{{"model_type": "mixtral", "intermediate_size": {hidden}, "num_local_experts": {experts},
            "num_experts_per_tok": {active}, {shape}}}"#
        ))
    }
}

/// A device that reads all weights in 4 to 40 ms, as devices do that serve the models of their size.
pub(crate) fn random_device(rng: &mut ChaCha8Rng, model: &Model) -> Device {
    let plain = |bandwidth: f64, intensity: f64| Device {
        name: "test".into(),
        peaks: BTreeMap::from([
            (Precision::Bf16, bandwidth * intensity),
            (Precision::Fp32, bandwidth * 20.0),
        ]),
        bandwidth,
        memory: 1e12,
        inside: LinkDocument { latency_s: 2e-6, bandwidth: bandwidth / 5.0 },
        between: LinkDocument { latency_s: 1e-5, bandwidth: bandwidth / 40.0 },
        server: 8,
    };
    let any = plain(1.0, 1.0);
    let worker = Worker::new("", model, &engines()[0], &any, Parallel::tensor(1)).expect("a worker");
    plain(worker.weight_bytes() / spread(rng, 4e-3, 40e-3), spread(rng, 100.0, 600.0))
}

/// Reason why a plan is expected to differ, by the formulas alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    /// Fewer sequences on a rank than stages, or fewer than two after prompts apart.
    Few,
    /// Prompts need much of the time of replicas that read them.
    Prompts,
    /// The time to the first token is a large part of that of a request, where the batch should have room for all.
    Starts,
    /// None of these.
    Ordinary,
}

/// A random plan: deviations of the formulas from the simulator.
struct Case {
    is_apart: bool,
    situation: Situation,
    ttft: f64,
    tpot: f64,
    /// Deviation of the rate, by Little's law.
    rate: f64,
}

pub(crate) fn replica<'a>(
    rng: &mut ChaCha8Rng,
    model: &'a Model,
    engine: &'a Engine,
    device: &'a Device,
) -> Replica<'a> {
    let is_mixture = model.kinds.iter().any(|kind| kind.experts.is_some());
    let data = if is_mixture { pick(rng, &[1, 1, 2]) } else { 1 };
    let tensor = pick(rng, &[1, 2, 4]);
    let parallel = Parallel { tensor, data, expert_tensor: tensor, experts: data };
    let worker = Worker::new("", model, engine, device, parallel).expect("a worker");
    if data > 1 || rng.random_bool(0.7) {
        return Replica::single(worker);
    }
    let cut = rng.random_range(1..model.layers.len());
    let stages = [0..cut, cut..model.layers.len()].map(|layers| worker.clone().with_layers(layers));
    Replica::new("", stages.to_vec(), vec![device.inside]).expect("a pipeline")
}

pub(crate) fn group<'a>(role: ServingRole, replica: &Replica<'a>, count: u64) -> Group<'a> {
    Group { class: 0, role, replica: replica.clone(), count, batch: u64::MAX, weight: 1.0 }
}

/// Aggregated replicas, or pools, with the prediction for a load.
struct Plan<'a> {
    prediction: Prediction,
    groups: Vec<Group<'a>>,
    concurrency: u64,
    situation: Situation,
}

fn together<'a>(class: &RequestClass, load: u64, replica: &Replica<'a>, count: u64) -> Option<Plan<'a>> {
    let prediction = aggregated("", replica, class, &Load::steady(load as f64)).expect("a load")?;
    let decoding = (class.output as f64 - 1.0) * prediction.tpot;
    let situation = if prediction.batch < replica.stages().len() as f64 {
        Situation::Few
    } else if prediction.requests_per_s / replica.data() * replica.prompt_seconds(class) > 0.3 {
        Situation::Prompts
    } else if prediction.waiting == 0.0 && prediction.ttft > 0.2 * (prediction.ttft + decoding) {
        Situation::Starts
    } else {
        Situation::Ordinary
    };
    let groups = vec![group(ServingRole::Aggregated, replica, count)];
    Some(Plan { prediction, groups, concurrency: load * count, situation })
}

fn apart<'a>(class: &RequestClass, load: u64, pools: &Pools<'a>) -> Option<Plan<'a>> {
    let prediction = disaggregated("", pools, class, &Load::steady(load as f64)).expect("a load")?;
    let situation = if prediction.batch < 2.0_f64.max(pools.decode.stages().len() as f64) {
        Situation::Few
    } else if prediction.requests_per_s > 0.5 * pools.prefill_rate(class) {
        Situation::Prompts
    } else {
        Situation::Ordinary
    };
    let groups = vec![
        group(ServingRole::Prefill, &pools.prefill, pools.prefills),
        group(ServingRole::Decode, &pools.decode, pools.decodes),
    ];
    Some(Plan { prediction, groups, concurrency: load, situation })
}

/// The case of a number; `None` if the plan does not fit.
fn case(number: u64) -> Option<Case> {
    let rng = &mut seed::stream(0x51A1, number);
    let model = random_model(rng);
    let (engine, chunk) = (rng.random_range(0..engines().len()), pick(rng, &[2048, 8192]));
    let engine = Engine { chunk, outside_bytes: 0.0, ..engines()[engine].clone() };
    let mut device = random_device(rng, &model);
    let class = RequestClass::new(spread(rng, 64.0, 4096.0) as u64, spread(rng, 32.0, 512.0) as u64);
    let concurrency = spread(rng, 1.0, 128.0) as u64;
    if rng.random_bool(0.25) {
        // Memory for some of the requests only.
        let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).expect("a worker");
        let caches = spread(rng, 1.0, 64.0) * worker.cache_bytes(class.longest());
        device.memory = (worker.weight_bytes() + caches) / engine.memory_share;
    }
    let [prefill, decode] = [(); 2].map(|()| replica(rng, &model, &engine, &device));
    let [prefills, decodes] = [(); 2].map(|()| rng.random_range(1..=3));
    let (transfer, is_apart) = (device.between, rng.random_bool(0.5));
    let plan = if is_apart {
        apart(&class, concurrency, &Pools { prefill, prefills, decode, decodes, transfer })?
    } else {
        together(&class, concurrency, &prefill, prefills)?
    };
    let arrivals = Arrivals::Closed { concurrency: plan.concurrency };
    let fleet = Fleet { traffic: vec![Traffic { class, arrivals }], groups: plan.groups, transfer };
    let period = |ttft: f64, tpot: f64| ttft + (class.output as f64 - 1.0) * tpot;
    let formula = plan.prediction;
    let whole = period(formula.ttft, formula.tpot);
    let [warm_up_s, measured_s] = PERIODS.map(|count| count * whole);
    let settings = Settings { seed: number, warm_up_s, measured_s, events: 10_000_000 };
    let outcome = simulate("", &fleet, &settings).expect("a fleet");
    let own = outcome.classes[0];
    assert!(own.finished > 0 && !outcome.is_cut && own.refused == 0, "case {number}: {outcome:?}");
    let deviation = |formula: f64, simulated: f64| formula / simulated - 1.0;
    let rate = deviation(period(own.ttft.mean, own.tpot.mean), whole);
    let (ttft, tpot) = (deviation(formula.ttft, own.ttft.mean), deviation(formula.tpot, own.tpot.mean));
    Some(Case { is_apart, situation: plan.situation, ttft, tpot, rate })
}

/// Quantile of the absolute deviations.
fn quantile(cases: &[&Case], share: f64, deviation: fn(&Case) -> f64) -> f64 {
    let mut sizes: Vec<f64> = cases.iter().map(|case| deviation(case).abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes[(share * sizes.len() as f64) as usize]
}

#[test]
fn formulas_agree_with_the_simulator_but_for_known_situations() {
    let cases: Vec<Case> = (0..).filter_map(case).take(PLANS).collect();
    let select = |is_apart, situations: &[Situation]| -> Vec<&Case> {
        let is_selected = |case: &&Case| case.is_apart == is_apart && situations.contains(&case.situation);
        cases.iter().filter(is_selected).collect()
    };
    let all = [Situation::Few, Situation::Prompts, Situation::Starts, Situation::Ordinary];
    // Of TTFT, TPOT and rate: bounds of the median of all plans, and of the 90th percentile of ordinary ones.
    let deviations: [fn(&Case) -> f64; 3] = [|case| case.ttft, |case| case.tpot, |case| case.rate];
    for (is_apart, medians) in [(false, [0.05, 0.04, 0.03]), (true, [0.01; 3])] {
        let (whole, ordinary) = (select(is_apart, &all), select(is_apart, &[Situation::Ordinary]));
        assert!(3 * ordinary.len() > whole.len(), "more than a third is ordinary");
        for (index, deviation) in deviations.into_iter().enumerate() {
            let (median, percentile) =
                (quantile(&whole, 0.5, deviation), quantile(&ordinary, 0.9, deviation));
            assert!(median < medians[index], "apart {is_apart}, {index}: median {median}");
            assert!(percentile < 0.1, "apart {is_apart}, {index}: 90th percentile {percentile}");
        }
    }
}
