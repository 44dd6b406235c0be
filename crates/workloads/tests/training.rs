//! Training graphs of structures against those of the built-in families.

use stagewright_core::document::Pass;
use stagewright_core::graph::Graph;
use stagewright_workloads::language::{LanguageOptions, Phase};
use stagewright_workloads::{Granularity, Optimizer, Options, Precision, Size, Sizes, family};

use crate::models::{self, draw, structure, sum};
use crate::newest;

#[test]
fn llama_trains_as_the_family_does() {
    for granularity in Granularity::ALL {
        let optimizer = Optimizer::Adam;
        let sizes = Sizes::default().with(Size::Batch, 2).with(Size::Sequence, 512);
        let options = Options { sizes, training: Some(optimizer), precision: Precision::Bf16, granularity };
        let expected = family("llama").unwrap().generate(Some("3-8b"), &options).unwrap();
        let phase = Phase::Training(optimizer);
        let options =
            LanguageOptions { phase, batch: 2, sequence: 512, granularity, ..LanguageOptions::default() };
        let found = draw(&structure(models::LLAMA_8B), &options);
        for pass in [Pass::Forward, Pass::Backward, Pass::Update] {
            let flop = |graph| {
                sum(graph, |operator| operator.flop.filter(|_| operator.pass == pass).unwrap_or_default())
            };
            let (found, expected) = (flop(&found), flop(&expected));
            assert!((found - expected).abs() <= 1e-12 * expected, "{pass:?}: {found} {expected}");
        }
        assert_eq!(
            sum(&found, |operator| operator.parameter_bytes),
            sum(&expected, |operator| operator.parameter_bytes)
        );
        assert_eq!(
            sum(&found, |operator| operator.optimizer_bytes),
            sum(&expected, |operator| operator.optimizer_bytes)
        );
        if granularity == Granularity::Operator {
            assert_eq!(
                sum(&found, |operator| operator.bytes_moved.unwrap()),
                sum(&expected, |operator| operator.bytes_moved.unwrap())
            );
            assert_eq!(found.operators.len(), expected.operators.len());
            let bytes = |graph: &stagewright_core::document::GraphDocument| {
                graph.tensors.iter().map(|tensor| tensor.bytes).sum::<f64>()
            };
            assert_eq!(bytes(&found), bytes(&expected));
        }
    }
}

/// All weights are trained, once, and the backward pass takes twice the FLOP of the forward pass.
#[test]
fn every_weight_has_its_state() {
    for config in [
        models::MIXTRAL.to_owned(),
        models::GPT2.to_owned(),
        newest::deepseek_v3(),
        newest::nemotron_3_super(),
    ] {
        let structure = structure(&config);
        let phase = Phase::Training(Optimizer::Adam);
        let options =
            LanguageOptions { phase, sequence: 256, prediction: true, ..LanguageOptions::default() };
        let graph = draw(&structure, &options);
        let shared: f64 = graph.parameters.iter().map(|parameter| parameter.optimizer_bytes).sum();
        let states = sum(&graph, |operator| operator.optimizer_bytes) + shared;
        assert_eq!(states, 12.0 * structure.parameters() as f64, "{}", structure.architecture);
        let [forward, backward] = [Pass::Forward, Pass::Backward].map(|pass| {
            sum(&graph, |operator| operator.flop.filter(|_| operator.pass == pass).unwrap_or_default())
        });
        assert!(
            (1.9..2.1).contains(&(backward / forward)),
            "{}: {}",
            structure.architecture,
            backward / forward
        );
        assert!(graph.parameters.iter().all(|parameter| parameter.trained));
        Graph::from_document(graph).unwrap();
    }
}
