//! Local plans in words, and the time of their tokens.

use stagewright_core::document::{
    LocalGoal, LocalMemoryDocument, LocalObjectiveDocument, LocalPlanDocument, LocalSettingDocument,
};

/// Seconds of a token by where they pass.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LocalTimes {
    /// Seconds of the processor.
    pub host: f64,
    /// Seconds of each device, in the order of the setting.
    pub devices: Vec<f64>,
    /// Seconds for changes of device, and for weights on the host of layers that are on a device.
    pub ways: f64,
}

impl LocalTimes {
    /// Seconds of all.
    pub fn total(&self) -> f64 {
        self.devices.iter().sum::<f64>() + self.host + self.ways
    }
}

/// The objective: `a token after 2048 others`.
pub fn objective(objective: &LocalObjectiveDocument) -> String {
    let tokens = |count: Option<u64>| count.unwrap_or(0);
    match objective.kind {
        LocalGoal::Decode => format!("a token after {} others", tokens(objective.tokens)),
        LocalGoal::Prefill => format!("a prompt of {} tokens", tokens(objective.prompt)),
        LocalGoal::Request => {
            format!(
                "a prompt of {} tokens and {} that answer it",
                tokens(objective.prompt),
                tokens(objective.output)
            )
        }
    }
}

/// Tokens a second of answers and of prompts.
pub fn speed(plan: &LocalPlanDocument, setting: &LocalSettingDocument) -> String {
    let mut parts = Vec::new();
    if let Some(token) = setting.token_s.filter(|&token| token > 0.0) {
        parts.push(format!("{:.2} tokens/s", 1.0 / token));
    }
    if let (Some(seconds), Some(prompt)) =
        (setting.prompt_s.filter(|&time| time > 0.0), plan.objective.prompt)
    {
        parts.push(format!("{:.0} tokens/s of prompt", prompt as f64 / seconds));
    }
    parts.join(", ")
}

/// The context, the encoding of its cache and the micro-batch.
pub fn context(setting: &LocalSettingDocument) -> String {
    let [keys, values] = &setting.cache;
    let cache = if keys == values { keys.clone() } else { format!("{keys} and {values}") };
    format!("{} tokens in {cache}, micro-batches of {}", setting.context, setting.micro_batch)
}

/// Layers of a memory: `0 to 35 and output`.
pub fn layers(memory: &LocalMemoryDocument, blocks: u64) -> String {
    let [first, end] = memory.slots;
    let has_output = end > blocks;
    match (end.min(blocks).saturating_sub(first), has_output) {
        (0, false) => "none".into(),
        (0, true) => "output".into(),
        (1, false) => format!("{first}"),
        (1, true) => format!("{first} and output"),
        (_, false) => format!("{first} to {}", end - 1),
        (_, true) => format!("{first} to {} and output", blocks - 1),
    }
}
