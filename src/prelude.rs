//! Items that most programs need: `use stagewright::prelude::*`.

pub use stagewright_core::cluster::{Cluster, ClusterBuilder, DeviceId};
pub use stagewright_core::document::{
    ClassDocument, Communication, Execution, KindDocument, LinkDocument, ObjectiveKind, OperatorDocument,
    ParameterDocument, Pass, PinsDocument, Schedule, Split, TensorDocument, Training, devices, operator,
};
pub use stagewright_core::evaluate::{Evaluation, evaluate};
pub use stagewright_core::graph::{Graph, GraphBuilder, OpId};
pub use stagewright_core::objective::{Objective, Throughput};
pub use stagewright_core::placement::Placement;
pub use stagewright_core::problem::Problem;
pub use stagewright_core::solver::{Context, Plan, Solution, SolveError, Solver, Status};

pub use crate::solve::{Options, solve};
