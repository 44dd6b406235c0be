//! Error codes of exports.

pub use E::*;

stagewright_core::codes! {
    /// export of plans to a runtime
    pub enum E {
        /// unknown export target
        ///
        /// `export --to` names an unknown runtime. `stagewright export --list` shows the targets and the limits of
        /// each.
        E001,

        /// document without a plan
        ///
        /// The status is `infeasible` or `unknown`, or no operator is placed, so there is nothing to export. Plan again with more
        /// time, or see the `reason` in the document for a change that would give a plan.
        E002,

        /// operator of the plan missing in the model
        ///
        /// `--model` is another model, or another version of it. Give the model that the plan was made for.
        E003,

        /// unplaced operators
        ///
        /// The model has operators that are on no device of the plan. Give the model that the plan was made for; an export omits
        /// nothing.
        E004,

        /// operator placed twice
        ///
        /// Two devices list the same operator, or one device lists it twice. Plan again; `check` lists everything that is wrong with
        /// a plan.
        E005,

        /// target that needs the model
        ///
        /// The output of this target depends on layers, passes or tensors, which a plan does not contain. Give the model with
        /// `--model`.
        E006,

        /// replicated stage
        ///
        /// The stage has `replicas`, and the runtime has no data-parallel stages. Plan without `--max-replicas`.
        E007,

        /// several calls of a device
        ///
        /// A plan for latency has several calls of an accelerator, but the runtime runs each device once per step. Plan with
        /// `--calls 1`, or for throughput.
        E008,

        /// plan without a pipeline order
        ///
        /// The runtime runs stages one after the other, and the plan has no such order of its devices. Plan for throughput with
        /// `--split contiguous`.
        E009,

        /// layer cut between devices
        ///
        /// The runtime keeps a layer or module on one device, and the plan divides it between two. Plan with `--whole-layers`, which
        /// keeps the operators of every layer together.
        E010,

        /// backward operator not on the device of its forward operator
        ///
        /// Runtimes that train run the backward pass and the update of a module where its forward pass runs. Give these operators
        /// the same `colocation` in the model.
        E011,

        /// backward operator without a forward operator
        ///
        /// Nothing identifies its forward operator: neither its `colocation` nor its name nor its layer. Give it the `colocation`
        /// or the `layer` of its forward operator.
        E012,

        /// divided module with operators of its own
        ///
        /// A module whose parts are on several devices computes something itself, and the runtime would run that on a device
        /// other than the planned one. Keep the module whole, or pin that operator to the device where the runtime runs it.
        E013,

        /// layers that do not form one stack
        ///
        /// The runtime counts the layers of one numbered stack, such as `model.layers.0`, `model.layers.1`, …, and the model has
        /// none, several, or one with gaps. Or the target has names for one embedding, one norm and one head, and the model has
        /// other layers beside the stack. Use a target that names modules, such as `accelerate`.
        E014,

        /// layer in a stage where the runtime cannot have it
        ///
        /// The plan breaks one of three rules. Some runtimes keep the embedding in the first stage and the head in the last: pin
        /// these layers there with `--pins`. A stage runs one contiguous run of layers: plan for throughput with `--split
        /// contiguous`. A traced program is cut in the order in which it runs: pin any operator that is out of that order to the
        /// stage of the operator that runs right before it.
        E015,

        /// devices that the runtime does not have
        ///
        /// The plan uses hosts, several kinds or more devices than the runtime can address. Plan for a cluster that it supports.
        E016,

        /// unsupported numbers of layers
        ///
        /// Usually a stage has no layer, only the embedding, the head or inputs, and the runtime rejects such a stage: plan with
        /// fewer devices, or pin these to the device of a stage with layers. The older options of Megatron also require the
        /// same number of layers in all stages except the first and the last: use `megatron`, whose layouts allow any numbers.
        E017,

        /// module that the runtime cannot address
        ///
        /// A module, or a weight, has a name that the notation cannot express: empty parts, or characters that end a name, or for a weight
        /// the name of a divided module. Or a weight is in a module on a device that has none of its readers, so that the
        /// module would take it there. Rename it. Constants are noted instead.
        E018,

        /// layers that read each other
        ///
        /// The runtime runs layers one after the other, and here two layers read from each other: one reads the output of the other,
        /// which reads an output of the first. Such modules alternate and are not a sequence. Give the operators between them a
        /// `layer` of their own, or use `accelerate`.
        E019,

        /// layers that do not form a chain
        ///
        /// As in `nn.Sequential`, the runtime gives each layer only the output of the layer before it, and a layer of the model
        /// reads something else: there is a branch, a second tower or a connection across layers. Use a target whose models may
        /// branch, such as `torch-pipelining`, `pipedream` or `accelerate`.
        E020,

        /// operator outside all modules
        ///
        /// In every runtime that divides modules, operators outside of all modules run where their inputs are, and the
        /// plan puts such an operator on a device with none of its inputs or readers. Pin it to the device of its
        /// inputs, or give it the `layer` of the module that runs it.
        E021,

        /// joint plan for the time per sample
        ///
        /// The joint plan is for a file of Piper: every stage has individual degrees, and there is no iteration with a batch
        /// common to all stages. Runtimes take one execution for all stages. Plan a training graph, such as `workload …
        /// --training`, which is planned for the time of an iteration.
        E022,

        /// degrees that differ between stages
        ///
        /// The stages of a joint plan have different degrees of tensor parallelism, often because they are on devices of different
        /// kinds, and the runtime has one degree for all stages. Plan with one given degree, or on devices of one kind.
        E023,

        /// division of states that the runtime does not have
        ///
        /// ZeRO divides states of the optimizer (1), gradients as well (2) and parameters as well (3) over copies, and not every
        /// runtime has all three everywhere. Megatron has 2 and 3 with one stage only. torchtitan has 1 in a pipeline, and 2 and 3
        /// without one. `fully_shard` always divides. Plan with a stage of ZeRO that the runtime has; the message names it.
        ///
        /// Groups of copies may divide states instead of all copies. Megatron and `fully_shard` have them, torchtitan only if the devices
        /// of a sample are in one group, and it always divides states over those; DeepSpeed has none. Plan without `shard`, or with
        /// other groups.
        E024,

        /// recomputation that the runtime cannot say
        ///
        /// A joint plan has a configuration for every layer. Megatron recomputes `full` in an equal number of first layers of
        /// every stage, and `selective` in all layers; torchtitan treats all layers alike; the configuration of DeepSpeed
        /// cannot turn recomputation on. Under zero-bubble and DualPipeV, PyTorch would recompute a layer again for the gradients of
        /// its weights, so the export to torchtitan allows no recomputation with them. The message names the first layer that
        /// differs, and its stage. Where the layers of a stage are alike, the configurations may be swapped so that the
        /// first ones are recomputed. Otherwise plan with `recompute=full` or `recompute=selective`, or without
        /// recomputation, or export to `fsdp2`, which names every layer, and is the only one that writes layers with
        /// activations on the host (`offload`).
        E025,

        /// pipeline that the runtime does not take
        ///
        /// The notation has no stages. This is true of the configuration of DeepSpeed, whose pipelines are defined in
        /// the training program, and of `fully_shard`. Plan with one stage, or export to `megatron-lm` or `torchtitan`.
        E026,

        /// expert parallelism that the runtime does not have
        ///
        /// Experts of a joint plan are divided over copies and split over tensor-parallel devices. torchtitan and DeepSpeed do not
        /// split them, torchtitan puts them only on copies that divide states, and `fully_shard` does not move experts. Plan with
        /// tensor parallelism 1 or expert parallelism 1, or export to `megatron-lm`.
        E027,

        /// microbatches that the schedule does not run
        ///
        /// The schedule 1F1B of PyTorch refuses to run with fewer microbatches than stages. Plan with a smaller microbatch, a larger
        /// batch or fewer stages. Its zero-bubble schedule divides m microbatches in p stages into ⌊m / p⌋ rounds, and
        /// refuses numbers of microbatches that do not divide evenly into these rounds, such as 9 in 4 stages. Plan
        /// with a multiple of the number of stages, or with `--schedule 1f1b`.
        E028,

        /// joint, local or serving plan that contradicts itself
        ///
        /// Numbers of the document disagree: the batch is not microbatch × microbatches × copies, a stage has another number of copies
        /// than the execution or no layers, expert parallelism does not divide the copies, context parallelism has no exchange of tokens,
        /// groups of shards do not divide the copies, or a layer has an unknown configuration.
        /// Under `interleaved` there are at least two devices with `chunks` ≥ 2 stages each, stages of a device have one kind and degree,
        /// and the devices of a pipeline divide the microbatches; under `dualpipe-v`, `chunks` is 2, and there are as many
        /// microbatches as stages; under `1f1b`, `zero-bubble` and `zero-bubble-2p`, `chunks` is 1; no other schedule is valid in a joint plan. In a local plan, `flags` are options of llama.cpp for its devices, with the
        /// layers, context and batches that the document has. In a serving plan, stages have all layers in order, classes that are read
        /// are decoded, and replicas fit on the servers of the cluster. Give the document as `plan --out` wrote it.
        E029,

        /// schedule that the runtime does not have
        ///
        /// Megatron-LM and Megatron Bridge run 1F1B and interleaved 1F1B; neither runs the gradients of weights apart from the backward
        /// pass. Among the schedules of other plans, torchgpipe has `gpipe`, DeepSpeed and Megatron have `1f1b`, PipeDream has
        /// none that waits for the end of a batch, and PyTorch and torchtitan have all. On one device, the export names
        /// another schedule of the runtime if that keeps no more microbatches; 1F1B, which keeps one, can replace any
        /// schedule. Plan with a schedule that the runtime has, or export to `torchtitan`, which runs zero-bubble and
        /// DualPipeV as well.
        E030,

        /// weight of several devices that the runtime does not train
        ///
        /// Layers on several devices share a weight, such as a tied embedding. The plan keeps a copy on each and synchronises its
        /// gradient. GPipe and torchtitan refuse such a weight, PipeDream would train separate copies, and Megatron ties only the
        /// embedding and the head. Export to `deepspeed`, whose tied layers do the same as the plan, or the embedding and the head to
        /// `megatron`; untie the weight in the model; or plan with `--tied together`, which keeps all its readers on one device, unless
        /// layers of a stack share it and the target is Megatron.
        E031,

        /// option of llama.cpp that the runtime does not have
        ///
        /// A local plan is a command line of llama.cpp, and other programs have fewer options. Ollama and LM Studio take no tensors
        /// away from their layer, except that LM Studio has `--n-cpu-moe`; Ollama has one type for keys and values, and chooses
        /// shares of several devices itself; LM Studio cannot leave out the first block alone; ik_llama.cpp puts the output on a
        /// device only with all blocks; `llama-bench` has no cache of 32 bits and none that keeps whole windows. Plan without the
        /// option, on fewer devices or with another type of the cache, or export to `llama-server`, which has every option.
        E032,

        /// context parallelism that the runtime does not have
        ///
        /// The devices of a copy divide the tokens of a sample, and exchange keys and values in a ring or tokens for heads by
        /// all-to-alls. Megatron-LM and Megatron Bridge have both, torchtitan has the ring. The configuration of DeepSpeed has
        /// neither: the training program sets up its Ulysses. The file for `fully_shard` applies a plan to modules, and cannot divide
        /// what the training loop gives them. Plan without `cp`, or export to `megatron-lm`.
        E033,

        /// states of the optimizer on the host that the runtime does not have
        ///
        /// A plan with `offload` keeps states of the optimizer, and nothing else, in the host's memory, and updates run there.
        /// Megatron-LM, Megatron Bridge and DeepSpeed have that where copies divide the states: Megatron with ZeRO 1, DeepSpeed with ZeRO 1
        /// to 3, and both with a single copy. torchtitan and `fully_shard` move parameters and gradients to the host as well.
        /// Plan without `offload`, or with `zero=1` for `megatron-lm` and `deepspeed`.
        E034,

        /// serving plan for another engine
        ///
        /// A serving plan is made for the times and the memory of one engine, and the target starts other engines. `vllm`, `sglang`
        /// and `tensorrt-llm` start their own; `dynamo` starts all three, and `llm-d` vLLM and SGLang. Export to a target of the engine,
        /// or plan for another one with `--engine`.
        E035,

        /// replica that the engine cannot run
        ///
        /// The launcher of an engine has fewer degrees than a plan may have. vLLM divides whole experts over all devices of a replica or
        /// over none, and its connector for caches takes no pipelines that decode. TensorRT-LLM copies attention on every device of a
        /// replica or on none, and each has its own encodings of caches. The message names the replica and the option. Plan with
        /// fewer stages, with another encoding, or for another engine.
        E036,
    }
}
