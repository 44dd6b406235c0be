//! An ONNX file without its weights.
//!
//! A model is one protobuf message, most of it weights, and may be larger than memory. Planning needs the
//! graph, the shapes of the weights, and the values of small tensors that shapes are computed from. So the
//! file is read once, as a stream: a message that can hold weights is rebuilt without them, everything else
//! is copied, and the result is a valid message of the same type that any decoder reads.
//!
//! Only lengths can be false in a protobuf message. Each is checked against the enclosing message before
//! anything is read, so that a file of n bytes costs O(n) memory at most.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::value::MAX_CONTENT;
use crate::Stream;
use crate::error::{At, InputError, Result};

/// Bytes of values kept per tensor: enough for all that are read, each of which takes at most ten.
const KEPT_VALUES: usize = 10 * MAX_CONTENT;

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
    /// Field numbers are those of `onnx.proto`.
    fn fate(self, field: u64) -> Fate {
        match (self, field) {
            (Message::Model, 7) => Fate::Descend(Message::Graph),
            (Message::Model, 25) => Fate::Descend(Message::Function),
            // Training steps, metadata of the model, and documentation.
            (Message::Model, 6 | 14 | 20) | (Message::Graph, 10 | 14 | 16) | (Message::Node, 6) => Fate::Drop,
            (Message::Graph, 1) | (Message::Function, 7) => Fate::Descend(Message::Node),
            (Message::Graph, 5) | (Message::Attribute, 5 | 10) => Fate::Descend(Message::Tensor),
            (Message::SparseTensor, 1 | 2) => Fate::Descend(Message::Tensor),
            (Message::Graph, 15) | (Message::Attribute, 22 | 23) => Fate::Descend(Message::SparseTensor),
            (Message::Node, 5) => Fate::Descend(Message::Attribute),
            (Message::Attribute, 6 | 11) => Fate::Descend(Message::Graph),
            (Message::Tensor, 4..=7 | 9..=11) => Fate::Value,
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
    let mut reader = Reader { label, input: BufReader::with_capacity(1 << 16, stream), at: 0 };
    reader.message(Message::Model, length, 0)
}

struct Reader<'a> {
    label: &'a str,
    input: BufReader<&'a mut dyn Stream>,
    /// Bytes read so far.
    at: u64,
}

impl Reader<'_> {
    fn message(&mut self, message: Message, end: u64, depth: u32) -> Result<Vec<u8>> {
        if depth > DEEPEST {
            return Err(self.malformed("messages are nested too deeply"));
        }
        let mut out = Vec::new();
        let mut values = 0;
        while self.at < end {
            let tag = self.varint(end)?;
            let fate = message.fate(tag >> 3);
            let before = out.len();
            match tag & 7 {
                0 => {
                    let value = self.varint(end)?;
                    put(&mut out, tag);
                    put(&mut out, value);
                }
                wire @ (1 | 5) => {
                    put(&mut out, tag);
                    self.copy(if wire == 1 { 8 } else { 4 }, end, &mut out)?;
                }
                2 => {
                    let length = self.varint(end)?;
                    let until = self.at.checked_add(length).filter(|&until| until <= end);
                    let Some(until) = until else { return Err(self.cut_off()) };
                    match fate {
                        Fate::Drop => self.skip(length)?,
                        Fate::Value if length > KEPT_VALUES as u64 => self.skip(length)?,
                        Fate::Descend(inner) => {
                            let inner = self.message(inner, until, depth + 1)?;
                            put(&mut out, tag);
                            put(&mut out, inner.len() as u64);
                            out.extend_from_slice(&inner);
                        }
                        Fate::Copy | Fate::Value => {
                            put(&mut out, tag);
                            put(&mut out, length);
                            self.copy(length, end, &mut out)?;
                        }
                    }
                }
                _ => return Err(self.malformed("a field has an unknown wire type")),
            }
            if matches!(fate, Fate::Value) {
                // Values need not be packed, and then come one by one.
                values += out.len() - before;
                if values > 2 * KEPT_VALUES {
                    out.truncate(before);
                }
            }
        }
        Ok(out)
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
        InputError::new("M007", self.label, At::Path(format!("byte {}", self.at)), message, help)
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
