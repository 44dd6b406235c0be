//! Formats of measurements, recognised by content and never by file name.

use stagewright_core::document::{CostsDocument, TransferKind};
use stagewright_formats::{At, InputError, Result, text_of};

use super::{chakra, kineto, native, nccl_tests, onnxruntime};
use crate::check::check;
use crate::code::Q101;

/// Settings that a file does not state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Device class of the measurements; `None` means the one that the file names.
    pub class: Option<String>,
    /// Devices of a collective if the file does not state them.
    pub devices: Option<u32>,
    /// Transfer of nccl-tests; `None` means the one that the file names.
    pub transfer: Option<TransferKind>,
    /// Number of first calls of an operator that are left out as warm-up, if at least two others remain.
    pub warm_up: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { class: None, devices: None, transfer: None, warm_up: 1 }
    }
}

/// A format of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `stagewright.costs/1`.
    Native,
    /// Profile of ONNX Runtime.
    OnnxRuntime,
    /// Trace of PyTorch's profiler.
    Kineto,
    /// MLCommons Chakra execution trace.
    Chakra,
    /// Output of nccl-tests.
    NcclTests,
}

impl Format {
    /// All formats, in order of detection.
    pub const ALL: [Format; 5] =
        [Format::Native, Format::OnnxRuntime, Format::Kineto, Format::NcclTests, Format::Chakra];

    /// Description for display.
    pub fn description(self) -> &'static str {
        match self {
            Format::Native => "stagewright.costs/1 JSON",
            Format::OnnxRuntime => "profile of ONNX Runtime (enable_profiling)",
            Format::Kineto => "trace of PyTorch's profiler (export_chrome_trace)",
            Format::Chakra => "MLCommons Chakra execution trace (protobuf)",
            Format::NcclTests => "output of nccl-tests or rccl-tests",
        }
    }

    /// Whether a file looks like one of the format, also if it is cut off or otherwise invalid.
    fn detects(self, bytes: &[u8], text: Option<&str>) -> bool {
        let starts = |start: char| text.is_some_and(|text| text.trim_start().starts_with(start));
        let has = |mark: &str| text.is_some_and(|text| text.contains(mark));
        match self {
            // Any native document, so that the error for a plan says that it is a plan.
            Format::Native => starts('{') && has("\"stagewright."),
            Format::OnnxRuntime => {
                let marks =
                    ["_kernel_time\"", "\"session_initialization\"", "\"model_run\"", "\"model_loading"];
                starts('[') && marks.iter().any(|mark| has(mark))
            }
            Format::Kineto => {
                starts('{') && has("\"traceEvents\"")
                    || starts('[') && (has("\"cpu_op\"") || has("\"Operator\""))
            }
            Format::NcclTests => text.is_some_and(nccl_tests::detect),
            Format::Chakra => chakra::detect(bytes),
        }
    }
}

/// Recognises the format of a file.
///
/// # Errors
/// If it is not one of [`Format::ALL`] (Q101), or it is empty (F008).
pub fn detect(label: &str, bytes: &[u8]) -> Result<Format> {
    let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).ok();
    if let Some(format) = Format::ALL.into_iter().find(|format| format.detects(bytes, text)) {
        return Ok(format);
    }
    if text.is_some() {
        // An empty file is a separate error.
        text_of(label, bytes)?;
    }
    let known: Vec<&str> = Format::ALL.iter().map(|format| format.description()).collect();
    let help = format!("give measurements in one of these formats: {}", known.join("; "));
    Err(InputError::new(Q101, label, At::Whole, "unrecognised format of measurements", help))
}

/// Reads a file of any of the formats.
///
/// ```
/// use stagewright_costs::import::{self, Options};
/// let profile = br#"[{"cat":"Node","ph":"X","name":"conv1_kernel_time","dur":125,"args":{"op_name":"Conv"}}]"#;
/// let costs = import::import("profile.json", profile, &Options::default())?;
/// assert_eq!(costs.operators[0].seconds["conv1"], 125e-6);
/// # Ok::<(), stagewright_formats::InputError>(())
/// ```
///
/// # Errors
/// If the format is unknown (Q101), the file is invalid in its format, or a measurement has no plausible size (Q012).
pub fn import(label: &str, bytes: &[u8], options: &Options) -> Result<CostsDocument> {
    let costs = match detect(label, bytes)? {
        Format::Native => return native::import(label, bytes),
        Format::OnnxRuntime => onnxruntime::import(label, bytes, options)?,
        Format::Kineto => kineto::import(label, bytes, options)?,
        Format::Chakra => chakra::import(label, bytes, options)?,
        Format::NcclTests => nccl_tests::import(label, bytes, options)?,
    };
    check(label, &costs)?;
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_content() {
        let profile: &[u8] = include_bytes!("../../tests/data/onnxruntime.json");
        let trace: &[u8] = include_bytes!("../../tests/data/kineto_cpu.json");
        for (bytes, format) in [
            (profile, Some(Format::OnnxRuntime)),
            (&profile[..1000], Some(Format::OnnxRuntime)),
            (trace, Some(Format::Kineto)),
            (&trace[..1000], Some(Format::Kineto)),
            (br#"{"schema": "stagewright.costs/1"}"#, Some(Format::Native)),
            (b"\xef\xbb\xbf{\"schema\": \"stagewright.plan/1\"}", Some(Format::Native)),
            (b"# size count type redop root time algbw busbw #wrong\n", Some(Format::NcclTests)),
            (b"", None),
            (b"{}", None),
            (b"[1]", None),
            (b"a,b\n1,2\n", None),
            (b"\x00\x01\x02", None),
        ] {
            assert_eq!(detect("f", bytes).ok(), format, "{:?}", bytes.get(..60));
        }
        let error = detect("f", b"[]").unwrap_err();
        assert_eq!(error.code, "Q101");
        assert!(error.help.contains("nccl-tests"));
    }
}
