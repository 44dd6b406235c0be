//! Prices of shapes: what each offers in a role at every batch.

use rayon::prelude::*;
use stagewright_core::document::{ServingRole, ServingSizeDocument};
use stagewright_core::solver::Stop;
use stagewright_serving::fleet::{BUSIEST, UTILISATIONS};
use stagewright_serving::{Division, Offer, Problem, Replica, Terms, Worker};

use crate::column::Column;
use crate::shape::{Shape, groups};

/// The largest batch of a rank.
pub(crate) const LARGEST_BATCH: u64 = 1 << 16;

/// All shapes at all batches for a class in a role; `None` if a limit ends it before.
pub(crate) fn priced(
    problem: &Problem,
    shapes: &[Shape],
    (class, role, slowest): (usize, ServingRole, f64),
    stop: &Stop,
) -> Option<Vec<(ServingSizeDocument, Column)>> {
    let of_shape = |shape: &Shape| -> Vec<(ServingSizeDocument, Column)> {
        if stop.reason().is_some() {
            return Vec::new();
        }
        let Some(groups) = groups(problem, shape) else { return Vec::new() };
        let key = ServingSizeDocument { role, class: class as u32, groups, kept: None };
        let stages: Option<Vec<(usize, Worker)>> =
            shape.kinds.iter().map(|&kind| Some((kind, problem.worker(kind, shape.parallel)?))).collect();
        let Some(stages) = stages else { return Vec::new() };
        let terms = problem.terms(class, shape.kinds.iter().copied());
        let pricing = Pricing { problem, stages: &stages, terms, role, class, slowest };
        let divisions = problem.divisions(role, stages.len()).iter();
        let columns = divisions.flat_map(|&division| pricing.columns(shape, division));
        columns.map(|column| (key.clone(), column)).collect()
    };
    let found = shapes.par_iter().flat_map_iter(of_shape).collect();
    stop.reason().is_none().then_some(found)
}

/// Prices one shape in one role.
struct Pricing<'p> {
    problem: &'p Problem,
    stages: &'p [(usize, Worker<'p>)],
    terms: Terms,
    role: ServingRole,
    class: usize,
    slowest: f64,
}

impl Pricing<'_> {
    /// The shape at all batches: up to the first that is refused, and the largest that is not.
    fn columns(&self, shape: &Shape, division: Division) -> Vec<Column> {
        let with = |batch: u64, busiest: f64| {
            let replica = self.problem.replica(self.stages, &self.terms.class, batch, division)?;
            let offer = offer(&self.terms, &replica, (self.role, batch), (self.slowest, busiest))?;
            let cache_tokens = self.terms.cache_tokens(&replica);
            let (role, class, moved_bytes) = (self.role, self.class, weight_bytes(&replica));
            let shape = shape.clone();
            Some(Column {
                size: 0,
                role,
                class,
                shape,
                division,
                given: None,
                batch,
                offer,
                cache_tokens,
                kept: None,
                moved_bytes,
            })
        };
        if self.role == ServingRole::Prefill {
            return utilisations(self.problem).iter().filter_map(|&busiest| with(0, busiest)).collect();
        }
        let with = |batch: u64| with(batch, BUSIEST);
        let largest = largest_batch(self.problem, shape);
        let mut columns: Vec<Column> = Vec::new();
        let mut refused = None;
        for batch in batches().take_while(|&batch| batch <= largest) {
            let Some(column) = with(batch) else {
                refused = Some(batch);
                break;
            };
            columns.push(column);
        }
        let Some(last) = columns.last() else { return columns };
        let (mut low, mut high) = (last.batch, refused.unwrap_or(largest + 1));
        let mut larger = None;
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            match with(middle) {
                Some(column) => {
                    low = middle;
                    larger = Some(column);
                }
                None => high = middle,
            }
        }
        columns.extend(larger);
        columns
    }
}

/// Batches 1, 2, 3, 4, 6, 8, 12 and so on.
pub(crate) fn batches() -> impl Iterator<Item = u64> {
    let steps = (1..u64::BITS - 1).flat_map(|exponent| {
        let power = 1_u64 << exponent;
        [power, power / 2 * 3]
    });
    std::iter::once(1).chain(steps)
}

/// The offer of a replica in a role at a batch; `None` if it does not fit or a limit is not met. `slowest` and `busiest` are those
/// of [`Terms::prefill`].
pub(crate) fn offer(
    terms: &Terms,
    replica: &Replica,
    (role, batch): (ServingRole, u64),
    (slowest, busiest): (f64, f64),
) -> Option<Offer> {
    match role {
        ServingRole::Aggregated => terms.aggregated(replica, batch).ok().flatten(),
        ServingRole::Decode => terms.decode(replica, batch),
        ServingRole::Prefill => terms.prefill(replica, slowest, busiest),
    }
}

/// Shares of time in which prefill replicas may read prompts. A limit on requests in flight makes shorter queues worth something.
pub(crate) fn utilisations(problem: &Problem) -> &'static [f64] {
    if problem.question.concurrency.is_some() { &UTILISATIONS } else { &UTILISATIONS[..1] }
}

/// The largest batch of a rank that the question allows.
pub(crate) fn largest_batch(problem: &Problem, shape: &Shape) -> u64 {
    let question = &problem.question;
    let concurrency = question.concurrency.unwrap_or(f64::INFINITY);
    let of_rank = (concurrency / shape.parallel.data as f64) as u64;
    of_rank.min(question.max_batch.unwrap_or(LARGEST_BATCH)).min(LARGEST_BATCH)
}

/// Bytes of the weights of a replica on all its devices.
pub(crate) fn weight_bytes(replica: &Replica) -> f64 {
    replica.stages().iter().map(|stage| stage.weight_bytes() * stage.parallel().devices() as f64).sum()
}
