//! Typed indices, and vectors that only one type of index can access.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index with a type of its own, so that it cannot be mistaken for another.
pub trait Id: Copy + Eq + Ord + std::hash::Hash + std::fmt::Debug {
    /// Converts from an array index.
    ///
    /// # Panics
    /// In debug builds, if the index exceeds the range of `u32`.
    fn new(index: usize) -> Self;

    /// Converts to an array index.
    fn index(self) -> usize;

    /// The first `count` indices, from zero.
    fn first(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
        (0..count).map(Self::new)
    }
}

/// Declares index types: `id! { /// Index of a unit. pub UnitId; }`. Each wraps a `u32` and implements [`Id`]; the
/// methods of the trait can also be called where it is not imported.
#[macro_export]
macro_rules! id {
    ($($(#[$doc:meta])* $visibility:vis $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name(pub u32);

        #[allow(dead_code, reason = "not every index needs every conversion")]
        impl $name {
            /// Converts from an array index.
            #[inline]
            $visibility fn new(index: usize) -> Self {
                <Self as $crate::ids::Id>::new(index)
            }

            /// Converts to an array index.
            #[inline]
            $visibility fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl $crate::ids::Id for $name {
            #[inline]
            fn new(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok(), "index {index} exceeds 32 bits");
                $name(index as u32)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

/// A vector with one element for each index of a type.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyed<I, T> {
    items: Vec<T>,
    index: PhantomData<fn(I)>,
}

impl<I, T> Keyed<I, T> {
    /// An empty vector.
    pub const fn new() -> Self {
        Keyed { items: Vec::new(), index: PhantomData }
    }
}

impl<I: Id, T> Keyed<I, T> {
    /// A vector of `count` copies of an element.
    pub fn filled(item: T, count: usize) -> Self
    where
        T: Clone,
    {
        Keyed::from(vec![item; count])
    }

    /// The elements as a plain vector.
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }

    /// Appends an element and returns its index.
    pub fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.items.push(item);
        id
    }

    /// The index that the next element gets.
    pub fn next_id(&self) -> I {
        I::new(self.items.len())
    }

    /// The elements of a half-open range.
    #[inline]
    pub fn range(&self, [first, last]: [I; 2]) -> &[T] {
        &self.items[first.index()..last.index()]
    }

    /// The elements of a half-open range, mutably.
    pub fn range_mut(&mut self, [first, last]: [I; 2]) -> &mut [T] {
        &mut self.items[first.index()..last.index()]
    }

    /// The indices.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        I::first(self.items.len())
    }

    /// The elements with their indices.
    pub fn enumerate(&self) -> impl Iterator<Item = (I, &T)> {
        self.ids().zip(&self.items)
    }
}

impl<I, T: Clone> Clone for Keyed<I, T> {
    fn clone(&self) -> Self {
        self.items.clone().into()
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &Self) {
        self.items.clone_from(&from.items);
    }
}

impl<'a, I, T> IntoIterator for &'a Keyed<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<I, T> From<Vec<T>> for Keyed<I, T> {
    fn from(items: Vec<T>) -> Self {
        Keyed { items, index: PhantomData }
    }
}

impl<I, T> Default for Keyed<I, T> {
    fn default() -> Self {
        Keyed::new()
    }
}

impl<I, T> FromIterator<T> for Keyed<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I, T> std::ops::Deref for Keyed<I, T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<I, T> std::ops::DerefMut for Keyed<I, T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<I: Id, T> Index<I> for Keyed<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Keyed<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// The position of every item in an order of all items.
pub fn places<I: Id, P: Id>(order: &[I]) -> Keyed<I, P> {
    let mut places = Keyed::filled(P::new(0), order.len());
    for (place, &item) in P::first(order.len()).zip(order) {
        places[item] = place;
    }
    places
}

/// Indices of a local numbering, which needs no type of its own.
impl Id for u32 {
    #[inline]
    fn new(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "index {index} exceeds 32 bits");
        index as u32
    }

    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

impl Id for usize {
    #[inline]
    fn new(index: usize) -> Self {
        index
    }

    #[inline]
    fn index(self) -> usize {
        self
    }
}
