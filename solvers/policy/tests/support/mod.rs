//! Networks and features shared by the tests.

#![allow(dead_code, reason = "every test uses what it needs")]

use candle_core::{DType, Device, Tensor};
use rand::RngExt;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, Schedule};
use stagewright_policy::features::{Input, input};
use stagewright_policy::network::{Config, Network};
use stagewright_policy::subject::{Base, Subject};

/// The configuration of a small network.
pub(crate) fn small() -> Config {
    Config { width: 8, layers: 2, heads: 2, segment: 4, summaries: 2 }
}

/// A random device for each unit among those that can run it.
pub(crate) fn any_schedule(subject: &Subject<'_, '_>, number: u64) -> Schedule {
    let mut rng = seed::stream(31, number);
    let instance = subject.instance();
    let mut homes = Vec::new();
    for unit in subject.level().ids() {
        let capable: Vec<_> =
            instance.problem().cluster().devices().filter(|&device| subject.can_run(unit, device)).collect();
        homes.push(capable[rng.random_range(0..capable.len())]);
    }
    Schedule::without_priority(subject.level().project(instance, &homes.into()))
}

/// The features of a step with a random plan to improve on; `None` if some operator can run nowhere.
pub(crate) fn figures(problem: &Problem, number: u64) -> Option<Input> {
    let instance = Instance::new(problem);
    if instance.impossible().is_some() || problem.graph().operator_count() == 0 {
        return None;
    }
    let subject = Subject::new(&instance, usize::MAX, false);
    let mut evaluator = Evaluator::new(&instance);
    let base = Base::new(&subject, &mut evaluator, &any_schedule(&subject, number));
    Some(input(&subject, &base, base.seconds, base.seconds / 2.0))
}

/// A network whose parameters are all random, including those that are initially zero.
pub(crate) fn random_network(config: Config, seed: u64, dtype: DType, device: &Device) -> Network {
    let network = Network::new(config, seed, dtype, device).expect("a network");
    for (index, var) in network.weights().vars().values().enumerate() {
        let mut rng = seed::stream(seed ^ 77, index as u64);
        let numbers: Vec<f64> = (0..var.elem_count()).map(|_| rng.random_range(-0.5..0.5)).collect();
        let noise = Tensor::from_vec(numbers, var.dims(), &Device::Cpu).expect("a tensor");
        let noise = noise.to_dtype(dtype).and_then(|noise| noise.to_device(device)).expect("a tensor");
        var.set(&var.as_tensor().add(&noise).expect("alike")).expect("alike");
    }
    network
}

/// All outputs of a network, in one vector.
pub(crate) fn all_of(network: &Network, inputs: &[&Input]) -> Vec<f64> {
    let batch = network.batch(inputs).expect("a batch");
    let output = network.forward(&batch).expect("an output");
    let parts = [&output.priority, &output.together, &output.affinity, &output.value];
    let numbers = |part: &Tensor| {
        part.flatten_all().and_then(|part| part.to_dtype(DType::F64)).and_then(|part| part.to_vec1::<f64>())
    };
    parts.into_iter().flat_map(|part| numbers(part).expect("numbers")).collect()
}
