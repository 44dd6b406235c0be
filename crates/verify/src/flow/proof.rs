//! Certificates that no plan serves more than a flow.

use stagewright_core::document::LayerCertificateDocument;

use super::Network;
use super::cover::cheapest;

/// Share of layers and nodes that rounding may change, and of the sum of the prices below which a price is none.
const ROUNDING: f64 = 1e-11;

/// By how much, relatively, covers must cost more than the sum of the prices, so that rounding decides nothing.
const MARGIN: f64 = 1e-9;

/// The flow that no plan exceeds by a certificate; `None` if a search for covers gives up.
pub(super) fn proved(
    network: &Network<'_>,
    max_hops: Option<u32>,
    certificate: &LayerCertificateDocument,
) -> Result<Option<f64>, String> {
    match certificate {
        LayerCertificateDocument::Prices { flow, prices } => {
            let (members, total) = members(network, *flow, prices)?;
            let Some(cost) = cheapest(&members, *flow, 1) else { return Ok(None) };
            costs_too_much(network.layers as f64 * cost, total, *flow)
        }
        LayerCertificateDocument::Chain { flow, prices } => {
            let (members, total) = members(network, *flow, prices)?;
            let longest: Vec<usize> = network.rates.iter().map(|rates| longest(rates, *flow)).collect();
            let alone = longest.iter().zip(prices).filter(|(longest, _)| **longest > 0);
            let alone = alone.map(|(&longest, price)| price / longest as f64).fold(f64::INFINITY, f64::min);
            if let Some(layers) = largest_group(network, *flow, &longest) {
                return Err(format!("nodes that are linked for a chain hold {layers} layers"));
            }
            let Some(several) = cheapest(&members, *flow, 2) else { return Ok(None) };
            costs_too_much((network.layers as f64 - 1.0) * alone.min(several) + several, total, *flow)
        }
        LayerCertificateDocument::Hops { flow, price } => {
            let (flow, price) = (*flow, *price);
            if !(flow >= 0.0 && flow.is_finite() && price >= 0.0 && price.is_finite()) {
                return Err("its figures are out of range".into());
            }
            let hops = match (price, max_hops) {
                (0.0, _) => 0.0,
                (_, Some(hops)) => f64::from(hops),
                (_, None) => return Err("hops have a price, but no limit".into()),
            };
            let work = |rates: &[f64]| {
                let share = |rate: f64| if rate >= flow { 1.0 } else { rate / flow };
                let work =
                    rates.iter().zip(1..).map(|(&rate, layers)| (f64::from(layers) - price) * share(rate));
                work.fold(0.0, f64::max)
            };
            let work: f64 = network.rates.iter().map(|rates| work(rates)).sum();
            let needed = network.layers as f64 - price * hops;
            match work + ROUNDING * (network.layers + network.nodes()) as f64 * (1.0 + price) < needed {
                true => Ok(Some(flow)),
                false => Err(format!("nodes hold {work} of {needed} layers")),
            }
        }
    }
}

fn costs_too_much(cost: f64, total: f64, flow: f64) -> Result<Option<f64>, String> {
    match cost > total * (1.0 + MARGIN) {
        true => Ok(Some(flow)),
        false => Err(format!("covers of all layers cost {cost}, and all nodes {total}")),
    }
}

/// Rate and cost of every node with every number of layers, and the sum of the prices.
fn members(network: &Network<'_>, flow: f64, prices: &[f64]) -> Result<(Vec<(f64, f64)>, f64), String> {
    if !(flow >= 0.0 && flow.is_finite()) {
        return Err(format!("it is for a flow of {flow}"));
    }
    if prices.len() != network.nodes() {
        return Err(format!("it has {} prices for {} nodes", prices.len(), network.nodes()));
    }
    if let Some(price) = prices.iter().find(|&&price| !(0.0..=1e9).contains(&price)) {
        return Err(format!("a price is {price}"));
    }
    let total: f64 = prices.iter().sum();
    // A price of few digits could be rounded to another when it is divided.
    if let Some(price) = prices.iter().find(|&&price| price > 0.0 && price < ROUNDING * total) {
        return Err(format!("a price of {price} is negligible beside {total}"));
    }
    if total < ROUNDING && total > 0.0 {
        return Err(format!("its prices add up to {total}"));
    }
    let mut members = Vec::new();
    for (rates, &price) in network.rates.iter().zip(prices) {
        members.extend(rates.iter().zip(1..).map(|(&rate, layers)| (rate, price / f64::from(layers))));
    }
    Ok((members, total))
}

/// Largest number of layers with which a node serves more than `flow`; 0 if none.
fn longest(rates: &[f64], flow: f64) -> usize {
    (1..=rates.len()).rev().find(|&layers| rates[layers - 1] > flow).unwrap_or(0)
}

/// The layers of a group of nodes that links of more than `flow` connect, in any direction, if they can hold all layers.
fn largest_group(network: &Network<'_>, flow: f64, longest: &[usize]) -> Option<usize> {
    let count = network.nodes();
    let mut group: Vec<usize> = (0..count).collect();
    fn root(group: &mut [usize], mut node: usize) -> usize {
        while group[node] != node {
            group[node] = group[group[node]];
            node = group[node];
        }
        node
    }
    for from in 0..count {
        for to in 0..count {
            if network.links[from * count + to] > flow && longest[from] > 0 && longest[to] > 0 {
                let (first, second) = (root(&mut group, from), root(&mut group, to));
                group[first] = second;
            }
        }
    }
    let mut layers = vec![0; count];
    for (node, &longest) in longest.iter().enumerate() {
        layers[root(&mut group, node)] += longest;
    }
    layers.into_iter().max().filter(|&layers| layers >= network.layers)
}
