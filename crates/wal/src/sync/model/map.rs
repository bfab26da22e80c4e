//! The hash map that loom explores: the part of dashmap that the catalog uses, over one lock.
//!
//! One lock orders operations on different keys, and dashmap does not: the catalog must not rely on
//! that. A looked-up value stays locked for as long as it is held, as in dashmap.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use super::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A map shared by threads; see the production type.
#[derive(Debug)]
pub struct Map<K, V>(RwLock<BTreeMap<K, V>>);

/// One entry, locked for reading.
#[derive(Debug)]
pub struct Ref<'a, K, V> {
    map: RwLockReadGuard<'a, BTreeMap<K, V>>,
    key: K,
}

/// One entry, locked for changing.
#[derive(Debug)]
pub struct RefMut<'a, K, V> {
    map: RwLockWriteGuard<'a, BTreeMap<K, V>>,
    key: K,
}

/// The place of a key, locked for changing.
#[derive(Debug)]
pub enum Entry<'a, K, V> {
    /// There is a value.
    Occupied(RefMut<'a, K, V>),
    /// There is none.
    Vacant(RefMut<'a, K, V>),
}

impl<K: Ord + Clone, V> Map<K, V> {
    /// The value of a key, locked.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<Ref<'_, K, V>>
    where
        K: std::borrow::Borrow<Q>,
    {
        let map = self.0.read();
        let key = map.get_key_value(key)?.0.clone();
        Some(Ref { map, key })
    }

    /// True if there is a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.read().contains_key(key)
    }

    /// Sets a value; returns the one before.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        self.0.write().insert(key, value)
    }

    /// Removes a value and returns it.
    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(K, V)>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.write().remove_entry(key)
    }

    /// Removes a value and returns it if `condition` holds for it.
    pub fn remove_if<Q: Ord + ?Sized>(
        &self,
        key: &Q,
        condition: impl FnOnce(&K, &V) -> bool,
    ) -> Option<(K, V)>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.remove_if_mut(key, |key, value| condition(key, value))
    }

    /// Changes a value, and removes it if `condition` returns true.
    pub fn remove_if_mut<Q: Ord + ?Sized>(
        &self,
        key: &Q,
        condition: impl FnOnce(&K, &mut V) -> bool,
    ) -> Option<(K, V)>
    where
        K: std::borrow::Borrow<Q>,
    {
        let mut map = self.0.write();
        let own = map.get_key_value(key)?.0.clone();
        if condition(&own, map.get_mut(key)?) {
            map.remove_entry(key)
        } else {
            None
        }
    }

    /// The place of a key, locked.
    pub fn entry(&self, key: K) -> Entry<'_, K, V> {
        let map = self.0.write();
        if map.contains_key(&key) {
            Entry::Occupied(RefMut { map, key })
        } else {
            Entry::Vacant(RefMut { map, key })
        }
    }

    /// Every entry, each as it is when it is reached.
    pub fn iter(&self) -> impl Iterator<Item = Ref<'_, K, V>> {
        let keys: Vec<K> = self.0.read().keys().cloned().collect();
        keys.into_iter().filter_map(|key| self.get(&key))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.read().len()
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, K: Ord + Clone, V> IntoIterator for &'a Map<K, V> {
    type Item = Ref<'a, K, V>;
    type IntoIter = Box<dyn Iterator<Item = Ref<'a, K, V>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<K: Ord, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }
}

#[expect(
    clippy::missing_panics_doc,
    reason = "the entry stays while it is locked"
)]
impl<K: Ord, V> Ref<'_, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        self.map.get_key_value(&self.key).expect("is locked").0
    }

    /// The value.
    pub fn value(&self) -> &V {
        &self.map[&self.key]
    }
}

impl<K: Ord, V> Deref for Ref<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.value()
    }
}

impl<'a, K: Ord + Clone, V> Entry<'a, K, V> {
    /// The value; `value` if there is none.
    pub fn or_insert(self, value: V) -> RefMut<'a, K, V> {
        self.or_insert_with(|| value)
    }

    /// The value; the default if there is none.
    pub fn or_default(self) -> RefMut<'a, K, V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// The value; the result of `value` if there is none.
    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> RefMut<'a, K, V> {
        match self {
            Self::Occupied(place) => place,
            Self::Vacant(place) => place.insert(value()),
        }
    }
}

#[expect(
    clippy::missing_panics_doc,
    reason = "the entry stays while it is locked"
)]
impl<K: Ord + Clone, V> RefMut<'_, K, V> {
    /// Sets the value.
    #[expect(clippy::return_self_not_must_use, reason = "as in dashmap")]
    pub fn insert(mut self, value: V) -> Self {
        self.map.insert(self.key.clone(), value);
        self
    }

    /// The value.
    pub fn value(&self) -> &V {
        &self.map[&self.key]
    }

    /// The value, for changing it.
    pub fn get_mut(&mut self) -> &mut V {
        self.map.get_mut(&self.key).expect("is locked")
    }
}

impl<K: Ord + Clone, V> Deref for RefMut<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.value()
    }
}

impl<K: Ord + Clone, V> DerefMut for RefMut<'_, K, V> {
    fn deref_mut(&mut self) -> &mut V {
        self.get_mut()
    }
}
