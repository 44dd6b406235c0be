//! The whole space of replicas, without any pruning, by sizes.

use std::collections::BTreeMap;

use stagewright_core::document::{ServingQuestionDocument, ServingRole, ServingSizeDocument};

use super::moves::weights;
use super::shapes::{Groups, Shape, allows, divisions, groups, replica, shapes};
use crate::balance::Division;
use crate::fleet::{BUSIEST, Fleet, Offer, Problem, Terms, UTILISATIONS};
use crate::replica::Replica;
use crate::worker::Worker;

/// Largest batch of a rank.
const LARGEST_BATCH: u64 = 65_536;

/// Contribution of a replica to the rows and the goal, beside the devices of its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    /// Requests a second.
    pub(super) rate: f64,
    /// Requests in flight.
    pub(super) in_flight: f64,
    /// Tokens in caches; 0 for prefill.
    pub(super) tokens: u64,
    /// Bytes of weights that it loads; 0 if it runs already, or if they have no price.
    pub(super) moved: f64,
}

/// Replicas of one role and class with equal groups.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Size {
    /// Role.
    pub(super) role: ServingRole,
    /// Class.
    pub(super) class: usize,
    /// Groups.
    pub(super) groups: Groups,
    /// Index of the replica of the start that keeps its weights.
    pub(super) kept: Option<u32>,
    /// Largest number of replicas that the devices of each kind allow.
    pub(super) most: u64,
    /// Replicas that differ, at least one.
    pub(super) columns: Vec<Column>,
}

/// All replicas of a problem.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Space {
    /// Sizes in increasing order.
    pub(super) sizes: Vec<Size>,
    /// By class, the time between tokens in seconds that prefill replicas count on; `None` if nothing decodes the class.
    pub(super) steps: Vec<Option<f64>>,
}

impl Space {
    /// Enumerates the space. Takes a prediction for every shape, class, role and batch, and a division of layers for each if there
    /// are several stages.
    pub(super) fn new(problem: &Problem) -> Space {
        let shapes = shapes(problem);
        let candidates: Vec<Candidate> =
            shapes.iter().filter_map(|shape| Candidate::new(problem, shape)).collect();
        let mut sizes: BTreeMap<ServingSizeDocument, Vec<Column>> = BTreeMap::new();
        let mut steps = vec![problem.question.tpot_s; problem.classes.len()];
        for (class, step) in steps.iter_mut().enumerate() {
            let mut slowest: Option<f64> = None;
            // Prefill comes last, since its times depend on all replicas that decode.
            for role in [ServingRole::Aggregated, ServingRole::Decode, ServingRole::Prefill] {
                if !allows(&problem.question, role) || (role == ServingRole::Prefill && slowest.is_none()) {
                    continue;
                }
                let theta = step.or(slowest).unwrap_or(f64::INFINITY);
                for candidate in &candidates {
                    let found = candidate.columns(problem, class, role, theta);
                    if role == ServingRole::Decode {
                        let times = found.iter().filter_map(|(_, offer)| offer.tpot);
                        slowest = times.fold(slowest, |slowest, seconds| {
                            Some(slowest.map_or(seconds, |slowest| slowest.max(seconds)))
                        });
                    }
                    if !found.is_empty() {
                        let (class, groups) = (class as u32, candidate.groups.clone());
                        let size = ServingSizeDocument { role, class, groups, kept: None };
                        let columns = sizes.entry(size).or_default();
                        columns.extend(found.into_iter().map(|(column, _)| column));
                    }
                }
            }
            *step = slowest.map(|slowest| step.unwrap_or(slowest));
        }
        let sizes = sizes.into_iter().map(|(document, columns)| Size::new(&problem.fleet, document, columns));
        Space { sizes: sizes.collect(), steps }
    }

    /// The number of a size; `None` if no replica has it. Takes logarithmic time.
    pub(super) fn position(&self, size: &ServingSizeDocument) -> Option<usize> {
        let key = |known: &Size| (known.role, known.class as u64, known.groups.clone(), known.kept);
        let wanted = (size.role, u64::from(size.class), size.groups.clone(), size.kept);
        self.sizes.binary_search_by(|known| key(known).cmp(&wanted)).ok()
    }
}

impl Size {
    pub(super) fn new(fleet: &Fleet, document: ServingSizeDocument, mut columns: Vec<Column>) -> Size {
        let bits = |column: &Column| {
            (column.in_flight.to_bits(), column.rate.to_bits(), column.tokens, column.moved.to_bits())
        };
        columns.sort_by_key(bits);
        columns.dedup_by_key(|column| bits(column));
        let most = |kind: usize| {
            let devices = devices_of(&document.groups, kind);
            (devices > 0).then(|| fleet.kinds[kind].count / devices)
        };
        Size {
            role: document.role,
            class: document.class as usize,
            most: (0..fleet.kinds.len()).filter_map(most).min().unwrap_or(0),
            groups: document.groups,
            kept: document.kept,
            columns,
        }
    }

    /// Number of devices of a replica.
    pub(super) fn devices(&self) -> u64 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.1.saturating_mul(group.2)))
    }
}

/// Devices of a kind in groups.
pub(super) fn devices_of(groups: &Groups, kind: usize) -> u64 {
    let own = groups.iter().filter(|group| group.0 as usize == kind);
    own.fold(0, |sum, group| sum.saturating_add(group.1.saturating_mul(group.2)))
}

/// The offer of a replica in a role; `None` if memory or a limit forbids it, or its figures are not finite. `step` is the time
/// between tokens that prefill counts on, in seconds, and `busiest` the largest share of its time.
pub(super) fn offer(
    terms: &Terms,
    role: ServingRole,
    replica: &Replica,
    batch: u64,
    (step, busiest): (f64, f64),
) -> Option<Offer> {
    let offer = match role {
        ServingRole::Aggregated => terms.aggregated(replica, batch).ok().flatten(),
        ServingRole::Decode => terms.decode(replica, batch),
        ServingRole::Prefill => terms.prefill(replica, step, busiest),
    };
    offer.filter(|offer| offer.rate.is_finite() && offer.rate > 0.0 && offer.in_flight.is_finite())
}

/// A shape whose degrees fit the model.
struct Candidate<'p> {
    kinds: Vec<usize>,
    workers: Vec<(usize, Worker<'p>)>,
    groups: Groups,
}

impl<'p> Candidate<'p> {
    fn new(problem: &'p Problem, shape: &Shape) -> Option<Candidate<'p>> {
        let workers = shape.workers(problem)?;
        let groups = groups(&problem.fleet, &shape.kinds, shape.parallel.devices());
        Some(Candidate { kinds: shape.kinds.clone(), workers, groups })
    }

    /// Columns of a role with all divisions of layers.
    fn columns(
        &self,
        problem: &'p Problem,
        class: usize,
        role: ServingRole,
        step: f64,
    ) -> Vec<(Column, Offer)> {
        let divisions = divisions(problem, role, self.workers.len());
        let divided =
            divisions.into_iter().map(|division| self.divided(problem, class, (role, division), step));
        divided.flatten().collect()
    }

    /// Columns of a role at all batches of the grid, and at the largest batch within memory and limits.
    fn divided(
        &self,
        problem: &'p Problem,
        class: usize,
        (role, division): (ServingRole, Division),
        step: f64,
    ) -> Vec<(Column, Offer)> {
        let terms = problem.terms(class, self.kinds.iter().copied());
        let column = |batch: u64, busiest: f64| {
            let replica = replica(problem, &self.workers, &terms.class, batch, division)?;
            let offer = offer(&terms, role, &replica, batch, (step, busiest))?;
            let tokens = if role == ServingRole::Prefill { 0 } else { terms.cache_tokens(&replica) };
            let moved = if problem.question.start.is_some() { weights(&replica) } else { 0.0 };
            Some((Column { rate: offer.rate, in_flight: offer.in_flight, tokens, moved }, offer))
        };
        if role == ServingRole::Prefill {
            // Only a limit on requests in flight makes shorter queues worth anything.
            let shares = match problem.question.concurrency {
                Some(_) => &UTILISATIONS[..],
                None => &UTILISATIONS[..1],
            };
            return shares.iter().filter_map(|&share| column(0, share)).collect();
        }
        let column = |batch: u64| column(batch, BUSIEST);
        let data = self.workers.first().map_or(1, |(_, worker)| worker.parallel().data);
        let refused = largest_batch(&problem.question, data).saturating_add(1);
        let mut found = Vec::new();
        let (mut low, mut high) = (0, refused);
        for batch in grid().take_while(|&batch| batch < refused) {
            match column(batch) {
                Some(column) => found.push(column),
                None => {
                    high = batch;
                    break;
                }
            }
            low = batch;
        }
        let mut last = None;
        while low > 0 && high - low > 1 {
            let middle = u64::midpoint(low, high);
            match column(middle) {
                Some(column) => (low, last) = (middle, Some(column)),
                None => high = middle,
            }
        }
        found.extend(last);
        found
    }
}

/// Largest batch of a rank that the question allows, beside memory and limits on times. `data` is the number of ranks.
pub(super) fn largest_batch(question: &ServingQuestionDocument, data: u64) -> u64 {
    // A conversion of a number beyond all integers saturates.
    let load = question.concurrency.map_or(u64::MAX, |load| (load / data as f64) as u64);
    question.max_batch.unwrap_or(u64::MAX).min(load).min(LARGEST_BATCH)
}

/// Batches of the grid: 1, 2, 3, 4, 6, 8, 12 and so on.
fn grid() -> impl Iterator<Item = u64> {
    let steps = |exponent: u32| {
        let power = 1_u64 << exponent;
        [Some(power), (exponent > 0).then(|| power.saturating_add(power / 2))]
    };
    (0..u64::BITS).flat_map(steps).flatten()
}
