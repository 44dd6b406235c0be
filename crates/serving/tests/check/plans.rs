//! Problems and plans by hand, with figures of the cost model.

use serde_json::{Value, json};
use stagewright_core::document::{ClusterDocument, ServingPlanDocument, ServingRole};
use stagewright_serving::fleet::BUSIEST;
use stagewright_serving::{Offer, Parallel, Problem, Replica};
use stagewright_structure::huggingface::{self, Reading};

/// A cluster of one kind with some devices, in servers of some.
fn cluster(count: u32, server: u32) -> ClusterDocument {
    let link = json!({"latency_s": 1e-6, "bandwidth": 1e11});
    let cluster = json!({"schema": "stagewright.cluster/1",
        "classes": {"gpu": {"peaks": {"bf16": 1e14}, "memory_bandwidth": 1e12}},
        "kinds": [{"name": "gpu", "class": "gpu", "count": count, "memory_bytes": 10e9, "reserve_bytes": 0.0, "link": link,
            "server": {"devices": server, "link": {"latency_s": 1e-5, "bandwidth": 1e10}}}]});
    serde_json::from_value(cluster).unwrap()
}

/// A problem of a model on devices of one kind, with changes to a question of throughput.
pub(super) fn problem(config: &str, count: u32, server: u32, changes: &Value) -> Problem {
    let mut question = json!({"engine": "vllm", "goal": "throughput", "modes": ["aggregated", "disaggregated"],
        "classes": [{"input": 500, "output": 50, "share": 1.0}], "max_stages": 1});
    for (name, value) in changes.as_object().unwrap() {
        question[name] = value.clone();
    }
    let structure = huggingface::read("config.json", config.as_bytes(), None, &Reading::default()).unwrap();
    let question = serde_json::from_value(question).unwrap();
    Problem::new("question", ("model", &structure), ("cluster", &cluster(count, server)), question).unwrap()
}

/// Equal replicas of a plan.
#[derive(Debug, Clone)]
pub(super) struct Copies {
    pub(super) count: u64,
    pub(super) role: ServingRole,
    pub(super) batch: u64,
    pub(super) tensor: u64,
    pub(super) data: u64,
    pub(super) experts: u64,
    /// Layers of the stages; empty for one with all.
    pub(super) layers: Vec<u32>,
}

impl Copies {
    /// Copies of one device each.
    pub(super) fn new(count: u64, role: ServingRole, batch: u64) -> Copies {
        Copies { count, role, batch, tensor: 1, data: 1, experts: 1, layers: Vec::new() }
    }

    /// Copies with another tensor degree.
    pub(super) fn tensor(self, tensor: u64) -> Copies {
        Copies { tensor, ..self }
    }

    /// Copies with some layers on each stage.
    pub(super) fn stages(self, layers: &[u32]) -> Copies {
        Copies { layers: layers.to_vec(), ..self }
    }

    /// Layers of every stage, as first ones and numbers.
    fn ranges(&self, problem: &Problem) -> Vec<(u32, u32)> {
        let all = [problem.model.layers.len() as u32];
        let mut next = 0;
        let layers = if self.layers.is_empty() { &all[..] } else { &self.layers };
        let range = |&count: &u32| {
            next += count;
            (next - count, count)
        };
        layers.iter().map(range).collect()
    }

    pub(super) fn replica<'p>(&self, problem: &'p Problem) -> Replica<'p> {
        let ranges = self.ranges(problem);
        let devices = self.tensor * self.data;
        let parallel = Parallel {
            tensor: self.tensor,
            data: self.data,
            expert_tensor: devices / self.experts,
            experts: self.experts,
        };
        let whole = problem.worker(0, parallel).unwrap();
        let stages: Vec<_> = ranges
            .iter()
            .map(|&(first, count)| whole.clone().with_layers(first as usize..(first + count) as usize))
            .collect();
        let is_inside = problem.fleet.is_inside(0, devices * ranges.len() as u64);
        let links = vec![problem.fleet.link(0, 0, is_inside); ranges.len() - 1];
        Replica::new("stages", stages, links).unwrap()
    }
}

/// The offer of a replica beside decoding within the limit on the time between tokens.
pub(super) fn offer(problem: &Problem, copies: &Copies) -> Offer {
    offer_beside(problem, copies, problem.question.tpot_s).unwrap()
}

/// The offer of a replica beside decoding with `step` seconds between tokens; `None` if it does not fit.
pub(super) fn offer_beside(problem: &Problem, copies: &Copies, step: Option<f64>) -> Option<Offer> {
    let (terms, replica) = (problem.terms(0, [0].into_iter()), copies.replica(problem));
    match copies.role {
        ServingRole::Aggregated => terms.aggregated(&replica, copies.batch).unwrap(),
        ServingRole::Decode => terms.decode(&replica, copies.batch),
        ServingRole::Prefill => terms.prefill(&replica, step.unwrap(), BUSIEST),
    }
}

/// A plan of replicas of one class, without a bound.
pub(super) fn plan(problem: &Problem, copies: &[Copies]) -> ServingPlanDocument {
    plan_beside(problem, copies, problem.question.tpot_s)
}

/// A plan whose prefill replicas count on `step` seconds between tokens.
pub(super) fn plan_beside(problem: &Problem, copies: &[Copies], step: Option<f64>) -> ServingPlanDocument {
    let document = |copies: &Copies| {
        let offer = offer_beside(problem, copies, step).expect("an offer");
        let stage = |(first, layers): (u32, u32)| {
            json!({"kind": "gpu", "tensor": copies.tensor, "data": copies.data, "experts": copies.experts,
                "first": first, "layers": layers})
        };
        let stages: Vec<Value> = copies.ranges(problem).into_iter().map(stage).collect();
        let tokens = problem.terms(0, [0].into_iter()).cache_tokens(&copies.replica(problem));
        json!({"role": copies.role, "class": 0, "count": copies.count, "stages": stages, "batch": copies.batch,
            "requests_per_s": offer.rate, "ttft_s": offer.ttft, "tpot_s": offer.tpot, "utilisation": offer.utilisation,
            "cache_tokens": tokens})
    };
    let rate = |role: ServingRole| -> f64 {
        let own = copies.iter().filter(|copies| copies.role == role);
        own.map(|copies| copies.count as f64 * offer_beside(problem, copies, step).unwrap().rate).sum()
    };
    let rate = rate(ServingRole::Aggregated) + rate(ServingRole::Prefill).min(rate(ServingRole::Decode));
    let devices: u64 = copies.iter().map(|copies| copies.count * copies.replica(problem).devices()).sum();
    let value = if problem.question.goal.is_maximised() { rate } else { devices as f64 };
    let kind = &problem.fleet.kinds[0];
    let documents: Vec<Value> = copies.iter().map(document).collect();
    let plan = json!({"schema": "stagewright.serving-plan/1", "status": "feasible", "solver": "hand", "model": "model",
        "cluster": cluster(kind.count as u32, kind.device.server as u32), "question": problem.question, "value": value,
        "bound": {"value": null, "source": "none", "certificate": null}, "gap": null, "requests_per_s": rate,
        "tokens_per_s": 50.0 * rate, "devices": devices, "seconds": 0.5, "replicas": documents});
    serde_json::from_value(plan).unwrap()
}
