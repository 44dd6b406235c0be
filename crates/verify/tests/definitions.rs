//! Random placements against naive implementations of the definitions.

use crate::documents;

use std::collections::BTreeSet;

use documents::{Case, placement, read};
use proptest::prelude::*;
use serde_json::{Value, json};
use stagewright_core::document::Split;

/// A random acyclic graph, whose tensors each have a producer, later consumers and a size, with a placement.
#[derive(Debug, Clone)]
struct Random {
    seconds: Vec<u8>,
    tensors: Vec<(usize, BTreeSet<usize>, u8)>,
    device_of: Vec<usize>,
}

const DEVICES: usize = 4;

fn random() -> impl Strategy<Value = Random> {
    (2usize..9).prop_flat_map(|n| {
        let tensor = (0..n - 1).prop_flat_map(move |from| {
            (Just(from), prop::collection::btree_set(from + 1..n, 1..4), any::<u8>())
        });
        (
            prop::collection::vec(any::<u8>(), n),
            prop::collection::vec(tensor, 0..10),
            prop::collection::vec(0..DEVICES, n),
        )
            .prop_map(|(seconds, tensors, device_of)| Random { seconds, tensors, device_of })
    })
}

impl Random {
    fn case(&self, split: Split) -> Case {
        let name = |operator: usize| format!("o{operator}");
        let operators: Vec<Value> = self
            .seconds
            .iter()
            .enumerate()
            .map(|(operator, &seconds)| json!({"name": name(operator), "seconds": {"gpu": f64::from(seconds)}}))
            .collect();
        let tensors: Vec<Value> = self
            .tensors
            .iter()
            .map(|(from, to, bytes)| {
                let to: Vec<String> = to.iter().map(|&operator| name(operator)).collect();
                json!({"producer": name(*from), "consumers": to, "bytes": f64::from(*bytes)})
            })
            .collect();
        let mut plan = placement(&[]);
        for device in 0..DEVICES {
            let on = |&operator: &usize| self.device_of[operator] == device;
            let ops: Vec<String> = (0..self.seconds.len()).filter(on).map(name).collect();
            plan.devices.push(read(json!({
                "name": format!("acc{device}"), "kind": "acc", "stage": null, "replicas": 1, "calls": null,
                "load_s": 0.0, "compute_s": 0.0, "communication_s": 0.0, "memory_bytes": 0.0, "ops": ops})));
        }
        plan.objective.split = split;
        Case {
            graph: read(json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors})),
            cluster: read(json!({"schema": "stagewright.cluster/1", "kinds": [
                {"name": "acc", "class": "gpu", "count": DEVICES, "link": {"bandwidth": 1.0}}]})),
            pins: None,
            plan,
        }
    }

    /// Σ seconds + Σ bytes over the tensors with 0 < |pins ∩ S| < |pins|.
    fn load(&self, device: usize) -> f64 {
        let inside = |&operator: &usize| self.device_of[operator] == device;
        let operators = (0..self.seconds.len()).filter(inside);
        let compute: f64 = operators.map(|operator| f64::from(self.seconds[operator])).sum();
        let cut = self.tensors.iter().filter(|(from, to, _)| {
            let mut pins = to.clone();
            pins.insert(*from);
            let inside = pins.iter().filter(|pin| inside(pin)).count();
            0 < inside && inside < pins.len()
        });
        compute + cut.map(|&(_, _, bytes)| f64::from(bytes)).sum::<f64>()
    }

    fn arcs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.tensors.iter().flat_map(|(from, to, _)| to.iter().map(|&to| (*from, to)))
    }

    /// Whether no path between two operators of a device contains an operator of another device.
    fn convex(&self) -> bool {
        let n = self.seconds.len();
        let mut reaches = vec![vec![false; n]; n];
        self.arcs().for_each(|(from, to)| reaches[from][to] = true);
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    reaches[from][to] |= reaches[from][via] && reaches[via][to];
                }
            }
        }
        let d = &self.device_of;
        (0..n).all(|u| {
            (0..n).all(|v| (0..n).all(|w| !(reaches[u][v] && reaches[v][w] && d[u] == d[w] && d[u] != d[v])))
        })
    }

    /// Whether every arc goes forward in some order of the devices.
    fn contiguous(&self) -> bool {
        let orders = (0..DEVICES.pow(DEVICES as u32)).map(|code| {
            let place = |device: usize| code / DEVICES.pow(device as u32) % DEVICES;
            [place(0), place(1), place(2), place(3)]
        });
        orders.filter(|places| BTreeSet::from(*places).len() == DEVICES).any(|places| {
            self.arcs().all(|(from, to)| places[self.device_of[from]] <= places[self.device_of[to]])
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loads_are_those_of_the_definition(random in random()) {
        let report = random.case(Split::Free).report();
        prop_assert!(report.holds());
        let loads: Vec<f64> = report.devices.iter().map(|device| device.load_s).collect();
        let expected: Vec<f64> = (0..DEVICES).map(|device| random.load(device)).collect();
        prop_assert_eq!(report.value_s, expected.iter().copied().reduce(f64::max));
        prop_assert_eq!(loads, expected);
    }

    #[test]
    fn the_convex_rule_is_that_of_the_definition(random in random()) {
        prop_assert_eq!(random.case(Split::Convex).report().holds(), random.convex());
    }

    #[test]
    fn the_contiguous_rule_is_that_of_the_definition(random in random()) {
        prop_assert_eq!(random.case(Split::Contiguous).report().holds(), random.contiguous());
    }
}
