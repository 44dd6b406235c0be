//! The finest levels: colocation classes, fused where necessary for an acyclic precedence.
//!
//! If tensors between classes are acyclic, every class is a cluster, and tensors are the edges. Colocation of passes
//! makes them cyclic, since a class then runs both early and late. In that case the edges are the precedence of a
//! contiguous split, which mirrors backward operators, and the classes that even this precedence puts on a cycle, the
//! [`Units`] of that split, become one cluster at the second level. A unit that no pool can run, or whose classes a
//! schedule has on several devices, remains in parts without edges: clusters without edges are on no cycle.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;

use super::super::instance::Instance;
use super::level::{ClusterId, Level};

/// The finest levels of an instance.
#[derive(Debug)]
pub(super) struct Finest<'s, 'p> {
    instance: &'s Instance<'p>,
    classes: Level,
    /// Units of a contiguous split, if classes are on cycles.
    units: Option<Units>,
}

impl<'s, 'p> Finest<'s, 'p> {
    /// Builds the finest levels. O(pools · operators + pins log pins).
    pub(super) fn new(instance: &'s Instance<'p>) -> Finest<'s, 'p> {
        let mut classes = Level::of_classes(instance);
        let units = match classes.order() {
            Some(_) => None,
            None => {
                classes.precede(&[]);
                Some(Units::contiguous(instance.problem(), &[]))
            }
        };
        Finest { instance, classes, units }
    }

    /// The instance.
    pub(super) fn instance(&self) -> &'s Instance<'p> {
        self.instance
    }

    /// Whether classes are on cycles; their level then has no edges, and the second level is the first with edges.
    pub(super) fn is_fused(&self) -> bool {
        self.units.is_some()
    }

    /// The level of the classes.
    pub(super) fn classes(&self) -> &Level {
        &self.classes
    }

    /// The one or two finest levels, finest first. If devices are given for all operators, every cluster is on one
    /// device.
    pub(super) fn levels(&self, together: Option<&[DeviceId]>) -> Vec<Level> {
        let mut levels = vec![self.classes.clone()];
        levels.extend(self.units.as_ref().map(|units| self.fused(units, together)));
        levels
    }

    fn fused(&self, units: &Units, together: Option<&[DeviceId]>) -> Level {
        let (graph, pools) = (self.instance.graph(), self.instance.pool_count());
        let is_whole = |unit: UnitId| {
            let members = units.members(unit);
            let can = |pool: usize| members.iter().all(|&op| self.instance.seconds_on(op, pool).is_finite());
            let device = |device_of: &[DeviceId]| {
                members.iter().all(|op| device_of[op.index()] == device_of[members[0].index()])
            };
            (0..pools).any(can) && together.is_none_or(device)
        };
        let is_whole: Keyed<UnitId, bool> = units.ids().map(is_whole).collect();
        let mut count = units.len();
        let part = |class: ClassId| {
            let first = graph.class(class)[0];
            let unit = units.unit_of(first);
            if is_whole[unit] || first == units.members(unit)[0] {
                return ClusterId(unit.0);
            }
            count += 1;
            ClusterId::new(count - 1)
        };
        let coarse = graph.class_ids().map(part).collect();
        let mut fused = self.classes.contracted(&coarse, count);
        let mut edges = Vec::new();
        for unit in units.ids().filter(|&unit| is_whole[unit]) {
            let after = units.successors(unit).iter().filter(|&&to| is_whole[to]);
            edges.extend(after.map(|&to| (ClusterId(unit.0), ClusterId(to.0))));
        }
        fused.precede(&edges);
        fused
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::document::{
        ObjectiveKind, OperatorDocument, Pass, PinTargets, PinsDocument, TensorDocument,
    };
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::problem::Problem;
    use stagewright_core::seed;

    use super::super::coarsening::{Limits, hierarchy};
    use super::*;
    use stagewright_testing::devices::devices;

    /// A problem of forward operators and their backward operators. Some operators are colocated, also with others of
    /// their pass, and some are pinned.
    fn training(number: u64) -> Problem {
        let mut rng = seed::stream(21, number);
        let count = rng.random_range(2..25);
        let mut builder = GraphBuilder::new("training");
        let mut pins = PinsDocument::default();
        for (pass, prefix) in [(Pass::Forward, "f"), (Pass::Backward, "b")] {
            for index in 0..count {
                let name = format!("{prefix}{index}");
                let with = if rng.random_bool(0.2) { rng.random_range(0..count) } else { index };
                if rng.random_bool(0.1) {
                    let device = format!("acc{}", rng.random_range(0..3));
                    pins.0.insert(name.clone(), PinTargets::One(device));
                }
                builder.operator(OperatorDocument {
                    pass,
                    colocation: rng.random_bool(0.8).then(|| format!("c{with}")),
                    seconds: [("acc".into(), 1.0)].into(),
                    ..OperatorDocument::named(name)
                });
            }
        }
        let mut tensor = |producer: String, to: String| {
            let seconds = [("acc".into(), 1.0)].into();
            let consumers = vec![to];
            builder.timed_tensor(TensorDocument { name: None, producer, consumers, bytes: 1.0, seconds });
        };
        for to in 1..count {
            let from = rng.random_range(0..to);
            tensor(format!("f{from}"), format!("f{to}"));
            tensor(format!("b{to}"), format!("b{from}"));
            tensor(format!("f{to}"), format!("b{to}"));
        }
        let objective = ObjectiveKind::Makespan;
        Problem::pinned(builder.build().expect("a valid graph"), devices(3, None), objective, pins)
            .expect("a valid problem")
    }

    #[test]
    fn levels_are_acyclic_and_keep_to_devices_whatever_is_colocated() {
        let (mut cyclic, mut parts) = (0, 0);
        for number in 0..500 {
            let problem = training(number);
            let instance = Instance::new(&problem);
            if instance.impossible().is_some() {
                continue;
            }
            let finest = Finest::new(&instance);
            cyclic += usize::from(finest.units.is_some());
            let mut rng = seed::stream(22, number);
            let graph = problem.graph();
            let of_class: Keyed<ClassId, DeviceId> = graph
                .class_ids()
                .map(|class| {
                    let homes = instance.homes_of_class(class);
                    homes[rng.random_range(0..homes.len())]
                })
                .collect();
            let device_of: Vec<DeviceId> = graph.operators().map(|op| of_class[graph.class_of(op)]).collect();
            let limits = Limits::new(&finest, 2);
            for together in [None, Some(&device_of[..])] {
                let levels = hierarchy(&finest, &limits, together, &mut rng);
                for level in &levels {
                    assert!(level.order().is_some(), "{number}: a cycle");
                    let can = |cluster: ClusterId| {
                        (0..instance.pool_count()).any(|pool| level.seconds(cluster, pool).is_finite())
                    };
                    assert!(level.ids().all(can), "{number}: a cluster that nothing can run");
                    if together.is_some() {
                        let devices = level.devices(&instance, &device_of);
                        assert_eq!(level.project(&instance, &devices), device_of, "{number}");
                    }
                }
                parts +=
                    usize::from(finest.units.as_ref().is_some_and(|units| levels[1].len() > units.len()));
            }
        }
        assert!(cyclic > 100 && parts > 50, "{cyclic} with cycles, {parts} with units in parts");
    }
}
