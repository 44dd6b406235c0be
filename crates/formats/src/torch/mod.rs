//! PyTorch: a script that writes an `ExportedProgram` or a training step as native JSON, and one that measures kernels.
//!
//! A PyTorch model is a program, and only PyTorch knows what it computes. So there is no importer: the script
//! [`EXPORTER`] runs where the model is, and its output is read like any native model. The script can also measure the
//! operators of a program, and then writes their seconds into the model. [`KERNELS`] measures products and attention of
//! many sizes on a device. Both depend on PyTorch alone.
//!
//! Each script is a single file for its users, concatenated from several files here. The exporter has operator costs,
//! the document, programs of `torch.export`, timing, the measured program, training steps and the command; the
//! measurement of kernels has timing and the kernels.

/// The script; `stagewright exporter torch` prints it.
pub const EXPORTER: &str = concat!(
    include_str!("costs.py"),
    include_str!("graph.py"),
    include_str!("program.py"),
    include_str!("timing.py"),
    include_str!("forward.py"),
    include_str!("training.py"),
    include_str!("command.py"),
);

/// The script that measures kernels on a device and writes `stagewright.costs/1`.
pub const KERNELS: &str =
    concat!(include_str!("kernels.py"), include_str!("timing.py"), include_str!("grid.py"));
