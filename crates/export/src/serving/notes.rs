//! Usage notes that several targets give.

use stagewright_core::text::visible;
use stagewright_core::units::seconds;

use super::plan::Serving;
use crate::Export;

/// A text with the notes that hold for every engine: version, times, lengths, drafts, weights, shares.
///
/// `version` is the program with the version that its notation is from.
pub(super) fn noted(plan: &Serving, text: String, version: &str) -> Export {
    let export = Export::new(text).note(format!("for {version}")).also(predicted(plan)).note(lengths(plan));
    export.also(drafts(plan)).also(weights(plan)).also(model(plan)).also(shares(plan))
}

/// A text with the predicted rate and times alone.
pub(super) fn with_times(plan: &Serving, text: String) -> Export {
    Export::new(text).also(predicted(plan))
}

/// The predicted rate and times.
fn predicted(plan: &Serving) -> Option<String> {
    let rate = plan.document.requests_per_s?;
    let largest = |times: Vec<f64>| times.into_iter().reduce(f64::max);
    let first = largest(plan.replicas.iter().filter_map(|replica| replica.document.ttft_s).collect());
    let next = largest(plan.replicas.iter().filter_map(|replica| replica.document.tpot_s).collect());
    let mut parts = vec![format!("{rate:.4} requests/s")];
    parts.extend(first.map(|time| format!("{} to the first token", seconds(time))));
    parts.extend(next.map(|time| format!("{} between tokens", seconds(time))));
    Some(format!("predicted: {}", parts.join(", ")))
}

/// Lengths of requests.
fn lengths(plan: &Serving) -> String {
    let classes = plan.classes().into_iter().filter_map(|class| {
        let found = plan.question().classes.get(class as usize)?;
        Some(format!("{} + {} tokens (class {class})", found.input, found.output))
    });
    let classes: Vec<String> = classes.collect();
    format!(
        "replicas are for requests of {}: longer ones need other limits and more cache",
        classes.join(", ")
    )
}

/// Speculative decoding, whose method a plan does not name.
fn drafts(plan: &Serving) -> Option<String> {
    plan.question().speculation.map(|speculation| {
        format!(
            "the plan counts on {} drafts a step, accepted with probability {}, and does not name their method: add the \
             engine's options for it",
            speculation.drafts, speculation.acceptance
        )
    })
}

/// Precision that weights were cast to.
fn weights(plan: &Serving) -> Option<String> {
    let precision = plan.document.options.as_ref()?.precision?;
    Some(format!("the plan is for weights in {}: serve such a checkpoint", precision.name()))
}

/// The model that the placeholder stands for.
fn model(plan: &Serving) -> Option<String> {
    let name = plan.document.model.as_str();
    (visible(name) != name || name.is_empty()).then(|| format!("put the model `{}` for MODEL", visible(name)))
}

/// Shares of requests, which routers do not take from this text.
fn shares(plan: &Serving) -> Option<String> {
    let is_uneven = plan.replicas.iter().any(|replica| {
        plan.replicas.iter().any(|other| {
            let (replica, other) = (replica.document, other.document);
            (replica.class, replica.role) == (other.class, other.role)
                && replica.requests_per_s != other.requests_per_s
        })
    });
    is_uneven.then(|| "replicas take different shares of requests: `--to router-weights` has them".to_owned())
}
