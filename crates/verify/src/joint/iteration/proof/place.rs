//! Costs of layers on a kind of devices, in a combination of degrees.

use stagewright_core::tolerance;

use super::layers::{Class, Layers};
use crate::joint::iteration::collective::point_to_point;
use crate::joint::iteration::configuration::Configuration;
use crate::joint::iteration::devices::{self, Devices};
use crate::joint::iteration::stage::{Costs, Stage};

/// Largest figure of a layer in a proof; the seconds and bytes of real layers are far smaller.
const MOST: f64 = 1e200;

/// A layer in a configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    /// Seconds of the backward pass of a microbatch.
    pub(super) backward: f64,
    /// Seconds of the backward pass of a microbatch together with separate weight gradients.
    pub(super) both: f64,
    /// Bytes of a microbatch that are kept until the backward pass, and until the weight gradients.
    pub(super) activations: [f64; 2],
    pub(super) workspace: f64,
}

/// Costs of a class of layers.
#[derive(Debug)]
pub(super) struct Priced {
    pub(super) forward: f64,
    pub(super) update: f64,
    pub(super) state: f64,
    /// Bytes in the host's memory.
    pub(super) host: f64,
    /// Configurations that the class may have. None has a longer backward pass than a later one, both alone and together
    /// with its weight gradients.
    pub(super) settings: Vec<Setting>,
}

impl Priced {
    /// Costs of a class on a kind, or on two; `None` if the class cannot run there. If rounding makes a configuration
    /// faster than one before it, the earlier one takes its lower figures.
    fn new(class: &Class, sides: &[(usize, Stage)], configurations: &[Configuration]) -> Option<Self> {
        let configurations = if class.layer.is_numbered { configurations } else { &[Configuration::None] };
        let mut priced = Priced { forward: 0.0, update: 0.0, state: 0.0, host: 0.0, settings: Vec::new() };
        let has_host = sides.iter().all(|(_, stage)| stage.has_host());
        for &configuration in configurations {
            if configuration == Configuration::Offload && !has_host {
                continue;
            }
            let costs = sides.iter().map(|(kind, stage)| {
                stage.costs(class.layer, class.work[*kind].as_ref()?, configuration).ok()
            });
            let costs = costs.collect::<Option<Vec<_>>>()?.into_iter().reduce(Costs::beside)?;
            let [forward, backward, weight] = costs.passes;
            // Figures that are the same in all configurations.
            (priced.forward, priced.update) = (forward, costs.update);
            (priced.state, priced.host) = (costs.state, costs.host);
            priced.settings.push(Setting {
                backward,
                both: backward + weight,
                activations: costs.activations,
                workspace: costs.workspace,
            });
        }
        // The first is the fastest. Whether recomputing or transfers to the host take longer depends on the layer.
        if let Some((_, others)) = priced.settings.split_first_mut() {
            others.sort_by(|left, right| left.both.total_cmp(&right.both));
        }
        let mut least = [f64::INFINITY; 2];
        for setting in priced.settings.iter_mut().rev() {
            for (seconds, least) in [&mut setting.backward, &mut setting.both].into_iter().zip(&mut least) {
                // A figure that is not a number stays, since the proof then ends.
                if *least < *seconds {
                    *seconds = *least;
                }
                *least = *seconds;
            }
        }
        (!priced.settings.is_empty()).then_some(priced)
    }

    /// Whether sums of the class's figures over layers and microbatches are finite.
    fn is_moderate(&self) -> bool {
        let of_settings = self.settings.iter().flat_map(|setting| {
            let Setting { backward, both, activations: [first, second], workspace } = *setting;
            [backward, both, first, second, workspace]
        });
        let mut all = [self.forward, self.update, self.state, self.host].into_iter().chain(of_settings);
        all.all(|figure| figure <= MOST)
    }

    /// Minimum seconds of the forward and the backward pass of a microbatch.
    pub(super) fn passes(&self) -> f64 {
        self.forward + self.settings[0].backward
    }

    /// Seconds of the weight gradients of a microbatch in the fastest configuration.
    pub(super) fn weight(&self) -> f64 {
        self.settings[0].both - self.settings[0].backward
    }

    /// Minimum bytes of a microbatch that are kept.
    pub(super) fn least_kept(&self) -> f64 {
        let kept = self.settings.iter().map(|setting| setting.activations.iter().sum());
        kept.fold(f64::INFINITY, f64::min)
    }
}

/// A kind of devices with a degree of tensor parallelism, or the two kinds of stages with devices of both.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// Devices of a stage, by kind.
    devices: Vec<Devices<'a>>,
    /// Share of a tensor's bytes that is transferred between stages.
    share: f64,
    /// Maximum number of stages.
    pub(super) room: usize,
    /// Bytes that a stage may use.
    pub(super) limit: f64,
    /// Bytes of the host's memory that a stage may use.
    pub(super) host_limit: f64,
    /// Costs by class; `None` if the class cannot run here.
    pub(super) classes: Vec<Option<Priced>>,
}

/// A limit of bytes with twice the tolerance of plans, since sums differ by rounding.
fn with_tolerance(limit: f64) -> f64 {
    limit * (1.0 + 2.0 * tolerance::MEMORY_RELATIVE)
}

/// Seconds of transfers by boundary: in the forward pass of the stage that starts there, and in the backward pass of
/// the stage that ends there.
pub(super) type Transfers = Vec<[f64; 2]>;

impl<'a> Place<'a> {
    /// Prices the layers on `devices` of one kind or two; `sides` has the index of each kind and the stage on it.
    /// `None` if there are too few devices for a stage.
    pub(super) fn new(
        layers: &Layers,
        devices: Vec<Devices<'a>>,
        sides: &[(usize, Stage)],
        configurations: &[Configuration],
        is_version_2: bool,
    ) -> Option<Self> {
        let least = |limits: &mut dyn Iterator<Item = Option<f64>>| {
            limits.flatten().map(with_tolerance).fold(f64::INFINITY, f64::min)
        };
        let limit = least(&mut devices.iter().map(|devices| devices.usable_memory(is_version_2)));
        let host_limit = least(&mut sides.iter().map(|(_, stage)| stage.home.memory()));
        let (_, first) = sides.first()?;
        let share = first.share();
        let mut place = Place { devices, share, room: 0, limit, host_limit, classes: Vec::new() };
        let room = place.room_beside(&mut std::iter::empty());
        place.room = usize::try_from(room).unwrap_or(usize::MAX).min(layers.len());
        if place.room == 0 {
            return None;
        }
        let priced = |class| Priced::new(class, sides, configurations);
        place.classes = layers.classes.iter().map(priced).collect();
        Some(place)
    }

    /// Number of stages for which there are devices beside numbers of stages at other places. A stage on two kinds has
    /// at least one copy on each, so at most all but one; the numbers of copies on each are free otherwise.
    fn room_beside(&self, others: &mut dyn Iterator<Item = (&Place, usize)>) -> u64 {
        let mut left: Vec<u64> =
            self.devices.iter().map(|devices| u64::from(devices.kind.document.count)).collect();
        for (other, stages) in others {
            for (devices, left) in self.devices.iter().zip(&mut left) {
                let of_kind = other.devices.iter().filter(|other| std::ptr::eq(other.kind, devices.kind));
                let used = of_kind.map(|other| other.of_stage().saturating_mul(stages as u64));
                *left = used.fold(*left, u64::saturating_sub);
            }
        }
        match (&self.devices[..], &left[..]) {
            ([devices], [left]) => left / devices.of_stage().max(1),
            ([devices, _], &[first, second]) => {
                let of_copy = devices.of_copy().max(1);
                let [first, second] = [first, second].map(|left| left / of_copy);
                match devices.of_stage() / of_copy {
                    0 | 1 => 0,
                    copies => first.min(second).min((first + second) / copies),
                }
            }
            _ => 0,
        }
    }

    /// Whether there are devices for numbers of stages at places, none of which exceeds the room of its place.
    pub(super) fn have_devices<'p>(stages: impl Iterator<Item = (&'p Place<'p>, usize)> + Clone) -> bool {
        let is_mixed = |place: &Place| place.devices.len() > 1;
        let mut mixed = stages.clone().filter(|&(place, count)| is_mixed(place) && count > 0);
        mixed.all(|(place, count)| {
            let mut others = stages.clone().filter(|&(other, _)| !is_mixed(other));
            count as u64 <= place.room_beside(&mut others)
        })
    }

    /// Whether sums of the figures of layers are finite.
    pub(super) fn is_moderate(&self) -> bool {
        self.classes.iter().flatten().all(Priced::is_moderate)
    }

    /// Maximum number of devices of a pipeline in one server, which has devices of one kind.
    pub(super) fn in_server(&self) -> usize {
        match &self.devices[..] {
            [devices] => {
                usize::try_from(devices.of_server() / devices.of_stage().max(1)).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// Transfers in a pipeline with this number of devices; `None` stands for a pipeline on several kinds. Infinite
    /// without a link.
    pub(super) fn transfers(&self, layers: &Layers, devices: Option<usize>) -> Transfers {
        let span = match (&self.devices[..], devices) {
            ([of_stage], Some(devices)) => of_stage.of_stage().saturating_mul(devices as u64),
            _ => u64::MAX,
        };
        let factor = self.devices[0].transfers();
        let link = devices::transfer_link(&self.devices, span).ok();
        let crossings = layers.crossings.iter().map(|crossing| {
            [crossing.forward, crossing.backward].map(|bytes| match (bytes, link) {
                (None, _) => 0.0,
                (Some(bytes), Some(link)) if bytes > 0.0 => {
                    factor * point_to_point(bytes * self.share, &link)
                }
                (Some(bytes), None) if bytes > 0.0 => f64::INFINITY,
                _ => 0.0,
            })
        });
        crossings.collect()
    }
}

/// Prefix sums over the layers, each in its fastest configuration.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) forward: Vec<f64>,
    pub(super) backward: Vec<f64>,
    pub(super) both: Vec<f64>,
    pub(super) update: Vec<f64>,
    pub(super) state: Vec<f64>,
    pub(super) host: Vec<f64>,
    pub(super) activations: [Vec<f64>; 2],
    /// The workspace of every layer; infinite if the layer cannot run.
    pub(super) workspace: Vec<f64>,
}

impl Sums {
    pub(super) fn new(layers: &Layers, place: &Place) -> Self {
        let priced = || layers.class_of.iter().map(|&class| place.classes[class].as_ref());
        let sums = |figure: &dyn Fn(&Priced) -> f64| {
            let mut sum = 0.0;
            let after = priced().map(|priced| {
                sum += priced.map_or(0.0, figure);
                sum
            });
            std::iter::once(0.0).chain(after).collect::<Vec<_>>()
        };
        Sums {
            forward: sums(&|priced| priced.forward),
            backward: sums(&|priced| priced.settings[0].backward),
            both: sums(&|priced| priced.settings[0].both),
            update: sums(&|priced| priced.update),
            state: sums(&|priced| priced.state),
            host: sums(&|priced| priced.host),
            activations: [0, 1].map(|until| sums(&|priced| priced.settings[0].activations[until])),
            workspace: priced()
                .map(|priced| priced.map_or(f64::INFINITY, |priced| priced.settings[0].workspace))
                .collect(),
        }
    }
}
