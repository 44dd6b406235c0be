//! Rows of the four files as runs. What a column leaves open is set as its source did; if that is not published, the run counts as
//! a guess.

use serde::Deserialize;
use stagewright_core::document::Schedule;

use super::groups;
use super::models::Model;
use super::rows::{Kernel, Recompute, Run, Status};

/// A run of one GPU that did nothing, from which the others are made.
fn plain(id: String, file: &'static str, model: Model) -> Run {
    Run {
        id,
        file,
        source: file.trim_end_matches(".csv").into(),
        name: String::new(),
        runtime: None,
        model,
        sequence: 0,
        batch: 0,
        microbatch: 0,
        gpu: String::new(),
        gpus: 1,
        per_server: 8,
        port: None,
        tensor: 1,
        pipeline: 1,
        data: 1,
        context: 1,
        expert: 1,
        zero: 0,
        schedule: Ok(Schedule::OneFOneB),
        chunks: 1,
        recompute: Recompute::None,
        kernel: Kernel::Flash2,
        sequence_parallel: false,
        fused_norms: true,
        is_fp8: false,
        is_pure: false,
        is_hybrid: false,
        is_guess: false,
        status: Status::Ran,
        seconds: None,
        memory: None,
    }
}

fn status(name: &str) -> Result<Status, String> {
    match name {
        "ok" => Ok(Status::Ran),
        "oom" => Ok(Status::OutOfMemory),
        "failed" => Ok(Status::Failed),
        _ => Err(format!("status: `{name}` is not ok, oom or failed")),
    }
}

/// A row of `runs.csv`.
#[derive(Debug, Deserialize)]
pub(super) struct Published {
    id: String,
    group: String,
    model: String,
    layers: u64,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    ffn: u64,
    gated: u8,
    vocab: u64,
    tied: u8,
    experts: u64,
    topk: u64,
    seq: u64,
    gbs: u64,
    mbs: Option<u32>,
    gpu: String,
    gpus: u32,
    tp: u32,
    pp: u32,
    dp: u32,
    zero: u32,
    recompute: String,
    precision: String,
    iter_s: Option<f64>,
    cp: Option<u32>,
    ep: Option<u32>,
    vp: String,
    schedule: String,
    flash: u8,
    per_server: u32,
    #[serde(rename = "inter_GBs")]
    inter_gbs: Option<f64>,
    #[serde(rename = "mem_GB")]
    mem_gb: Option<f64>,
    status: String,
    note: String,
    fsdp: u8,
    sp: Option<u8>,
}

impl Published {
    fn model(&self) -> Model {
        Model {
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: if self.kv_heads == 0 { self.heads } else { self.kv_heads },
            // The column has the width of the dense layers.
            inner: if self.group == "dsv3" { 2048 } else { self.ffn },
            is_gated: self.gated != 0,
            vocabulary: self.vocab,
            is_tied: self.tied != 0,
            experts: self.experts,
            active: self.topk,
        }
    }

    /// Chunks of a device: as many as possible if the number is not published.
    fn chunks(&self) -> Result<u32, String> {
        if self.group == "mixtral" {
            return Ok(8);
        }
        if !["max", "?", "interleaved?"].contains(&self.vp.as_str()) {
            return self.vp.parse().map_err(|error| format!("vp: {error}"));
        }
        let (layers, pipeline) = (self.layers, u64::from(self.pp));
        let has_ends = !layers.is_multiple_of(pipeline) && (layers + 2).is_multiple_of(pipeline);
        let chunks = if has_ends { layers + 2 } else { layers }.checked_div(pipeline).unwrap_or(1);
        Ok(if pipeline > 1 { u32::try_from(chunks).unwrap_or(1).max(1) } else { 1 })
    }

    fn schedule(&self, chunks: u32) -> Result<Schedule, String> {
        let may_interleave = chunks > 1 && self.pp > 1;
        match self.schedule.as_str() {
            "1f1b" | "interleaved" if may_interleave => Ok(Schedule::Interleaved),
            "1f1b" | "interleaved" => Ok(Schedule::OneFOneB),
            "zero-bubble" => Ok(Schedule::ZeroBubble),
            "zero-bubble-2p" => Ok(Schedule::ZeroBubbleTwice),
            "dualpipe" if self.pp.is_multiple_of(2) => Ok(Schedule::DualPipeV),
            other => Err(format!("the schedule {other}")),
        }
    }

    fn recompute(&self) -> Result<Recompute, String> {
        match self.recompute.as_str() {
            "none" => Ok(Recompute::None),
            "selective" => Ok(Recompute::Selective),
            "full" if self.note.contains("some layers") => Ok(Recompute::Half),
            "full" => Ok(Recompute::Full),
            other => Err(format!("recompute: `{other}` is not none, selective or full")),
        }
    }

    fn kernel(&self, has_new_kernels: bool) -> Kernel {
        match (self.flash, self.group.as_str()) {
            (_, "llm-foundry") => Kernel::Flash1,
            (0, _) => Kernel::Unfused,
            _ if has_new_kernels => Kernel::Flash3,
            _ => Kernel::Flash2,
        }
    }
}

/// A run of `runs.csv`.
pub(super) fn published(row: Published, _: usize) -> Result<Run, String> {
    let group = groups::find(&row.group);
    let (chunks, recompute) = (row.chunks()?, row.recompute()?);
    let schedule = row.schedule(chunks);
    // DualPipe has two stages, i and p − 1 − i, on the devices i and p − 1 − i alike: it is DualPipeV on half of the devices,
    // with twice as many copies.
    let is_folded = schedule == Ok(Schedule::DualPipeV);
    let copies = row.dp.max(1);
    let divides_sequences = group.is_some_and(|group| group.divides_sequences)
        || row.group == "korthikanti22" && recompute == Recompute::Selective;
    Ok(Run {
        source: group.map_or_else(|| row.group.clone(), |group| group.source.into()),
        name: format!("{} {}", row.group, row.model),
        runtime: group.map(|group| group.runtime),
        sequence: row.seq,
        batch: row.gbs,
        microbatch: row.mbs.unwrap_or(1),
        // Its H100 have slower memory, and more of it.
        gpu: if row.group == "torchtitan-h100" { "h100-96gb".into() } else { row.gpu.clone() },
        gpus: row.gpus,
        per_server: row.per_server,
        port: row.inter_gbs.map(|port| port * 1e9),
        tensor: row.tp,
        pipeline: if is_folded { row.pp / 2 } else { row.pp },
        data: if is_folded { 2 * copies } else { copies },
        context: row.cp.unwrap_or(1),
        expert: row.ep.unwrap_or(1),
        zero: if row.fsdp != 0 && row.zero != 2 { 3 } else { row.zero },
        chunks: match schedule {
            Ok(Schedule::Interleaved) => chunks,
            Ok(Schedule::DualPipeV) => 2,
            _ => 1,
        },
        schedule,
        recompute,
        kernel: row.kernel(group.is_some_and(|group| group.has_new_kernels)),
        sequence_parallel: row.sp.map_or(divides_sequences, |divides| divides != 0),
        fused_norms: row.group != "hagemann",
        is_fp8: row.precision == "fp8",
        is_pure: row.note.contains("PURE"),
        is_hybrid: row.note.contains("HSDP"),
        is_guess: row.mbs.is_none() || row.vp.contains('?') || recompute == Recompute::Half,
        status: status(&row.status)?,
        seconds: row.iter_s,
        memory: row.mem_gb.map(|memory| memory * 1e9),
        ..plain(row.id.clone(), "runs.csv", row.model())
    })
}

/// A row of `hagemann.csv`.
#[derive(Debug, Deserialize)]
pub(super) struct Hagemann {
    trial: String,
    model: String,
    seq: u64,
    gpus: u32,
    gbs: u64,
    kernel: String,
    ac: String,
    mbs: u32,
    tp: u32,
    pp: u32,
    dp: u32,
    sp: Option<u8>,
    status: String,
    iter_s: Option<f64>,
}

/// A run of `hagemann.csv`.
pub(super) fn hagemann(row: Hagemann, _: usize) -> Result<Run, String> {
    let (layers, hidden, heads, inner) = match row.model.as_str() {
        "13B" => (40, 5120, 40, 13824),
        "30B" => (60, 6656, 52, 17920),
        other => return Err(format!("model: `{other}` is not known")),
    };
    let kernel = match row.kernel.as_str() {
        "flash_attention2" | "flash_attention2 + RMS kernel" => Kernel::Flash2,
        "flash_attentionv1.0.8" => Kernel::Flash1,
        "torch" => Kernel::Plain,
        "fused" => Kernel::Unfused,
        other => return Err(format!("kernel: `{other}` is not known")),
    };
    let model = Model::llama(layers, hidden, heads, inner, 128_000);
    let id = format!("hag-{}-{}-{}-{}", row.model, row.gpus, row.seq, row.trial);
    Ok(Run {
        name: row.model,
        runtime: Some("scaling"),
        sequence: row.seq,
        batch: row.gbs,
        microbatch: row.mbs,
        gpu: "a100-80gb".into(),
        gpus: row.gpus,
        tensor: row.tp,
        pipeline: row.pp,
        data: row.dp,
        zero: 1,
        recompute: if row.ac == "every_layer" { Recompute::Full } else { Recompute::None },
        kernel,
        sequence_parallel: row.sp.is_some_and(|divides| divides != 0),
        fused_norms: row.kernel.contains("RMS"),
        status: status(&row.status)?,
        seconds: row.iter_s,
        ..plain(id, "hagemann.csv", model)
    })
}

/// A row of `ultrascale.csv`.
#[derive(Debug, Deserialize)]
pub(super) struct Ultrascale {
    model: String,
    gpus: u32,
    mbs: u32,
    dp: u32,
    pp: u32,
    tp: u32,
    zero: u32,
    gbs: u64,
    status: String,
    #[serde(rename = "mem_GB")]
    mem_gb: Option<f64>,
    iter_s: Option<f64>,
}

/// A run of `ultrascale.csv`.
pub(super) fn ultrascale(row: Ultrascale, index: usize) -> Result<Run, String> {
    let (layers, hidden, heads, inner, is_tied) = match row.model.as_str() {
        "us-1.34b" => (16, 2048, 32, 8192, true),
        "us-3.57b" => (28, 3072, 32, 8192, true),
        "us-8.86b" => (32, 4096, 32, 14336, false),
        "us-80b" => (80, 8192, 64, 28672, true),
        other => return Err(format!("model: `{other}` is not known")),
    };
    let model = Model { is_tied, ..Model::llama(layers, hidden, heads, inner, 131_072) };
    let id = format!("us-{}-{index}", row.model);
    Ok(Run {
        name: row.model,
        runtime: Some("nanotron"),
        sequence: 4096,
        batch: row.gbs,
        microbatch: row.mbs,
        gpu: "h100".into(),
        gpus: row.gpus,
        tensor: row.tp,
        pipeline: row.pp,
        data: row.dp,
        zero: row.zero,
        sequence_parallel: true,
        status: status(&row.status)?,
        seconds: row.iter_s,
        memory: row.mem_gb.map(|memory| memory * 1e9),
        ..plain(id, "ultrascale.csv", model)
    })
}

/// A row of `foundry.csv`.
#[derive(Debug, Deserialize)]
pub(super) struct Foundry {
    model: String,
    seq: u64,
    gpus: u32,
    gpu: String,
    mbs: u32,
    gbs: u64,
    tps: f64,
    mp: String,
    shard: String,
    ac: String,
}

/// A run of `foundry.csv`.
pub(super) fn foundry(row: Foundry, _: usize) -> Result<Run, String> {
    let (layers, hidden, heads) = match row.model.as_str() {
        "125m" => (12, 768, 12),
        "350m" => (24, 1024, 16),
        "760m" => (24, 1536, 12),
        "1b" => (24, 2048, 16),
        "3b" => (32, 2560, 20),
        "7b" => (32, 4096, 32),
        "13b" => (40, 5120, 40),
        "30b" => (48, 7168, 56),
        "70b" => (80, 8192, 64),
        other => return Err(format!("model: `{other}` is not known")),
    };
    let model =
        Model { is_tied: true, is_gated: false, ..Model::llama(layers, hidden, heads, 4 * hidden, 50_368) };
    let gpu = match row.gpu.as_str() {
        "h100_80gb" => "h100",
        "a100_80gb" => "a100-80gb",
        "a100_40gb" => "a100-40gb",
        other => return Err(format!("gpu: `{other}` is not known")),
    };
    let tokens = row.gbs as f64 * row.seq as f64;
    Ok(Run {
        name: row.model.clone(),
        runtime: Some("fsdp"),
        sequence: row.seq,
        batch: row.gbs,
        microbatch: row.mbs,
        gpu: gpu.into(),
        gpus: row.gpus,
        data: row.gpus,
        zero: if row.shard == "FULL_SHARD" { 3 } else { 2 },
        recompute: if row.ac == "True" { Recompute::Full } else { Recompute::None },
        kernel: Kernel::Flash1,
        is_pure: row.mp == "PURE",
        seconds: Some(tokens / (row.tps * f64::from(row.gpus))),
        ..plain(format!("fo-{}-{gpu}-{}-{}", row.model, row.gpus, row.seq), "foundry.csv", model)
    })
}
