//! DeepSpeed: the boundaries of a `PipelineModule`.
//!
//! `PipelineModule` takes `num_stages` and the name of a `partition_method`, but no boundaries: it
//! computes them in `_partition_layers` and stores them in `parts`, where stage s has the layers from
//! `parts[s]` to `parts[s + 1]`. The output is a subclass that stores the boundaries of the plan there. It
//! also lists the counted layers, since `layers` of the module must be exactly these.
//!
//! Layers that share a weight are `TiedLayerSpec`s with a common key: DeepSpeed keeps a copy of the weight in every
//! stage that has such a layer, and sums the gradients of the copies, as the plan does. Layers of one stage that are
//! not tied would have weights of their own. The subclass refuses layers that share a weight of the plan and are not
//! tied.
//!
//! Source: `deepspeed/runtime/pipe/module.py` of DeepSpeed at 12e65a6. `_partition_layers` is not part of
//! its public interface; the subclass checks its assumptions.

use stagewright_core::document::Schedule;

use crate::error::listed;
use crate::layers::Layer;
use crate::pipeline::Pipeline;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, any};
use crate::sequence::Sequence;
use crate::{Export, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "deepspeed",
    summary: "DeepSpeed: parts of a PipelineModule, as a Python module",
    limits: "whole layers, each reading only the previous one, at least one per stage; one device per stage, no \
             hosts; no schedule but 1F1B; needs --model",
    write,
    runtime: Runtime {
        name: "DeepSpeed",
        passes: Passes::Training,
        overlaps: true,
        sharing: Sharing { trained: Trained::Written, weight: COPIED, constant: COPIED },
        schedules: Schedules::Of {
            names: &[(Schedule::OneFOneB, "1F1B")],
            usage: |_, microbatches| format!("set gradient_accumulation_steps to {microbatches}"),
            rule: "a PipelineModule of DeepSpeed runs only 1F1B",
            refusal: any,
        },
    },
};

const CLASS: &str = r#"

class PlannedPipelineModule(PipelineModule):
    """A PipelineModule that is divided at PARTS."""

    def _partition_layers(self, method="parameters"):
        if self._topo.get_dim("pipe") != len(PARTS) - 1:
            raise ValueError(f"the plan has {len(PARTS) - 1} stages")
        if len(self._layer_specs) != PARTS[-1]:
            raise ValueError(f"the plan has {PARTS[-1]} layers, and the module {len(self._layer_specs)}")
"#;

/// Checks that the layers of a weight are tied.
const CHECK: &str = r#"        for weight, readers in TIED.items():
            specs = [[self._layer_specs[LAYERS.index(layer)] for layer in layers] for layers in readers]
            keys = [{spec.key for spec in layers if isinstance(spec, TiedLayerSpec)} for layers in specs]
            if not set.intersection(*keys):
                raise ValueError(f"{weight} is a weight of {readers}: give them TiedLayerSpecs of one key")
"#;

const DIVIDE: &str = r#"        self.parts = list(PARTS)
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])
"#;

fn write(placed: &Placed) -> Result<Export> {
    let sequence = Sequence::new(placed, TARGET.name, Pipeline::new(placed, "DeepSpeed")?)?;
    sequence.chain(placed, "DeepSpeed")?;
    sequence.pipeline.on_accelerators(placed, "DeepSpeed runs pipeline stages only on accelerators")?;
    sequence.no_stage_empty("a stage of DeepSpeed needs at least one")?;
    let mut end = 0;
    let ends = sequence.counts().into_iter().map(|count| {
        end += count;
        end
    });
    let parts: Vec<String> = [0].into_iter().chain(ends).map(|part| part.to_string()).collect();
    let tied = sequence.tied(placed);
    let (import, constant, check) = if tied.is_empty() {
        ("", String::new(), "")
    } else {
        // One operator may represent several layers.
        let names = |layer: &&Layer| literal::list(layer.paths().map(literal::string));
        let entries = tied
            .iter()
            .map(|(weight, layers)| literal::entry(weight, &literal::list(layers.iter().map(names))));
        let entries = literal::lines('{', entries, '}');
        let comment = "# Weights of several layers, each with the layers that share it.";
        (", TiedLayerSpec", format!("\n{comment}\nTIED = {entries}\n"), CHECK)
    };
    let text = format!(
        "from deepspeed.pipe import PipelineModule{import}\n\nPARTS = {}\nLAYERS = {}\n{constant}{CLASS}{check}{DIVIDE}",
        literal::list(parts),
        literal::lines('[', sequence.layers().into_iter().map(literal::string), ']'),
    );
    let weights: Vec<String> = tied.into_iter().map(|(weight, _)| weight).collect();
    Ok(Export::new(text)
        .note(format!(
            "build the module with PlannedPipelineModule(layers, num_stages={}), with `layers` as in LAYERS",
            sequence.pipeline.stages()
        ))
        .note(sequence.pipeline.ranks(placed))
        .also((!weights.is_empty()).then(|| {
            format!(
                "{}: PlannedPipelineModule refuses the layers in TIED unless they are TiedLayerSpecs of one key, whose gradients \
                 DeepSpeed sums",
                listed(&weights)
            )
        }))
        .also(sequence.outside(placed))
        .also(sequence.source))
}
