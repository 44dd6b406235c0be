//! The bounds of a problem, each computed once for all callers.
//!
//! Solvers, tables of bounds and checks of a plan ask for the same bounds of the same problem, some of which take
//! seconds. Results are stored with the problem, so all of these see the same values, and no bound is computed twice
//! unless a time limit cut it short.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Bound, LowerBound};
use crate::problem::Problem;
use crate::stop::Stop;

/// A truncated computation is repeated if more than this factor of its time is available.
const AGAIN: u32 = 2;

/// One bound of a problem.
#[derive(Debug, Clone)]
struct Known {
    name: &'static str,
    found: Option<LowerBound>,
    /// Time that was available to the computation, if a limit cut it short.
    had: Option<Duration>,
}

impl Known {
    /// Whether a computation within `left` could improve the bound.
    fn may_grow(&self, left: Option<Duration>) -> bool {
        self.had.is_some_and(|had| left.is_none_or(|left| left > had * AGAIN))
    }
}

/// The bounds of a problem that have been computed so far.
#[derive(Debug, Default)]
struct Established(Mutex<Vec<Known>>);

impl Established {
    fn of(problem: &Problem) -> Arc<Established> {
        problem.memo(Established::default)
    }

    fn get(&self, name: &str) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.name == name).cloned()
    }

    /// Stores a bound. Of two values of the same bound, the larger is kept.
    fn set(&self, new: Known) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|known| known.name == new.name) {
            None => all.push(new),
            Some(known) => {
                let value = |known: &Known| known.found.as_ref().map(|bound| bound.value);
                let found = if value(&new) >= value(known) { new.found } else { known.found.take() };
                *known = Known { found, ..new };
            }
        }
    }
}

/// The strongest of the bounds computed so far; the trivial bound if there are none.
pub(super) fn known(problem: &Problem) -> LowerBound {
    let established = Established::of(problem);
    let all = established.0.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().filter_map(|known| known.found.clone()).fold(LowerBound::TRIVIAL, LowerBound::max)
}

/// The value of a bound, if it has been computed.
pub(super) fn computed(bound: &dyn Bound, problem: &Problem) -> Option<LowerBound> {
    Established::of(problem).get(bound.name()).and_then(|known| known.found)
}

/// A bound that applies to the problem: the stored value, or one computed before `stop` applies. `None` if some
/// operator cannot run anywhere, or if the time was too short for any value.
pub fn established(bound: &dyn Bound, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
    established_by(bound, problem, stop, || bound.before(problem, stop))
}

/// [`established`] for a caller that has additional information for the bound, such as the value of a plan.
pub fn established_by(
    bound: &dyn Bound,
    problem: &Problem,
    stop: &Stop,
    compute: impl FnOnce() -> Option<LowerBound>,
) -> Option<LowerBound> {
    let established = Established::of(problem);
    let left = stop.remaining();
    if let Some(known) = established.get(bound.name()).filter(|known| !known.may_grow(left)) {
        return known.found;
    }
    let found = compute();
    let had = stop.reason().map(|_| left.unwrap_or_default());
    established.set(Known { name: bound.name(), found, had });
    established.get(bound.name()).and_then(|known| known.found)
}

/// The strongest of `bounds` that apply. They are computed in order, cheapest first, until one `is_enough` or `stop`
/// applies. The trivial bound if none has a value.
pub fn strongest_until(
    bounds: &[&dyn Bound],
    problem: &Problem,
    stop: &Stop,
    is_enough: impl Fn(&LowerBound) -> bool,
) -> LowerBound {
    let mut strongest = LowerBound::TRIVIAL;
    for bound in bounds {
        // After the deadline, only stored bounds are used, because it may take long to find out whether another bound
        // applies.
        let found = match stop.reason() {
            None => bound.applies(problem).then(|| established(*bound, problem, stop)).flatten(),
            Some(_) => computed(*bound, problem),
        };
        strongest = found.into_iter().fold(strongest, LowerBound::max);
        if is_enough(&strongest) {
            break;
        }
    }
    strongest
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::cluster::ClusterBuilder;
    use crate::document::KindDocument;
    use crate::document::OperatorDocument;
    use crate::graph::GraphBuilder;
    use crate::objective::Objective;

    /// A bound that counts its computations.
    struct Counted {
        name: &'static str,
        value: f64,
        times: AtomicU32,
    }

    impl Counted {
        fn new(name: &'static str, value: f64) -> Counted {
            Counted { name, value, times: AtomicU32::new(0) }
        }

        fn times(&self) -> u32 {
            self.times.load(Ordering::Relaxed)
        }
    }

    impl Bound for Counted {
        fn name(&self) -> &'static str {
            self.name
        }

        fn applies(&self, _: &Problem) -> bool {
            true
        }

        fn compute(&self, _: &Problem) -> Option<LowerBound> {
            self.times.fetch_add(1, Ordering::Relaxed);
            Some(LowerBound { value: self.value, source: self.name, certificate: None })
        }
    }

    fn problem() -> Problem {
        let mut graph = GraphBuilder::new("one");
        graph.operator(OperatorDocument {
            seconds: [("gpu".into(), 1.0)].into(),
            ..OperatorDocument::named("only")
        });
        let mut cluster = ClusterBuilder::new("one");
        cluster.kind(KindDocument::named("gpu", 1));
        let (graph, cluster) = (graph.build().expect("a graph"), cluster.build().expect("a cluster"));
        Problem::new(graph, cluster, Objective::default()).expect("a problem")
    }

    fn stop(limit: Option<Duration>) -> Stop {
        Stop::new(limit, Default::default())
    }

    #[test]
    fn a_bound_is_computed_once_unless_a_limit_cut_it_short() {
        let (problem, bound) = (problem(), Counted::new("counted", 0.5));
        // A stop without any time.
        established(&bound, &problem, &stop(Some(Duration::ZERO)));
        established(&bound, &problem, &stop(Some(Duration::ZERO)));
        assert_eq!(bound.times(), 1);
        for _ in 0..2 {
            let found = established(&bound, &problem, &stop(None)).map(|bound| bound.value);
            assert_eq!((found, bound.times()), (Some(0.5), 2));
        }
        assert_eq!(known(&problem).value, 0.5);
    }

    #[test]
    fn the_cheap_ones_come_first_and_enough_is_enough() {
        let problem = problem();
        let [cheap, dear] = [Counted::new("cheap", 0.5), Counted::new("dear", 0.75)];
        let list: [&dyn Bound; 2] = [&cheap, &dear];
        let found = strongest_until(&list, &problem, &stop(None), |bound| bound.value >= 0.5);
        assert_eq!((found.source, dear.times()), ("cheap", 0));
        let found = strongest_until(&list, &problem, &stop(None), |_| false);
        assert_eq!((found.source, cheap.times(), dear.times()), ("dear", 1, 1));
    }

    #[test]
    fn a_shorter_time_never_lowers_what_is_known() {
        let (problem, [high, low]) = (problem(), [0.5, 0.25].map(|value| Counted::new("same", value)));
        established(&high, &problem, &stop(Some(Duration::ZERO)));
        let again = established(&low, &problem, &stop(None)).map(|bound| bound.value);
        assert_eq!((again, low.times()), (Some(0.5), 1));
    }
}
