//! Each layer on its own device.
//!
//! The manual placement of recurrent models, and the expert baseline of the device placement literature for
//! language models and translation (Mirhoseini et al., "Device placement optimization with reinforcement
//! learning", ICML 2017), after Sutskever et al. (NeurIPS 2014) and Wu et al. (2016): every LSTM layer on its
//! own device, the embedding with the first layer, attention and softmax with the last. If there are more
//! layers than devices they are dealt out in turn; with as many devices as the encoder has layers, layer i of
//! the decoder joins layer i of the encoder, as in Wu et al.

use rustc_hash::FxHashSet;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

use super::layers::Layers;
use super::{ExpertRule, Placed, accelerators, assignment};

/// Layers on the accelerators in turn.
pub static LAYER_PER_DEVICE: ExpertRule = ExpertRule {
    name: "layer-per-device",
    summary: "one accelerator per layer, round-robin (expert placement of recurrent models; baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let placement = assignment::placement(problem, &deal_out(problem)?)?;
    Ok(placement.into())
}

/// The device of every colocation class: the device of its first layer. A class without a layer goes with the
/// first layer of the model if none of its forward operators belongs to a module after a layer, otherwise
/// with the last. A module is the set of operators with the same layer path; it is after a layer if any of
/// its operators is.
///
/// # Errors
/// If there are no layers or no accelerators.
pub(super) fn deal_out(problem: &Problem) -> Result<Keyed<ClassId, DeviceId>, String> {
    let devices = accelerators(problem)?;
    let graph = problem.graph();
    let layers = Layers::new(graph)?;
    let path = |op| graph.operator(op).layer.as_deref();
    let mut after = Keyed::filled(false, graph.operator_count());
    let mut modules_after: FxHashSet<&str> = FxHashSet::default();
    for &op in graph.topological() {
        let from = graph.predecessors(op);
        after[op] = from.iter().any(|&from| after[from] || layers.of(from).is_some());
        if after[op] {
            modules_after.extend(path(op).filter(|_| graph.is_forward(op)));
        }
    }
    let is_after = |op: OpId| after[op] || path(op).is_some_and(|path| modules_after.contains(path));
    let device = |layer: usize| devices[layer % devices.len()];
    let of_class = |class: ClassId| {
        let members = graph.class(class);
        match members.iter().find_map(|&op| layers.of(op)) {
            Some(layer) => device(layer),
            None => {
                let mut forward = members.iter().filter(|&&op| graph.is_forward(op)).peekable();
                let before = forward.peek().is_some() && !forward.any(|&op| is_after(op));
                device(if before { 0 } else { layers.count() - 1 })
            }
        }
    };
    Ok(graph.class_ids().map(of_class).collect())
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Split;

    use super::super::support::{Model, names, plan, reason};
    use super::*;

    #[test]
    fn layers_are_dealt_out_in_turn() {
        let mut model = Model::layers(5);
        model.split = Split::Free;
        let problem = model.on(3);
        let plan = plan(&LAYER_PER_DEVICE, &problem);
        assert_eq!(names(&problem, &plan, 0), ["embedding", "layer.0", "layer.3"]);
        assert_eq!(names(&problem, &plan, 1), ["layer.1", "layer.4", "head"]);
        assert_eq!(names(&problem, &plan, 2), ["layer.2"]);
        // The head's device: 2 s and twice 1 s, and three transfers to and from the others, 0.125 s each.
        assert_eq!(plan.value(), 4.0 + 3.0 * 0.125);
    }

    #[test]
    fn it_is_contiguous_only_while_no_device_has_two_layers() {
        let problem = Model::layers(3).on(3);
        assert_eq!(names(&problem, &plan(&LAYER_PER_DEVICE, &problem), 2), ["layer.2", "head"]);
        assert!(reason(&LAYER_PER_DEVICE, &Model::layers(3).on(2)).contains("not contiguous"));
    }
}
