//! Serving plans in words.

use stagewright_core::document::{
    ClusterDocument, ReplicaDocument, ServingGoal, ServingQuestionDocument, ServingStageDocument,
};

use crate::units::{percent, seconds};

/// A value of a goal.
pub fn amount(goal: ServingGoal, value: f64) -> String {
    // Never shown as minus zero.
    let value = value + 0.0;
    match goal {
        ServingGoal::Throughput => format!("{} requests/s", rate(value)),
        // With a price of weights, numbers of devices are not whole.
        ServingGoal::Devices if (value - value.round()).abs() > 1e-6 => format!("{value:.3} devices"),
        ServingGoal::Devices => format!("{value:.0} devices"),
        ServingGoal::Price => format!("{value:.2} an hour"),
        ServingGoal::Cache => format!("{value:.0} tokens"),
    }
}

/// Requests a second in three digits at least; 0 of what is left by rounding.
pub fn rate(value: f64) -> String {
    if value.abs() < 1e-9 || value.abs() >= 0.1 { format!("{value:.3}") } else { format!("{value:.2e}") }
}

/// The question in words.
pub fn asked(question: &ServingQuestionDocument) -> String {
    let classes = question.classes.iter().map(|class| {
        let prefix = match class.shared_prefix {
            0 => String::new(),
            tokens => format!(" ({tokens} cached)"),
        };
        let share =
            if question.classes.len() > 1 { format!(", {}", percent(class.share)) } else { String::new() };
        format!("{}{prefix} to {}{share}", class.input, class.output)
    });
    let load = question.concurrency.map(|requests| format!("; {requests} in flight"));
    let rate = question.rate.map(|rate| format!("; {rate} a second"));
    let limited = if question.limits.is_mean() { "" } else { "p95 " };
    let ttft = question.ttft_s.map(|limit| format!("; {limited}TTFT {}", seconds(limit)));
    let tpot = question.tpot_s.map(|limit| format!("; {limited}TPOT {}", seconds(limit)));
    let rest: String = [load, rate, ttft, tpot].into_iter().flatten().collect();
    format!("{} tokens{rest}", classes.collect::<Vec<_>>().join("; "))
}

/// Name of a kind for display: its class, unless several kinds have that.
pub fn kind<'c>(name: &'c str, cluster: &'c ClusterDocument) -> &'c str {
    let class = cluster.kinds.iter().find(|kind| kind.name == name).map(|kind| kind.class.as_str());
    let is_alone = |class: &&str| cluster.kinds.iter().filter(|kind| kind.class == **class).count() == 1;
    class.filter(is_alone).unwrap_or(name)
}

/// Degrees of a stage in short.
pub fn degrees(stage: &ServingStageDocument) -> String {
    let data = if stage.data > 1 { format!(" dp{}", stage.data) } else { String::new() };
    let experts = if stage.experts > 1 { format!(" ep{}", stage.experts) } else { String::new() };
    format!("tp{}{data}{experts}", stage.tensor)
}

/// Stages in short, equal neighbours together.
pub fn stages(replica: &ReplicaDocument, cluster: &ClusterDocument) -> String {
    let degrees =
        |stage: &ServingStageDocument| format!("{} {}", kind(&stage.kind, cluster), self::degrees(stage));
    let [only] = &replica.stages[..] else {
        let alike = |left: &ServingStageDocument, right: &ServingStageDocument| {
            (&left.kind, left.tensor, left.layers) == (&right.kind, right.tensor, right.layers)
        };
        let runs = replica.stages.chunk_by(alike).map(|run| {
            let times = if run.len() > 1 { format!("{} of ", run.len()) } else { String::new() };
            format!("{times}{} ({} layers)", degrees(&run[0]), run[0].layers)
        });
        return runs.collect::<Vec<_>>().join(" > ");
    };
    degrees(only)
}

/// Devices of one of the replicas.
pub fn devices(replica: &ReplicaDocument) -> u64 {
    let stages = replica.stages.iter().map(|stage| stage.tensor.saturating_mul(stage.data));
    stages.fold(0, u64::saturating_add)
}

/// A number of things: `1 replica`, `2 replicas`.
pub fn several(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}
