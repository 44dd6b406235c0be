//! Continuous batching of a rank: steps of sequences and of chunks of prompts.

use std::collections::VecDeque;

use super::world::RequestId;
use crate::worker::Step;

/// A prompt that is being read.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) request: RequestId,
    /// Tokens that are left.
    pub(super) left: u64,
    /// Tokens before them.
    pub(super) past: u64,
}

/// How a step takes prompts from a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intake {
    /// Maximum number of tokens of prompts in a step.
    pub(super) chunk: u64,
    /// Whether prompts that fit in a chunk are taken whole.
    pub(super) is_whole: bool,
}

/// Tokens of a prompt in a step.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) request: RequestId,
    /// Tokens.
    pub(super) tokens: f64,
    /// Whether the prompt ends with them.
    pub(super) is_last: bool,
}

/// A sequence that is decoded.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) request: RequestId,
    /// Tokens of the prompt.
    pub(super) input: f64,
    /// Tokens after the first; negative while the first is not delivered.
    pub(super) progress: f64,
    /// Tokens after the first when it ends.
    pub(super) last: f64,
    /// Time of the first token.
    pub(super) first: Option<f64>,
}

/// The batch of a rank in a microbatch.
#[derive(Debug)]
pub(super) struct Batch {
    /// Sequences: first those in the step that runs, then those that join the next.
    pub(super) sequences: Vec<Sequence>,
    /// Number of sequences in the step that runs.
    pub(super) running: usize,
    /// Prompts in the step that runs.
    pub(super) parts: Vec<Part>,
    /// The step that runs.
    pub(super) step: Step,
}

impl Batch {
    /// An empty batch.
    pub(super) fn new() -> Batch {
        Batch { sequences: Vec::new(), running: 0, parts: Vec::new(), step: Step::decode(0.0, 0.0) }
    }

    /// Forms the next step: a token of every sequence, or as many as are verified, and prompts from the head of a queue. Takes
    /// time proportional to both.
    pub(super) fn form(&mut self, queue: &mut VecDeque<Prompt>, intake: Intake, queries: f64) {
        self.running = self.sequences.len();
        let count = self.running as f64;
        let tokens: f64 = self.sequences.iter().map(|own| own.input + own.progress.max(0.0)).sum();
        self.parts.clear();
        let (mut prompt, mut seen) = (0, 0.0);
        while let Some(head) = queue.front_mut() {
            let room = intake.chunk - prompt;
            let tokens = head.left.min(room);
            if tokens == 0 || intake.is_whole && prompt > 0 && tokens < head.left {
                break;
            }
            seen += tokens as f64 * (head.past as f64 + tokens as f64 / 2.0);
            prompt += tokens;
            head.left -= tokens;
            head.past += tokens;
            let is_last = head.left == 0;
            self.parts.push(Part { request: head.request, tokens: tokens as f64, is_last });
            if is_last {
                queue.pop_front();
            }
        }
        self.step = Step {
            prompt: prompt as f64,
            seen: seen / (prompt as f64).max(1.0),
            sequences: count,
            context: tokens / count.max(1.0),
            queries,
        };
    }

    /// Ends a step that gave every sequence `tokens` tokens, spread evenly over its time from `began` to `now`. Removes the
    /// sequences that end, with the times of their first and last token.
    pub(super) fn advance(
        &mut self,
        [began, now]: [f64; 2],
        tokens: f64,
        mut ended: impl FnMut(RequestId, [f64; 2]),
    ) {
        for index in (0..self.running).rev() {
            let sequence = &mut self.sequences[index];
            sequence.progress += tokens;
            let time = |token: f64| now - (sequence.progress - token) / tokens * (now - began);
            if sequence.progress >= 0.0 && sequence.first.is_none() {
                sequence.first = Some(time(0.0));
            }
            if sequence.progress >= sequence.last {
                let last = time(sequence.last);
                ended(sequence.request, [sequence.first.unwrap_or(last), last]);
                // What comes to this place has been counted, or has joined during the step.
                self.sequences.swap_remove(index);
            }
        }
        self.running = 0;
    }
}
