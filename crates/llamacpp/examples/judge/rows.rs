//! Rows of `measured.csv`, and the work of a token of each.

use std::error::Error;
use std::path::Path;

use serde::Deserialize;
use stagewright_core::ids::Keyed;
use stagewright_llamacpp::constants::{CROSSING, HOP};
use stagewright_llamacpp::speed::{Reads, Work, decode};
use stagewright_llamacpp::{Device, DeviceId, Host, Setting};

use super::devices;
use super::models::{self, Model};

/// Bytes of a weight of experts in MXFP4: 4 bits and a scale of 8 bits for 32.
const FOUR_BITS: f64 = 17.0 / 32.0;

/// A published measurement.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) devices: String,
    pub(crate) model: String,
    pub(crate) quant: String,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) size_gib: Option<f64>,
    pub(crate) flags: String,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) pp: Option<f64>,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) tg: Option<f64>,
    pub(crate) device_class: String,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) cpu_bw_gbs: Option<f64>,
    pub(crate) layer_fractions: String,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) cpu_expert_layers: Option<f64>,
    #[serde(deserialize_with = "csv::invalid_option")]
    pub(crate) cpu_full_layers: Option<f64>,
    pub(crate) use_in_fit: String,
    pub(crate) source: String,
    pub(crate) note: String,
}

/// Rows of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    Ok(csv::Reader::from_path(path)?.deserialize().collect::<Result<_, _>>()?)
}

/// A row whose time can be estimated.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) row: Row,
    pub(crate) measured: f64,
    pub(crate) devices: Vec<Device>,
    pub(crate) host: Host,
    model: &'static Model,
    /// Shares of the slots on devices.
    shares: Vec<f64>,
    slots: f64,
    on_host: f64,
    experts_on_host: f64,
}

impl Row {
    /// The case of a row, or the reason that there is none.
    pub(crate) fn case(&self) -> Result<Case, String> {
        if self.use_in_fit == "0" {
            let note = if self.note.is_empty() { "a figure was not published" } else { &self.note };
            return Err(format!("left out by the file: {note}"));
        }
        let model =
            models::find(&self.model).ok_or_else(|| format!("model `{}` is not known", self.model))?;
        let measured = self.tg.filter(|&speed| speed > 0.0).ok_or("no tokens a second")?;
        self.size_gib.filter(|&size| size > 0.0).ok_or("no size")?;
        let names = self.devices.split('+').map(str::trim).filter(|name| !name.is_empty());
        let named = names.flat_map(repeated).map(|name| devices::find(name, &self.device_class));
        let devices: Vec<Device> = named.collect::<Result<_, _>>()?;
        let shares = self.shares(&devices)?;
        let on_host =
            if devices.is_empty() { model.layers + 1.0 } else { self.cpu_full_layers.unwrap_or(0.0) };
        let experts_on_host = self.cpu_expert_layers.unwrap_or(0.0).min(model.expert_layers);
        let bandwidth = match self.cpu_bw_gbs {
            Some(bandwidth) => bandwidth * 1e9,
            None if on_host + experts_on_host > 0.0 => return Err("the bandwidth of RAM is not given".into()),
            None => 50e9,
        };
        let slots = (model.layers + 1.0 - on_host).max(0.0);
        let host = Host::new(1 << 40, bandwidth);
        Ok(Case {
            row: self.clone(),
            measured,
            devices,
            host,
            model,
            shares,
            slots,
            on_host,
            experts_on_host,
        })
    }

    /// Shares of the layers; of equal devices, even ones if the row has none.
    fn shares(&self, devices: &[Device]) -> Result<Vec<f64>, String> {
        let shares = self.layer_fractions.split(';').filter(|share| !share.trim().is_empty());
        let shares: Result<Vec<f64>, _> = shares.map(|share| share.trim().parse()).collect();
        let is_equal = devices.iter().all(|device| device.name == devices[0].name);
        match shares.map_err(|error| format!("layer_fractions: {error}"))? {
            shares if shares.len() == devices.len() => Ok(shares),
            shares if shares.is_empty() && is_equal => Ok(vec![1.0 / devices.len() as f64; devices.len()]),
            shares => Err(format!("{} shares of layers for {} devices", shares.len(), devices.len())),
        }
    }
}

/// The names of a group of devices, `2x3090`.
fn repeated(name: &str) -> impl Iterator<Item = &str> {
    let count = name.split_once('x').and_then(|(count, rest)| Some((count.parse::<usize>().ok()?, rest)));
    let (count, name) = count.unwrap_or((1, name));
    std::iter::repeat_n(name, count.min(64))
}

/// Bytes of the parts of a file, and of a number in each.
struct Parts {
    /// Bytes of a layer, and of the output, without experts.
    layer: f64,
    layer_number: f64,
    /// Bytes of the experts of a layer that a token needs.
    experts: f64,
    expert_number: f64,
}

impl Case {
    /// Whether experts of a layer on a device are on the host.
    pub(crate) fn has_experts_on_host(&self) -> bool {
        self.experts_on_host > 0.0
    }

    fn parts(&self) -> Parts {
        let model = self.model;
        let size = self.row.size_gib.unwrap_or(0.0) * (1_u64 << 30) as f64;
        let mean = size / (model.weights * 1e9);
        let is_mixed = model.has_four_bit_experts() && mean < 0.7;
        let expert_number = if is_mixed { FOUR_BITS } else { mean };
        let experts = model.experts * 1e9 * expert_number;
        let layer_number = (size - experts) / ((model.weights - model.experts) * 1e9);
        let layer = (size - experts - model.table * 1e9 * layer_number) / (model.layers + 1.0);
        let experts = experts * model.active_share() / model.expert_layers.max(1.0);
        Parts { layer, layer_number, experts, expert_number }
    }

    /// Work of a token, with weights evenly by layers.
    pub(crate) fn work(&self) -> Work {
        let parts = self.parts();
        let expert_layers = self.experts_on_devices();
        let mut devices: Keyed<DeviceId, Reads> = Keyed::new();
        for (device, share) in self.devices.iter().zip(&self.shares) {
            let bytes = self.slots * parts.layer / device.rates.factor(parts.layer_number)
                + expert_layers * parts.experts / device.rates.factor(parts.expert_number);
            // Overheads are the same on each device, so all layers count on the first.
            let counted = |count: f64| if devices.is_empty() { count as u64 } else { 0 };
            let (layers, expert_layers) = (counted(self.slots), counted(expert_layers));
            devices.push(Reads { bytes: share * bytes, layers, expert_layers });
        }
        let experts = self.model.expert_layers - expert_layers;
        let bytes = self.on_host * parts.layer + experts * parts.experts;
        let layers = self.on_host.min(self.model.layers);
        let host = Reads { bytes, layers: layers as u64, expert_layers: 0 };
        let hops = self.devices.len().saturating_sub(1) as u64;
        Work { devices, host, hops, crossings: self.experts_on_host as u64 }
    }

    /// Layers whose experts are on devices: those that are neither on the host nor have their experts there.
    fn experts_on_devices(&self) -> f64 {
        let share = self.slots / (self.model.layers + 1.0);
        (self.model.expert_layers * share - self.experts_on_host).max(0.0)
    }

    /// Tokens a second by the formula, with seconds of a hop and of a crossing.
    pub(crate) fn speed(&self, hop: f64, crossing: f64) -> f64 {
        let work = self.work();
        let steps = work.hops as f64 * (hop - HOP) + work.crossings as f64 * (crossing - CROSSING);
        1.0 / (decode(&work, &Setting::new(self.devices.clone()), self.host) + steps)
    }

    /// Relative error of the shipped constants.
    pub(crate) fn error(&self) -> f64 {
        self.speed(HOP, CROSSING) / self.measured - 1.0
    }

    /// Relative error of tokens a second of a prompt, if that was measured with all weights on devices.
    pub(crate) fn prompt_error(&self) -> Option<f64> {
        let measured = self.row.pp.filter(|_| self.on_host + self.experts_on_host == 0.0)?;
        let has_experts = self.model.experts > 0.0;
        let active = self.model.experts * (self.model.active_share() - 1.0);
        let flop = 2e9 * (self.model.weights - 2.0 * self.model.table + active);
        let mut seconds = 0.0;
        for (device, share) in self.devices.iter().zip(&self.shares) {
            let products = if has_experts { device.rates.expert_products } else { device.rates.products };
            seconds += share * flop / (device.peak * products?);
        }
        Some(1.0 / seconds / measured - 1.0)
    }
}
