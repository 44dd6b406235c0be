//! No bound above the best of all plans of a small problem is proved.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stagewright_core::document::{
    ClusterDocument, GraphDocument, JointExecutionDocument, JointLayerDocument, JointPlanDocument,
    JointStageDocument, Parallelism, Schedule,
};
use stagewright_verify::{JointVerdict, check_joint};

use super::{runtimes, schedules};
use crate::documents::read;

/// Number of random problems.
const CASES: usize = 20;

/// Maximum number of plans of a problem, not counting microbatches.
const MOST_PLANS: usize = 4000;

/// Small numbers from a linear congruential generator.
struct Draws(u64);

impl Draws {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }

    fn amount(&mut self, least: u64, below: u64) -> f64 {
        (least + self.below(below)) as f64
    }
}

/// A problem and all its plans.
struct Case {
    graph: GraphDocument,
    cluster: ClusterDocument,
    plan: JointPlanDocument,
    layers: usize,
}

/// Dimensions of a problem besides those that all have.
#[derive(Clone, Copy, PartialEq)]
enum Besides {
    Nothing,
    Runtime,
    /// A given cut.
    Cut,
    /// Copies that divide states in groups.
    Shards,
    /// States of the optimizer on the host.
    Offload,
    /// Stages on two kinds of devices.
    Mixed,
}

impl Case {
    /// A chain of products on up to three kinds of devices.
    fn draw(draws: &mut Draws, besides: Besides) -> Self {
        let kinds = [1, 1, 2, 2, 3][draws.below(5) as usize];
        let kinds = if besides == Besides::Mixed { 2 } else { kinds };
        let layers = 2 + draws.below(if kinds == 1 { 3 } else { 2 }) as usize;
        let is_alike = draws.below(2) == 0;
        let mut row = || {
            let times = [(); 3].map(|()| draws.amount(1, 9));
            [times[0], times[1], times[2], draws.amount(1, 40)]
        };
        let first = row();
        let rows: Vec<[f64; 4]> = (0..layers).map(|_| if is_alike { first } else { row() }).collect();
        let graph = read(schedules::graph(&rows));

        let mut cluster = schedules::cluster();
        let kind = cluster["kinds"][0].clone();
        let all: Vec<Value> = (0..kinds)
            .map(|index| {
                let mut kind = kind.clone();
                kind["name"] = json!(["acc", "other", "third"][index]);
                kind["class"] = json!(["gpu", "slow", "gpu"][index]);
                kind["count"] = json!(if kinds == 1 { 4 } else { 2 });
                kind["memory_bytes"] = json!(60.0 + draws.amount(0, 160));
                let link = |draws: &mut Draws| json!({"latency_s": draws.amount(0, 2), "bandwidth": draws.amount(2, 20)});
                kind["link"] = link(draws);
                kind["server"] = json!({"devices": 2, "link": link(draws)});
                kind
            })
            .collect();
        cluster["classes"]["slow"] = json!({"memory_bandwidth": 0.6});
        cluster["kinds"] = json!(all);

        let mut parallel = BTreeMap::new();
        let mut with = |parallelism: Parallelism, given: u32| match draws.below(4) {
            0 => {}
            1 => drop(parallel.insert(parallelism, Some(given))),
            _ => drop(parallel.insert(parallelism, None)),
        };
        with(Parallelism::Tp, 2);
        with(Parallelism::Dp, 2);
        with(Parallelism::Zero, 2);
        with(Parallelism::Recompute, 2);
        with(Parallelism::Recompute, 1);
        parallel.insert(Parallelism::Pp, (draws.below(3) == 0).then_some(2));
        let mut plan: JointPlanDocument = read(super::plan("iteration", 4, &[], 1.0, json!([])));
        plan.objective.parallel = parallel;
        plan.objective.runtime = (besides == Besides::Runtime).then(|| read(runtime(draws)));
        let all = [
            Schedule::OneFOneB,
            Schedule::ZeroBubble,
            Schedule::Interleaved,
            Schedule::ZeroBubbleTwice,
            Schedule::DualPipeV,
        ];
        plan.objective.schedules = match draws.below(6) as usize {
            5 => all.to_vec(),
            only => vec![all[only]],
        };
        if besides == Besides::Cut {
            if draws.below(2) == 0 {
                plan.objective.parallel.remove(&Parallelism::Recompute);
            }
            let first = 1 + draws.below(layers as u64 - 1) as u32;
            let rest = layers as u32 - first;
            plan.objective.cut = Some(match draws.below(3) {
                0 => vec![1; layers],
                1 if rest > 1 => vec![first, 1, rest - 1],
                _ => vec![first, rest],
            });
            plan.objective.chunks = (draws.below(2) == 0).then_some(2);
        }
        if besides == Besides::Offload {
            for kind in cluster["kinds"].as_array_mut().expect("kinds").iter_mut() {
                let ram = json!({"bandwidth": draws.amount(1, 9), "link_bandwidth": draws.amount(5, 100)});
                kind["ram"] = if draws.below(5) == 0 { Value::Null } else { ram };
                if draws.below(2) == 0 && !kind["ram"].is_null() {
                    kind["ram"]["memory_bytes"] = json!(draws.amount(10, 60));
                }
            }
            let given = (draws.below(4) == 0).then_some(1);
            plan.objective.parallel.insert(Parallelism::Offload, given);
        }
        if besides == Besides::Mixed {
            plan.objective.parallel.insert(Parallelism::Mixed, None);
            plan.objective.parallel.insert(Parallelism::Dp, (draws.below(3) > 0).then_some(2));
        }
        if besides == Besides::Shards {
            plan.objective.parallel.insert(Parallelism::Dp, Some(4));
            plan.objective.parallel.insert(Parallelism::Zero, None);
            plan.objective.parallel.insert(Parallelism::Shard, (draws.below(2) == 0).then_some(2));
        }
        Case { graph, cluster: read(cluster), plan, layers }
    }

    /// The best and the worst of all plans that hold, with their values; `None` if there are too many.
    fn extremes(&self) -> Option<[(f64, JointPlanDocument); 2]> {
        let mut found: Option<[(f64, JointPlanDocument); 2]> = None;
        let kinds: Vec<String> = self.cluster.kinds.iter().map(|kind| kind.name.clone()).collect();
        let may_have = |parallelism: Parallelism, without: u32, any: &[u32]| match self
            .plan
            .objective
            .parallel
            .get(&parallelism)
        {
            None => vec![without],
            Some(Some(given)) => vec![*given],
            Some(None) => any.to_vec(),
        };
        // Only with a runtime, a group may have the devices of two servers.
        let tensor = may_have(
            Parallelism::Tp,
            1,
            if self.plan.objective.runtime.is_some() { &[1, 2, 4] } else { &[1, 2] },
        );
        let mut tensors: Vec<Vec<u32>> = vec![Vec::new()];
        let may_mix = self.plan.objective.parallel.contains_key(&Parallelism::Mixed);
        // Stages on two kinds have a degree of their own.
        let places = kinds.len() + usize::from(may_mix);
        for _ in 0..places {
            let longer = |degrees: &Vec<u32>| {
                let degrees = degrees.clone();
                tensor.iter().map(move |&next| degrees.iter().copied().chain([next]).collect())
            };
            tensors = tensors.iter().flat_map(longer).collect();
        }
        let zero = may_have(Parallelism::Zero, 0, &[0, 1, 2, 3]);
        let is_free = |parallelism| self.plan.objective.parallel.get(&parallelism) == Some(&None);
        let all: &[u32] = if is_free(Parallelism::Offload) { &[0, 1, 2, 3] } else { &[0, 1, 2] };
        let recompute = may_have(Parallelism::Recompute, 0, all);
        let data = may_have(Parallelism::Dp, 1, &[1, 2, 4]);
        let offload = may_have(Parallelism::Offload, 0, &[0, 1]);
        let layers = self.layers as u32;
        let stages = places * (places + 1).pow(layers - 1) * recompute.len().pow(layers);
        let degrees = tensors.len() * zero.len() * data.len() * offload.len();
        if stages * degrees * self.plan.objective.schedules.len() > MOST_PLANS {
            return None;
        }
        for data in data {
            for microbatch in [1, 2, 4].into_iter().filter(|microbatch| 4 / data % microbatch == 0) {
                let shards = if data == 4 { vec![None, Some(2)] } else { vec![None] };
                let states = zero.iter().flat_map(|zero| shards.iter().map(move |&by| (zero, by)));
                for (&zero, shards) in states {
                    let schedules = self.plan.objective.schedules.iter();
                    for (&schedule, &offload) in
                        schedules.flat_map(|by| offload.iter().map(move |to| (by, to)))
                    {
                        let mut plan = self.plan.clone();
                        plan.execution = Some(JointExecutionDocument {
                            microbatch,
                            microbatches: 4 / data / microbatch,
                            data,
                            expert: 1,
                            zero,
                            schedule,
                            chunks: if schedule.has_chunks() { 2 } else { 1 },
                            context: 1,
                            exchange: None,
                            shards,
                            offload: offload == 1,
                        });
                        for tensors in &tensors {
                            self.all_stages(&plan, &kinds, tensors, &recompute, &mut found);
                        }
                    }
                }
            }
        }
        found
    }

    /// All partitions into stages, kinds and configurations.
    fn all_stages(
        &self,
        plan: &JointPlanDocument,
        kinds: &[String],
        tensors: &[u32],
        recompute: &[u32],
        found: &mut Option<[(f64, JointPlanDocument); 2]>,
    ) {
        let data = plan.execution.as_ref().map_or(1, |execution| execution.data);
        let place = |index: usize| JointStageDocument {
            data,
            tensor: tensors[index.min(tensors.len() - 1)],
            ..JointStageDocument::default()
        };
        let on =
            |(index, kind): (usize, &String)| JointStageDocument { kind: Some(kind.clone()), ..place(index) };
        let mut places: Vec<JointStageDocument> = kinds.iter().enumerate().map(on).collect();
        if let [first, second] = kinds
            && tensors.len() > 2
        {
            places.extend((1..data).map(|copies| JointStageDocument {
                mixed: [(first.clone(), copies), (second.clone(), data - copies)].into(),
                ..place(2)
            }));
        }
        for cuts in 0..1u32 << (self.layers - 1) {
            for on in 0..places.len().pow(cuts.count_ones() + 1) {
                for configurations in 0..recompute.len().pow(self.layers as u32) {
                    let mut plan = plan.clone();
                    let (mut on, mut configurations) = (on, configurations);
                    for layer in 0..self.layers {
                        if layer == 0 || cuts & (1 << (layer - 1)) != 0 {
                            plan.stages.push(places[on % places.len()].clone());
                            on /= places.len();
                        }
                        let configuration = recompute[configurations % recompute.len()];
                        configurations /= recompute.len();
                        let configuration =
                            ["none", "selective", "full", "offload"][configuration as usize].to_owned();
                        let layer = JointLayerDocument { layer: format!("block.{layer}"), configuration };
                        plan.stages.last_mut().expect("a stage").layers.push(layer);
                    }
                    self.consider(plan, found);
                }
            }
        }
    }

    /// Keeps a plan if it holds and is better or worse than others.
    fn consider(&self, plan: JointPlanDocument, found: &mut Option<[(f64, JointPlanDocument); 2]>) {
        let Ok(report) = check_joint(&self.graph, &self.cluster, &plan) else { return };
        // The plan states no figures, so violations about figures are expected.
        let Some(value) =
            report.value_s.filter(|_| report.violations.iter().all(|found| found.kind() == "figure"))
        else {
            return;
        };
        match found {
            None => *found = Some([(value, plan.clone()), (value, plan)]),
            Some([best, _]) if value < best.0 => *best = (value, plan),
            Some([_, worst]) if value > worst.0 => *worst = (value, plan),
            _ => {}
        }
    }

    /// The verdict on a bound, stated with a plan.
    fn verdict(&self, plan: &JointPlanDocument, bound: f64) -> JointVerdict {
        let mut plan = plan.clone();
        plan.bound.value_s = Some(bound);
        check_joint(&self.graph, &self.cluster, &plan).expect("the documents describe a problem").bound
    }
}

/// A runtime whose constants matter beside the times of [`Case::draw`].
fn runtime(draws: &mut Draws) -> Value {
    let mut choose = |values: &[f64]| values[draws.below(values.len() as u64) as usize];
    let mut runtime = runtimes::runtime(json!({
        "memory": choose(&[1.0, 0.8]), "passes": choose(&[1.0, 2.0]), "link": choose(&[1.0, 0.7]),
        "network": choose(&[1.0, 0.5]), "tensor": choose(&[0.5, 1.0, 1.5]), "contention": choose(&[0.0, 0.3, 1.0]),
        "host_s": choose(&[0.0, 2.0, 6.0]), "pipeline_host_s": choose(&[0.0, 1.0, 3.0]),
        "iteration_s": choose(&[0.0, 5.0, 200.0]), "reduction": choose(&[1.0, 2.0]),
        "gradients": choose(&[1.0, 2.0]), "activations": choose(&[1.0, 1.5]), "buckets": choose(&[1.0, 3.0]), "loss": choose(&[0.0, 0.5]),
    }));
    for name in ["sequence_parallel", "whole_loss"] {
        runtime[name] = json!(draws.below(2) == 0);
    }
    runtime
}

#[test]
fn no_bound_above_the_best_plan_is_proved() {
    bounds_are_sound(&mut Draws(7), Besides::Nothing);
}

#[test]
fn no_bound_above_the_best_plan_of_a_runtime_is_proved() {
    bounds_are_sound(&mut Draws(11), Besides::Runtime);
}

#[test]
fn no_bound_above_the_best_plan_of_a_cut_is_proved() {
    bounds_are_sound(&mut Draws(13), Besides::Cut);
}

#[test]
fn no_bound_above_the_best_plan_with_groups_of_copies_is_proved() {
    bounds_are_sound(&mut Draws(17), Besides::Shards);
}

#[test]
fn no_bound_above_the_best_plan_with_states_on_hosts_is_proved() {
    bounds_are_sound(&mut Draws(19), Besides::Offload);
}

#[test]
fn no_bound_above_the_best_plan_with_stages_on_two_kinds_is_proved() {
    bounds_are_sound(&mut Draws(23), Besides::Mixed);
}

fn bounds_are_sound(draws: &mut Draws, besides: Besides) {
    let (mut cases, mut tight, mut near, mut far, mut mixed) = (0, 0, 0, 0, 0);
    while cases < CASES {
        let case = Case::draw(draws, besides);
        let Some([(best, fastest), (worst, plan)]) = case.extremes() else { continue };
        if worst < 1.02 * best {
            continue;
        }
        cases += 1;
        for factor in [1.0 + 1e-7, 1.0001, 1.001, 1.01] {
            assert_eq!(case.verdict(&plan, factor * best), JointVerdict::NotVerified, "{cases}");
        }
        let is_tight = case.verdict(&plan, best) == JointVerdict::Verified;
        // On one kind, each combination has a single plan of a cut, if layers have a single configuration.
        let may_recompute = case.plan.objective.parallel.contains_key(&Parallelism::Recompute);
        let has_many = may_recompute || case.cluster.kinds.len() > 1;
        assert!(is_tight || besides != Besides::Cut || has_many, "{cases}");
        tight += usize::from(is_tight);
        near += usize::from(case.verdict(&plan, 0.8 * best) == JointVerdict::Verified);
        let may_choose = case.plan.objective.parallel.get(&Parallelism::Offload) == Some(&None);
        far += usize::from(may_choose && fastest.execution.is_some_and(|execution| execution.offload));
        mixed += usize::from(fastest.stages.iter().any(|stage| !stage.mixed.is_empty()));
    }
    assert!(tight >= cases / 10 && near >= cases / 2, "{tight} and {near} of {cases}");
    assert!(besides != Besides::Mixed || mixed >= cases / 10, "{mixed} of {cases}");
    // States are sometimes better on the host.
    assert!(besides != Besides::Offload || far >= cases / 10, "{far} of {cases}");
}
