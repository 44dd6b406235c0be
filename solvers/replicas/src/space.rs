//! The space of replicas (`docs/serving.md`, section "Replicas"): every shape at every batch, and what it offers.

use rayon::prelude::*;
use stagewright_core::document::{
    ServingGoal, ServingMode, ServingRole, ServingSizeDocument, ServingStageDocument,
};
use stagewright_core::solver::Stop;
use stagewright_serving::fleet::{BUSIEST, UTILISATIONS};
use stagewright_serving::{Offer, Parallel, Problem, Terms, Worker};

/// The largest batch of a rank.
const LARGEST_BATCH: u64 = 1 << 16;

/// A replica with its offer.
#[derive(Debug, Clone)]
pub struct Column {
    /// Index of its size.
    pub size: usize,
    /// Role.
    pub role: ServingRole,
    /// Index of its class of requests.
    pub class: usize,
    /// Degrees and kinds of its stages.
    pub shape: Shape,
    /// Sequences of a rank; 0 for prefill.
    pub batch: u64,
    /// Requests that it serves, and their times.
    pub offer: Offer,
    /// Tokens in its caches.
    pub cache_tokens: u64,
}

impl Column {
    /// The stages of the replica.
    pub fn stages(&self, problem: &Problem) -> Vec<ServingStageDocument> {
        let kinds = &self.shape.kinds;
        let workers = kinds.iter().map(|&kind| Some((kind, problem.worker(kind, self.shape.parallel)?)));
        let workers: Option<Vec<(usize, Worker)>> = workers.collect();
        let class = &problem.classes[self.class];
        let replica = workers.as_ref().and_then(|workers| problem.replica(workers, class, self.batch));
        replica.map_or_else(Vec::new, |replica| problem.stages(&replica, kinds))
    }
}

/// Stages with one choice of degrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Kinds of the stages, in the order of the cluster.
    pub kinds: Vec<usize>,
    /// Degrees of every stage.
    pub parallel: Parallel,
}

/// Everything that replicas of one size take.
#[derive(Debug, Clone)]
pub struct Size {
    /// Role, class and groups of devices.
    pub key: ServingSizeDocument,
    /// Devices by kind.
    pub devices: Vec<u64>,
    /// The largest number of its replicas for which there are devices.
    pub most: u64,
}

/// All replicas that meet the limits, by their sizes.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// Sizes, in increasing order of their keys.
    pub sizes: Vec<Size>,
    /// Replicas, those of a size next to each other. Within a size, none is at least as good as another in all that the program counts.
    pub columns: Vec<Column>,
}

impl Space {
    /// All replicas of a problem; `None` if a limit or an interrupt ends it before, since a part of them bounds nothing. Shapes are
    /// priced in parallel, on the threads of the current pool.
    pub fn new(problem: &Problem, stop: &Stop) -> Option<Space> {
        let shapes = &shapes(problem);
        let priced = |class, role, slowest| priced(problem, shapes, (class, role, slowest), stop);
        let modes = &problem.question.modes;
        let mut found: Vec<(ServingSizeDocument, Column)> = Vec::new();
        for class in 0..problem.classes.len() {
            if modes.contains(&ServingMode::Aggregated) {
                found.extend(priced(class, ServingRole::Aggregated, f64::INFINITY)?);
            }
            if modes.contains(&ServingMode::Disaggregated) {
                let decodes = priced(class, ServingRole::Decode, f64::INFINITY)?;
                let tpots = decodes.iter().filter_map(|(_, column)| column.offer.tpot);
                let slowest = problem.question.tpot_s.unwrap_or_else(|| tpots.fold(0.0, f64::max));
                if !decodes.is_empty() {
                    found.extend(decodes);
                    found.extend(priced(class, ServingRole::Prefill, slowest)?);
                }
            }
        }
        Some(Space::of(problem, found))
    }

    /// The space of replicas with the size of each; those that others of their size are at least as good as are left out.
    pub fn of(problem: &Problem, mut found: Vec<(ServingSizeDocument, Column)>) -> Space {
        // Sorting is stable, so that equal offers stay in the order of shapes.
        found.sort_by(|left, right| left.0.cmp(&right.0));
        let counted = Counted {
            in_flight: problem.question.concurrency.is_some(),
            cache_tokens: problem.question.goal == ServingGoal::Cache,
            decode: problem.question.concurrency.is_some()
                && problem.question.goal != ServingGoal::Throughput,
        };
        let mut space = Space::default();
        for chunk in found.chunk_by(|left, right| left.0 == right.0) {
            let key = &chunk[0].0;
            let devices = devices(key, problem.fleet.kinds.len());
            let kinds = problem.fleet.kinds.iter().zip(&devices);
            let most = kinds.filter(|(_, used)| **used > 0).map(|(kind, used)| kind.count / used).min();
            let index = space.sizes.len();
            space.sizes.push(Size { key: key.clone(), devices, most: most.unwrap_or(0) });
            space.columns.extend(
                undominated(chunk.iter().map(|(_, column)| column), &counted)
                    .into_iter()
                    .map(|column| Column { size: index, ..column.clone() }),
            );
        }
        space
    }
}

/// Devices by kind of groups.
fn devices(key: &ServingSizeDocument, kinds: usize) -> Vec<u64> {
    let mut devices = vec![0; kinds];
    for &(kind, size, count) in &key.groups {
        devices[kind as usize] += size * count;
    }
    devices
}

/// Figures besides the rate that the program counts.
struct Counted {
    in_flight: bool,
    cache_tokens: bool,
    /// Prefill replicas have to keep up with full decode replicas, so that slower ones of these need less.
    decode: bool,
}

/// Replicas that no other of the same size is at least as good as in all that counts.
fn undominated<'c>(columns: impl Iterator<Item = &'c Column>, counted: &Counted) -> Vec<&'c Column> {
    let mut columns: Vec<&Column> = columns.collect();
    // With a load that has to be served, more requests in flight count for a replica, so none is dropped for them.
    let worth = |column: &Column| match counted.decode && column.role == ServingRole::Decode {
        true => -column.offer.rate,
        false => column.offer.rate,
    };
    columns.sort_by(|left, right| worth(right).total_cmp(&worth(left)));
    let mut kept: Vec<&Column> = Vec::new();
    for column in columns {
        let is_worse = |other: &&Column| {
            worth(other) >= worth(column)
                && (!counted.in_flight || other.offer.in_flight == column.offer.in_flight)
                && (!counted.cache_tokens || other.cache_tokens >= column.cache_tokens)
        };
        if !kept.iter().any(is_worse) {
            kept.push(column);
        }
    }
    kept
}

/// Every shape that the model allows and for which there are devices.
fn shapes(problem: &Problem) -> Vec<Shape> {
    let fleet = &problem.fleet;
    let deepest = problem.question.max_stages.min(problem.model.layers.len() as u32) as usize;
    let mut shapes = Vec::new();
    let largest = fleet.kinds.iter().map(|kind| kind.count.min(kind.device.server)).max().unwrap_or(0);
    for tensor in powers(largest) {
        for data in powers(if problem.has_experts() { fleet.devices() } else { 1 }) {
            for experts in expert_groups(problem, tensor * data) {
                let parallel = Parallel { tensor, data, expert_tensor: tensor * data / experts, experts };
                let can_chain = data == 1 && (experts == 1 || experts == tensor);
                let depth = if can_chain { deepest } else { 1 };
                let mut kinds = Vec::new();
                chains(problem, parallel, depth, &mut kinds, &mut shapes);
            }
        }
    }
    shapes
}

/// Powers of two up to a number.
fn powers(largest: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|exponent| 1_u64 << exponent).take_while(move |&power| power <= largest)
}

/// Numbers of groups of experts among devices.
fn expert_groups(problem: &Problem, devices: u64) -> Vec<u64> {
    if !problem.has_experts() {
        return vec![1];
    }
    if problem.engine.name == "vllm" {
        return if devices == 1 { vec![1] } else { vec![1, devices] };
    }
    powers(devices).filter(|&groups| devices.is_multiple_of(groups)).collect()
}

/// Adds the shapes that begin with stages of some kinds, with up to `depth` stages in all.
fn chains(
    problem: &Problem,
    parallel: Parallel,
    depth: usize,
    kinds: &mut Vec<usize>,
    shapes: &mut Vec<Shape>,
) {
    if kinds.len() == depth {
        return;
    }
    for kind in kinds.last().copied().unwrap_or(0)..problem.fleet.kinds.len() {
        let entry = &problem.fleet.kinds[kind];
        let used = kinds.iter().filter(|&&other| other == kind).count() as u64 + 1;
        let is_possible = parallel.tensor <= entry.device.server
            && parallel.devices().saturating_mul(used) <= entry.count
            && problem.worker(kind, parallel).is_some();
        if !is_possible {
            continue;
        }
        kinds.push(kind);
        let shape = Shape { kinds: kinds.clone(), parallel };
        if groups(problem, &shape).is_some() {
            shapes.push(shape);
        }
        chains(problem, parallel, depth, kinds, shapes);
        kinds.pop();
    }
}

/// Groups of devices of a shape, each of which stays in a server or takes whole servers; `None` if one can do neither.
fn groups(problem: &Problem, shape: &Shape) -> Option<Vec<(u32, u64, u64)>> {
    let first = shape.kinds[0];
    let is_one_kind = shape.kinds.iter().all(|&kind| kind == first);
    let total = shape.parallel.devices() * shape.kinds.len() as u64;
    if is_one_kind && problem.fleet.is_inside(first, total) {
        return Some(vec![(first as u32, total, 1)]);
    }
    let mut groups: Vec<(u32, u64, u64)> = Vec::new();
    let devices = shape.parallel.devices();
    for &kind in &shape.kinds {
        let entry = &problem.fleet.kinds[kind];
        let server = entry.device.server;
        let has_place = entry.is_one_server()
            || (devices <= server && devices.is_power_of_two())
            || devices.is_multiple_of(server);
        if !has_place {
            return None;
        }
        match groups.last_mut() {
            Some((known, _, count)) if *known == kind as u32 => *count += 1,
            _ => groups.push((kind as u32, devices, 1)),
        }
    }
    Some(groups)
}

/// All shapes at all batches for a class in a role; `None` if a limit ends it before.
fn priced(
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
        let key = ServingSizeDocument { role, class: class as u32, groups };
        let stages: Option<Vec<(usize, Worker)>> =
            shape.kinds.iter().map(|&kind| Some((kind, problem.worker(kind, shape.parallel)?))).collect();
        let Some(stages) = stages else { return Vec::new() };
        let terms = problem.terms(class, shape.kinds.iter().copied());
        let pricing = Pricing { problem, stages: &stages, terms, role, class, slowest };
        pricing.columns(shape).into_iter().map(|column| (key.clone(), column)).collect()
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
    fn columns(&self, shape: &Shape) -> Vec<Column> {
        let with = |batch: u64, busiest: f64| {
            let (offer, cache_tokens) = self.offer(batch, busiest)?;
            let (role, class) = (self.role, self.class);
            Some(Column { size: 0, role, class, shape: shape.clone(), batch, offer, cache_tokens })
        };
        if self.role == ServingRole::Prefill {
            let has_limit = self.problem.question.concurrency.is_some();
            let shares = if has_limit { &UTILISATIONS[..] } else { &UTILISATIONS[..1] };
            return shares.iter().filter_map(|&busiest| with(0, busiest)).collect();
        }
        let with = |batch: u64| with(batch, BUSIEST);
        let largest = self.largest_batch(shape);
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

    fn offer(&self, batch: u64, busiest: f64) -> Option<(Offer, u64)> {
        let replica = self.problem.replica(self.stages, &self.terms.class, batch)?;
        let offer = match self.role {
            ServingRole::Aggregated => self.terms.aggregated(&replica, batch).ok().flatten()?,
            ServingRole::Decode => self.terms.decode(&replica, batch)?,
            ServingRole::Prefill => self.terms.prefill(&replica, self.slowest, busiest)?,
        };
        Some((offer, self.terms.cache_tokens(&replica)))
    }

    /// The largest batch of a rank that the question allows.
    fn largest_batch(&self, shape: &Shape) -> u64 {
        let question = &self.problem.question;
        let concurrency = question.concurrency.unwrap_or(f64::INFINITY);
        let of_rank = (concurrency / shape.parallel.data as f64) as u64;
        of_rank.min(question.max_batch.unwrap_or(LARGEST_BATCH)).min(LARGEST_BATCH)
    }
}

/// Batches 1, 2, 3, 4, 6, 8, 12 and so on.
fn batches() -> impl Iterator<Item = u64> {
    let steps = (1..u64::BITS - 1).flat_map(|exponent| {
        let power = 1_u64 << exponent;
        [power, power / 2 * 3]
    });
    std::iter::once(1).chain(steps)
}
