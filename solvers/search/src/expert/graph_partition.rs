//! A general-purpose graph partitioner: balanced compute and little traffic, without regard to a pipeline.
//!
//! The classical baseline of device placement. Mirhoseini et al. (ICML 2017) compare with Scotch, which maps
//! the operators by their compute and the tensors between them; here METIS takes its place (see
//! CONTRIBUTING.md). Nodes are the units, weighted by their seconds on the first accelerator; edges join a
//! tensor's producer to each unit that reads it, weighted by the seconds of a transfer over its link. There
//! is one part per accelerator, all of equal weight. Memory, pins and the order of a contiguous split are
//! ignored.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::Units;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::multilevel::{self, WeightedGraph};
use super::{ExpertRule, Placed, accelerators, assignment};

/// One part of the graph per accelerator.
pub static GRAPH_PARTITION: ExpertRule = ExpertRule {
    name: "graph-partition",
    summary: "graph partitions with balanced compute and few transfers (METIS; baseline)",
    missing_feature: multilevel::MISSING_FEATURE,
    depends_on_seed: true,
    place,
};

fn place(problem: &Problem, seed: u64) -> Result<Placed, String> {
    Ok(partition(problem, seed)?.into())
}

fn partition(problem: &Problem, seed: u64) -> Result<Placement, String> {
    let devices = accelerators(problem)?;
    let units = Units::of(problem);
    let pool = problem.pool_of(devices[0]);
    let nodes = units.ids().map(|unit| units.seconds(unit, pool).unwrap_or(0.0)).collect();
    let mut edges = Vec::new();
    for (index, net) in units.nets().enumerate() {
        let from = if net.is_gradient() { units.pins(index)[0] } else { net.producer };
        let others = units.pins(index).iter().filter(|&&unit| unit != from);
        edges.extend(others.map(|&to| (from, to, units.transfer(index, pool))));
    }
    let part_of = WeightedGraph::new(nodes, &edges).partition(devices.len(), seed)?;
    let graph = problem.graph();
    let device = |class: ClassId| devices[part_of[units.unit_of(graph.class(class)[0])]];
    let device_of_class: Keyed<ClassId, DeviceId> = graph.class_ids().map(device).collect();
    assignment::placement(problem, &device_of_class)
}

#[cfg(all(test, feature = "metis"))]
mod tests {
    use stagewright_core::document::Split;

    use super::super::support::{Model, plan, solve};
    use super::*;

    #[test]
    fn a_chain_is_cut_into_even_parts() {
        let mut model = Model::layers(12);
        model.operator("embedding").seconds.insert("acc".into(), 0.0);
        model.operator("head").seconds.insert("acc".into(), 0.0);
        for split in [Split::Free, Split::Contiguous] {
            model.split = split;
            let problem = model.on(3);
            let plan = plan(&GRAPH_PARTITION, &problem);
            // Four layers on the middle device, and a transfer on either side.
            assert_eq!(plan.value(), 4.0 + 2.0 * 0.125);
        }
    }

    #[test]
    fn a_seed_gives_one_plan() {
        let mut model = Model::layers(40);
        model.split = Split::Free;
        let problem = model.on(7);
        assert_eq!(solve(&GRAPH_PARTITION, &problem), solve(&GRAPH_PARTITION, &problem));
    }
}
