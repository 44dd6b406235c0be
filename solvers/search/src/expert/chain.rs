//! The model as a chain of segments, for the rules that cut a chain: the layers, and the units between layers.
//!
//! The colocation classes of a layer are fused, and so are layers on a cycle or with a common class: since these layers
//! must share a device in a contiguous split, they count as one layer, and the solution reports it. The order of the
//! chain is topological, and by index where that leaves a choice, so every cut of the chain into stages respects the
//! order of the split rule.

use std::ops::Range;

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::Placed;
use super::layers::Layers;

/// A part of the model that no rule cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Whether the segment is a layer; otherwise it is before, between or after layers.
    pub(super) is_layer: bool,
    /// Units of the segment, which are consecutive.
    pub(super) units: Range<usize>,
}

/// The segments of a model in order.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    units: Units,
    segments: Vec<Segment>,
    /// Number of layers named by the graph.
    layers: usize,
}

impl Chain {
    /// The chain of a problem under any split rule, in time linear in the graph apart from a sort.
    ///
    /// # Errors
    /// If the graph names no layers.
    pub(super) fn new(problem: &Problem) -> Result<Chain, String> {
        let graph = problem.graph();
        let layers = Layers::new(graph)?;
        let mut first_class: Vec<Option<ClassId>> = vec![None; layers.count()];
        let mut pairs = Vec::new();
        for op in graph.operators() {
            let Some(layer) = layers.of(op) else { continue };
            let class = graph.class_of(op);
            let first = *first_class[layer].get_or_insert(class);
            if first != class {
                pairs.push((first, class));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let units = match problem.objective() {
            Objective::Latency { .. } => Units::with_fused(problem, &pairs),
            Objective::Throughput(_) | Objective::Makespan { .. } => Units::contiguous(problem, &pairs),
        };
        let mut segments: Vec<Segment> = Vec::new();
        for (position, unit) in units.ids().enumerate() {
            let is_layer = units.members(unit).iter().any(|&op| layers.of(op).is_some());
            match segments.last_mut() {
                Some(last) if !is_layer && !last.is_layer => last.units.end = position + 1,
                _ => segments.push(Segment { is_layer, units: position..position + 1 }),
            }
        }
        Ok(Chain { units, segments, layers: layers.count() })
    }

    /// The segments in order.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Weight of each segment, summed over the weights of its units.
    pub(super) fn weights(&self, of_unit: impl Fn(&Units, UnitId) -> f64) -> Vec<f64> {
        let weight = |segment: &Segment| {
            segment.units.clone().map(|position| of_unit(&self.units, UnitId::new(position))).sum()
        };
        self.segments.iter().map(weight).collect()
    }

    /// The placement with each segment on the device of its stage; stages must not decrease along the chain.
    pub(super) fn place(&self, problem: &Problem, devices: &[DeviceId], stages: &[usize]) -> Placed {
        let mut device_of_unit: Keyed<UnitId, DeviceId> = Vec::with_capacity(self.units.len()).into();
        for (segment, &stage) in self.segments.iter().zip(stages) {
            device_of_unit.extend(segment.units.clone().map(|_| devices[stage]));
        }
        let device_of =
            problem.graph().operators().map(|op| device_of_unit[self.units.unit_of(op)]).collect();
        let mut used: Vec<DeviceId> = stages.iter().map(|&stage| devices[stage]).collect();
        used.dedup();
        Placed { placement: Placement::with_stages(device_of, used, Default::default()), note: self.note() }
    }

    /// Reports the layers that the rules cannot separate.
    fn note(&self) -> Option<String> {
        let parted = self.segments.iter().filter(|segment| segment.is_layer).count();
        (parted < self.layers).then(|| {
            format!(
                "colocation or a cycle of tensors merges layers: the {} of the graph count as {parted}",
                self.layers
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::EQUAL_LAYERS;
    use super::super::support::{Model, names, plan, solve};

    #[test]
    fn layers_that_share_a_class_count_as_one_and_that_is_said() {
        let mut model = Model::layers(4);
        for layer in ["layer.0", "layer.2"] {
            model.operator(layer).colocation = Some("shared".into());
        }
        let problem = model.on(2);
        let plan = plan(&EQUAL_LAYERS, &problem);
        assert_eq!(names(&problem, &plan, 0), ["embedding", "layer.0", "layer.1", "layer.2"]);
        let note = solve(&EQUAL_LAYERS, &problem).reason.expect("a note");
        assert!(note.ends_with("the 4 of the graph count as 2"), "{note}");
        assert_eq!(solve(&EQUAL_LAYERS, &Model::layers(4).on(2)).reason, None);
    }
}
