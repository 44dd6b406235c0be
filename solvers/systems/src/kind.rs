//! The learned systems and their sizes.

use serde::{Deserialize, Serialize};
use stagewright_policy::learn::AdamConfig;

use crate::reading::Reading;
use crate::settings::Settings;

/// Bytes per number.
const BYTES: f64 = 4.0;
/// Numbers per parameter: its value, gradient, two moments, and temporaries of an optimiser step.
const PER_PARAMETER: f64 = 8.0;

/// Largest graph accepted, in multiples of the target of coarsening.
const MAX_TIMES: usize = 4;

/// A learned system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Zhou et al., "GDP: generalized device placement for dataflow graphs", 2019.
    Gdp,
    /// Addanki et al., "Placeto: learning generalizable device placement algorithms for distributed machine
    /// learning", NeurIPS 2019.
    Placeto,
    /// Duan et al., "A structure-aware framework for learning device placements on computation graphs", NeurIPS 2024.
    Hsdag,
    /// Mirhoseini et al., "A hierarchical model for device placement", ICLR 2018.
    Hdp,
}

impl Kind {
    /// All systems.
    pub const ALL: [Kind; 4] = [Kind::Gdp, Kind::Placeto, Kind::Hsdag, Kind::Hdp];

    /// Name of the system.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Gdp => "gdp",
            Kind::Placeto => "placeto",
            Kind::Hsdag => "hsdag",
            Kind::Hdp => "hdp",
        }
    }

    /// Approximate number of units to which larger graphs are coarsened. It is lower for Placeto, which simulates a
    /// placement for every unit in every episode; the Placeto paper groups operators as well.
    pub fn most_units(self) -> usize {
        match self {
            Kind::Placeto => 256,
            Kind::Gdp | Kind::Hsdag | Kind::Hdp => 2048,
        }
    }

    /// The reason to reject a graph with `units` units, if it is too large. Some graphs cannot be coarsened to
    /// [`Kind::most_units`], and a system reads up to four times as many.
    pub fn too_large(self, units: usize) -> Option<String> {
        let (name, aim) = (self.name(), self.most_units());
        let why = || {
            format!(
                "the graph cannot be coarsened to fewer than {units} units, but `{name}` asks for {aim} and reads at \
                 most {}",
                MAX_TIMES * aim
            )
        };
        (units > MAX_TIMES * aim).then(why)
    }

    /// Approximate bytes of an episode on a graph, with or without learning. Only memory that is held at the same time
    /// is counted. For learning, the estimates came within a third of measurements on graphs of 178 to 2048 units and 2
    /// to 8 devices; without learning, they were up to three times too high, and never more than 5 MB too low.
    /// O(units + edges).
    pub fn bytes(self, settings: &Settings, reading: &Reading<'_, '_>, learns: bool) -> f64 {
        let kept = match self {
            // A single forward pass keeps its numbers in either case.
            Kind::Gdp => crate::gdp::kept(settings, reading.units()),
            Kind::Placeto => crate::placeto::kept(settings, reading.units(), learns),
            Kind::Hsdag => crate::hsdag::kept(settings, reading, learns),
            Kind::Hdp => crate::hdp::kept(settings, learns),
        };
        BYTES * (PER_PARAMETER * settings.parameters(self) + kept)
    }

    /// Optimiser settings of the paper or of the authors' program. The learning rates of GDP and HDP are chosen here,
    /// as is the gradient clipping of GDP and HSDAG at a norm of 1. Placeto's learning rate falls to a tenth.
    pub fn adam(self) -> AdamConfig {
        let plain = AdamConfig {
            learning_rate: 1e-3,
            warmup: 1,
            final_lr_fraction: 1.0,
            weight_decay: 0.0,
            max_grad_norm: 1.0,
        };
        match self {
            Kind::Placeto => AdamConfig { final_lr_fraction: 0.1, max_grad_norm: 1.25, ..plain },
            Kind::Gdp | Kind::Hsdag | Kind::Hdp => plain,
        }
    }

    /// Sizes from the paper or from the authors' program; GDP's are those of its successor.
    pub fn settings(self, devices: usize) -> Settings {
        let (width, layers) = match self {
            Kind::Gdp => (128, 3),
            Kind::Placeto => (0, 8),
            Kind::Hsdag => (128, 2),
            Kind::Hdp => (512, 1),
        };
        Settings { devices, width, layers }
    }
}

impl Settings {
    /// Upper limit on every size; larger sizes are mistakes.
    const MOST: usize = 1024;
    /// Largest number of parameters; more are mistakes.
    const MAX_PARAMETERS: f64 = (1 << 28) as f64;

    /// Approximate number of parameters: those of the matrices whose shape depends on the settings.
    fn parameters(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Gdp => crate::gdp::parameters(self),
            Kind::Placeto => crate::placeto::parameters(self),
            Kind::Hsdag => crate::hsdag::parameters(self),
            Kind::Hdp => crate::hdp::parameters(self),
        }
    }

    /// Describes an invalid size, if any.
    pub fn mistake(&self, kind: Kind) -> Option<String> {
        let mut sizes = vec![("devices", self.devices, 1), ("layers", self.layers, 1)];
        if kind != Kind::Placeto {
            sizes.push(("width", self.width, 8));
        }
        if let Some((name, size, least)) =
            sizes.iter().find(|(_, size, least)| !(*least..=Settings::MOST).contains(size))
        {
            return Some(format!("`{name}` is {size}, expected {least} to {}", Settings::MOST));
        }
        if kind == Kind::Placeto && self.width != 0 {
            return Some("`width` of placeto is that of its input: leave it out".into());
        }
        if kind == Kind::Hdp && self.layers != 1 {
            return Some(format!("`layers` is {}, but hdp has one layer", self.layers));
        }
        if self.parameters(kind) > Settings::MAX_PARAMETERS {
            let what = match kind {
                Kind::Placeto => format!("a network for {} devices", self.devices),
                _ => format!("a network of {} layers of width {}", self.layers, self.width),
            };
            return Some(format!("{what} is too large"));
        }
        let parts = match kind {
            Kind::Gdp => crate::gdp::HEADS,
            // Half of the width for each direction.
            Kind::Hdp => 2,
            Kind::Placeto | Kind::Hsdag => 1,
        };
        (!self.width.is_multiple_of(parts))
            .then(|| format!("`width` is {}, expected a multiple of {parts}", self.width))
    }
}
