//! The library of `data/instances`, and the exports of `data/models` that it refers to, as parts of the program.

use include_dir::{Dir, include_dir};

/// `build.rs` makes Cargo see a new file of the folder.
static LIBRARY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../data/instances");

/// Names and contents of files of `data/models`.
macro_rules! exports {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../../data/models/", $name)))),*]
    };
}

static EXPORTS: &[(&str, &[u8])] = exports![
    "bert-step.json.gz",
    "convnext-tiny.onnx.gz",
    "gpt2-step.json.gz",
    "gpt2.onnx.gz",
    "llama-3.2-1b-step.json.gz",
    "mixtral-2l.json.gz",
    "mobilenet-v2.onnx.gz",
    "qwen-2.5-0.5b.json.gz",
    "resnet-50.onnx.gz",
    "swin-t.onnx.gz",
    "t5.json.gz",
    "unet.onnx.gz",
    "whisper.json.gz",
];

/// A file of the library.
pub(super) fn file(name: &str) -> Option<&'static [u8]> {
    LIBRARY.get_file(name).map(|file| file.contents())
}

/// A file of `data/models`.
pub(super) fn export(name: &str) -> Option<&'static [u8]> {
    EXPORTS.iter().find(|(known, _)| *known == name).map(|&(_, bytes)| bytes)
}

/// Names of the exports.
pub(super) fn exports() -> impl Iterator<Item = &'static str> {
    EXPORTS.iter().map(|&(name, _)| name)
}
