//! DeepSpeed: the boundaries of a `PipelineModule`.
//!
//! `PipelineModule` takes `num_stages` and the name of a `partition_method`, but no boundaries: it
//! computes them in `_partition_layers` and stores them in `parts`, where stage s has the layers from
//! `parts[s]` to `parts[s + 1]`. The output is a subclass that stores the boundaries of the plan there. It
//! also lists the counted layers, since `layers` of the module must be exactly these.
//!
//! Source: `deepspeed/runtime/pipe/module.py` of DeepSpeed at 12e65a6. `_partition_layers` is not part of
//! its public interface; the subclass checks what it relies on.

use crate::pipeline::Pipeline;
use crate::sequence::Sequence;
use crate::{Export, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "deepspeed",
    summary: "DeepSpeed: parts of a PipelineModule, as a Python module",
    limits: "whole layers, each reading only the previous one, at least one per stage; one device per stage, no \
             hosts; needs --model",
    write,
};

const CLASS: &str = r#"

class PlannedPipelineModule(PipelineModule):
    """A PipelineModule that is divided at PARTS."""

    def _partition_layers(self, method="parameters"):
        if self._topo.get_dim("pipe") != len(PARTS) - 1:
            raise ValueError(f"the plan has {len(PARTS) - 1} stages")
        if len(self._layer_specs) != PARTS[-1]:
            raise ValueError(f"the plan has {PARTS[-1]} layers, and the module {len(self._layer_specs)}")
        self.parts = list(PARTS)
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
    let text = format!(
        "from deepspeed.pipe import PipelineModule\n\nPARTS = {}\nLAYERS = {}\n{CLASS}",
        literal::list(parts),
        literal::lines('[', sequence.layers().into_iter().map(literal::string), ']'),
    );
    Ok(Export::new(text)
        .note(format!(
            "build the module with PlannedPipelineModule(layers, num_stages={}), with `layers` as in LAYERS",
            sequence.pipeline.stages()
        ))
        .note(sequence.pipeline.ranks(placed))
        .also(sequence.source))
}
