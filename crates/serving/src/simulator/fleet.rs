//! Fleets: groups of equal replicas, and the requests that they serve.

use stagewright_core::document::{LinkDocument, ServingRole};
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use super::arrivals::Arrivals;
use crate::replica::Replica;
use crate::request::RequestClass;

/// Maximum number of batches, one for every rank and stage of every replica, which bounds memory.
pub const MOST_BATCHES: u64 = 1 << 20;

/// Equal replicas of one role and class.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Number of the class that the replicas serve.
    pub class: usize,
    /// ServingRole of the replicas.
    pub role: ServingRole,
    /// One of the replicas.
    pub replica: Replica<'a>,
    /// Number of replicas.
    pub count: u64,
    /// Maximum number of sequences of a rank, beside what memory allows. Replicas for prompts have no such limit.
    pub batch: u64,
    /// Requests a second that the plan gives to each replica. The router goes by them.
    pub weight: f64,
}

/// Requests of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Tokens; a trace has its own.
    pub class: RequestClass,
    /// Arrivals.
    pub arrivals: Arrivals,
}

/// Replicas with their load.
#[derive(Debug, Clone)]
pub struct Fleet<'a> {
    /// Classes of requests.
    pub traffic: Vec<Traffic>,
    /// Groups of replicas.
    pub groups: Vec<Group<'a>>,
    /// Link between replicas, of which every rank has one.
    pub transfer: LinkDocument,
}

impl Fleet<'_> {
    /// Checks classes, arrivals and groups.
    ///
    /// # Errors
    /// If a class or its arrivals are refused by their own checks, or no replica serves a class from prompt to end; a group has
    /// no replica, no batch, no weight, an unknown class, wrong speculation, or too many ranks; or the link has no bandwidth
    /// (all L024). `label` names the input.
    pub fn check(&self, label: &str) -> Result<()> {
        let wrong = |path: String, message: String, help: &str| {
            Err(InputError::at_path(L::L024, label, path, message, help))
        };
        for (index, traffic) in self.traffic.iter().enumerate() {
            traffic.class.check(label)?;
            traffic.arrivals.check(label, &format!("traffic[{index}].arrivals"), &traffic.class)?;
            let has = |role| self.groups.iter().any(|group| group.class == index && group.role == role);
            if has(ServingRole::Prefill) != has(ServingRole::Decode)
                || !has(ServingRole::Prefill) && !has(ServingRole::Aggregated)
            {
                let message = format!("class {index} has replicas for prompts or for decoding only, or none");
                return wrong("groups".into(), message, "add replicas of the missing role");
            }
        }
        let mut batches = 0_u64;
        for (index, group) in self.groups.iter().enumerate() {
            let path = |field: &str| format!("groups[{index}].{field}");
            if group.class >= self.traffic.len() {
                let message = format!("class {} of {}", group.class, self.traffic.len());
                return wrong(path("class"), message, "give the number of a class, from 0 on");
            }
            if group.count == 0 || group.batch == 0 {
                let field = if group.count == 0 { "count" } else { "batch" };
                return wrong(path(field), format!("`{field}` is 0"), "give at least 1");
            }
            if !group.weight.is_finite() || group.weight <= 0.0 {
                let message = format!("the weight is {}", group.weight);
                return wrong(path("weight"), message, "give a positive number of requests a second");
            }
            if let Some(speculation) = group.replica.speculation() {
                speculation.check(label)?;
            }
            let stages = group.replica.stages().len() as u64;
            let ranks = group.replica.stages()[0].parallel().data;
            batches = batches.saturating_add(group.count.saturating_mul(stages).saturating_mul(ranks));
            if batches > MOST_BATCHES {
                let message = format!("more than {MOST_BATCHES} batches of ranks");
                return wrong(path("count"), message, "give fewer replicas");
            }
        }
        let link = self.transfer;
        let is_link = link.bandwidth > 0.0 && link.latency_s.is_finite() && link.latency_s >= 0.0;
        if !is_link {
            let message = format!("{} bytes a second after {} seconds", link.bandwidth, link.latency_s);
            return wrong("transfer".into(), message, "give a positive bandwidth and a latency");
        }
        Ok(())
    }
}
