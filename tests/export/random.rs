//! Random plans: every export is parsed and compared with the plan, and every refusal must be justified.

use std::collections::BTreeMap;
use std::fmt;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use stagewright::core::document::{
    GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, Pass, PlanDocument,
};
use stagewright::core::graph::Graph;

use super::plans::{device, export, graph, of_pass, operator, unordered};

pub(crate) const ROUNDS: u64 = 300;

fn rounds(body: impl Fn(&mut ChaCha8Rng)) {
    for seed in 0..ROUNDS {
        body(&mut ChaCha8Rng::seed_from_u64(seed));
    }
}

/// Name fragments that break naive writers.
const PIECES: [&str; 20] = [
    "\"",
    "'",
    "\\",
    "\n",
    "\r",
    "\t",
    "]",
    "[",
    "}",
    "--",
    "->",
    ";",
    "#",
    "&amp;",
    "end",
    "\u{0}",
    "é",
    "漢",
    "\u{1f600}",
    "\u{2028}",
];

fn hostile(rng: &mut ChaCha8Rng, number: usize) -> String {
    let mut name = String::new();
    for _ in 0..rng.random_range(0..5) {
        name.push_str(PIECES.choose(rng).expect("there are some"));
    }
    format!("{name}{number}{}", PIECES.choose(rng).expect("there are some"))
}

/// A plan of devices without an order. `place` contains the device index of each operator.
fn plan(names: &[String], place: &[usize], kinds: &[(&str, &str)]) -> PlanDocument {
    let devices = kinds.iter().enumerate().map(|(index, (name, kind))| {
        let ops: Vec<&str> = names
            .iter()
            .zip(place)
            .filter(|(_, own)| **own == index)
            .map(|(name, _)| name.as_str())
            .collect();
        device(name, kind, &ops)
    });
    unordered(devices.collect())
}

/// A dictionary with all its entries in order, including duplicate keys.
struct Entries(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Entries;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a dictionary")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// The literal that a Python module assigns to a name; Python and JSON read it alike.
pub(crate) fn assigned<T: for<'de> Deserialize<'de>>(module: &str, name: &str) -> T {
    let start = module
        .lines()
        .scan(0, |offset, line| {
            let start = *offset;
            *offset += line.len() + 1;
            Some((start, line))
        })
        .find(|(_, line)| line.starts_with(&format!("{name} = ")))
        .map(|(start, _)| start + name.len() + 3)
        .unwrap_or_else(|| panic!("{name} is given in {module}"));
    let mut values = serde_json::Deserializer::from_str(&module[start..]).into_iter::<T>();
    values.next().expect("there is a literal").unwrap_or_else(|error| panic!("{name}: {error} in {module}"))
}

#[test]
fn drawings_and_affinities_have_every_operator_once_whatever_it_is_called() {
    rounds(|rng| {
        let names: Vec<String> = (0..rng.random_range(1..12)).map(|index| hostile(rng, index)).collect();
        let place: Vec<usize> = names.iter().map(|_| rng.random_range(0..3)).collect();
        let kinds = [("acc0", "acc"), ("acc1", "acc"), ("cpu0", "cpu")];
        let plan = plan(&names, &place, &kinds);
        // Devices in use, in the order of the plan, which is the order in which drawings number them.
        let used: Vec<usize> = (0..3).filter(|device| place.contains(device)).collect();
        let numbered =
            |index: usize| used.iter().position(|&device| device == place[index]).expect("it is used");
        let layers = ["", "l\"]\n;end", "é\\"];
        let operators = names.iter().map(|name| {
            let layer = *layers.choose(rng).expect("there are some");
            operator(name, (!layer.is_empty()).then_some(layer))
        });
        let operators: Vec<OperatorDocument> = operators.collect();
        let edges: Vec<(&str, &str)> =
            names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let model = graph(operators, &edges);
        for model in [None, Some(&model)] {
            let text = |to: &str| export(to, &plan, model).expect("anything can be drawn").text;
            // Without the model, operators are listed device by device.
            let mut expected: Vec<(String, usize)> =
                (0..names.len()).map(|index| (names[index].clone(), numbered(index))).collect();
            expected.sort();
            for found in [drawn_by_graphviz(&text("dot")), drawn_by_mermaid(&text("mermaid"))] {
                let (mut operators, edges) = found;
                assert_eq!(edges, if model.is_some() { names.len() - 1 } else { 0 });
                operators.sort();
                assert_eq!(operators, expected);
            }
            let Entries(found) = assigned(&text("openvino"), "AFFINITY");
            // Accelerators are numbered consecutively; unused ones get no number.
            let accelerators: Vec<usize> = used.iter().copied().filter(|&device| device < 2).collect();
            let called = |index: usize| match accelerators.iter().position(|&device| device == place[index]) {
                Some(number) => format!("GPU.{number}"),
                None => "CPU".to_owned(),
            };
            let mut found: Vec<(String, String)> = found
                .into_iter()
                .map(|(name, device)| (name, device.as_str().expect("a name").to_owned()))
                .collect();
            let mut expected: Vec<(String, String)> =
                (0..names.len()).map(|index| (names[index].clone(), called(index))).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
            let annotated = export("onnxruntime", &plan, model);
            assert_eq!(annotated.is_ok(), accelerators.len() < 2, "one provider per type");
            if let Ok(annotated) = annotated {
                let Entries(found) = assigned(&annotated.text, "LAYER_ANN");
                let settings: String = assigned(&annotated.text, "SETTINGS");
                assert_eq!(found.len(), names.len());
                for (name, annotation) in found {
                    let index = names.iter().position(|own| *own == name).expect("it is an operator");
                    let device = if place[index] < 2 { "accelerator" } else { "cpu" };
                    let rule = format!("{device}(={})", annotation.as_str().expect("a name"));
                    assert!(settings.split("; ").any(|part| part == rule), "{settings}");
                }
            }
        }
    });
}

/// Operators with their devices, and the number of tensors.
type Drawn = (Vec<(String, usize)>, usize);

/// Parses the output of `dot`, and nothing more general, so that a name that escapes its label fails.
fn drawn_by_graphviz(text: &str) -> Drawn {
    let mut drawn: Drawn = Default::default();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("label=") {
            let end = quoted_by_graphviz(rest).1;
            assert_eq!(&rest[end..], ";");
        } else if let Some((node, rest)) = line.split_once(" [label=") {
            let (name, end) = quoted_by_graphviz(rest);
            let attributes = &rest[end..];
            let Some(device) = attributes.strip_prefix(", fillcolor=\"#") else { panic!("{line}") };
            assert!(device[..6].chars().all(|c| c.is_ascii_hexdigit()));
            match device[6..].strip_prefix("\", class=\"d") {
                Some(class) => {
                    assert_eq!(node, format!("n{}", node[1..].parse::<usize>().expect("a number")));
                    let device = class.strip_suffix("\"];").expect("nothing follows").parse();
                    drawn.0.push((name, device.expect("a number")));
                }
                None => assert_eq!((&node[..1], &device[6..]), ("d", "\"];"), "{line}"),
            }
        } else if let Some((from, to)) = line.split_once(" -> ") {
            for node in [from, to.strip_suffix(';').expect("nothing follows")] {
                node[1..].parse::<usize>().expect("a number");
            }
            drawn.1 += 1;
        } else {
            let plain = ["digraph plan {", "rankdir=TB;", "node [shape=box, style=filled];", "}"];
            assert!(plain.contains(&line) || line.starts_with("subgraph cluster_"), "{line}");
        }
    }
    drawn
}

/// The text that Graphviz displays for a quoted string, and the index of its end.
fn quoted_by_graphviz(text: &str) -> (String, usize) {
    assert!(text.starts_with('"'), "{text}");
    let mut shown = String::new();
    let mut offset = 1;
    loop {
        let c = text[offset..].chars().next().expect("the string ends");
        offset += c.len_utf8();
        match c {
            '"' => return (shown, offset),
            '\\' => {
                let escaped = text[offset..].chars().next().expect("something is escaped");
                assert!(matches!(escaped, '"' | '\\'), "{text}");
                shown.push(escaped);
                offset += 1;
            }
            '&' => {
                let (reference, _) = text[offset..].split_once(';').expect("the reference ends");
                shown.push(match reference.strip_prefix('#') {
                    Some(code) => char::from_u32(code.parse().expect("a number")).expect("a character"),
                    None => {
                        assert_eq!(reference, "amp");
                        '&'
                    }
                });
                offset += reference.len() + 1;
            }
            c => shown.push(c),
        }
    }
}

/// Parses the output of `mermaid`, and nothing more general.
fn drawn_by_mermaid(text: &str) -> Drawn {
    let mut drawn: Drawn = Default::default();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some((from, to)) = line.split_once(" --> ") {
            for node in [from, to] {
                node[1..].parse::<usize>().expect("a number");
            }
            drawn.1 += 1;
        } else if let Some((node, rest)) = line.split_once("[\"") {
            let (label, rest) = rest.split_once("\"]").expect("the label ends");
            let name = shown_by_mermaid(label);
            if node.starts_with("subgraph layer") {
                assert_eq!(rest, "");
                continue;
            }
            let device: usize = rest.strip_prefix(":::device").expect("a class").parse().expect("a number");
            node[1..].parse::<usize>().expect("a number");
            if node.starts_with('n') {
                drawn.0.push((name, device));
            }
        } else {
            let plain = ["flowchart TB", "subgraph devices", "end"];
            assert!(plain.contains(&line) || line.starts_with("classDef device"), "{line}");
        }
    }
    drawn
}

fn shown_by_mermaid(label: &str) -> String {
    let mut shown = String::new();
    let mut rest = label;
    while let Some((before, after)) = rest.split_once('#') {
        let (code, after) = after.split_once(';').expect("the code ends");
        shown.push_str(before);
        shown.push(char::from_u32(code.parse().expect("a number")).expect("a character"));
        rest = after;
    }
    shown.push_str(rest);
    assert!(!label.contains(['"', '\\', '`', '<', '&', '\n']), "{label}");
    shown
}

/// The dotted path of an operator and its ancestors.
pub(crate) fn above(path: &str) -> Vec<&str> {
    path.match_indices('.').map(|(end, _)| &path[..end]).chain([path]).collect()
}

#[test]
fn a_device_map_gives_every_operator_its_device() {
    let (mut written, mut refused) = (0, 0);
    for seed in 0..ROUNDS {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (model, layers, homes) = modules(rng);
        let names: Vec<String> = model.operators().map(|op| model.operator(op).name.clone()).collect();
        // Devices are chosen by module, so that modules often stay whole, or at random.
        let place = by_module(rng, &layers, &homes);
        let plan = plan(&names, &place, &[("acc0", "acc"), ("acc1", "acc"), ("cpu0", "cpu")]);
        let used: Vec<usize> = (0..2).filter(|device| place.contains(device)).collect();
        let alone = |module: &str| {
            let mut inside = (0..layers.len())
                .filter(|&index| above(&layers[index]).contains(&module))
                .map(|index| place[index]);
            let first = inside.next();
            inside.all(|device| Some(device) == first)
        };
        let whole = place.iter().all(|device| *device == place[0]);
        // Inputs of the model are sent to the first accelerator in the map.
        let main = (0..names.len())
            .find(|&index| place[index] < 2 && above(&layers[index]).iter().any(|part| alone(part)))
            .map(|index| place[index]);
        let follows = |index: usize| {
            let op = model.operators().nth(index).expect("an operator");
            let read = model.predecessors(op);
            let operator = model.operator(op);
            operator.pass != Pass::Forward
                || (operator.parameter_bytes == 0.0
                    && (!read.is_empty() || main == Some(place[index]))
                    && read.iter().all(|from| place[from.index()] == place[index]))
        };
        let expressible = whole
            || (0..names.len())
                .all(|index| above(&layers[index]).iter().any(|part| alone(part)) || follows(index));
        let Ok(found) = export("accelerate", &plan, Some(&model)) else {
            assert!(!expressible, "{names:?} {place:?}");
            refused += 1;
            continue;
        };
        assert!(expressible, "{names:?} {place:?}");
        written += 1;
        let Entries(map) = serde_json::from_str(&found.text).expect("it is JSON");
        for index in 0..names.len() {
            let keys: Vec<&(String, serde_json::Value)> = map
                .iter()
                .filter(|(key, _)| key.is_empty() || above(&layers[index]).contains(&key.as_str()))
                .collect();
            let expected = match used.iter().position(|&device| device == place[index]) {
                Some(number) => serde_json::json!(number),
                None => serde_json::json!("cpu"),
            };
            match keys.as_slice() {
                [(_, device)] => assert_eq!(*device, expected, "{} in {}", names[index], found.text),
                [] => assert!(follows(index), "{} in {}", names[index], found.text),
                _ => panic!("{} is in {} twice", names[index], found.text),
            }
        }
    }
    assert!(written > 50 && refused > 50, "{written} written, {refused} refused");
}

/// Whether a map assigns a device to a tensor, by the rule of Accelerate's `check_device_map`.
pub(crate) fn covers(map: &BTreeMap<String, serde_json::Value>, tensor: &str) -> bool {
    let holds = |key: &String| {
        key.is_empty()
            || tensor == key
            || tensor.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'))
    };
    map.keys().any(holds)
}

#[test]
fn a_device_map_covers_every_parameter_and_buffer() {
    let (mut written, mut by_name, mut several) = (0, 0, 0);
    for seed in 0..4 * ROUNDS {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (model, layers, homes) = modules(rng);
        let names: Vec<String> = model.operators().map(|op| model.operator(op).name.clone()).collect();
        let mut document = GraphDocument { schema: GRAPH_SCHEMA_2.into(), ..model.document().clone() };
        // The owner is a module that runs, one that runs nothing, or the model itself.
        for index in 0..rng.random_range(1..5) {
            let owner = match rng.random_range(0..4) {
                0 => String::new(),
                1 => format!("{}.idle.", layers.choose(rng).expect("some")),
                2 => format!("{}.", layers.choose(rng).expect("some").split('.').next().expect("some")),
                _ => format!("{}.", layers.choose(rng).expect("some")),
            };
            let readers = names.iter().filter(|_| rng.random_bool(0.4)).cloned().collect::<Vec<_>>();
            if !readers.is_empty() {
                let mut parameter = parameter(&format!("{owner}table{index}"), &readers);
                parameter.trained = rng.random_bool(0.5);
                document.parameters.push(parameter);
            }
        }
        let model = Graph::from_document(document).expect("it is a graph");
        let place = by_module(rng, &layers, &homes);
        let plan = plan(&names, &place, &[("acc0", "acc"), ("acc1", "acc"), ("cpu0", "cpu")]);
        let Ok(found) = export("accelerate", &plan, Some(&model)) else { continue };
        written += 1;
        let map: BTreeMap<String, serde_json::Value> = serde_json::from_str(&found.text).expect("it is JSON");
        for parameter in model.parameters() {
            assert!(covers(&map, &parameter.name), "{} in {}", parameter.name, found.text);
            if map.contains_key(&parameter.name) {
                by_name += 1;
                assert!(found.notes.iter().any(|note| note.contains(&parameter.name)), "{:?}", found.notes);
                // The parameter is on the device of one of its readers.
                let device = &map[&parameter.name];
                let on = |reader: &String| {
                    let index = names.iter().position(|name| name == reader).expect("an operator");
                    let used: Vec<usize> = (0..2).filter(|device| place.contains(device)).collect();
                    match used.iter().position(|&used| used == place[index]) {
                        Some(number) => serde_json::json!(number),
                        None => serde_json::json!("cpu"),
                    }
                };
                assert!(parameter.readers.iter().any(|reader| on(reader) == *device), "{}", found.text);
            }
        }
        // No key is inside another, so the longest prefix is the only one.
        for key in map.keys() {
            let others: BTreeMap<_, _> = map.iter().filter(|(other, _)| *other != key).collect();
            let others = others.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            assert!(!covers(&others, key), "{key} in {}", found.text);
        }
        several += usize::from(map.len() > 1);
    }
    assert!(
        written > 100 && by_name > 50 && several > 100,
        "{written} written, {by_name} by name, {several}"
    );
}

/// A parameter that the given operators read.
pub(crate) fn parameter(name: &str, readers: &[String]) -> ParameterDocument {
    ParameterDocument {
        name: name.into(),
        bytes: 8.0,
        optimizer_bytes: 0.0,
        readers: readers.to_vec(),
        trained: false,
        together: false,
    }
}

/// A random graph of operators in nested modules, some of them in the backward pass. Also returns the module and the
/// forward operator of each operator.
fn modules(rng: &mut ChaCha8Rng) -> (Graph, Vec<String>, Vec<usize>) {
    let mut operators: Vec<OperatorDocument> = Vec::new();
    let mut layers: Vec<String> = Vec::new();
    let mut homes: Vec<usize> = Vec::new();
    for index in 0..rng.random_range(2..10) {
        let depth = rng.random_range(1..4);
        let module: Vec<&str> = (0..depth).map(|_| *["a", "b", "0"].choose(rng).expect("some")).collect();
        let module = module.join(".");
        let mut own = operator(&format!("op{index}"), Some(&module));
        own.parameter_bytes = f64::from(rng.random_range(0..2_u32));
        own.colocation = Some(format!("class{index}"));
        operators.push(own);
        layers.push(module);
        homes.push(index);
    }
    let forward = operators.len();
    for index in 0..forward {
        if rng.random_bool(0.3) {
            let mut own = of_pass(&format!("op{index}.grad"), Some(&layers[index]), Pass::Backward);
            own.colocation = Some(format!("class{index}"));
            operators.push(own);
            layers.push(layers[index].clone());
            homes.push(index);
        }
    }
    let names: Vec<String> = operators.iter().map(|operator| operator.name.clone()).collect();
    let edges: Vec<(&str, &str)> = (1..forward)
        .map(|index| (names[rng.random_range(0..index)].as_str(), names[index].as_str()))
        .collect();
    (graph(operators, &edges), layers, homes)
}

/// A random device for every operator: one per outer module, with a few exceptions. Backward operators share the device
/// of their forward operator.
fn by_module(rng: &mut ChaCha8Rng, layers: &[String], homes: &[usize]) -> Vec<usize> {
    let mut of_module: BTreeMap<String, usize> = BTreeMap::new();
    let depth = rng.random_range(1..4);
    let exceptions = *[0.0, 0.0, 0.2].choose(rng).expect("some");
    let mut place: Vec<usize> = Vec::new();
    for (layer, &home) in layers.iter().zip(homes) {
        let module: Vec<&str> = layer.split('.').take(depth).collect();
        let device = *of_module.entry(module.join(".")).or_insert_with(|| rng.random_range(0..3));
        place.push(match place.get(home) {
            Some(&forward) => forward,
            None if rng.random_bool(exceptions) => rng.random_range(0..3),
            None => device,
        });
    }
    place
}
