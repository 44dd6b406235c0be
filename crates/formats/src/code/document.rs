//! Error codes about syntax and structure of any document.

stagewright_core::codes! {
    /// syntax and structure of any document
    pub enum F {
        /// not UTF-8 text
        ///
        /// The file is not UTF-8: it is compressed, binary, or in another encoding such as UTF-16. Save it as UTF-8, or decompress
        /// it. If it is a binary model such as ONNX, name the format with `--format`.
        F001,

        /// malformed JSON or TOML
        ///
        /// The text is truncated, nested too deeply, or not valid in its notation: JSON has no comments, no comma after the last
        /// element, no NaN and no infinity. The place is the line and column where parsing stopped.
        F002,

        /// missing field
        ///
        /// A field without a default is missing. Add it; the schemas in `data/schema` list all fields of every document.
        F003,

        /// unknown field
        ///
        /// This version does not know the field, usually because of its spelling:
        ///
        /// ```text
        /// { "name": "conv1", "flops": 1e9 }     the field is called flop
        /// ```
        ///
        /// Correct the spelling or remove the field. Documents of other programs are read more leniently.
        F004,

        /// value of the wrong type
        ///
        /// A value is text where a number is expected, or the reverse, or is not among the values that the field allows. The message
        /// says what is expected.
        F005,

        /// unrecognised file format
        ///
        /// Neither the content nor the beginning of the file matches a known model format. Check that it is the right file and that
        /// it is complete; if a format is not recognised, name it with `--format`.
        F006,

        /// document of another kind
        ///
        /// The `schema` of this document is of another type or version, usually because files are given in the wrong order. In
        /// `check MODEL PLAN` the model comes first.
        F007,

        /// empty file
        ///
        /// The file is empty or contains only white space. Check that the program that wrote it finished.
        F008,

        /// duplicate key
        ///
        /// An object has a key twice, or a node a figure twice, and it is ambiguous which one counts. Keep one of the two.
        /// Likewise, two patterns of pins that match the same operator must name the same devices, or one must have more
        /// characters besides its wildcards.
        F009,

        /// number that is not finite
        ///
        /// Numbers must be finite and smaller than about 1.8e308. Omit a field whose value is unknown or unlimited.
        F010,

        /// incomplete read
        ///
        /// Reading started and then failed, because of the disk, the network or a permission. Copy the file again, or
        /// read it elsewhere.
        F011,

        /// model that only its framework can read
        ///
        /// The input is a program that PyTorch saved (`.pt2`), weights (`.pt`, `.bin`, safetensors) or a Hugging Face folder. The
        /// script that `stagewright exporter torch` prints reads a saved program and writes native JSON, which can be planned. Weights
        /// do not say what a model computes: build the model, export it with `torch.export` or `torch.onnx.export`, and give that. A
        /// strategy problem (IOPDDL) has no devices and is for `plan`, `bound`, `check` and `bench` only.
        F012,
    }
}
