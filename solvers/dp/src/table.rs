//! Ideals reached so far: sets of any width in one array, looked up by hash, each with its entries.
//!
//! An *entry* is a usage of devices with which an ideal was reached, the least bottleneck for it, and the parent
//! entry. Grouping entries by ideal allows its supersets to be generated once for all of them, and an entry to be
//! dropped if another reached the ideal with fewer devices at no greater value.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use stagewright_core::ids::Keyed;
use stagewright_search::usage::UsageSpace;

use crate::uplink::{Label, Labels};

const NONE: EntryId = EntryId(u32::MAX);
const UNREACHED: IdealId = IdealId(u32::MAX);
/// Maximum number of entries of one ideal that are compared with each other.
const MAX_COMPARED: usize = 256;
/// Number of usages up to which the entries of an ideal are searched linearly.
const FEW_USAGES: usize = 64;

stagewright_core::id! {
    /// Index of an ideal that was reached.
    pub(crate) IdealId;
    /// Index of an entry.
    pub(crate) EntryId;
}

/// One way to reach an ideal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) value: f64,
    pub(crate) usage: u32,
    pub(crate) ideal: IdealId,
    /// The entry before the last stage.
    pub(crate) parent: EntryId,
    /// Next entry of the same ideal.
    next: EntryId,
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
    pub(crate) parent: EntryId,
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
}

/// An entry that is worth expanding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alive {
    pub(crate) entry: EntryId,
    pub(crate) usage: usize,
    pub(crate) value: f64,
}

/// All ideals with their entries.
pub(crate) struct Table {
    words: usize,
    sets: Vec<u64>,
    first: Keyed<IdealId, EntryId>,
    entries: Keyed<EntryId, Entry>,
    /// Ideals by number of units.
    levels: Vec<Vec<IdealId>>,
    index: Index,
    /// Label of each entry, if uplinks are modelled.
    labels: Option<Labels>,
    /// Entries by ideal and usage, if an ideal can have many and there are no labels to distinguish them.
    by_usage: Option<HashTable<EntryId>>,
}

/// Index of ideals by *key*: the hash of the set, or its index in a catalogue.
enum Index {
    Hashed(HashTable<IdealId>),
    Listed(Vec<IdealId>),
}

/// Hash of a set.
pub(crate) fn hash(set: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    for &word in set {
        hasher.write_u64(word);
    }
    hasher.finish()
}

fn hash_pair(ideal: IdealId, usage: u32) -> u64 {
    hash(&[u64::from(ideal.0) << 32 | u64::from(usage)])
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
            first: Keyed::default(),
            entries: Keyed::default(),
            levels: vec![Vec::new(); len + 1],
            index: match listed {
                None => Index::Hashed(HashTable::new()),
                // The index of the empty set follows those of the listed ideals.
                Some(count) => Index::Listed(vec![UNREACHED; count + 1]),
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
    pub(crate) fn level(&self, size: usize) -> &[IdealId] {
        &self.levels[size]
    }

    pub(crate) fn set(&self, ideal: IdealId) -> &[u64] {
        &self.sets[ideal.index() * self.words..(ideal.index() + 1) * self.words]
    }

    pub(crate) fn entry(&self, entry: EntryId) -> Entry {
        self.entries[entry]
    }

    fn entries_of(&self, ideal: IdealId) -> impl Iterator<Item = (EntryId, &Entry)> {
        let mut next = self.first[ideal];
        std::iter::from_fn(move || {
            let id = next;
            let entry = self.entries.get(id.index())?;
            next = entry.next;
            Some((id, entry))
        })
    }

    #[inline]
    pub(crate) fn find(&self, set: &[u64], key: u64) -> Option<IdealId> {
        match &self.index {
            Index::Hashed(index) => index.find(key, |&ideal| self.set(ideal) == set).copied(),
            Index::Listed(index) => Some(index[key as usize]).filter(|&ideal| ideal != UNREACHED),
        }
    }

    /// The least value at which an ideal was reached with a usage; `None` if it was not.
    pub(crate) fn value(&self, ideal: IdealId, usage: u32) -> Option<f64> {
        self.entry_of(ideal, usage).map(|id| self.entries[id].value)
    }

    /// Entry of an ideal with a usage; the first one if labels distinguish several entries.
    fn entry_of(&self, ideal: IdealId, usage: u32) -> Option<EntryId> {
        match &self.by_usage {
            Some(index) => index.find(hash_pair(ideal, usage), |&id| self.is_of(id, ideal, usage)).copied(),
            None => self.entries_of(ideal).find(|(_, entry)| entry.usage == usage).map(|(id, _)| id),
        }
    }

    fn is_of(&self, id: EntryId, ideal: IdealId, usage: u32) -> bool {
        let entry = &self.entries[id];
        entry.ideal == ideal && entry.usage == usage
    }

    /// Collects the entries of an ideal below a cap that no other entry dominates, or all entries below the cap if
    /// there are more than [`MAX_COMPARED`].
    pub(crate) fn alive(&self, ideal: IdealId, cap: f64, space: &UsageSpace, alive: &mut Vec<Alive>) {
        let below = self.entries_of(ideal).filter(|(_, entry)| entry.value < cap);
        alive.clear();
        alive.extend(below.map(|(id, entry)| Alive {
            entry: id,
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
    pub(crate) fn ideal(&mut self, set: &[u64], key: u64) -> IdealId {
        if let Some(ideal) = self.find(set, key) {
            return ideal;
        }
        let Table { words, sets, first, levels, index, .. } = self;
        let ideal = first.push(NONE);
        let set_of = |ideal: IdealId| &sets[ideal.index() * *words..(ideal.index() + 1) * *words];
        match index {
            Index::Hashed(index) => {
                index.insert_unique(key, ideal, |&ideal| hash(set_of(ideal)));
            }
            Index::Listed(index) => index[key as usize] = ideal,
        }
        sets.extend_from_slice(set);
        let size: u32 = set.iter().map(|word| word.count_ones()).sum();
        levels[size as usize].push(ideal);
        ideal
    }

    /// Lowers the value at which an ideal is reached with a usage. On a tie, the earlier entry is kept.
    pub(crate) fn improve(&mut self, ideal: IdealId, new: New) {
        if let Some(id) = self.entry_of(ideal, new.usage) {
            let entry = &mut self.entries[id];
            if new.value < entry.value {
                let New { value, parent, pool, replicas, .. } = new;
                *entry = Entry { value, parent, pool, replicas, ..*entry };
            }
            return;
        }
        self.append(ideal, new);
    }

    /// Adds an entry with a label, unless an entry of equal usage dominates it.
    pub(crate) fn improve_labelled(&mut self, ideal: IdealId, new: New, label: Label<'_>) {
        if !self.dominated(ideal, new.usage, new.value, label)
            && let Some(labels) = &mut self.labels
        {
            labels.push(label);
            self.append(ideal, new);
        }
    }

    /// Whether an entry of equal usage has no greater value and a label that dominates `label`.
    pub(crate) fn dominated(&self, ideal: IdealId, usage: u32, value: f64, label: Label<'_>) -> bool {
        self.entries_of(ideal).any(|(id, entry)| {
            entry.usage == usage
                && entry.value <= value
                && self.label(id).is_some_and(|other| other.dominates(label))
        })
    }

    /// Label of an entry, if uplinks are modelled.
    pub(crate) fn label(&self, entry: EntryId) -> Option<Label<'_>> {
        self.labels.as_ref().map(|labels| labels.get(entry.index()))
    }

    fn append(&mut self, ideal: IdealId, new: New) {
        let New { usage, value, parent, pool, replicas } = new;
        let next = self.first[ideal];
        let id = self.entries.push(Entry { value, usage, ideal, parent, next, pool, replicas });
        self.first[ideal] = id;
        let entries = &self.entries;
        if let Some(index) = &mut self.by_usage {
            let hash = |&id: &EntryId| hash_pair(entries[id].ideal, entries[id].usage);
            index.insert_unique(hash_pair(ideal, usage), id, hash);
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

    /// Whether the index types have room for `entries` more entries whose labels have `spreads` spreads in total.
    pub(crate) fn has_room_for(&self, entries: usize, spreads: usize) -> bool {
        let used = self.labels.as_ref().map_or(0, Labels::spreads);
        let fits = |used: usize, more: usize| used.saturating_add(more) < NONE.index();
        fits(self.entries.len(), entries) && fits(used, spreads)
    }
}
