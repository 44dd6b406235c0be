//! Replicas that run already: the checks of a start.

use std::collections::BTreeMap;

use stagewright_core::document::{RunningReplicaDocument, ServingStartDocument};
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

/// The largest price of 10⁹ bytes.
const HIGHEST_PRICE: f64 = 1e12;

/// The largest number of different replicas that run.
const LARGEST_START: usize = 10_000;

/// Checks the numbers of a start, and that no replica is in it twice.
///
/// # Errors
/// If a number is out of its range, or a replica repeats another (L024).
pub(super) fn check(label: &str, start: &ServingStartDocument) -> Result<()> {
    let wrong = |path: &str, message: String, help: &str| {
        Err(InputError::at_path(L::L024, label, format!("start.{path}"), message, help))
    };
    let price = start.price_per_gb;
    if !(0.0..=HIGHEST_PRICE).contains(&price) {
        let help = "give a number from 0 on, in the unit of the goal";
        return wrong("price_per_gb", format!("the price of moved weights is {price}"), help);
    }
    if start.replicas.len() > LARGEST_START {
        let message = format!("{} different replicas run", start.replicas.len());
        return wrong("replicas", message, "give at most 10,000");
    }
    let mut known: BTreeMap<RunningReplicaDocument, usize> = BTreeMap::new();
    for (index, replica) in start.replicas.iter().enumerate() {
        let path = format!("replicas[{index}]");
        if replica.count == 0 {
            return wrong(&path, "there are 0 of these replicas".into(), "leave it out");
        }
        if let Some(other) = known.insert(RunningReplicaDocument { count: 0, ..replica.clone() }, index) {
            let message = format!("it repeats replicas[{other}]");
            return wrong(&path, message, "add the numbers of equal replicas");
        }
    }
    Ok(())
}
