//! Weights for any router: JSON with the share of requests that each copy gets, by class and role.
//!
//! Copies have the numbers that scripts of other targets give them. The weights of a class add up to 1 over its aggregated and
//! prefill copies, and over its aggregated and decode copies.

use serde_json::{Value, json};
use stagewright_core::document::ServingRole;

use super::super::notes::noted;
use super::super::shares::Rates;
use super::super::{Serving, ServingTarget};
use crate::{Export, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "router-weights",
    summary: "any router: JSON with the share of requests of every copy, by class and role",
    limits: "none",
    write,
};

fn write(plan: &Serving) -> Result<Export> {
    let classes: Vec<Value> = plan.classes().into_iter().map(|class| of_class(plan, class)).collect();
    let document =
        json!({ "model": plan.document.model, "engine": plan.question().engine, "classes": classes });
    let text = format!("{document:#}\n");
    let export = noted(plan, text, "any router that takes weights");
    Ok(export.note("a request goes to a prefill copy and then to a decode copy, or to an aggregated copy"))
}

fn of_class(plan: &Serving, class: u32) -> Value {
    let rates = Rates::of(plan, class);
    let copies = |role: ServingRole| -> Vec<Value> {
        let replicas = plan.of(class, role).flat_map(|replica| {
            (0..replica.document.count).map(move |copy| {
                json!({
                    "replica": replica.name,
                    "copy": copy,
                    "kinds": replica.kinds(),
                    "weight": rates.share(replica),
                    "requests_per_s": replica.document.requests_per_s,
                })
            })
        });
        replicas.collect()
    };
    let question = plan.question().classes.get(class as usize);
    json!({
        "class": class,
        "input": question.map(|class| class.input),
        "output": question.map(|class| class.output),
        "share": question.map(|class| class.share),
        "requests_per_s": rates.total(),
        "aggregated": copies(ServingRole::Aggregated),
        "prefill": copies(ServingRole::Prefill),
        "decode": copies(ServingRole::Decode),
    })
}
