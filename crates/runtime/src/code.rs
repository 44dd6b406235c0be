//! Error codes of runs and measurements.

pub use H::*;

stagewright_core::codes! {
    /// runs and measurements on this machine
    pub enum H {
        /// ONNX Runtime not found
        ///
        /// `run` and `profile` execute models with the shared library of ONNX Runtime, which is loaded at run time. Install the Python
        /// package (`pip install onnxruntime`), whose library is found in the active virtual environment or with `python3` on the path;
        /// or name a library with `--onnxruntime FILE` or in the variable `ORT_DYLIB_PATH`.
        H001,

        /// unusable library
        ///
        /// The file is not a shared library of ONNX Runtime, or is older than 1.17. The message includes the one of the
        /// system's loader.
        H002,

        /// model that cannot be cut
        ///
        /// A model is cut at the operators of its graph, each of which has to be a node of the main graph of the file.
        /// Operators in branches of an `If` with a constant condition are not such nodes. Nor can a model be cut at a
        /// tensor whose type is unknown. Simplify the model with the program that exports it.
        H003,

        /// missing weights
        ///
        /// The model says that a tensor is in a file beside it, and that file is missing, too short, or outside the folder of the
        /// model. Put it there. To measure a model whose weights do not matter, give `--random-weights`: random numbers of the same
        /// shapes take their place.
        H004,

        /// plan that cannot be run here
        ///
        /// `run` starts one process on a core of its own for every device of the plan, and measures inference. Plans with more devices
        /// than cores, with replicated stages, without a predicted time, or for a schedule of training steps cannot be run, nor can models
        /// in formats other than ONNX. `run` and `profile` run the model as it is, so they refuse `--precision` if it
        /// would change the model.
        H005,

        /// process that ended
        ///
        /// A process of the pipeline ended before its work was done; the message says by which signal or code, and has the last lines
        /// that it wrote. Signal 9 usually means that the machine ran out of memory: use a smaller batch. The other
        /// processes have been stopped.
        H006,

        /// no progress
        ///
        /// None of the processes has reported anything for as long as `--patience` allows. The message names those that were waited
        /// for. All have been stopped. Give more time if a single sample takes that long.
        H007,

        /// failure in a process
        ///
        /// ONNX Runtime cannot load or run a part of the model; its message is repeated. Check that it runs the whole model.
        H008,

        /// wrong outputs
        ///
        /// The outputs of the pipeline differ from those of the whole model by more than rounding explains. Please report it, with the
        /// model and the plan. `--no-compare` skips the comparison.
        H009,

        /// temporary files
        ///
        /// The parts of the model and its weights go to a temporary folder, which is full or not writable. Free some space, or
        /// name another folder in the variable `TMPDIR`.
        H010,

        /// interrupted run
        ///
        /// The run was interrupted before anything was measured. All processes have been stopped.
        H011,

        /// function with another operator set
        ///
        /// A function of the model imports another version of an operator set than the model does, and nodes of both run in one file,
        /// which has one version for all. The message names the first such node. Have ONNX inline the functions and convert their nodes
        /// to the version of the model:
        ///
        /// ```text
        /// python3 -c "import onnx, onnx.inliner; onnx.save(onnx.inliner.inline_local_functions(onnx.load('model.onnx'), convert_version=True), 'inlined.onnx')"
        /// ```
        ///
        /// The other commands read such a model as it is.
        H012,
    }
}
