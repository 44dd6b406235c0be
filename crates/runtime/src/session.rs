//! Sessions of ONNX Runtime on one core.

use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{DynTensorValueType, DynValue};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::protocol::{Optimization, SegmentInput};
use crate::tensor::Tensor;
use crate::weights;

/// Files that a session writes beside its outputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    /// Prefix of a profile.
    pub(crate) profile: Option<PathBuf>,
    /// The optimised model.
    pub(crate) optimized: Option<PathBuf>,
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Loaded {
    session: Session,
    outputs: Vec<String>,
}

impl Loaded {
    /// Loads a model for one thread.
    ///
    /// # Errors
    /// The message of ONNX Runtime.
    pub(crate) fn new(
        environment: &Environment,
        model: &Path,
        optimization: Optimization,
        written: &Written,
    ) -> Result<Loaded, String> {
        let failed = |error: ort::Error| error.to_string();
        let refused = |error: ort::Error<SessionBuilder>| error.to_string();
        let level = match optimization {
            Optimization::None => GraphOptimizationLevel::Disable,
            Optimization::Basic => GraphOptimizationLevel::Level1,
            Optimization::Extended => GraphOptimizationLevel::Level2,
        };
        let mut builder = Session::builder(environment).map_err(failed)?;
        builder = builder.with_intra_threads(1).map_err(refused)?;
        builder = builder.with_inter_threads(1).map_err(refused)?;
        builder = builder.with_intra_op_spinning(false).map_err(refused)?;
        builder = builder.with_flush_to_zero().map_err(refused)?;
        builder = builder.with_optimization_level(level).map_err(refused)?;
        if let Some(prefix) = &written.profile {
            builder = builder.with_profiling(prefix).map_err(refused)?;
        }
        if let Some(path) = &written.optimized {
            builder = builder.with_optimized_model_path(path).map_err(refused)?;
        }
        let session = builder.commit_from_file(model).map_err(failed)?;
        let outputs = session.outputs().iter().map(|output| output.name().to_owned()).collect();
        Ok(Loaded { session, outputs })
    }

    /// Runs the model; returns its outputs in the order of the model.
    ///
    /// # Errors
    /// The message of ONNX Runtime.
    pub(crate) fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>, String> {
        let given: Vec<(&str, ort::session::SessionInputValue<'_>)> =
            inputs.iter().map(|(name, tensor)| (*name, tensor.value().into())).collect();
        let mut made = self.session.run(given).map_err(|error| error.to_string())?;
        let take = |name: &String| {
            let value: DynValue = made.remove(name).ok_or_else(|| format!("no output `{name}`"))?;
            let tensor = value.downcast::<DynTensorValueType>().map_err(|error| error.to_string())?;
            Ok((name.clone(), Tensor::made(tensor)?))
        };
        self.outputs.iter().map(take).collect()
    }

    /// Ends the profile and returns its path.
    pub(crate) fn end_profile(&mut self) -> Result<PathBuf, String> {
        self.session.end_profiling().map(PathBuf::from).map_err(|error| error.to_string())
    }
}

/// Contents of an input of a model: they depend on its name, its type and the seed alone.
///
/// # Errors
/// If the input has no size in bytes, or there is no memory.
pub(crate) fn input(input: &SegmentInput, seed: u64) -> Result<Tensor, String> {
    let mut tensor =
        Tensor::zeros(input.elem, &input.dims).map_err(|error| format!("input `{}`: {error}", input.name))?;
    let salt =
        input.name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    weights::fill(tensor.bytes_mut(), input.elem, -1.0, 1.0, &mut StdRng::seed_from_u64(salt));
    Ok(tensor)
}
