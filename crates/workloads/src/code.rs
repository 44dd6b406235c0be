//! Error codes of workloads.

pub use W::*;

stagewright_core::codes! {
    /// workloads
    pub enum W {
        /// unknown workload family
        ///
        /// `stagewright workload --list` lists the families.
        W001,

        /// unknown variant
        ///
        /// The family has no such variant. `stagewright workload FAMILY --list` lists its variants.
        W002,

        /// size that the family does not have
        ///
        /// An option such as `--hidden` does not apply to this family. Omit it; the help lists the sizes that do apply.
        W003,

        /// size out of range
        ///
        /// The size is outside the range that the family supports; the message has the range. Omit it for the variant's own size.
        W004,

        /// indivisible size
        ///
        /// The size must be a multiple of another one: an image of its patches, a width of its heads. The message names it.
        W005,

        /// image too small
        ///
        /// Every pooling and strided layer reduces the image, and this one would be reduced to nothing. Give a larger
        /// `--image`.
        W006,

        /// too many operators
        ///
        /// Every step of a recurrent layer is unrolled, and the graph would be too large for every solver here. Give a shorter
        /// `--sequence` or fewer `--layers`, and put more routed experts of a language model into an operator.
        W007,
    }
}
