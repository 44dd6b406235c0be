//! Costs of a shape: from operators and edges to a graph document.
//!
//! Real graphs differ in how their costs are spread more than in how they are connected, so every graph draws a way to
//! price it: times that follow the roles of operators or not, heavy tails or nearly constant figures, tensors that grow
//! with the time of their producer or not, times as FLOP and bytes that the roofline of a cluster prices or measured for
//! every class of device. Absolute figures mean little: the cluster sets how long transfers take beside computing.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

use super::clusters::{CLASSES, REFERENCE_BANDWIDTH, REFERENCE_FLOPS};
use super::draw::{log_normal, log_uniform, one_of};
use super::families::shape::{Role, Shape};
use super::passes::backward;

/// Range of the seconds that an operator of median cost takes on a reference device.
const SECONDS: [f64; 2] = [1e-5, 1e-2];
/// Range of the bytes of a tensor of median size, and of the parameters of an operator.
const BYTES: [f64; 2] = [1e4, 1e8];
/// Range of the standard deviations of logarithms, where costs have heavy tails.
const DEVIATIONS: [f64; 2] = [0.3, 1.5];
/// The same where they are nearly constant.
const NEARLY_NONE: f64 = 0.03;
/// Range of the times that a class takes for what the first takes one for, where times are measured.
const SLOWNESS: [[f64; 2]; 3] = [[1.0, 1.0], [0.25, 4.0], [4.0, 20.0]];
/// Share of the limiting quantity of the roofline that the other one has.
const HIDDEN: f64 = 0.3;

/// How a graph is priced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pricing {
    seconds: f64,
    seconds_deviation: f64,
    by_role: bool,
    /// Times that each class takes for what the first takes one for; FLOP and bytes where there is none.
    measured: Option<[f64; 3]>,
    tensor_bytes: f64,
    tensor_deviation: f64,
    /// Whether a tensor is as large as its producer is slow.
    coupled: bool,
    /// Whether every reader is sent a tensor of its own.
    per_reader: bool,
    parameter_bytes: f64,
    has_workspace: bool,
    /// Bytes of optimiser state for each of parameters, in training.
    pub(super) optimizer: f64,
}

impl Pricing {
    pub(super) fn draw(rng: &mut ChaCha8Rng) -> Pricing {
        let deviation = |rng: &mut ChaCha8Rng| {
            if rng.random_bool(0.25) { NEARLY_NONE } else { rng.random_range(DEVIATIONS[0]..DEVIATIONS[1]) }
        };
        let measured = rng.random_bool(0.4);
        let slowness = SLOWNESS.map(|[least, most]| log_uniform(rng, least, most));
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

/// Prices a shape as an inference step or, with its backward pass, as a training step. Takes time linear in its edges.
pub(super) fn document(rng: &mut ChaCha8Rng, name: &str, shape: &Shape, is_training: bool) -> GraphDocument {
    let pricing = Pricing::draw(rng);
    let operators: Vec<OperatorDocument> =
        (0..).zip(&shape.roles).map(|(at, &role)| operator(rng, at, role, &pricing)).collect();
    let mut bytes = Vec::with_capacity(operators.len());
    for (operator, &role) in operators.iter().zip(&shape.roles) {
        let mut size = pricing.tensor_bytes * log_normal(rng, pricing.tensor_deviation);
        if pricing.coupled && role != Role::Input {
            size *= first_class_seconds(operator) / pricing.seconds;
        }
        bytes.push(size);
    }
    let tensors = tensors(rng, &operators, shape, &bytes, &pricing);
    let mut document = GraphDocument {
        schema: GRAPH_SCHEMA.into(),
        name: name.into(),
        operators,
        tensors,
        cluster: None,
        parameters: Vec::new(),
        batch: None,
        pipedream_skips: Vec::new(),
    };
    for (operator, (&role, &bytes)) in document.operators.iter_mut().zip(shape.roles.iter().zip(&bytes)) {
        if pricing.has_workspace && role == Role::Product {
            operator.workspace_bytes = bytes * rng.random_range(0.0..2.0);
        }
    }
    if is_training {
        backward(&mut document, shape, &bytes, &pricing);
    }
    document
}

fn operator(rng: &mut ChaCha8Rng, at: usize, role: Role, pricing: &Pricing) -> OperatorDocument {
    let mut operator = OperatorDocument::named(format!("{}{at}", role.kind()));
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

/// Says how long an operator takes that takes so long on a reference device.
fn set_seconds(
    rng: &mut ChaCha8Rng,
    operator: &mut OperatorDocument,
    role: Role,
    seconds: f64,
    pricing: &Pricing,
) {
    let Some(slowness) = pricing.measured else {
        // Products are limited by arithmetic, all else by memory.
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
        // Some operators suit a class better than others.
        let own = if class == CLASSES[0] { 1.0 } else { log_normal(rng, 0.3) };
        measured.insert(class.to_owned(), seconds * slowness * own);
    }
    operator.seconds = measured;
}

/// Seconds on a reference device.
fn first_class_seconds(operator: &OperatorDocument) -> f64 {
    match operator.seconds.get(CLASSES[0]) {
        Some(&seconds) => seconds,
        None => {
            let over = |amount: Option<f64>, rate: f64| amount.unwrap_or(0.0) / rate;
            over(operator.flop, REFERENCE_FLOPS).max(over(operator.bytes_moved, REFERENCE_BANDWIDTH))
        }
    }
}

/// One tensor for each operator that has readers, or one for each of its readers.
fn tensors(
    rng: &mut ChaCha8Rng,
    operators: &[OperatorDocument],
    shape: &Shape,
    bytes: &[f64],
    pricing: &Pricing,
) -> Vec<TensorDocument> {
    let mut tensors = Vec::new();
    for (at, readers) in shape.readers.iter().enumerate().filter(|(_, readers)| !readers.is_empty()) {
        let of = |readers: &[usize], bytes: f64| {
            let consumers = readers.iter().map(|&reader| operators[reader].name.clone()).collect();
            tensor(&operators[at].name, consumers, bytes)
        };
        if pricing.per_reader {
            for reader in readers {
                let share = log_normal(rng, pricing.tensor_deviation);
                tensors.push(of(std::slice::from_ref(reader), bytes[at] * share));
            }
        } else {
            tensors.push(of(readers, bytes[at]));
        }
    }
    tensors
}

/// A tensor without a name.
pub(super) fn tensor(producer: &str, consumers: Vec<String>, bytes: f64) -> TensorDocument {
    TensorDocument { name: None, producer: producer.into(), consumers, bytes, seconds: BTreeMap::new() }
}
