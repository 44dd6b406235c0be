//! Path of the shared library of ONNX Runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

use ort::environment::Environment;

use crate::error::{Result, RunError};

/// Environment variable that names the library.
pub const VARIABLE: &str = "ORT_DYLIB_PATH";

/// Finds the library: the given one; or the one that `ORT_DYLIB_PATH` names; or the one in the Python package
/// `onnxruntime`, looked up in the active virtual environment first. The path of an existing file is made absolute; any
/// other name is left to the loader of the system, which searches folders of its own.
///
/// # Errors
/// If no library is found.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    let named = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = given.map(Path::to_owned).or_else(named).or_else(of_python).ok_or(RunError::NoLibrary)?;
    match std::path::absolute(&found) {
        Ok(path) if path.exists() => Ok(path),
        _ => Ok(found),
    }
}

/// The library inside the package `onnxruntime` of the first Python that has it. The package is only located, not
/// imported.
fn of_python() -> Option<PathBuf> {
    let script = "import importlib.util as u; s = u.find_spec('onnxruntime'); print(s.submodule_search_locations[0] if s else '')";
    let active = std::env::var_os("VIRTUAL_ENV").map(|folder| {
        let folder = PathBuf::from(folder);
        if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
    });
    let programs = active.into_iter().chain(["python3", "python"].map(PathBuf::from));
    programs.into_iter().find_map(|program| {
        let output = Command::new(program).args(["-c", script]).output().ok()?;
        let package = String::from_utf8(output.stdout).ok()?;
        let folder = Path::new(package.trim()).join("capi");
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        names.sort();
        names.into_iter().find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_library))
    })
}

fn is_library(name: &str) -> bool {
    name == "onnxruntime.dll"
        || name.starts_with("libonnxruntime.so")
        || (name.starts_with("libonnxruntime") && name.ends_with(".dylib"))
}

/// A library that can be loaded.
///
/// # Errors
/// If the file is not a library of ONNX Runtime, or is older than this program needs.
pub fn checked(path: PathBuf) -> Result<PathBuf> {
    load(&path).map(|_| path)
}

/// Loads the library into this process.
///
/// # Errors
/// If the file is not a library of ONNX Runtime, or is older than this program needs.
pub(crate) fn load(path: &Path) -> Result<Environment> {
    let bad = |cause: String| RunError::BadLibrary { path: path.to_owned(), cause };
    let builder = ort::init_from(path).map_err(|error| bad(error.to_string()))?;
    builder.with_telemetry(false).build().map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_told_from_its_neighbours() {
        assert!(is_library("libonnxruntime.so.1.20.1"));
        assert!(is_library("libonnxruntime.1.20.1.dylib"));
        assert!(is_library("onnxruntime.dll"));
        assert!(!is_library("libonnxruntime_providers_shared.so"));
        assert!(!is_library("onnxruntime_pybind11_state.so"));
    }

    #[test]
    fn a_relative_path_is_found_from_any_folder() {
        let found = find(Some(Path::new("Cargo.toml"))).unwrap();
        assert!(found.is_absolute() && found.is_file(), "{found:?}");
        let of_system = Path::new("libonnxruntime-of-the-system.so");
        assert_eq!(find(Some(of_system)).unwrap(), of_system);
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let error = load(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.code(), "H002");
    }
}
