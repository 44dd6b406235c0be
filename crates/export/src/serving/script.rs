//! A shell script that starts the copies of a plan on each server.
//!
//! Servers are numbered by kind. The script runs on every server with its number, and with `router` where requests arrive; a
//! cluster of a single server needs no number. With several servers, their addresses are in the environment.

use stagewright_core::text::{quoted_word, visible};

use super::placement::{self, Part, Placed, Placement};
use super::plan::{Replica, Serving};
use crate::{ExportError, Result};

/// Processes of a server, each of which has a range of ports.
const MOST_PROCESSES: u64 = 256;

/// A process on a server: a copy of a replica, or its part there.
pub(super) struct Process<'a> {
    /// The replica.
    pub replica: &'a Replica<'a>,
    /// Number of the process among those of the copy, counted from 0.
    pub rank: usize,
    /// Processes of the copy.
    pub ranks: usize,
    /// Number of the copy's first process among those of its server.
    pub slot: u64,
    /// Address of the server of the first process, as the shell reads it.
    pub head: String,
    /// Address of the server, as the shell reads it.
    pub address: String,
}

/// Address of a server, as the shell reads it.
pub(super) fn address(server: usize) -> String {
    format!("${{SERVER_{server}}}")
}

/// A file that a script writes before it starts a process, with marks that the shell leaves alone.
pub(super) fn file(name: &str, text: &str) -> String {
    format!("    cat > {name} <<'END'\n{text}END\n")
}

/// Writes the script of a plan.
///
/// `launch` gives the lines before a process and its command, whose words are quoted; `routers` gives lines for the
/// placement. `title` names the engine.
///
/// # Errors
/// If copies do not fit on servers (E016 and E029), or `launch` refuses a replica.
pub(super) fn write(
    plan: &Serving,
    title: &str,
    launch: impl Fn(&Process) -> Result<(String, String)>,
    routers: impl Fn(&Placement) -> Vec<String>,
) -> Result<String> {
    let mut placement = placement::place(plan)?;
    sort(&mut placement);
    if placement.servers.iter().any(|server| server.processes > MOST_PROCESSES) {
        let what = format!("more than {MOST_PROCESSES} processes in a server");
        return Err(ExportError::Devices { what, rule: "each has a range of ports" });
    }
    let count = placement.servers.len();
    let routers = routers(&placement);
    let and = if routers.is_empty() { "" } else { ", and with `router` where requests arrive" };
    let mut text = format!("#!/bin/sh\n# {title}: run this on every server with its number{and}.\nset -eu\n");
    for (index, server) in placement.servers.iter().enumerate() {
        let kind = visible(&plan.cluster().kinds[server.kind].name);
        let value = if count == 1 { ":-127.0.0.1}\"" } else { ":?its address}\"" };
        text.push_str(&format!("SERVER_{index}=\"${{SERVER_{index}{value} # {} {kind}\n", server.devices));
    }
    let argument = if count == 1 { "${1:-0}" } else { "${1:?number of this server, or router}" };
    text.push_str(&format!("case \"{argument}\" in\n"));
    for index in 0..count {
        text.push_str(&format!("{index})\n"));
        for copy in &placement.copies {
            for (rank, part) in copy.parts.iter().enumerate().filter(|(_, part)| part.server == index) {
                text.push_str(&lines(plan, copy, rank, part, &launch)?);
            }
        }
        text.push_str("    ;;\n");
    }
    if !routers.is_empty() {
        let lines: Vec<String> = routers.iter().map(|line| format!("    {line}\n")).collect();
        text.push_str(&format!("router)\n{}    ;;\n", lines.concat()));
    }
    text.push_str("*)\n    echo \"there is no server $1\" >&2\n    exit 2\n    ;;\nesac\nwait\n");
    Ok(text)
}

/// Lines of a process.
fn lines(
    plan: &Serving,
    copy: &Placed,
    rank: usize,
    part: &Part,
    launch: &impl Fn(&Process) -> Result<(String, String)>,
) -> Result<String> {
    let replica = &plan.replicas[copy.replica];
    let ranks = copy.parts.len();
    let (head, address) = (address(copy.parts[0].server), address(part.server));
    let (before, command) = launch(&Process { replica, rank, ranks, slot: copy.slot, head, address })?;
    let kind = visible(&plan.cluster().kinds[replica.nodes[rank].kind].name);
    let mut comment = format!("{}, copy {} of {}", replica.name, copy.copy + 1, replica.document.count);
    if ranks > 1 {
        comment.push_str(&format!(", part {} of {ranks}", rank + 1));
    }
    comment.push_str(&format!(", on {kind}, for class {}", replica.document.class));
    let devices: Vec<String> = part.devices.clone().map(|device| device.to_string()).collect();
    Ok(format!("    # {comment}\n{before}    CUDA_VISIBLE_DEVICES={} {command} &\n", devices.join(",")))
}

/// Numbers servers by their kinds.
fn sort(placement: &mut Placement) {
    let mut order: Vec<usize> = (0..placement.servers.len()).collect();
    order.sort_by_key(|&index| placement.servers[index].kind);
    let mut number = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        number[old] = new;
    }
    placement.servers.sort_by_key(|server| server.kind);
    for part in placement.copies.iter_mut().flat_map(|copy| &mut copy.parts) {
        part.server = number[part.server];
    }
}

/// Words of a command, each quoted.
pub(super) fn words<T: AsRef<str>>(words: &[T]) -> String {
    words.iter().map(|word| quoted_word(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Copies of a class in a role by their first part, in the order of the plan.
pub(super) fn copies<'p>(
    plan: &'p Serving,
    placement: &'p Placement,
    class: u32,
    role: stagewright_core::document::ServingRole,
) -> impl Iterator<Item = &'p Placed> {
    placement.copies.iter().filter(move |copy| {
        let document = plan.replicas[copy.replica].document;
        document.class == class && document.role == role
    })
}

/// Options of a router of SGLang or vLLM for each class: prefill with decode, and several aggregated copies.
///
/// `port` gives the port of a copy, and `bootstrap` the one beside it for prefill.
pub(super) fn routers(
    plan: &Serving,
    placement: &Placement,
    program: &str,
    disaggregated: &str,
    port: fn(u64) -> u64,
    bootstrap: Option<fn(u64) -> u64>,
) -> Vec<String> {
    use stagewright_core::document::ServingRole::{Aggregated, Decode, Prefill};
    let url = |copy: &Placed| format!("\"http://{}:{}\"", address(copy.parts[0].server), port(copy.slot));
    let mut lines = Vec::new();
    let mut free = 30_000;
    let mut start = |comment: String, options: String| {
        lines.push(format!("# {comment}"));
        lines.push(format!("{program} --host 0.0.0.0 --port {free} {options} &"));
        free += 1;
    };
    for class in plan.classes() {
        let prefill = copies(plan, placement, class, Prefill).map(|copy| {
            let beside = bootstrap.map_or_else(String::new, |port| format!(" {}", port(copy.slot)));
            format!("--prefill {}{beside}", url(copy))
        });
        let decode = copies(plan, placement, class, Decode).map(|copy| format!("--decode {}", url(copy)));
        let workers: Vec<String> = prefill.chain(decode).collect();
        if !workers.is_empty() {
            let comment = format!("prefill and decode of class {class}");
            start(comment, format!("{disaggregated} {}", workers.join(" ")));
        }
        let aggregated: Vec<String> = copies(plan, placement, class, Aggregated).map(url).collect();
        if aggregated.len() > 1 {
            let comment = format!("aggregated replicas of class {class}");
            start(comment, format!("--worker-urls {}", aggregated.join(" ")));
        }
    }
    lines
}
