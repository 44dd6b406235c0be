//! The documents: file contents before any check.
//!
//! The schemas, each a plain serde structure that mirrors its JSON (a cluster may also be TOML):
//!
//! | schema | structure | contents |
//! | --- | --- | --- |
//! | `stagewright.graph/2`, `stagewright.graph/1` | [`GraphDocument`] | operators, tensors, profiled/analytic costs |
//! | `stagewright.cluster/1` | [`ClusterDocument`] | device classes, kinds, links and groups |
//! | `stagewright.plan/1` | [`PlanDocument`] | a placement, its value and its lower bound |
//! | `stagewright.costs/1` | [`CostsDocument`] | measured seconds of operators, kernels and transfers |
//! | `stagewright.problem/1` | [`ProblemDocument`] | a graph, a cluster, an objective and limits, for other programs |
//! | IOPDDL | [`StrategiesDocument`] | a choice of strategies under a memory limit |
//! | `stagewright.strategy-plan/1` | [`StrategyPlanDocument`] | such a choice, its cost and its lower bound |
//! | `stagewright.layer-flow/1` | [`LayerFlowDocument`] | nodes that may hold layers, with their rates and links |
//! | `stagewright.layer-plan/1` | [`LayerPlanDocument`] | layers on these nodes, the tokens that flow, and an upper bound |
//! | Piper | [`PiperDocument`] | layers with configurations by degree of tensor parallelism |
//! | `stagewright.local-plan/1` | [`LocalPlanDocument`] | a language model under llama.cpp on one machine, with its lower bound |
//! | `stagewright.serving-plan/1` | [`ServingPlanDocument`] | replicas of a language model that engines serve, with a bound |
//! | `stagewright.joint-plan/1` | [`JointPlanDocument`] | stages with degrees of parallelism and their lower bound |
//!
//! Importers write documents and [`crate::graph::Graph`], [`crate::cluster::Cluster`] and
//! [`crate::problem::Problem`] check them. The independent checker reads documents and nothing else, so a
//! rule that is not in a document cannot be checked.
//!
//! Quantities are in SI units: seconds, bytes, floating-point operations (a multiply-add counts as two).

mod bytes;
mod cluster;
mod costs;
mod flow;
mod graph;
mod joint;
mod local;
mod names;
mod origin;
mod pins;
mod piper;
mod plan;
mod problem;
mod role;
mod running;
mod runtime;
mod selection;
mod serving;
mod strategies;

pub use bytes::bytes;
pub use cluster::{
    CLUSTER_SCHEMA, ClassDocument, ClusterDocument, GroupDocument, KernelFitDocument, KindDocument,
    LinkDocument, MatrixDocument, RamDocument, ServerDocument, devices,
};
pub use costs::{
    COSTS_SCHEMA, CostsDocument, KernelCostsDocument, KernelKind, LinkCostsDocument, OperatorCostsDocument,
    TransferKind,
};
pub use flow::{
    FlowEnd, FlowNodeDocument, FlowOutside, LAYER_BOUND_SOURCES, LAYER_FLOW_SCHEMA, LAYER_PLAN_SCHEMA,
    LayerBoundDocument, LayerCertificateDocument, LayerFlowDocument, LayerNodeDocument, LayerPlanDocument,
};
pub use graph::{
    BatchDocument, GRAPH_SCHEMA, GRAPH_SCHEMA_2, GraphDocument, KernelDocument, OperatorDocument,
    ParameterDocument, Pass, Precision, TensorDocument, operator,
};
pub use joint::{
    CONFIGURATIONS, ContextExchange, JOINT_PLAN_SCHEMA, JointBoundDocument, JointExecutionDocument,
    JointLayerDocument, JointObjectiveDocument, JointObjectiveKind, JointPartsDocument, JointPlanDocument,
    JointStageDocument, Parallelism, RecomputeWorkspace,
};
pub use local::{
    LOCAL_PLAN_SCHEMA, LocalBoundDocument, LocalGoal, LocalMemoryDocument, LocalObjectiveDocument,
    LocalOverrideDocument, LocalPlanDocument, LocalSettingDocument,
};
pub use names::{
    BOUND_SOURCES, JOINT_BOUND_SOURCES, ROBUST_BOUND_SOURCES, STOP_REASONS, STRATEGY_BOUND_SOURCES,
};
pub use origin::OriginDocument;
pub use pins::{PinTargets, PinsDocument};
pub use piper::{PiperConfigurationDocument, PiperDocument, PiperEdgeDocument, PiperNodeDocument};
pub use plan::{
    BoundDocument, CertificateDocument, Communication, DeviceDocument, Execution, GradientsDocument,
    GranularityDocument, MemoryPriceDocument, ModelOptionsDocument, ObjectiveDocument, ObjectiveKind,
    OptimizerDocument, PLAN_SCHEMA, PhaseDocument, PlanDocument, PlanStatus, RobustDocument,
    ScenarioDocument, Schedule, SourcesDocument, Split, ThroughputDocument, TimeUnitDocument, Training,
    UplinkDocument,
};
pub use problem::{PROBLEM_SCHEMA, ProblemDocument};
pub use role::{Role, role};
pub use running::{RunningReplicaDocument, ServingStartDocument};
pub use runtime::RuntimeDocument;
pub use selection::{RequirementsDocument, SecondGoal, SecondGoalDocument};
pub use serving::{
    ReplicaDocument, RequestClassDocument, SERVING_BOUND_SOURCES, SERVING_PLAN_SCHEMA, ServingBoundDocument,
    ServingCertificateDocument, ServingFactorDocument, ServingGoal, ServingMode, ServingNodeDocument,
    ServingPlanDocument, ServingQuestionDocument, ServingRole, ServingSizeDocument, ServingStageDocument,
    ServingStatistic, SpeculationDocument,
};
pub use strategies::{
    FORBIDDEN_COST, STRATEGY_PLAN_SCHEMA, StrategiesDocument, StrategyBoundDocument,
    StrategyCertificateDocument, StrategyEdgesDocument, StrategyNodesDocument, StrategyPlanDocument,
    StrategyProblemDocument,
};
