//! Error codes about placements read from plans and command lines.

stagewright_core::codes! {
    /// placements read from plans and command lines
    pub enum L {
        /// plan for other devices
        ///
        /// The plan names a device that the cluster does not have, so it was made for another cluster. Give that cluster.
        L001,

        /// plan for another model
        ///
        /// The plan names an operator that the model does not have. Give the model that the plan was made for, in the same format
        /// and with the same options: another batch or granularity makes other operators.
        L002,

        /// operator placed twice
        ///
        /// The plan lists an operator on two devices, or twice on one, but it runs in one place. Remove one of them.
        L003,

        /// unplaced operators
        ///
        /// The plan omits operators of the model. Every operator needs a device; the message has the first one without.
        L004,

        /// call not on the device of its operators
        ///
        /// A plan for latency says which call of a device runs which operator, and one of its calls names an operator that is on
        /// another device. Correct the list of the call, or the device of the operator.
        L005,

        /// plan of another architecture
        ///
        /// `plan --start` carries a plan over to another model by the names of its operators without their numbers, such as
        /// `decoder.layer.#.step#.hidden`. No such name occurs in both models, or the plan places nothing. Give a plan of the same architecture from
        /// the same exporter, with a status of `feasible` or `optimal`.
        L006,

        /// option of llama.cpp that is unknown or malformed
        ///
        /// The command line has a word that is no option of placement or memory, an option without its value, or a value that the
        /// option does not take. The place is the column of the word. Give the options that decide where tensors go and what memory
        /// they take, such as `-ngl 40 -ts 3,1 -c 8192`, and leave out the model, the address and sampling.
        L007,

        /// override of tensors that is no pattern with a target
        ///
        /// `--override-tensor` takes PATTERN=TARGET, several of them divided by commas, so that a pattern has neither `,` nor `=`. The
        /// pattern is a regular expression without references to groups and conditions on what is around a match; the target is
        /// `CPU` or the buffer type of a device of the line, which is its name, or `RPC0[HOST:PORT]` for a server.
        L008,

        /// option of llama.cpp that is not followed
        ///
        /// The option or the kind of layer changes placement or memory in a way that is not computed here: a tensor on several devices, a
        /// draft, an encoder of images, attention without `--flash-attn`, a cache of compressed tokens or of an indexer. Leave the option
        /// out, or ask the tool itself.
        L009,

        /// cluster that is no machine for llama.cpp
        ///
        /// The cluster lacks the memory or its bandwidth of a device or of the processor, has no processor with RAM, spans several servers,
        /// or has a device that llama.cpp does not run on or whose speed is not known. A shorthand has all that is needed:
        /// `1xrtx-3090+1xryzen-7950x:64GiB`, where the memory of a processor is RAM. In a file, give every kind `memory_bytes`, every
        /// class `memory_bandwidth`, and the kind of the processor `host = true`. After `rpc://` in the name of a
        /// kind is the address of a server, HOST:PORT.
        L010,

        /// output of `llama-bench` that cannot be read
        ///
        /// The text is no output of `llama-bench`, or a value of it is malformed. Give what `llama-bench -o json`, `-o jsonl`, `-o csv` or
        /// `-o md` prints, with the names of the columns.
        L011,

        /// device without a measured speed of prompts
        ///
        /// The goal counts the seconds of a prompt, and no published measurement says how fast the device reads one. Plan for decode
        /// alone, or give the output of `llama-bench` on the machine with `--costs`.
        L012,

        /// too many unlike devices
        ///
        /// Sets of devices are searched one by one, and unlike devices form too many of them. Devices of the same kind and memory
        /// count once; leave some of the others out.
        L013,

        /// degrees of parallelism that do not fit the model
        ///
        /// A degree of a served model is 0, does not divide the heads or the experts, or the degrees of experts and of attention do
        /// not use the same devices: tensor degree times data degree is what the tensor and expert degrees of the experts multiply to.
        /// Choose degrees that divide the heads of the model, such as powers of two.
        L020,

        /// device without the figures that serving needs
        ///
        /// The class of the device has no peak or no bandwidth of its memory, or its kind has no memory. Use a built-in device, or add
        /// `peaks`, `memory_bandwidth` and `memory_bytes` to the cluster.
        L021,

        /// unknown engine
        ///
        /// The engine is none of those of `data/engines.toml`. The message lists them.
        L022,

        /// model that is not served token by token
        ///
        /// The model has no layers that predict the next token, or reads the outputs of an encoder. Give a decoder.
        L023,

        /// requests or load out of range
        ///
        /// A class of requests needs at least one token of input and one of output, at most 2^27 together, a shared prefix shorter
        /// than the input, and a positive concurrency.
        L024,

        /// calibration of serving that cannot be used
        ///
        /// The document is no `stagewright.serving-calibration/1`, names the same model, system and engine twice, or has a factor that is
        /// not a positive number. Correct it, or fit it again from measurements.
        L025,

        /// result of a benchmark of serving that cannot be used
        ///
        /// The file is no result of `vllm bench serve`, `sglang.bench_serving` or `aiperf profile`, or no request of it was finished, or one
        /// of its times is not a positive number. The plan that it measured has one class of requests.
        L026,
    }
}
