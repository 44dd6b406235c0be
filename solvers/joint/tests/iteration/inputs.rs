//! Random tiny training graphs, clusters and runtimes.

use std::num::{NonZeroU32, NonZeroU64};

use rand::{Rng, RngExt};
use stagewright_core::document::{
    BatchDocument, CLUSTER_SCHEMA, ClassDocument, ClusterDocument, GRAPH_SCHEMA_2, GraphDocument,
    KindDocument, LinkDocument, OperatorDocument, Pass, Precision, RamDocument, RuntimeDocument,
    ServerDocument, TensorDocument,
};
use stagewright_core::seed;

/// A graph that is built from forward operators, one by one, with a backward operator for each.
#[derive(Default)]
struct Tape {
    operators: Vec<OperatorDocument>,
    backward: Vec<OperatorDocument>,
    updates: Vec<OperatorDocument>,
    tensors: Vec<TensorDocument>,
    layer: String,
}

impl Tape {
    /// Adds an operator with one output of random size; returns its name.
    fn add(
        &mut self,
        rng: &mut impl Rng,
        name: &str,
        kind: &str,
        inputs: &[&str],
        parameters: bool,
    ) -> String {
        let full = format!("{}.{name}", self.layer);
        let operator = |name: String, pass: Pass, rng: &mut dyn FnMut(u32) -> f64| OperatorDocument {
            kind: Some(kind.into()),
            pass,
            colocation: Some(full.clone()),
            layer: Some(self.layer.clone()),
            flop: Some(rng(60)),
            bytes_moved: Some(rng(40)),
            ..OperatorDocument::named(name)
        };
        let mut draw = |limit: u32| f64::from(rng.random_range(0..limit)) / 3.0;
        let mut forward = operator(full.clone(), Pass::Forward, &mut draw);
        let mut backward = operator(format!("{full}.grad"), Pass::Backward, &mut draw);
        if kind == "input" {
            (forward.flop, forward.bytes_moved, forward.launches) = (Some(0.0), Some(0.0), Some(0.0));
        }
        backward.workspace_bytes = draw(6);
        forward.activation_bytes = draw(4);
        if parameters {
            forward.parameter_bytes = draw(30) + 1.0;
            let mut update = operator(format!("{full}.update"), Pass::Update, &mut draw);
            update.optimizer_bytes = draw(60);
            let read = vec![update.name.clone()];
            self.tensors.push(TensorDocument::new(backward.name.clone(), read, forward.parameter_bytes));
            self.updates.push(update);
        }
        for input in inputs {
            let index = self.tensors.iter().position(|tensor| tensor.producer == *input).expect("an input");
            self.tensors[index].consumers.push(full.clone());
            if rng.random_bool(0.6) {
                self.tensors[index].consumers.push(backward.name.clone());
            }
            let to = format!("{input}.grad");
            if self.backward.iter().any(|other| other.name == to) {
                let bytes = self.tensors[index].bytes;
                self.tensors.push(TensorDocument::new(backward.name.clone(), vec![to], bytes));
            }
        }
        let bytes = if rng.random_bool(0.1) { 0.0 } else { f64::from(rng.random_range(1..30)) };
        self.tensors.push(TensorDocument::new(full.clone(), Vec::new(), bytes));
        self.operators.push(forward);
        if kind != "input" {
            self.backward.push(backward);
        }
        full
    }

    fn document(mut self, samples: u64) -> GraphDocument {
        self.operators.extend(self.backward.into_iter().rev());
        self.operators.extend(self.updates);
        GraphDocument {
            operators: self.operators,
            tensors: self.tensors,
            batch: Some(BatchDocument { samples: samples.try_into().expect("samples"), tokens: None }),
            ..GraphDocument::new(GRAPH_SCHEMA_2, "random")
        }
    }
}

/// A random model of up to four layers: attentions, feed-forward blocks, experts.
pub(super) fn random_graph(rng: &mut impl Rng) -> GraphDocument {
    let mut tape = Tape { layer: "embeddings".into(), ..Tape::default() };
    let tokens = tape.add(rng, "tokens", "input", &[], false);
    let mut x = tape.add(rng, "table", "embedding", &[&tokens], true);
    for number in 0..rng.random_range(1..3) {
        tape.layer = format!("layer.{number}");
        let has_scale = rng.random_bool(0.5);
        let norm = tape.add(rng, "norm", "rms_norm", &[&x], has_scale);
        let out = match rng.random_range(0..4) {
            0 | 3 => {
                let query = tape.add(rng, "query", "linear", &[&norm], true);
                let key = tape.add(rng, "key", "linear", &[&norm], true);
                // Latent attentions read queries and keys in several parts.
                let read: &[&str] = match rng.random_range(0..10) {
                    0 | 1 => &[&query],
                    2 => &[&query, &key, &norm],
                    _ => &[&query, &key],
                };
                let scores = tape.add(rng, "scores", "matmul", read, false);
                // Some scores are scaled apart, in the sequence's layout.
                let scaled = match has_scale {
                    true => tape.add(rng, "scale", "multiply", &[&scores], false),
                    false => scores.clone(),
                };
                // Two paths lead from the product to the softmax.
                let scaled = match rng.random_bool(0.1) {
                    true => tape.add(rng, "bias", "add", &[&scaled, &scores], false),
                    false => scaled,
                };
                let weights = tape.add(rng, "softmax", "softmax", &[&scaled], false);
                let values = if has_scale { &query } else { &key };
                let mut context = tape.add(rng, "context", "matmul", &[&weights, values], false);
                if rng.random_bool(0.1) {
                    // The last product of this attention is the first of another.
                    let weights = tape.add(rng, "softmax.1", "softmax", &[&context], false);
                    context = tape.add(rng, "context.1", "matmul", &[&weights, &key], false);
                }
                if rng.random_bool(0.1) {
                    // Another softmax of the same scores.
                    let weights = tape.add(rng, "softmax.2", "softmax", &[&scaled], false);
                    let other = tape.add(rng, "context.2", "matmul", &[&weights, &key], false);
                    context = tape.add(rng, "both", "add", &[&context, &other], false);
                }
                tape.add(rng, "output", "linear", &[&context], true)
            }
            1 => {
                let up = tape.add(rng, "up", "linear", &[&norm], true);
                // A product without parameters outside attentions excludes context parallelism.
                let kind = if rng.random_bool(0.9) { "gelu" } else { "matmul" };
                let active = tape.add(rng, "active", kind, &[&up], false);
                tape.add(rng, "down", "linear", &[&active], true)
            }
            _ => {
                let gate = tape.add(rng, "gate", "linear", &[&norm], true);
                let dispatch = tape.add(rng, "dispatch", "dispatch", &[&norm, &gate], false);
                let first = tape.add(rng, "expert.0", "linear", &[&dispatch], true);
                // A dispatch has an output for every expert.
                let bytes = f64::from(rng.random_range(1..9));
                let second = tape.add(rng, "expert.1", "linear", &[&dispatch], true);
                let shared = tape.tensors.iter_mut().find(|tensor| tensor.producer == dispatch);
                let shared = shared.expect("the output of the dispatch");
                shared.consumers.retain(|reader| !reader.starts_with(&second));
                let readers = vec![second.clone(), format!("{second}.grad")];
                tape.tensors.push(TensorDocument::new(dispatch, readers, bytes));
                tape.add(rng, "combine", "combine", &[&gate, &first, &second], false)
            }
        };
        x = tape.add(rng, "add", "add", &[&out, &x], false);
    }
    tape.layer = "head".into();
    let logits = tape.add(rng, "output", "linear", &[&x], true);
    tape.add(rng, "loss", "loss", &[&logits], false);
    tape.document(rng.random_range(1..3))
}

/// A stack of three or four feed-forward blocks, which may be alike.
pub(super) fn random_stack(rng: &mut impl Rng) -> GraphDocument {
    let mut tape = Tape { layer: "embeddings".into(), ..Tape::default() };
    let tokens = tape.add(rng, "tokens", "input", &[], false);
    let mut x = tape.add(rng, "table", "embedding", &[&tokens], true);
    let (is_alike, first) = (rng.random_bool(0.5), rng.next_u64());
    for number in 0..rng.random_range(3..5) {
        tape.layer = format!("layer.{number}");
        let own = &mut seed::stream(first, if is_alike { 0 } else { number });
        let up = tape.add(own, "up", "linear", &[&x], true);
        let active = tape.add(own, "active", "gelu", &[&up], false);
        x = tape.add(own, "down", "linear", &[&active], true);
    }
    tape.layer = "head".into();
    tape.add(rng, "loss", "loss", &[&x], false);
    tape.document(1)
}

/// Changes the colocation in some graphs, and the number of experts of a dispatch.
pub(super) fn relate(graph: &mut GraphDocument, number: u64) {
    for (index, operator) in graph.operators.iter_mut().enumerate() {
        match number % 4 {
            1 if operator.pass != Pass::Forward && index % 2 == 0 => operator.colocation = None,
            2 if operator.layer.as_deref() == Some("layer.0") => operator.colocation = Some("all".into()),
            3 if operator.kind.as_deref() == Some("dispatch") => operator.experts = NonZeroU32::new(4),
            _ => {}
        }
    }
}

pub(super) fn random_cluster(rng: &mut impl Rng) -> ClusterDocument {
    let link = |rng: &mut dyn FnMut(u32) -> f64| LinkDocument { latency_s: rng(3), bandwidth: rng(20) + 1.0 };
    let mut cluster = ClusterDocument { schema: CLUSTER_SCHEMA.into(), ..ClusterDocument::new("random") };
    let kinds = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][rng.random_range(0..10)];
    for kind in 0..kinds {
        let name = format!("kind{kind}");
        let mut draw = |limit: u32| f64::from(rng.random_range(0..limit)) / 7.0;
        cluster.classes.insert(
            name.clone(),
            ClassDocument {
                peak_flops: Some(draw(9) + 1.0),
                memory_bandwidth: Some(draw(9) + 1.0),
                launch_overhead_s: draw(4),
                ..ClassDocument::default()
            },
        );
        let (inside, outside) = (link(&mut draw), link(&mut draw));
        // Three kinds have many plans.
        let count = match kinds {
            1 if rng.random_bool(0.4) => 4,
            1 | 2 => rng.random_range(1..5),
            _ => rng.random_range(1..3),
        };
        let server = ServerDocument { devices: rng.random_range(1..3), link: outside };
        cluster.kinds.push(KindDocument {
            memory_bytes: Some(f64::from(rng.random_range(60..900))),
            reserve_bytes: Some(0.0),
            link: Some(inside),
            server: Some(server).filter(|_| rng.random_bool(0.7)),
            ..KindDocument::named(name, count)
        });
    }
    cluster
}

/// Memory of a host, which may be small, or none.
pub(super) fn random_ram(rng: &mut impl Rng) -> Option<RamDocument> {
    let bytes = f64::from(rng.random_range(5..120));
    let ram = RamDocument {
        memory_bytes: Some(bytes).filter(|_| rng.random_bool(0.7)),
        bandwidth: f64::from(rng.random_range(1..40)) / 3.0,
        link_bandwidth: f64::from(rng.random_range(1..40)) / 3.0,
    };
    Some(ram).filter(|_| rng.random_bool(0.7))
}

/// Constants of a runtime, some of which change nothing.
pub(super) fn random_runtime(rng: &mut impl Rng) -> RuntimeDocument {
    let mut pick = |values: [f64; 3]| values[rng.random_range(0..3)];
    RuntimeDocument {
        compute: pick([0.8, 1.0, 1.3]),
        copies: pick([0.5, 1.0, 1.5]),
        exchanges: pick([0.5, 1.0, 2.0]),
        transfers: pick([0.5, 1.0, 2.0]),
        name: "random".into(),
        source: None,
        sequence_parallel: pick([0.0, 0.0, 1.0]) > 0.5,
        fused_attention: pick([0.0, 0.0, 1.0]) > 0.5,
        attention: pick([0.5, 1.0, 2.0]),
        memory: pick([0.5, 0.7, 1.0]),
        passes: pick([1.0, 2.0, 3.0]),
        norms: pick([1.0, 1.0, 4.0]),
        scores: pick([1.0, 3.0, 3.0]),
        link: pick([0.4, 0.6, 1.0]),
        network: pick([0.4, 0.6, 1.0]),
        tensor: pick([0.4, 1.0, 1.7]),
        contention: pick([0.0, 0.2, 1.0]),
        host_s: pick([0.0, 3.0, 30.0]),
        pipeline_host_s: pick([0.0, 0.0, 5.0]),
        iteration_s: pick([0.0, 1.0, 20.0]),
        reduction: pick([1.0, 1.0, 2.0]),
        gradients: pick([0.5, 1.0, 2.0]),
        activations: pick([0.5, 1.0, 1.5]),
        buckets: pick([0.25, 0.5, 1.0]),
        loss: pick([0.0, 1.0, 3.5]),
        whole_loss: pick([0.0, 0.0, 1.0]) > 0.5,
        reserve_bytes: pick([0.0, 50.0, 300.0]),
        margin: pick([0.0, 0.0, 0.1]),
        wide_transfer_s: pick([0.0, 0.0, 7.0]),
        wide_servers: 2,
    }
}

/// Gives a graph the tokens of a sample and, in some cases, sizes that determine the number of heads; returns it.
pub(super) fn count_tokens(graph: &mut GraphDocument, rng: &mut impl Rng) -> Option<u32> {
    let tokens = [2, 4, 8, 12][rng.random_range(0..4)];
    let heads = [1, 2, 4][rng.random_range(0..3)];
    let batch = graph.batch.as_mut().filter(|_| rng.random_bool(0.9))?;
    batch.tokens = NonZeroU64::new(tokens);
    let of_head = (2 * batch.samples.get() * tokens * tokens) as f64;
    if rng.random_bool(0.5) || !graph.operators.iter().any(|operator| operator.name.ends_with(".scores")) {
        return None;
    }
    for operator in graph.operators.iter_mut().filter(|operator| operator.kind.as_deref() == Some("matmul")) {
        operator.precision = Some(Precision::Bf16).filter(|_| operator.name.ends_with(".scores"));
    }
    for tensor in &mut graph.tensors {
        let is_read = tensor.consumers.iter().any(|reader| reader.ends_with(".scores"));
        if tensor.producer.ends_with(".scores") {
            tensor.bytes = of_head * f64::from(heads);
        } else if is_read {
            tensor.bytes = 12.0;
        }
    }
    Some(heads)
}

/// A random cut of the numbered layers, with or without stages for the layers before and after them.
pub(super) fn random_cut(graph: &GraphDocument, rng: &mut impl Rng) -> Vec<u32> {
    let numbered = |number: &u32| {
        let name = format!("layer.{number}");
        graph.operators.iter().any(|operator| operator.layer.as_deref() == Some(&name))
    };
    let layers = (0..2).filter(numbered).count() as u32;
    let mut cut = if layers == 2 && rng.random_bool(0.5) { vec![1, 1] } else { vec![layers] };
    if rng.random_bool(0.5) {
        cut.insert(0, 0);
    }
    if rng.random_bool(0.5) {
        cut.push(0);
    }
    cut
}
