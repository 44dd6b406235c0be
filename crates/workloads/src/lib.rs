//! Built-in workloads: graphs of well-known models from their hyperparameters.
//!
//! A family records its model on a tape, operator by operator, as its paper describes it. The tape yields the
//! graph of inference or, with the derived backward pass and update, of a training step, at the granularity
//! of operators or of layers. Costs are FLOP and bytes, so the roofline model can price them on any cluster.
//!
//! [`language`] records a language model from its structure instead, as a configuration or a file of weights gives it.
//!
//! Data flows one way: [`Sizes`] and a variant → family → tape → step → layers → document. The families are
//! listed in [`FAMILIES`].
//!
//! Each figure of a graph is defined where it is computed: FLOP and bytes moved in `tape`, activations in
//! `step`, parameters and states in `optimizer`, workspace in `operators`. A test compares the parameters and
//! the FLOP of every variant with published figures.

mod blocks;
mod coarsen;
pub mod code;
mod draft;
mod error;
mod families;
mod figures;
pub mod language;
mod operators;
mod optimizer;
mod record;
mod sizes;
mod step;
mod tape;
mod tensor;

use stagewright_core::document::GraphDocument;

pub use error::WorkloadError;
pub use families::FAMILIES;
pub use figures::Figures;
use operators::{Activation, Conv, Loss, Window};
pub use optimizer::Optimizer;
use record::{Owner, Piece, Read, Record, Stored};
pub use sizes::{Size, Sizes};
use tape::Tape;
use tensor::{Shape, Tensor};

/// Number format of weights, activations and gradients, which all have the same width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// 4 bytes.
    #[default]
    Fp32,
    /// 2 bytes.
    Fp16,
    /// 2 bytes.
    Bf16,
    /// 1 byte.
    Fp8,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 4] = [Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Fp8];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> u32 {
        match self {
            Precision::Fp32 => 4,
            Precision::Fp16 | Precision::Bf16 => 2,
            Precision::Fp8 => 1,
        }
    }
}

/// The unit that an operator of the graph represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// A kernel.
    #[default]
    Operator,
    /// All kernels of a layer path and pass.
    Layer,
}

impl Granularity {
    /// All granularities.
    pub const ALL: [Granularity; 2] = [Granularity::Operator, Granularity::Layer];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Granularity::Operator => "operator",
            Granularity::Layer => "layer",
        }
    }
}

/// Options of generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Sizes that override those of the variant.
    pub sizes: Sizes,
    /// Optimiser of the training step; `None` for inference.
    pub training: Option<Optimizer>,
    /// Number format; `fp32` by default.
    pub precision: Precision,
    /// The unit that an operator represents; a kernel by default.
    pub granularity: Granularity,
}

/// A family of models.
pub trait Family: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// Short description for display.
    fn summary(&self) -> &'static str;

    /// Names of the family's variants, the default first.
    fn variants(&self) -> Vec<&'static str>;

    /// The sizes that can be overridden.
    fn sizes(&self) -> &'static [Size];

    /// Generates the graph of a variant, the default one if `None`.
    ///
    /// Takes time and memory proportional to the number of operators and pins.
    ///
    /// # Errors
    /// If the variant is unknown or the sizes describe no valid model.
    ///
    /// ```
    /// use stagewright_workloads::{Figures, Options, Precision, family};
    ///
    /// let resnet = family("resnet")?.generate(Some("50"), &Options::default())?;
    /// assert_eq!(Figures::new(&resnet, Precision::Fp32).parameters, 25_557_032.0);
    /// # Ok::<(), stagewright_workloads::WorkloadError>(())
    /// ```
    fn generate(&self, variant: Option<&str>, options: &Options) -> Result<GraphDocument, WorkloadError>;
}

/// Looks up a family by name.
///
/// # Errors
/// If no family has this name.
pub fn family(name: &str) -> Result<&'static dyn Family, WorkloadError> {
    FAMILIES.iter().copied().find(|family| family.name() == name).ok_or_else(|| {
        WorkloadError::UnknownFamily {
            name: name.into(),
            known: FAMILIES.iter().map(|family| family.name()).collect(),
        }
    })
}

/// A family as its file defines it: its variants with their hyperparameters, and a function that records a variant.
struct Definition<H: 'static> {
    name: &'static str,
    summary: &'static str,
    sizes: &'static [Size],
    variants: &'static [(&'static str, H)],
    record: fn(&mut Tape, &H, &Sizes) -> Result<(), WorkloadError>,
}

impl<H: Sync> Family for Definition<H> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn variants(&self) -> Vec<&'static str> {
        self.variants.iter().map(|&(name, _)| name).collect()
    }

    fn sizes(&self) -> &'static [Size] {
        self.sizes
    }

    fn generate(&self, variant: Option<&str>, options: &Options) -> Result<GraphDocument, WorkloadError> {
        let (name, hyperparameters) = match variant {
            None => &self.variants[0],
            Some(wanted) => self.variants.iter().find(|&&(name, _)| name == wanted).ok_or_else(|| {
                WorkloadError::UnknownVariant {
                    family: self.name,
                    name: wanted.into(),
                    known: self.variants(),
                }
            })?,
        };
        options.sizes.check(self.name, self.sizes)?;
        let mut tape = Tape::new(options.precision, options.training.is_some());
        (self.record)(&mut tape, hyperparameters, &options.sizes)?;
        let tape = tape.finish()?;
        let draft = match options.training {
            Some(optimizer) => step::training(&tape, optimizer)?,
            None => step::inference(&tape),
        };
        let draft = match options.granularity {
            Granularity::Operator => draft.fused(|_, _| true),
            Granularity::Layer => coarsen::layers(draft),
        };
        Ok(GraphDocument { batch: tape.batch, ..draft.document(format!("{}-{name}", self.name)) })
    }
}
