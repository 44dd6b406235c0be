//! Samples and tokens, read off the inputs of a model.
//!
//! The tokens of a language model are an integer input of two dimensions, samples and positions. Masks and positions
//! have the same form, and are longer in a step with a cache, so the tokens are found by the names that exporters give
//! the input: those of Hugging Face's models and of the models that PyTorch's documentation exports.

use std::num::NonZeroU64;

use stagewright_core::document::BatchDocument;

/// Names of the input with the tokens, the likeliest first; for an encoder and a decoder, the encoder's input.
const TOKENS: [&str; 5] = ["input_ids", "decoder_input_ids", "tokens", "token_ids", "idx"];

/// An input of a model.
pub(super) struct Input<'a> {
    pub(super) name: &'a str,
    pub(super) is_integer: bool,
    pub(super) dims: &'a [u64],
    /// The dimension that counts samples: the first unless the file says otherwise; `None` if the file says that the
    /// input has no such dimension.
    pub(super) samples: Option<usize>,
}

/// Contents of a batch. If no input has tokens, the samples are counted by the dimension of samples, provided that all
/// inputs agree on its size.
pub(super) fn batch(inputs: &[Input<'_>]) -> Option<BatchDocument> {
    let tokens = TOKENS.iter().find_map(|name| {
        let input = inputs.iter().find(|input| input.name == *name && input.is_integer)?;
        match (input.dims, input.samples) {
            (&[samples, tokens], Some(0)) | (&[tokens, samples], Some(1)) => {
                Some(BatchDocument { samples: NonZeroU64::new(samples)?, tokens: NonZeroU64::new(tokens) })
            }
            _ => None,
        }
    });
    tokens.or_else(|| {
        let mut all = inputs.iter().filter_map(|input| input.dims.get(input.samples?).copied());
        let first = all.next().filter(|&first| all.all(|other| other == first))?;
        Some(BatchDocument { samples: NonZeroU64::new(first)?, tokens: None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inputs: &[(&str, bool, &[u64], Option<usize>)]) -> Option<(u64, Option<u64>)> {
        let input = |&(name, is_integer, dims, samples)| Input { name, is_integer, dims, samples };
        let batch = batch(&inputs.iter().map(input).collect::<Vec<_>>())?;
        Some((batch.samples.get(), batch.tokens.map(NonZeroU64::get)))
    }

    #[test]
    fn tokens_are_those_of_the_input_with_that_name() {
        let mask = ("attention_mask", true, &[8, 160][..], Some(0));
        let past = ("past", false, &[8, 12, 159, 64][..], Some(0));
        assert_eq!(of(&[mask, ("input_ids", true, &[8, 1], Some(0)), past]), Some((8, Some(1))));
        assert_eq!(of(&[("input_ids", true, &[160, 8], Some(1))]), Some((8, Some(160))));
        assert_eq!(of(&[("input_ids", false, &[8, 1], Some(0))]), Some((8, None)));
    }

    #[test]
    fn samples_are_one_dimension_of_all_inputs() {
        let image = ("image", false, &[4, 3, 224, 224][..], Some(0));
        assert_eq!(of(&[image]), Some((4, None)));
        assert_eq!(of(&[image, ("timestep", true, &[1], Some(0))]), None);
        assert_eq!(of(&[image, ("timestep", true, &[1], None)]), Some((4, None)));
        assert_eq!(of(&[image, ("scale", false, &[], Some(0))]), Some((4, None)));
        assert_eq!(of(&[("sequence", false, &[100, 7], Some(1))]), Some((7, None)));
        assert_eq!(of(&[("image", false, &[3, 224, 224], None)]), None);
    }
}
