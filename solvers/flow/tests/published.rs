//! Clusters of the kinds that Helix (ASPLOS 2025) serves Llama 70B on, with rates of its profiles.

use stagewright_core::document::{FlowEnd, FlowNodeDocument, FlowOutside, LayerFlowDocument};
use stagewright_core::solver::Status;
use stagewright_flow::Request;

use crate::agreement::{answered, answered_with_seed};

/// Tokens per second of an A100, an L4 and a T4 with one layer of Llama 70B, with two, and so on, by Helix's profiles.
const RATES: [&[f64]; 3] = [
    &[
        23833.869866324,
        11384.254665863,
        7201.412420878,
        5264.623373854,
        4096.654503857,
        3124.143078026,
        2595.679285401,
        2045.641047336,
        1754.381889565,
        1392.634820725,
        1212.17684546,
        952.107398485,
    ],
    &[
        7557.863040103,
        3625.714747409,
        2171.87816927,
        1476.084625195,
        1017.572796524,
        747.785377262,
        531.702584552,
    ],
    &[5709.207939643, 2434.367182877, 1347.866524238, 757.853185723],
];

/// Regions with numbers of A100, L4 and T4, and links of 10 Gb/s within a region and of `across` tokens per second between two.
fn cluster(regions: &[[usize; 3]], across: f64) -> LayerFlowDocument {
    let mut nodes = Vec::new();
    let mut region_of = Vec::new();
    for (region, counts) in regions.iter().enumerate() {
        for (rates, &count) in RATES.iter().zip(counts) {
            for _ in 0..count {
                nodes.push(FlowNodeDocument { name: None, throughput: rates.to_vec() });
                region_of.push(region);
            }
        }
    }
    let mut links = Vec::new();
    for node in 0..nodes.len() {
        let end = FlowEnd::Node(node as u32);
        links.push((FlowEnd::Outside(FlowOutside::Source), end, 5e8));
        links.push((end, FlowEnd::Outside(FlowOutside::Sink), 5e8));
        for other in (0..nodes.len()).filter(|&other| other != node) {
            let rate = if region_of[node] == region_of[other] { 61035.15625 } else { across };
            links.push((end, FlowEnd::Node(other as u32), rate));
        }
    }
    LayerFlowDocument { schema: None, name: "cluster".into(), layers: 80, nodes, links }
}

/// 4 A100, 8 L4 and 12 T4 hold exactly 80 layers at the rate of an A100 with eight, so the best plan is a chain.
#[test]
fn a_cluster_in_one_place_is_proved() {
    let (_, solution, report) = answered(&cluster(&[[4, 8, 12]], 0.0), &Request::default());
    assert_eq!((solution.status, report.value), (Status::Optimal, Some(2045.641047336)));
    assert_eq!(report.hops, Some(24));
}

/// Links of 100 Mb/s between three regions: a chain would have to cross them, and tokens that cross several take more nodes.
#[test]
fn a_cluster_in_three_places_is_proved() {
    let document = cluster(&[[4, 0, 0], [0, 2, 8], [0, 6, 4]], 610.3515625);
    for seed in 0..3 {
        let (_, solution, report) = answered_with_seed(&document, &Request::default(), seed);
        assert_eq!((solution.status, report.value), (Status::Optimal, Some(1754.381889565)), "seed {seed}");
        assert_eq!(solution.bound.source(), "chain");
    }
}

/// With fewer hops, tokens leave the slow nodes aside.
#[test]
fn a_limit_of_hops_costs_throughput() {
    let document = cluster(&[[4, 8, 12]], 0.0);
    let values: Vec<f64> = [24, 16, 12]
        .map(|hops| {
            let (_, solution, report) = answered(&document, &Request { max_hops: Some(hops) });
            assert!(report.hops.is_some_and(|found| found <= hops), "{:?} of {hops}", report.hops);
            let value = report.value.expect("a plan");
            assert!(value >= 0.8 * solution.bound.flow, "{hops}: {value} of {}", solution.bound.flow);
            value
        })
        .to_vec();
    assert!(values[0] > values[1] && values[1] > values[2], "{values:?}");
}

/// Tokens that pass few nodes each may take paths that together look longer, so only links that carry tokens count.
#[test]
fn links_that_carry_nothing_are_no_hops() {
    let node = |throughput: &[f64]| FlowNodeDocument { name: None, throughput: throughput.to_vec() };
    let nodes = vec![
        node(&[10.0]),
        node(&[10.0]),
        node(&[1.0, 10.0]),
        node(&[1.0, 10.0]),
        node(&[10.0]),
        node(&[10.0]),
    ];
    let mut links: Vec<(FlowEnd, FlowEnd, f64)> = [(0, 1), (1, 3), (2, 4), (4, 5)]
        .map(|(from, to)| (FlowEnd::Node(from), FlowEnd::Node(to), 1e15))
        .to_vec();
    links.extend([0, 2].map(|node| (FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(node), 1e15)));
    links.extend([3, 5].map(|node| (FlowEnd::Node(node), FlowEnd::Outside(FlowOutside::Sink), 1e15)));
    let document = LayerFlowDocument { schema: None, name: "two chains".into(), layers: 4, nodes, links };
    let (_, solution, report) = answered(&document, &Request { max_hops: Some(3) });
    assert_eq!((solution.status, report.value, report.hops), (Status::Optimal, Some(20.0), Some(3)));
}
