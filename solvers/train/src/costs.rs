//! Costs of a shape: from operators and edges to a graph document.
//!
//! Real graphs differ more in the distribution of their costs than in their structure, so every graph draws its own
//! pricing: times that depend on operator roles or not, heavy tails or nearly constant costs, tensors that grow with
//! the time of their producer or not, times given as FLOP and bytes for the cluster's roofline or measured per device
//! class. Absolute numbers matter little: the cluster determines the ratio of transfers to computing.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::clusters::{CLASSES, REFERENCE_BANDWIDTH, REFERENCE_FLOPS};
use super::draw::{log_normal, log_uniform, one_of};
use super::passes::backward;
use super::shape::{Role, Shape};

/// Range of the seconds of an operator of median cost on the reference device.
const SECONDS: [f64; 2] = [1e-5, 1e-2];
/// Range of the bytes of a tensor of median size, and of the parameters of an operator.
const BYTES: [f64; 2] = [1e4, 1e8];
/// Range of the standard deviation of log costs with heavy tails.
const DEVIATIONS: [f64; 2] = [0.3, 1.5];
/// Standard deviation of log costs that are nearly constant.
const NEARLY_NONE: f64 = 0.03;
/// Range of the time of a class relative to the first class, for measured times.
const SLOWNESS: [[f64; 2]; 3] = [[1.0, 1.0], [0.25, 4.0], [4.0, 20.0]];
/// Maximum time of the non-limiting quantity of the roofline, as a fraction of that of the limiting one.
const HIDDEN: f64 = 0.3;

/// Pricing of a graph.
#[derive(Debug, Clone, Copy)]
struct Pricing {
    seconds: f64,
    seconds_deviation: f64,
    by_role: bool,
    /// Time of each class relative to the first, for measured times; `None` for FLOP and bytes.
    measured: Option<[f64; 3]>,
    tensor_bytes: f64,
    tensor_deviation: f64,
    /// Whether the size of a tensor scales with the time of its producer.
    coupled: bool,
    /// Whether every reader receives its own tensor.
    per_reader: bool,
    parameter_bytes: f64,
    has_workspace: bool,
    /// Bytes of optimiser state per byte of parameters, for training.
    optimizer: f64,
}

impl Pricing {
    fn draw(rng: &mut ChaCha8Rng) -> Pricing {
        let deviation = |rng: &mut ChaCha8Rng| {
            if rng.random_bool(0.25) { NEARLY_NONE } else { rng.random_range(DEVIATIONS[0]..DEVIATIONS[1]) }
        };
        let measured = rng.random_bool(0.4);
        let slowness = SLOWNESS.map(|[least, largest]| log_uniform(rng, least, largest));
        Pricing {
            seconds: log_uniform(rng, SECONDS[0], SECONDS[1]),
            seconds_deviation: deviation(rng),
            by_role: rng.random_bool(0.7),
            measured: measured.then_some(slowness),
            tensor_bytes: log_uniform(rng, BYTES[0], BYTES[1]),
            tensor_deviation: deviation(rng),
            coupled: rng.random_bool(0.3),
            per_reader: rng.random_bool(0.25),
            parameter_bytes: log_uniform(rng, BYTES[0], BYTES[1]),
            has_workspace: rng.random_bool(0.3),
            optimizer: one_of(rng, &[0.0, 1.0, 2.0]),
        }
    }
}

/// Prices a shape as an inference step or, with its backward pass, as a training step. O(edges).
pub(super) fn document(rng: &mut ChaCha8Rng, name: &str, shape: &Shape, is_training: bool) -> GraphDocument {
    let pricing = Pricing::draw(rng);
    let operators: Vec<OperatorDocument> =
        (0..).zip(&shape.roles).map(|(index, &role)| operator(rng, index, role, &pricing)).collect();
    let mut bytes = Vec::with_capacity(operators.len());
    for (operator, &role) in operators.iter().zip(&shape.roles) {
        let mut size = pricing.tensor_bytes * log_normal(rng, pricing.tensor_deviation);
        if pricing.coupled && role != Role::Input {
            size *= first_class_seconds(operator) / pricing.seconds;
        }
        bytes.push(size);
    }
    let tensors = tensors(rng, &operators, shape, &bytes, &pricing);
    let mut document = GraphDocument { operators, tensors, ..GraphDocument::new(GRAPH_SCHEMA, name) };
    for (operator, (&role, &bytes)) in document.operators.iter_mut().zip(shape.roles.iter().zip(&bytes)) {
        if pricing.has_workspace && role == Role::Product {
            operator.workspace_bytes = bytes * rng.random_range(0.0..2.0);
        }
    }
    if is_training {
        backward(&mut document, shape, &bytes, pricing.optimizer);
    }
    document
}

fn operator(rng: &mut ChaCha8Rng, index: usize, role: Role, pricing: &Pricing) -> OperatorDocument {
    let mut operator = OperatorDocument::named(format!("{}{index}", role.kind()));
    operator.kind = Some(role.kind().into());
    let weight = match (pricing.by_role, role) {
        (_, Role::Input) => 0.0,
        (true, role) => role.work(),
        (false, _) => 1.0,
    };
    let seconds = pricing.seconds * weight * log_normal(rng, pricing.seconds_deviation);
    set_seconds(rng, &mut operator, role, seconds, pricing);
    let parameters = role.parameters() * pricing.parameter_bytes;
    operator.parameter_bytes = if parameters > 0.0 { parameters * log_normal(rng, 1.0) } else { 0.0 };
    operator
}

/// Sets the time of an operator that takes `seconds` on the reference device.
fn set_seconds(
    rng: &mut ChaCha8Rng,
    operator: &mut OperatorDocument,
    role: Role,
    seconds: f64,
    pricing: &Pricing,
) {
    let Some(slowness) = pricing.measured else {
        // Products are compute-bound, everything else is memory-bound.
        let other = seconds * rng.random_range(0.0..HIDDEN);
        let [arithmetic, memory] = match role {
            Role::Product | Role::Attention => [seconds, other],
            _ => [other, seconds],
        };
        operator.flop = Some(arithmetic * REFERENCE_FLOPS);
        operator.bytes_moved = Some(memory * REFERENCE_BANDWIDTH);
        return;
    };
    let mut measured = BTreeMap::new();
    for (class, slowness) in CLASSES.into_iter().zip(slowness) {
        // Some operators suit a class better than others do.
        let own = if class == CLASSES[0] { 1.0 } else { log_normal(rng, 0.3) };
        measured.insert(class.to_owned(), seconds * slowness * own);
    }
    operator.seconds = measured;
}

/// Seconds on the reference device.
fn first_class_seconds(operator: &OperatorDocument) -> f64 {
    operator.seconds.get(CLASSES[0]).copied().unwrap_or_else(|| {
        let over = |amount: Option<f64>, rate: f64| amount.unwrap_or(0.0) / rate;
        over(operator.flop, REFERENCE_FLOPS).max(over(operator.bytes_moved, REFERENCE_BANDWIDTH))
    })
}

/// One tensor per operator with readers, or one per reader.
fn tensors(
    rng: &mut ChaCha8Rng,
    operators: &[OperatorDocument],
    shape: &Shape,
    bytes: &[f64],
    pricing: &Pricing,
) -> Vec<TensorDocument> {
    let mut tensors = Vec::new();
    for (index, readers) in shape.readers.iter().enumerate().filter(|(_, readers)| !readers.is_empty()) {
        let tensor = |readers: &[usize], bytes: f64| {
            let consumers = readers.iter().map(|&reader| operators[reader].name.clone()).collect();
            TensorDocument::new(&operators[index].name, consumers, bytes)
        };
        if pricing.per_reader {
            for reader in readers {
                let share = log_normal(rng, pricing.tensor_deviation);
                tensors.push(tensor(std::slice::from_ref(reader), bytes[index] * share));
            }
        } else {
            tensors.push(tensor(readers, bytes[index]));
        }
    }
    tensors
}
