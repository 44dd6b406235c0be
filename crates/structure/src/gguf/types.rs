//! Block types of `ggml`, by the number that a GGUF file gives a tensor.

use crate::encoding::Encoding;

/// Number of a type, its name in [`Encoding`], and the numbers of a block, of which a row holds a whole number.
const TYPES: &[(u32, &str, u64)] = &[
    (0, "f32", 1),
    (1, "f16", 1),
    (2, "q4_0", 32),
    (3, "q4_1", 32),
    (6, "q5_0", 32),
    (7, "q5_1", 32),
    (8, "q8_0", 32),
    (9, "q8_1", 32),
    (10, "q2_k", 256),
    (11, "q3_k", 256),
    (12, "q4_k", 256),
    (13, "q5_k", 256),
    (14, "q6_k", 256),
    (15, "q8_k", 256),
    (16, "iq2_xxs", 256),
    (17, "iq2_xs", 256),
    (18, "iq3_xxs", 256),
    (19, "iq1_s", 256),
    (20, "iq4_nl", 32),
    (21, "iq3_s", 256),
    (22, "iq2_s", 256),
    (23, "iq4_xs", 256),
    (24, "i8", 1),
    (25, "i16", 1),
    (26, "i32", 1),
    (27, "i64", 1),
    (28, "f64", 1),
    (29, "iq1_m", 256),
    (30, "bf16", 1),
    (34, "tq1_0", 256),
    (35, "tq2_0", 256),
    (39, "mxfp4", 32),
    // Four blocks of the encoding with their scales side by side.
    (40, "nvfp4", 64),
    (41, "q1_0", 128),
];

/// Types that `ggml` had and gave up: interleaved copies of others for one kind of processor, and early formats.
const REMOVED: &[u32] = &[4, 5, 31, 32, 33, 36, 37, 38];

/// A type of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockType {
    pub(super) encoding: Encoding,
    /// Numbers of a block.
    pub(super) block: u64,
}

/// Finds a type by its number, or says why there is none.
pub(super) fn block_type(number: u32) -> Result<BlockType, String> {
    let row = TYPES.iter().find(|row| row.0 == number);
    if let Some((encoding, block)) = row.and_then(|row| Some((Encoding::named(row.1)?, row.2))) {
        return Ok(BlockType { encoding, block });
    }
    Err(if REMOVED.contains(&number) {
        format!("type {number} was removed from ggml")
    } else {
        format!("type {number} is unknown")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a block, by `type_size` of ggml.
    #[test]
    fn every_type_has_the_bytes_of_ggml() {
        let bytes = [
            4, 2, 18, 20, 22, 24, 34, 36, 84, 110, 144, 176, 210, 292, 66, 74, 98, 50, 18, 110, 82, 136, 1,
            2, 4, 8, 8, 56, 2, 54, 66, 17, 36, 18,
        ];
        assert_eq!(TYPES.len(), bytes.len());
        for (&(number, name, block), bytes) in TYPES.iter().zip(bytes) {
            let found = block_type(number).unwrap();
            assert_eq!((found.encoding.name().as_ref(), found.block), (name, block));
            assert_eq!(found.encoding.bytes(&[7, block]), Some(7 * bytes), "{name}");
        }
    }

    #[test]
    fn every_other_number_is_refused() {
        let refused = (0..64).filter(|&number| block_type(number).is_err()).collect::<Vec<_>>();
        assert_eq!(refused[..8], *REMOVED);
        assert_eq!(refused.len(), 64 - TYPES.len());
        assert!(block_type(4).unwrap_err().contains("removed"));
        assert!(block_type(u32::MAX).unwrap_err().contains("unknown"));
    }
}
