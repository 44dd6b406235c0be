//! Families of graphs, one file each: random structures, and the built-in models at small sizes.
//!
//! A family is a function from a random stream and a number of operators to a graph document. It supports any number
//! from [`FEWEST`] to [`MOST`], unless its model has no graph of that size. Structural families make a `Shape`, which
//! `costs` prices; those with `-training` in their name also have the backward pass.

mod branching;
mod erdos_renyi;
mod fork_join;
mod layered;
mod recurrent;
mod residual;
mod series_parallel;
mod transformer;
mod trees;
mod workload;

use rand_chacha::ChaCha8Rng;
use stagewright_core::document::GraphDocument;

use self::workload::Ladder;
use super::costs;
use super::shape::Shape;

/// Minimum number of operators of a graph.
pub const FEWEST: usize = 20;
/// Maximum number of operators of a graph.
pub const MOST: usize = 4000;

/// A family of graphs.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Stable name of the family.
    pub name: &'static str,
    source: Source,
    /// Whether the family's graphs have a backward pass.
    pub is_training: bool,
}

/// Source of a family's graphs.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A random structure of about the given number of operators.
    Shape(fn(&mut ChaCha8Rng, usize) -> Shape),
    /// A built-in model.
    Model(&'static Ladder),
}

impl Family {
    const fn shape(name: &'static str, shape: fn(&mut ChaCha8Rng, usize) -> Shape) -> Family {
        Family { name, source: Source::Shape(shape), is_training: false }
    }

    const fn model(name: &'static str, ladder: &'static Ladder) -> Family {
        Family { name, source: Source::Model(ladder), is_training: false }
    }

    const fn training(self) -> Family {
        Family { is_training: true, ..self }
    }

    /// The number of operators within a range that is nearest to `operators`; `None` if the family has no graph within
    /// the range.
    pub fn nearest(&self, operators: usize, [least, largest]: [usize; 2]) -> Option<usize> {
        let [least, largest] = [least.max(FEWEST), largest.min(MOST)];
        if least > largest {
            return None;
        }
        match self.source {
            Source::Shape(_) => Some(operators.clamp(least, largest)),
            Source::Model(ladder) => ladder.nearest(self.is_training, operators, [least, largest]),
        }
    }

    /// A graph of about `operators` operators, a number from [`Family::nearest`]. Linear in its size.
    pub fn graph(&self, rng: &mut ChaCha8Rng, operators: usize) -> GraphDocument {
        match self.source {
            Source::Model(ladder) => ladder.graph(rng, self.is_training, operators),
            Source::Shape(shape) => {
                // The backward pass doubles the number.
                let shape = shape(rng, if self.is_training { operators.div_ceil(2) } else { operators });
                costs::document(rng, self.name, &shape, self.is_training)
            }
        }
    }
}

/// The families: structures, structures with their backward pass, models, and models in training.
pub const FAMILIES: &[Family] = &[
    Family::shape("layered", layered::shape),
    Family::shape("erdos-renyi", erdos_renyi::shape),
    Family::shape("series-parallel", series_parallel::shape),
    Family::shape("fork-join", fork_join::shape),
    Family::shape("out-tree", trees::out_tree),
    Family::shape("in-tree", trees::in_tree),
    Family::shape("residual", residual::shape),
    Family::shape("branching", branching::shape),
    Family::shape("recurrent", recurrent::shape),
    Family::shape("transformer", transformer::shape),
    Family::shape("layered-training", layered::shape).training(),
    Family::shape("series-parallel-training", series_parallel::shape).training(),
    Family::shape("residual-training", residual::shape).training(),
    Family::shape("branching-training", branching::shape).training(),
    Family::shape("recurrent-training", recurrent::shape).training(),
    Family::shape("transformer-training", transformer::shape).training(),
    Family::model("resnet", &workload::RESNET),
    Family::model("inception-v3", &workload::INCEPTION),
    Family::model("vgg", &workload::VGG),
    Family::model("nasnet-a", &workload::NASNET),
    Family::model("amoebanet-d", &workload::AMOEBANET),
    Family::model("vit", &workload::VIT),
    Family::model("unet", &workload::UNET),
    Family::model("bert", &workload::BERT),
    Family::model("gpt", &workload::GPT),
    Family::model("llama", &workload::LLAMA),
    Family::model("mixtral", &workload::MIXTRAL),
    Family::model("transformer-xl", &workload::TRANSFORMER_XL),
    Family::model("rnnlm", &workload::RNNLM),
    Family::model("gnmt", &workload::GNMT),
    Family::model("wavenet", &workload::WAVENET),
    Family::model("dlrm", &workload::DLRM),
    Family::model("resnet-training", &workload::RESNET).training(),
    Family::model("inception-v3-training", &workload::INCEPTION).training(),
    Family::model("vgg-training", &workload::VGG).training(),
    Family::model("nasnet-a-training", &workload::NASNET).training(),
    Family::model("amoebanet-d-training", &workload::AMOEBANET).training(),
    Family::model("vit-training", &workload::VIT).training(),
    Family::model("unet-training", &workload::UNET).training(),
    Family::model("bert-training", &workload::BERT).training(),
    Family::model("gpt-training", &workload::GPT).training(),
    Family::model("llama-training", &workload::LLAMA).training(),
    Family::model("mixtral-training", &workload::MIXTRAL).training(),
    Family::model("transformer-xl-training", &workload::TRANSFORMER_XL).training(),
    Family::model("rnnlm-training", &workload::RNNLM).training(),
    Family::model("gnmt-training", &workload::GNMT).training(),
    Family::model("wavenet-training", &workload::WAVENET).training(),
    Family::model("dlrm-training", &workload::DLRM).training(),
];

/// The family with the given name, if any.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

#[cfg(test)]
mod tests {
    use petgraph::unionfind::UnionFind;
    use stagewright_core::seed;

    use super::*;

    /// Shapes of a family at some sizes.
    fn shapes(make: fn(&mut ChaCha8Rng, usize) -> Shape) -> impl Iterator<Item = Shape> {
        (0..40).map(move |task| make(&mut seed::stream(17, task), 10 + 7 * task as usize))
    }

    fn sources(shape: &Shape) -> usize {
        let mut has_inputs = vec![false; shape.len()];
        shape.readers.iter().flatten().for_each(|&reader| has_inputs[reader] = true);
        has_inputs.iter().filter(|&&has| !has).count()
    }

    fn sinks(shape: &Shape) -> usize {
        shape.readers.iter().filter(|readers| readers.is_empty()).count()
    }

    fn is_connected(shape: &Shape) -> bool {
        let mut parts = UnionFind::new(shape.len());
        let joined = |(operator, readers): (usize, &Vec<usize>)| {
            readers.iter().filter(|&&reader| parts.union(operator, reader)).count()
        };
        shape.readers.iter().enumerate().map(joined).sum::<usize>() + 1 == shape.len()
    }

    #[test]
    fn trees_are_trees() {
        for tree in shapes(trees::out_tree) {
            let edges: usize = tree.readers.iter().map(Vec::len).sum();
            assert!(edges + 1 == tree.len() && sources(&tree) == 1 && is_connected(&tree));
        }
        for tree in shapes(trees::in_tree) {
            assert!(tree.readers[..tree.len() - 1].iter().all(|readers| readers.len() == 1));
            assert!(sinks(&tree) == 1 && is_connected(&tree));
        }
    }

    #[test]
    fn series_parallel_graphs_reduce_to_one_edge() {
        for shape in shapes(series_parallel::shape) {
            // Series reduction removes an operator with one edge in and one out; parallel reduction removes a repeated
            // edge. With a terminal at each end, a single edge between the terminals remains.
            let last = shape.len() + 1;
            let mut edges: std::collections::BTreeSet<(usize, usize)> = Default::default();
            edges.insert((0, 1));
            for (operator, readers) in shape.readers.iter().enumerate() {
                edges.extend(readers.iter().map(|&reader| (operator + 1, reader + 1)));
                if readers.is_empty() {
                    edges.insert((operator + 1, last));
                }
            }
            while let Some(node) = (1..last).find(|&node| {
                edges.iter().filter(|edge| edge.0 == node).count() == 1
                    && edges.iter().filter(|edge| edge.1 == node).count() == 1
            }) {
                let out = *edges.iter().find(|edge| edge.0 == node).expect("there is one");
                let into = *edges.iter().find(|edge| edge.1 == node).expect("there is one");
                edges.remove(&out);
                edges.remove(&into);
                edges.insert((into.0, out.1));
            }
            assert_eq!(edges.into_iter().collect::<Vec<_>>(), [(0, last)]);
        }
    }

    #[test]
    fn networks_are_connected_and_end_in_one_operator() {
        let networks =
            [fork_join::shape, residual::shape, branching::shape, recurrent::shape, transformer::shape];
        for network in networks {
            assert!(shapes(network).all(|shape| is_connected(&shape) && sinks(&shape) == 1));
        }
    }

    #[test]
    fn what_is_not_the_first_layer_reads_something() {
        for shape in shapes(layered::shape) {
            let mut first = 0;
            let mut has_inputs = vec![false; shape.len()];
            shape.readers.iter().flatten().for_each(|&reader| has_inputs[reader] = true);
            while first < shape.len() && !has_inputs[first] {
                first += 1;
            }
            assert!(has_inputs[first..].iter().all(|&has| has));
        }
    }
}
