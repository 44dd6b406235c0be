//! Every seed of the fuzzer is accepted, and no document is nested too deeply.

use std::fs;
use std::path::{Path, PathBuf};

use stagewright_costs::import::{Options, import, native};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn every_seed_of_the_fuzzer_is_read_and_read_back() {
    for entry in fs::read_dir(folder("tests/fuzz/seeds/costs")).unwrap() {
        let path = entry.unwrap().path();
        let options = Options { class: Some("gpu".into()), ..Options::default() };
        let costs = import("seed", &fs::read(&path).unwrap(), &options)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!costs.operators.is_empty() || !costs.links.is_empty(), "{}", path.display());
        assert_eq!(native::import("again", native::write(&costs).as_bytes()), Ok(costs));
    }
}

/// Too deep to keep as files.
#[test]
fn depth_bombs_are_errors_and_no_crash() {
    for start in ["[", "{\"schema\":\"stagewright.costs/1\",\"a\":", "{\"traceEvents\":", "[{\"model_run\":"]
    {
        for open in ["[", "{\"a\":"] {
            let bomb = start.to_owned() + &open.repeat(100_000);
            assert!(import("bomb", bomb.as_bytes(), &Options::default()).is_err());
        }
    }
}
