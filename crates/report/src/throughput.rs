//! Throughput of a plan in batches, samples and tokens per second.
//!
//! The value of a throughput plan is the time of one batch, which is one run of the model; under a schedule, it is the
//! time of all microbatches of an iteration. Samples and tokens per second are reported if the contents of a batch are
//! known.

use stagewright_core::document::{
    BatchDocument, GraphDocument, JointExecutionDocument, JointObjectiveDocument, JointObjectiveKind,
    ObjectiveDocument, ObjectiveKind, Schedule, ThroughputDocument,
};

/// Returns the throughput for a value. `None` if the objective is not throughput or the value is 0, and for a graph of
/// version 1 with an unknown batch, because such a graph does not specify what one run processes.
pub fn throughput(
    objective: &ObjectiveDocument,
    value: f64,
    batch: Option<BatchDocument>,
    graph: &GraphDocument,
) -> Option<ThroughputDocument> {
    let batches = batches(objective, value)?;
    if batch.is_none() && !graph.is_version_2() {
        return None;
    }
    let samples = batch.map(|batch| batches * batch.samples.get() as f64);
    let tokens = batch.and_then(|batch| batch.tokens);
    let tokens = samples.zip(tokens).map(|(samples, tokens)| samples * tokens.get() as f64);
    Some(ThroughputDocument { batches_per_s: batches, samples_per_s: samples, tokens_per_s: tokens })
}

/// Returns the throughput of a joint plan for a value, with the tokens of a sample if they are known: of an iteration in
/// microbatches and samples over all copies; of the time per sample in microbatches, because a file of Piper does not say
/// how many samples a microbatch has. `None` if the value is not positive and finite.
pub fn joint_throughput(
    objective: &JointObjectiveDocument,
    execution: Option<&JointExecutionDocument>,
    value: f64,
    tokens: Option<f64>,
) -> Option<ThroughputDocument> {
    joint_rate(objective, execution.map(|execution| execution.microbatch), value, tokens)
}

/// Returns the throughput of [`joint_throughput`] for a number of samples in a microbatch; `None` without one for an
/// iteration.
pub fn joint_rate(
    objective: &JointObjectiveDocument,
    microbatch: Option<u32>,
    value: f64,
    tokens: Option<f64>,
) -> Option<ThroughputDocument> {
    let per_second = Some(1.0 / value).filter(|rate| *rate > 0.0 && rate.is_finite())?;
    match (objective.kind, microbatch) {
        (JointObjectiveKind::TimePerSample, _) => {
            Some(ThroughputDocument { batches_per_s: per_second, samples_per_s: None, tokens_per_s: None })
        }
        (JointObjectiveKind::Iteration, Some(microbatch)) => {
            let samples = objective.global_batch as f64 * per_second;
            Some(ThroughputDocument {
                batches_per_s: samples / f64::from(microbatch.max(1)),
                samples_per_s: Some(samples),
                tokens_per_s: tokens.map(|tokens| samples * tokens),
            })
        }
        (JointObjectiveKind::Iteration, None) => None,
    }
}

/// Batches per second, or microbatches under a schedule; `None` if the objective is not throughput or the value is 0.
fn batches(objective: &ObjectiveDocument, value: f64) -> Option<f64> {
    let microbatches = match objective.schedule {
        Schedule::None => 1.0,
        _ => f64::from(objective.microbatches.unwrap_or(1)),
    };
    let rate = (objective.kind == ObjectiveKind::Throughput && value > 0.0).then(|| microbatches / value);
    rate.filter(|rate| rate.is_finite())
}

/// Throughput in words: in samples and tokens per second if they are known.
pub(super) fn rate(
    objective: &ObjectiveDocument,
    value: f64,
    known: Option<&ThroughputDocument>,
) -> Option<String> {
    let batches = batches(objective, value)?;
    let is_whole = objective.schedule == Schedule::None;
    let Some(known) = known else {
        let unit = if is_whole { "" } else { " microbatches" };
        return Some(format!("{batches:.4}{unit} per second"));
    };
    let known = ThroughputDocument { batches_per_s: batches, ..*known };
    Some(words(&known, if is_whole { "batches" } else { "microbatches" }))
}

/// Throughput in words: in samples and tokens per second if they are known, otherwise in batches, which `unit` names.
pub(super) fn words(known: &ThroughputDocument, unit: &str) -> String {
    let rates = [(known.samples_per_s, "samples"), (known.tokens_per_s, "tokens")];
    let words: Vec<String> = rates
        .iter()
        .filter_map(|&(rate, unit)| Some(format!("{} {unit} per second", figure(rate?))))
        .collect();
    match words.is_empty() {
        true => format!("{} {unit} per second", figure(known.batches_per_s)),
        false => words.join(", "),
    }
}

/// Formats a rate with enough digits to distinguish plans.
pub(super) fn figure(rate: f64) -> String {
    let digits = match rate {
        0.0..100.0 => 4,
        100.0..10_000.0 => 2,
        _ => 0,
    };
    format!("{rate:.digits$}")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use stagewright_core::document::{GRAPH_SCHEMA, GRAPH_SCHEMA_2};
    use stagewright_core::objective::{Objective, Throughput};

    use super::*;

    fn graph(schema: &str) -> GraphDocument {
        GraphDocument {
            schema: schema.into(),
            name: String::new(),
            operators: Vec::new(),
            tensors: Vec::new(),
            parameters: Vec::new(),
            cluster: None,
            batch: None,
            pipedream_skips: Vec::new(),
        }
    }

    fn of(samples: u64, tokens: Option<NonZeroU64>) -> Option<BatchDocument> {
        Some(BatchDocument { samples: NonZeroU64::new(samples)?, tokens })
    }

    fn said_of(
        objective: &Objective,
        value: f64,
        batch: Option<BatchDocument>,
        schema: &str,
    ) -> Option<String> {
        let objective = objective.to_document(Some(value));
        let known = throughput(&objective, value, batch, &graph(schema));
        rate(&objective, value, known.as_ref())
    }

    #[test]
    fn what_is_counted_is_what_is_known() {
        let plain = Objective::default();
        let samples = of(8, None);
        let tokens = of(8, NonZeroU64::new(128));
        let said = |batch, schema| said_of(&plain, 0.5, batch, schema).expect("a rate");
        assert_eq!(said(None, GRAPH_SCHEMA), "2.0000 per second");
        assert_eq!(said(None, GRAPH_SCHEMA_2), "2.0000 batches per second");
        assert_eq!(said(samples, GRAPH_SCHEMA), "16.0000 samples per second");
        assert_eq!(said(tokens, GRAPH_SCHEMA_2), "16.0000 samples per second, 2048.00 tokens per second");
    }

    #[test]
    fn an_iteration_runs_all_microbatches() {
        let schedule = Throughput { schedule: Schedule::OneFOneB, microbatches: 4, ..Throughput::default() };
        let batch = of(2, None);
        let said = |batch, schema| said_of(&schedule.into(), 2.0, batch, schema).expect("a rate");
        assert_eq!(said(None, GRAPH_SCHEMA), "2.0000 microbatches per second");
        assert_eq!(said(None, GRAPH_SCHEMA_2), "2.0000 microbatches per second");
        assert_eq!(said(batch, GRAPH_SCHEMA), "4.0000 samples per second");
    }

    #[test]
    fn a_step_has_no_rate() {
        let step = Objective::from(ObjectiveKind::Makespan);
        let batch = of(2, None);
        assert_eq!(said_of(&step, 2.0, batch, GRAPH_SCHEMA_2), None);
        assert_eq!(said_of(&Objective::default(), 0.0, batch, GRAPH_SCHEMA_2), None);
    }
}
