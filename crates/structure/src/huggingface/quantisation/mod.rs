//! Quantisation of a configuration: which products are stored in fewer bits, and how.
//!
//! A quantised checkpoint says so under `quantization_config` of its `config.json`, or in `hf_quant_config.json` beside it.
//! Only products are quantised: weights of two dimensions of linear modules, and those of experts. Tables of tokens, the
//! projection to the vocabulary, routers, and projections to a scalar for each head are quantised only where a list names
//! them; normalisations, convolutions, states and biases never are.
//!
//! A quantisation is a list of [`Rule`]s, of which the first that has a product decides. Each method of [`methods`] reads
//! its keys into rules; [`modules`] has the lists of modules, and [`format`](mod@format) the encodings.
//!
//! If the configuration and the file beside it both have a quantisation, that of the configuration counts, as for vLLM.

mod format;
mod methods;
mod modules;
#[cfg(test)]
mod tests;

use stagewright_formats::Result;

use super::config::Config;
use crate::encoding::Encoding;
use crate::tensor::{Role, Tensor};
use format::Format;
use modules::{Found, Module, Modules};

/// How the tensors of a checkpoint are encoded.
#[derive(Debug, Clone)]
pub(super) struct Scheme<'a> {
    plain: Encoding,
    cache: Option<Encoding>,
    rules: Vec<Rule<'a>>,
}

/// The format of some products.
#[derive(Debug, Clone)]
struct Rule<'a> {
    /// Object and key that the rule is from.
    config: Config<'a>,
    key: &'static str,
    covers: Covers,
    /// Format; `None` if the products are not quantised.
    format: Option<Format>,
}

/// Products that a rule is for.
#[derive(Debug, Clone)]
enum Covers {
    /// Modules of a list.
    Listed(Modules),
    /// Linear modules, with those of towers or without.
    Linear { towers: bool },
    /// Routed experts.
    Experts,
}

impl Scheme<'_> {
    /// Encoding of what is not quantised.
    pub(super) fn plain(&self) -> Encoding {
        self.plain
    }

    /// Encoding of cached keys and values that the checkpoint asks for.
    pub(super) fn cache(&self) -> Option<Encoding> {
        self.cache
    }

    /// Gives every quantised tensor its encoding and its bytes, and the encoding that it computes in.
    ///
    /// # Errors
    /// If the experts of a layer differ, a shape does not fit its encoding, or no module of a list of quantised ones is in
    /// the model (M013).
    pub(super) fn apply(&self, tensors: &mut [Tensor]) -> Result<()> {
        let mut used = vec![false; self.rules.len()];
        for tensor in tensors.iter_mut().filter(|tensor| is_product(tensor)) {
            let Some((index, rule)) = self.rule_of(tensor)? else { continue };
            used[index] = true;
            let Some(format) = rule.format else { continue };
            let Some(bytes) = format.stored.bytes(&tensor.shape) else {
                let stored = format.stored.name();
                let message = format!(
                    "the shape {:?} of `{}` has no whole blocks of {stored}",
                    tensor.shape, tensor.name
                );
                return Err(rule.fault(message, "check the widths, and which modules are quantised"));
            };
            (tensor.encoding, tensor.bytes, tensor.compute) = (format.stored, bytes, format.compute);
        }
        let idle = self.rules.iter().zip(used).find(|(rule, used)| !used && rule.lists_quantised());
        match idle {
            None => Ok(()),
            Some((rule, _)) => {
                let help = "check that the quantisation is that of this model";
                Err(rule.fault("the model has none of the quantised modules of the list", help))
            }
        }
    }

    /// The first rule that has a tensor, with its number.
    fn rule_of(&self, tensor: &Tensor) -> Result<Option<(usize, &Rule<'_>)>> {
        let module = Module::of(tensor);
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.has(tensor, &module)? {
                return Ok(Some((index, rule)));
            }
        }
        Ok(None)
    }
}

impl<'a> Rule<'a> {
    fn new(config: &Config<'a>, key: &'static str, covers: Covers, format: Option<Format>) -> Rule<'a> {
        Rule { config: config.clone(), key, covers, format }
    }

    fn fault(&self, message: impl Into<String>, help: &str) -> stagewright_formats::InputError {
        self.config.fault(self.key, message, help)
    }

    fn lists_quantised(&self) -> bool {
        self.format.is_some() && matches!(self.covers, Covers::Listed(_))
    }

    fn has(&self, tensor: &Tensor, module: &Module) -> Result<bool> {
        match &self.covers {
            Covers::Experts => Ok(tensor.role.is_expert()),
            Covers::Linear { towers } => Ok(is_linear(tensor) && (*towers || tensor.role != Role::Tower)),
            Covers::Listed(modules) => match modules.find(module) {
                Ok(Some(Found::Name)) => Ok(true),
                Ok(Some(Found::Pattern)) => {
                    Ok(self.format.is_none() || is_linear(tensor) || tensor.role == Role::Head)
                }
                Ok(None) => Ok(false),
                Err(some) => {
                    let message =
                        format!("the list has {some} only, and experts of a layer have one encoding");
                    Err(self.fault(message, "quantise all experts of a layer alike"))
                }
            },
        }
    }
}

/// Whether a tensor is the weight of a product, which a list may quantise.
fn is_product(tensor: &Tensor) -> bool {
    let never =
        matches!(tensor.role, Role::Norm | Role::Convolution | Role::State | Role::Sinks | Role::Positions);
    let dimensions = if tensor.role.is_expert() { 3 } else { 2 };
    tensor.shape.len() == dimensions && !tensor.name.ends_with("bias") && !never
}

/// Whether the product is that of a linear module, which a method quantises without naming it.
///
/// Towers have no roles: of their matrices, tables are known by their names. The weights of an indexer's heads stay plain, as
/// in the checkpoints of DeepSeek-V3.2.
fn is_linear(tensor: &Tensor) -> bool {
    match tensor.role {
        Role::Embedding | Role::Head | Role::Router | Role::SharedRouter => false,
        Role::Projector | Role::Prediction | Role::Other => false,
        Role::Indexer => !tensor.name.ends_with("weights_proj.weight"),
        Role::Tower => tensor.name.ends_with(".weight") && !tensor.name.contains("embed"),
        _ => true,
    }
}

/// Reads the number format and the quantisation of a configuration, and of the file beside it if there is one.
///
/// # Errors
/// If the method or the number format is unknown, or a key is missing or has a senseless value (M013).
pub(super) fn read<'a>(config: &Config<'a>, beside: Option<&Config<'a>>) -> Result<Scheme<'a>> {
    let text = config.inner("text_config")?;
    let plain = match plain(config)? {
        Some(plain) => plain,
        None => text.as_ref().map(self::plain).transpose()?.flatten().unwrap_or(Encoding::BF16),
    };
    let own = own(config, text.as_ref())?;
    let other = beside.map(|beside| {
        let missing = || beside.fault("quantization", "the key `quantization` is missing", "check the file");
        beside.inner("quantization")?.ok_or_else(missing)
    });
    let other = other.transpose()?;
    let mut cache = None;
    for source in own.as_ref().map(|(source, _)| source).into_iter().chain(&other) {
        cache = cache.or(format::cache(source)?);
    }
    let source = own.or(other.map(|other| (other, true)));
    let mut rules = Vec::new();
    let mut classes = Vec::new();
    if let Some((source, towers)) = &source {
        methods::read(source, *towers, &mut rules, &mut classes)?;
    }
    for source in [Some(config), text.as_ref()].into_iter().flatten() {
        rules.extend(methods::expert_type(source)?);
    }
    rules.append(&mut classes);
    Ok(Scheme { plain, cache, rules })
}

/// The quantisation in the configuration, and whether it is for towers too.
fn own<'a>(config: &Config<'a>, text: Option<&Config<'a>>) -> Result<Option<(Config<'a>, bool)>> {
    for (config, towers) in [(Some(config), true), (text, false)] {
        let Some(config) = config else { continue };
        for key in ["quantization_config", "compression_config"] {
            let Some(found) = config.inner(key)? else { continue };
            return Ok(Some((found.inner("quantization_config")?.unwrap_or(found), towers)));
        }
    }
    Ok(None)
}

/// Encoding of what is not quantised; `None` if the configuration does not say.
fn plain(config: &Config) -> Result<Option<Encoding>> {
    let key = if config.value("dtype").is_some() { "dtype" } else { "torch_dtype" };
    match config.text(key) {
        None | Some("auto") => Ok(None),
        Some("bfloat16") => Ok(Some(Encoding::BF16)),
        Some("float16" | "half") => Ok(Some(Encoding::F16)),
        Some("float32" | "float") => Ok(Some(Encoding::F32)),
        // Quantised checkpoints may give the type of their quantised weights; the others are then in bfloat16.
        Some(other) if other.starts_with("float8") => Ok(None),
        Some(other) => {
            let known = ["bfloat16", "float16", "float32"].into_iter();
            Err(format::unknown(config, key, "type of numbers", other, known))
        }
    }
}
