//! A model and a plan in notations of your own: `cargo run --example own_format`.
//!
//! The model has one line per operator: its name, milliseconds, megabytes of parameters, megabytes of its output, and
//! the operators whose outputs it reads. The plan has one line per device.

#![allow(clippy::print_stdout, reason = "an example prints")]

use stagewright::prelude::*;

const MODEL: &str = "
    embed    1   400  2
    attend   3   50   2   embed
    mix      4   100  2   attend
    attend2  3   50   2   mix embed
    mix2     4   100  2   attend2
    head     2   400  1   mix2
";

/// Reads the model. An error quotes the line.
fn import(text: &str) -> Result<Graph, Box<dyn std::error::Error>> {
    let mut graph = GraphBuilder::new("lines");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, milliseconds, parameters, ..] = words[..] else {
            return Err(format!("not an operator: {line}").into());
        };
        let megabytes = parameters.parse::<f64>()?;
        graph.operator(
            operator(name).seconds("gpu", 1e-3 * milliseconds.parse::<f64>()?).parameters(1e6 * megabytes),
        );
    }
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let readers =
            text.lines().filter(|other| other.split_whitespace().skip(4).any(|read| read == words[0]));
        let readers: Vec<&str> = readers.filter_map(|reader| reader.split_whitespace().next()).collect();
        if let ([_, _, _, megabytes, ..], false) = (&words[..], readers.is_empty()) {
            graph.tensor(words[0], readers, 1e6 * megabytes.parse::<f64>()?);
        }
    }
    Ok(graph.build()?)
}

/// Writes a plan.
fn export(problem: &Problem, placement: &Placement) -> String {
    let mut text = String::new();
    for device in (0..problem.cluster().device_count() as u32).map(DeviceId) {
        let operators = problem.graph().operators().filter(|&op| placement.device_of(op) == device);
        let names: Vec<&str> = operators.map(|op| problem.graph().operator(op).name.as_str()).collect();
        text += &format!("{}: {}\n", problem.cluster().device_name(device), names.join(" "));
    }
    text
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = ClusterBuilder::new("two");
    cluster.kind(devices("gpu", 2).memory(1e9).link(1e10, 1e-5));
    let problem = Problem::new(import(MODEL)?, cluster.build()?, Objective::default())?;
    let solution = solve(&problem, &Options::default())?;
    let Some(plan) = solution.plan else { return Err(solution.reason.unwrap_or_default().into()) };
    print!("{}", export(&problem, &plan.placement));
    Ok(())
}
