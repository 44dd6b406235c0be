//! The space of replicas (`docs/serving.md`, section "Replicas"): every shape at every batch, and replicas that run already.

use stagewright_core::document::{ServingGoal, ServingMode, ServingRole, ServingSizeDocument};
use stagewright_core::solver::Stop;
use stagewright_serving::Problem;

use crate::column::Column;
use crate::kept;
use crate::pricing::priced;
use crate::shape::shapes;

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
        found.extend(kept::columns(problem, shapes, &found));
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
            moved: problem.question.start.is_some(),
        };
        let mut space = Space::default();
        for chunk in found.chunk_by(|left, right| left.0 == right.0) {
            let key = &chunk[0].0;
            let devices = devices(key, problem.fleet.kinds.len());
            let kinds = problem.fleet.kinds.iter().zip(&devices);
            let most = kinds.filter(|(_, used)| **used > 0).map(|(kind, used)| kind.count / used).min();
            let running = chunk[0].1.running(problem).map_or(u64::MAX, |running| running.count);
            let most = most.unwrap_or(0).min(running);
            let index = space.sizes.len();
            space.sizes.push(Size { key: key.clone(), devices, most });
            space.columns.extend(
                undominated(chunk.iter().map(|(_, column)| column), &counted)
                    .into_iter()
                    .map(|column| Column { size: index, ..column.clone() }),
            );
        }
        space
    }

    /// The part of the space with some of its replicas.
    pub fn filtered(self, is_kept: impl Fn(&Column, &Size) -> bool) -> Space {
        let mut kept = Space::default();
        let mut last = None;
        for column in self.columns {
            let size = &self.sizes[column.size];
            if !is_kept(&column, size) {
                continue;
            }
            if last != Some(column.size) {
                last = Some(column.size);
                kept.sizes.push(size.clone());
            }
            kept.columns.push(Column { size: kept.sizes.len() - 1, ..column });
        }
        kept
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
    /// Weights that replicas load have a price.
    moved: bool,
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
                && (!counted.moved || other.moved_bytes <= column.moved_bytes)
        };
        if !kept.iter().any(is_worse) {
            kept.push(column);
        }
    }
    kept
}
