//! Compares the segment sum with candle's operations, in necessary bytes read and written per second.
//!
//! Items have 64 numbers, as in the network, and a graph has two edges per node. `segments` sums edges into nodes,
//! compared with `index_add`; `gather` copies nodes to edges, compared with `index_select`; `messages` sums, for each
//! node, the source nodes of its edges, which candle cannot do in one operation, so it is compared with `select_add`,
//! which combines `index_select` and `index_add`; `pool` sums all nodes into one. With the feature `cuda` and a GPU,
//! the same comparisons run there; `copy` is a device-to-device copy of the edges of `segments`, which measures the
//! memory bandwidth.
//!
//!     cargo bench -p stagewright-policy --bench rows
//!     cargo bench -p stagewright-policy --bench rows --features cuda

#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Result, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt;
use stagewright_core::ids::Id;
use stagewright_core::seed::stream;
use stagewright_policy::rows::Rows;

const WIDTH: usize = 64;
const EDGES: [usize; 3] = [10_000, 100_000, 1_000_000];

/// A random graph, with items on its edges and nodes.
struct Input {
    edges: usize,
    nodes: usize,
    node_of: Tensor,
    from: Tensor,
    messages: Rows,
    segments: Rows,
    pool: Rows,
    on_edges: Tensor,
    on_nodes: Tensor,
    /// Zeros on the nodes, the initial values of `index_add`.
    none: Tensor,
}

impl Input {
    fn new(edges: usize, device: &Device) -> Result<Self> {
        let nodes = edges / 2;
        let mut rng = stream(0, edges as u64);
        let node_of: Vec<u32> = (0..edges).map(|_| rng.random_range(0..u32::new(nodes))).collect();
        let from: Vec<u32> = (0..edges).map(|_| rng.random_range(0..u32::new(nodes))).collect();
        let mut items = |count: usize| {
            let numbers: Vec<f32> = (0..count * WIDTH).map(|_| rng.random()).collect();
            Tensor::from_vec(numbers, (count, WIDTH), device)
        };
        Ok(Input {
            edges,
            nodes,
            messages: messages(nodes, &from, &node_of),
            from: Tensor::from_vec(from, edges, device)?,
            segments: Rows::segments(nodes, &node_of).expect("every node is one of the nodes"),
            pool: Rows::segments(1, &vec![0; nodes]).expect("every node is in the one segment"),
            on_edges: items(edges)?,
            on_nodes: items(nodes)?,
            node_of: Tensor::from_vec(node_of, edges, device)?,
            none: Tensor::zeros((nodes, WIDTH), DType::F32, device)?,
        })
    }
}

/// The source nodes of the edges into each node.
fn messages(nodes: usize, from: &[u32], to: &[u32]) -> Rows {
    let mut edges: Vec<(u32, u32)> = to.iter().copied().zip(from.iter().copied()).collect();
    edges.sort_unstable();
    let offsets = u32::first(nodes + 1).map(|node| u32::new(edges.partition_point(|&(to, _)| to < node)));
    let from = edges.iter().map(|&(_, from)| from).collect();
    Rows::new(nodes, offsets.collect(), from).expect("edges that are sorted are compressed rows")
}

/// Time of `runs` runs; the device is idle before the first and after the last.
fn time(device: &Device, runs: u64, run: impl Fn() -> Result<Tensor>) -> Duration {
    let timed = || {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..runs {
            std::hint::black_box(run()?);
        }
        device.synchronize()?;
        Ok(start.elapsed())
    };
    let timed: Result<Duration> = timed();
    timed.expect("what is benched runs on this device")
}

fn compare(criterion: &mut Criterion, name: &str, device: &Device) {
    for edges in EDGES {
        let input = Input::new(edges, device).expect("the device has memory for a million edges");
        let gather = input.segments.transposed();
        let mut group = criterion.benchmark_group(name);
        let bytes = |items: usize| Throughput::Bytes((items * WIDTH * size_of::<f32>()) as u64);
        let mut run = |what: &str, items: usize, run: &dyn Fn() -> Result<Tensor>| {
            group.throughput(bytes(items));
            group.bench_function(BenchmarkId::new(what, edges), |bencher| {
                bencher.iter_custom(|runs| time(device, runs, run));
            });
        };
        let both = input.edges + input.nodes;
        run("segments", both, &|| input.segments.sum(&input.on_edges));
        run("index_add", both, &|| input.none.index_add(&input.node_of, &input.on_edges, 0));
        run("gather", both, &|| gather.sum(&input.on_nodes));
        run("index_select", both, &|| input.on_nodes.index_select(&input.node_of, 0));
        run("messages", both, &|| input.messages.sum(&input.on_nodes));
        run("select_add", both, &|| {
            let on_edges = input.on_nodes.index_select(&input.from, 0)?;
            input.none.index_add(&input.node_of, &on_edges, 0)
        });
        run("pool", input.nodes + 1, &|| input.pool.sum(&input.on_nodes));
        run("copy", 2 * input.edges, &|| input.on_edges.copy());
        group.finish();
    }
}

#[allow(clippy::print_stderr, reason = "a bench says what it leaves out")]
fn rows(criterion: &mut Criterion) {
    compare(criterion, "cpu", &Device::Cpu);
    if !cfg!(feature = "cuda") {
        return eprintln!("no GPU is benched without the feature `cuda`");
    }
    match Device::new_cuda(0) {
        Ok(device) => compare(criterion, "gpu", &device),
        Err(error) => eprintln!("no GPU is benched, since none answers: {error}"),
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = rows
}
criterion_main!(benches);
