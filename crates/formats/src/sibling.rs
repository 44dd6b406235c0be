//! Carries a plan over to a sibling of its model: the same architecture with another length, depth or batch.
//!
//! In a graph that repeats a layer or a step, operators have names that differ in a number:
//! `decoder.layer.3.step7.hidden`. The name without its numbers is the *role* of an operator. A number that takes the
//! same values in both models, such as that of a layer, identifies the operator within its role. A number that takes
//! other values, such as that of a step, is a place: it is mapped to the value at the same relative place in the plan's
//! model, from the first to the last. So the operator of a step gets the device of its counterpart at that point of the
//! sequence, and a priority between those of the two counterparts around it.
//!
//! Hu et al., "GiPH", MLSys 2023, and Addanki et al., "Placeto", NeurIPS 2019, learn placements that generalise within a
//! family. This is the lookup that such learning has to beat.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::calls::assign_if_missing;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{ObjectiveKind, PlanDocument};
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Plan;
use stagewright_core::text::split_numbers;

use crate::placement::{PlacementError, placement};

/// A placement carried over from the plan of a sibling.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// The placement. It keeps operators together that must share a device, but may violate other constraints.
    pub placement: Placement,
    /// Number of operators with a counterpart in the plan. Other operators are on the device of one that sends to them
    /// or reads from them, or on the first device.
    pub counterparts: usize,
}

impl Carried {
    /// Notes on the placement: the number of operators with a counterpart, if some have none, and the reason why it
    /// may not be used, if it is infeasible.
    pub fn notes(&self, problem: &Problem) -> Vec<String> {
        let operators = problem.graph().operator_count();
        let counted =
            || format!("{} of {operators} operators have a counterpart in this plan", self.counterparts);
        let broken = Plan::try_new(problem, self.placement.clone()).err();
        let broken =
            broken.map(|why| format!("this plan is not feasible here, so it may not be used: {why}"));
        (self.counterparts < operators).then(counted).into_iter().chain(broken).collect()
    }
}

/// An operator of the plan: its device and its rank in the priority.
#[derive(Clone, Copy)]
struct Placed {
    device: DeviceId,
    rank: f64,
}

type Roles = BTreeMap<String, Role>;
type Replicas = BTreeMap<DeviceId, u32>;

/// The operators of a role.
#[derive(Default)]
struct Role {
    /// The numbers in the names, with the operators.
    of_plan: Vec<(Vec<u64>, Placed)>,
    of_model: Vec<(Vec<u64>, OpId)>,
}

/// The placement to start from: that of the plan, if the plan is for the same model and objective; otherwise one
/// carried over.
///
/// # Errors
/// If the cluster lacks a device of the plan (L001), the plan places an operator twice (L003), a call of the plan is on
/// a device other than that of its operators (L005), or no operator has a counterpart (L006).
pub fn start(problem: &Problem, plan: &PlanDocument) -> Result<Carried, PlacementError> {
    if plan.objective.kind != problem.objective().kind() {
        return carried(problem, plan);
    }
    match placement(problem, plan) {
        Ok(placement) => {
            let placement = assign_if_missing(problem, placement);
            Ok(Carried { placement, counterparts: problem.graph().operator_count() })
        }
        // A device that the cluster lacks is an error only if the plan places operators on it, which `carried` checks.
        Err(
            PlacementError::UnknownDevice(_)
            | PlacementError::UnknownOperator { .. }
            | PlacementError::NotPlaced { .. },
        ) => carried(problem, plan),
        Err(error) => Err(error),
    }
}

/// Carries the placement of a plan over to a problem with the same devices, in O(n log n + devices · n) time for n
/// operators of both models.
///
/// # Errors
/// If the cluster lacks a device of the plan (L001), the plan places an operator twice (L003), or no operator has a
/// counterpart (L006).
pub fn carried(problem: &Problem, plan: &PlanDocument) -> Result<Carried, PlacementError> {
    let graph = problem.graph();
    let (roles, replicas) = roles(problem, plan)?;
    let mut found: Vec<Option<Placed>> = vec![None; graph.operator_count()];
    for role in roles.values().filter(|role| !role.of_plan.is_empty()) {
        role.carry(&mut found);
    }
    let counterparts = found.iter().flatten().count();
    if counterparts == 0 && !found.is_empty() {
        return Err(PlacementError::NoCounterpart);
    }
    fill(problem, &mut found);
    let found: Vec<Placed> = found.into_iter().flatten().collect();
    let device_of = together(problem, &found);
    let placement = match problem.objective().kind() {
        ObjectiveKind::Throughput => {
            let placement = Placement::in_pipeline_order(problem, device_of.clone());
            match replicas.is_empty() {
                true => placement,
                false => Placement::with_stages(device_of, placement.stages().to_vec(), replicas),
            }
        }
        ObjectiveKind::Latency => assign_if_missing(problem, Placement::new(device_of)),
        ObjectiveKind::Makespan if plan.priority.as_ref().is_none_or(Vec::is_empty) => {
            Placement::new(device_of).as_step(graph, plan.objective.kind)
        }
        ObjectiveKind::Makespan => {
            // The sort is stable: operators between the same two counterparts stay in topological order.
            let mut order = graph.topological().to_vec();
            order.sort_by(|a, b| found[a.index()].rank.total_cmp(&found[b.index()].rank));
            Placement::with_priority(device_of, order)
        }
    };
    Ok(Carried { placement, counterparts })
}

/// The roles of the operators in the plan and in the model, and the replicas of the plan's stages, at most as many as
/// the problem allows.
fn roles(problem: &Problem, plan: &PlanDocument) -> Result<(Roles, Replicas), PlacementError> {
    let named = plan.priority.iter().flatten();
    let rank_of: BTreeMap<&str, usize> =
        named.enumerate().map(|(rank, name)| (name.as_str(), rank)).collect();
    let (mut roles, mut replicas) = (Roles::new(), Replicas::new());
    let most_replicas = problem.objective().rules().max_replicas;
    let mut placed = BTreeSet::new();
    for device in plan.devices.iter().filter(|device| !device.ops.is_empty()) {
        let id = problem.cluster().device_named(&device.name);
        let id = id.ok_or_else(|| PlacementError::UnknownDevice(device.name.clone()))?;
        let room = problem.pools()[problem.pool_of(id)].devices.len();
        let several = device.replicas.min(most_replicas).min(u32::try_from(room).unwrap_or(u32::MAX));
        if several > 1 {
            replicas.insert(id, several);
        }
        for name in &device.ops {
            if !placed.insert(name) {
                return Err(PlacementError::PlacedTwice(name.clone()));
            }
            let (role, numbers) = split(name);
            let rank = rank_of.get(name.as_str()).copied().unwrap_or(rank_of.len()) as f64;
            roles.entry(role).or_default().of_plan.push((numbers, Placed { device: id, rank }));
        }
    }
    let graph = problem.graph();
    for op in graph.operators() {
        let (role, numbers) = split(&graph.operator(op).name);
        roles.entry(role).or_default().of_model.push((numbers, op));
    }
    Ok((roles, replicas))
}

/// The role and the numbers of a name.
fn split(name: &str) -> (String, Vec<u64>) {
    let (mut role, mut numbers) = (String::new(), Vec::new());
    split_numbers(name, &mut role, &mut numbers);
    (role, numbers)
}

/// One of the numbers in the names of a role, such as the index of the layer.
struct Axis {
    at: usize,
    /// Values of the number in the plan, ascending.
    values: Vec<u64>,
    /// Place of each of the number's values in the model.
    places: BTreeMap<u64, Place>,
    /// Whether the values are the same in plan and model, so that they identify operators.
    is_identity: bool,
}

/// The place of a number among the values in the plan: the index of the value at or before it, and the fraction of the
/// way to the next value.
#[derive(Clone, Copy)]
struct Place {
    before: usize,
    beyond: f64,
}

impl Place {
    fn nearest(self) -> usize {
        self.before + usize::from(self.beyond >= 0.5)
    }
}

impl Role {
    /// Gives every operator of the model the device of its counterpart, and a rank between those of the counterparts
    /// around it.
    fn carry(&self, found: &mut [Option<Placed>]) {
        let Some(numbers) = self.of_plan.first().map(|(numbers, _)| numbers.len()) else { return };
        let mut axes: Vec<Axis> = (0..numbers).map(|index| self.axis(index)).collect();
        // Identities come first in the keys, so that the operators of one identity are adjacent.
        axes.sort_by_key(|axis| !axis.is_identity);
        let identity = axes.iter().filter(|axis| axis.is_identity).count();
        let key = |numbers: &[u64]| -> Vec<usize> {
            axes.iter().map(|axis| axis.values.partition_point(|&value| value < numbers[axis.at])).collect()
        };
        let placed: BTreeMap<Vec<usize>, Placed> =
            self.of_plan.iter().map(|(numbers, placed)| (key(numbers), *placed)).collect();
        for (numbers, op) in &self.of_model {
            let places: Vec<Place> = axes.iter().map(|axis| axis.places[&numbers[axis.at]]).collect();
            let before: Vec<usize> = places.iter().map(|place| place.before).collect();
            let nearest: Vec<usize> = places.iter().map(|place| place.nearest()).collect();
            let counterpart = placed.get(&nearest).or_else(|| {
                // Not every combination of numbers exists. A neighbouring combination is used instead, if possible with
                // the same identity.
                let beside =
                    [placed.range(..nearest.clone()).next_back(), placed.range(nearest.clone()..).next()];
                let distance = |(key, _): &(&Vec<usize>, &Placed)| -> (bool, usize) {
                    let apart = key.iter().zip(&nearest).map(|(a, b)| a.abs_diff(*b)).sum();
                    (key[..identity] != nearest[..identity], apart)
                };
                beside.into_iter().flatten().min_by_key(distance).map(|(_, placed)| placed)
            });
            let Some(&Placed { device, mut rank }) = counterpart else { continue };
            if let Some(from) = placed.get(&before) {
                rank = from.rank;
                for (index, place) in places.iter().enumerate().filter(|(_, place)| place.beyond > 0.0) {
                    let mut next = before.clone();
                    next[index] += 1;
                    if let Some(to) = placed.get(&next) {
                        rank += place.beyond * (to.rank - from.rank);
                    }
                }
            }
            found[op.index()] = Some(Placed { device, rank });
        }
    }

    fn axis(&self, index: usize) -> Axis {
        let sorted = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut values: Vec<u64> = numbers.collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let values = sorted(&mut self.of_plan.iter().map(|(numbers, _)| numbers[index]));
        let of_model = sorted(&mut self.of_model.iter().map(|(numbers, _)| numbers[index]));
        let is_identity = values == of_model;
        let last = of_model.len().saturating_sub(1).max(1);
        let place = |(number, &value): (usize, &u64)| {
            let place = match is_identity {
                true => Place { before: number, beyond: 0.0 },
                // Computed in integers, so that the last value maps exactly to the last one.
                false => {
                    let scaled = (values.len() - 1) * number;
                    Place { before: scaled / last, beyond: (scaled % last) as f64 / last as f64 }
                }
            };
            (value, place)
        };
        let places = of_model.iter().enumerate().map(place).collect();
        Axis { at: index, values, places, is_identity }
    }
}

/// Places operators without a counterpart with an operator that sends to them, or else with one that reads from them.
fn fill(problem: &Problem, found: &mut [Option<Placed>]) {
    let graph = problem.graph();
    for &op in graph.topological() {
        let beside = || graph.predecessors(op).iter().find_map(|before| found[before.index()]);
        found[op.index()] = found[op.index()].or_else(beside);
    }
    for &op in graph.topological().iter().rev() {
        let beside = || graph.successors(op).iter().find_map(|after| found[after.index()]);
        found[op.index()] = found[op.index()].or_else(beside);
    }
    for placed in found.iter_mut() {
        placed.get_or_insert(Placed { device: DeviceId(0), rank: 0.0 });
    }
}

/// The device of every operator. Operators that must share a device get the one that has most of their work, among
/// those of their devices that can run all of them; or else the first device that can run all of them. Takes
/// O(devices · operators) time.
fn together(problem: &Problem, found: &[Placed]) -> Vec<DeviceId> {
    let graph = problem.graph();
    let device_of_class = graph.class_ids().map(|class| {
        let members = graph.class(class);
        let can_run = |pool: usize| members.iter().all(|&op| problem.seconds(op, pool).is_some());
        let mut work: BTreeMap<DeviceId, f64> = BTreeMap::new();
        for &op in members {
            let device = found[op.index()].device;
            let seconds = problem.seconds(op, problem.pool_of(device)).unwrap_or(0.0);
            // Operators that take no time decide if no other operator does.
            *work.entry(device).or_default() += seconds + f64::MIN_POSITIVE;
        }
        let mut best: Option<(f64, DeviceId)> = None;
        for (&device, &work) in work.iter().filter(|(device, _)| can_run(problem.pool_of(**device))) {
            if best.is_none_or(|(largest, _)| work > largest) {
                best = Some((work, device));
            }
        }
        let first = || {
            (0..problem.pools().len())
                .find(|&pool| can_run(pool))
                .map(|pool| problem.pools()[pool].devices[0])
        };
        best.map(|(_, device)| device).or_else(first).unwrap_or(DeviceId(0))
    });
    let device_of_class: Keyed<_, DeviceId> = device_of_class.collect();
    graph.operators().map(|op| device_of_class[graph.class_of(op)]).collect()
}

#[cfg(test)]
mod tests {
    use stagewright_core::cluster::ClusterBuilder;
    use stagewright_core::document::{
        KindDocument, LinkDocument, OperatorDocument, PlanDocument, TensorDocument,
    };
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::objective::{Objective, Throughput};
    use stagewright_testing::devices::devices;

    use super::*;
    use crate::unevaluated;

    /// Layers of a recurrent network over steps: a cell reads the cell before it and the one below, and the cells of a layer
    /// share a device if they are `shared`.
    fn recurrent(layers: usize, steps: usize, shared: bool) -> Problem {
        let mut builder = GraphBuilder::new("recurrent");
        for layer in 0..layers {
            for step in 0..steps {
                builder.operator(OperatorDocument {
                    seconds: [("acc".into(), 1.0)].into(),
                    colocation: shared.then(|| format!("layer{layer}")),
                    ..OperatorDocument::named(cell(layer, step))
                });
            }
        }
        for layer in 0..layers {
            for step in 0..steps {
                let mut readers = Vec::new();
                readers.extend((step + 1 < steps).then(|| cell(layer, step + 1)));
                readers.extend((layer + 1 < layers).then(|| cell(layer + 1, step)));
                if !readers.is_empty() {
                    send(&mut builder, cell(layer, step), readers);
                }
            }
        }
        let graph = builder.build().expect("a valid graph");
        let objective = Objective::Makespan { execution: Default::default() };
        Problem::new(graph, devices(4, None), objective).expect("a valid problem")
    }

    fn send(builder: &mut GraphBuilder, producer: String, consumers: Vec<String>) {
        let seconds = [("acc".into(), 1.0)].into();
        builder.timed_tensor(TensorDocument { name: None, producer, consumers, bytes: 1.0, seconds });
    }

    fn cell(layer: usize, step: usize) -> String {
        format!("layer.{layer}.step{step}.cell")
    }

    /// A plan with a device for every cell, and the cells of early steps first.
    fn plan(layers: usize, steps: usize, device: impl Fn(usize, usize) -> usize) -> PlanDocument {
        let cells = || (0..steps).flat_map(move |step| (0..layers).map(move |layer| (layer, step)));
        let documents = (0..4).map(|number| {
            let mut document = unevaluated::device(format!("acc{number}"), "acc".into());
            document.ops = cells()
                .filter(|&(layer, step)| device(layer, step) == number)
                .map(|(layer, step)| cell(layer, step))
                .collect();
            document
        });
        let mut plan = unevaluated::plan(documents.collect());
        plan.objective.kind = ObjectiveKind::Makespan;
        plan.priority = Some(cells().map(|(layer, step)| cell(layer, step)).collect());
        plan
    }

    fn device(problem: &Problem, found: &Carried, layer: usize, step: usize) -> usize {
        let graph = problem.graph();
        let op = graph.operators().find(|&op| graph.operator(op).name == cell(layer, step));
        found.placement.device_of(op.expect("a cell")).index()
    }

    #[test]
    fn a_layer_is_itself_and_a_step_is_a_place() {
        let small = plan(2, 4, |layer, step| 2 * layer + step / 2);
        let problem = recurrent(2, 40, false);
        let found = carried(&problem, &small).expect("counterparts");
        assert_eq!(found.counterparts, 80);
        for (layer, step) in (0..2).flat_map(|layer| (0..40).map(move |step| (layer, step))) {
            assert_eq!(device(&problem, &found, layer, step), 2 * layer + step / 20, "{layer} {step}");
        }
        // Both the layers of a step and the steps of a layer are in the order of the plan.
        let place = |layer, step| {
            let name = cell(layer, step);
            let graph = problem.graph();
            found.placement.priority().iter().position(|&op| graph.operator(op).name == name)
        };
        for step in 0..39 {
            assert!(place(0, step) < place(1, step), "{step}");
            assert!((0..2).all(|layer| place(layer, step) < place(layer, step + 1)), "{step}");
        }
    }

    #[test]
    fn stages_keep_their_replicas() {
        let mut small = plan(2, 3, |layer, _| layer);
        small.objective.kind = ObjectiveKind::Throughput;
        small.devices[0].replicas = 3;
        let makespan = recurrent(2, 12, false);
        let link = Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 });
        let mut cluster = ClusterBuilder::new("linked");
        cluster.kind(KindDocument { link, ..KindDocument::named("acc", 4) });
        let cluster = cluster.build().expect("a cluster");
        let objective = Throughput { max_replicas: 2, ..Throughput::default() };
        let problem = Problem::new(makespan.graph().clone(), cluster, objective);
        let found = carried(&problem.expect("pipelines"), &small).expect("counterparts");
        assert_eq!([0, 1].map(|device| found.placement.replicas(DeviceId(device))), [2, 1]);
        assert_eq!(found.placement.stages(), [DeviceId(0), DeviceId(1)]);
        // Other objectives have no replicas.
        let found = carried(&makespan, &small).expect("counterparts");
        assert_eq!(found.placement.replicas(DeviceId(0)), 1);
    }

    #[test]
    fn depth_is_a_place_as_well() {
        let small = plan(4, 3, |layer, _| layer);
        let problem = recurrent(16, 3, false);
        let found = carried(&problem, &small).expect("counterparts");
        let devices: Vec<usize> = (0..16).map(|layer| device(&problem, &found, layer, 1)).collect();
        assert!(devices.is_sorted() && devices[0] == 0 && devices[15] == 3, "{devices:?}");
    }

    #[test]
    fn a_plan_of_the_same_model_is_taken_as_it_is() {
        let own = plan(3, 5, |layer, step| (layer + step) % 4);
        let problem = recurrent(3, 5, false);
        let given = placement(&problem, &own).expect("a placement");
        let starts = [start(&problem, &own), carried(&problem, &own)];
        for found in starts {
            assert_eq!(found.expect("a placement"), Carried { placement: given.clone(), counterparts: 15 });
        }
    }

    #[test]
    fn a_placement_for_latency_has_calls() {
        let small = plan(2, 4, |layer, _| layer);
        let problem = recurrent(2, 12, false).with_objective(ObjectiveKind::Latency).expect("an objective");
        let found = start(&problem, &small).expect("counterparts");
        assert!(found.placement.has_calls() && found.counterparts == 24);
        assert_eq!(device(&problem, &found, 1, 7), 1);
    }

    #[test]
    fn what_must_share_a_device_goes_where_most_of_its_work_is() {
        let small = plan(2, 4, |layer, step| if step == 0 { 3 } else { layer });
        let problem = recurrent(2, 12, true);
        let found = carried(&problem, &small).expect("counterparts");
        assert!((0..12).all(|step| device(&problem, &found, 1, step) == 1));
    }

    #[test]
    fn operators_without_a_counterpart_are_beside_a_neighbour() {
        let mut small = plan(1, 3, |_, _| 2);
        small.devices[2].ops.retain(|name| name != &cell(0, 2));
        small.priority = None;
        let mut builder = GraphBuilder::new("more");
        for name in ["layer.0.step0.cell", "loss"] {
            builder.operator(OperatorDocument {
                seconds: [("acc".into(), 1.0)].into(),
                ..OperatorDocument::named(name)
            });
        }
        send(&mut builder, cell(0, 0), vec!["loss".into()]);
        let graph = builder.build().expect("a valid graph");
        let objective = Objective::Makespan { execution: Default::default() };
        let problem = Problem::new(graph, devices(4, None), objective).expect("a problem");
        let found = carried(&problem, &small).expect("a counterpart");
        assert_eq!(found.counterparts, 1);
        assert!(problem.graph().operators().all(|op| found.placement.device_of(op).index() == 2));
        let error = |plan: &PlanDocument| carried(&problem, plan).expect_err("an error");
        let mut other = small.clone();
        other.devices[2].ops = vec!["another".into()];
        assert_eq!(error(&other), PlacementError::NoCounterpart);
        small.devices[2].name = "gpu7".into();
        assert_eq!(error(&small), PlacementError::UnknownDevice("gpu7".into()));
    }

    #[test]
    fn names_that_look_like_roles_are_names() {
        let mut builder = GraphBuilder::new("odd");
        for name in ["a#", "a7", "a0", "#"] {
            builder.operator(OperatorDocument {
                seconds: [("acc".into(), 1.0)].into(),
                ..OperatorDocument::named(name)
            });
        }
        let graph = builder.build().expect("a valid graph");
        let objective = Objective::Makespan { execution: Default::default() };
        let problem = Problem::new(graph, devices(4, None), objective).expect("a problem");
        for names in [["a7", "a#"], ["a#", "a7"]] {
            let mut given = plan(1, 1, |_, _| 2);
            given.priority = None;
            given.devices[2].ops = names.map(str::to_owned).to_vec();
            assert_eq!(carried(&problem, &given).expect("counterparts").counterparts, 3);
            given.devices[1].ops = vec!["a7".into()];
            assert_eq!(carried(&problem, &given), Err(PlacementError::PlacedTwice("a7".into())));
        }
    }

    #[test]
    fn numbers_of_any_length_are_read() {
        let long = "9".repeat(40);
        assert_eq!(
            split(&format!("a{long}b07.é3")),
            ("a0b0.é0".into(), vec![9_999_999_999_999_999_999, 7, 3])
        );
        assert_eq!(split(""), (String::new(), Vec::new()));
    }
}
