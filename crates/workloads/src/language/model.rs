//! A whole model: tables, towers, layers, the projection to the vocabulary and prediction layers.

use std::borrow::Cow;
use std::num::NonZeroU64;

use stagewright_core::document::BatchDocument;
use stagewright_formats::layers::layers_of;
use stagewright_structure::{Layer, Mixer, Role, Structure, Tensor as Stored, TowerKind};

use super::attention::INDEX_WIDTH;
use super::draw::{Cached, Draw, Passed};
use super::layer::HYPER_HEAD;
use super::modules;
use super::options::{LanguageOptions, Step};
use super::towers;
use super::weights::{Module, Weights};
use crate::operators::bilinear;
use crate::record::Product;
use crate::{Loss, Owner, Piece, Read, Record, Shape, Tape, Tensor};

/// Tensors of a structure by place.
struct Tensors<'a> {
    outside: Vec<&'a Stored>,
    /// Weights that prediction layers share.
    prediction: Vec<&'a Stored>,
    towers: Vec<&'a Stored>,
    layers: Vec<Vec<&'a Stored>>,
}

impl<'a> Tensors<'a> {
    fn new(structure: &'a Structure) -> Tensors<'a> {
        let layers = vec![Vec::new(); structure.layers.len()];
        let [outside, prediction, towers] = [(); 3].map(|()| Vec::new());
        let mut tensors = Tensors { outside, prediction, towers, layers };
        for tensor in &structure.tensors {
            let layer = tensor.layer.and_then(|layer| usize::try_from(layer).ok());
            let place = match (layer.and_then(|layer| tensors.layers.get_mut(layer)), tensor.role) {
                (Some(layer), _) => layer,
                (None, Role::Tower | Role::Projector) => &mut tensors.towers,
                (None, Role::Prediction) => &mut tensors.prediction,
                (None, _) => &mut tensors.outside,
            };
            place.push(tensor);
        }
        tensors
    }
}

/// The projection to the vocabulary, with the table that it may share.
struct Head {
    name: String,
    /// Weights of its own, and its bias.
    module: Option<Module>,
    /// The table, if its weights are those of the projection.
    table: Option<(Owner, Module)>,
    vocabulary: u64,
    /// Whether every token is projected: tokens of an encoder are predicted at once.
    takes_all: bool,
}

/// Records the operators of a structure.
pub(super) fn record(tape: &mut Tape, structure: &Structure, options: &LanguageOptions, step: &Step) {
    let tensors = Tensors::new(structure);
    let weights = Weights::new(tensors.outside.iter().copied(), structure.vocabulary);
    let batch = BatchDocument {
        samples: NonZeroU64::new(step.batch).unwrap_or(NonZeroU64::MIN),
        tokens: NonZeroU64::new(step.tokens),
    };
    tape.batch = Some(batch);
    let (inputs, memory) = towers(tape, structure, step, &tensors);
    let mut draw = Draw::outside(tape, step, weights, structure);
    let (mut x, table) = draw.input(structure, inputs);
    let mut weights = std::mem::take(&mut draw.weights);
    let (mut predicted, mut passed) = (Vec::new(), Passed::default());
    for (index, layer) in structure.layers.iter().enumerate() {
        if layer.is_prediction {
            predicted.push(index);
            continue;
        }
        let stack = (&mut *tape, &mut passed);
        (x, _) = in_layer(stack, structure, step, (index, &tensors.layers[index]), x, memory);
    }
    let hidden = x;
    let head = head(structure, &mut weights, table);
    let mut draw = Draw::outside(tape, step, weights, structure);
    x = draw.enter(HYPER_HEAD, x);
    while let Some(module) = draw.weights.take(Role::Norm) {
        x = draw.normalise(&module, x, x.last());
    }
    x = draw.rest(x);
    if let Some(width) = structure.embedding.width {
        x = draw.between_widths([structure.hidden, width], x);
    }
    let shared = draw.head(head.as_ref(), "", x);
    if !options.prediction {
        return;
    }
    // Prediction layers without a projection of their own share that of the model.
    let shared = head.zip(shared).map(|(head, table)| Head { module: None, table: Some(table), ..head });
    let weights = Weights::new(tensors.prediction, structure.vocabulary);
    let mut x = Draw::outside(tape, step, weights, structure).rest(hidden);
    for index in predicted {
        let stack = (&mut *tape, &mut passed);
        let (y, own) = in_layer(stack, structure, step, (index, &tensors.layers[index]), x, None);
        x = y;
        let mut draw = Draw::outside(tape, step, Weights::default(), structure);
        let path = path_of(index, &tensors.layers[index]);
        let own = own.map(|module| Head {
            name: module.name.clone(),
            module: Some(module),
            table: None,
            vocabulary: structure.vocabulary,
            takes_all: false,
        });
        match own {
            Some(own) => draw.head(Some(&own), "", x),
            None => draw.head(shared.as_ref(), &format!("{path}."), x),
        };
    }
}

/// Draws the towers. Returns what the table of tokens reads of them, and the output of an encoder of text.
fn towers(
    tape: &mut Tape,
    structure: &Structure,
    step: &Step,
    tensors: &Tensors<'_>,
) -> (Vec<Tensor>, Option<Tensor>) {
    let (mut inputs, mut memory) = (Vec::new(), None);
    for placed in towers::placed(&structure.towers, &tensors.towers) {
        let outputs = towers::draw(tape, step, structure, &placed);
        let has_cross = structure.layers.iter().any(|layer| layer.cross.is_some());
        let is_read = placed.tower.is_some_and(|tower| tower.kind != TowerKind::Vision) && has_cross;
        match outputs[..] {
            [output] if is_read && !towers::is_idle(output) => memory = Some(output),
            _ => inputs.extend(outputs),
        }
    }
    (inputs, memory)
}

/// Path of a layer: that of its first tensor up to the number.
fn path_of(index: usize, tensors: &[&Stored]) -> String {
    let names: Vec<Cow<str>> = tensors.iter().take(1).map(|tensor| Cow::Borrowed(&*tensor.name)).collect();
    let found = layers_of(&names).into_iter().find(|found| found.number.is_some());
    found.map_or_else(|| format!("layers.{index}"), |found| found.path.to_owned())
}

/// Draws a layer. Returns its output, and the projection to the vocabulary that it has of its own.
fn in_layer(
    (tape, passed): (&mut Tape, &mut Passed),
    structure: &Structure,
    step: &Step,
    (index, tensors): (usize, &[&Stored]),
    x: Tensor,
    memory: Option<Tensor>,
) -> (Tensor, Option<Module>) {
    let path = path_of(index, tensors);
    let mut weights = Weights::new(tensors.iter().copied(), structure.vocabulary);
    let own = weights.take_joined(Role::Head);
    let x = tape.scope(path.clone(), |tape| {
        let mut draw = Draw { path, index, ..Draw::outside(tape, step, weights, structure) };
        std::mem::swap(&mut draw.passed, passed);
        let x = draw.layer(&structure.layers[index], x, memory);
        std::mem::swap(&mut draw.passed, passed);
        x
    });
    (x, own)
}

/// Whether tokens see later ones.
fn is_encoder(structure: &Structure) -> bool {
    let is_bidirectional =
        |layer: &Layer| matches!(&layer.mixer, Mixer::Attention(attention) if attention.bidirectional);
    structure.layers.iter().any(is_bidirectional)
}

/// Weights of the projection to the vocabulary.
fn head(structure: &Structure, weights: &mut Weights, table: Option<(Owner, Module)>) -> Option<Head> {
    let module = weights.take_joined(Role::Head);
    let head = structure.head?;
    let is_gguf = table.as_ref().is_some_and(|(_, table)| table.name == "token_embd");
    let tied = if is_gguf { "output" } else { modules::tied_head(structure) };
    let name = module.as_ref().map_or(tied, |module| &module.name);
    Some(Head {
        name: name.to_owned(),
        // A projection that the file lacks has the weights of the table, whatever the structure says.
        table: table.filter(|_| head.tied || module.is_none()),
        vocabulary: structure.vocabulary,
        takes_all: is_encoder(structure),
        module,
    })
}

impl Draw<'_> {
    /// Draws the tables at the input. Returns the hidden state, and the table of tokens with its operator.
    fn input(&mut self, structure: &Structure, towers: Vec<Tensor>) -> (Tensor, Option<(Owner, Module)>) {
        let (step, hidden) = (*self.step, structure.hidden.max(1));
        let shape = Shape::from([step.batch, step.tokens, structure.embedding.width.unwrap_or(hidden)]);
        let Some(table) = self.weights.take_tables(Role::Embedding).into_iter().reduce(Module::joined) else {
            let x = self.tape.input("inputs", [step.batch, step.tokens, hidden]);
            return (self.beside_input(x), None);
        };
        let tokens = self.tape.indices("tokens", [step.batch, step.tokens]);
        let share = (step.rows() / table.rows.max(1) as f64).min(1.0);
        let inputs: Vec<Tensor> = std::iter::once(tokens).chain(towers).collect();
        let (index_bytes, touched) = (step.rows() * INDEX_WIDTH, share * table.elements);
        let read = if step.is_training { touched * self.tape.width } else { table.bytes * share };
        let moved = index_bytes + read + shape.elements() * self.tape.width;
        let images: f64 = inputs[1..].iter().map(|input| self.tape.bytes_of(*input)).sum();
        let record = self.weigh(Record::new("embedding", inputs), &table, share).moved(moved + images);
        let gradient = Piece::of_weights(touched, shape.elements(), &[Read::Input(0)]);
        let record = record.piece(gradient.workspace(2.0 * index_bytes));
        let (mut x, owner) = self.tape.record_owner(&table.name, record, shape);
        self.tape.make_layer(owner);
        if let Some(width) = structure.embedding.width {
            x = self.between_widths([width, hidden], x);
        }
        for module in self.weights.take_tables(Role::Positions) {
            x = self.positions(&module, x);
        }
        let is_embedding = |module: &Module| module.role == Role::Norm && module.name.contains("emb");
        if let Some(module) = self.weights.take_if(is_embedding) {
            x = self.normalise(&module, x, x.last());
        }
        (self.beside_input(x), Some((owner, table)))
    }

    /// Draws other tables, and what is projected to inputs of every layer, where the model reads its input.
    fn beside_input(&mut self, mut x: Tensor) -> Tensor {
        let is_early = |module: &Module| {
            module.role == Role::Other && (module.is_table || module.name.contains("per_layer"))
        };
        let early = Weights::of(self.weights.take_those(is_early));
        let late = std::mem::replace(&mut self.weights, early);
        x = self.rest(x);
        self.weights = late;
        x
    }

    /// Projects from the width of the tables to that of the hidden state, or back.
    fn between_widths(&mut self, [inputs, outputs]: [u64; 2], x: Tensor) -> Tensor {
        let is_it = |module: &Module| (module.inputs, module.rows) == (inputs, outputs) && !module.is_table;
        self.weights.take_if(is_it).map_or(x, |module| self.linear(&module, x))
    }

    /// Adds the rows of a table of positions or token types.
    fn positions(&mut self, module: &Module, x: Tensor) -> Tensor {
        let share = (self.step.tokens as f64 / module.rows.max(1) as f64).min(1.0);
        let record = self.weigh(Record::new("add_table", [x]).flop(x.elements()), module, share);
        let record = record.passes(0).piece(Piece::of_weights(module.elements, x.elements(), &[]));
        self.push(&module.name, record, x.shape, Cached::default())
    }

    /// Draws the projection to the vocabulary and, in training, the loss. Prefill needs the last token of each sequence,
    /// unless all are asked for.
    /// Returns the operator that holds the weights, and the weights.
    fn head(&mut self, head: Option<&Head>, prefix: &str, x: Tensor) -> Option<(Owner, Module)> {
        let Some(head) = head.filter(|head| head.table.is_some() || head.module.is_some()) else {
            self.tape.loss(&format!("{prefix}loss"), x, Loss::Square);
            return None;
        };
        let name = format!("{prefix}{}", head.name);
        let step = *self.step;
        let mut x = x;
        if !step.is_training && !step.all_logits && !head.takes_all && step.tokens > 1 {
            let shape = Shape::from([step.batch, 1, x.last()]);
            let moved = 2.0 * shape.elements() * self.tape.width;
            let record = Record::new("slice", [x]).moved(moved);
            x = self.push(&format!("{name}.last"), record, shape, Cached::default());
        }
        let logits = match (&head.table, &head.module) {
            (Some((owner, table)), bias) => {
                let logits = self.tied(&name, *owner, table, (x, head.vocabulary));
                bias.as_ref().map_or(logits, |bias| self.bias(&format!("{name}.bias"), bias, logits))
            }
            (None, Some(module)) => self.linear(&Module { name: name.clone(), ..module.clone() }, x),
            (None, None) => x,
        };
        self.tape.loss(&format!("{name}.loss"), logits, Loss::CrossEntropy);
        let own = || head.module.clone().map(|module| (self.tape.owner_of(logits), module));
        head.table.clone().or_else(own)
    }

    /// The product with a table that another operator holds.
    fn tied(&mut self, name: &str, owner: Owner, table: &Module, (x, outputs): (Tensor, u64)) -> Tensor {
        let (rows, inputs) = (x.elements() / x.last().max(1) as f64, x.last().max(1) as f64);
        let product = Product { batch: 1.0, m: rows, n: table.matrices / inputs, k: inputs };
        let mut record = Record::new("linear", [x]).shares(owner, table.elements);
        if !self.step.is_training {
            record.precision = table.precision;
            record = record.stored(crate::Stored { held: 0.0, read: table.bytes });
        }
        let record = bilinear(record, table.elements, 2.0 * rows * table.matrices, product);
        self.push(name, record, x.shape.with_last(outputs.max(1)), Cached::default())
    }

    fn bias(&mut self, name: &str, module: &Module, x: Tensor) -> Tensor {
        let record = self.weigh(Record::new("add_bias", [x]).flop(x.elements()), module, 1.0);
        let record = record.passes(0).piece(Piece::of_weights(module.elements, x.elements(), &[]));
        self.push(name, record, x.shape, Cached::default())
    }
}
