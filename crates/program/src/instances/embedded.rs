//! The library of `data/instances`, and the exports of `data/models` that it refers to, as parts of the program.

/// Names and contents of files of a folder in `data`.
macro_rules! files {
    ($folder:literal, $($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../../data/", $folder, "/", $name)))),*]
    };
}

/// A test compares the list with the folder.
static FILES: &[(&str, &[u8])] = files![
    "instances",
    "index.toml",
    "graphs/bert-101-1.json.gz",
    "graphs/bert-101-5.json.gz",
    "graphs/bert-training-101-19.json.gz",
    "graphs/branching-101-22.json.gz",
    "graphs/branching-101-8.json.gz",
    "graphs/branching-training-101-3.json.gz",
    "graphs/series-parallel-101-2.json.gz",
    "graphs/series-parallel-101-20.json.gz",
    "plans/bert-large-1f1b.json.gz",
    "plans/bert-large-4xt4.json.gz",
    "plans/bert-large-memory.json.gz",
    "plans/bert-step-1f1b.json.gz",
    "plans/convnext-latency.json.gz",
    "plans/dlrm-hosts.json.gz",
    "plans/dlrm-latency.json.gz",
    "plans/gnmt-8-hosts.json.gz",
    "plans/gnmt-8-servers.json.gz",
    "plans/gpt-2-medium-gpipe.json.gz",
    "plans/gpt-3-13b-joint-mixed.json.gz",
    "plans/gpt2-4xa100.json.gz",
    "plans/gpt2-step-zero-bubble.json.gz",
    "plans/inception-v3-free.json.gz",
    "plans/inception-v3-latency.json.gz",
    "plans/inception-v3-makespan.json.gz",
    "plans/iopddl-G.json.gz",
    "plans/llama-1b-layers-mixed.json.gz",
    "plans/llama-3-70b-joint.json.gz",
    "plans/llama-3-8b-joint.json.gz",
    "plans/mixtral-2l-free.json.gz",
    "plans/mixtral-8x7b-joint.json.gz",
    "plans/mobilenet-v2-makespan.json.gz",
    "plans/msr-latency-layer-bert24-inference.json.gz",
    "plans/msr-latency-layer-inceptionv3-inference.json.gz",
    "plans/msr-latency-layer-resnet50-inference.json.gz",
    "plans/msr-latency-op-bert-l-12-inference.json.gz",
    "plans/msr-latency-op-bert-l-3-inference.json.gz",
    "plans/msr-layer-bert24-inference.json.gz",
    "plans/msr-layer-bert24-training.json.gz",
    "plans/msr-layer-gnmt-inference.json.gz",
    "plans/msr-layer-gnmt-training.json.gz",
    "plans/msr-layer-inceptionv3-training.json.gz",
    "plans/msr-layer-resnet50-inference.json.gz",
    "plans/msr-layer-resnet50-training.json.gz",
    "plans/msr-op-bert-l-12-training.json.gz",
    "plans/msr-op-bert-l-3-inference.json.gz",
    "plans/msr-op-bert-l-3-training.json.gz",
    "plans/msr-op-bert-l-6-inference.json.gz",
    "plans/msr-op-resnet50-inference.json.gz",
    "plans/qwen-layers-free.json.gz",
    "plans/random-1-latency.json.gz",
    "plans/random-19-free.json.gz",
    "plans/random-19-makespan.json.gz",
    "plans/random-2.json.gz",
    "plans/random-20.json.gz",
    "plans/random-22-makespan.json.gz",
    "plans/random-3-free.json.gz",
    "plans/random-3-makespan.json.gz",
    "plans/random-5-makespan.json.gz",
    "plans/random-8-free.json.gz",
    "plans/resnet-50-convex.json.gz",
    "plans/resnet-50-free.json.gz",
    "plans/resnet-50-hosts.json.gz",
    "plans/resnet-50-makespan.json.gz",
    "plans/rnnlm-2-makespan.json.gz",
    "plans/swin-t-2xa100.json.gz",
    "plans/t5-layers-4xl4.json.gz",
    "plans/transformer-xl-2-makespan.json.gz",
    "plans/unet-4xa100.json.gz",
    "plans/unet-jetson-pair.json.gz",
    "plans/unet-latency-calls.json.gz",
    "plans/vgg-16-makespan.json.gz",
    "plans/vgg-16-replicas.json.gz",
    "plans/wavenet-2-makespan.json.gz",
    "plans/whisper-makespan.json.gz",
];

static EXPORTS: &[(&str, &[u8])] = files![
    "models",
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
    FILES.iter().find(|(known, _)| *known == name).map(|&(_, bytes)| bytes)
}

/// A file of `data/models`.
pub(super) fn export(name: &str) -> Option<&'static [u8]> {
    EXPORTS.iter().find(|(known, _)| *known == name).map(|&(_, bytes)| bytes)
}

/// Names of the exports.
pub(super) fn exports() -> impl Iterator<Item = &'static str> {
    EXPORTS.iter().map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_part_of_the_program() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("data/instances");
        let mut found = BTreeSet::new();
        for folder in ["", "plans", "graphs"] {
            for entry in root.join(folder).read_dir().expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(&root).expect("it is below").display().to_string();
                if path.is_file() && name != "README.md" {
                    found.insert(name);
                }
            }
        }
        let listed: BTreeSet<String> = FILES.iter().map(|&(name, _)| name.to_owned()).collect();
        assert_eq!(listed, found);
    }
}
