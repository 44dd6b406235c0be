//! The memory bound: work that does not fit into the memory of fast devices runs on slower ones.

mod bytes;
mod form;
mod game;
mod quantum;

use self::bytes::ClassBytes;
use self::form::{Form, Through};
use self::game::{Game, Prices};
use self::quantum::Store;
use super::{Bound, LowerBound, class_seconds};
use crate::certificate::Limits;
use crate::document::ObjectiveKind;
use crate::graph::ClassId;
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Maximum work on all prices together, in entries read from a table of classes and kinds.
const MAX_WORK: usize = 1 << 24;

/// Prices of memory. Let class u hold at least w_u bytes on its device, whatever other classes are there, so that a
/// device of kind c with M_c bytes has Σ w_u ≤ M_c. In quanta of s_c bytes, Σ ⌊w_u / s_c⌋ ≤ ⌊M_c / s_c⌋. With a small
/// quantum the left side is the sum of bytes; with a quantum just larger than M_c / (q + 1), a device holds at most q
/// classes that have at least this size. For prices λ_c ≥ 0 of a second with Σ_c n_c λ_c = 1, as in
/// [`Fluid`](super::Fluid), and μ_c ≥ 0 of a quantum,
///
/// ```text
/// T  ≥  Σ_u min_c (λ_c p_uc + μ_c ⌊w_u / s_c⌋)  −  Σ_c n_c μ_c ⌊M_c / s_c⌋
/// ```
///
/// *Proof.* Let c(u) be the kind that runs u. The value T is at least Σ_u λ_c(u) p_uc(u), as for the fluid bound. The n_c
/// devices of kind c hold at most n_c ⌊M_c / s_c⌋ quanta, so Σ_u μ_c(u) ⌊w_u / s_c(u)⌋ is at most the subtracted term.
/// Replicas of a stage hold the bytes on every one of their devices. Under a schedule, the bound on the load counts
/// [`repetitions`](crate::objective::Objective::repetitions) times.
///
/// In place of Σ λ_c p_uc, any bound on T works that is a sum over classes of seconds on their own kind. For the
/// makespan such a bound comes from the windows of [`Windows`](super::Windows): those that are not counted as work last
/// as long as the operator of the path that runs in them, on the kind of its class. For the latency and the makespan, a
/// path of the graph gives another.
///
/// *Below t.* If T < t, class u is not on a kind c where its load alone is t or more or where, for the latency and the
/// makespan, a path through one of its operators takes t or more. With these kinds excluded, the right-hand side is
/// B(t), so T ≥ min(t, B(t)). This accounts for an expert that has to be on a slow host although others need not be.
///
/// Valid for every objective, split rule and mode. The best prices solve a linear program. They maximise a concave
/// function, by the ellipsoid method, or one price at a time where that is too much work. Any prices give a valid
/// bound. Rounding to quanta is a dual feasible function: Fekete and Schepers, "New classes of fast lower bounds for
/// bin packing problems", Mathematical Programming 2001. O(kinds · operators + pins) per evaluation of the prices.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPrices;

impl Bound for MemoryPrices {
    fn name(&self) -> &'static str {
        "memory"
    }

    /// Whether on some kind of device a class that may run there, or all such classes together, exceed the memory. A new
    /// objective needs a proof of its own: the value of every one here is at least the seconds of some device.
    fn applies(&self, problem: &Problem) -> bool {
        match problem.objective().kind() {
            ObjectiveKind::Throughput | ObjectiveKind::Latency | ObjectiveKind::Makespan => {
                problem.memo(|| IsScarce::of(problem)).0
            }
        }
    }

    fn is_long(&self) -> bool {
        true
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let stores = stores(problem);
        let ClassBytes(bytes) = &*ClassBytes::of(problem);
        let seconds = supported(problem, bytes, &stores)?;
        let solve =
            |form: &Form, excluded: &dyn Fn(ClassId, usize) -> bool, target: f64, left: &mut usize| {
                let game = Game::new(&stores, bytes, &form.costs(excluded), target, stop);
                let (value, prices) = game.solve(left)?;
                Some((form.constant + value, prices))
            };
        let mut left = MAX_WORK / 2;
        let forms = Form::all(problem, &seconds, stop, |form| solve(form, &|_, _| false, 0.0, &mut left));
        let (form, value, prices) =
            forms.into_iter().reduce(|best, other| if other.1 > best.1 { other } else { best })?;
        let times = problem.objective().repetitions();
        let mut found = (round_down(times * value), prices, None);
        let through = Through::new(problem, &seconds);
        let candidates = through.above(found.0);
        let (mut low, mut high) = (0, candidates.len());
        let mut left = MAX_WORK / 2;
        while low < high && left > 0 && stop.reason().is_none() {
            let middle = low + (high - low) / 2;
            let below = candidates[middle];
            let excluded = |class, kind| through.reaches(class, kind, below);
            let solved = solve(&form, &excluded, below / times, &mut left);
            // If some class has no kind left, no value below the candidate is possible, whatever the prices.
            let (value, prices) = solved.unwrap_or_else(|| (f64::INFINITY, found.1.clone()));
            let value = round_down(times * value);
            if value.min(below) > found.0 {
                found = (value.min(below), prices, Some(below));
            }
            if value >= below { low = middle + 1 } else { high = middle }
        }
        let (value, Prices { seconds, memory }, below) = found;
        let certificate = form.certificate(seconds, Limits { memory, below });
        Some(LowerBound { value: value.max(0.0), source: self.name(), certificate: Some(certificate) })
    }
}

/// Whether memory is scarce on a kind of device.
struct IsScarce(bool);

impl IsScarce {
    fn of(problem: &Problem) -> IsScarce {
        let stores = stores(problem);
        let ClassBytes(bytes) = &*ClassBytes::of(problem);
        let least = stores.iter().map(|store| store.memory).fold(f64::INFINITY, f64::min);
        if bytes.iter().sum::<f64>() <= least {
            return IsScarce(false);
        }
        let classes = class_seconds(problem);
        IsScarce(stores.iter().enumerate().any(|(kind, store)| {
            let able = bytes.iter().zip(classes.iter()).filter(|(_, row)| row[kind].is_some());
            let able = able.map(|(&bytes, _)| (bytes, 1.0));
            able.clone().any(|(bytes, _)| !store.holds(bytes)) || !store.scarce(able).is_empty()
        }))
    }
}

/// Number of devices and usable memory of every kind.
fn stores(problem: &Problem) -> Vec<Store> {
    let cluster = problem.cluster();
    let store = |kind| Store {
        devices: f64::from(cluster.kind(kind).count),
        memory: crate::memory::usable(problem.graph(), cluster, kind),
    };
    (0..cluster.kind_count()).map(store).collect()
}

/// Seconds of every operator by kind, infinite where its class is not allowed or does not fit.
struct Seconds {
    by_op: Vec<f64>,
    kinds: usize,
    by_class: Keyed<ClassId, Vec<Option<f64>>>,
}

/// The seconds of all operators and classes where they fit; `None` if some class cannot run anywhere.
fn supported(problem: &Problem, bytes: &Keyed<ClassId, f64>, stores: &[Store]) -> Option<Seconds> {
    let graph = problem.graph();
    let mut by_class = class_seconds(problem);
    for (row, &bytes) in by_class.iter_mut().zip(bytes.iter()) {
        for (entry, store) in row.iter_mut().zip(stores) {
            if store.devices == 0.0 || !store.holds(bytes) {
                *entry = None;
            }
        }
        row.iter().any(Option::is_some).then_some(())?;
    }
    let kinds = stores.len();
    let mut by_op = vec![f64::INFINITY; kinds * graph.operator_count()];
    for op in graph.operators() {
        for kind in (0..kinds).filter(|&kind| by_class[graph.class_of(op)][kind].is_some()) {
            if let Some(seconds) = problem.costs().seconds(op, kind) {
                by_op[op.index() * kinds + kind] = seconds;
            }
        }
    }
    Some(Seconds { by_op, kinds, by_class })
}
