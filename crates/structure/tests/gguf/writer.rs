//! A writer of GGUF files whose data is a hole.

use std::fs::File;
use std::io::{Cursor, Error, ErrorKind, Write};
use std::path::Path;

use stagewright_formats::Result;
use stagewright_structure::Structure;
use stagewright_structure::gguf::{ReadSeek, read};

/// Numbers of types, with the numbers and bytes of a block.
pub(super) const F32: (u32, u64, u64) = (0, 1, 4);
pub(super) const F16: (u32, u64, u64) = (1, 1, 2);
pub(super) const Q8_0: (u32, u64, u64) = (8, 32, 34);
pub(super) const Q4_K: (u32, u64, u64) = (12, 256, 144);
pub(super) const Q5_K: (u32, u64, u64) = (13, 256, 176);
pub(super) const Q6_K: (u32, u64, u64) = (14, 256, 210);
pub(super) const MXFP4: (u32, u64, u64) = (39, 32, 17);

/// Value of a key.
#[derive(Debug, Clone)]
pub(super) enum Value {
    U32(u32),
    I32(i32),
    F32(f32),
    Flag(bool),
    Text(String),
    Numbers(Vec<u32>),
    Flags(Vec<bool>),
    Texts(Vec<String>),
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::U32(value)
    }
}

impl From<f32> for Value {
    fn from(value: f32) -> Value {
        Value::F32(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Flag(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<&[u32]> for Value {
    fn from(value: &[u32]) -> Value {
        Value::Numbers(value.to_vec())
    }
}

impl Value {
    fn write(&self, bytes: &mut Vec<u8>) {
        let list = |bytes: &mut Vec<u8>, kind: u32, count: usize| {
            bytes.extend(9u32.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend((count as u64).to_le_bytes());
        };
        match self {
            Value::U32(value) => bytes.extend([4u32.to_le_bytes(), value.to_le_bytes()].concat()),
            Value::I32(value) => bytes.extend([5u32.to_le_bytes(), value.to_le_bytes()].concat()),
            Value::F32(value) => bytes.extend([6u32.to_le_bytes(), value.to_le_bytes()].concat()),
            Value::Flag(value) => {
                bytes.extend(7u32.to_le_bytes());
                bytes.push((*value).into());
            }
            Value::Text(value) => {
                bytes.extend(8u32.to_le_bytes());
                text(bytes, value);
            }
            Value::Numbers(values) => {
                list(bytes, 4, values.len());
                values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            }
            Value::Flags(values) => {
                list(bytes, 7, values.len());
                bytes.extend(values.iter().map(|&value| u8::from(value)));
            }
            Value::Texts(values) => {
                list(bytes, 8, values.len());
                values.iter().for_each(|value| text(bytes, value));
            }
        }
    }
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value.as_bytes());
}

/// A tensor, with dimensions as the file has them: the fastest first.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dimensions: Vec<u64>,
    pub(super) kind: (u32, u64, u64),
    /// Offset of the data instead of the next free one.
    pub(super) offset: Option<u64>,
}

impl Tensor {
    pub(super) fn bytes(&self) -> u64 {
        let (_, block, bytes) = self.kind;
        self.dimensions.iter().product::<u64>() / block * bytes
    }
}

/// A file that is put together.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) architecture: String,
    pub(super) keys: Vec<(String, Value)>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) version: u32,
}

impl Model {
    /// A model with a number of layers and a hidden state, the table of tokens and the last normalisation.
    pub(super) fn new(architecture: &str, layers: u32, hidden: u32, vocabulary: u64) -> Model {
        let mut model = Model {
            architecture: architecture.to_owned(),
            keys: Vec::new(),
            tensors: Vec::new(),
            version: 3,
        };
        model.general("general.architecture", architecture);
        model.key("block_count", layers).key("embedding_length", hidden);
        model.key("attention.layer_norm_rms_epsilon", 1e-5f32);
        model.tensor("token_embd.weight", &[hidden.into(), vocabulary], F16);
        model.tensor("output_norm.weight", &[hidden.into()], F32);
        model
    }

    pub(super) fn general(&mut self, key: &str, value: impl Into<Value>) -> &mut Model {
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    /// A key below the architecture.
    pub(super) fn key(&mut self, key: &str, value: impl Into<Value>) -> &mut Model {
        self.general(&format!("{}.{key}", self.architecture.clone()), value)
    }

    pub(super) fn tensor(&mut self, name: &str, dimensions: &[u64], kind: (u32, u64, u64)) -> &mut Model {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            dimensions: dimensions.to_vec(),
            kind,
            offset: None,
        });
        self
    }

    /// Tensors of a layer, each with `.weight` unless its name has a suffix.
    pub(super) fn layer(&mut self, layer: u64, tensors: &[(&str, &[u64])]) -> &mut Model {
        for (name, dimensions) in tensors {
            let suffix = if name.ends_with(".bias") || *name == "ssm_a" { "" } else { ".weight" };
            let kind = if dimensions.len() > 1 { F16 } else { F32 };
            self.tensor(&format!("blk.{layer}.{name}{suffix}"), dimensions, kind);
        }
        self
    }

    /// Bytes of all tensors.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.tensors.iter().map(Tensor::bytes).sum()
    }

    /// The header with the padding after it, and the length of the file.
    pub(super) fn header(&self) -> (Vec<u8>, u64) {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            text(&mut bytes, key);
            value.write(&mut bytes);
        }
        let mut free = 0u64;
        for tensor in &self.tensors {
            text(&mut bytes, &tensor.name);
            bytes.extend((tensor.dimensions.len() as u32).to_le_bytes());
            tensor.dimensions.iter().for_each(|dimension| bytes.extend(dimension.to_le_bytes()));
            bytes.extend(tensor.kind.0.to_le_bytes());
            let offset = tensor.offset.unwrap_or(free);
            bytes.extend(offset.to_le_bytes());
            free = (offset + tensor.bytes()).next_multiple_of(32);
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let length = bytes.len() as u64 + free;
        (bytes, length)
    }

    /// The whole file, with data of zeros.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (mut bytes, length) = self.header();
        bytes.resize(length as usize, 0);
        bytes
    }

    /// Writes the file with a hole for its data, and returns its length.
    pub(super) fn write(&self, path: &Path) -> u64 {
        let (bytes, length) = self.header();
        let mut file = File::create(path).unwrap();
        file.write_all(&bytes).unwrap();
        file.set_len(length).unwrap();
        length
    }

    /// Reads the model back from a file with a hole.
    pub(super) fn read(&self) -> Result<Structure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        self.write(&path);
        read("model.gguf", Box::new(File::open(path).unwrap()), &mut alone)
    }

    /// Reads the model back, and checks that its tensors have exactly the bytes that were written.
    pub(super) fn structure(&self) -> Structure {
        let structure = self.read().unwrap_or_else(|error| panic!("{error}: {}", error.help));
        assert_eq!(structure.weight_bytes(), self.weight_bytes());
        assert_eq!(structure.tensors.len(), self.tensors.len());
        structure
    }
}

/// A file without shards.
pub(super) fn alone(name: &str) -> std::io::Result<Box<dyn ReadSeek>> {
    Err(Error::new(ErrorKind::NotFound, format!("there is no {name}")))
}

/// Reads bytes as a file.
pub(super) fn read_bytes(bytes: &[u8]) -> Result<Structure> {
    read("model.gguf", Box::new(Cursor::new(bytes)), &mut alone)
}
