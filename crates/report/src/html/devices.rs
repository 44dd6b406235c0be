//! Load and memory of every device of a plan, as bars and as a table.

use std::fmt::Write;

use stagewright_core::document::{Communication, DeviceDocument, ObjectiveKind};
use stagewright_core::tolerance;

use super::Page;
use super::markup::{self, count, escape};
use super::names::visible;
use super::shell::Section;
use crate::table::{limit, replicated, share};
use crate::units;

/// Number of device colours; after that they repeat with a hatching.
const COLOURS: usize = 8;
/// Number of hatchings, the first of which is plain.
const HATCHINGS: usize = 5;

/// CSS classes for the colour of a device, by its index among the devices in use. After all combinations they
/// repeat, and only names distinguish the devices.
pub(super) fn colour(index: usize) -> String {
    format!("d{} h{}", index % COLOURS, index / COLOURS % HATCHINGS)
}

/// Devices section; `None` without a plan.
pub(super) fn section(page: &Page) -> Option<Section> {
    let devices = &page.document.devices;
    if devices.is_empty() {
        return None;
    }
    let objective = &page.document.objective;
    let of_step = objective.kind == ObjectiveKind::Makespan;
    let whole = if of_step {
        objective.value_s.unwrap_or(0.0)
    } else {
        devices.iter().map(|device| device.load_s).fold(0.0, f64::max)
    };
    // If communication overlaps with compute, consecutive bars would be misleading.
    let is_sum = !of_step && objective.communication == Communication::Serial;
    let mut markup = String::from("<h2 id=\"devices-title\">Devices</h2>\n");
    markup.push_str(if of_step {
        "<p class=\"lead\">Compute and communication of each device, relative to the whole step; and its peak \
         memory, relative to its capacity.</p>\n"
    } else {
        "<p class=\"lead\">Compute and communication of each device, relative to the heaviest; and its memory, \
         relative to its capacity.</p>\n"
    });
    markup.push_str(
        "<ul class=\"key\" aria-hidden=\"true\"><li><i class=\"swatch solid\"></i>compute</li>\
         <li><i class=\"swatch faint\"></i>communication</li><li><i class=\"swatch memory\"></i>memory</li></ul>\n\
         <div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Bars of all devices\">\n\
         <ul class=\"devices\">\n",
    );
    for (index, device) in devices.iter().enumerate() {
        row(&mut markup, page, index, device, whole, is_sum, of_step);
    }
    markup.push_str("</ul>\n</div>\n");
    markup.push_str(&figures(page, of_step));
    markup.push_str(&uplinks(page));
    Some(Section { id: "devices", title: "Devices", markup })
}

fn row(
    markup: &mut String,
    page: &Page,
    index: usize,
    device: &DeviceDocument,
    whole: f64,
    is_sum: bool,
    of_step: bool,
) {
    let long = |part: f64, whole: f64| 1000.0 * share(part, whole);
    let (compute, communication) = (long(device.compute_s, whole), long(device.communication_s, whole));
    let colour = colour(index);
    let work = if is_sum {
        format!(
            "<rect class=\"solid\" width=\"{compute:.1}\" height=\"10\"/>\
             <rect class=\"faint\" x=\"{compute:.1}\" width=\"{communication:.1}\" height=\"10\"/>"
        )
    } else {
        format!(
            "<rect class=\"solid\" width=\"{compute:.1}\" height=\"5.4\"/>\
             <rect class=\"faint\" y=\"5.4\" width=\"{communication:.1}\" height=\"4.6\"/>"
        )
    };
    let limit = limit(device, page.problem.cluster().document());
    let fits = limit.is_none_or(|limit| tolerance::fits(device.memory_bytes, limit));
    let held = limit.map_or(0.0, |limit| {
        // A device without memory has no free memory.
        if limit > 0.0 { long(device.memory_bytes, limit) } else { 1000.0 }
    });
    let limit_text = limit.map_or_else(|| "unlimited".into(), units::bytes);
    let name = escape(&visible(&replicated(&device.name, device.replicas)));
    let load = if of_step { device.compute_s } else { device.load_s };
    let over = if fits { "" } else { " <b>does not fit</b>" };
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        markup,
        "<li class=\"{colour}\"><span class=\"device\"><i class=\"chip\"></i><bdi>{name}</bdi></span>\
         <svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"compute {}, communication {}\">{work}</svg>\
         <span class=\"figure\">{}</span>\
         <svg class=\"bar memory\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"memory {} of {limit_text}\"><rect width=\"{held:.1}\" height=\"10\"/></svg>\
         <span class=\"figure\">{} <small>of {limit_text}</small>{over}</span></li>",
        units::seconds(device.compute_s),
        units::seconds(device.communication_s),
        markup::seconds(load),
        units::bytes(device.memory_bytes),
        markup::bytes(device.memory_bytes),
    );
}

/// Table of all figures.
fn figures(page: &Page, of_step: bool) -> String {
    let whole = page.document.objective.value_s.filter(|_| of_step);
    let first = if of_step { "utilisation" } else { "load" };
    let memory = if of_step { "peak memory" } else { "memory" };
    let mut text = format!(
        "<details class=\"all\"><summary>All figures as a table</summary>\n\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figures of all devices\">\n\
         <table id=\"device-table\"><caption class=\"hidden\">Figures of all devices</caption><thead><tr>\
         <th scope=\"col\">device</th><th scope=\"col\" class=\"word\">kind</th><th scope=\"col\">{first}</th>\
         <th scope=\"col\">compute</th><th scope=\"col\">communication</th><th scope=\"col\">{memory}</th>\
         <th scope=\"col\">of</th><th scope=\"col\">operators</th></tr></thead><tbody>\n"
    );
    for device in &page.document.devices {
        let first = match whole {
            Some(whole) => markup::percent(share(device.compute_s, whole)),
            None => markup::seconds(device.load_s),
        };
        let limit = limit(device, page.problem.cluster().document());
        let limit = limit.map_or_else(|| "unlimited".into(), markup::bytes);
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\"><bdi>{}</bdi></th><td class=\"word\"><bdi>{}</bdi></td><td>{first}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{limit}</td><td>{}</td></tr>",
            escape(&visible(&replicated(&device.name, device.replicas))),
            escape(&visible(&device.kind)),
            markup::seconds(device.compute_s),
            markup::seconds(device.communication_s),
            markup::bytes(device.memory_bytes),
            count(device.ops.len()),
        );
    }
    text.push_str("</tbody></table></div></details>\n");
    text
}

/// Table of group uplinks, empty without uplinks.
fn uplinks(page: &Page) -> String {
    let uplinks = &page.document.uplinks;
    if uplinks.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"scroll\"><table class=\"narrow\"><caption>Uplinks of groups</caption><thead><tr>\
         <th scope=\"col\">group</th><th scope=\"col\">load</th></tr></thead><tbody>\n",
    );
    for uplink in uplinks {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\"><bdi>{}</bdi></th><td>{}</td></tr>",
            escape(&visible(&uplink.group)),
            markup::seconds(uplink.load_s)
        );
    }
    text.push_str("</tbody></table></div>\n");
    text
}
