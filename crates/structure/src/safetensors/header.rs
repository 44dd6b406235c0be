//! Headers of files of weights.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;
use stagewright_formats::code::M;
use stagewright_formats::fault::Fault;
use stagewright_formats::{At, InputError, Result};

use crate::encoding::{Encoding, elements};

/// Maximum number of bytes of a header; the library of the format has the same limit.
const LONGEST_HEADER: u64 = 100_000_000;
/// Maximum number of bytes of the text that Git LFS leaves in place of a file.
const LONGEST_POINTER: u64 = 1024;
const POINTER: &[u8] = b"version https://git-lfs";

/// Type of the numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dtype(u8);

/// Name, bits of a number, and the encoding of numbers that stand alone.
const DTYPES: &[(&str, u64, Option<&str>)] = &[
    ("BOOL", 8, Some("bool")),
    ("F4", 4, None),
    ("F6_E2M3", 6, None),
    ("F6_E3M2", 6, None),
    ("U8", 8, Some("u8")),
    ("I8", 8, Some("i8")),
    ("F8_E5M2", 8, Some("fp8")),
    ("F8_E4M3", 8, Some("fp8")),
    ("F8_E8M0", 8, None),
    ("F8_E4M3FNUZ", 8, Some("fp8")),
    ("F8_E5M2FNUZ", 8, Some("fp8")),
    ("I16", 16, Some("i16")),
    ("U16", 16, Some("i16")),
    ("F16", 16, Some("f16")),
    ("BF16", 16, Some("bf16")),
    ("I32", 32, Some("i32")),
    ("U32", 32, Some("i32")),
    ("F32", 32, Some("f32")),
    ("C64", 64, None),
    ("F64", 64, Some("f64")),
    ("I64", 64, Some("i64")),
    ("U64", 64, Some("i64")),
];

impl Dtype {
    /// Finds a type by its name in headers, as in `BF16`; `None` if there is no such type.
    pub fn named(name: &str) -> Option<Dtype> {
        DTYPES.iter().position(|&(known, ..)| known == name).map(|index| Dtype(index as u8))
    }

    /// Name in headers.
    pub fn name(self) -> &'static str {
        DTYPES[usize::from(self.0)].0
    }

    /// Bits of a number.
    pub fn bits(self) -> u64 {
        DTYPES[usize::from(self.0)].1
    }

    /// Encoding of a tensor without scales; `None` if numbers of the type do not stand alone.
    pub(super) fn encoding(self) -> Option<Encoding> {
        DTYPES[usize::from(self.0)].2.and_then(Encoding::named)
    }

    /// Whether quantised weights are packed into integers of the type.
    pub(super) fn is_integer(self) -> bool {
        matches!(self.name(), "U8" | "I8" | "I16" | "U16" | "I32" | "U32" | "I64" | "U64")
    }
}

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Type of its numbers.
    pub dtype: Dtype,
    /// Shape, as it is stored.
    pub shape: Vec<u64>,
    /// Bytes.
    pub bytes: u64,
}

/// Header of a file of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Name of the file, for errors.
    pub label: String,
    /// Tensors by name.
    pub tensors: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Header {
    /// Reads the header of a file, and none of its weights. `file_bytes` is the length of the file, if known.
    ///
    /// # Errors
    /// If the file ends within its header, or its length contradicts the header; if the header is longer than 100 MB or no
    /// JSON, a type is unknown, a shape contradicts its bytes, or tensors overlap or leave gaps (M016). A pointer of Git LFS
    /// is recognised.
    pub fn read(label: &str, mut file: impl Read, file_bytes: Option<u64>) -> Result<Header> {
        let fault = |message: String, help: &str| InputError::new(M::M016, label, At::Whole, message, help);
        let failed = |error: std::io::Error| {
            fault(format!("the file cannot be read: {error}"), "check that the file can be read")
        };
        let mut start = Vec::new();
        file.by_ref().take(8).read_to_end(&mut start).map_err(failed)?;
        if !start.is_empty() && POINTER.starts_with(&start) {
            file.by_ref().take(LONGEST_POINTER).read_to_end(&mut start).map_err(failed)?;
            if start.starts_with(POINTER) {
                let help = "fetch the weights with `git lfs pull`";
                return Err(fault("the file is a pointer of Git LFS, without the weights".into(), help));
            }
        }
        let truncated =
            || fault("the file ends within its header".into(), "check that the file was copied completely");
        let length = u64::from_le_bytes(*start.first_chunk().ok_or_else(truncated)?);
        if length > LONGEST_HEADER {
            let message = format!("the header has {length} bytes, and headers have at most {LONGEST_HEADER}");
            return Err(fault(message, "check that the file is in the format safetensors"));
        }
        let mut text = Vec::new();
        file.take(length).read_to_end(&mut text).map_err(failed)?;
        if (text.len() as u64) < length {
            return Err(truncated());
        }
        let header = Header::parse(label, &text)?;
        let weights = header.tensors.values().map(|entry| u128::from(entry.bytes)).sum::<u128>();
        let expected = 8 + u128::from(length) + weights;
        match file_bytes {
            Some(bytes) if u128::from(bytes) != expected => {
                let message = format!("the file has {bytes} bytes, and its header is for {expected}");
                Err(fault(message, "check that the file was copied completely"))
            }
            _ => Ok(header),
        }
    }

    fn parse(label: &str, text: &[u8]) -> Result<Header> {
        let map: BTreeMap<String, Value> = serde_json::from_slice(text).map_err(|error| {
            let message = format!("the header cannot be read: {}", Fault::of_json(&error).message);
            InputError::new(M::M016, label, At::Whole, message, "check that the file was copied completely")
        })?;
        let mut places = Vec::new();
        let mut tensors = BTreeMap::new();
        for (name, value) in map {
            if name == "__metadata__" {
                continue;
            }
            let raw: RawEntry = serde_json::from_value(value).map_err(|error| {
                let message = Fault::of_json(&error).message;
                malformed(label, &name, format!("the entry of a tensor cannot be read: {message}"))
            })?;
            let (entry, range) = entry(label, &name, raw)?;
            places.push((range, name.clone()));
            tensors.insert(name, entry);
        }
        places.sort();
        let mut end = 0;
        for ([from, to], name) in places {
            if from != end {
                let fault = if from < end {
                    "overlaps the tensor before it"
                } else {
                    "does not follow the tensor before it"
                };
                return Err(malformed(label, &name, format!("the tensor {fault}")));
            }
            end = to;
        }
        Ok(Header { label: label.to_owned(), tensors })
    }
}

fn entry(label: &str, name: &str, raw: RawEntry) -> Result<(Entry, [u64; 2])> {
    let Some(dtype) = Dtype::named(&raw.dtype) else {
        return Err(malformed(label, name, format!("unknown type of numbers `{}`", raw.dtype)));
    };
    let [from, to] = raw.data_offsets;
    let Some(bytes) = to.checked_sub(from) else {
        return Err(malformed(label, name, "the tensor ends before it begins".into()));
    };
    let bits = elements(&raw.shape).and_then(|count| count.checked_mul(dtype.bits()));
    if bits.is_none_or(|bits| Some(bits) != bytes.checked_mul(8)) {
        let message = format!("the shape {:?} of {} does not have {bytes} bytes", raw.shape, dtype.name());
        return Err(malformed(label, name, message));
    }
    Ok((Entry { dtype, shape: raw.shape, bytes }, raw.data_offsets))
}

fn malformed(label: &str, name: &str, message: String) -> InputError {
    let help = "check that the file was copied completely, and the program that wrote it";
    InputError::at_path(M::M016, label, name, message, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Header> {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend(json.as_bytes());
        Header::read("a.safetensors", file.as_slice(), None)
    }

    #[test]
    fn types_have_their_bytes() {
        let header = read(
            r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]},
                "b": {"dtype": "BF16", "shape": [], "data_offsets": [3, 5]},
                "c": {"dtype": "I64", "shape": [0], "data_offsets": [5, 5]}}   "#,
        )
        .unwrap();
        assert_eq!(header.tensors.values().map(|entry| entry.bytes).collect::<Vec<_>>(), [3, 2, 0]);
        for &(name, _, encoding) in DTYPES {
            let dtype = Dtype::named(name).unwrap();
            assert_eq!(dtype.name(), name);
            assert_eq!(dtype.encoding().is_some(), encoding.is_some());
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let tensor = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{"dtype": "{dtype}", "shape": {shape}, "data_offsets": {offsets}}}"#)
        };
        let good = tensor("F32", "[2]", "[0, 8]");
        for (second, words) in [
            (tensor("F32", "[2]", "[8, 15]"), "does not have 7 bytes"),
            (tensor("F32", "[2]", "[4, 12]"), "overlaps"),
            (tensor("F32", "[2]", "[16, 24]"), "does not follow"),
            (tensor("F32", "[2]", "[16, 8]"), "ends before it begins"),
            (tensor("F33", "[2]", "[8, 16]"), "unknown type"),
            (tensor("F4", "[3]", "[8, 10]"), "does not have 2 bytes"),
            (tensor("F32", "[4294967296, 4294967296]", "[8, 8]"), "does not have 0 bytes"),
            (tensor("F32", "[-1]", "[8, 8]"), "cannot be read"),
            ("[]".to_owned(), "cannot be read"),
        ] {
            let error = read(&format!(r#"{{"a": {good}, "b": {second}}}"#)).unwrap_err();
            assert_eq!(error.code, "M016");
            assert!(error.message.contains(words), "{error}");
        }
        for text in ["", "[]", "{", "{\"a\": 1}"] {
            assert_eq!(read(text).unwrap_err().code, "M016", "{text}");
        }
    }

    #[test]
    fn lengths_are_checked_and_pointers_are_recognised() {
        let error = |bytes: &[u8], length| Header::read("a", bytes, length).unwrap_err().to_string();
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n";
        assert!(error(pointer, None).contains("git lfs pull"));
        assert!(error(b"", None).contains("ends within") && error(&[3, 0, 0], None).contains("ends within"));
        assert!(error(&[9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'], None).contains("ends within"));
        assert!(error(&[0, 0, 0, 0, 0, 0, 0, 1], None).contains("at most 100000000"));
        let file = [2, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'];
        assert!(Header::read("a", &file[..], Some(10)).unwrap().tensors.is_empty());
        assert!(error(&file, Some(11)).contains("has 11 bytes"));
    }
}
