//! Makes Rust structures of the vendored `onnx.proto`. The compiler is a library, so no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FOLDER: &str = "src/formats/onnx";
    println!("cargo::rerun-if-changed={FOLDER}/onnx.proto");
    let descriptors = protox::compile(["onnx.proto"], [FOLDER])?;
    let mut config = prost_build::Config::new();
    // The comments of the proto are not written for rustdoc, which would take their indented parts for tests.
    config.disable_comments(["."]);
    config.compile_fds(descriptors)?;
    Ok(())
}
