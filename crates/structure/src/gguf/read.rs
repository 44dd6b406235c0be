//! Header, key-values and tensor infos of a GGUF file.

use std::collections::BTreeMap;

use stagewright_formats::code::M;
use stagewright_formats::{At, InputError, Result};

use super::source::{ReadSeek, Source};
use super::types::block_type;
use crate::encoding::Encoding;

/// Maximum number of bytes of a key or of the name of a tensor. Tensors of llama.cpp have fewer than 64.
const LONGEST_NAME: u64 = 1 << 10;
/// Maximum number of bytes of a text that is kept; templates of chats are longer, and not needed.
const LONGEST_TEXT: u64 = 1 << 12;
/// Maximum number of numbers of a list that is kept: lists by layer are shorter, those by token longer.
const LONGEST_LIST: u64 = 1 << 14;
/// Maximum number of keys; files have about fifty.
const MOST_KEYS: u64 = 1 << 10;
/// Maximum number of tensors of a file; files have some thousands.
const MOST_TENSORS: u64 = 1 << 18;
/// Maximum number of dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// Alignment of the data where the key `general.alignment` is missing.
const ALIGNMENT: u64 = 32;

/// Value of a key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    Number(f64),
    Flag(bool),
    Text(String),
    /// Whole numbers, and flags as 0 and 1.
    List(Vec<i128>),
    /// A list or a long text that was not kept, with its length.
    Skipped(u64),
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Info {
    pub(super) name: String,
    /// Dimensions, with the fastest last.
    pub(super) shape: Vec<u64>,
    pub(super) encoding: Encoding,
    pub(super) bytes: u64,
    /// Offset from the begin of the data.
    offset: u64,
}

/// What stands before the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) values: BTreeMap<String, Value>,
    pub(super) tensors: Vec<Info>,
}

/// Reads the header of a file.
///
/// # Errors
/// If the header is truncated, contradicts itself or the length of the file, or has a type that is unknown (M016).
pub(super) fn header<'a>(label: &'a str, reader: Box<dyn ReadSeek + 'a>) -> Result<Header> {
    let mut source = Source::new(label, reader)?;
    version(label, &mut source)?;
    let tensor_count = count(&mut source, "tensors", MOST_TENSORS)?;
    let key_count = count(&mut source, "keys", MOST_KEYS)?;
    let mut values = BTreeMap::new();
    for _ in 0..key_count {
        let offset = source.offset();
        let key = name(&mut source, "key")?;
        let value = value(&mut source, &key)?;
        if values.insert(key.clone(), value).is_some() {
            return Err(source.fault_of(&key, format!("the key at byte {offset} is there twice")));
        }
    }
    let alignment = alignment(&source, &values)?;
    let mut tensors: Vec<Info> = Vec::new();
    for _ in 0..tensor_count {
        tensors.push(info(&mut source, alignment)?);
    }
    within(&source, &tensors, alignment)?;
    Ok(Header { values, tensors })
}

fn version(label: &str, source: &mut Source) -> Result<()> {
    if source.bytes()? != *b"GGUF" {
        return Err(source.fault(0, "the file does not begin with GGUF"));
    }
    let version = source.u32()?;
    let (message, help) = match version {
        2 | 3 => return Ok(()),
        1 => ("version 1 of GGUF is not read".to_owned(), "convert the model again with llama.cpp"),
        _ if version.swap_bytes() <= 3 => (
            "the file is big endian".to_owned(),
            "convert it with gguf_convert_endian.py of llama.cpp, as in gguf_convert_endian.py model.gguf little",
        ),
        _ => (format!("version {version} of GGUF is unknown"), "give a file of version 2 or 3"),
    };
    Err(InputError::new(M::M016, label, At::Path("byte 4".to_owned()), message, help))
}

fn count(source: &mut Source, kind: &str, most: u64) -> Result<u64> {
    let offset = source.offset();
    let count = source.u64()?;
    if count > most {
        return Err(source.fault(offset, format!("the file has {count} {kind}, more than {most}")));
    }
    Ok(count)
}

/// A name that may not be empty.
fn name(source: &mut Source, kind: &str) -> Result<String> {
    let offset = source.offset();
    let bytes = match source.text(LONGEST_NAME)? {
        (0, _) => return Err(source.fault(offset, format!("the name of a {kind} is empty"))),
        (length, None) => {
            let message = format!("the name of a {kind} has {length} bytes, more than {LONGEST_NAME}");
            return Err(source.fault(offset, message));
        }
        (_, Some(bytes)) => bytes,
    };
    String::from_utf8(bytes).map_err(|_| source.fault(offset, format!("the name of a {kind} is no UTF-8")))
}

fn value(source: &mut Source, key: &str) -> Result<Value> {
    let kind = source.u32()?;
    match kind {
        8 => text(source),
        9 => list(source, key),
        _ => match scalar(source, kind) {
            Some(value) => value,
            None => Err(source.fault_of(key, format!("values of type {kind} are unknown"))),
        },
    }
}

fn text(source: &mut Source) -> Result<Value> {
    Ok(match source.text(LONGEST_TEXT)? {
        (_, Some(bytes)) => Value::Text(String::from_utf8_lossy(&bytes).into_owned()),
        (length, None) => Value::Skipped(length),
    })
}

/// Bytes of a number or flag; `None` for any other type.
fn width(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// A number or flag; `None` for any other type.
fn scalar(source: &mut Source, kind: u32) -> Option<Result<Value>> {
    let whole = |value: Result<i128>| value.map(Value::Whole);
    Some(match kind {
        0 => whole(source.bytes().map(|bytes| u8::from_le_bytes(bytes).into())),
        1 => whole(source.bytes().map(|bytes| i8::from_le_bytes(bytes).into())),
        2 => whole(source.bytes().map(|bytes| u16::from_le_bytes(bytes).into())),
        3 => whole(source.bytes().map(|bytes| i16::from_le_bytes(bytes).into())),
        4 => whole(source.u32().map(i128::from)),
        5 => whole(source.bytes().map(|bytes| i32::from_le_bytes(bytes).into())),
        6 => source.bytes().map(|bytes| Value::Number(f32::from_le_bytes(bytes).into())),
        7 => source.bytes().map(|[byte]| Value::Flag(byte != 0)),
        10 => whole(source.u64().map(i128::from)),
        11 => whole(source.bytes().map(|bytes| i64::from_le_bytes(bytes).into())),
        12 => source.bytes().map(|bytes| Value::Number(f64::from_le_bytes(bytes))),
        _ => return None,
    })
}

fn list(source: &mut Source, key: &str) -> Result<Value> {
    let kind = source.u32()?;
    let count = source.u64()?;
    if kind == 8 {
        source.require_items(count, 8)?;
        for _ in 0..count {
            let length = source.u64()?;
            source.skip(length)?;
        }
        return Ok(Value::Skipped(count));
    }
    let Some(bytes) = width(kind) else {
        let message = if kind == 9 {
            "a list of lists is not read".to_owned()
        } else {
            format!("values of type {kind} are unknown")
        };
        return Err(source.fault_of(key, message));
    };
    source.require_items(count, bytes)?;
    if count > LONGEST_LIST || matches!(kind, 6 | 12) {
        source.skip(count * bytes)?;
        return Ok(Value::Skipped(count));
    }
    let mut numbers = Vec::new();
    for _ in 0..count {
        match scalar(source, kind).transpose()? {
            Some(Value::Whole(number)) => numbers.push(number),
            Some(Value::Flag(flag)) => numbers.push(flag.into()),
            _ => return Err(source.fault_of(key, format!("values of type {kind} are unknown"))),
        }
    }
    Ok(Value::List(numbers))
}

fn alignment(source: &Source, values: &BTreeMap<String, Value>) -> Result<u64> {
    const KEY: &str = "general.alignment";
    match values.get(KEY) {
        None => Ok(ALIGNMENT),
        Some(&Value::Whole(alignment))
            if alignment > 0 && u32::try_from(alignment).is_ok_and(u32::is_power_of_two) =>
        {
            Ok(alignment as u64)
        }
        Some(_) => Err(source.fault_of(KEY, "the alignment is no power of 2")),
    }
}

fn info(source: &mut Source, alignment: u64) -> Result<Info> {
    let name = name(source, "tensor")?;
    let dimensions = source.u32()?;
    if dimensions > MOST_DIMENSIONS {
        let message = format!("the tensor has {dimensions} dimensions, more than {MOST_DIMENSIONS}");
        return Err(source.fault_of(&name, message));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(source.u64()?);
    }
    if shape.contains(&0) {
        return Err(source.fault_of(&name, "a dimension of the tensor is 0"));
    }
    shape.reverse();
    let number = source.u32()?;
    let offset = source.u64()?;
    let found = block_type(number).map_err(|why| {
        let mut error = source.fault_of(&name, format!("the tensor has a type that is not read: {why}"));
        error.help = "convert or quantise the model again with a current llama.cpp".to_owned();
        error
    })?;
    let (encoding, block) = (found.encoding, found.block);
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        let message = format!("rows of {row} are no whole number of blocks of {block} ({})", encoding.name());
        return Err(source.fault_of(&name, message));
    }
    let Some(bytes) = encoding.bytes(&shape) else {
        return Err(source.fault_of(&name, "the tensor has more bytes than 64 bits count"));
    };
    if !offset.is_multiple_of(alignment) {
        let message = format!("the data begin at {offset}, which is no multiple of {alignment}");
        return Err(source.fault_of(&name, message));
    }
    Ok(Info { name, shape, encoding, bytes, offset })
}

/// Checks that names differ, and that data are within the file and do not overlap.
fn within(source: &Source, tensors: &[Info], alignment: u64) -> Result<()> {
    let mut by_name: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    by_name.sort_unstable();
    if let Some(pair) = by_name.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(source.fault_of(pair[0], "the tensor is there twice"));
    }
    let start = source.offset().next_multiple_of(alignment);
    let mut by_offset: Vec<&Info> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    let mut free = start;
    for tensor in by_offset {
        let begin = start.checked_add(tensor.offset);
        let end = begin.and_then(|begin| begin.checked_add(tensor.bytes));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= source.length() => {
                if begin < free {
                    let message = format!("the data at byte {begin} overlap those of another tensor");
                    return Err(source.fault_of(&tensor.name, message));
                }
                free = end;
            }
            _ => {
                let message = format!(
                    "the file ends at byte {}, within or before the data of the tensor, which are {} bytes at {} + {start}",
                    source.length(),
                    tensor.bytes,
                    tensor.offset
                );
                return Err(source.fault_of(&tensor.name, message));
            }
        }
    }
    Ok(())
}
