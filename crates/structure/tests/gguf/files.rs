//! Headers: every type of tensors and values, and what is refused.

use stagewright_structure::Encoding;
use stagewright_structure::gguf::is_gguf;

use super::models::small;
use super::writer::{F32, Model, Value, read_bytes};

/// Number, name, numbers of a block, bytes of a block, of `ggml_type` in `ggml.h`.
const TYPES: [(u32, &str, u64, u64); 34] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 36),
    (10, "q2_k", 256, 84),
    (11, "q3_k", 256, 110),
    (12, "q4_k", 256, 144),
    (13, "q5_k", 256, 176),
    (14, "q6_k", 256, 210),
    (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
];

#[test]
fn every_type_is_read_to_the_byte() {
    for (number, name, block, bytes) in TYPES {
        let mut model = small();
        model.tensor("new.weight", &[3 * block, 5, 7], (number, block, bytes));
        let structure = model.structure();
        let tensor = structure.tensors.last().unwrap();
        assert_eq!(tensor.encoding, Encoding::named(name).unwrap());
        assert_eq!(
            (tensor.bytes, tensor.shape.as_slice()),
            (3 * 5 * 7 * bytes, &[7, 5, 3 * block][..]),
            "{name}"
        );
        if block > 1 {
            model.tensors.last_mut().unwrap().dimensions[0] = 3 * block / 2;
            let error = model.read().unwrap_err();
            assert_eq!(error.place.to_string(), "model.gguf: new.weight", "{name}");
        }
    }
}

#[test]
fn every_other_type_is_refused_by_its_tensor() {
    for number in (0..64).filter(|number| TYPES.iter().all(|row| row.0 != *number)) {
        let mut model = small();
        model.tensor("new.weight", &[256], (number, 1, 1));
        let error = model.read().unwrap_err();
        assert_eq!(
            (error.code.to_string(), error.place.to_string()),
            ("M016".to_owned(), "model.gguf: new.weight".to_owned())
        );
        assert!(error.message.contains(&format!("type {number} ")), "{}", error.message);
    }
}

#[test]
fn version_2_is_read_and_the_vocabulary_counts_tokens() {
    let mut model = small();
    model.version = 2;
    assert_eq!(model.structure(), small().structure());
    model.general("tokenizer.ggml.tokens", Value::Texts(vec!["token".to_owned(); 700]));
    model.tensors.retain(|tensor| tensor.name != "token_embd.weight");
    assert_eq!(model.structure().vocabulary, 700);
    model.key("vocab_size", 600);
    assert_eq!(model.structure().vocabulary, 600);
}

#[test]
fn data_may_be_aligned_otherwise() {
    let mut model = small();
    model.general("general.alignment", 8);
    for (index, tensor) in model.tensors.iter_mut().enumerate() {
        tensor.offset = Some(index as u64 * (1 << 20) + 8);
    }
    assert_eq!(model.structure().layers, small().structure().layers);
}

/// Code, place and message of the error after a change.
fn refused(change: impl Fn(&mut Model)) -> (String, String, String) {
    let mut model = small();
    change(&mut model);
    let error = model.read().unwrap_err();
    (error.code.to_string(), error.place.to_string(), error.message)
}

#[test]
fn contradictory_headers_name_their_place() {
    let expect = |change: fn(&mut Model), name: &str, message: &str| {
        let (code, place, found) = refused(change);
        assert_eq!((code.as_str(), place), ("M016", format!("model.gguf: {name}")), "{found}");
        assert!(found.contains(message), "{found}");
    };
    expect(|model| _ = model.general("general.alignment", 24), "general.alignment", "power of 2");
    expect(|model| _ = model.general("general.architecture", "llama"), "general.architecture", "twice");
    expect(|model| _ = model.tensor("output.weight", &[1], F32), "output.weight", "twice");
    expect(|model| model.tensors[3].offset = Some(48), "blk.0.attn_norm.weight", "no multiple of 32");
    expect(|model| model.tensors[3].offset = Some(32), "blk.0.attn_norm.weight", "overlap");
    expect(|model| model.tensors[3].dimensions = vec![1; 5], "blk.0.attn_norm.weight", "5 dimensions");
    expect(|model| model.tensors[3].dimensions = vec![0], "blk.0.attn_norm.weight", "is 0");
    expect(|model| model.version = 1, "byte 4", "version 1");
    expect(|model| model.version = 4, "byte 4", "version 4");
    expect(|model| model.version = 3u32.swap_bytes(), "byte 4", "big endian");
}

/// A header of one key whose value is raw.
fn raw(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes =
        [b"GGUF".as_slice(), &3u32.to_le_bytes(), &0u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend(key.as_bytes());
    bytes.extend(value);
    bytes
}

#[test]
fn hostile_values_are_refused_before_memory_is_taken() {
    let expect = |bytes: &[u8], place: &str, message: &str| {
        let error = read_bytes(bytes).unwrap_err();
        assert_eq!(
            (error.code.to_string(), error.place.to_string()),
            ("M016".to_owned(), format!("model.gguf: {place}"))
        );
        assert!(error.message.contains(message), "{}", error.message);
    };
    let [of_lists, of_texts, of_numbers] =
        [9u32, 8, 4].map(|kind| [9u32.to_le_bytes(), kind.to_le_bytes()].concat());
    let count = u64::MAX.to_le_bytes();
    expect(&raw("key", &[of_lists, 1u64.to_le_bytes().to_vec()].concat()), "key", "list of lists");
    expect(&raw("key", &[of_texts.as_slice(), &count].concat()), "byte 51", "ends at byte 51");
    expect(&raw("key", &[of_numbers.as_slice(), &count].concat()), "byte 51", "ends at byte 51");
    expect(&raw("key", &[8u32.to_le_bytes().as_slice(), &count].concat()), "byte 47", "ends at byte 47");
    expect(&raw("key", &13u32.to_le_bytes()), "key", "type 13");
    expect(&raw("", &[]), "byte 24", "empty");
    expect(&raw(&"k".repeat(2000), &[0; 8]), "byte 24", "2000 bytes");
    expect(&[b"GGUF\x03\0\0\0".as_slice(), &count, &count].concat(), "byte 8", "tensors");
    expect(&[b"GGUF\x03\0\0\0".as_slice(), &[0; 8], &count].concat(), "byte 16", "keys");
    expect(b"version https://git-lfs.github.com/spec/v1", "byte 0", "begin with GGUF");
    expect(b"", "byte 0", "ends at byte 0");
    assert!(is_gguf(&small().bytes()) && !is_gguf(b"GGU"));
}

#[test]
fn tensors_beyond_the_end_of_a_file_are_named() {
    let mut bytes = small().bytes();
    let name = small().tensors.last().unwrap().name.clone();
    bytes.truncate(bytes.len() - 1);
    let error = read_bytes(&bytes).unwrap_err();
    assert_eq!(
        (error.code.to_string(), error.place.to_string()),
        ("M016".to_owned(), format!("model.gguf: {name}"))
    );
}
