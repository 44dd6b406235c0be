//! The independent checker: does a plan satisfy its claims?
//!
//! A solver can be wrong in its search, in the cost model it shares with every other solver, or in the way it
//! writes its result down. Only a second derivation finds all three, so this crate reads the documents of a
//! problem and of a plan and derives everything again: adjacency, roofline times, transfer times, loads,
//! memory, the split rule, the value and the bound. From `stagewright_core` it imports only
//! [`document`](stagewright_core::document), [`tolerance`](stagewright_core::tolerance) and, for messages,
//! [`code`](stagewright_core::code) and [`units`](stagewright_core::units), on which no verdict depends.
//!
//! # Checks
//!
//! 1. *Reading* (`read`): the documents must describe a problem; otherwise the result is a [`CheckError`]. The
//!    seconds of operators and tensors (`read/cost.rs`) follow from them alone.
//! 2. *Constraints* (`constraint`, one file each): every operator on one existing device that can run it and
//!    that the pins allow; replicas on devices that no pin distinguishes; colocation; memory with the
//!    microbatches in flight; the split rule; for latency the calls of each accelerator and an order in which
//!    they can run; for makespan the priority, and memory at every moment.
//! 3. *Score* (`score`): the load of every device and uplink, and the value, which is the largest load; for
//!    latency the time of every call and host operator, and the value, which is the longest path through
//!    them; for makespan a simulation of one step.
//! 4. *Claims* (`claim`): the value, figures, status, gap and bound that the plan states, and the worst case of a
//!    robust plan.
//!
//! Every broken constraint or claim is a [`Violation`] in the [`Report`]. If a constraint that later checks depend on
//! is broken, those checks are skipped: the loads of a plan with a missing operator mean nothing, so none are computed.
//! A bound whose evidence cannot be replayed is [`BoundVerdict::NotVerified`], which is not the same as wrong.
//!
//! A certificate is evidence for throughput, and for makespan if it only counts compute. For latency and
//! makespan the critical path, the one bound that needs no certificate, is recomputed.
//!
//! A plan of layer flow has ranges of layers in place of a placement: [`check_layers`] checks that tokens flow as it states.
//!
//! A strategy problem has strategies in place of devices. [`check_strategies`] recomputes the cost and the usage of its
//! plan, and replays the certificate of the bound from the costs of the problem.
//!
//! A joint plan has stages with degrees of parallelism. [`check_joint_layers`] derives its figures from a Piper file,
//! [`check_joint`] from a training graph, for which it also proves the bound, without a certificate.
//!
//! # Complexity
//!
//! With V operators, P tensor pins, K kinds and D devices in the plan: O((V + P) log V + V · K), and for the convex
//! rule an additional O((V + P) · D / 64); for latency with C calls O((V + P) log V + V · K + C), for makespan O((V +
//! P) log (V + P) + V · K). The certificate of column generation is replayed within its own limits: at most about half
//! a minute and a gibibyte, and milliseconds if few tensors are open along its order. The proof of a joint plan's bound
//! is limited to about half a minute as well; hundreds of layers on thousands of devices of two kinds take about a
//! second.
//!
//! # Example
//!
//! ```
//! use stagewright_core::document::{ClusterDocument, GraphDocument, PlanDocument};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph: GraphDocument = serde_json::from_str(
//!     r#"{"schema": "stagewright.graph/1", "operators": [{"name": "a", "seconds": {"gpu": 2.0}}]}"#,
//! )?;
//! let cluster: ClusterDocument = serde_json::from_str(
//!     r#"{"schema": "stagewright.cluster/1", "kinds": [{"name": "acc", "class": "gpu", "count": 1}]}"#,
//! )?;
//! let plan: PlanDocument = serde_json::from_str(
//!     r#"{"schema": "stagewright.plan/1", "status": "feasible", "solver": "hand", "gap": null,
//!         "objective": {"kind": "throughput", "split": "contiguous", "communication": "serial",
//!                       "training": "combined", "value_s": 2.0},
//!         "bound": {"value_s": null, "source": "none", "certificate": null}, "seconds": 0.0, "seed": 0,
//!         "devices": [{"name": "acc0", "kind": "acc", "stage": 0, "replicas": 1, "calls": null, "load_s": 2.0,
//!                      "compute_s": 2.0, "communication_s": 0.0, "memory_bytes": 0.0, "ops": ["a"]}]}"#,
//! )?;
//! let report = stagewright_verify::check(&graph, &cluster, None, &plan)?;
//! assert!(report.holds());
//! assert_eq!(report.value_s, Some(2.0));
//! # Ok(())
//! # }
//! ```

mod check;
mod claim;
pub mod code;
mod constraint;
mod error;
mod flow;
mod joint;
mod read;
mod report;
mod score;
mod strategies;
mod topological;
mod violation;

pub use check::check;
pub use error::CheckError;
pub use flow::{LayerReport, LayerVerdict, LayerViolation, check_layers};
pub use joint::{
    JointReport, JointStageFigures, JointVerdict, JointViolation, check_joint, check_joint_layers,
};
pub use report::{BoundEvidence, BoundVerdict, DeviceFigures, Report, RobustClaim, RobustVerdict, Verdict};
pub use strategies::{StrategyReport, StrategyVerdict, StrategyViolation, check_strategies};
pub use violation::{Subject, Violation, ViolationKind};
