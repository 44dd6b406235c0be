//! What each tensor of a file is: a weight of the structure, a part of a quantised one, or nothing that counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::module::bare;
use crate::tensor::{Role, Tensor};

/// Part of a tensor that a file holds as a tensor of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The weights.
    Weight,
    /// The weights, packed into integers.
    Packed,
    /// Scales of the weights.
    Scales,
    /// Zero points of the weights.
    Zeros,
    /// Group of each input.
    Order,
    /// Anything else beside the weights, such as scales of activations.
    Beside,
}

/// Endings of the parts of a quantised tensor, for those after `.weight` of a module and of stacked experts.
const ENDINGS: &[(&str, Part)] = &[
    // compressed-tensors, Model Optimizer and DeepSeek.
    (".weight_packed", Part::Packed),
    (".weight_scale", Part::Scales),
    (".weight_scale_inv", Part::Scales),
    (".weight_scale_2", Part::Beside),
    (".weight_global_scale", Part::Beside),
    (".weight_zero_point", Part::Zeros),
    (".weight_g_idx", Part::Order),
    (".weight_shape", Part::Beside),
    (".input_scale", Part::Beside),
    (".input_global_scale", Part::Beside),
    (".input_zero_point", Part::Beside),
    (".output_scale", Part::Beside),
    (".pre_quant_scale", Part::Beside),
    (".scale", Part::Scales),
    // AWQ and GPTQ.
    (".qweight", Part::Packed),
    (".scales", Part::Scales),
    (".qzeros", Part::Zeros),
    (".g_idx", Part::Order),
    // bitsandbytes.
    (".SCB", Part::Scales),
    (".weight_format", Part::Beside),
    (".weight.absmax", Part::Scales),
    (".weight.quant_map", Part::Beside),
    (".weight.nested_absmax", Part::Beside),
    (".weight.nested_quant_map", Part::Beside),
    // Stacked experts, as those of gpt-oss.
    ("_blocks", Part::Packed),
    ("_scales", Part::Scales),
    ("_scale_inv", Part::Scales),
    ("_scale_2", Part::Beside),
    ("_input_scale", Part::Beside),
    ("_weight_scale", Part::Scales),
    ("_weight_scale_2", Part::Beside),
    ("_scale", Part::Scales),
    (".weight", Part::Weight),
];

/// Scales of cached keys and values; they belong to any tensor of their module.
const CACHE_SCALES: &[&str] = &[".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_output_scale"];

/// Last parts of the names of buffers, which are computed and no weights.
const BUFFERS: &[&str] = &[
    "inv_freq",
    "original_inv_freq",
    "position_ids",
    "masked_bias",
    "cos_cached",
    "sin_cached",
    "num_batches_tracked",
];
/// Masks of attention in GPT-2 and GPT-NeoX.
const MASKS: &[&str] = &["attn.bias", "attention.bias"];
/// Names of tables that share their weights with the table of tokens or the head: in tied models and in prediction layers.
const COPIES: &[&str] = &[
    "embed_tokens.weight",
    "shared_head.head.weight",
    "lm_head.weight",
    "embed_out.weight",
    "shared.weight",
];

/// Place of a tensor of a file in a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A part of a tensor, possibly of one expert.
    Part {
        index: usize,
        expert: Option<u64>,
        part: Part,
    },
    /// A buffer or a copy, which does not count.
    Ignored,
    /// A mask of attention if it has four dimensions.
    Mask,
    /// A copy of the table of tokens if it has that table's shape.
    Copy,
    Unknown,
}

/// Tensors of a structure by name.
pub(super) struct Places<'a> {
    full: BTreeMap<&'a str, usize>,
    /// Without the modules around the language model; `None` for names that several tensors then have.
    bare: BTreeMap<&'a str, Option<usize>>,
    /// Names of the files.
    files: &'a BTreeSet<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn new(tensors: &'a [Tensor], files: &'a BTreeSet<&'a str>) -> Places<'a> {
        let mut names = Places { full: BTreeMap::new(), bare: BTreeMap::new(), files };
        for (index, tensor) in tensors.iter().enumerate() {
            names.full.insert(&tensor.name, index);
            names.bare.entry(bare(&tensor.name)).and_modify(|known| *known = None).or_insert(Some(index));
        }
        names
    }

    /// Place of a tensor by its name in a file.
    pub(super) fn find(&self, name: &str) -> Place {
        if let Some((index, expert)) = self.tensor(name) {
            return Place::Part { index, expert, part: Part::Weight };
        }
        if let Some((index, expert, part)) = self.part(name) {
            return Place::Part { index, expert, part };
        }
        let ends = |endings: &[&str]| {
            endings.iter().any(|ending| {
                name.strip_suffix(ending).is_some_and(|before| before.is_empty() || before.ends_with('.'))
            })
        };
        match () {
            () if ends(BUFFERS) || name.contains("rotary_emb.") => Place::Ignored,
            () if ends(MASKS) => Place::Mask,
            () if ends(COPIES) => Place::Copy,
            () => Place::Unknown,
        }
    }

    /// The tensor of a name, with the number that stands for its `*`.
    fn tensor(&self, name: &str) -> Option<(usize, Option<u64>)> {
        let known = |name: &str| {
            self.full.get(name).copied().or_else(|| self.bare.get(bare(name)).copied().flatten())
        };
        if let Some(index) = known(name) {
            return Some((index, None));
        }
        let mut start = 0;
        for part in name.split('.') {
            let end = start + part.len();
            let number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten();
            if let Some(number) = number {
                let starred = format!("{}*{}", &name[..start], &name[end..]);
                if let Some(index) = known(&starred) {
                    return Some((index, Some(number)));
                }
            }
            start = end + 1;
        }
        None
    }

    /// The quantised tensor that a name belongs to.
    fn part(&self, name: &str) -> Option<(usize, Option<u64>, Part)> {
        for (ending, part) in ENDINGS {
            let Some(stem) = name.strip_suffix(ending) else { continue };
            let found = self.tensor(&format!("{stem}.weight")).or_else(|| self.tensor(stem));
            if let Some((index, expert)) = found {
                return Some((index, expert, *part));
            }
        }
        if let Some((weight, _)) = name.split_once(".quant_state.")
            && let Some((index, expert)) = self.tensor(weight)
        {
            return Some((index, expert, Part::Beside));
        }
        // GPTQ writes a bias for every module, of zeros where the model has none.
        if let Some(stem) = name.strip_suffix(".bias")
            && self.files.contains(format!("{stem}.qweight").as_str())
            && let Some((index, expert)) = self.tensor(&format!("{stem}.weight"))
        {
            return Some((index, expert, Part::Beside));
        }
        let stem = CACHE_SCALES.iter().find_map(|ending| name.strip_suffix(ending))?;
        let module = format!("{}.", bare(stem));
        let (below, index) = self.bare.range(module.as_str()..).next()?;
        Some(((*index)?, None, Part::Beside)).filter(|_| below.starts_with(&module))
    }
}

/// Experts as the files have them: stacked in one tensor, or a tensor for each.
///
/// A configuration does not say which. Where the structure has the other, its tensors of experts are replaced, without those
/// of biases.
pub(super) fn restack(tensors: &[Tensor], files: &BTreeSet<&str>) -> Vec<Tensor> {
    let names: BTreeSet<&str> = files.iter().map(|name| bare(name)).collect();
    let has = |path: &str, name: &str| {
        let start = format!("{}{name}", bare(path));
        names.range(start.as_str()..).next().is_some_and(|found| found.starts_with(&start))
    };
    let mut stacked: Vec<Tensor> = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let separate =
            tensor.name.split_once("*.").filter(|_| tensor.role.is_expert() && tensor.shape.len() == 3);
        match separate {
            Some((path, _)) if !has(path, "0.") && has(path, "gate_up_proj") => {
                stack(&mut stacked, tensor, path)
            }
            Some(_) => stacked.push(tensor.clone()),
            None => match tensor.name.rsplit_once('.') {
                Some((path, "gate_up_proj" | "down_proj")) if tensor.role.is_expert() && has(path, ".0.") => {
                    stacked.extend(unstack(tensor, path));
                }
                _ => stacked.push(tensor.clone()),
            },
        }
    }
    stacked
}

/// Adds the weights of separate experts to a stack; that of gates has the projections up too.
fn stack(stacked: &mut Vec<Tensor>, tensor: &Tensor, path: &str) {
    if tensor.role == Role::ExpertDown {
        stacked.push(Tensor { name: format!("{path}down_proj"), ..tensor.clone() });
        return;
    }
    let name = format!("{path}gate_up_proj");
    match stacked.last_mut().filter(|last| last.name == name) {
        Some(last) => {
            last.shape[1] = last.shape[1].saturating_add(tensor.shape[1]);
            last.bytes = last.bytes.saturating_add(tensor.bytes);
        }
        None => stacked.push(Tensor { name, role: Role::ExpertGateUp, ..tensor.clone() }),
    }
}

/// The weights of separate experts of a stack.
fn unstack(tensor: &Tensor, path: &str) -> Vec<Tensor> {
    let named =
        |name: &str, role: Role| Tensor { name: format!("{path}.*.{name}.weight"), role, ..tensor.clone() };
    match (tensor.role, tensor.shape.as_slice()) {
        (Role::ExpertGateUp, &[experts, both, width]) => {
            [("gate_proj", Role::ExpertGate), ("up_proj", Role::ExpertUp)]
                .map(|(name, role)| Tensor {
                    shape: vec![experts, both / 2, width],
                    bytes: tensor.bytes / 2,
                    ..named(name, role)
                })
                .into()
        }
        _ => vec![named("down_proj", tensor.role)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;

    fn tensor(name: &str) -> Tensor {
        let (shape, encoding) = (vec![4, 4], Encoding::BF16);
        Tensor {
            name: name.into(),
            role: Role::Other,
            layer: None,
            shape,
            encoding,
            bytes: 32,
            compute: None,
        }
    }

    #[test]
    fn names_have_their_places() {
        let tensors = [
            "transformer.h.0.attn.c_attn.weight",
            "layers.0.experts.*.up.weight",
            "layers.0.q_norm.norms.*.weight",
            "layers.0.self_attn.q_proj.weight",
            "layers.0.router.scale",
        ]
        .map(tensor);
        let files = BTreeSet::from(["layers.0.self_attn.q_proj.qweight"]);
        let places = Places::new(&tensors, &files);
        let part = |index: usize, expert: Option<u64>, part: Part| Place::Part { index, expert, part };
        for (name, place) in [
            ("h.0.attn.c_attn.weight", part(0, None, Part::Weight)),
            ("h.0.attn.bias", Place::Mask),
            ("transformer.h.0.attn.masked_bias", Place::Ignored),
            ("model.layers.0.experts.3.up.weight", part(1, Some(3), Part::Weight)),
            ("model.layers.0.experts.3.up.weight_scale_2", part(1, Some(3), Part::Beside)),
            ("layers.0.q_norm.norms.2.weight", part(2, Some(2), Part::Weight)),
            ("layers.0.self_attn.q_proj.bias", part(3, None, Part::Beside)),
            ("layers.0.self_attn.q_proj.weight.quant_state.bitsandbytes__nf4", part(3, None, Part::Beside)),
            ("layers.0.self_attn.q_proj.scale", part(3, None, Part::Scales)),
            ("layers.0.self_attn.k_scale", part(3, None, Part::Beside)),
            ("layers.0.router.scale", part(4, None, Part::Weight)),
            ("layers.0.self_attn.rotary_emb.inv_freq", Place::Ignored),
            ("lm_head.weight", Place::Copy),
            ("xlm_head.weight", Place::Unknown),
            ("layers.0.mlp.k_scale", Place::Unknown),
            ("h.0.attn.c_attn.bias", Place::Unknown),
        ] {
            assert_eq!(places.find(name), place, "{name}");
        }
    }
}
