//! Weights for any router: JSON with the share of requests that each copy gets, by class and role.
//!
//! Copies have the numbers that scripts of other targets give them. The weights of a class add up to 1 over its aggregated and
//! prefill copies, and over its aggregated and decode copies.

use serde_json::{Value, json};
use stagewright_core::document::ServingRole;

use super::super::notes::with_times;
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
    let export = with_times(plan, text);
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

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use stagewright_core::document::ServingRole;

    use super::super::super::testing::{disaggregated, replica, stage, text};

    #[test]
    fn weights_add_up_in_each_role() {
        let mut plan = disaggregated("vllm");
        let mut other = replica(ServingRole::Aggregated, 1, vec![stage("large", [1, 1, 1], 0, 32)]);
        other.requests_per_s = 1.0;
        plan.replicas.push(other);
        plan.replicas[1].requests_per_s = 3.0;
        let document: Value = serde_json::from_str(&text(&plan, "router-weights")).unwrap();
        let class = &document["classes"][0];
        let weights = |role: &str| -> Vec<f64> {
            class[role].as_array().unwrap().iter().map(|copy| copy["weight"].as_f64().unwrap()).collect()
        };
        // Three of four requests a second go through prefill, whose copies could take four.
        assert_eq!(weights("aggregated"), [0.25]);
        assert_eq!(weights("prefill"), [0.375, 0.375]);
        assert_eq!(weights("decode"), [0.75]);
        assert_eq!(class["requests_per_s"].as_f64(), Some(4.0));
    }
}
