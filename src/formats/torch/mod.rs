//! PyTorch: a script that writes the native JSON from an `ExportedProgram`, or of a training step.
//!
//! A PyTorch model is a program, and only PyTorch can say what it does. So the route is the other way around:
//! the script [`EXPORTER`] runs where the model is, and what it writes is read as any native model. It needs
//! nothing but PyTorch.
//!
//! It is one file for its users and several here, one after the other: what an operator costs, the document, programs
//! of `torch.export`, training steps, the command.

/// The script; `stagewright exporter torch` prints it.
pub const EXPORTER: &str = concat!(
    include_str!("costs.py"),
    include_str!("graph.py"),
    include_str!("program.py"),
    include_str!("training.py"),
    include_str!("command.py"),
);
