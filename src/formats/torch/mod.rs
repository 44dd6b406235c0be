//! PyTorch: a script that writes the native JSON from an `ExportedProgram`.
//!
//! A PyTorch model is a program, and only PyTorch can say what it does. So the route is the other way around:
//! the script [`EXPORTER`] runs where the model is, and what it writes is read as any native model. It needs
//! nothing but PyTorch.

/// The script; `stagewright exporter torch` prints it.
pub const EXPORTER: &str = include_str!("exporter.py");
