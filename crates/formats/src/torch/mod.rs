//! PyTorch: a script that writes an `ExportedProgram` or a training step as native JSON.
//!
//! A PyTorch model is a program, and only PyTorch knows what it computes. So there is no importer: the script
//! [`EXPORTER`] runs where the model is, and its output is read like any native model. It depends on PyTorch
//! alone.
//!
//! Users get one file, which is the concatenation of several here: operator costs, the document, programs of
//! `torch.export`, training steps, the command.

/// The script; `stagewright exporter torch` prints it.
pub const EXPORTER: &str = concat!(
    include_str!("costs.py"),
    include_str!("graph.py"),
    include_str!("program.py"),
    include_str!("training.py"),
    include_str!("command.py"),
);
