//! Sizes: defaults of a variant, overrides of a caller, and allowed ranges.

use std::fmt;

use super::error::WorkloadError;

/// A hyperparameter that can be overridden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Samples in a batch.
    Batch,
    /// Steps or tokens of a sample.
    Sequence,
    /// Pixels along a side of the square input.
    Image,
    /// Width of the hidden state, or filters of a convolutional network.
    Hidden,
    /// Layers, or cells between reductions.
    Layers,
    /// Entries of the vocabulary.
    Vocabulary,
}

impl Size {
    /// All sizes.
    pub const ALL: [Size; 6] =
        [Size::Batch, Size::Sequence, Size::Image, Size::Hidden, Size::Layers, Size::Vocabulary];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Size::Batch => "batch",
            Size::Sequence => "sequence",
            Size::Image => "image",
            Size::Hidden => "hidden",
            Size::Layers => "layers",
            Size::Vocabulary => "vocabulary",
        }
    }

    /// Largest allowed value. Products of any three sizes fit into 64 bits; costs are kept as
    /// `f64`.
    pub fn most(self) -> u64 {
        match self {
            Size::Batch => 1 << 16,
            Size::Sequence => 1 << 20,
            Size::Image => 1 << 14,
            Size::Hidden => 1 << 17,
            Size::Layers => 1 << 10,
            Size::Vocabulary => 1 << 24,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sizes given by the caller; the variant supplies the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    given: [Option<u64>; Size::ALL.len()],
}

impl Sizes {
    /// Sets a size.
    pub fn with(mut self, size: Size, value: u64) -> Sizes {
        self.given[size as usize] = Some(value);
        self
    }

    /// Rejects sizes that the family does not have and values out of range.
    pub(super) fn check(&self, family: &'static str, known: &[Size]) -> Result<(), WorkloadError> {
        for size in Size::ALL {
            if self.given[size as usize].is_some() && !known.contains(&size) {
                return Err(WorkloadError::NoSuchSize {
                    family,
                    size: size.name(),
                    known: known.iter().map(|size| size.name()).collect(),
                });
            }
            self.or(size, 1, 1)?;
        }
        Ok(())
    }

    /// The given value or else the default, which must be at least `least`.
    pub(super) fn or(&self, size: Size, default: u64, least: u64) -> Result<u64, WorkloadError> {
        let value = self.given[size as usize].unwrap_or(default);
        let largest = size.most();
        if (least..=largest).contains(&value) {
            Ok(value)
        } else {
            Err(WorkloadError::OutOfRange { size: size.name(), value, least, most: largest })
        }
    }

    /// The given value or else the default, which must be at least `divisor` and a multiple of it.
    pub(super) fn multiple(&self, size: Size, default: u64, divisor: u64) -> Result<u64, WorkloadError> {
        let value = self.or(size, default, divisor)?;
        if value.is_multiple_of(divisor) {
            Ok(value)
        } else {
            Err(WorkloadError::NotAMultiple { size: size.name(), value, of: divisor })
        }
    }

    /// Samples in a batch.
    pub(super) fn batch(&self, default: u64) -> Result<u64, WorkloadError> {
        self.or(Size::Batch, default, 1)
    }

    /// Steps or tokens of a sample.
    pub(super) fn sequence(&self, default: u64) -> Result<u64, WorkloadError> {
        self.or(Size::Sequence, default, 1)
    }

    /// Number of layers.
    pub(super) fn layers(&self, default: u64) -> Result<u64, WorkloadError> {
        self.or(Size::Layers, default, 1)
    }

    /// Entries of the vocabulary.
    pub(super) fn vocabulary(&self, default: u64) -> Result<u64, WorkloadError> {
        self.or(Size::Vocabulary, default, 1)
    }
}
