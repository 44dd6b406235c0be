//! Overflow checks for sums over a problem, and underflow checks for its times.
//!
//! Finite costs may still overflow in a sum, and the difference of two infinite sums is NaN. Every quantity of a
//! placement is part of a sum over the whole graph, so it suffices that these sums are far below the largest double. A
//! problem with a sum above [`LARGEST_SUM`] is rejected. The reciprocal of a tiny time overflows as well, so a time
//! between zero and [`SMALLEST_SECONDS`](crate::tolerance::SMALLEST_SECONDS) is also rejected.

use crate::cluster::Cluster;
use crate::cost::{CostError, CostTable};
use crate::document::ObjectiveKind;
use crate::graph::{Graph, OpId, TensorId};
use crate::objective::{Objective, synchronisation};
use crate::tolerance::LARGEST_SUM;

/// Checks the sums of seconds and bytes over a graph, in time O((kinds + groups) · (operators + tensors)).
///
/// # Errors
/// [`CostError::Overflow`], naming the sum and its largest term, or [`CostError::Underflow`], naming the time.
pub(crate) fn check(
    graph: &Graph,
    cluster: &Cluster,
    costs: &CostTable,
    objective: &Objective,
) -> Result<(), CostError> {
    costs.check_shortest(graph, cluster)?;
    let kinds: Vec<usize> = (0..cluster.kind_count()).filter(|&kind| cluster.kind(kind).count > 0).collect();
    let slowest =
        |seconds: &dyn Fn(usize) -> f64| kinds.iter().map(|&kind| seconds(kind)).fold(0.0, f64::max);
    let operators = |what: &str, term: &dyn Fn(OpId) -> f64| {
        let name = |op| format!("operator `{}`", graph.operator(op).name);
        bounded(what, graph.operators(), term, name)
    };
    let tensors = |what: &str, term: &dyn Fn(TensorId) -> f64| {
        let name = |tensor: TensorId| format!("tensor {} ({})", tensor.index(), graph.tensor_name(tensor));
        bounded(what, graph.tensors(), term, name)
    };

    // An iteration under a schedule incurs a cost at most once per microbatch.
    let times = objective.repetitions();
    operators("the seconds of all operators, each on its slowest kind,", &|op| {
        times * slowest(&|kind| costs.seconds(op, kind).unwrap_or(0.0))
    })?;
    tensors("the seconds that all tensors take, each over the slowest link,", &|tensor| {
        times * slowest(&|kind| costs.transfer(tensor, kind))
    })?;
    for (group, document) in cluster.document().groups.iter().enumerate() {
        let what = format!("the seconds that all tensors take over the uplink of group `{}`", document.name);
        tensors(&what, &|tensor| times * costs.uplink(tensor, group))?;
    }
    operators("the bytes of parameters, optimiser state and workspace of all operators", &|op| {
        let operator = graph.operator(op);
        operator.parameter_bytes + operator.optimizer_bytes + operator.workspace_bytes
    })?;
    let in_flight = objective.in_flight(cluster.device_count() as u32);
    let what = format!("the bytes of activations of all operators, with {in_flight} microbatches in flight,");
    operators(&what, &|op| f64::from(in_flight) * graph.operator(op).activation_bytes)?;
    if objective.kind() == ObjectiveKind::Makespan {
        tensors("the bytes of all tensors", &|tensor| graph.bytes(tensor))?;
        if let Some(matrix) = &cluster.document().matrix {
            let largest_of = |rows: &[Vec<f64>]| rows.iter().flatten().copied().fold(0.0, f64::max);
            let (delay, per_byte) = (largest_of(&matrix.delay_s), largest_of(&matrix.seconds_per_byte));
            tensors("the seconds that all tensors take between the farthest devices", &|tensor| {
                delay + per_byte * graph.bytes(tensor)
            })?;
        }
    }
    operators("the seconds to synchronise the parameters of all operators over the slowest link", &|op| {
        let parameters = graph.operator(op).parameter_bytes;
        slowest(&|kind| {
            let link = cluster.kind(kind).link.as_ref().filter(|_| !cluster.kind(kind).host);
            link.map_or(0.0, |link| times * synchronisation(parameters, u32::MAX, link.bandwidth))
        })
    })
}

/// Adds up the terms, and rejects a sum that is too large.
fn bounded<T: Copy>(
    what: &str,
    items: impl Iterator<Item = T>,
    term: &dyn Fn(T) -> f64,
    name: impl Fn(T) -> String,
) -> Result<(), CostError> {
    let mut sum = 0.0;
    let mut largest: Option<(f64, T)> = None;
    for item in items {
        let term = term(item);
        sum += term;
        if largest.is_none_or(|(so_far, _)| term > so_far) {
            largest = Some((term, item));
        }
    }
    match largest {
        Some((_, item)) if sum > LARGEST_SUM => {
            Err(CostError::Overflow { what: what.into(), sum, largest: name(item) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{
        CLUSTER_SCHEMA, ClusterDocument, GroupDocument, KindDocument, LinkDocument, MatrixDocument,
        OperatorDocument, Schedule, TensorDocument,
    };
    use crate::graph::GraphBuilder;
    use crate::objective::Throughput;
    use crate::problem::{Problem, ProblemError};

    /// Two operators with a tensor between them, and two devices of one kind in a group.
    struct Pair {
        operator: OperatorDocument,
        tensor: TensorDocument,
        cluster: ClusterDocument,
        objective: Objective,
    }

    impl Pair {
        fn new() -> Self {
            let link = LinkDocument { latency_s: 0.0, bandwidth: 1.0 };
            Pair {
                operator: OperatorDocument {
                    seconds: [("acc".into(), 1.0)].into(),
                    ..OperatorDocument::named("a")
                },
                tensor: TensorDocument {
                    name: Some("ab".into()),
                    producer: "a".into(),
                    consumers: vec!["b".into()],
                    bytes: 1.0,
                    seconds: [("acc".into(), 1.0)].into(),
                },
                cluster: ClusterDocument {
                    schema: CLUSTER_SCHEMA.into(),
                    name: String::new(),
                    classes: Default::default(),
                    kinds: vec![KindDocument {
                        server: None,
                        ram: None,
                        reserve_bytes: None,
                        name: "acc".into(),
                        class: "acc".into(),
                        count: 2,
                        host: false,
                        memory_bytes: None,
                        link: Some(link),
                        group: Some("box".into()),
                    }],
                    groups: vec![GroupDocument { name: "box".into(), uplink: link }],
                    matrix: None,
                },
                objective: Objective::default(),
            }
        }

        fn problem(self) -> Result<Problem, ProblemError> {
            let mut builder = GraphBuilder::new("pair");
            builder.operator(self.operator.clone());
            builder.operator(OperatorDocument { name: "b".into(), ..self.operator });
            builder.timed_tensor(self.tensor);
            let graph = builder.build().expect("each figure is finite");
            let cluster = Cluster::from_document(self.cluster).expect("each figure is finite");
            Problem::new(graph, cluster, self.objective)
        }

        /// Message of the overflow, if any.
        fn overflow(self) -> Option<String> {
            match self.problem() {
                Ok(_) => None,
                Err(error @ ProblemError::Cost(CostError::Overflow { .. })) => {
                    assert_eq!(error.code(), "P002");
                    Some(error.to_string())
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn after(change: impl FnOnce(&mut Pair)) -> Option<String> {
        let mut pair = Pair::new();
        change(&mut pair);
        pair.overflow()
    }

    /// Whether a change is rejected with a message that contains `words`.
    fn refused(words: &str, change: impl FnOnce(&mut Pair)) -> bool {
        after(change).is_some_and(|message| message.contains(words))
    }

    #[test]
    fn every_sum_that_overflows_is_named() {
        const HUGE: f64 = f64::MAX;
        assert_eq!(after(|_| {}), None);
        let seconds = |pair: &mut Pair| pair.operator.seconds = [("acc".into(), HUGE)].into();
        assert!(refused("slowest kind, sum to inf, mostly from operator `a`", seconds));
        let double = |pair: &mut Pair| pair.operator.seconds = [("acc".into(), 0.9 * HUGE / 2.0)].into();
        assert!(refused("slowest kind", double), "finite in all, but not twice");
        let transfer = |pair: &mut Pair| pair.tensor.seconds = [("acc".into(), HUGE)].into();
        assert!(refused("slowest link, sum to 1.7976931348623157e308, mostly from tensor 0 (ab)", transfer));
        assert!(refused("uplink of group `box`", |pair| pair.tensor.bytes = HUGE));
        let narrow = |pair: &mut Pair| pair.cluster.groups[0].uplink.bandwidth = 1e-305;
        assert!(refused("uplink of group `box`", narrow));
        assert!(refused("workspace of all", |pair| pair.operator.optimizer_bytes = HUGE));
        assert!(refused("workspace of all", |pair| pair.operator.workspace_bytes = HUGE));
        assert!(refused("with 1 microbatches", |pair| pair.operator.activation_bytes = HUGE));
        assert!(refused("with 60000 microbatches", |pair| {
            pair.operator.activation_bytes = 1e296;
            let rules =
                Throughput { schedule: Schedule::GPipe, microbatches: 60_000, ..Throughput::default() };
            pair.objective = rules.into();
        }));
        assert!(refused("synchronise", |pair| {
            pair.operator.parameter_bytes = 1e199;
            pair.cluster.kinds[0].link = Some(LinkDocument { latency_s: 0.0, bandwidth: 1e-200 });
        }));
    }

    #[test]
    fn what_only_the_makespan_sums_is_checked_for_it_alone() {
        let bytes = |pair: &mut Pair| {
            pair.tensor.bytes = 1e201;
            pair.cluster.groups[0].uplink.bandwidth = 1e10;
        };
        let matrix = |pair: &mut Pair| {
            pair.cluster.matrix = Some(MatrixDocument {
                delay_s: vec![vec![0.0; 2]; 2],
                seconds_per_byte: vec![vec![0.0, f64::MAX], vec![0.0; 2]],
            });
        };
        let makespan = |pair: &mut Pair| pair.objective = ObjectiveKind::Makespan.into();
        assert_eq!((after(bytes), after(matrix)), (None, None));
        assert!(refused("bytes of all tensors", |pair| {
            bytes(pair);
            makespan(pair);
        }));
        assert!(refused("between the farthest devices", |pair| {
            matrix(pair);
            makespan(pair);
        }));
    }

    #[test]
    fn a_time_whose_reciprocal_overflows_is_named() {
        let error = |change: &dyn Fn(&mut Pair)| {
            let mut pair = Pair::new();
            change(&mut pair);
            pair.problem().expect_err("a time that is too short")
        };
        let short = [
            error(&|pair| pair.operator.seconds = [("acc".into(), 5e-324)].into()),
            error(&|pair| pair.tensor.seconds = [("acc".into(), 1e-310)].into()),
            error(&|pair| pair.cluster.groups[0].uplink.bandwidth = 1e308),
        ];
        let named =
            ["operator `a` on kind `acc`", "tensor 0 (ab) on kind `acc`", "the uplink of group `box`"];
        for (error, name) in short.iter().zip(named) {
            assert_eq!(error.code(), "P009");
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(after(|pair| pair.operator.seconds = [("acc".into(), 0.0)].into()), None);
    }

    #[test]
    fn a_kind_without_devices_overflows_nothing() {
        let spare = |pair: &mut Pair| {
            let empty = KindDocument {
                name: "far".into(),
                class: "far".into(),
                count: 0,
                ..pair.cluster.kinds[0].clone()
            };
            pair.cluster.kinds.push(empty);
            pair.operator.seconds.insert("far".into(), f64::MAX);
        };
        assert_eq!(after(spare), None);
    }
}
