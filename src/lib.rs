//! Stagewright decides where every operator of a neural network runs, and proves how good the decision is.
//!
//! A model is a graph of operators and tensors with their costs. A cluster is a set of devices with memory and links. An
//! objective defines the quantity to minimise: the time per sample of a full pipeline (throughput), an iteration under
//! a pipeline schedule, the latency of one sample, or the makespan of one step. A solver returns a placement with its
//! value and a lower bound on the value of every placement.
//!
//! # From a model to a plan
//!
//! Read a model, name a cluster, and solve:
//!
//! ```
//! use stagewright::prelude::*;
//! use stagewright::{clusters, formats};
//!
//! # let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/demo/model.json"))?;
//! let imported = formats::import_graph("model.json", &bytes, None)?;
//! let graph = Graph::from_document(imported.graph)?;
//! let cluster = Cluster::from_document(clusters::find("4xa100")?)?;
//! let problem = Problem::new(graph, cluster, Objective::default())?;
//!
//! let solution = solve(&problem, &Options::default())?;
//! let plan = solution.plan.as_ref().ok_or("no placement fits")?;
//! println!("{:.3} ms, at least {:.3} ms", 1e3 * plan.value(), 1e3 * solution.bound.value);
//! for op in problem.graph().operators() {
//!     let device = plan.placement.device_of(op);
//!     println!("{} on {}", problem.graph().operator(op).name, problem.cluster().device_name(device));
//! }
//! # assert_eq!(solution.status, Status::Optimal);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Graphs and clusters can also be built in code, with [`GraphBuilder`](core::graph::GraphBuilder) and
//! [`ClusterBuilder`](core::cluster::ClusterBuilder): see [`solve()`]. To score a placement of your own, use
//! [`evaluate`](core::evaluate::evaluate); to add a method of your own, implement the trait
//! [`Solver`](core::solver::Solver). The folder `examples` has a program for each.
//!
//! # Modules
//!
//! - [`core`]: documents, graphs, clusters, costs, problems, evaluation, simulation, bounds, and the trait `Solver`.
//! - [`formats`], [`clusters`], [`workloads`]: models and clusters from files, names and hyperparameters.
//! - [`mod@solve`], [`portfolio`], [`registry`], [`support`], [`bounds`]: solving, the choice of a solver, the tables of
//!   solvers and bounds, what a solver supports, and the bounds on a problem.
//! - [`tasks`]: questions of every kind in one type, from documents to plans, bounds, checks and explanations.
//! - [`diagnose`], [`explain`]: the reasons for infeasibility, and for the value of a plan.
//! - [`robust`]: the plan with the best worst case when costs are off.
//! - [`selection`]: requirements on plans, and the best plan by a second goal among those close to the best.
//! - [`files`], [`reading`], [`failure`]: files, a model and a cluster that are read together, and errors as users see them.
//! - [`joint`]: joint plans, with degrees of parallelism by stage and configurations by layer.
//! - [`shard`]: the choice of a strategy for every operator under a memory limit.
//! - [`structure`], [`structures`]: structures of language models, and what a path holds of one.
//! - [`costs`]: measured costs of operators, kernels and transfers.
//! - `runtime`: plans run as pipelines of processes, and measurements on this machine.
//! - [`report`], [`export`]: plan documents, tables, pages and traces; plans for runtimes.
//! - [`train`], [`learned`]: training of the learned policy, and the policy.
//!
//! `stagewright-verify` checks a plan document without the solvers' code.
//!
//! # Features
//!
//! All but `cuda` are on by default: `milp` adds integer programs on HiGHS, `policy` learned solvers on candle, `metis` a
//! baseline, `onnxruntime` plans run on this machine, `parquet` measured costs in tables of Parquet, and `cuda` runs the policy
//! on an NVIDIA GPU. A build without features needs Rust alone.

#[cfg(not(all(feature = "milp", feature = "policy")))]
mod absent;
pub mod bounds;
pub mod code;
pub mod diagnose;
pub mod explain;
pub mod failure;
pub mod figures;
pub mod files;
mod integer;
pub mod learned;
pub mod portfolio;
pub mod prelude;
pub mod reading;
pub mod registry;
pub mod robust;
pub mod selection;
pub mod solve;
pub mod structures;
pub mod support;
pub mod tasks;

pub use stagewright_core as core;
pub use stagewright_core::text;
pub use stagewright_costs as costs;
pub use stagewright_export as export;
pub use stagewright_flow as flow;
pub use stagewright_formats as formats;
pub use stagewright_formats::{calls, clusters, fusion, layers, nearest, placement};
pub use stagewright_joint as joint;
pub use stagewright_learned as learned_costs;
pub use stagewright_report as report;
#[cfg(feature = "onnxruntime")]
pub use stagewright_runtime as runtime;
pub use stagewright_shard as shard;
pub use stagewright_structure as structure;
pub use stagewright_train as train;
pub use stagewright_train::lock;
pub use stagewright_workloads as workloads;

pub use solve::{Options, Robustness, solve};
