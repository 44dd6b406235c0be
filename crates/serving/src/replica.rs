//! Replicas: workers in a row that hold a model together.

use stagewright_core::document::LinkDocument;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use crate::request::RequestClass;
use crate::worker::{HIDDEN_BYTES, Speculation, Step, Worker};

/// Workers that hold the layers of a model, one after the other, and run as a pipeline.
///
/// A pipeline of p stages has p microbatches, one on each stage. A batch below is that of a rank over all microbatches.
#[derive(Debug, Clone)]
pub struct Replica<'a> {
    stages: Vec<Worker<'a>>,
    /// Link from every stage to the next.
    links: Vec<LinkDocument>,
    speculation: Option<Speculation>,
}

impl<'a> Replica<'a> {
    /// A replica of one worker with all layers.
    pub fn single(worker: Worker<'a>) -> Replica<'a> {
        let layers = 0..worker.model().layers.len();
        Replica { stages: vec![worker.with_layers(layers)], links: Vec::new(), speculation: None }
    }

    /// A replica of stages, with the link from each to the next.
    ///
    /// # Errors
    /// If the stages do not hold all layers of one model in order, have different data degrees, or there is not one link
    /// between neighbours (L020). `label` names the input that has the stages.
    pub fn new(label: &str, stages: Vec<Worker<'a>>, links: Vec<LinkDocument>) -> Result<Replica<'a>> {
        let wrong = |path: String, message: String, help: &str| {
            Err(InputError::at_path(L::L020, label, path, message, help))
        };
        let Some(first) = stages.first() else {
            return wrong("stages".into(), "the replica has no stage".into(), "give at least one");
        };
        let (model, data) = (first.model(), first.parallel().data);
        let mut next = 0;
        for (index, stage) in stages.iter().enumerate() {
            let path = format!("stages[{index}]");
            let layers = stage.layers();
            if layers.start != next || layers.is_empty() || !std::ptr::eq(stage.model(), model) {
                let message = format!("the stage has layers {layers:?}, where layer {next} comes next");
                return wrong(path, message, "let the stages hold all layers of one model in order");
            }
            if stage.parallel().data != data {
                let message = format!("data degree {} after {data}", stage.parallel().data);
                return wrong(path, message, "let all stages have one data degree");
            }
            next = layers.end;
        }
        if next != model.layers.len() {
            let message = format!("the stages hold {next} of {} layers", model.layers.len());
            return wrong("stages".into(), message, "let the last stage end with the last layer");
        }
        if links.len() + 1 != stages.len() {
            let message = format!("{} links between {} stages", links.len(), stages.len());
            return wrong("links".into(), message, "give one link between neighbours");
        }
        Ok(Replica { stages, links, speculation: None })
    }

    /// The replica with speculative decoding.
    #[must_use]
    pub fn with_speculation(mut self, speculation: Speculation) -> Replica<'a> {
        self.speculation = Some(speculation);
        self
    }

    /// Speculative decoding, if there is any.
    pub fn speculation(&self) -> Option<Speculation> {
        self.speculation
    }

    /// The stages in order.
    pub fn stages(&self) -> &[Worker<'a>] {
        &self.stages
    }

    /// Attention data degree.
    pub fn data(&self) -> f64 {
        self.stages[0].parallel().data as f64
    }

    /// Number of devices.
    pub fn devices(&self) -> u64 {
        self.stages.iter().map(|stage| stage.parallel().devices()).sum()
    }

    /// The largest batch of a rank over all microbatches whose sequences of `context` tokens fit on every stage; 0 if none
    /// does.
    pub fn largest_batch(&self, context: u64) -> u64 {
        self.stages.iter().map(|stage| stage.largest_batch(context)).min().unwrap_or(0)
    }

    /// Seconds from a token of a sequence to its next, in a batch of a rank after `context` tokens and without prompts: the
    /// step of one worker, or the number of stages times the slowest of them with its microbatch of at least one sequence.
    pub fn token_seconds(&self, batch: f64, context: f64) -> f64 {
        let depth = self.stages.len() as f64;
        let plain = Step::decode((batch / depth).max(batch.min(1.0)), context);
        let Some(speculation) = self.speculation else { return depth * self.slowest(&plain) };
        let verify = Step { queries: 1.0 + f64::from(speculation.drafts), ..plain };
        let draft = f64::from(speculation.drafts) * speculation.draft_share * self.slowest(&plain);
        depth * (self.slowest(&verify) + draft) / speculation.tokens_per_step()
    }

    /// Seconds of the slowest stage in a step, with sending its tokens on.
    fn slowest(&self, step: &Step) -> f64 {
        let seconds = |(index, stage): (usize, &Worker)| stage.seconds(step) + self.hop(index, step.tokens());
        self.stages.iter().enumerate().map(seconds).fold(0.0, f64::max)
    }

    /// Seconds to send tokens to the next stage.
    pub(crate) fn hop(&self, stage: usize, tokens: f64) -> f64 {
        let bytes = tokens * self.stages[stage].model().hidden * HIDDEN_BYTES;
        self.links.get(stage).map_or(0.0, |link| link.latency_s + bytes / link.bandwidth)
    }

    /// Chunks of a prompt: tokens, and tokens before them.
    fn chunks(&self, class: &RequestClass) -> Vec<(f64, f64)> {
        let largest = self.stages[0].engine().chunk as f64;
        let tokens = class.computed();
        let count = (tokens / largest).ceil().max(1.0);
        let size = tokens / count;
        (0..count as u64).map(|index| (size, class.shared_prefix as f64 + index as f64 * size)).collect()
    }

    /// Seconds of a prompt alone, from its beginning to its end: chunks follow each other through the stages.
    pub fn prompt_seconds(&self, class: &RequestClass) -> f64 {
        let chunks = self.chunks(class);
        let of_stage = |index: usize| -> f64 {
            let stage = &self.stages[index];
            let seconds = |&(tokens, past): &(f64, f64)| {
                stage.seconds(&Step::prompt(tokens, past)) + self.hop(index, tokens)
            };
            chunks.iter().map(seconds).sum()
        };
        let stages: Vec<f64> = (0..self.stages.len()).map(of_stage).collect();
        let slowest = stages.iter().copied().fold(0.0, f64::max);
        let count = chunks.len() as f64;
        stages.iter().sum::<f64>() / count + slowest * (count - 1.0) / count
    }

    /// Seconds of the slowest stage for `prompts` prompts at once, which the rate of a prefill worker is bounded by.
    pub fn prompt_interval(&self, class: &RequestClass, prompts: f64) -> f64 {
        let chunks = self.chunks(class);
        let of_stage = |index: usize| -> f64 {
            let seconds = |&(tokens, past): &(f64, f64)| {
                let step = Step { prompt: prompts * tokens, ..Step::prompt(tokens, past) };
                self.stages[index].seconds(&step) + self.hop(index, prompts * tokens)
            };
            chunks.iter().map(seconds).sum()
        };
        (0..self.stages.len()).map(of_stage).fold(0.0, f64::max)
    }

    /// Seconds by which the prompt of a request lengthens the steps of the sequences that are decoded beside it, on the slowest
    /// stage. A batch is that of a rank.
    pub fn prompt_delay(&self, class: &RequestClass, batch: f64) -> f64 {
        let sequences = batch / self.stages.len() as f64;
        let decode = Step::decode(sequences, class.mean_context());
        let of_stage = |stage: &Worker| -> f64 {
            let alone = stage.seconds(&decode);
            let mixed =
                |&(tokens, past): &(f64, f64)| stage.seconds(&decode.with_prompt(tokens, past)) - alone;
            self.chunks(class).iter().map(mixed).sum()
        };
        self.stages.iter().map(of_stage).fold(0.0, f64::max)
    }
}
