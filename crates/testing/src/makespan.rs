//! Random small problems with every feature of the makespan model: kinds, hosts, groups, a matrix, memory,
//! pins, colocation, operators and tensors of zero cost, tensors with several readers.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, GroupDocument, KindDocument, LinkDocument, MatrixDocument,
    OperatorDocument, PinTargets, PinsDocument, TensorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

/// The problem drawn from a seed, with `operators` operators.
pub fn problem(number: u64, operators: usize) -> Problem {
    let mut rng = seed::stream(0xB0D5, number);
    let rng = &mut rng;
    let cluster = cluster(rng, if operators > 4 { 2 } else { 3 });
    let mut builder = GraphBuilder::new("random");
    let has_classes = rng.random_bool(0.4);
    let has_memory = rng.random_bool(0.3);
    let scale = if rng.random_bool(0.5) { 1.0 } else { 4.0 };
    for index in 0..operators {
        let mut operator = OperatorDocument::named(format!("o{index}"));
        for kind in &cluster.document().kinds {
            operator.seconds.insert(kind.class.clone(), seconds(rng));
        }
        if rng.random_bool(0.1) {
            let kinds = &cluster.document().kinds;
            operator.unsupported.push(kinds[rng.random_range(0..kinds.len())].class.clone());
        }
        if has_classes && rng.random_bool(0.6) {
            operator.colocation = Some(format!("class{}", rng.random_range(0..2)));
        }
        if has_memory {
            operator.parameter_bytes = f64::from(rng.random_range(0..4));
            operator.workspace_bytes = f64::from(rng.random_range(0..3));
        }
        builder.operator(operator);
    }
    let density = [0.2, 0.4, 0.7][rng.random_range(0..3)];
    for from in 0..operators {
        let mut readers: Vec<usize> = (from + 1..operators).filter(|_| rng.random_bool(density)).collect();
        // One tensor for all readers, or several tensors that divide them; occasionally a reader reads two.
        while !readers.is_empty() {
            let part = if rng.random_bool(0.5) { readers.len() } else { rng.random_range(1..=readers.len()) };
            let mut consumers: Vec<usize> = readers.drain(..part).collect();
            if !readers.is_empty() && rng.random_bool(0.2) {
                consumers.push(readers[0]);
            }
            let mut tensor = TensorDocument {
                name: None,
                producer: format!("o{from}"),
                consumers: consumers.iter().map(|to| format!("o{to}")).collect(),
                bytes: if rng.random_bool(0.2) { 0.0 } else { scale * f64::from(rng.random_range(1..=4)) },
                seconds: Default::default(),
            };
            if rng.random_bool(0.1) {
                tensor.seconds.insert(cluster.document().kinds[0].class.clone(), seconds(rng));
            }
            builder.timed_tensor(tensor);
        }
    }
    let pins = pins(rng, &cluster, operators);
    let execution = if rng.random_bool(0.2) { Execution::ContentionFree } else { Execution::Ports };
    let objective = Objective::Makespan { execution };
    Problem::pinned(builder.build().expect("a sound graph"), cluster, objective, pins)
        .expect("a sound problem")
}

fn seconds(rng: &mut ChaCha8Rng) -> f64 {
    if rng.random_bool(0.15) { 0.0 } else { f64::from(rng.random_range(1..=12)) / 2.0 }
}

fn link(rng: &mut ChaCha8Rng) -> LinkDocument {
    LinkDocument {
        latency_s: f64::from(rng.random_range(0..3)) / 2.0,
        bandwidth: [0.5, 1.0, 2.0, 8.0][rng.random_range(0..4)],
    }
}

fn cluster(rng: &mut ChaCha8Rng, max_devices: u32) -> Cluster {
    let mut kinds: Vec<KindDocument> = Vec::new();
    let groups: Vec<GroupDocument> = match rng.random_bool(0.3) {
        true => {
            (0..2).map(|index| GroupDocument { name: format!("group{index}"), uplink: link(rng) }).collect()
        }
        false => Vec::new(),
    };
    let memory = rng.random_bool(0.4);
    let mut left = rng.random_range(1..=max_devices);
    while left > 0 {
        let count = rng.random_range(1..=left);
        left -= count;
        let host = rng.random_bool(0.2);
        let group = rng.random_bool(0.7).then(|| rng.random_range(0..2));
        kinds.push(KindDocument {
            server: None,
            ram: None,
            reserve_bytes: None,
            name: format!("kind{}x", kinds.len()),
            class: format!("class{}", rng.random_range(0..2)),
            count,
            host,
            memory_bytes: memory.then(|| f64::from(rng.random_range(4..16))),
            link: (!host).then(|| link(rng)),
            group: group.filter(|_| !groups.is_empty()).map(|index: usize| groups[index].name.clone()),
        });
    }
    let devices: u32 = kinds.iter().map(|kind| kind.count).sum();
    let matrix = rng.random_bool(0.2).then(|| {
        let mut rows = || {
            (0..devices)
                .map(|_| (0..devices).map(|_| f64::from(rng.random_range(0..4)) / 2.0).collect())
                .collect()
        };
        MatrixDocument { delay_s: rows(), seconds_per_byte: rows() }
    });
    Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds,
        groups,
        matrix,
    })
    .expect("a sound cluster")
}

fn pins(rng: &mut ChaCha8Rng, cluster: &Cluster, operators: usize) -> PinsDocument {
    let mut pins = PinsDocument::default();
    if rng.random_bool(0.4) {
        let devices: Vec<String> = cluster.devices().map(|device| cluster.device_name(device)).collect();
        for index in (0..operators).filter(|_| rng.random_bool(0.3)).collect::<Vec<_>>() {
            let first = devices[rng.random_range(0..devices.len())].clone();
            let other = devices[rng.random_range(0..devices.len())].clone();
            let targets = if rng.random_bool(0.5) {
                PinTargets::One(first)
            } else {
                PinTargets::Any(vec![first, other])
            };
            pins.0.insert(format!("o{index}"), targets);
        }
    }
    pins
}
