//! Steps of a worker.

use stagewright_core::document::SpeculationDocument;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

/// Tokens that a worker processes at once, on every rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Tokens of prompts.
    pub prompt: f64,
    /// Mean number of tokens that each of them sees before it.
    pub seen: f64,
    /// Sequences that are decoded.
    pub sequences: f64,
    /// Tokens that each sequence has before the step.
    pub context: f64,
    /// Tokens of a sequence in the step: 1, or more where drafts are verified.
    pub queries: f64,
}

impl Step {
    /// One more token of every sequence of a batch, after `context` others.
    pub fn decode(sequences: f64, context: f64) -> Step {
        Step { prompt: 0.0, seen: 0.0, sequences, context, queries: 1.0 }
    }

    /// `tokens` tokens of one prompt after `past` earlier ones.
    pub fn prompt(tokens: f64, past: f64) -> Step {
        Step { prompt: tokens, seen: past + tokens / 2.0, sequences: 0.0, context: 0.0, queries: 1.0 }
    }

    /// The step with tokens of a prompt beside its sequences.
    #[must_use]
    pub fn with_prompt(self, tokens: f64, past: f64) -> Step {
        Step { prompt: tokens, seen: past + tokens / 2.0, ..self }
    }

    /// All tokens.
    pub fn tokens(&self) -> f64 {
        self.prompt + self.sequences * self.queries
    }
}

/// Speculative decoding: drafts of further tokens that a step verifies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation {
    /// Tokens of a draft.
    pub drafts: u32,
    /// Probability that a token is accepted if all before it are, from 0 to 1.
    pub acceptance: f64,
    /// Time of drafting a token, as a share of a decode step without drafts.
    pub draft_share: f64,
}

impl From<SpeculationDocument> for Speculation {
    fn from(document: SpeculationDocument) -> Speculation {
        let SpeculationDocument { drafts, acceptance, draft_share } = document;
        Speculation { drafts, acceptance, draft_share }
    }
}

impl Speculation {
    /// Checks the shares.
    ///
    /// # Errors
    /// If the acceptance is not between 0 and 1, or the share of drafting is negative or not finite (L024). `label` names the
    /// input that has them.
    pub fn check(&self, label: &str) -> Result<()> {
        let wrong = |path: &str, value: f64, help: &str| {
            Err(InputError::at_path(L::L024, label, path, format!("`{path}` is {value}"), help))
        };
        if !(0.0..=1.0).contains(&self.acceptance) {
            return wrong("acceptance", self.acceptance, "give a probability from 0 to 1");
        }
        if !self.draft_share.is_finite() || self.draft_share < 0.0 {
            return wrong("draft_share", self.draft_share, "give a share that is at least 0");
        }
        Ok(())
    }

    /// Expected tokens of a step: `1 + a + … + a^drafts` (Leviathan et al. 2023, equation 1).
    pub fn tokens_per_step(&self) -> f64 {
        let (tokens, acceptance) = (f64::from(self.drafts) + 1.0, self.acceptance.clamp(0.0, 1.0));
        if acceptance < 1.0 { (1.0 - acceptance.powf(tokens)) / (1.0 - acceptance) } else { tokens }
    }
}
