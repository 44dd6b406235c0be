//! Generates Rust structures from the vendored `onnx.proto`. The compiler is a library, so no `protoc` is
//! needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "src/onnx";
    println!("cargo::rerun-if-changed={FOLDER}/onnx.proto");
    let descriptors = protox::compile(["onnx.proto"], [FOLDER])?;
    let mut config = prost_build::Config::new();
    // The comments in the proto are not written for rustdoc, which would run their indented parts as tests.
    config.disable_comments(["."]);
    config.compile_fds(descriptors)?;
    Ok(())
}
