//! The prices of a certificate as integers, by the position of each class in its order.
//!
//! The proof is sound for any prices, so they are scaled to a sum of [`WORTH`] and rounded to integers first; later
//! steps add no rounding error. The slack, by which the class prices exceed the device prices, is then divided among
//! the devices: higher device prices are easier to satisfy.

use std::collections::BTreeMap;

use crate::read::{Pools, Problem};

/// Sum of all class prices, up to rounding.
pub(super) const WORTH: u64 = 1 << 50;
/// Minimum threshold: loads far below it still have full precision.
const LEAST_THRESHOLD: f64 = 1e-280;

/// Fields of a certificate.
pub(in super::super) struct Evidence<'a> {
    pub(in super::super) threshold: f64,
    pub(in super::super) prices: &'a BTreeMap<String, f64>,
    pub(in super::super) devices: &'a BTreeMap<String, f64>,
    pub(in super::super) order: &'a [String],
}

/// Prices that can prove a bound: the class prices exceed the device prices.
pub(super) struct Dual {
    pub(super) threshold: f64,
    /// Class at each position of the order.
    pub(super) order: Vec<usize>,
    /// Position of each class.
    pub(super) place: Vec<usize>,
    /// Price of the class at each position.
    pub(super) worth: Vec<u64>,
    /// Price of one device of each pool, including its share of the slack.
    pub(super) devices: Vec<u64>,
}

impl Dual {
    /// Reads a certificate, or returns its first error. O((classes + devices given) log).
    pub(super) fn read(problem: &Problem, pools: &Pools, evidence: &Evidence<'_>) -> Result<Dual, String> {
        let threshold = evidence.threshold;
        if !(threshold.is_finite() && threshold >= LEAST_THRESHOLD) {
            return Err(format!("its threshold is {threshold:?}, but must be finite and positive"));
        }
        let (order, place) = read_order(problem, evidence.order)?;
        let mut prices = vec![0.0; order.len()];
        for (name, &given) in evidence.prices {
            let place = place[class_of(problem, name)?];
            read_price(&mut prices[place], given, "class", name)?;
        }
        let mut devices = vec![0.0; pools.list().len()];
        for (name, &given) in evidence.devices {
            let Some((kind, number)) = problem.cluster.find_device(name) else {
                return Err(format!("it prices device {name:?}, which the cluster lacks"));
            };
            read_price(&mut devices[pools.find(kind, number)], given, "pool", name)?;
        }
        let sum: f64 = prices.iter().sum();
        if !(sum.is_finite() && sum > 0.0) {
            return Err(format!("the prices of its classes sum to {sum:?}"));
        }
        let whole = |price: f64| ((price / sum * WORTH as f64) as u64).min(WORTH);
        let worth: Vec<u64> = prices.into_iter().map(whole).collect();
        let devices: Vec<u64> = devices.into_iter().map(whole).collect();
        let counts = || pools.list().iter().map(|pool| u128::from(pool.count));
        let held: u128 = counts().zip(&devices).map(|(count, &price)| count * u128::from(price)).sum();
        let all: u128 = worth.iter().map(|&worth| u128::from(worth)).sum();
        if all <= held {
            return Err("the prices of its devices reach those of all classes".to_owned());
        }
        // The device prices still sum to at least one less than the class prices, whatever the remainder of the
        // division.
        let share = (all - held - 1) / counts().sum::<u128>().max(1);
        let devices = devices.into_iter().map(|price| price + share as u64).collect();
        Ok(Dual { threshold, order, place, worth, devices })
    }
}

/// Returns the classes in order, and the position of each.
fn read_order(problem: &Problem, names: &[String]) -> Result<(Vec<usize>, Vec<usize>), String> {
    const NOWHERE: usize = usize::MAX;
    let mut place = vec![NOWHERE; problem.graph.classes.len()];
    let mut order = Vec::with_capacity(place.len());
    for name in names {
        let class = class_of(problem, name)?;
        if place[class] != NOWHERE {
            return Err(format!("its order lists the class of operator {name:?} twice"));
        }
        place[class] = order.len();
        order.push(class);
    }
    if let Some(missing) = place.iter().position(|&place| place == NOWHERE) {
        let name = &problem.graph.operators[problem.graph.classes[missing][0]].name;
        return Err(format!("its order lacks the class of operator {name:?}"));
    }
    Ok((order, place))
}

fn class_of(problem: &Problem, name: &str) -> Result<usize, String> {
    let operator = problem.graph.find(name);
    let operator = operator.ok_or_else(|| format!("it names operator {name:?}, which the graph lacks"))?;
    Ok(problem.graph.class_of[operator])
}

/// Stores a price; a nonzero price may be given only once.
fn read_price(price: &mut f64, given: f64, what: &str, name: &str) -> Result<(), String> {
    if !(given.is_finite() && given >= 0.0) {
        return Err(format!("the price of {name:?} is {given:?}"));
    }
    if *price > 0.0 {
        return Err(format!("it prices the {what} of {name:?} twice"));
    }
    *price = given;
    Ok(())
}
