//! Weights of graphs: every tensor belongs to one operator.

use stagewright_core::graph::Graph;
use stagewright_structure::Structure;
use stagewright_workloads::language::{LanguageOptions, Phase};
use stagewright_workloads::{Granularity, Optimizer};

use crate::models::{self, decode, draw, structure, weight_bytes};
use crate::newest;

fn all() -> Vec<Structure> {
    let newest = [
        newest::llama4_scout(),
        newest::qwen3_30b(),
        newest::gpt_oss_20b(),
        newest::deepseek_v3(),
        newest::deepseek_v2_lite(),
        newest::deepseek_v4_flash(),
        newest::glm_5_2(),
        newest::kimi_k3(),
        newest::qwen3_5_35b(),
        newest::nemotron_3_super(),
        newest::minimax_m3(),
        newest::mimo_v2_flash(),
        newest::gemma_4_26b(),
        newest::step_3_7_flash(),
        newest::nemotron_nas(),
    ];
    let older = [models::LLAMA_8B, models::MIXTRAL, models::GPT2, models::GEMMA3];
    older.iter().map(|config| structure(config)).chain(newest.iter().map(|config| structure(config))).collect()
}

#[test]
fn weights_are_those_of_the_structure_to_the_byte() {
    let whole = LanguageOptions { prediction: true, tokens: 128, ..LanguageOptions::default() };
    for structure in all() {
        let expected = structure.weight_bytes() as f64;
        for granularity in Granularity::ALL {
            for phase in [Phase::Prefill, Phase::Decode] {
                let graph = draw(&structure, &LanguageOptions { granularity, phase, ..whole.clone() });
                assert_eq!(weight_bytes(&graph), expected, "{} {phase:?}", structure.architecture);
                Graph::from_document(graph).unwrap_or_else(|error| panic!("{}: {error}", structure.architecture));
            }
        }
        let phase = Phase::Training(Optimizer::Adam);
        let graph = draw(&structure, &LanguageOptions { phase, ..whole.clone() });
        assert_eq!(weight_bytes(&graph), 2.0 * structure.parameters() as f64, "{}", structure.architecture);
        println!("{} {} operators, flop {:e}", structure.architecture, graph.operators.len(), models::sum(&graph, |o| o.flop.unwrap()));
        Graph::from_document(graph).unwrap_or_else(|error| panic!("{}: {error}", structure.architecture));
        let graph = draw(&structure, &decode(4, 1000));
        for operator in &graph.operators { if operator.name.contains("layers.1.") || operator.name.contains("layers.3.") || !operator.name.contains("layers.") { println!("  {} {:?} {:?} {} {:?}", operator.name, operator.kind, operator.flop, operator.parameter_bytes, operator.bytes_moved); } }
    }
}
