//! `explain --measured` of a serving plan: benchmarks of its running replicas beside its times, and factors for the next plan.
//!
//! The formulas of a plan are about a load that has lasted long. A benchmark begins with all requests at once and ends with few, so
//! it is compared with a simulation of the same requests through the same replicas.

use std::collections::BTreeSet;

use serde::Serialize;
use stagewright_core::document::{ServingFactorDocument, ServingPlanDocument, ServingRole};
use stagewright_core::seed;
use stagewright_formats::InputError;
use stagewright_formats::code::L;
use stagewright_report::grid::{Column, Grid};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::lines;
use stagewright_serving::benchmark::{Benchmark, Offered};
use stagewright_serving::simulator::{
    Arrivals, Fleet, Settings, TracedRequest, Traffic, exponential, simulate,
};
use stagewright_serving::{Calibration, Factor, RequestClass};

use super::question::Serving;
use super::simulate::{EVENTS, groups};
use crate::failure::Result;

/// Seed of the arrivals of simulations.
const SEED: u64 = 0;

/// Requests of a benchmark that are simulated: means change little after as many.
const REQUESTS: u64 = 5000;

/// Requests of a closed loop that are simulated at least, as a multiple of those in the system.
const ROUNDS: u64 = 4;

/// Seconds after which every simulated request has ended.
const UNTIL_ALL_END: f64 = 1e12;

/// The largest factor that a question takes.
const LARGEST: f64 = 1e12;

/// Benchmarks beside a plan.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measured {
    runs: Vec<Run>,
    /// Factors that make the simulated times the measured ones, in the geometric mean of the runs.
    factors: ServingFactorDocument,
}

/// A run of a benchmark beside its prediction.
#[derive(Debug, Clone, Serialize)]
struct Run {
    requests: u64,
    input: u64,
    output: u64,
    load: String,
    ttft: Pair,
    tpot: Pair,
}

/// Seconds that were measured, and those that the plan predicts.
#[derive(Debug, Clone, Copy, Serialize)]
struct Pair {
    measured_s: f64,
    predicted_s: f64,
    /// Prediction over measurement, less 1.
    error: f64,
}

impl Pair {
    fn new(measured_s: f64, predicted_s: f64) -> Pair {
        Pair { measured_s, predicted_s, error: predicted_s / measured_s - 1.0 }
    }
}

impl Measured {
    /// Simulates the requests of benchmarks through the replicas of a plan.
    ///
    /// # Errors
    /// If the plan has no replicas, or a replica of another model (U008), or several classes of requests, or no request of a benchmark
    /// is finished in the simulation (L026).
    pub(super) fn new(
        task: &Serving,
        plan: &ServingPlanDocument,
        label: &str,
        benchmarks: &[Benchmark],
    ) -> Result<Measured> {
        let problem = &task.problem;
        let wrong =
            |path: &str, message: &str, help: &str| InputError::at_path(L::L026, label, path, message, help);
        let [class] = &problem.classes[..] else {
            let message = "the plan has several classes of requests, and a benchmark has one";
            return Err(wrong("question.classes", message, "plan the class of the benchmark").into());
        };
        let groups = groups(problem, plan, label)?;
        let known = known(task, plan);
        let (mut runs, mut ratios) = (Vec::new(), [0.0, 0.0]);
        for benchmark in benchmarks {
            let shared_prefix = class.shared_prefix.min(benchmark.input.saturating_sub(1));
            let class = RequestClass { input: benchmark.input, output: benchmark.output, shared_prefix };
            class.check(label)?;
            let requests = benchmark.requests.min(REQUESTS);
            let (arrivals, load) = match benchmark.offered {
                Offered::Closed(concurrency) => {
                    let requests = requests.max(concurrency.saturating_mul(ROUNDS)).min(benchmark.requests);
                    (Arrivals::Benchmark { concurrency, requests }, format!("closed:{concurrency}"))
                }
                Offered::Rate(rate) => (poisson(rate, requests, &class), format!("poisson:{rate}")),
            };
            let fleet = Fleet {
                traffic: vec![Traffic { class, arrivals }],
                groups: groups.clone(),
                transfer: problem.fleet.transfer(),
            };
            let settings = Settings { seed: SEED, warm_up_s: 0.0, measured_s: UNTIL_ALL_END, events: EVENTS };
            let simulated = simulate(label, &fleet, &settings)?;
            if simulated.is_cut {
                let message = format!("the simulation of {load} takes more than {EVENTS} events");
                return Err(
                    wrong("replicas", &message, "measure fewer requests at once, or shorter ones").into()
                );
            }
            let outcome = simulated.classes[0];
            if outcome.finished == 0 {
                let help = "give the plan whose replicas were measured";
                return Err(wrong(
                    "replicas",
                    "no request of the benchmark is finished in a simulation",
                    help,
                )
                .into());
            }
            let own = [outcome.ttft.mean, outcome.tpot.mean];
            ratios[0] += (benchmark.ttft / own[0]).ln();
            ratios[1] += (benchmark.tpot / own[1]).ln();
            runs.push(Run {
                requests: benchmark.requests,
                input: benchmark.input,
                output: benchmark.output,
                load,
                ttft: Pair::new(benchmark.ttft, known.ttft * own[0]),
                tpot: Pair::new(benchmark.tpot, known.tpot * own[1]),
            });
        }
        let [ttft, tpot] = ratios.map(|sum| (sum / runs.len() as f64).exp());
        if !(ttft > 0.0 && ttft <= LARGEST && tpot > 0.0 && tpot <= LARGEST) {
            let message = format!("the measured times are {ttft} and {tpot} of the predicted ones");
            return Err(wrong("replicas", &message, "give the plan whose replicas were measured").into());
        }
        Ok(Measured { runs, factors: ServingFactorDocument { ttft, tpot } })
    }

    /// A calibration with the factors, for every class of devices of the plan. Devices that only read prompts keep their time between tokens,
    /// and those that only decode their time to the first token.
    pub(super) fn calibration(&self, task: &Serving, plan: &ServingPlanDocument) -> Calibration {
        let ServingFactorDocument { ttft, tpot } = self.factors;
        let factor = |system: &str| Factor {
            model: task.problem.model.name.clone(),
            system: system.to_owned(),
            engine: task.problem.engine.name.clone(),
            ttft: if systems(task, plan, reads).contains(system) { ttft } else { 1.0 },
            tpot: if systems(task, plan, decodes).contains(system) { tpot } else { 1.0 },
            measurements: self.runs.len() as u64,
        };
        Calibration::new(systems(task, plan, |_| true).into_iter().map(factor).collect())
    }

    /// The comparison as a table.
    pub(super) fn text(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new([
            ("load", Column::Words),
            ("tokens", Column::Words),
            ("requests", Column::Figures),
            ("time", Column::Keys),
            ("measured", Column::Figures),
            ("predicted", Column::Figures),
            ("error", Column::Figures),
        ]);
        for run in &self.runs {
            for (name, pair) in [("TTFT", run.ttft), ("TPOT", run.tpot)] {
                grid.row([
                    run.load.clone(),
                    format!("{} to {}", run.input, run.output),
                    run.requests.to_string(),
                    name.to_owned(),
                    seconds(pair.measured_s),
                    seconds(pair.predicted_s),
                    percent(pair.error),
                ]);
            }
        }
        let factors = format!(
            "the measured times are {:.3} (TTFT) and {:.3} (TPOT) of those without a calibration",
            self.factors.ttft, self.factors.tpot
        );
        format!("\n{}{}", grid.text(width), lines(&factors, width))
    }
}

/// Requests that arrive at random.
fn poisson(rate: f64, requests: u64, class: &RequestClass) -> Arrivals {
    let mut random = seed::stream(SEED, 0);
    let mut arrival_s = 0.0;
    let request = |_| {
        arrival_s += exponential(&mut random, 1.0 / rate);
        TracedRequest { arrival_s, input: class.input, output: class.output }
    };
    Arrivals::Trace((0..requests).map(request).collect())
}

/// Whether replicas of a role read prompts.
fn reads(role: ServingRole) -> bool {
    role != ServingRole::Decode
}

/// Whether replicas of a role decode.
fn decodes(role: ServingRole) -> bool {
    role != ServingRole::Prefill
}

/// Classes of the devices that replicas of the plan in some roles take.
fn systems<'t>(
    task: &'t Serving,
    plan: &ServingPlanDocument,
    is_own: impl Fn(ServingRole) -> bool,
) -> BTreeSet<&'t str> {
    let replicas = plan.replicas.iter().filter(|replica| is_own(replica.role));
    let names: BTreeSet<&str> =
        replicas.flat_map(|replica| &replica.stages).map(|stage| stage.kind.as_str()).collect();
    let kinds = task.problem.fleet.kinds.iter().filter(|kind| names.contains(kind.name.as_str()));
    kinds.map(|kind| kind.device.name.as_str()).collect()
}

/// The factors that the plan has already: the largest of the devices that read prompts, and of those that decode.
fn known(task: &Serving, plan: &ServingPlanDocument) -> ServingFactorDocument {
    let kinds = &task.problem.fleet.kinds;
    let of_roles = |is_own: fn(ServingRole) -> bool| {
        let used = systems(task, plan, is_own);
        let indices = (0..kinds.len()).filter(|&kind| used.contains(kinds[kind].device.name.as_str()));
        task.problem.terms(0, indices).factor
    };
    ServingFactorDocument { ttft: of_roles(reads).ttft, tpot: of_roles(decodes).tpot }
}
