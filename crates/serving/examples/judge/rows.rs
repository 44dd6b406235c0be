//! Rows of published measurements, with the columns of `silicon.csv`.

use std::error::Error;
use std::path::Path;

use serde::Deserialize;
use stagewright_serving::Parallel;

/// A published measurement. Degrees and batches may be missing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) row: String,
    pub(crate) backend: String,
    pub(crate) model_path: String,
    pub(crate) system: String,
    pub(crate) precision: String,
    pub(crate) mode: String,
    pub(crate) isl: Option<f64>,
    pub(crate) osl: Option<f64>,
    batch_size: Option<f64>,
    tp_size: Option<f64>,
    pp_size: Option<f64>,
    attention_dp_size: Option<f64>,
    moe_tp_size: Option<f64>,
    moe_ep_size: Option<f64>,
    pub(crate) prefill_num_workers: Option<f64>,
    prefill_tp_size: Option<f64>,
    prefill_pp_size: Option<f64>,
    prefill_attention_dp_size: Option<f64>,
    prefill_moe_tp_size: Option<f64>,
    prefill_moe_ep_size: Option<f64>,
    decode_batch_size: Option<f64>,
    pub(crate) decode_num_workers: Option<f64>,
    decode_tp_size: Option<f64>,
    decode_pp_size: Option<f64>,
    decode_attention_dp_size: Option<f64>,
    decode_moe_tp_size: Option<f64>,
    decode_moe_ep_size: Option<f64>,
    pub(crate) silicon_ttft_ms: Option<f64>,
    pub(crate) silicon_tpot_ms: Option<f64>,
    pub(crate) peer_ttft_ms: Option<f64>,
    pub(crate) peer_tpot_ms: Option<f64>,
}

/// Rows of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    Ok(csv::Reader::from_path(path)?.deserialize().collect::<Result<_, _>>()?)
}

/// Workers of a row: all of them, or those of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Aggregated,
    Prefill,
    Decode,
}

impl Row {
    /// Whether prompts and decoding are on different devices.
    pub(crate) fn is_disaggregated(&self) -> bool {
        self.mode == "disagg"
    }

    /// Sequences of a rank.
    pub(crate) fn batch(&self) -> Option<f64> {
        if self.is_disaggregated() { self.decode_batch_size } else { self.batch_size }
            .filter(|&batch| batch > 0.0)
    }

    /// Degrees of workers, and stages. Without a data degree, experts on more devices than the tensor degree imply one; degrees
    /// of experts that do not use all devices are corrected by the tensor degree within an expert.
    pub(crate) fn parallel(&self, role: Role, has_experts: bool) -> Option<(Parallel, u64)> {
        let [tensor, stages, data, expert_tensor, experts] = match role {
            Role::Aggregated => {
                [self.tp_size, self.pp_size, self.attention_dp_size, self.moe_tp_size, self.moe_ep_size]
            }
            Role::Prefill => [
                self.prefill_tp_size,
                self.prefill_pp_size,
                self.prefill_attention_dp_size,
                self.prefill_moe_tp_size,
                self.prefill_moe_ep_size,
            ],
            Role::Decode => [
                self.decode_tp_size,
                self.decode_pp_size,
                self.decode_attention_dp_size,
                self.decode_moe_tp_size,
                self.decode_moe_ep_size,
            ],
        };
        let whole = |value: Option<f64>| value.filter(|&value| value >= 1.0).map(|value| value as u64);
        let tensor = whole(tensor)?;
        let stages = whole(stages).unwrap_or(1);
        if !has_experts {
            let data = whole(data).unwrap_or(1);
            return Some((Parallel { data, ..Parallel::tensor(tensor) }, stages));
        }
        let (expert_tensor, experts) = (whole(expert_tensor).unwrap_or(1), whole(experts).unwrap_or(1));
        let data = whole(data).unwrap_or_else(|| (expert_tensor * experts / tensor).max(1));
        let devices = tensor * data;
        let expert_tensor = if devices.is_multiple_of(experts) { devices / experts } else { expert_tensor };
        Some((Parallel { tensor, data, expert_tensor, experts }, stages))
    }

    /// What makes two rows measurements of one configuration: model, system, engine, degrees, precision and lengths.
    pub(crate) fn configuration(&self) -> String {
        format!(
            "{}|{}|{:?}|{:?}|{:?}|{}|{:?}|{:?}",
            self.setting(),
            self.mode,
            self.parallel(Role::Aggregated, true),
            self.parallel(Role::Prefill, true),
            self.parallel(Role::Decode, true),
            self.precision,
            self.isl,
            self.osl
        )
    }

    /// Key of a calibration: model, system and engine.
    pub(crate) fn setting(&self) -> String {
        format!("{}|{}|{}", self.model_path, self.system, self.backend)
    }
}
