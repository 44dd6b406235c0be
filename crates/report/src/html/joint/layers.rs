//! The layers of every stage, and their configurations.

use std::fmt::Write;

use stagewright_core::document::JointLayerDocument;

use super::JointPage;
use crate::html::markup::{count, escape, table};
use crate::html::names::visible;
use crate::html::shell::Section;

/// Layers section; `None` without a plan.
pub(super) fn section(page: &JointPage) -> Option<Section> {
    let stages = &page.document.stages;
    if stages.is_empty() {
        return None;
    }
    let runs = stages.iter().enumerate().flat_map(|(stage, document)| {
        document.layers.chunk_by(alike).map(move |run| {
            let configuration = format!("<bdi>{}</bdi>", escape(&visible(&run[0].configuration)));
            vec![stage.to_string(), names(run), configuration, count(run.len())]
        })
    });
    let mut markup = String::from(
        "<h2 id=\"layers-title\">Layers</h2>\n<p class=\"lead\">The layers of every stage in the order of the forward \
         pass. Layers of a stack that follow each other with one configuration share a row.</p>\n",
    );
    let columns = [("stage", false), ("layers", true), ("configuration", true), ("number", false)];
    markup.push_str(&table("layer-table", "Layers and their configurations", &columns, runs));
    Some(Section { id: "layers", title: "Layers", markup })
}

/// A name without the number at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|character: char| character.is_ascii_digit())
}

/// Whether two layers differ only in the number at the end of the name.
fn alike(left: &JointLayerDocument, right: &JointLayerDocument) -> bool {
    left.configuration == right.configuration && stem(&left.layer) == stem(&right.layer)
}

fn name(layer: &str) -> String {
    format!("<bdi>{}</bdi>", escape(&visible(layer)))
}

/// The range from the first layer to the last. The last is given by its number alone if the names differ only in the
/// number at the end.
pub(super) fn ends(layers: &[JointLayerDocument]) -> String {
    match layers {
        [] => "no layers".into(),
        [only] => name(&only.layer),
        [first, .., last] => {
            let stem = stem(&first.layer);
            let number = last
                .layer
                .strip_prefix(stem)
                .filter(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
            format!("{} to {}", name(&first.layer), name(number.unwrap_or(&last.layer)))
        }
    }
}

/// The ends of a run of layers, which expand to the names of all its layers.
fn names(run: &[JointLayerDocument]) -> String {
    if run.len() == 1 {
        return ends(run);
    }
    let mut text = format!("<details><summary>{}</summary><ul>", ends(run));
    for layer in run {
        // Writing to a string cannot fail.
        let _ = write!(text, "<li>{}</li>", name(&layer.layer));
    }
    text.push_str("</ul></details>");
    text
}
