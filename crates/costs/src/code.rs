//! Error codes of measured costs.

pub use Q::*;

stagewright_core::codes! {
    /// measured costs
    pub enum Q {
        /// folder without measured tables
        ///
        /// The folder is not an installation of `aiconfigurator-core`: it has no `systems/data` with tables of products, attention or
        /// collectives. Give the folder `aiconfigurator_core` of the installed package; `python -c 'import aiconfigurator_core;
        /// print(aiconfigurator_core.__path__[0])'` prints it.
        Q001,

        /// system without measured tables
        ///
        /// The package has no tables of the system. The message lists those that it has.
        Q002,

        /// framework without measured tables
        ///
        /// The package has no tables of the framework for the system. The message lists those that it has; without a framework, one is
        /// chosen.
        Q003,

        /// table that was not fetched
        ///
        /// The file is a Git LFS pointer of a few lines, as in a clone of the repository without Git LFS. Run `git lfs pull` there, or
        /// give the folder of the installed package, which has the tables.
        Q004,

        /// table that cannot be read
        ///
        /// The Parquet file is incomplete or damaged, uses a compression other than Snappy and Zstandard, or cannot be opened. Install
        /// the package again.
        Q005,

        /// missing column in a table
        ///
        /// The table lacks a column that the import needs, so its layout differs from those of the versions that this program
        /// reads. Install version 0.12 of `aiconfigurator-core`.
        Q006,

        /// tables without usable measurements
        ///
        /// No row of the tables has a precision and dimensions that can be used: bf16, fp16 or fp8, attention without a sliding window,
        /// positive sizes and seconds. Give another framework or another system.
        Q007,

        /// unknown schema of measured costs
        ///
        /// `schema` is not `stagewright.costs/1`. Correct it, or give a document of measured costs.
        Q010,

        /// row of the wrong length
        ///
        /// A row of a kernel has the dimensions of the kernel, followed by seconds: `[m, n, k, seconds]` for a product,
        /// `[batch, tokens, heads, kv_heads, head_dim, seconds]` for attention. Correct the row.
        Q011,

        /// number out of range in measured costs
        ///
        /// Dimensions are whole numbers. Dimensions and bytes are from 1 to 1e15, seconds of kernels and transfers from
        /// 1e-12 to 1e15, seconds of operators and their spread from 0 to 1e15. A measurement that failed should have
        /// no row. For a trace or a profile, the place is in the `stagewright.costs/1` document converted from it.
        Q012,

        /// measurements of a class without a name
        ///
        /// `class` is empty. Write the name of the device class that was measured, as in the cluster.
        Q013,

        /// transfer among fewer than two devices
        ///
        /// `devices` of a transfer counts the devices that take part, and is at least 2.
        Q014,

        /// unrecognised format of measurements
        ///
        /// Neither the content nor the beginning of the file matches a known format of measurements. Decompress it if it is
        /// compressed; a trace of Nsight Systems or of JAX is not read. `stagewright.costs/1` JSON must name its `schema`.
        Q101,

        /// file without measurements
        ///
        /// The file is of a known format, but contains no measurement:
        ///
        /// - a profile of ONNX Runtime: no `run()` between the start of the session and `end_profiling()`;
        /// - a trace of PyTorch's profiler: no operators, as with `activities=[ProfilerActivity.CUDA]` alone, or kernels that no
        ///   operator launched, as with CUDA graphs;
        /// - a Chakra trace: no durations, as in a trace of the host that was not linked with one of the device;
        /// - output of nccl-tests: no row, because the test failed, or only sizes of 0 bytes.
        ///
        /// Measure again as the message says.
        Q102,

        /// invalid duration
        ///
        /// A duration is negative or above 10^30 microseconds: the program that wrote the file lost the start or the end of an event,
        /// or the system clock was changed during the event. The place is the value, as in `traceEvents[17].dur`.
        /// Measure again, or remove the event.
        Q103,

        /// invalid row of nccl-tests
        ///
        /// A line of the table has fewer columns than its head, or text where a number belongs:
        ///
        /// ```text
        /// #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw …
        ///      1048576        262144     float     sum      -1    30.12   34.81
        /// ```
        ///
        /// The output is cut off, or another process wrote into the line; with `NCCL_DEBUG=INFO`, set `NCCL_DEBUG_FILE`. Remove
        /// the line or measure again.
        Q104,

        /// unknown number of devices
        ///
        /// A time of a collective is of no use without the number of devices. Output of nccl-tests has a line
        /// `# Rank …` for each device: keep these lines, or give `--devices`. A test on one device sends nothing: run
        /// it on two or more.
        Q105,

        /// unknown transfer
        ///
        /// Output of nccl-tests does not say which test wrote it, or comes from a test that has no table in a costs
        /// document, such as `reduce_perf`. Versions since 2.17 print `# Collective test starting: all_gather_perf`;
        /// any line with the name of the program, such as the command, also identifies the test. Otherwise give
        /// `--transfer`.
        Q106,

        /// malformed Chakra trace
        ///
        /// A message of the trace is cut off or not of Chakra's schema, from the byte that the message names. The file must be the
        /// protobuf that `chakra_converter` writes, not the JSON of PyTorch's `ExecutionTraceObserver`, and not compressed. Write it
        /// again.
        Q107,

        /// unknown device class
        ///
        /// The file does not say on which device it was measured, or only that it was a GPU. Give `--class` with the name that the
        /// class of the device has in the cluster.
        Q108,

        /// spread without seconds
        ///
        /// `spread` has an operator that is not under `seconds`. Add its median there, or remove the spread.
        Q109,

        /// profile of launches alone
        ///
        /// A node of the profile ran on a GPU, where ONNX Runtime queues kernels and continues: the duration is that of
        /// queueing. Only a build with GPU profiling has the times of kernels. Use one, or measure the model with PyTorch: the
        /// script that `stagewright exporter torch` prints has `--measure`.
        Q110,

        /// collective with wrong results
        ///
        /// The column `#wrong` of nccl-tests is not 0: the devices computed wrong sums or lost data, because of a defective link or
        /// a defect in a library. Times of such a run are no measurement. Find the cause, then measure again.
        Q111,

        /// training log without an iteration
        ///
        /// `explain --measured` looks for the seconds of iterations: `elapsed time per iteration (ms)` of Megatron-LM,
        /// `train_step_timing in s` of NeMo, `step: … loss: … tps: …` of torchtitan, `time (ms) | fwd: …` (with
        /// `wall_clock_breakdown`), `CurrSamplesPerSec=…` or `iter time (s): …` of DeepSpeed, or events `ProfilerStep#…` in a trace of
        /// PyTorch's profiler, which calls of its `step()` write. The file has none with a time above 0. Give the output of
        /// the rank that prints them: rank 0, or the last rank for Megatron-LM.
        Q112,
    }
}
