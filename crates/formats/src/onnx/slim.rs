//! An ONNX file without its weights.
//!
//! A model is one protobuf message, most of it weights, and may be larger than memory. Planning needs the graph, the
//! shapes of the weights, and the values of small tensors that shapes are computed from. So the file is read once, as a
//! stream: a message that can hold weights is rebuilt without them, everything else is copied, and the result is a
//! valid message of the same type that any decoder reads. Constants that are not weights, in `Constant` nodes and
//! integer initialisers, are compared by their bytes: a digest takes the place of bytes that are left out.
//!
//! Only lengths can be false in a protobuf message. Each is checked against the enclosing message before
//! anything is read, so that a file of n bytes costs O(n) memory at most.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use prost::Message as _;
use sha2::{Digest, Sha256};

use super::equal::DIGEST;
use super::proto::StringStringEntryProto;
use super::value::{MAX_CONTENT, is_parameter};
use crate::Stream;
use crate::code::M007;
use crate::error::{At, InputError, Result};

/// Bytes of values kept per tensor: enough for all values that are read, each of at most ten bytes.
const KEPT_VALUES: usize = 10 * MAX_CONTENT;

/// Largest number of bytes of a model without its weights, as of any model that is held whole.
const LARGEST_KEPT: u64 = 1 << 30;

/// Field numbers of a tensor's element type and metadata.
const DATA_TYPE: u64 = 2;
const METADATA: u64 = 16;

/// Deepest nesting of messages. The decoder would reject deeper ones as well.
const DEEPEST: u32 = 64;

/// Messages that contain weights, directly or nested.
#[derive(Clone, Copy, PartialEq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    /// A tensor of an attribute.
    Literal,
    SparseTensor,
    Function,
}

/// Treatment of a field.
enum Fate {
    Copy,
    Descend(Message),
    Drop,
    /// Values of a tensor: kept while they are few.
    Value,
}

impl Message {
    /// Treatment of a field, by its number in `onnx.proto`.
    fn fate(self, field: u64) -> Fate {
        match (self, field) {
            (Message::Model, 7) => Fate::Descend(Message::Graph),
            (Message::Model, 25) => Fate::Descend(Message::Function),
            // Training steps, metadata of the model, and documentation.
            (Message::Model, 6 | 14 | 20) | (Message::Graph, 10 | 14 | 16) | (Message::Node, 6) => Fate::Drop,
            (Message::Graph, 1) | (Message::Function, 7) => Fate::Descend(Message::Node),
            (Message::Graph, 5) => Fate::Descend(Message::Tensor),
            (Message::Attribute, 5 | 10) => Fate::Descend(Message::Literal),
            (Message::SparseTensor, 1 | 2) => Fate::Descend(Message::Tensor),
            (Message::Graph, 15) | (Message::Attribute, 22 | 23) => Fate::Descend(Message::SparseTensor),
            (Message::Node, 5) => Fate::Descend(Message::Attribute),
            (Message::Attribute, 6 | 11) => Fate::Descend(Message::Graph),
            (Message::Tensor | Message::Literal, 4..=7 | 9..=11) => Fate::Value,
            // Documentation and metadata, in which a file could claim a digest.
            (Message::Tensor | Message::Literal, 12 | 16) => Fate::Drop,
            _ => Fate::Copy,
        }
    }
}

/// Reads a model without its weights; the bytes are a `ModelProto`.
pub(super) fn slim(label: &str, stream: &mut dyn Stream) -> Result<Vec<u8>> {
    let length = stream
        .seek(SeekFrom::End(0))
        .and_then(|length| stream.seek(SeekFrom::Start(0)).map(|_| length))
        .map_err(|error| crate::unreadable(label, &error))?;
    let mut reader = Reader {
        label,
        input: BufReader::with_capacity(1 << 16, stream),
        at: 0,
        kept: 0,
        limit: LARGEST_KEPT,
    };
    reader.message(Message::Model, length, 0)
}

struct Reader<'a> {
    label: &'a str,
    input: BufReader<&'a mut dyn Stream>,
    /// Bytes read so far.
    at: u64,
    /// Bytes kept so far.
    kept: u64,
    /// Largest number of bytes kept.
    limit: u64,
}

/// A message without its weights, as far as it has been read.
struct Slim {
    message: Message,
    out: Vec<u8>,
    /// Bytes of values in `out`.
    values: usize,
    /// Digest of the values, if they are a constant that is not a weight.
    digest: Option<Sha256>,
    /// Whether values were left out.
    is_short: bool,
}

impl Slim {
    fn new(message: Message) -> Slim {
        let digest = (message == Message::Literal).then(Sha256::new);
        Slim { message, out: Vec::new(), values: 0, digest, is_short: false }
    }

    /// Adds a field with a number.
    fn number(&mut self, tag: u64, value: u64) {
        put(&mut self.out, tag);
        put(&mut self.out, value);
        if self.message == Message::Tensor && tag >> 3 == DATA_TYPE && self.values == 0 {
            let is_integer = i32::try_from(value).is_ok_and(|elem| !is_parameter(elem));
            self.digest = is_integer.then(Sha256::new);
        }
    }

    /// Counts the values that were added after the first `before` bytes, and removes them again if there are too many.
    fn count_values(&mut self, before: usize) {
        if let Some(digest) = &mut self.digest {
            digest.update(&self.out[before..]);
        }
        // Values that are not packed come one by one.
        self.values += self.out.len() - before;
        if self.values > 2 * KEPT_VALUES {
            self.is_short = true;
            self.out.truncate(before);
        }
    }

    /// The message, with a digest in place of values that were left out.
    fn finish(mut self) -> Vec<u8> {
        if let Some(digest) = self.digest.filter(|_| self.is_short) {
            let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            let entry = StringStringEntryProto { key: Some(DIGEST.into()), value: Some(digest) };
            put(&mut self.out, METADATA << 3 | 2);
            put(&mut self.out, entry.encoded_len() as u64);
            self.out.extend(entry.encode_to_vec());
        }
        self.out
    }
}

impl Reader<'_> {
    fn message(&mut self, message: Message, end: u64, depth: u32) -> Result<Vec<u8>> {
        if depth > DEEPEST {
            return Err(self.malformed("messages are nested too deeply"));
        }
        let mut slim = Slim::new(message);
        while self.at < end {
            let tag = self.varint(end)?;
            if tag >> 3 == 0 {
                return Err(self.malformed("a field has the number 0"));
            }
            if self.kept > self.limit {
                return Err(self.malformed("it is larger than 1 GiB without its weights"));
            }
            let before = slim.out.len();
            match tag & 7 {
                0 => slim.number(tag, self.varint(end)?),
                wire @ (1 | 5) => {
                    put(&mut slim.out, tag);
                    self.copy(if wire == 1 { 8 } else { 4 }, end, &mut slim.out)?;
                }
                2 => match message.fate(tag >> 3) {
                    Fate::Descend(inner) => {
                        let (_, until) = self.length(end)?;
                        let inner = self.message(inner, until, depth + 1)?;
                        put(&mut slim.out, tag);
                        put(&mut slim.out, inner.len() as u64);
                        slim.out.extend_from_slice(&inner);
                        // The values were counted while the inner message was read.
                        continue;
                    }
                    fate => self.bytes(tag, &fate, end, &mut slim)?,
                },
                _ => return Err(self.malformed("a field has an unknown wire type")),
            }
            if matches!(message.fate(tag >> 3), Fate::Value) {
                slim.count_values(before);
            }
            self.kept += (slim.out.len() - before) as u64;
        }
        Ok(slim.finish())
    }

    /// Reads the length of a field, and returns it with the end of the field.
    fn length(&mut self, end: u64) -> Result<(u64, u64)> {
        let length = self.varint(end)?;
        match self.at.checked_add(length).filter(|&until| until <= end) {
            Some(until) => Ok((length, until)),
            None => Err(self.cut_off()),
        }
    }

    /// Reads a field of bytes that are no message with weights.
    fn bytes(&mut self, tag: u64, fate: &Fate, end: u64, slim: &mut Slim) -> Result<()> {
        let (length, _) = self.length(end)?;
        match fate {
            Fate::Drop => self.skip(length),
            Fate::Value if length > KEPT_VALUES as u64 => {
                slim.is_short = true;
                match &mut slim.digest {
                    Some(digest) => self.digest(length, tag, digest),
                    None => self.skip(length),
                }
            }
            Fate::Copy | Fate::Value | Fate::Descend(_) => {
                put(&mut slim.out, tag);
                put(&mut slim.out, length);
                self.copy(length, end, &mut slim.out)
            }
        }
    }

    /// Adds a field of bytes to a digest; the caller has checked that the message is long enough.
    fn digest(&mut self, length: u64, tag: u64, digest: &mut Sha256) -> Result<()> {
        digest.update(tag.to_le_bytes());
        let until = self.at + length;
        while self.at < until {
            let read = self.input.fill_buf().map_err(|error| crate::unreadable(self.label, &error))?;
            let length = usize::try_from(until - self.at).map_or(read.len(), |left| left.min(read.len()));
            if length == 0 {
                return Err(self.cut_off());
            }
            digest.update(&read[..length]);
            self.input.consume(length);
            self.at += length as u64;
        }
        Ok(())
    }

    fn varint(&mut self, end: u64) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Err(self.cut_off());
            }
            let mut byte = [0];
            let read = self.input.read_exact(&mut byte);
            self.checked(read)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a varint has more than ten bytes"))
    }

    fn copy(&mut self, length: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        if end - self.at < length {
            return Err(self.cut_off());
        }
        let read = self.input.by_ref().take(length).read_to_end(out);
        if self.checked(read)? as u64 != length {
            return Err(self.cut_off());
        }
        self.at += length;
        Ok(())
    }

    /// Skips bytes; the caller has checked that the message is long enough.
    fn skip(&mut self, length: u64) -> Result<()> {
        let skipped = match i64::try_from(length) {
            Ok(length) => self.input.seek_relative(length),
            Err(_) => self.input.seek(SeekFrom::Start(self.at.saturating_add(length))).map(drop),
        };
        self.checked(skipped)?;
        self.at += length;
        Ok(())
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| crate::unreadable(self.label, &error))
    }

    fn cut_off(&self) -> InputError {
        self.malformed("a field is longer than its message")
    }

    fn malformed(&self, what: &str) -> InputError {
        let message = format!("not an ONNX model: {what}");
        let help = "check that the copy is complete, and that it is an ONNX model and not its weights";
        InputError::new(M007, self.label, At::Path(format!("byte {}", self.at)), message, help)
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn numbers_that_are_left_out_do_not_count_as_kept() {
        const FLOAT_DATA: u64 = 4;
        let numbers = 4 * KEPT_VALUES;
        let mut tensor = Vec::new();
        for number in 0..numbers {
            // Each has its own field.
            put(&mut tensor, FLOAT_DATA << 3 | 5);
            tensor.extend((number as f32).to_le_bytes());
        }
        let length = tensor.len() as u64;
        let mut stream = Cursor::new(tensor);
        let input = BufReader::new(&mut stream as &mut dyn Stream);
        let limit = 3 * KEPT_VALUES as u64;
        let mut reader = Reader { label: "model.onnx", input, at: 0, kept: 0, limit };
        let kept = reader.message(Message::Tensor, length, 0).unwrap_or_else(|error| panic!("{error}"));
        assert!(kept.len() as u64 <= limit && reader.kept == kept.len() as u64, "{}", reader.kept);
    }
}
