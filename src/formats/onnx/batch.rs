//! Numbers of samples and tokens in a batch, from the inputs of a model.
//!
//! The tokens of a language model are an integer input of two dimensions, samples and positions. Masks and
//! positions look the same, and in a step with a cache they are longer, so the input is identified by the
//! names that exporters give it: those of Hugging Face's models and of the models that PyTorch's
//! documentation exports.

use std::num::NonZeroU64;

use stagewright_core::document::BatchDocument;

use super::proto::tensor_proto::DataType;
use super::value::Value;
use super::walk::{Origin, Walked};

/// Names of the token input, most likely first. For an encoder and a decoder, the encoder's.
const TOKENS: [&str; 5] = ["input_ids", "decoder_input_ids", "tokens", "token_ids", "idx"];

/// Contents of a batch. Without a token input, its samples are the first dimension, if all inputs agree on
/// it.
pub(super) fn batch(walked: &Walked<'_>) -> Option<BatchDocument> {
    let inputs: Vec<(&str, &Value)> = walked
        .values
        .iter()
        .filter(|entry| entry.origin == Origin::Input)
        .map(|entry| (entry.name, &entry.value))
        .collect();
    let is_integer = |value: &Value| [DataType::Int64 as i32, DataType::Int32 as i32].contains(&value.elem);
    let tokens = TOKENS.iter().find_map(|name| {
        let (_, value) = inputs.iter().find(|(input, value)| input == name && is_integer(value))?;
        match value.dims[..] {
            [samples, tokens] => {
                Some(BatchDocument { samples: NonZeroU64::new(samples)?, tokens: NonZeroU64::new(tokens) })
            }
            _ => None,
        }
    });
    tokens.or_else(|| {
        let mut firsts = inputs.iter().filter_map(|(_, value)| value.dims.first().copied());
        let first = firsts.next().filter(|&first| firsts.all(|other| other == first))?;
        Some(BatchDocument { samples: NonZeroU64::new(first)?, tokens: None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::onnx::walk::Entry;

    fn of(inputs: &[(&'static str, DataType, &[u64])]) -> Option<(u64, Option<u64>)> {
        let entry = |&(name, elem, dims): &(&'static str, DataType, &[u64])| Entry {
            name,
            value: Value::new(elem as i32, dims.to_vec()),
            origin: Origin::Input,
            weights: [].into(),
            is_stored: false,
            is_quantized: false,
        };
        let values = inputs.iter().map(entry).collect();
        let batch = batch(&Walked { values, operators: Vec::new(), outputs: Vec::new() })?;
        Some((batch.samples.get(), batch.tokens.map(NonZeroU64::get)))
    }

    #[test]
    fn tokens_are_those_of_the_input_with_that_name() {
        let mask = ("attention_mask", DataType::Int64, &[8, 160][..]);
        let decode =
            [mask, ("input_ids", DataType::Int64, &[8, 1]), ("past", DataType::Float, &[8, 12, 159, 64])];
        assert_eq!(of(&decode), Some((8, Some(1))));
    }

    #[test]
    fn samples_are_the_first_dimension_if_it_is_one() {
        let image = ("image", DataType::Float, &[4, 3, 224, 224][..]);
        assert_eq!(of(&[image]), Some((4, None)));
        assert_eq!(of(&[image, ("timestep", DataType::Int64, &[1])]), None);
        assert_eq!(of(&[image, ("scale", DataType::Float, &[])]), Some((4, None)));
    }
}
