//! Objectives of plans on one machine.

use stagewright_structure::Structure;

use crate::device::Host;
use crate::place::Placement;
use crate::setting::Setting;
use crate::speed::{Work, decode, prefill};

/// Seconds that a plan minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// A token after `tokens` earlier ones.
    Decode {
        /// Tokens in the cache.
        tokens: u64,
    },
    /// A prompt until its last token is read.
    Prefill {
        /// Tokens of the prompt.
        prompt: u64,
    },
    /// A prompt, and the tokens that answer it, one after the other.
    Request {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens of the answer.
        output: u64,
    },
}

impl Goal {
    /// Tokens whose generation counts, and the tokens that their cache holds on average.
    pub fn generated(self) -> (u64, u64) {
        match self {
            Goal::Decode { tokens } => (1, tokens),
            Goal::Prefill { .. } => (0, 0),
            Goal::Request { prompt, output } => (output, prompt.saturating_add(output / 2)),
        }
    }

    /// Tokens of the prompt that counts; 0 if none does.
    pub fn prompt(self) -> u64 {
        match self {
            Goal::Decode { .. } => 0,
            Goal::Prefill { prompt } | Goal::Request { prompt, .. } => prompt,
        }
    }

    /// Micro-batches of the prompt: how many, each with how many tokens.
    pub fn batches(self, micro_batch: u64) -> Vec<(u64, u64)> {
        let (prompt, size) = (self.prompt(), micro_batch.max(1));
        let all = [(prompt / size, size), (1, prompt % size)];
        all.into_iter().filter(|&(count, tokens)| count > 0 && tokens > 0).collect()
    }

    /// Seconds under a setting; `None` if a device that works has no measured speed of prompts.
    pub fn seconds(
        self,
        structure: &Structure,
        setting: &Setting,
        placement: &Placement,
        host: Host,
    ) -> Option<f64> {
        let (count, tokens) = self.generated();
        let prompt = match self.prompt() {
            0 => 0.0,
            prompt => prefill(structure, setting, placement, host, prompt)?,
        };
        let token = match count {
            0 => 0.0,
            _ => decode(&Work::of(structure, setting, placement, tokens), setting, host),
        };
        Some(prompt + count as f64 * token)
    }
}
