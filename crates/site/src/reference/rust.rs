//! The Rust API: the documentation that `cargo doc` has written, and the examples.

use std::fmt::Write as _;
use std::path::Path;

use crate::book::{RUST, rust_documentation};
use crate::error::Result;
use crate::files;
use crate::page::Page;

/// A page about the API and one with the examples.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut text = String::from("# Rust API\n\n");
    if rust_documentation().is_some() {
        let _ = writeln!(
            text,
            "[The crate `stagewright`](../{RUST}/stagewright/index.html) begins with a tutorial and names the crates of its parts."
        );
    } else {
        text += "`cargo doc --workspace --no-deps --open` shows it. It begins with a tutorial. A site that is built afterwards \
                 contains it.\n";
    }
    text += "\nThe [examples](../examples/README.md) are complete programs.\n";
    let mut examples = String::from("# Examples in Rust\n\n`cargo run --example NAME` runs one of these.\n");
    for path in files::list(&root.join("examples"))? {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_rust) else {
            continue;
        };
        let source = files::read(&path)?;
        let (head, code) = source.split_at(head(&source));
        let _ = writeln!(examples, "\n## {name}\n");
        for line in head.lines() {
            let line = line.trim_start_matches("//!");
            let _ = writeln!(examples, "{}", line.strip_prefix(' ').unwrap_or(line));
        }
        let _ = writeln!(examples, "\n```rust\n{}\n```", code.trim());
    }
    Ok(vec![
        Page::generated("reference/rust.md", text),
        Page::generated("examples/README.md", examples).nested(),
    ])
}

/// The length of the explanation at the head of a file, in bytes.
fn head(source: &str) -> usize {
    source.split_inclusive('\n').take_while(|line| line.starts_with("//!")).map(str::len).sum()
}
