//! The stages: devices, layers, and time and memory by part, as bars and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use stagewright_core::document::{JointStageDocument, Schedule};
use stagewright_core::tolerance;

use super::JointPage;
use super::layers::ends;
use super::parts::{self, MEMORY, backward};
use crate::html::bars::{Part, Parts, mark, room};
use crate::html::markup::{self, count, escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::joint::{limit, pipeline_devices};
use crate::table::share;
use crate::units;

/// Maximum number of configurations that are named for a stage.
const NAMED: usize = 4;

/// Context of all rows of the section.
struct Stages<'a> {
    page: &'a JointPage<'a>,
    seconds: Parts,
    bytes: Parts,
    limits: Vec<Option<f64>>,
    devices: usize,
}

/// Stages section; `None` without a plan.
pub(super) fn section(page: &JointPage) -> Option<Section> {
    let plan = page.document;
    if plan.stages.is_empty() {
        return None;
    }
    let stages = Stages {
        page,
        seconds: parts::seconds(page),
        bytes: parts::bytes(page),
        limits: plan.stages.iter().map(|stage| limit(plan, stage)).collect(),
        devices: pipeline_devices(plan),
    };
    let what = if plan.execution.is_some() { "Time of a microbatch" } else { "Time per sample" };
    let marked = match stages.limits.iter().any(Option::is_some) {
        true => ", with a mark at what it may use",
        false => "",
    };
    let mut text = format!(
        "<h2 id=\"stages-title\">Stages</h2>\n<p class=\"lead\">{what} on every stage, relative to the slowest; and memory \
         of one of its devices{marked}.</p>\n\
         {}{}\
         <div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Bars of all stages\">\n\
         <ul class=\"devices stages\">\n",
        stages.seconds.key("time"),
        stages.bytes.key("memory")
    );
    stages.rows(&mut text);
    text.push_str("</ul>\n</div>\n<details class=\"all\"><summary>All figures as a table</summary>\n");
    text.push_str(&stages.table());
    text.push_str("</details>\n");
    Some(Section { id: "stages", title: "Stages", markup: text })
}

impl Stages<'_> {
    fn documents(&self) -> &[JointStageDocument] {
        &self.page.document.stages
    }

    fn rows(&self, text: &mut String) {
        let finite = |figures: &mut dyn Iterator<Item = f64>| {
            figures.filter(|figure| figure.is_finite()).fold(0.0, f64::max)
        };
        let slowest = finite(&mut self.documents().iter().map(|stage| stage.seconds));
        let in_use = self.documents().iter().map(|stage| stage.memory_bytes);
        let largest = finite(&mut in_use.chain(self.limits.iter().flatten().copied()));
        for (index, stage) in self.documents().iter().enumerate() {
            let limit = self.limits[index];
            let fits = limit.is_none_or(|limit| tolerance::fits(stage.memory_bytes, limit));
            let of_limit = limit.map(|limit| format!(" <small>of {}</small>", units::bytes(limit)));
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "<li><span class=\"stage\">stage {index} <small>{}</small></span>\
                 <span class=\"layers\">{} <small>{}</small></span>\
                 <svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
                 aria-label=\"time: {}\">{}</svg>\
                 <span class=\"figure\">{}</span>\
                 <svg class=\"bar memory\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
                 aria-label=\"memory: {}\">{}{}{}</svg>\
                 <span class=\"figure\">{}{}{}</span></li>",
                self.place(index, stage),
                ends(&stage.layers),
                configurations(stage),
                self.seconds.words(index, units::seconds),
                self.seconds.bar(index, slowest, units::seconds),
                markup::seconds(stage.seconds),
                self.bytes.words(index, units::bytes),
                room(limit.map_or(1.0, |limit| share(limit, largest))),
                self.bytes.bar(index, largest, units::bytes),
                limit.map(|limit| mark(share(limit, largest))).unwrap_or_default(),
                markup::bytes(stage.memory_bytes),
                of_limit.unwrap_or_default(),
                if fits { "" } else { " <b>does not fit</b>" },
            );
        }
    }

    /// Device of a stage in its pipeline.
    fn device(&self, index: usize) -> usize {
        let execution = self.page.document.execution.as_ref();
        let schedule = execution.map_or(Schedule::OneFOneB, |execution| execution.schedule);
        schedule.device(index, self.devices)
    }

    /// Place of a stage: its device of the pipeline, if there is more than one, its kind and its degrees.
    fn place(&self, index: usize, stage: &JointStageDocument) -> String {
        let mut parts = Vec::new();
        if self.devices < self.documents().len() {
            parts.push(format!("device {}", self.device(index)));
        }
        parts.extend(stage.place().map(|kind| format!("<bdi>{}</bdi>", escape(&visible(&kind)))));
        let context = match &self.page.document.execution {
            Some(execution) if execution.context > 1 => format!(" ×\u{a0}cp\u{a0}{}", execution.context),
            _ => String::new(),
        };
        parts.push(format!("tp\u{a0}{}{context} ×\u{a0}dp\u{a0}{}", stage.tensor, stage.data));
        parts.join(", ")
    }

    /// Table of all figures.
    fn table(&self) -> String {
        let stages = self.documents();
        let mut columns: Vec<(&str, bool, Vec<String>)> = Vec::new();
        let mut add = |name, is_word, cell: &dyn Fn(usize, &JointStageDocument) -> String| {
            let cells = stages.iter().enumerate().map(|(index, stage)| cell(index, stage));
            columns.push((name, is_word, cells.collect()));
        };
        add("stage", false, &|index, _| index.to_string());
        add("device", false, &|index, _| self.device(index).to_string());
        if stages.iter().any(|stage| stage.place().is_some()) {
            add("kind", true, &|_, stage| {
                format!("<bdi>{}</bdi>", escape(&visible(&stage.place().unwrap_or_default())))
            });
        }
        add("tp", false, &|_, stage| stage.tensor.to_string());
        add("dp", false, &|_, stage| stage.data.to_string());
        add("layers", false, &|_, stage| count(stage.layers.len()));
        add("in flight", false, &|_, stage| stage.in_flight.to_string());
        add("time", false, &|_, stage| markup::seconds(stage.seconds));
        let optional = |figure: Option<f64>| figure.map(markup::seconds).unwrap_or_default();
        if stages.iter().any(|stage| stage.forward_s.is_some()) {
            add("forward", false, &|_, stage| optional(stage.forward_s));
            add("backward", false, &|_, stage| markup::seconds(backward(stage)));
            add("weight gradients", false, &|_, stage| optional(stage.weight_s));
            add("update", false, &|_, stage| optional(stage.update_s));
        }
        if self.page.parts.is_some() {
            for Part { name, figures, .. } in &self.seconds.0 {
                add(name, false, &|index, _| markup::seconds(figures[index]));
            }
        }
        add("memory", false, &|_, stage| markup::bytes(stage.memory_bytes));
        add("of", false, &|index, _| self.limits[index].map(markup::bytes).unwrap_or_default());
        for Part { name, figures, .. } in self.bytes.0.iter().filter(|part| part.name != MEMORY) {
            add(name, false, &|index, _| markup::bytes(figures[index]));
        }
        if stages.iter().any(|stage| stage.host_bytes.is_some()) {
            add("host's memory", false, &|_, stage| stage.host_bytes.map(markup::bytes).unwrap_or_default());
        }
        let heads: Vec<(&str, bool)> = columns.iter().map(|&(name, is_word, _)| (name, is_word)).collect();
        let row = |index: usize| columns.iter().map(|column| column.2[index].clone()).collect();
        table("stage-table", "Figures of all stages", &heads, (0..stages.len()).map(row))
    }
}

/// Number of layers, in total and with each configuration.
fn configurations(stage: &JointStageDocument) -> String {
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    for layer in &stage.layers {
        *number.entry(&layer.configuration).or_default() += 1;
    }
    let named = number.iter().take(NAMED).map(|(name, &layers)| {
        let layers = match number.len() {
            1 if layers == 1 => String::new(),
            1 => "all ".into(),
            _ => format!("{} ", count(layers)),
        };
        format!("{layers}<bdi>{}</bdi>", escape(&visible(name)))
    });
    let mut parts: Vec<String> = named.collect();
    if number.len() > NAMED {
        parts.push(format!("{} other configurations", count(number.len() - NAMED)));
    }
    match stage.layers.len() {
        0 => String::new(),
        1 => format!("1 layer: {}", parts.join(", ")),
        layers => format!("{} layers: {}", count(layers), parts.join(", ")),
    }
}
