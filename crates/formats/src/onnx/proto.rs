//! The messages of `onnx.proto`, generated into `generated.rs`, so that building this crate needs no protobuf compiler.
//! A test compares the two files.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

include!("generated.rs");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Writes `generated.rs` instead of comparing it, if `STAGEWRIGHT_WRITE_ONNX` is set.
    #[test]
    fn the_messages_are_those_of_the_file() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/onnx");
        let descriptors = protox::compile(["onnx.proto"], [&here]).expect("a valid file");
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = prost_build::Config::new();
        // The comments in the proto are not written for rustdoc, which would run their indented parts as tests.
        config.disable_comments(["."]).out_dir(folder.path());
        config.compile_fds(descriptors).expect("messages");
        let made = fs::read_to_string(folder.path().join("onnx.rs")).expect("a file");
        let kept = here.join("generated.rs");
        if std::env::var_os("STAGEWRIGHT_WRITE_ONNX").is_some() {
            fs::write(&kept, &made).expect("a file that can be written");
        }
        assert!(made == fs::read_to_string(&kept).expect("a file"), "write it with STAGEWRIGHT_WRITE_ONNX=1");
    }
}
