//! The layers by device, a block each, with marks for projections that are elsewhere.

use std::fmt::Write;

use stagewright_core::document::{LocalOverrideDocument, LocalSettingDocument};

use super::memories;
use crate::html::markup::{escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;

/// Maximum number of layers that are drawn.
const MOST: u64 = 2048;

/// Layers section.
pub(super) fn section(setting: &LocalSettingDocument) -> Section {
    let mut markup = String::from(
        "<h2 id=\"layers-title\">Layers</h2>\n<p class=\"lead\">The layers in the order of the forward pass, then the \
         output, coloured by where they are.",
    );
    if !setting.overrides.is_empty() {
        markup.push_str(" The lower part of a block is where some of its projections are.");
    }
    markup.push_str("</p>\n");
    if setting.blocks <= MOST {
        markup.push_str(&key(setting));
        markup.push_str(&blocks(setting));
    }
    if !setting.overrides.is_empty() {
        let columns = [("projections", true), ("on", true), ("layers", true)];
        let rows = setting.overrides.iter().map(|moved| {
            let modules = moved.modules.iter().map(|module| name(module)).collect::<Vec<_>>();
            vec![modules.join(", "), name(&moved.target), ranges(&moved.blocks)]
        });
        markup.push_str(&table("override-table", "Projections elsewhere than their layer", &columns, rows));
    }
    Section { id: "layers", title: "Layers", markup }
}

fn key(setting: &LocalSettingDocument) -> String {
    let items = memories(setting)
        .into_iter()
        .map(|(memory, colour)| format!("<li><i class=\"chip {colour}\"></i>{}</li>", name(&memory.name)));
    format!("<ul class=\"key\" aria-hidden=\"true\">{}</ul>\n", items.collect::<String>())
}

/// The blocks. The tables have the same in words, so that they are hidden from screen readers.
fn blocks(setting: &LocalSettingDocument) -> String {
    let mut text = String::from("<ol class=\"blocks\" aria-hidden=\"true\">\n");
    let memories = memories(setting);
    for slot in 0..=setting.blocks {
        let is_output = slot == setting.blocks;
        let holds = |slots: [u64; 2]| (slots[0]..slots[1]).contains(&slot);
        let Some((memory, colour)) = memories.iter().find(|(memory, _)| holds(memory.slots)) else {
            continue;
        };
        let title = if is_output { "output".to_owned() } else { format!("layer {slot}") };
        let mut title = format!("{title} on {}", visible(&memory.name));
        let mut marks = String::new();
        for LocalOverrideDocument { modules, target, .. } in
            setting.overrides.iter().filter(|moved| moved.blocks.contains(&slot))
        {
            let colour = memories.iter().find(|(memory, _)| memory.name == *target);
            let colour = colour.map_or("rest", |(_, colour)| colour.as_str());
            // Writing to a string cannot fail, here and below.
            let _ = write!(marks, "<i class=\"{colour}\"></i>");
            let _ = write!(title, "; {} on {}", visible(&modules.join(", ")), visible(target));
        }
        let output = if is_output { " output" } else { "" };
        let _ = writeln!(text, "<li class=\"{colour}{output}\" title=\"{}\">{marks}</li>", escape(&title));
    }
    text.push_str("</ol>\n");
    text
}

fn name(name: &str) -> String {
    format!("<bdi>{}</bdi>", escape(&visible(name)))
}

/// Layers in words: `0 to 5, 7, 8`.
fn ranges(layers: &[u64]) -> String {
    let runs = layers.chunk_by(|left, right| left.checked_add(1) == Some(*right));
    let words = runs.map(|run| match run {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    });
    words.collect::<Vec<_>>().join(", ")
}
