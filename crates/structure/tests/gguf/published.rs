//! Sizes of published files.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use stagewright_structure::gguf::read;
use stagewright_structure::{Mixer, Role};

use super::models::{Widths, gpt_oss, llama, qwen3_moe};
use super::writer::{Model, alone};

/// Model, size as its publisher rounds it (GiB), weights.
fn published() -> [(Model, &'static str, u64); 4] {
    let llama_70b = Widths {
        layers: 80,
        hidden: 8192,
        heads: 64,
        kv_heads: 8,
        head: 128,
        inner: 28_672,
        vocabulary: 128_256,
    };
    let qwen_30b = Widths {
        layers: 48,
        hidden: 2048,
        heads: 32,
        kv_heads: 4,
        head: 128,
        inner: 768,
        vocabulary: 151_936,
    };
    let qwen_235b = Widths { layers: 94, hidden: 4096, heads: 64, inner: 1536, ..qwen_30b };
    let gpt_oss_120b = Widths {
        layers: 36,
        hidden: 2880,
        heads: 64,
        kv_heads: 8,
        head: 64,
        inner: 2880,
        vocabulary: 201_088,
    };
    [
        (llama(&llama_70b, true), "39.593", 70_553_706_496),
        (qwen3_moe(&qwen_30b, 128, 8), "17.277", 30_532_122_624),
        (qwen3_moe(&qwen_235b, 128, 8), "132.386", 235_093_634_560),
        (gpt_oss(&gpt_oss_120b, 128, 4), "59.022", 116_829_156_672),
    ]
}

#[test]
fn files_have_their_published_sizes() {
    for (model, size, parameters) in published() {
        let structure = model.structure();
        let gib = structure.weight_bytes() as f64 / (1u64 << 30) as f64;
        assert_eq!(format!("{gib:.3}"), size, "{}", model.architecture);
        assert_eq!(structure.parameters(), parameters, "{}", model.architecture);
    }
}

#[test]
fn dense_layers_have_their_widths() {
    let [(model, ..), ..] = published();
    let structure = model.structure();
    assert_eq!((structure.hidden, structure.vocabulary, structure.context), (8192, 128_256, Some(131_072)));
    assert_eq!(structure.layers.len(), 80);
    assert!(structure.layers.iter().all(|layer| *layer == structure.layers[0]));
    let layer = &structure.layers[0];
    let Mixer::Attention(attention) = &layer.mixer else { panic!("{:?}", layer.mixer) };
    assert_eq!((attention.heads, attention.kv_heads, attention.key, attention.value), (64, 8, 128, 128));
    assert_eq!((attention.rotary, attention.window), (128, None));
    let dense = layer.dense.as_ref().unwrap();
    assert_eq!((dense.inner, dense.gated, layer.norms, layer.parallel), (28_672, true, 2, false));
    assert_eq!(structure.head.map(|head| head.tied), Some(false));
}

#[test]
fn experts_have_their_widths_and_come_first() {
    let [_, (model, ..), ..] = published();
    let structure = model.structure();
    let mixture = structure.layers[47].mixture.as_ref().unwrap();
    assert_eq!((mixture.experts, mixture.active, mixture.inner, mixture.gated), (128, 8, 768, true));
    assert_eq!(structure.layers[47].dense, None);
    let down = structure.tensors.iter().find(|tensor| tensor.name == "blk.3.ffn_down_exps.weight").unwrap();
    assert_eq!(
        (down.shape.as_slice(), down.role, down.layer),
        (&[128, 2048, 768][..], Role::ExpertDown, Some(3))
    );
    let experts = structure.tensors.iter().filter(|tensor| tensor.role.is_expert());
    assert_eq!(experts.map(|tensor| tensor.elements()).sum::<u64>(), 48 * 128 * 3 * 768 * 2048);
}

#[test]
fn every_second_layer_of_gpt_oss_has_a_window() {
    let [.., (model, ..)] = published();
    let structure = model.structure();
    let windows = structure.layers.iter().map(|layer| match &layer.mixer {
        Mixer::Attention(attention) => attention.window,
        other => panic!("{other:?}"),
    });
    assert_eq!(windows.collect::<Vec<_>>(), [Some(128), None].repeat(18));
    let layer = &structure.layers[0];
    let Mixer::Attention(attention) = &layer.mixer else { panic!("{:?}", layer.mixer) };
    assert!(attention.sinks && attention.bias && attention.output_bias);
    let mixture = layer.mixture.as_ref().unwrap();
    assert!(mixture.bias && mixture.router_bias && mixture.shared.is_none());
}

/// Files of the writer of llama.cpp's own package, with its offsets and padding.
#[test]
fn files_of_the_package_gguf_are_read_to_the_byte() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED").map(PathBuf::from) else {
        eprintln!("skipped: STAGEWRIGHT_SHARED is not set");
        return;
    };
    let python = std::env::var_os("STAGEWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let has_package = Command::new(&python).args(["-c", "import gguf, numpy"]).output();
    if !has_package.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no Python with gguf and numpy");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = shared.join("tools/make_gguf.py");
    let made = Command::new(&python).arg(script).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let files =
        ["llama-3.3-70b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "qwen3-235b-a22b-q4_k_m", "gpt-oss-120b-mxfp4"];
    for (file, (model, size, parameters)) in files.into_iter().zip(published()) {
        let name = format!("{file}.gguf");
        let opened = File::open(folder.path().join(&name)).unwrap();
        let structure = read(&name, Box::new(opened), &mut alone).unwrap();
        assert_eq!(structure.weight_bytes(), model.weight_bytes(), "{name}");
        assert_eq!(structure.parameters(), parameters, "{name}");
        assert_eq!(structure.layers, model.structure().layers, "{name}");
        assert_eq!(format!("{:.3}", structure.weight_bytes() as f64 / (1u64 << 30) as f64), size, "{name}");
    }
    for entry in folder.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let length = path.metadata().unwrap().len();
        let structure = read("model.gguf", Box::new(File::open(&path).unwrap()), &mut alone).unwrap();
        assert!((1..100_000).contains(&(length - structure.weight_bytes())), "{}", path.display());
    }
}
