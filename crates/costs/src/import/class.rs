//! The device class of measurements: the one given in the options, or else the one that the file names.

use stagewright_formats::{At, InputError, Result};

use super::Options;
use crate::code::Q108;

/// Class of measurements on the processor that runs the program.
pub(super) const CPU: &str = "cpu";

/// The class name for a product name: `NVIDIA H100 80GB HBM3` is `h100-80gb-hbm3`.
///
/// Lower case, with `-` for everything but letters and digits, without the vendor.
pub fn class_of(product: &str) -> String {
    let lower = product.to_lowercase();
    let words = lower.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let known = ["nvidia", "amd", "intel", "tesla", "geforce", "instinct", "r"];
    let words: Vec<&str> = words.filter(|word| !known.contains(word)).collect();
    words.join("-")
}

/// The class that the options give, or that of the product that the file names.
///
/// # Errors
/// If neither is given (Q108).
pub(super) fn class(label: &str, options: &Options, product: Option<&str>) -> Result<String> {
    if let Some(class) = &options.class {
        return Ok(class.clone());
    }
    let class = product.map(class_of).unwrap_or_default();
    if !class.is_empty() {
        return Ok(class);
    }
    let message = "the file does not say on which device it was measured";
    let help = "give --class NAME, the name that the class of the device has in the cluster";
    Err(InputError::new(Q108, label, At::Whole, message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_after_the_product() {
        for (product, class) in [
            ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("AMD Instinct MI300X", "mi300x"),
            ("Tesla T4", "t4"),
            ("NVIDIA", ""),
        ] {
            assert_eq!(class_of(product), class);
        }
    }
}
