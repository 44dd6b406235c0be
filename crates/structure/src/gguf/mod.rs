//! GGUF files of llama.cpp: header, key-values and tensor infos, from which a structure with exact tensors follows.
//!
//! A file has keys such as `llama.block_count`, and tensors named `blk.3.attn_q.weight`, each with its type and the offset of
//! its data (the GGUF specification of `ggml`). No data are read, and of lists of tokens the length alone. What a layer is
//! follows from the names of its tensors, its widths from keys, so that a new architecture with known tensors needs no code;
//! where keys and tensors contradict each other, the file is refused. The module `architecture` has what llama.cpp fixes in
//! its code.
//!
//! A dimension that is first in the file is the fastest, so shapes are reversed: inputs of a product last, experts first.
//! Bytes of a tensor are those of its blocks, without the padding before the next.

mod architecture;
mod attention;
mod block;
mod feed_forward;
mod keys;
mod layers;
mod model;
mod read;
mod roles;
mod shards;
mod source;
mod states;
mod types;

use stagewright_formats::Result;

use crate::structure::{Embedding, Head, Layer, Norm, Structure, StructureSchema, Weight};
use crate::tensor::{Role, Tensor};
use block::{Block, contradiction};
use keys::Keys;
use model::Model;
use read::{Header, Info, Value};
use roles::Name;

pub use shards::Sibling;
pub use source::ReadSeek;

/// Whether bytes begin a GGUF file.
pub fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GGUF")
}

/// Reads the structure of a model from a GGUF file, which is the whole model or the first of its shards.
///
/// `sibling` opens a shard by its name in the folder of the file, as in `model-00002-of-00003.gguf`.
///
/// # Errors
/// If a header is malformed, or shards are missing or contradict each other (M016), a key is missing or has a senseless value
/// (M013), the layers are of no known kind (M014), the model is absurdly large (M015), or tensors contradict the keys (M017).
pub fn read(label: &str, reader: Box<dyn ReadSeek + '_>, sibling: &mut Sibling) -> Result<Structure> {
    let header = shards::union(label, reader, sibling)?;
    let keys = Keys::new(label, &header.values)?;
    let model = Model::new(keys, tensor(&header, "position_embd").is_some())?;
    let blocks = blocks(&model, &header)?;
    let norm = norm(&model, &header);
    let layers = blocks.iter().map(|block| layers::layer(&model, block, norm == Norm::Plain));
    let structure = Structure {
        schema: StructureSchema::V1,
        name: name(keys),
        architecture: keys.architecture.to_owned(),
        hidden: model.hidden,
        vocabulary: vocabulary(keys, &header)?,
        context: keys.count("context_length")?,
        embedding: embedding(&model, &header),
        norm,
        layers: layers.collect::<Result<Vec<Layer>>>()?,
        missing_predictions: model.layers - blocks.len() as u64,
        final_norm: tensor(&header, final_norm(keys, &header)).is_some(),
        head: head(&model, &header),
        towers: Vec::new(),
        other: other(&header),
        cache: None,
        tensors: tensors(&header, &blocks),
    };
    structure.check(label)?;
    Ok(structure)
}

/// Tensors by layer. Layers that predict may be left out of a file that counts them.
fn blocks<'a>(model: &Model<'a>, header: &'a Header) -> Result<Vec<Block<'a>>> {
    let label = model.keys.label;
    let mut blocks: Vec<Block> = (0..model.layers).map(|layer| Block::new(label, layer)).collect();
    for info in &header.tensors {
        let Some(layer) = Name::of(&info.name).layer else { continue };
        match usize::try_from(layer).ok().and_then(|layer| blocks.get_mut(layer)) {
            Some(block) => block.insert(info),
            None => {
                let message =
                    format!("the tensor is of layer {layer}, and block_count gives {}", model.layers);
                return Err(contradiction(label, &info.name, message));
            }
        }
    }
    if let Some(block) = blocks.iter().find(|block| block.is_empty() && !model.predicts(block.layer)) {
        let mut error = model::no_layers(model.keys);
        error.message = format!("layer {} has no tensors named `blk.{}`", block.layer, block.layer);
        return Err(error);
    }
    blocks.retain(|block| !block.is_empty());
    Ok(blocks)
}

/// The weight of a module outside the layers.
fn tensor<'a>(header: &'a Header, module: &str) -> Option<&'a Info> {
    header.tensors.iter().find(|info| info.name.strip_suffix(".weight") == Some(module))
}

fn name(keys: Keys) -> String {
    match keys.general("general.name") {
        Some(Value::Text(name)) if !name.is_empty() => name.clone(),
        _ => keys.architecture.to_owned(),
    }
}

/// Rows of the table of tokens, or else what keys say.
fn vocabulary(keys: Keys, header: &Header) -> Result<u64> {
    if let Some(&[rows, _]) = tensor(header, "token_embd").map(|info| info.shape.as_slice()) {
        return Ok(rows);
    }
    if let Some(size) = keys.count("vocab_size")? {
        return Ok(size);
    }
    Ok(match keys.general("tokenizer.ggml.tokens") {
        Some(&Value::Skipped(length)) => length,
        _ => 0,
    })
}

fn embedding(model: &Model, header: &Header) -> Embedding {
    let rows =
        |module: &str| tensor(header, module).and_then(|info| info.shape.first()).copied().unwrap_or(0);
    let width = tensor(header, "token_embd").and_then(|info| info.shape.last()).copied();
    Embedding {
        width: width.filter(|&width| width != model.hidden),
        positions: rows("position_embd"),
        token_types: rows("token_types"),
        norm: final_norm(model.keys, header) != "token_embd_norm"
            && tensor(header, "token_embd_norm").is_some(),
    }
}

/// Name of the normalisation after the last layer.
fn final_norm(keys: Keys, header: &Header) -> &'static str {
    let is_misnamed = architecture::ends_in_embedding_norm(keys.architecture);
    if is_misnamed && tensor(header, "output_norm").is_none() { "token_embd_norm" } else { "output_norm" }
}

fn norm(model: &Model, header: &Header) -> Norm {
    let is_norm = |info: &&Info| Name::of(&info.name).module().ends_with("_norm");
    let mut norms = header.tensors.iter().filter(is_norm).peekable();
    if norms.peek().is_none() {
        return Norm::Plain;
    }
    if norms.any(|info| info.name.ends_with(".bias") && !info.name.contains(".indexer.")) {
        Norm::Layer
    } else if model.keys.has("attention.layer_norm_epsilon")
        && !model.keys.has("attention.layer_norm_rms_epsilon")
    {
        Norm::LayerWithoutBias
    } else {
        Norm::Rms
    }
}

/// A model without a projection of its own to the vocabulary shares the table of tokens, unless it ends in hidden states.
fn head(model: &Model, header: &Header) -> Option<Head> {
    let tied = tensor(header, "output").is_none();
    let bias = header.tensors.iter().any(|info| info.name == "output.bias");
    let is_encoder =
        architecture::embeds(model.keys.architecture) || model.keys.flag("attention.causal") == Some(false);
    (!tied || !is_encoder).then_some(Head { tied, bias })
}

fn other(header: &Header) -> Vec<Weight> {
    let outside = header.tensors.iter().filter(|info| {
        let name = Name::of(&info.name);
        name.layer.is_none() && roles::outside(name.module()) == Role::Other
    });
    outside.map(|info| Weight::new(&info.name, &info.shape)).collect()
}

fn tensors(header: &Header, blocks: &[Block]) -> Vec<Tensor> {
    let find = |layer: u64| blocks.binary_search_by_key(&layer, |block| block.layer).ok();
    let by_layer: Vec<bool> = blocks.iter().map(layers::has_state).collect();
    let tensors = header.tensors.iter().map(|info| {
        let name = Name::of(&info.name);
        let index = name.layer.and_then(find);
        let role = match index {
            Some(index) => role(name, by_layer[index], info, &blocks[index]),
            None => roles::outside(name.module()),
        };
        Tensor {
            name: info.name.clone(),
            role,
            layer: index.map(|index| index as u64),
            shape: info.shape.clone(),
            encoding: info.encoding,
            bytes: info.bytes,
            compute: None,
        }
    });
    tensors.collect()
}

/// Role of a tensor of a layer, whose projection up may have the gate in it.
fn role(name: Name, has_state: bool, info: &Info, block: &Block) -> Role {
    let role = roles::inside(name.module(), has_state);
    let doubled = |module: &str, down: &str| {
        name.module() == module
            && info.shape.len() > 1
            && block.inputs(down).is_some_and(|inner| feed_forward::is_doubled(block, module, inner))
    };
    match role {
        Role::Up if doubled("ffn_up", "ffn_down") && !block.has("ffn_gate") => Role::GateUp,
        Role::ExpertUp if doubled("ffn_up_exps", "ffn_down_exps") && !block.has("ffn_gate_exps") => {
            Role::ExpertGateUp
        }
        _ => role,
    }
}
