//! The rule of `--fit`, as `common/fit.cpp` of llama.cpp 0c1e57098 has it.
//!
//! A gibibyte stays free on every device. If the default leaves that much, it is the answer. Else dense layers, or layers
//! without their experts, fill the devices from the last to the first; what fits nowhere stays on the host. If all layers of a
//! model with experts fit in this way, they get their experts from the first device on, at whose end part of one more layer may
//! overflow to the next device or to the host. RAM is not looked at, and neither is speed.
//!
//! Numbers of layers are found by false position over the memory that the tool itself measures; here [`Memory::of`] says it.
//! A given context is never reduced. Layers that predict further tokens take slots and are not counted by `--fit`, so that the
//! first layer of such a model stays on the host and its overrides are those of earlier layers; this is followed.

use stagewright_formats::Result;
use stagewright_llamacpp::memory::Memory;
use stagewright_llamacpp::setting::Pattern;
use stagewright_llamacpp::{DeviceId, Location, Override, Setting, place};

use crate::question::Question;

/// Bytes that stay free on every device.
const FREE: i64 = 1 << 30;

/// Part of the feed-forward block of a layer that stays on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Nothing.
    Attention,
    /// The projection up.
    Up,
    /// The projection up and the gate.
    Gate,
    /// Everything but routed experts.
    Dense,
}

impl Kept {
    /// The names of what overflows, below the block.
    fn overflow(self) -> &'static str {
        match self {
            Kept::Attention => r"ffn_(gate|up|gate_up|down).*",
            Kept::Up => r"ffn_(gate|gate_up|down).*",
            Kept::Gate => r"ffn_down.*",
            Kept::Dense => r"ffn_(up|down|gate_up|gate)_(ch|)exps",
        }
    }
}

/// Slots of a device.
#[derive(Debug, Clone, Copy)]
struct Part {
    slots: i64,
    /// Number of the last slots that keep only a part.
    partial: i64,
    /// Part that stays of the first partial slot; the others lose routed experts alone.
    first: Kept,
    /// Where the rest of the first of the partial ones is.
    target: Location,
}

impl Part {
    const EMPTY: Part = Part { slots: 0, partial: 0, first: Kept::Dense, target: Location::Host };

    fn full(&self) -> i64 {
        self.slots - self.partial
    }
}

/// A division with the bytes that it takes on each device.
#[derive(Debug, Clone)]
struct State {
    parts: Vec<Part>,
    bytes: Vec<i64>,
    /// First device of those at the end that have partial layers still.
    dense: usize,
}

struct Fit<'a> {
    label: &'a str,
    question: &'a Question<'a>,
    setting: Setting,
    /// Layers that are counted.
    layers: i64,
    has_experts: bool,
    /// Bytes that each device may take.
    targets: Vec<i64>,
}

/// The setting of `--fit` from the default; `None` if it gives up.
///
/// # Errors
/// If the memory of the model is not followed (L007, L009).
pub(crate) fn fit(label: &str, question: &Question<'_>, setting: Setting) -> Result<Option<Setting>> {
    let layers = &question.structure.layers;
    let free = |device: &stagewright_llamacpp::Device| {
        i64::try_from(device.memory.saturating_sub(device.context_bytes())).unwrap_or(i64::MAX) - FREE
    };
    let fit = Fit {
        label,
        question,
        layers: layers.iter().filter(|layer| !layer.is_prediction).count() as i64,
        has_experts: layers.iter().any(|layer| layer.mixture.is_some()),
        targets: setting.devices.iter().map(free).collect(),
        setting,
    };
    if fit.targets.is_empty() {
        let memory =
            Memory::of(label, question.structure, &fit.setting, &place(question.structure, &fit.setting))?;
        let is_enough = memory.host.total().saturating_add(FREE as u64) <= question.host.memory;
        return Ok(is_enough.then_some(fit.setting));
    }
    let is_within = |bytes: &[i64]| bytes.iter().zip(&fit.targets).all(|(bytes, target)| bytes <= target);
    if is_within(&fit.bytes(&fit.setting)?) {
        return Ok(Some(fit.setting));
    }
    let without = Setting { overrides: vec![Override::AllExperts], ..fit.setting.clone() };
    let sum = |values: &[i64]| values.iter().copied().fold(0, i64::saturating_add);
    let taken = sum(&fit.bytes(&without)?);
    let mut state = fit.dense()?;
    if fit.has_experts && taken < sum(&fit.targets) {
        fit.experts(&mut state)?;
    }
    Ok(Some(fit.setting(&state.parts)))
}

impl Fit<'_> {
    /// Bytes of each device beside its context.
    fn bytes(&self, setting: &Setting) -> Result<Vec<i64>> {
        let structure = self.question.structure;
        let memory = Memory::of(self.label, structure, setting, &place(structure, setting))?;
        let bytes = memory.devices.iter().map(|bytes| bytes.total() - bytes.context);
        Ok(bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)).collect())
    }

    fn measured(&self, parts: Vec<Part>, dense: usize) -> Result<State> {
        Ok(State { bytes: self.bytes(&self.setting(&parts))?, parts, dense })
    }

    /// The options of a division.
    fn setting(&self, parts: &[Part]) -> Setting {
        let slots: i64 = parts.iter().map(|part| part.slots).sum();
        let mut first = self.layers + 1 - slots;
        let mut overrides = Vec::new();
        for part in parts {
            first += part.full();
            for layer in first..first + part.partial {
                let is_first = layer == first;
                let kept = if is_first { part.first } else { Kept::Dense };
                let target = if is_first { part.target } else { Location::Host };
                let pattern = Pattern::new(&format!(r"blk\.{layer}\.{}", kept.overflow()));
                overrides.push(Override::Tensors { pattern: pattern.expect("names form a pattern"), target });
            }
            first += part.partial;
        }
        let shares =
            if parts.len() > 1 { parts.iter().map(|part| part.slots as f32).collect() } else { Vec::new() };
        Setting { layers: Some(slots.unsigned_abs()), shares, overrides, ..self.setting.clone() }
    }

    /// How far to go between a division that fits and one that does not, which differ by more than a layer.
    fn step(&self, id: usize, low: &State, high: &State, difference: i64) -> i64 {
        let (room, rise) = (self.targets[id] - low.bytes[id], high.bytes[id] - low.bytes[id]);
        // A negative quotient is a very large number to llama.cpp.
        match difference.saturating_mul(room).checked_div(rise) {
            Some(step) if step < 0 => difference - 1,
            step => step.unwrap_or(1).clamp(1, difference - 1),
        }
    }

    /// Layers without their experts, from the last device to the first.
    fn dense(&self) -> Result<State> {
        let count = self.targets.len();
        let mut low = self.measured(vec![Part::EMPTY; count], 0)?;
        for id in (0..count).rev() {
            let with = |parts: &[Part], slots: i64, partial: i64| {
                let mut parts = parts.to_vec();
                parts[id] = Part { slots, partial: if self.has_experts { partial } else { 0 }, ..parts[id] };
                parts
            };
            // The last slot is the output, which is never partial.
            let output = i64::from(id == count - 1);
            let given: i64 = low.parts[id + 1..].iter().map(|part| part.slots).sum();
            let left = self.layers + 1 - given;
            if left == 0 {
                continue;
            }
            let mut high = self.measured(with(&low.parts, left, left - output), 0)?;
            if high.bytes[id] <= self.targets[id] {
                low = high;
                continue;
            }
            loop {
                let difference = high.parts[id].slots - low.parts[id].slots;
                if difference <= 1 {
                    break;
                }
                let (step, before) = (self.step(id, &low, &high, difference), low.parts[id]);
                // A first step of the output alone is followed by one that leaves another layer whole.
                let partial = before.partial + step - if before.partial == 0 { output } else { 0 };
                let test = self.measured(with(&low.parts, before.slots + step, partial), 0)?;
                if test.bytes[id] <= self.targets[id] { low = test } else { high = test }
            }
        }
        let filled = low.parts.iter().rev().take_while(|part| part.slots > 0).count();
        low.dense = count - filled;
        Ok(low)
    }

    /// Layers with their experts, from the first device on.
    fn experts(&self, low: &mut State) -> Result<()> {
        let count = self.targets.len();
        let mut id = 0;
        // Nothing is left to convert once the last device has given its output away.
        while id <= low.dense && low.dense < count && low.parts[count - 1].slots > 0 {
            self.fill(low, id)?;
            self.overflow(low, id)?;
            id += 1;
        }
        Ok(())
    }

    /// As many whole layers on a device as it takes, from those that are partial.
    fn fill(&self, low: &mut State, id: usize) -> Result<()> {
        let last = self.targets.len() - 1;
        let mut parts = low.parts.clone();
        for other in low.dense..=last {
            let moved = parts[other].slots - i64::from(other == last);
            parts[id].slots += moved;
            parts[other].slots -= moved;
            parts[other].partial = 0;
        }
        let mut high = self.measured(parts, last)?;
        if high.bytes[id] <= self.targets[id] {
            *low = high;
            return Ok(());
        }
        loop {
            let difference = high.parts[id].full() - low.parts[id].full();
            if difference <= 1 {
                return Ok(());
            }
            let mut left = self.step(id, low, &high, difference);
            let (mut parts, mut dense) = (low.parts.clone(), low.dense);
            while dense <= last {
                let moved = left.min(parts[dense].partial);
                parts[dense].slots -= moved;
                parts[dense].partial -= moved;
                parts[id].slots += moved;
                left -= moved;
                if parts[dense].partial > 0 {
                    break;
                }
                dense += 1;
            }
            let test = self.measured(parts, dense)?;
            if test.bytes[id] <= self.targets[id] { *low = test } else { high = test }
        }
    }

    /// A part of one more layer on a device, the rest on the next one or on the host.
    fn overflow(&self, low: &mut State, id: usize) -> Result<()> {
        let last = self.targets.len() - 1;
        let Some(giver) = low.parts.get(low.dense).filter(|part| part.slots > i64::from(id == last)) else {
            return Ok(());
        };
        let (mut parts, mut dense) = (low.parts.clone(), low.dense);
        let target = if id < last { Location::Device(DeviceId::new(id + 1)) } else { Location::Host };
        match (dense == id, giver.partial) {
            (true, 0) => return Ok(()),
            (true, _) => {}
            (false, partial) => {
                parts[dense].slots -= 1;
                // Without partial layers it is the output that moves.
                parts[dense].partial = (partial - 1).max(0);
                parts[id].slots += 1;
                parts[id].partial += 1;
                dense += usize::from(partial == 1);
            }
        }
        parts[id].target = target;
        let is_within = |state: &State| {
            let is_below = |device: usize| state.bytes[device] < self.targets[device];
            is_below(id) && (id == last || is_below(id + 1))
        };
        let keeping = |kept: Kept| {
            let mut parts = parts.clone();
            parts[id].first = kept;
            self.measured(parts, dense)
        };
        let up = keeping(Kept::Up)?;
        let next = keeping(if is_within(&up) { Kept::Gate } else { Kept::Attention })?;
        if is_within(&next) {
            *low = next;
        } else if is_within(&up) {
            *low = up;
        }
        Ok(())
    }
}
