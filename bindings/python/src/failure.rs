//! Errors as exceptions.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use stagewright::code::{U001, X001};
use stagewright::failure::Failure;
use stagewright::formats::fault::Fault;

/// A result whose errors become exceptions.
pub(crate) type Result<T, E = Raised> = std::result::Result<T, E>;

/// An error of the program or of Python.
#[derive(Debug)]
pub(crate) enum Raised {
    Failure(Failure),
    Python(PyErr),
}

impl From<Failure> for Raised {
    fn from(failure: Failure) -> Raised {
        Raised::Failure(failure)
    }
}

impl From<PyErr> for Raised {
    fn from(error: PyErr) -> Raised {
        Raised::Python(error)
    }
}

/// A failure becomes a `StagewrightError`. This class is written in Python, so that it can be pickled.
impl From<Raised> for PyErr {
    fn from(raised: Raised) -> PyErr {
        let failure = match raised {
            Raised::Python(error) => return error,
            Raised::Failure(failure) => failure,
        };
        // If the package is damaged, only the message is available.
        Python::attach(|py| exception(py, &failure))
            .unwrap_or_else(|_| PyRuntimeError::new_err(failure.to_string()))
    }
}

fn exception(py: Python<'_>, failure: &Failure) -> PyResult<PyErr> {
    let class = py.import("stagewright.errors")?.getattr("StagewrightError")?;
    let help = failure.help_lines().join("\n");
    let help = (!help.is_empty()).then_some(help);
    Ok(PyErr::from_value(class.call1((failure.code().name, failure.cause(), failure.place(), help))?))
}

/// Displays a text from an input on one line with every character visible, as the program prints it.
#[pyfunction]
pub(crate) fn visible(text: &str) -> String {
    stagewright::text::visible(text).into_owned()
}

/// Parses the arguments of a call, which the wrapper has collected.
///
/// # Errors
/// If an argument does not accept its value (U001).
pub(crate) fn arguments<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let error = error.into_inner();
        // The wrapper writes valid JSON, except for infinities and NaN.
        let failure = match error.is_syntax() {
            true => Failure::new(U001, "not a finite number").help("give a finite number"),
            false => {
                let Fault { message, help, .. } = Fault::of_json(&error);
                Failure::new(U001, message).help(help)
            }
        };
        failure.at(place)
    })
}

/// Formats a document as JSON.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(document).map_err(|error| Failure::new(X001, error.to_string()).into())
}
