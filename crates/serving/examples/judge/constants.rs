//! The constants that are fitted, with their priors.

use stagewright_serving::Engine;

/// A constant of an engine: its field, and its prior.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) prior: f64,
    get: fn(&Engine) -> f64,
    set: fn(&mut Engine, f64),
}

macro_rules! constant {
    ($field:ident, $prior:expr) => {
        Constant {
            name: stringify!($field),
            prior: $prior,
            get: |engine| engine.$field,
            set: |engine, value| engine.$field = value,
        }
    };
}

/// Constants of devices and links, which all engines share. Priors are round figures that were chosen before the fit.
const SHARED: [Constant; 12] = [
    constant!(weight_bandwidth, 0.8),
    constant!(expert_bandwidth, 0.7),
    constant!(cache_bandwidth, 0.8),
    constant!(products, 0.6),
    constant!(expert_products, 0.35),
    constant!(attention, 0.4),
    constant!(link, 0.6),
    constant!(hop_s, 4e-6),
    constant!(prompt_share, 0.9),
    constant!(decoding, 2.0),
    constant!(decode_share, 0.9),
    constant!(handoff_s, 0.05),
];

/// Constants of each engine.
const OWN: [Constant; 5] = [
    constant!(launch_s, 4e-6),
    constant!(sequence_s, 5e-6),
    constant!(wait_steps, 3.0),
    constant!(wait_s, 0.03),
    constant!(burst, 0.05),
];

/// A value that is fitted: a constant, and the engine that it is of; `None` for all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unknown {
    pub(crate) constant: Constant,
    pub(crate) engine: Option<usize>,
}

/// All unknowns of some engines.
pub(crate) fn unknowns(engines: &[Engine]) -> Vec<Unknown> {
    let shared = SHARED.iter().map(|&constant| Unknown { constant, engine: None });
    let own = (0..engines.len())
        .flat_map(|engine| OWN.iter().map(move |&constant| Unknown { constant, engine: Some(engine) }));
    shared.chain(own).collect()
}

/// Values of the unknowns in engines.
pub(crate) fn values(engines: &[Engine]) -> Vec<f64> {
    let value = |unknown: Unknown| (unknown.constant.get)(&engines[unknown.engine.unwrap_or(0)]);
    unknowns(engines).into_iter().map(value).collect()
}

/// Engines with other values of the unknowns; shares are at most 1.
pub(crate) fn with_values(engines: &[Engine], values: &[f64]) -> Vec<Engine> {
    let mut changed = engines.to_vec();
    for (unknown, &value) in unknowns(engines).into_iter().zip(values) {
        for (index, engine) in changed.iter_mut().enumerate() {
            if unknown.engine.is_none_or(|own| own == index) {
                (unknown.constant.set)(engine, value);
            }
        }
    }
    changed
}
