//! The core of Stagewright: documents, graph, cluster, cost model, problem, placement and evaluation.
//!
//! # Modules by role
//!
//! Each module imports only modules above it in this table, and those before it in its row.
//!
//! | role | modules |
//! | --- | --- |
//! | tools | [`bits`]: sets of small numbers; [`ids`]: typed indices; [`code`]: error codes and their texts; [`csr`]: lists in one array; [`text`]: names made harmless for display; [`units`]: quantities for display |
//! | files | [`document`]: the content of files before any check |
//! | rules of a solve | [`tolerance`]: every numerical tolerance; [`seed`]: random streams by task; [`stop`]: limits and interrupts; `memo`: results that are computed once; `overhead`: work that no limit interrupts |
//! | the model and the machine | [`graph`]: operators and tensors; [`cluster`]: devices, links and groups; [`objective`]: the minimised quantity, and how times add up on a device |
//! | the cost model | [`kernel`]: seconds of library kernels; [`cost`]: seconds of operators and transfers; [`memory`]: bytes of a device; `overflow`: which sums are too large |
//! | the question | [`problem`]: graph, cluster, objective and pins, checked once; [`contraction`]: units that solvers place |
//! | the answer | [`placement`]: a device for every operator |
//! | parts of a value | [`stage_memory`], [`stage_load`]: bytes and load of a growing set of units; [`call_timing`]: one sample through offloaded calls; [`simulate`]: one step under dataflow execution; [`schedule`]: pipeline schedules |
//! | the value | [`evaluate`]: the value of a placement and the constraints that it violates; [`uncertainty`]: the worst value when costs are off; [`calls`]: operators grouped into calls |
//! | proofs and solvers | [`certificate`]: evidence for bounds; [`bound`]: values that no placement undercuts; [`solver`]: the trait of every method, with its limits |

pub mod bits;
pub mod bound;
pub mod call_timing;
pub mod calls;
pub mod certificate;
pub mod cluster;
pub mod code;
pub mod contraction;
pub mod cost;
pub mod csr;
pub mod document;
pub mod evaluate;
pub mod graph;
pub mod ids;
pub mod kernel;
mod memo;
pub mod memory;
pub mod objective;
mod overflow;
mod overhead;
pub mod placement;
pub mod problem;
pub mod schedule;
pub mod seed;
pub mod simulate;
pub mod solver;
pub mod stage_load;
pub mod stage_memory;
pub mod stop;
pub mod text;
pub mod tolerance;
pub mod uncertainty;
pub mod units;
