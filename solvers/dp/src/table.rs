//! Ideals reached with one usage of devices: sets of any width in one array, found by hash.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// How a state was reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Usage of the state before.
    pub(crate) usage: u32,
    /// Index of the state before in that usage's table.
    pub(crate) state: u32,
    /// Pool of the stage between.
    pub(crate) pool: u16,
    /// Its replicas.
    pub(crate) replicas: u16,
}

/// The states of one usage.
#[derive(Default)]
pub(crate) struct Table {
    words: usize,
    sets: Vec<u64>,
    values: Vec<f64>,
    steps: Vec<Step>,
    index: HashTable<u32>,
}

/// Hash of a set.
pub(crate) fn hash(set: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    for &word in set {
        hasher.write_u64(word);
    }
    hasher.finish()
}

impl Table {
    pub(crate) fn new(words: usize) -> Table {
        Table { words, ..Table::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn set(&self, state: usize) -> &[u64] {
        &self.sets[state * self.words..(state + 1) * self.words]
    }

    pub(crate) fn value(&self, state: usize) -> f64 {
        self.values[state]
    }

    pub(crate) fn step(&self, state: usize) -> Step {
        self.steps[state]
    }

    /// The value with which a set was reached, if it was.
    pub(crate) fn value_of(&self, set: &[u64], hash: u64) -> Option<f64> {
        self.index.find(hash, |&state| self.set(state as usize) == set).map(|&state| self.values[state as usize])
    }

    /// Adds a set, or lowers its value; what was there first wins a tie.
    pub(crate) fn improve(&mut self, set: &[u64], hash: u64, value: f64, step: Step) {
        let Table { words, sets, values, steps, index } = self;
        let at = |state: u32| &sets[state as usize * *words..(state as usize + 1) * *words];
        if let Some(&state) = index.find(hash, |&state| at(state) == set) {
            if value < values[state as usize] {
                values[state as usize] = value;
                steps[state as usize] = step;
            }
            return;
        }
        let state = values.len() as u32;
        index.insert_unique(hash, state, |&state| self::hash(at(state)));
        sets.extend_from_slice(set);
        values.push(value);
        steps.push(step);
    }

    /// Bytes in use, spare capacity included.
    pub(crate) fn bytes(&self) -> u64 {
        let per = |count: usize, size: usize| (count * size) as u64;
        per(self.sets.capacity(), 8)
            + per(self.values.capacity(), 8)
            + per(self.steps.capacity(), size_of::<Step>())
            + per(self.index.capacity(), 5)
    }

    /// Drops the hash index, which a table needs no more once every state that can reach it has been expanded.
    pub(crate) fn seal(&mut self) {
        self.index = HashTable::new();
        self.sets.shrink_to_fit();
        self.values.shrink_to_fit();
        self.steps.shrink_to_fit();
    }
}
