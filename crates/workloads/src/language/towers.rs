//! Towers: encoders of images, audio or text, one operator for each of their layers.

use std::borrow::Cow;

use stagewright_formats::layers::layers_of;
use stagewright_structure::{Attention, Layer, Mixer, Structure, Tensor as Stored, Tower};

use super::draw::{Cached, Draw};
use super::options::Step;
use super::weights::{Module, Weights};
use crate::operators::bilinear;
use crate::record::Product;
use crate::{Record, Shape, Tape, Tensor};

/// Parts of the names of modules before the layers of a tower.
const ENTRIES: [&str; 7] = ["embed", "patch", "conv", "pos_", "position", "token", "pre_layer"];

/// A tower with its tensors.
pub(super) struct Placed<'a> {
    pub(super) name: String,
    pub(super) tower: Option<&'a Tower>,
    pub(super) tensors: Vec<&'a Stored>,
}

/// Divides the tensors of towers by the towers' names. The first tower has those that no name tells.
pub(super) fn placed<'a>(towers: &'a [Tower], tensors: &[&'a Stored]) -> Vec<Placed<'a>> {
    let mut placed: Vec<Placed> = towers
        .iter()
        .map(|tower| Placed { name: tower.name.clone(), tower: Some(tower), tensors: Vec::new() })
        .collect();
    if placed.is_empty() {
        placed.push(Placed { name: "towers".into(), tower: None, tensors: Vec::new() });
    }
    for &tensor in tensors {
        let is_below = |place: &Placed| {
            tensor.name.strip_prefix(&place.name).is_some_and(|below| below.starts_with('.'))
        };
        let place = placed.iter().position(is_below).unwrap_or(0);
        placed[place].tensors.push(tensor);
    }
    placed.retain(|place| !place.tensors.is_empty());
    placed
}

/// Draws a tower: one operator that holds its weights and one for each module beside it, or one for each of its layers on
/// the tokens that it reads.
pub(super) fn draw(tape: &mut Tape, step: &Step, structure: &Structure, placed: &Placed<'_>) -> Vec<Tensor> {
    let weights = Weights::new(placed.tensors.iter().copied(), 0);
    let mut draw = Draw::outside(tape, step, weights, structure);
    let modules = draw.weights.take_rest();
    match placed.tower.filter(|_| step.tower_tokens > 0 && !step.is_decode) {
        Some(tower) => vec![draw.run(tower, &modules)],
        None => {
            let is_below = |module: &Module| {
                module.name.strip_prefix(&placed.name).is_some_and(|below| below.starts_with('.'))
            };
            let (below, beside): (Vec<Module>, Vec<Module>) = modules.into_iter().partition(is_below);
            let whole = (!below.is_empty()).then(|| joined(placed.name.clone(), &below));
            whole.iter().chain(&beside).map(|module| draw.hold(module)).collect()
        }
    }
}

/// All weights of some modules as one module.
fn joined(name: String, modules: &[Module]) -> Module {
    let mut whole = Module { name, ..modules[0].clone() };
    modules[1..].iter().for_each(|module| whole.join(module));
    whole
}

impl Draw<'_> {
    fn run(&mut self, tower: &Tower, modules: &[Module]) -> Tensor {
        let shape = [self.step.batch, self.step.tower_tokens, tower.hidden.max(1)];
        let mut x = self.tape.input(&format!("{}.tokens", tower.name), shape);
        let names: Vec<Cow<str>> = modules.iter().map(|module| Cow::Borrowed(module.name.as_str())).collect();
        let found = layers_of(&names);
        let mut groups: Vec<(String, Option<u64>, Vec<Module>)> = Vec::new();
        for (module, found) in modules.iter().zip(&found) {
            // Modules outside the layers are operators of their own.
            let number = found.number.as_ref().map(|numbered| numbered.number);
            let path = if number.is_some() { found.path } else { &module.name };
            match groups.iter_mut().find(|(known, ..)| known == path) {
                Some((.., members)) => members.push(module.clone()),
                None => groups.push((path.to_owned(), number, vec![module.clone()])),
            }
        }
        // What makes tokens of patches or sound comes first, and what hands them on last.
        groups.sort_by_key(|(path, number, _)| match number {
            Some(_) => 1,
            None if ENTRIES.iter().any(|part| path.contains(part)) && !path.contains("merge") => 0,
            None => 2,
        });
        for (path, number, members) in groups {
            let layer = number.and_then(|number| tower.layers.get(usize::try_from(number).ok()?));
            x = self.tower_layer(&joined(path, &members), layer, x);
        }
        x
    }

    fn tower_layer(&mut self, module: &Module, layer: Option<&Layer>, x: Tensor) -> Tensor {
        let tokens = self.step.tower_tokens as f64;
        let rows = self.step.batch as f64 * tokens;
        let scores = match layer.map(|layer| &layer.mixer) {
            Some(Mixer::Attention(attention)) => rows * score(attention, tokens),
            _ => 0.0,
        };
        let is_table = module.name.contains("pos");
        let matrices = if is_table { 0.0 } else { module.matrices };
        let width = x.last() as f64;
        let product = Product { batch: 1.0, m: rows, n: matrices / width, k: width };
        let record = self.weigh(Record::new("tower_layer", [x]), module, 1.0);
        let record = bilinear(record, module.elements, 2.0 * rows * matrices + scores, product);
        let record = Record { product: None, ..record };
        self.push(&module.name, record, x.shape, Cached::default())
    }
}

/// FLOP of the scores of a token.
fn score(attention: &Attention, tokens: f64) -> f64 {
    let seen = attention.window.map_or(tokens, |window| tokens.min(window as f64));
    seen * attention.heads as f64 * (2.0 * attention.key as f64 + 2.0 * attention.value as f64 + 6.0)
}

/// Shape of the output of a tower that does not run.
pub(super) fn is_idle(tower: Tensor) -> bool {
    tower.shape == Shape::from([1])
}
