//! Mutilated files: a coded error or a structure, and never a panic.

use stagewright_structure::Structure;

use super::hybrids::qwen3_next;
use super::layers::deepseek;
use super::models::{Widths, gpt_oss};
use super::writer::{Model, Value, read_bytes};

/// A file of some kilobytes with lists, windows and experts.
fn tiny() -> Model {
    let widths = Widths { layers: 2, hidden: 32, heads: 2, kv_heads: 1, head: 32, inner: 32, vocabulary: 32 };
    let mut model = gpt_oss(&widths, 2, 1);
    model.key("attention.sliding_window_pattern", Value::Flags(vec![true, false]));
    model.general("tokenizer.ggml.tokens", Value::Texts(vec!["a".to_owned(); 32]));
    model
}

/// Reads bytes, and uses what came of them.
fn read(bytes: &[u8]) -> Option<Structure> {
    match read_bytes(bytes) {
        Ok(structure) => {
            assert_eq!(
                structure.weight_bytes(),
                structure.tensors.iter().map(|tensor| tensor.bytes).sum::<u64>()
            );
            Some(structure)
        }
        Err(error) => {
            let code = error.code.to_string();
            assert!(["M013", "M014", "M015", "M016", "M017"].contains(&code.as_str()), "{code}: {error}");
            assert!(!error.help.is_empty() && error.place.to_string().starts_with("model.gguf"));
            None
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = tiny().bytes();
    assert!(read(&bytes).is_some());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_none(), "{length} of {} bytes", bytes.len());
    }
}

#[test]
fn three_thousand_flipped_bytes_are_errors_or_structures() {
    for model in [tiny(), qwen3_next(), deepseek()] {
        let (header, _) = model.header();
        let bytes = model.bytes();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = || {
            // Xorshift (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut outcomes = [0usize; 2];
        for _ in 0..3000 {
            let mut mutilated = bytes.clone();
            for _ in 0..1 + draw() % 3 {
                let place = (draw() % header.len() as u64) as usize;
                mutilated[place] = draw() as u8;
            }
            outcomes[usize::from(read(&mutilated).is_some())] += 1;
        }
        assert!(outcomes.iter().all(|&count| count > 100), "{}: {outcomes:?}", model.architecture);
    }
}
