//! The layers in order, sorted into classes of equal costs.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::rule;
use crate::joint::iteration::boundary::{self, Crossing};
use crate::joint::iteration::cut;
use crate::joint::iteration::model::{Layer, Model};
use crate::joint::iteration::work::Work;
use crate::joint::placed::Placed;
use crate::read::Cluster;

/// Maximum number of layers, since all intervals of them are numbered.
const MOST_LAYERS: usize = 2048;

/// Layers with equal costs on every kind.
#[derive(Debug)]
pub(super) struct Class<'a> {
    pub(super) layer: &'a Layer,
    /// Operators of the class on every kind; `None` if some cannot run there.
    pub(super) work: Vec<Option<Work>>,
    /// Number of layers of the class.
    pub(super) count: usize,
}

/// The layers of a graph, from the first to the last.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    pub(super) classes: Vec<Class<'a>>,
    /// Stages of a given cut: the first layer of each, then the number of layers.
    pub(super) cut: Option<Vec<usize>>,
    /// The class of every layer.
    pub(super) class_of: Vec<usize>,
    /// Tensors that cross the boundary before every layer, and after the last.
    pub(super) crossings: Vec<Crossing>,
    /// Number of every interval, by first layer and length − 1; intervals with the same classes in the same order share
    /// it.
    intervals: Vec<Vec<u32>>,
}

impl<'a> Layers<'a> {
    /// Sorts the layers; `None` if they are not those of the graph ([`rule`]), if they have no order, if a stage of the
    /// plan is not an interval of that order, or if there are too many. `layers` lists the layers by their names in the
    /// plan, in the order of the model, and `cut` has the numbers of numbered layers of the stages if they are given.
    pub(super) fn new(
        model: &'a Model,
        cluster: &Cluster,
        layers: &[(&str, Placed)],
        cut: Option<&[u32]>,
    ) -> Option<Self> {
        let names: Vec<&str> = layers.iter().map(|&(name, _)| name).collect();
        if layers.len() > MOST_LAYERS || !rule::holds(model, &names) {
            return None;
        }
        let order = order(model)?;
        // If a stage is not an interval, the layers are not in the order of the stages.
        if !order.is_sorted_by_key(|&layer| layers[layer].1.stage) {
            return None;
        }
        let cut = match cut {
            Some(cut) => {
                let is_numbered: Vec<bool> =
                    order.iter().map(|&layer| model.layers[layer].is_numbered).collect();
                Some(cut::boundaries(&is_numbered, cut)?)
            }
            None => None,
        };

        let (mut classes, mut class_of) = (Vec::new(), Vec::with_capacity(order.len()));
        let mut found: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        for &layer in &order {
            let layer = &model.layers[layer];
            let work: Vec<Option<Work>> = cluster
                .kinds
                .iter()
                .map(|kind| {
                    let mut violations = Vec::new();
                    let work = Work::new(model, layer, kind, &mut violations);
                    violations.is_empty().then_some(work)
                })
                .collect();
            let mut key = layer.figures();
            for work in &work {
                key.push(u64::from(work.is_some()));
                key.extend(work.iter().flat_map(Work::figures));
            }
            let class = *found.entry(key).or_insert_with(|| {
                classes.push(Class { layer, work, count: 0 });
                classes.len() - 1
            });
            classes[class].count += 1;
            class_of.push(class);
        }

        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(index, &layer)| place[layer] = index);
        let mut violations = Vec::new();
        let between = boundary::crossings(model, &place, order.len(), &mut violations);
        if !violations.is_empty() {
            return None;
        }
        let ends = || std::iter::once(Crossing::default());
        let crossings = ends().chain(between).chain(ends()).collect();
        let intervals = intervals(&class_of);
        Some(Layers { classes, cut, class_of, crossings, intervals })
    }

    /// Number of layers.
    pub(super) fn len(&self) -> usize {
        self.class_of.len()
    }

    /// Whether pipelines of the given cut, if any, have this number of stages.
    pub(super) fn may_be_cut(&self, stages: usize) -> bool {
        self.cut.as_ref().is_none_or(|cut| cut.len() == stages + 1)
    }

    /// The only start and end of the stage that is the `from`-th from the end of `stages`, if the cut is given.
    pub(super) fn given_stage(&self, stages: usize, from: usize) -> Option<[usize; 2]> {
        let cut = self.cut.as_ref()?;
        let stage = stages.checked_sub(from)?;
        Some([*cut.get(stage)?, *cut.get(stage + 1)?])
    }

    /// The number of the interval from the layer `first` up to, but not including, the layer `end`.
    pub(super) fn interval(&self, first: usize, end: usize) -> u32 {
        self.intervals[first][end - first - 1]
    }
}

/// Layers in the order of their first forward operators. `None` if some layer has no such operator.
fn order(model: &Model) -> Option<Vec<usize>> {
    let first = model.first_places();
    let mut order: Vec<usize> = (0..first.len()).collect();
    order.sort_by_key(|&layer| first[layer]);
    first.iter().all(|&place| place != usize::MAX).then_some(order)
}

/// Numbers of the intervals: paths in a tree whose edges are classes. O(layers²).
fn intervals(class_of: &[usize]) -> Vec<Vec<u32>> {
    let mut next: FxHashMap<(u32, usize), u32> = FxHashMap::default();
    let mut rows = Vec::with_capacity(class_of.len());
    for first in 0..class_of.len() {
        let mut number = 0;
        let mut row = Vec::with_capacity(class_of.len() - first);
        for &class in &class_of[first..] {
            let fresh = next.len() as u32 + 1;
            number = *next.entry((number, class)).or_insert(fresh);
            row.push(number);
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::intervals;

    #[test]
    fn intervals_with_the_same_classes_are_one() {
        let found = intervals(&[0, 1, 1, 1, 0]);
        // Layers 1 and 2 match layers 2 and 3, and layer 0 matches layer 4; layers 0 and 1 do not match layers 3 and 4.
        assert_eq!(found[1][1], found[2][1]);
        assert_eq!(found[0][0], found[4][0]);
        assert_ne!(found[0][1], found[3][1]);
    }
}
