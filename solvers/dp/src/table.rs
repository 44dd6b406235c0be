//! Ideals reached so far: sets of any width in one array, looked up by hash, each with its entries.
//!
//! An *entry* is a usage of devices with which an ideal was reached, the least bottleneck for it, and the parent
//! entry. Grouping entries by ideal allows its supersets to be generated once for all of them, and an entry to be
//! dropped if another reached the ideal with fewer devices at no greater value.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use stagewright_search::usage::UsageSpace;

use crate::uplink::{Label, Labels};

const NONE: u32 = u32::MAX;
/// Maximum number of entries of one ideal that are compared with each other.
const MAX_COMPARED: usize = 256;
/// Number of usages up to which the entries of an ideal are searched linearly.
const FEW_USAGES: usize = 64;

/// One way to reach an ideal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) value: f64,
    pub(crate) usage: u32,
    pub(crate) ideal: u32,
    /// The entry before the last stage.
    pub(crate) parent: u32,
    /// Next entry of the same ideal.
    next: u32,
    /// Pool of the last stage.
    pub(crate) pool: u16,
    /// Replicas of the last stage.
    pub(crate) replicas: u32,
}

/// Data of a new entry.
#[derive(Clone, Copy)]
pub(crate) struct New {
    pub(crate) usage: u32,
    pub(crate) value: f64,
    pub(crate) parent: u32,
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
}

/// An entry that is worth expanding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alive {
    pub(crate) entry: u32,
    pub(crate) usage: usize,
    pub(crate) value: f64,
}

/// All ideals with their entries.
pub(crate) struct Table {
    words: usize,
    sets: Vec<u64>,
    first: Vec<u32>,
    entries: Vec<Entry>,
    /// Ideals by number of units.
    levels: Vec<Vec<u32>>,
    index: Index,
    /// Label of each entry, if uplinks are modelled.
    labels: Option<Labels>,
    /// Entries by ideal and usage, if an ideal can have many and there are no labels to distinguish them.
    by_usage: Option<HashTable<u32>>,
}

/// Index of ideals by *key*: the hash of the set, or its index in a catalogue.
enum Index {
    Hashed(HashTable<u32>),
    Listed(Vec<u32>),
}

/// Hash of a set.
pub(crate) fn hash(set: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    for &word in set {
        hasher.write_u64(word);
    }
    hasher.finish()
}

fn hash_pair(ideal: u32, usage: u32) -> u64 {
    hash(&[u64::from(ideal) << 32 | u64::from(usage)])
}

impl Table {
    /// A table for sets of `len` units that holds the empty set, reached without devices. Keys are hashes, or indices
    /// below `listed`. `labels` holds the label of the empty set, if uplinks are modelled.
    pub(crate) fn new(
        len: usize,
        words: usize,
        listed: Option<usize>,
        usages: usize,
        labels: Option<Labels>,
    ) -> Table {
        let nothing = vec![0; words];
        let key = listed.map_or_else(|| hash(&nothing), |count| count as u64);
        let mut table = Table {
            words,
            sets: Vec::new(),
            first: Vec::new(),
            entries: Vec::new(),
            levels: vec![Vec::new(); len + 1],
            index: match listed {
                None => Index::Hashed(HashTable::new()),
                // The empty set follows the listed ones.
                Some(count) => Index::Listed(vec![NONE; count + 1]),
            },
            by_usage: (usages > FEW_USAGES && labels.is_none()).then(HashTable::new),
            labels,
        };
        let ideal = table.ideal(&nothing, key);
        table.append(ideal, New { usage: 0, value: 0.0, parent: NONE, pool: 0, replicas: 0 });
        table
    }

    /// Number of ideals.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Ideals with `size` units, in the order in which they were found.
    pub(crate) fn level(&self, size: usize) -> &[u32] {
        &self.levels[size]
    }

    pub(crate) fn set(&self, ideal: u32) -> &[u64] {
        &self.sets[ideal as usize * self.words..(ideal as usize + 1) * self.words]
    }

    pub(crate) fn entry(&self, entry: u32) -> Entry {
        self.entries[entry as usize]
    }

    fn entries_of(&self, ideal: u32) -> impl Iterator<Item = (u32, &Entry)> {
        let mut next = self.first[ideal as usize];
        std::iter::from_fn(move || {
            let at = next;
            let entry = self.entries.get(at as usize)?;
            next = entry.next;
            Some((at, entry))
        })
    }

    #[inline]
    pub(crate) fn find(&self, set: &[u64], key: u64) -> Option<u32> {
        match &self.index {
            Index::Hashed(index) => index.find(key, |&ideal| self.set(ideal) == set).copied(),
            Index::Listed(index) => Some(index[key as usize]).filter(|&ideal| ideal != NONE),
        }
    }

    /// Value with which an ideal was reached with a usage; `None` if it was not.
    pub(crate) fn value(&self, ideal: u32, usage: usize) -> Option<f64> {
        self.entry_of(ideal, usage as u32).map(|at| self.entries[at as usize].value)
    }

    /// Entry of an ideal with a usage; the first if labels distinguish several.
    fn entry_of(&self, ideal: u32, usage: u32) -> Option<u32> {
        match &self.by_usage {
            Some(index) => index.find(hash_pair(ideal, usage), |&at| self.is_of(at, ideal, usage)).copied(),
            None => self.entries_of(ideal).find(|(_, entry)| entry.usage == usage).map(|(at, _)| at),
        }
    }

    fn is_of(&self, at: u32, ideal: u32, usage: u32) -> bool {
        let entry = &self.entries[at as usize];
        entry.ideal == ideal && entry.usage == usage
    }

    /// Collects the entries of an ideal below a cap that no other entry dominates; all below the cap if there are
    /// more than [`MAX_COMPARED`].
    pub(crate) fn alive(&self, ideal: u32, cap: f64, space: &UsageSpace, alive: &mut Vec<Alive>) {
        let below = self.entries_of(ideal).filter(|(_, entry)| entry.value < cap);
        alive.clear();
        alive.extend(below.map(|(at, entry)| Alive {
            entry: at,
            usage: entry.usage as usize,
            value: entry.value,
        }));
        if alive.len() <= MAX_COMPARED {
            let all = alive.clone();
            alive.retain(|entry| {
                !all.iter().any(|other| {
                    other.entry != entry.entry
                        && other.value <= entry.value
                        && space.within(other.usage, entry.usage)
                        && match (self.label(other.entry), self.label(entry.entry)) {
                            (Some(other), Some(label)) => other.dominates(label),
                            _ => true,
                        }
                })
            });
        }
    }

    /// Returns the index of a set, adding it if new.
    pub(crate) fn ideal(&mut self, set: &[u64], key: u64) -> u32 {
        if let Some(ideal) = self.find(set, key) {
            return ideal;
        }
        let Table { words, sets, first, levels, index, .. } = self;
        let ideal = first.len() as u32;
        let at = |ideal: u32| &sets[ideal as usize * *words..(ideal as usize + 1) * *words];
        match index {
            Index::Hashed(index) => {
                index.insert_unique(key, ideal, |&ideal| hash(at(ideal)));
            }
            Index::Listed(index) => index[key as usize] = ideal,
        }
        sets.extend_from_slice(set);
        first.push(NONE);
        let size: u32 = set.iter().map(|word| word.count_ones()).sum();
        levels[size as usize].push(ideal);
        ideal
    }

    /// Lowers the value of an ideal with a usage; ties go to the first.
    pub(crate) fn improve(&mut self, ideal: u32, new: New) {
        if let Some(at) = self.entry_of(ideal, new.usage) {
            let entry = &mut self.entries[at as usize];
            if new.value < entry.value {
                let New { value, parent, pool, replicas, .. } = new;
                *entry = Entry { value, parent, pool, replicas, ..*entry };
            }
            return;
        }
        self.append(ideal, new);
    }

    /// Adds an entry with a label, unless an entry of equal usage dominates it.
    pub(crate) fn improve_labelled(&mut self, ideal: u32, new: New, label: Label<'_>) {
        if !self.dominated(ideal, new.usage, new.value, label)
            && let Some(labels) = &mut self.labels
        {
            labels.push(label);
            self.append(ideal, new);
        }
    }

    /// Whether an entry of equal usage has no greater value and a label that dominates `label`.
    pub(crate) fn dominated(&self, ideal: u32, usage: u32, value: f64, label: Label<'_>) -> bool {
        self.entries_of(ideal).any(|(at, entry)| {
            entry.usage == usage
                && entry.value <= value
                && self.label(at).is_some_and(|other| other.dominates(label))
        })
    }

    /// Label of an entry, if uplinks are modelled.
    pub(crate) fn label(&self, entry: u32) -> Option<Label<'_>> {
        self.labels.as_ref().map(|labels| labels.get(entry as usize))
    }

    fn append(&mut self, ideal: u32, new: New) {
        let New { usage, value, parent, pool, replicas } = new;
        let at = self.entries.len() as u32;
        let next = std::mem::replace(&mut self.first[ideal as usize], at);
        self.entries.push(Entry { value, usage, ideal, parent, next, pool, replicas });
        let entries = &self.entries;
        if let Some(index) = &mut self.by_usage {
            let hash = |&at: &u32| hash_pair(entries[at as usize].ideal, entries[at as usize].usage);
            index.insert_unique(hash_pair(ideal, usage), at, hash);
        }
    }

    /// Bytes in use, spare capacity included.
    pub(crate) fn bytes(&self) -> u64 {
        let per = |count: usize, size: usize| (count * size) as u64;
        per(self.sets.capacity(), 8)
            + per(self.first.capacity(), 2 * 4)
            + per(self.entries.capacity(), size_of::<Entry>())
            + match &self.index {
                Index::Hashed(index) => per(index.capacity(), 5),
                Index::Listed(index) => per(index.len(), 4),
            }
            + self.labels.as_ref().map_or(0, Labels::bytes)
            + self.by_usage.as_ref().map_or(0, |index| per(index.capacity(), 5))
    }

    /// Whether indices suffice for `entries` more entries whose labels have `spreads` spreads in total.
    pub(crate) fn has_room_for(&self, entries: usize, spreads: usize) -> bool {
        let used = self.labels.as_ref().map_or(0, Labels::spreads);
        let fits = |used: usize, more: usize| used.saturating_add(more) < NONE as usize;
        fits(self.entries.len(), entries) && fits(used, spreads)
    }
}
