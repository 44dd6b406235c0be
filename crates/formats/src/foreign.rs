//! Model files without a graph, or with one that only their own framework reads. The error names the commands
//! to run instead.
//!
//! These files are recognised by their bytes. A program or a checkpoint of PyTorch is an uncompressed zip
//! archive, whose entries identify it: a saved program has `models/…json` or
//! `serialized_exported_program.json` and the like, a checkpoint or a TorchScript module `data.pkl`. A
//! safetensors file is a length of 8 bytes and a JSON object of that length, with `dtype` and `data_offsets`
//! of every tensor or `__metadata__`.
//!
//! Source: `torch/export/pt2_archive/constants.py` and `torch/serialization.py` of PyTorch 2.15, and the page "Format"
//! of safetensors.

use super::error::{At, InputError};
use super::flow::is_layer_flow;
use super::strategies::is_strategies;
use crate::code::F012;
use stagewright_core::text::quoted;

/// Kind of a model file that cannot be planned directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// `torch.export.save`.
    Program,
    /// `torch.save`, or a TorchScript module.
    Checkpoint,
    /// A safetensors file: tensors by name.
    Safetensors,
    /// A file that describes the layers of a language model, where only graphs are read.
    Layers,
    /// A strategy problem, which only some commands take.
    Strategies,
    /// A problem of layer flow, which only some commands take.
    LayerFlow,
}

/// Commands that turn a model into a saved program.
const SAVE: &str = "in Python, torch.export.save(torch.export.export(model.eval(), (example_input,)), \"model.pt2\"); then \
                    `stagewright exporter torch > stagewright_exporter.py` and \
                    `python3 stagewright_exporter.py model.pt2 --out model.json`, and plan model.json";

impl Foreign {
    /// Recognises a file by its first bytes; `None` if it is not of a kind of [`Foreign`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Foreign> {
        if is_strategies(bytes) {
            return Some(Foreign::Strategies);
        }
        if is_layer_flow(bytes) {
            return Some(Foreign::LayerFlow);
        }
        if bytes.starts_with(ZIP) {
            let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
            return if PROGRAM.iter().any(|name| has(name)) {
                Some(Foreign::Program)
            } else {
                has(b"data.pkl").then_some(Foreign::Checkpoint)
            };
        }
        let (length, header) = bytes.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length);
        let header = &header[..header.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
        let has = |key: &[u8]| header.windows(key.len()).any(|window| window == key);
        let is_header = length <= MAX_HEADER && header.starts_with(b"{");
        (is_header && (has(b"\"__metadata__\"") || (has(b"\"dtype\"") && has(b"\"data_offsets\""))))
            .then_some(Foreign::Safetensors)
    }

    /// Returns the error, with the commands to run instead.
    pub fn refused(self, label: &str) -> InputError {
        let (message, help) = match self {
            Foreign::Program => (
                "a program saved by torch.export.save, which only PyTorch can read",
                format!(
                    "`stagewright exporter torch > stagewright_exporter.py`, then `python3 stagewright_exporter.py {} \
                     --out model.json`, and plan model.json",
                    quoted(label)
                ),
            ),
            Foreign::Checkpoint => (
                "weights saved by torch.save, or a TorchScript module: neither contains a graph that can be imported",
                format!("build the model and load them; then {SAVE}"),
            ),
            Foreign::Safetensors => (
                "a safetensors file without a config.json beside it: weights by name, without layers or a graph",
                "put the config.json of the model beside it, or give the config.json alone".to_owned(),
            ),
            Foreign::Layers => (
                "the layers of a language model, without a graph",
                format!("`stagewright convert {} model.json --to native` draws the graph", quoted(label)),
            ),
            Foreign::Strategies => (
                "a strategy problem, which has strategies in place of devices",
                "only plan, bound, check and bench take it".to_owned(),
            ),
            Foreign::LayerFlow => (
                "a problem of layer flow, which has nodes that hold layers in place of operators",
                "only plan, bound and check take it".to_owned(),
            ),
        };
        InputError::new(F012, label, At::Whole, message, help)
    }
}

/// Magic number of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// Archive entries that only saved programs have, of PyTorch 2.8 and later and of earlier versions.
const PROGRAM: [&[u8]; 4] =
    [b"archive_format", b"/models/", b"serialized_exported_program.json", b"serialized_state_dict"];

/// Longest header that safetensors reads, in bytes.
const MAX_HEADER: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_told_from_programs_and_from_other_archives() {
        let archive = |name: &str| [ZIP, &[0; 26], name.as_bytes()].concat();
        assert_eq!(Foreign::from_bytes(&archive("x/archive_format")), Some(Foreign::Program));
        assert_eq!(Foreign::from_bytes(&archive("x/data.pkl")), Some(Foreign::Checkpoint));
        assert_eq!(Foreign::from_bytes(&archive("word/document.xml")), None);
        let tensors = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let single = r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        assert_eq!(Foreign::from_bytes(&tensors(single)), Some(Foreign::Safetensors));
        assert_eq!(Foreign::from_bytes(&tensors(r#"{"schema": "stagewright.graph/1"}"#)), None);
        assert_eq!(Foreign::from_bytes(br#" {"problem": {}}"#), Some(Foreign::Strategies));
        assert_eq!(
            Foreign::from_bytes(br#"{"layers": 2, "nodes": [{"throughput": [1]}]}"#),
            Some(Foreign::LayerFlow)
        );
        for short in [&b""[..], b"PK", b"PK\x03\x04", &[0; 8], &[255; 9]] {
            assert_eq!(Foreign::from_bytes(short), None, "{short:?}");
        }
    }
}
