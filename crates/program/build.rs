//! Compiles the program again when the library of instances has a new file: `include_dir!` tracks only those that it found.

fn main() {
    println!("cargo::rerun-if-changed=../../data/instances");
}
