//! Embeddings on the host, each layer on its own device.
//!
//! A table is large and a look-up cheap, so tables are kept in host memory: by TensorFlow's language model
//! (`ptb_word_lm.py` opens with `tf.device("/cpu:0")` around the embedding and its look-up) and by
//! recommendation models. The rest follows [`super::LAYER_PER_DEVICE`]; with one accelerator, everything else
//! is on it.
//!
//! Embeddings are the operators of kind `embedding` or `embedding_bag`, and those with `embedding` or
//! `embeddings` as a component of their layer path. Operators read only by embeddings (the tokens) move with
//! them.

use stagewright_core::document::OperatorDocument;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

use super::layer_per_device::deal_out;
use super::{ExpertRule, Placed, assignment, on};

/// Embeddings on the first host, layers on the accelerators in turn.
pub static EMBEDDINGS_ON_HOST: ExpertRule = ExpertRule {
    name: "embeddings-on-host",
    summary: "embeddings on the host, one accelerator per layer, round-robin (baseline)",
    missing_feature: None,
    depends_on_seed: false,
    place,
};

fn place(problem: &Problem, _seed: u64) -> Result<Placed, String> {
    let host = *on(problem, true).first().ok_or("the cluster has no host")?;
    let mut device_of_class = deal_out(problem)?;
    for class in embeddings(problem)? {
        device_of_class[class] = host;
    }
    Ok(assignment::placement(problem, &device_of_class)?.into())
}

/// Colocation classes with an embedding, and single-operator classes that only such classes read.
fn embeddings(problem: &Problem) -> Result<Vec<ClassId>, String> {
    let graph = problem.graph();
    let mut embedded = Keyed::filled(false, graph.class_count());
    for op in graph.operators().filter(|&op| is_embedding(graph.operator(op))) {
        embedded[graph.class_of(op)] = true;
    }
    if !embedded.contains(&true) {
        return Err("the graph has no embeddings: no operator is of kind `embedding`, \
                    or has `embedding` in its layer path"
            .into());
    }
    for &op in graph.topological().iter().rev() {
        let readers = graph.successors(op);
        let class = graph.class_of(op);
        if graph.class(class).len() == 1 && !readers.is_empty() {
            embedded[class] |= readers.iter().all(|&reader| embedded[graph.class_of(reader)]);
        }
    }
    Ok(embedded.ids().filter(|&class| embedded[class]).collect())
}

fn is_embedding(operator: &OperatorDocument) -> bool {
    let kind = operator.kind.as_deref().unwrap_or_default();
    let path = operator.layer.as_deref().unwrap_or_default();
    matches!(kind, "embedding" | "embedding_bag")
        || path.split('.').any(|component| matches!(component, "embedding" | "embeddings"))
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::OperatorDocument;

    use super::super::support::{Model, names, plan, reason, tensor};
    use super::*;

    #[test]
    fn the_embedding_and_its_tokens_are_on_the_host() {
        let mut model = Model::layers(2);
        model.hosts = 1;
        let seconds = [("acc".to_owned(), 0.0), ("cpu".to_owned(), 0.0)].into();
        model.document.operators.push(OperatorDocument { seconds, ..OperatorDocument::named("tokens") });
        model.document.tensors.push(tensor("tokens", "embedding"));
        let problem = model.on(2);
        let plan = plan(&EMBEDDINGS_ON_HOST, &problem);
        assert_eq!(names(&problem, &plan, 2), ["embedding", "tokens"]);
        assert_eq!(names(&problem, &plan, 0), ["layer.0"]);
        assert_eq!(names(&problem, &plan, 1), ["layer.1", "head"]);
        // The host takes 5 s for the look-up and pays nothing for communication.
        assert_eq!(plan.value(), 5.0);
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut model = Model::layers(2);
        assert!(reason(&EMBEDDINGS_ON_HOST, &model.on(2)).contains("no host"));
        model.hosts = 1;
        model.operator("embedding").layer = None;
        assert!(reason(&EMBEDDINGS_ON_HOST, &model.on(2)).contains("no embeddings"));
    }
}
