//! A serving plan, as targets read it.

use stagewright_core::document::{
    ClusterDocument, ReplicaDocument, RequestClassDocument, ServingPlanDocument, ServingQuestionDocument,
    ServingRole, ServingStageDocument,
};
use stagewright_core::text::visible;
use stagewright_report::units::name as shown;

use super::servers::{self, Node};
use crate::error::{JointError, ServingError, inconsistent};
use crate::{ExportError, Result};

/// Copies and devices of a plan beyond which an export would be too long to read.
const LARGEST: u64 = 65_536;

/// A serving plan with its replicas.
#[derive(Debug)]
pub struct Serving<'a> {
    /// The document.
    pub document: &'a ServingPlanDocument,
    /// Replicas in the order of the document.
    pub replicas: Vec<Replica<'a>>,
}

/// Equal replicas of a plan.
#[derive(Debug)]
pub struct Replica<'a> {
    /// The document.
    pub document: &'a ReplicaDocument,
    /// Class of its requests.
    pub class: &'a RequestClassDocument,
    /// Name: the role and the index in the plan, such as `prefill-0`.
    pub name: String,
    /// Path in the plan.
    pub place: String,
    /// First stage, whose degrees all stages have.
    pub stage: &'a ServingStageDocument,
    /// Groups of devices that stay in one server each, in the order of ranks.
    pub nodes: Vec<Node>,
}

impl<'a> Serving<'a> {
    /// Reads a plan.
    ///
    /// # Errors
    /// If there are no replicas (E002), if the document contradicts itself (E029), or if stages have different degrees (E023).
    pub fn read(document: &'a ServingPlanDocument) -> Result<Serving<'a>> {
        if document.replicas.is_empty() {
            return Err(ExportError::NoPlan { status: document.status.name() });
        }
        let read = |(index, replica)| Replica::read(document, index, replica);
        let replicas: Vec<Replica> = document.replicas.iter().enumerate().map(read).collect::<Result<_>>()?;
        let plan = Serving { document, replicas };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        let first = self.replicas[0].layers();
        let mut devices = 0u64;
        for replica in &self.replicas {
            if replica.layers() != first {
                let why =
                    format!("{} has {} layers, and another has {first}", replica.name, replica.layers());
                return Err(inconsistent(why, format!("{}.stages", replica.place)));
            }
            let taken = replica.devices().and_then(|each| each.checked_mul(replica.document.count));
            devices = devices.saturating_add(taken.unwrap_or(u64::MAX));
            let reads = |role| self.of(replica.document.class, role).next().is_some();
            if reads(ServingRole::Prefill) != reads(ServingRole::Decode) {
                let why = format!("requests of class {} are read or decoded alone", replica.document.class);
                return Err(inconsistent(why, format!("{}.role", replica.place)));
            }
        }
        if devices > LARGEST {
            let why = format!("replicas have more than {LARGEST} devices");
            return Err(inconsistent(why, "replicas"));
        }
        Ok(())
    }

    /// The question.
    pub fn question(&self) -> &'a ServingQuestionDocument {
        &self.document.question
    }

    /// The cluster.
    pub fn cluster(&self) -> &'a ClusterDocument {
        &self.document.cluster
    }

    /// Replicas of a class and a role.
    pub fn of(&self, class: u32, role: ServingRole) -> impl Iterator<Item = &Replica<'a>> {
        self.replicas
            .iter()
            .filter(move |replica| replica.document.class == class && replica.document.role == role)
    }

    /// Indices of the classes that replicas serve, in increasing order.
    pub fn classes(&self) -> Vec<u32> {
        let mut classes: Vec<u32> = self.replicas.iter().map(|replica| replica.document.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// The model as engines name it: its name, or the folder of its `config.json`. A placeholder if it has hidden characters.
    pub fn model(&self) -> &'a str {
        let name = self.document.model.as_str();
        if name.is_empty() || visible(name) != name {
            return "MODEL";
        }
        match name.strip_suffix("config.json") {
            Some("" | "./") => ".",
            Some("/") => "/",
            Some(folder) => folder.strip_suffix('/').unwrap_or(name),
            None => name,
        }
    }

    /// Refuses a plan unless a target starts its engine.
    ///
    /// # Errors
    /// If the engine is not listed (E035).
    pub fn check_engine(&self, engines: &[&str], rule: &'static str) -> Result<()> {
        let engine = &self.question().engine;
        match engines.contains(&engine.as_str()) {
            true => Ok(()),
            false => Err(ServingError::Engine { engine: engine.clone(), rule }.into()),
        }
    }
}

impl<'a> Replica<'a> {
    fn read(
        plan: &'a ServingPlanDocument,
        index: usize,
        document: &'a ReplicaDocument,
    ) -> Result<Replica<'a>> {
        let place = format!("replicas[{index}]");
        let wrong = |why: String, field: &str| Err(inconsistent(why, format!("{place}.{field}")));
        let Some(class) = plan.question.classes.get(document.class as usize) else {
            return wrong(format!("there is no class {}", document.class), "class");
        };
        let Some(stage) = document.stages.first() else {
            return wrong("a replica has no stages".to_owned(), "stages");
        };
        if document.count == 0 {
            return wrong("a replica has no copies".to_owned(), "count");
        }
        if (document.batch == 0) != (document.role == ServingRole::Prefill) {
            return wrong(format!("the batch is {}", document.batch), "batch");
        }
        if !(document.requests_per_s.is_finite() && document.requests_per_s > 0.0) {
            return wrong("the rate is not positive".to_owned(), "requests_per_s");
        }
        let mut next = 0u64;
        for (number, found) in document.stages.iter().enumerate() {
            let field = format!("stages[{number}]");
            if u64::from(found.first) != next || found.layers == 0 {
                let why = "stages have no layers, or not all of them in order".to_owned();
                return wrong(why, &format!("{field}.first"));
            }
            next += u64::from(found.layers);
            for (what, found, first) in [
                ("tensor", found.tensor, stage.tensor),
                ("data", found.data, stage.data),
                ("expert", found.experts, stage.experts),
            ] {
                if found != first {
                    let limit = |degree: u64| u32::try_from(degree).unwrap_or(u32::MAX);
                    let (found, first) = (limit(found), limit(first));
                    let field = if what == "expert" { "experts" } else { what };
                    let path = format!("{place}.stages[{number}].{field}");
                    let stage = number + 1;
                    let runtime = "an engine";
                    return Err(JointError::Degrees { runtime, what, stage, found, first, at: path }.into());
                }
            }
        }
        let devices = stage.tensor.checked_mul(stage.data).filter(|devices| (1..=LARGEST).contains(devices));
        let Some(devices) = devices else {
            return wrong("the degrees give no number of devices".to_owned(), "stages[0].tensor");
        };
        if stage.experts == 0 || !devices.is_multiple_of(stage.experts) {
            let why = format!("{devices} devices have {} groups of experts", stage.experts);
            return wrong(why, "stages[0].experts");
        }
        let nodes = servers::nodes(&plan.cluster, document, devices, &place)?;
        let name = format!("{}-{index}", document.role.name());
        Ok(Replica { document, class, name, place, stage, nodes })
    }

    /// Number of its layers.
    pub fn layers(&self) -> u64 {
        self.document.stages.iter().map(|stage| u64::from(stage.layers)).sum()
    }

    /// Layers of each stage, separated by commas.
    pub fn partition(&self) -> Vec<u32> {
        self.document.stages.iter().map(|stage| stage.layers).collect()
    }

    /// Number of stages.
    pub fn stages(&self) -> u64 {
        self.document.stages.len() as u64
    }

    /// Devices of a stage.
    pub fn width(&self) -> u64 {
        self.stage.tensor * self.stage.data
    }

    /// Devices of a copy; `None` beyond the range of numbers.
    pub fn devices(&self) -> Option<u64> {
        self.width().checked_mul(self.stages())
    }

    /// Tokens of a request, prompt and output.
    pub fn tokens(&self) -> u64 {
        self.class.input.saturating_add(self.class.output)
    }

    /// Names of its kinds, in the order of stages.
    pub fn kinds(&self) -> Vec<&'a str> {
        let mut kinds: Vec<&str> = self.document.stages.iter().map(|stage| stage.kind.as_str()).collect();
        kinds.dedup();
        kinds
    }

    /// Refusal of a part of the replica.
    pub fn lacks(
        &self,
        what: impl Into<String>,
        rule: &'static str,
        help: &'static str,
        field: &str,
    ) -> ExportError {
        let what = format!("{} in {}", what.into(), shown(&self.name));
        ServingError::Lacks { what, rule, help, place: format!("{}.{field}", self.place) }.into()
    }
}
