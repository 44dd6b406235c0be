//! Models as sequences of layers, for runtimes that divide them by boundaries.
//!
//! The layers are those of [`layers`] in an execution order: by stage, and within a stage every layer after
//! those that it reads. Ties go to the layer that the model lists first. Modules that compute nothing fill the
//! gaps in the numbers of a stack.
//!
//! Some runtimes pass to every layer only the output of the previous one. For these the sequence must be a
//! [chain](Sequence::chain).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use stagewright_core::graph::{OpId, TensorId};

use super::error::{ExportError, Result, listed};
use super::layers::{Layer, addressable, layers, parts};
use super::paths::Paths;
use super::pipeline::{Pipeline, forward_edges};
use super::placed::Placed;

/// Why a plan alone does not determine a sequence.
const WHY: &str = "the plan does not state which operators are inputs, and in which order layers run";

/// A sequence of layers divided among stages.
#[derive(Debug)]
pub struct Sequence {
    /// The stages.
    pub pipeline: Pipeline,
    /// The layers of each stage, in execution order.
    pub stages: Vec<Vec<Layer>>,
    /// The source of the layer names, for display; `None` if they are the model's own.
    pub source: Option<String>,
}

impl Sequence {
    /// Divides the layers of a plan among the stages of its pipeline.
    ///
    /// Takes time O((operators + tensors) · log operators), in addition to [`layers`].
    ///
    /// # Errors
    /// If the plan does not divide into such a sequence (E006, E010 to E012, E015, E018, E019 and E021).
    pub fn new(placed: &Placed, target: &'static str, pipeline: Pipeline) -> Result<Sequence> {
        placed.model(target, WHY)?;
        let paths = Paths::new(placed)?;
        let mut found: Vec<(usize, Layer)> = Vec::new();
        for layer in layers(placed, &paths)? {
            let stage = pipeline.stage_of[layer.device(placed)?];
            if !is_data(placed, &layer) {
                layer.paths().try_for_each(|path| addressable(target, path))?;
                found.push((stage, layer));
            } else if !pipeline.is_end(stage) {
                let rule = (
                    "inputs go to the first stage or the last",
                    "pin the input to the device of the first stage with --pins, and plan again",
                );
                return Err(pipeline.misplaced(placed, layer.operators[0], rule));
            }
        }
        let mut stages: Vec<Vec<Layer>> = (0..pipeline.stages()).map(|_| Vec::new()).collect();
        let mut found = in_order(placed, found)?;
        for index in 1..found.len() {
            let idle = between(&found[index - 1].1, &found[index].1);
            found[index - 1].1.further.extend(idle);
        }
        for (stage, layer) in found {
            stages[stage].push(layer);
        }
        Ok(Sequence { pipeline, stages, source: paths.source() })
    }

    /// The paths of the layers of all stages, in order.
    pub fn layers(&self) -> Vec<&str> {
        self.stages.iter().flatten().flat_map(Layer::paths).collect()
    }

    /// The number of layers of each stage.
    pub fn counts(&self) -> Vec<usize> {
        self.stages.iter().map(|layers| layers.iter().map(|layer| layer.paths().count()).sum()).collect()
    }

    /// Names the parameters of the model that are in none of the listed modules; `None` if there are none.
    pub fn outside(&self, placed: &Placed) -> Option<String> {
        let modules: BTreeSet<&str> = self.stages.iter().flatten().flat_map(Layer::paths).collect();
        // The parameter names of a workload are not those of the published modules.
        let graph = placed.graph.filter(|_| self.source.is_none())?;
        let names = graph.parameters().iter().map(|parameter| &parameter.name);
        let outside: Vec<String> =
            names.filter(|name| !parts(name).any(|part| modules.contains(part))).cloned().collect();
        (!outside.is_empty()).then(|| {
            let names = listed(&outside);
            format!("{names}: in none of the layers, so the layers that read it have to hold it")
        })
    }

    /// The trained weights that several layers read, each with these layers, in the order of the model.
    ///
    /// Takes time O(operators + readers · log readers).
    pub fn tied(&self, placed: &Placed) -> Vec<(String, Vec<&Layer>)> {
        let Some(graph) = placed.graph else { return Vec::new() };
        let layers: Vec<&Layer> = self.stages.iter().flatten().collect();
        let layer_of = index_of(placed, layers.iter().copied().enumerate());
        let weights = graph.parameters().iter().enumerate().filter(|(_, parameter)| parameter.trained);
        let readers = weights.map(|(index, parameter)| {
            let readers: BTreeSet<usize> =
                graph.readers(index).iter().filter_map(|op| layer_of[op.index()]).collect();
            (parameter.name.clone(), readers.into_iter().map(|layer| layers[layer]).collect::<Vec<_>>())
        });
        readers.filter(|(_, layers)| layers.len() > 1).collect()
    }

    /// Refuses stages that contain nothing but inputs.
    ///
    /// # Errors
    /// If there is one (E017).
    pub fn no_stage_empty(&self, rule: &'static str) -> Result<()> {
        let help = "plan with fewer devices, or pin the inputs to a device that runs a layer";
        if self.stages.iter().any(Vec::is_empty) {
            return Err(ExportError::Counts { counts: self.counts(), rule, help });
        }
        Ok(())
    }

    /// Refuses anything but a chain: every layer but the first has to read the one right before it, and may read no
    /// other. Inputs of the model may be read by all. An operator that runs in the kernel of another layer is merged
    /// with the layer before it here: the reader of a view reads the viewed tensor.
    ///
    /// # Errors
    /// If the sequence is not a chain (E020).
    pub fn chain(&self, placed: &Placed, runtime: &'static str) -> Result<()> {
        let mut links: Vec<Vec<&Layer>> = Vec::new();
        for layer in self.stages.iter().flatten() {
            match links.last_mut() {
                Some(link) if layer.rides => link.push(layer),
                _ => links.push(vec![layer]),
            }
        }
        let members =
            links.iter().enumerate().flat_map(|(index, link)| link.iter().map(move |&layer| (index, layer)));
        let link_of = index_of(placed, members);
        let layers: Vec<&Layer> = links.iter().map(|link| link[0]).collect();
        let mut fed = vec![false; layers.len()];
        for (from, to, producer, reader) in reads(placed, &link_of) {
            if producer + 1 != reader {
                return Err(ExportError::Skip {
                    runtime,
                    tensor: tensor(placed, from, to).unwrap_or_default().into(),
                    producer: layers[producer].path.as_str().into(),
                    layer: layers[reader].path.as_str().into(),
                    before: layers[reader - 1].path.as_str().into(),
                    reader: Box::new(placed.sited(&placed.operators[to])),
                });
            }
            fed[reader] = true;
        }
        match (1..layers.len()).find(|&layer| !fed[layer]) {
            Some(start) => Err(ExportError::Start {
                runtime,
                layer: layers[start].path.clone(),
                before: layers[start - 1].path.clone(),
                first: Box::new(placed.sited(&placed.operators[layers[start].operators[0]])),
            }),
            None => Ok(()),
        }
    }
}

/// Maximum number of modules without an operator between two layers.
const MAX_IDLE: u64 = 8;

/// The modules that a stack has between two of its layers: those that compute nothing, such as `Dropout` in inference
/// or `Flatten`. A stack with a gap longer than [`MAX_IDLE`] is not a list of modules that run one after the other.
fn between(layer: &Layer, next: &Layer) -> Vec<String> {
    let (Some(before), Some(after)) = (&layer.number, &next.number) else { return Vec::new() };
    let gap = after.number.saturating_sub(before.number).saturating_sub(1);
    if before.stack != after.stack || gap > MAX_IDLE {
        return Vec::new();
    }
    (before.number + 1..after.number).map(|number| format!("{}{number}", before.stack)).collect()
}

/// Whether a layer consists of inputs of the model only.
pub fn is_data(placed: &Placed, layer: &Layer) -> bool {
    layer.operators.iter().all(|&operator| placed.is_input(operator))
}

/// Sorts layers topologically and by stage. Since forward tensors never go back to an earlier stage, a layer
/// of the earliest remaining stage can always run next, unless layers read from one another in a cycle.
fn in_order(placed: &Placed, found: Vec<(usize, Layer)>) -> Result<Vec<(usize, Layer)>> {
    let layer_of = index_of(placed, found.iter().map(|(_, layer)| layer).enumerate());
    let mut producers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); found.len()];
    let mut readers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); found.len()];
    for (_, _, producer, reader) in reads(placed, &layer_of) {
        producers[reader].insert(producer);
        readers[producer].insert(reader);
    }
    let mut waits: Vec<usize> = producers.iter().map(BTreeSet::len).collect();
    let entry = |layer: usize| Reverse((found[layer].0, layer));
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> =
        (0..found.len()).filter(|&layer| waits[layer] == 0).map(entry).collect();
    let mut order: Vec<usize> = Vec::with_capacity(found.len());
    while let Some(Reverse((_, layer))) = ready.pop() {
        order.push(layer);
        for &reader in &readers[layer] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(entry(reader));
            }
        }
    }
    if let Some(stuck) = waits.iter().position(|&left| left > 0) {
        let ring = ring(stuck, &producers, &waits);
        let first = Box::new(placed.sited(&placed.operators[found[ring[0]].1.operators[0]]));
        let layers = ring.into_iter().map(|layer| found[layer].1.path.clone()).collect();
        return Err(ExportError::Ring { layers, first });
    }
    let mut found: Vec<Option<(usize, Layer)>> = found.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|layer| found[layer].take()).collect())
}

/// A cycle of layers in the direction of the tensors, rotated so that the layer listed first comes first.
/// Every blocked layer reads another blocked layer, so going back from `stuck` ends in a cycle.
fn ring(stuck: usize, producers: &[BTreeSet<usize>], waits: &[usize]) -> Vec<usize> {
    let mut way = vec![stuck];
    let mut place: Vec<Option<usize>> = vec![None; waits.len()];
    place[stuck] = Some(0);
    while let Some(&next) = producers[way[way.len() - 1]].iter().find(|&&layer| waits[layer] > 0) {
        if let Some(start) = place[next] {
            way.drain(..start);
            break;
        }
        place[next] = Some(way.len());
        way.push(next);
    }
    way.reverse();
    let first = (0..way.len()).min_by_key(|&index| way[index]).unwrap_or(0);
    way.rotate_left(first);
    way
}

/// The index of the layer of every operator; `None` for operators outside all layers.
fn index_of<'a>(placed: &Placed, layers: impl Iterator<Item = (usize, &'a Layer)>) -> Vec<Option<usize>> {
    let mut index_of = vec![None; placed.operators.len()];
    for (index, layer) in layers {
        for &operator in &layer.operators {
            index_of[operator] = Some(index);
        }
    }
    index_of
}

/// Producers and readers of the forward tensors between layers, as operators and as layers.
fn reads(placed: &Placed, layer_of: &[Option<usize>]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    forward_edges(placed).filter(|&(from, _)| !placed.is_input(from)).filter_map(|(from, to)| {
        let (producer, reader) = (layer_of[from]?, layer_of[to]?);
        (producer != reader).then_some((from, to, producer, reader))
    })
}

/// The name of the first tensor from one operator to another.
fn tensor(placed: &Placed, from: usize, to: usize) -> Option<String> {
    let graph = placed.graph?;
    let reader = OpId::new(to);
    let read = |tensor: &&TensorId| graph.consumers(**tensor).contains(&reader);
    graph.outputs(OpId::new(from)).iter().find(read).map(|&tensor| graph.tensor_name(tensor))
}
