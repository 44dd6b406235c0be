//! Memory and time of the host and of every device, as bars and as a table.

use std::fmt::Write;

use stagewright_core::document::{LocalMemoryDocument, LocalSettingDocument};

use super::{LocalPage, memories};
use crate::html::bars::{Part, Parts, mark, room};
use crate::html::markup::{self, escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::local::{LocalTimes, layers};
use crate::table::share;
use crate::units;

/// Name and colour of a purpose, and its bytes.
type Purpose = (&'static str, &'static str, fn(&LocalMemoryDocument) -> u64);

/// In colours that the first four devices do not have.
const PURPOSES: [Purpose; 4] = [
    ("weights", "d4", |memory| memory.weights),
    ("cache", "d5", |memory| memory.cache),
    ("compute", "d6", |memory| memory.compute),
    ("other", "d7", |memory| memory.other),
];

/// Section of memories.
pub(super) fn section(page: &LocalPage, setting: &LocalSettingDocument) -> Section {
    let memories = memories(setting);
    let bytes = Parts::new(PURPOSES.map(|(name, colour, bytes)| Part {
        name,
        colour,
        figures: memories.iter().map(|(memory, _)| bytes(memory) as f64).collect(),
    }));
    let time = match page.times {
        Some(_) => "Seconds of a token on every device and on the host, relative to the whole; and memory",
        None => "Memory",
    };
    let mut markup = format!(
        "<h2 id=\"memory-title\">Memory and time</h2>\n<p class=\"lead\">{time} by purpose, relative to what is free before \
         llama.cpp starts.</p>\n\
         {}<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Bars of all memories\">\n\
         <ul class=\"devices stages\">\n",
        bytes.key("memory")
    );
    for (index, (memory, colour)) in memories.iter().enumerate() {
        row(&mut markup, index, memory, colour, setting, &bytes, page.times);
    }
    markup.push_str("</ul>\n</div>\n<details class=\"all\"><summary>All figures as a table</summary>\n");
    markup.push_str(&figures(&memories, setting, page.times));
    markup.push_str("</details>\n");
    Section { id: "memory", title: "Memory and time", markup }
}

/// Seconds of a token of the memory at an index, of which the host is the first.
fn seconds(times: &LocalTimes, index: usize) -> f64 {
    match index.checked_sub(1) {
        None => times.host,
        Some(device) => times.devices.get(device).copied().unwrap_or(0.0),
    }
}

fn row(
    text: &mut String,
    index: usize,
    memory: &LocalMemoryDocument,
    colour: &str,
    setting: &LocalSettingDocument,
    bytes: &Parts,
    times: Option<&LocalTimes>,
) {
    let (total, limit) = (memory.total() as f64, memory.memory as f64);
    let whole = total.max(limit);
    let fits = memory.total() <= memory.memory;
    let (bar, figure) = match times {
        None => Default::default(),
        Some(times) => {
            let own = seconds(times, index);
            let long = 1000.0 * share(own, times.total());
            (
                format!(
                    "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
                     aria-label=\"time: {}\"><rect class=\"{colour}\" width=\"{long:.1}\" height=\"10\"/></svg>",
                    escape(&units::seconds(own))
                ),
                markup::seconds(own),
            )
        }
    };
    let free = memory.memory.saturating_sub(memory.total()) as f64;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<li><span class=\"stage\"><i class=\"chip {colour}\"></i> <bdi>{}</bdi> <small><bdi>{}</bdi></small></span>\
         <span class=\"layers\">{}</span>{bar}<span class=\"figure\">{figure}</span>\
         <svg class=\"bar memory\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"memory: {}, free {}\">{}{}{}</svg>\
         <span class=\"figure\">{} <small>of {}</small>{}</span></li>",
        escape(&visible(&memory.name)),
        escape(&visible(&memory.kind)),
        layers(memory, setting.blocks),
        bytes.words(index, units::bytes),
        units::bytes(free),
        room(share(limit, whole)),
        bytes.bar(index, whole, units::bytes),
        if fits { String::new() } else { mark(share(limit, whole)) },
        markup::bytes(total),
        units::bytes(limit),
        if fits { "" } else { " <b>does not fit</b>" },
    );
}

/// Table of all figures.
fn figures(
    memories: &[(&LocalMemoryDocument, String)],
    setting: &LocalSettingDocument,
    times: Option<&LocalTimes>,
) -> String {
    let columns = [
        ("memory", true),
        ("kind", true),
        ("layers", true),
        ("of a token", false),
        ("share", false),
        ("weights", false),
        ("cache", false),
        ("compute", false),
        ("other", false),
        ("in use", false),
        ("free", false),
        ("of", false),
    ];
    let of_token = |own: fn(&LocalTimes, usize) -> f64, index: usize| match times {
        None => [String::new(), String::new()],
        Some(times) => {
            let own = own(times, index);
            [markup::seconds(own), markup::percent(share(own, times.total()))]
        }
    };
    let name = |name: &str| format!("<bdi>{}</bdi>", escape(&visible(name)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, (memory, _)) in memories.iter().enumerate() {
        let mut row = vec![name(&memory.name), name(&memory.kind), layers(memory, setting.blocks)];
        row.extend(of_token(seconds, index));
        row.extend(PURPOSES.iter().map(|(_, _, bytes)| markup::bytes(bytes(memory) as f64)));
        let free = memory.memory.saturating_sub(memory.total());
        row.extend([memory.total(), free, memory.memory].map(|bytes| markup::bytes(bytes as f64)));
        rows.push(row);
    }
    if times.is_some() {
        let mut row = vec!["ways between".to_owned(), String::new(), String::new()];
        row.extend(of_token(|times, _| times.ways, 0));
        row.resize(columns.len(), String::new());
        rows.push(row);
    }
    table("memory-table", "Memory and time of a token", &columns, rows)
}
