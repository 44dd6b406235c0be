//! A plan document of any kind.

use stagewright_core::document::{
    ClusterDocument, JOINT_PLAN_SCHEMA, JointPlanDocument, LAYER_PLAN_SCHEMA, LOCAL_PLAN_SCHEMA,
    LayerPlanDocument, LocalPlanDocument, ModelOptionsDocument, OriginDocument, PlanDocument, PlanStatus,
    SERVING_PLAN_SCHEMA, STRATEGY_PLAN_SCHEMA, ServingPlanDocument, StrategyPlanDocument,
};
use stagewright_formats::{
    PlanFile as PlacementFile, import_joint_plan, import_layer_plan, import_local_plan, import_serving_plan,
    import_strategy_plan, write_joint_plan, write_layer_plan, write_local_plan, write_plan,
    write_serving_plan, write_strategy_plan,
};

use super::Kind;
use crate::failure::Result;

/// A plan document of any kind. The `schema` of a file determines the kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A device for every operator.
    Placement(Box<PlanDocument>),
    /// Stages with degrees of parallelism.
    Joint(Box<JointPlanDocument>),
    /// A language model under llama.cpp on one machine.
    Local(Box<LocalPlanDocument>),
    /// A strategy for every node.
    Strategies(Box<StrategyPlanDocument>),
    /// Layers on nodes that serve a model together.
    LayerFlow(Box<LayerPlanDocument>),
    /// Replicas of a language model that engines serve.
    Serving(Box<ServingPlanDocument>),
}

impl Document {
    /// The kind of question that the plan answers.
    pub fn kind(&self) -> Kind {
        match self {
            Document::Placement(_) => Kind::Placement,
            Document::Joint(_) => Kind::Joint,
            Document::Local(_) => Kind::Local,
            Document::Strategies(_) => Kind::Strategies,
            Document::LayerFlow(_) => Kind::LayerFlow,
            Document::Serving(_) => Kind::Serving,
        }
    }

    /// Proof status.
    pub fn status(&self) -> PlanStatus {
        match self {
            Document::Placement(plan) => plan.status,
            Document::Joint(plan) => plan.status,
            Document::Local(plan) => plan.status,
            Document::Strategies(plan) => plan.status,
            Document::LayerFlow(plan) => plan.status,
            Document::Serving(plan) => plan.status,
        }
    }

    /// The value: seconds, the cost of strategies, tokens per second of a flow, or what the goal of a serving plan counts; `None`
    /// without a plan.
    pub fn value(&self) -> Option<f64> {
        match self {
            Document::Placement(plan) => plan.objective.value_s,
            Document::Joint(plan) => plan.objective.value_s,
            Document::Local(plan) => plan.objective.value_s,
            Document::Strategies(plan) => plan.cost.map(|cost| cost as f64),
            Document::LayerFlow(plan) => plan.value,
            Document::Serving(plan) => plan.value,
        }
    }

    /// The bound, in the unit of the value: a lower one, or an upper one of a flow or of a serving plan's throughput or cache.
    pub fn bound(&self) -> Option<f64> {
        match self {
            Document::Placement(plan) => plan.bound.value_s,
            Document::Joint(plan) => plan.bound.value_s,
            Document::Local(plan) => plan.bound.value_s,
            Document::Strategies(plan) => plan.bound.cost,
            Document::LayerFlow(plan) => plan.bound.value,
            Document::Serving(plan) => plan.bound.value,
        }
    }

    /// Source of the bound.
    pub fn source(&self) -> &str {
        match self {
            Document::Placement(plan) => &plan.bound.source,
            Document::Joint(plan) => &plan.bound.source,
            Document::Local(plan) => &plan.bound.source,
            Document::Strategies(plan) => &plan.bound.source,
            Document::LayerFlow(plan) => &plan.bound.source,
            Document::Serving(plan) => &plan.bound.source,
        }
    }

    /// Relative gap between value and bound.
    pub fn gap(&self) -> Option<f64> {
        match self {
            Document::Placement(plan) => plan.gap,
            Document::Joint(plan) => plan.gap,
            Document::Local(plan) => plan.gap,
            Document::Strategies(plan) => plan.gap,
            Document::LayerFlow(plan) => plan.gap,
            Document::Serving(plan) => plan.gap,
        }
    }

    /// The limit that ended the solve before optimality was proved, if one did.
    pub fn stop(&self) -> Option<&str> {
        match self {
            Document::Placement(plan) => plan.stop.as_deref(),
            Document::Joint(plan) => plan.stop.as_deref(),
            Document::Local(plan) => plan.stop.as_deref(),
            Document::Strategies(plan) => plan.stop.as_deref(),
            Document::LayerFlow(plan) => plan.stop.as_deref(),
            Document::Serving(plan) => plan.stop.as_deref(),
        }
    }

    /// The solver.
    pub fn solver(&self) -> &str {
        match self {
            Document::Placement(plan) => &plan.solver,
            Document::Joint(plan) => &plan.solver,
            Document::Local(plan) => &plan.solver,
            Document::Strategies(plan) => &plan.solver,
            Document::LayerFlow(plan) => &plan.solver,
            Document::Serving(plan) => &plan.solver,
        }
    }

    /// Seconds that the solve took.
    pub fn seconds(&self) -> f64 {
        match self {
            Document::Placement(plan) => plan.seconds,
            Document::Joint(plan) => plan.seconds,
            Document::Local(plan) => plan.seconds,
            Document::Strategies(plan) => plan.seconds,
            Document::LayerFlow(plan) => plan.seconds,
            Document::Serving(plan) => plan.seconds,
        }
    }

    /// Records the program that made the plan.
    pub fn set_origin(&mut self, origin: OriginDocument) {
        *self.origin() = Some(origin);
    }

    /// Removes the command that made the plan, which may hold private paths. Returns whether there was one.
    pub fn remove_command(&mut self) -> bool {
        self.origin().as_mut().is_some_and(|origin| origin.command.take().is_some())
    }

    fn origin(&mut self) -> &mut Option<OriginDocument> {
        match self {
            Document::Placement(plan) => &mut plan.origin,
            Document::Joint(plan) => &mut plan.origin,
            Document::Local(plan) => &mut plan.origin,
            Document::Strategies(plan) => &mut plan.origin,
            Document::LayerFlow(plan) => &mut plan.origin,
            Document::Serving(plan) => &mut plan.origin,
        }
    }

    /// The document as JSON, as it is written to files.
    pub fn json(&self) -> String {
        match self {
            Document::Placement(plan) => write_plan(plan),
            Document::Joint(plan) => write_joint_plan(plan),
            Document::Local(plan) => write_local_plan(plan),
            Document::Strategies(plan) => write_strategy_plan(plan),
            Document::LayerFlow(plan) => write_layer_plan(plan),
            Document::Serving(plan) => write_serving_plan(plan),
        }
    }
}

/// A plan file, read before its model.
#[derive(Debug)]
pub enum PlanFile<'a> {
    /// A placement: a plan, a split of the reference package, or a device for every operator.
    Placement {
        /// Label in errors.
        label: &'a str,
        /// The file.
        file: PlacementFile<'a>,
    },
    /// A plan that can be read without its model, with the label that errors give it.
    Whole(&'a str, Document),
}

impl<'a> PlanFile<'a> {
    /// Reads a plan of the given kind.
    ///
    /// # Errors
    /// If the file is no plan of that kind.
    pub fn read(kind: Kind, label: &'a str, bytes: &'a [u8]) -> Result<PlanFile<'a>> {
        Ok(match kind {
            Kind::Placement => PlanFile::Placement { label, file: PlacementFile::read(label, bytes)? },
            Kind::Joint => {
                PlanFile::Whole(label, Document::Joint(Box::new(import_joint_plan(label, bytes)?)))
            }
            Kind::Local => {
                PlanFile::Whole(label, Document::Local(Box::new(import_local_plan(label, bytes)?)))
            }
            Kind::Strategies => {
                PlanFile::Whole(label, Document::Strategies(Box::new(import_strategy_plan(label, bytes)?)))
            }
            Kind::LayerFlow => {
                PlanFile::Whole(label, Document::LayerFlow(Box::new(import_layer_plan(label, bytes)?)))
            }
            Kind::Serving => {
                PlanFile::Whole(label, Document::Serving(Box::new(import_serving_plan(label, bytes)?)))
            }
        })
    }

    /// Whether the plan can be read without its model.
    pub fn is_whole(&self) -> bool {
        matches!(self, PlanFile::Whole(..))
    }

    /// The document; `None` if the plan needs its model.
    pub fn alone(self) -> Option<Document> {
        match self {
            PlanFile::Placement { file: PlacementFile::Native(plan), .. } => Some(Document::Placement(plan)),
            PlanFile::Placement { .. } => None,
            PlanFile::Whole(_, document) => Some(document),
        }
    }

    /// Label in errors.
    pub fn label(&self) -> &'a str {
        match self {
            PlanFile::Placement { label, .. } | PlanFile::Whole(label, _) => label,
        }
    }

    /// The options that the plan's model was read with, if the plan keeps them.
    pub fn options(&self) -> Option<&ModelOptionsDocument> {
        match self {
            PlanFile::Placement { file, .. } => file.native()?.model.as_ref(),
            PlanFile::Whole(_, Document::Joint(plan)) => plan.options.as_ref(),
            PlanFile::Whole(_, Document::Local(plan)) => plan.options.as_ref(),
            PlanFile::Whole(_, Document::Serving(plan)) => plan.options.as_ref(),
            PlanFile::Whole(..) => None,
        }
    }

    /// The cluster that the plan was made for, if the plan keeps it.
    pub fn cluster(&self) -> Option<&ClusterDocument> {
        match self {
            PlanFile::Placement { file, .. } => file.native()?.cluster.as_ref(),
            PlanFile::Whole(_, Document::Joint(plan)) => plan.cluster.as_ref(),
            PlanFile::Whole(_, Document::Local(plan)) => Some(&plan.cluster),
            PlanFile::Whole(_, Document::Serving(plan)) => Some(&plan.cluster),
            PlanFile::Whole(..) => None,
        }
    }
}

/// The kind of a plan, found without its model by the schema that the file names.
pub(super) fn kind(bytes: &[u8]) -> Kind {
    let names = |schema: &str| bytes.windows(schema.len()).any(|window| window == schema.as_bytes());
    if names(JOINT_PLAN_SCHEMA) {
        Kind::Joint
    } else if names(LOCAL_PLAN_SCHEMA) {
        Kind::Local
    } else if names(STRATEGY_PLAN_SCHEMA) {
        Kind::Strategies
    } else if names(LAYER_PLAN_SCHEMA) {
        Kind::LayerFlow
    } else if names(SERVING_PLAN_SCHEMA) {
        Kind::Serving
    } else {
        Kind::Placement
    }
}
