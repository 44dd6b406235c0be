//! The replicas of a plan, a row for every stage: its layers as a part of the model, and the memory of a device.

use std::fmt::Write;

use stagewright_core::document::{ReplicaDocument, ServingPlanDocument, ServingStageDocument};

use super::{ServingPage, StageMemory, colour_of};
use crate::html::bars::{Part, Parts, room};
use crate::html::markup::{self, escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::serving::{degrees, kind, rate, several};
use crate::table::share;
use crate::units;

/// Maximum number of stages that are drawn.
const MOST: usize = 512;

/// Section of replicas.
pub(super) fn section(page: &ServingPage) -> Section {
    let plan = page.document;
    let memories: Vec<Option<StageMemory>> = plan
        .replicas
        .iter()
        .enumerate()
        .flat_map(|(index, replica)| {
            (0..replica.stages.len()).map(move |stage| page.memory.get(index)?.get(stage).copied())
        })
        .collect();
    let bytes = |of_stage: fn(&StageMemory) -> f64| {
        memories.iter().map(|memory| memory.as_ref().map_or(0.0, of_stage)).collect()
    };
    let bytes = Parts::new([
        Part { name: "weights", colour: "d4", figures: bytes(|memory| memory.weights) },
        Part { name: "caches", colour: "d5", figures: bytes(|memory| memory.caches) },
    ]);
    let memory = match page.memory.is_empty() {
        true => "",
        false => {
            " Memory is that of a device, with the caches of a full batch, on the part that the engine uses."
        }
    };
    let mut markup = format!(
        "<h2 id=\"replicas-title\">Replicas</h2>\n<p class=\"lead\">Every stage with its layers in the model, coloured by the \
         kind of its devices.{memory}</p>\n{}{}",
        kinds(plan),
        bytes.key("memory")
    );
    let mut first = 0;
    for (index, replica) in plan.replicas.iter().enumerate() {
        let _ = writeln!(markup, "<h3 class=\"replica\">{}</h3>", head(page, index, replica));
        markup.push_str("<ul class=\"devices stages\">\n");
        let rows = first..first + replica.stages.len();
        for (row, stage) in rows.zip(&replica.stages).take_while(|(row, _)| *row < MOST) {
            let memory = memories[row].map(|memory| (memory, &bytes, row));
            markup.push_str(&drawn(plan, replica, stage, memory));
        }
        first += replica.stages.len();
        markup.push_str("</ul>\n");
    }
    markup.push_str("<details class=\"all\"><summary>All figures as a table</summary>\n");
    markup.push_str(&figures(plan));
    markup.push_str("</details>\n");
    Section { id: "replicas", title: "Replicas", markup }
}

/// Kinds in use with their colours.
fn kinds(plan: &ServingPlanDocument) -> String {
    let is_used =
        |name: &str| plan.replicas.iter().flat_map(|replica| &replica.stages).any(|stage| stage.kind == name);
    let used = plan.cluster.kinds.iter().filter(|kind| is_used(&kind.name));
    let items = used.map(|used| {
        let name = escape(&visible(kind(&used.name, &plan.cluster)));
        format!("<li><i class=\"chip {}\"></i><bdi>{name}</bdi></li>", colour_of(plan, &used.name))
    });
    format!("<ul class=\"key\" aria-hidden=\"true\"><li>kinds:</li>{}</ul>\n", items.collect::<String>())
}

/// Number and role of a replica, and what one serves.
fn head(page: &ServingPage, index: usize, replica: &ReplicaDocument) -> String {
    let several = page.document.question.classes.len() > 1;
    let mut words: Vec<String> = several.then(|| format!("class {}", replica.class)).into_iter().collect();
    words.push(format!("{} requests/s each", rate(replica.requests_per_s)));
    words.extend((replica.batch > 0).then(|| format!("batch {}", replica.batch)));
    words.extend(replica.ttft_s.map(|ttft| format!("TTFT {}", units::seconds(ttft))));
    words.extend(replica.tpot_s.map(|tpot| format!("TPOT {}", units::seconds(tpot))));
    let busy = replica.utilisation.map(|busy| format!("reads prompts {} of the time", units::percent(busy)));
    words.extend(busy);
    let binds = page.explained.and_then(|explained| explained.binds.get(index));
    words.extend(binds.map(|binds| format!("bound by {}", binds.join(", "))));
    format!("{} × {} <small>{}</small>", replica.count, replica.role.name(), escape(&words.join(", ")))
}

/// The row of a stage.
fn drawn(
    plan: &ServingPlanDocument,
    replica: &ReplicaDocument,
    stage: &ServingStageDocument,
    memory: Option<(StageMemory, &Parts, usize)>,
) -> String {
    let end = |stage: &ServingStageDocument| f64::from(stage.first) + f64::from(stage.layers);
    let whole = replica.stages.iter().map(end).fold(0.0, f64::max);
    let layers = layers(stage);
    let (bar, figure) = memory.map_or_else(Default::default, |(memory, bytes, row)| {
        let used = memory.weights + memory.caches;
        let whole = used.max(memory.memory);
        (
            format!(
                "<svg class=\"bar memory\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
                 aria-label=\"memory: {}\">{}{}</svg>",
                bytes.words(row, units::bytes),
                room(share(memory.weights + memory.room.max(0.0), whole)),
                bytes.bar(row, whole, units::bytes)
            ),
            format!("{} <small>of {}</small>", markup::bytes(used), units::bytes(memory.memory)),
        )
    });
    format!(
        "<li><span class=\"stage\"><i class=\"chip {colour}\"></i> <bdi>{}</bdi> <small>{}, {}</small></span>\
         <span class=\"layers\">{layers}</span>\
         <svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{layers}\">\
         <rect class=\"{colour}\" x=\"{:.1}\" width=\"{:.1}\" height=\"10\"/></svg>\
         <span class=\"figure\">{} <small>{}</small></span>{bar}<span class=\"figure\">{figure}</span></li>\n",
        escape(&visible(kind(&stage.kind, &plan.cluster))),
        degrees(stage),
        several(stage.tensor.saturating_mul(stage.data), "device"),
        1000.0 * share(f64::from(stage.first), whole),
        1000.0 * share(f64::from(stage.layers), whole),
        stage.layers,
        if stage.layers == 1 { "layer" } else { "layers" },
        colour = colour_of(plan, &stage.kind),
    )
}

/// Layers of a stage in words.
fn layers(stage: &ServingStageDocument) -> String {
    let last = u64::from(stage.first) + u64::from(stage.layers).saturating_sub(1);
    if last == u64::from(stage.first) {
        format!("layer {last}")
    } else {
        format!("layers {} to {last}", stage.first)
    }
}

/// Table of all replicas.
fn figures(plan: &ServingPlanDocument) -> String {
    let columns = [
        ("replicas", false),
        ("role", true),
        ("class", false),
        ("stages", true),
        ("batch", false),
        ("requests/s", false),
        ("TTFT", false),
        ("TPOT", false),
        ("tokens in caches", false),
    ];
    let seconds = |time: Option<f64>| time.map_or_else(String::new, markup::seconds);
    let rows = plan.replicas.iter().map(|replica| {
        vec![
            replica.count.to_string(),
            replica.role.name().to_owned(),
            replica.class.to_string(),
            format!("<bdi>{}</bdi>", escape(&visible(&crate::serving::stages(replica, &plan.cluster)))),
            if replica.batch == 0 { String::new() } else { replica.batch.to_string() },
            escape(&rate(replica.requests_per_s)),
            seconds(replica.ttft_s),
            seconds(replica.tpot_s),
            replica.cache_tokens.to_string(),
        ]
    });
    table("replica-table", "Replicas and what one of each serves", &columns, rows)
}
