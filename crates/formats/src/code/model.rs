//! Error codes about models of other programs.

stagewright_core::codes! {
    /// models of other programs
    pub enum M {
        /// duplicate node name or id
        ///
        /// Edges refer to nodes by name or id, so these must be unique. In a cost graph, ids are unique within a
        /// partition: dump the graph of a single partition. In ONNX, domain, name and overload identify a function.
        M001,

        /// edge to an unknown node
        ///
        /// An edge or an input names something that is neither a node nor an output of one. In ONNX, nodes are listed after the
        /// nodes that make their inputs; if no such order exists, the graph has a cycle. A call of a function names an overload that
        /// the model has. Check that the file is complete.
        M002,

        /// negative or non-finite value
        ///
        /// A time, size, cost or id is negative or not a finite number. TensorFlow writes a size that it did not record as −1:
        /// record it.
        M003,

        /// model without nodes
        ///
        /// There is nothing to place: the file has no nodes, or none that depends on an input. In ONNX, an input that also has an
        /// initialiser is a constant.
        M004,

        /// times without a unit
        ///
        /// Piper's format does not declare the unit of its times. Give it with `--time-unit s`, `ms`, `us` or `ns`; the published
        /// BERT-32 profile is in seconds.
        M005,

        /// line, field or element that cannot be parsed
        ///
        /// The file begins in its format and then continues in another form; usually it is truncated. The place is the line where
        /// parsing stopped.
        M006,

        /// malformed ONNX model
        ///
        /// The bytes are not a protobuf message of a model, or are truncated. Check that the file was copied completely, and that it
        /// is the model and not the file of its weights.
        M007,

        /// unknown shape or type
        ///
        /// The work of a node follows from the shapes of its inputs and outputs, and one of these shapes is unknown, or
        /// one of these tensors holds text or has a type without a size. Add shapes, as the help of the error says, or
        /// cut the model after its operators on strings.
        M008,

        /// contradictory shapes
        ///
        /// The inputs of a node contradict its attributes or its declared outputs, or the size of a tensor or the work of a node is
        /// not finite; or a call has more inputs or outputs than its function. The model would not run either: check the program that
        /// wrote it.
        M009,

        /// open dimension
        ///
        /// A dimension of an input is a symbol instead of a number, or an option gives a size that no dimension takes:
        /// `--batch` or `--sequences` without an open first dimension, different sizes for the same dimension,
        /// `--context` without an open length of the cache, `--dim` with a name that the model lacks. Give `--batch N`
        /// for the first dimension and `--dim NAME=N` for any other; the help of the error has the names.
        M010,

        /// node with a body of unknown work
        ///
        /// The node has a body, such as that of a loop, and the number of iterations or the work of one is unknown. In ONNX, a `Loop`
        /// needs a trip count that is constant or follows from shapes, a condition that stays true, and carried values whose shapes
        /// do not change. A `Scan` and an `If` need nothing; for an `If` whose condition is data, the branch with more work counts. If
        /// the trip count is an input of the model, the help of the error has the command that makes it a constant. Anything else
        /// needs an export with a fixed number of steps or with the loop unrolled. Functions that call themselves, bodies and
        /// functions nested without end, and every node with a body in OpenVINO IR have this code too.
        M011,

        /// node that cannot run on one device
        ///
        /// A plan puts an operator on one device, and Piper's profile of this node has no entry for one device under
        /// `TMPCs`, or its entry for one device synchronises with other nodes. Profile the node on one device and add
        /// that profile under `"1"`.
        M012,

        /// key of a configuration that is missing or has a senseless value
        ///
        /// A `config.json` describes a model by keys such as `hidden_size` and `num_hidden_layers`, a GGUF file by keys such as
        /// `llama.block_count`. The place is the key. Check that the file is that of the whole model, and not of an adapter or a
        /// tokenizer.
        M013,

        /// unknown architecture
        ///
        /// The layers of a model follow from its `model_type` (or `general.architecture` in a GGUF file), and this one is not known.
        /// If its layers are those of a known architecture, say so with `--as`, as in `--as llama`; the help of the error names the
        /// nearest one.
        M014,

        /// model that is too large to describe
        ///
        /// The layers, widths or tensors of the model are more than any computation here can hold: a number of layers of 0 or above
        /// 16,384, or 2^56 bytes of weights. Check the widths and the number of layers.
        M015,

        /// malformed header of a file of weights
        ///
        /// The header of a safetensors or GGUF file is truncated, contradicts itself, or is larger than such headers are. Check that
        /// the file was copied or downloaded completely; a file of Git LFS that was not fetched is a short text.
        M016,

        /// tensors that contradict the configuration
        ///
        /// A tensor has one shape in the weights and another by the configuration, or is absent from either. Check that the
        /// configuration and the weights are of the same model.
        M017,

        /// width that cannot be set
        ///
        /// `--set NAME=N` replaces a width of a configuration, and the name is that of no width and no key of the file, or the
        /// architecture has no such width, as a model without experts has no `top_k`. The help of the error names those that the
        /// model has. Inputs that are no configuration, such as GGUF files, are what their tensors are.
        M018,
    }
}
