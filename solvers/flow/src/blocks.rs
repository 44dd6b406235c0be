//! Plans of blocks: consecutive layers that one chain serves, or two parallel chains that together do, or three nodes.
//!
//! For a flow F, a block uses some nodes of each type and covers a number of layers. A knapsack over blocks covers as many
//! layers as the nodes of each type allow: an integer program of a column for each set of used nodes. Links are ignored.

use highs::{HighsModelStatus, RowProblem, Sense};
use rustc_hash::FxHashMap;
use stagewright_core::solver::Stop;

use crate::problem::{Problem, Type, longest};
use crate::routing::Ranges;

/// Nodes of a block: chains that are parallel, each of types with numbers of layers.
#[derive(Debug, Clone)]
struct Block {
    layers: usize,
    chains: Vec<Vec<(usize, usize)>>,
}

/// Nodes of a chain in a block.
const LONGEST_CHAIN: usize = 3;
/// Nodes of a block.
const LARGEST_BLOCK: usize = 4;
/// Columns of the integer program.
const COLUMNS: usize = 400;
/// Nodes of the tree of one integer program.
const NODES: i32 = 500;
/// Ratio of rates up to which nodes count as alike.
const ALIKE: f64 = 1.03;
/// Maximum number of types; nodes of others are in no block.
const TYPES: usize = 16;
/// Largest number of chains of one flow that are listed.
const CHAINS: usize = 2_000;

/// Types whose nodes are nearly as fast as each other, joined: each rate is the least of its nodes.
fn alike(types: &[Type]) -> Vec<Type> {
    let mut joined: Vec<Type> = Vec::new();
    for kind in types {
        let is_near = |other: &Type| {
            other.rates.len() == kind.rates.len()
                && other.rates.iter().zip(&kind.rates).all(|(a, b)| (a / b).max(b / a) <= ALIKE)
        };
        match joined.iter().position(is_near) {
            Some(index) => {
                let other = &mut joined[index];
                other.nodes.extend(&kind.nodes);
                other.rates.iter_mut().zip(&kind.rates).for_each(|(joint, rate)| *joint = joint.min(*rate));
            }
            None if joined.len() < TYPES => joined.push(kind.clone()),
            None => {}
        }
    }
    joined
}

/// Number of nodes of each type.
type Usage = Vec<u8>;

/// Every chain of up to [`LONGEST_CHAIN`] nodes that serves `flow`: how many nodes of each type it uses, with its layers.
fn chains(types: &[Type], flow: f64) -> Vec<(Usage, Vec<(usize, usize)>)> {
    let mut found: Vec<(Usage, Vec<(usize, usize)>)> = Vec::new();
    let mut begin = 0;
    for (kind, other) in types.iter().enumerate() {
        if longest(&other.rates, flow) > 0 {
            found.push(extended(&(vec![0; types.len()], Vec::new()), kind, longest(&other.rates, flow)));
        }
    }
    for _ in 1..LONGEST_CHAIN {
        let end = found.len();
        for index in begin..end {
            let first = found[index].1.last().map_or(0, |&(kind, _)| kind);
            for (kind, other) in types.iter().enumerate().skip(first) {
                let layers = longest(&other.rates, flow);
                let has_node = usize::from(found[index].0[kind]) < other.nodes.len();
                if layers > 0 && has_node && found.len() < CHAINS {
                    found.push(extended(&found[index].clone(), kind, layers));
                }
            }
        }
        begin = end;
    }
    found
}

fn extended(
    (usage, chain): &(Usage, Vec<(usize, usize)>),
    kind: usize,
    layers: usize,
) -> (Usage, Vec<(usize, usize)>) {
    let (mut usage, mut chain) = (usage.clone(), chain.clone());
    usage[kind] += 1;
    chain.push((kind, layers));
    (usage, chain)
}

fn layers(chain: &[(usize, usize)]) -> usize {
    chain.iter().map(|(_, layers)| layers).sum()
}

/// The longest block for every usage of nodes.
fn blocks(types: &[Type], flow: f64, stop: &Stop) -> FxHashMap<Usage, Block> {
    let mut best: FxHashMap<Usage, Block> = FxHashMap::default();
    let mut offer = |usage: Usage, block: Block| {
        let fits = usage.iter().zip(types).all(|(&used, kind)| usize::from(used) <= kind.nodes.len());
        if fits && best.get(&usage).is_none_or(|known| known.layers < block.layers) {
            best.insert(usage, block);
        }
    };
    let none = (vec![0; types.len()], Vec::new());
    for (kind, other) in types.iter().enumerate() {
        let layers = longest(&other.rates, flow);
        if layers > 0 {
            let (usage, chain) = extended(&none, kind, layers);
            offer(usage, Block { layers, chains: vec![chain] });
        }
    }
    let mut rates: Vec<f64> = types.iter().flat_map(|kind| kind.rates.iter().copied()).collect();
    rates.retain(|&rate| rate < flow && 2.0 * rate >= flow);
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for rate in rates {
        if stop.reason().is_some() {
            break;
        }
        let (wide, narrow) = (chains(types, rate), chains(types, flow - rate));
        for (usage, chain) in &wide {
            if stop.reason().is_some() {
                break;
            }
            for (other_usage, other) in &narrow {
                if chain.len() + other.len() > LARGEST_BLOCK {
                    continue;
                }
                let both = usage.iter().zip(other_usage).map(|(a, b)| a + b).collect();
                let layers = layers(chain).min(layers(other));
                offer(both, Block { layers, chains: vec![chain.clone(), other.clone()] });
            }
        }
    }
    triples(types, flow, &mut offer);
    best
}

/// Blocks of three parallel nodes with the same number of layers.
fn triples(types: &[Type], flow: f64, offer: &mut impl FnMut(Usage, Block)) {
    let deepest = types.iter().map(|kind| kind.rates.len()).max().unwrap_or(0);
    for layers in 1..=deepest {
        let able: Vec<usize> = (0..types.len()).filter(|&kind| types[kind].rates.len() >= layers).collect();
        for (index, &first) in able.iter().enumerate() {
            for (offset, &second) in able[index..].iter().enumerate() {
                for &third in &able[index + offset..] {
                    let kinds = [first, second, third];
                    if kinds.iter().map(|&kind| types[kind].rates[layers - 1]).sum::<f64>() >= flow {
                        let mut usage = vec![0; types.len()];
                        kinds.iter().for_each(|&kind| usage[kind] += 1);
                        let chains = kinds.iter().map(|&kind| vec![(kind, layers)]).collect();
                        offer(usage, Block { layers, chains });
                    }
                }
            }
        }
    }
}

/// A plan of blocks that serves `flow` if no link limits it; `None` if there is none, or time runs out.
pub(crate) fn plan(problem: &Problem, flow: f64, stop: &Stop) -> Option<Ranges> {
    let types = &alike(&problem.types);
    let mut blocks: Vec<(Usage, Block)> = blocks(types, flow, stop).into_iter().collect();
    // The order of a hash map must decide nothing.
    blocks.sort_by(|a, b| a.0.cmp(&b.0));
    let relaxed = knapsack(types, &blocks, None, stop)?;
    if relaxed.layers + 1e-6 < problem.layers as f64 {
        return None;
    }
    // Columns that lose least at the prices of the relaxation.
    let lost = |(usage, block): &(Usage, Block)| {
        let cost: f64 = usage.iter().zip(&relaxed.prices).map(|(&used, price)| f64::from(used) * price).sum();
        cost - block.layers as f64
    };
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by(|&a, &b| lost(&blocks[a]).total_cmp(&lost(&blocks[b])).then(a.cmp(&b)));
    order.truncate(COLUMNS);
    let kept: Vec<(Usage, Block)> = order.into_iter().map(|index| blocks[index].clone()).collect();
    let found = knapsack(types, &kept, Some(problem.layers), stop)?;
    if found.layers + 0.5 < problem.layers as f64 {
        return None;
    }
    let chosen = kept
        .iter()
        .zip(&found.counts)
        .flat_map(|((_, block), &count)| std::iter::repeat_n(block, count.round().max(0.0) as usize));
    Some(placed(problem, types, chosen.cloned().collect()))
}

struct Knapsack {
    layers: f64,
    counts: Vec<f64>,
    prices: Vec<f64>,
}

/// The most layers that blocks cover within the nodes of each type. Integer with a number of layers that is enough.
fn knapsack(
    types: &[Type],
    blocks: &[(Usage, Block)],
    enough: Option<usize>,
    stop: &Stop,
) -> Option<Knapsack> {
    let mut program = RowProblem::default();
    let columns: Vec<_> = blocks
        .iter()
        .map(|(_, block)| match enough {
            None => program.add_column(block.layers as f64, 0.0..),
            Some(_) => program.add_integer_column(block.layers as f64, 0.0..),
        })
        .collect();
    for (kind, other) in types.iter().enumerate() {
        let users = columns.iter().zip(blocks).map(|(&column, (usage, _))| (column, f64::from(usage[kind])));
        program.add_row(..=other.nodes.len() as f64, users.filter(|(_, used)| *used > 0.0));
    }
    let mut model = program.try_optimise(Sense::Maximise).ok()?;
    model.make_quiet();
    model.set_option("threads", 1);
    model.set_option("parallel", "off");
    model.set_option("mip_max_nodes", NODES);
    if let Some(left) = stop.remaining() {
        model.set_option("time_limit", left.as_secs_f64());
    }
    if let Some(layers) = enough {
        model.set_option("objective_target", layers as f64);
    }
    let solved = model.try_solve().ok()?;
    let is_known = matches!(
        solved.status(),
        HighsModelStatus::Optimal
            | HighsModelStatus::ReachedTimeLimit
            | HighsModelStatus::ReachedSolutionLimit
            | HighsModelStatus::ReachedIterationLimit
            | HighsModelStatus::ObjectiveTarget
    );
    if !is_known {
        return None;
    }
    let solution = solved.get_solution();
    let counts = solution.columns().to_vec();
    let layers = counts.iter().zip(blocks).map(|(count, (_, block))| count * block.layers as f64).sum();
    let prices = solution.dual_rows().iter().map(|price| price.abs()).collect();
    Some(Knapsack { layers, counts, prices })
}

/// Puts blocks one after another, on the nodes of their types in order, without layers beyond the last. Blocks with
/// the same types are neighbours.
fn placed(problem: &Problem, types: &[Type], mut blocks: Vec<Block>) -> Ranges {
    blocks.sort_by(|a, b| a.chains.cmp(&b.chains));
    let mut excess = blocks.iter().map(|block| block.layers).sum::<usize>().saturating_sub(problem.layers);
    let mut next = vec![0; types.len()];
    let mut ranges = vec![(0, 0); problem.nodes()];
    let mut first = 0;
    for block in blocks.iter().rev() {
        let length = block.layers - excess.min(block.layers);
        excess -= block.layers - length;
        for chain in &block.chains {
            let mut done = 0;
            for &(kind, layers) in chain {
                // A solution that the solver did not finish may use more nodes than there are.
                let Some(&node) = types[kind].nodes.get(next[kind]) else { continue };
                next[kind] += 1;
                let layers = layers.min(length - done).min(problem.rates[node].len());
                if layers > 0 {
                    ranges[node] = (first + done, layers);
                }
                done += layers;
            }
        }
        first += length;
    }
    ranges
}
