//! One value, replaced as a whole, read from anywhere.

use super::RwLock;
use std::mem;
use std::sync::Arc;

/// The latest version of a value that one thread replaces and many read.
///
/// A reader gets one moment's value, never parts of two: values that must be read together belong
/// in one `T`. Split over two of these, the length of one generation could be paired with the file
/// of another.
#[derive(Debug)]
pub struct PublishedValue<T: ?Sized> {
    latest: RwLock<Arc<T>>,
}

impl<T: ?Sized> PublishedValue<T> {
    /// Publishes the first version.
    #[must_use]
    pub fn new(first: Arc<T>) -> Self {
        Self {
            latest: RwLock::new(first),
        }
    }

    /// The version published last. It stays unchanged while it is held.
    #[must_use]
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.latest.read())
    }

    /// Replaces the version that later loads return.
    ///
    /// The previous one is released outside the lock: closing its file must
    /// not hold up readers.
    pub fn store(&self, next: Arc<T>) {
        let previous = mem::replace(&mut *self.latest.write(), next);
        drop(previous);
    }
}

#[cfg(test)]
mod tests {
    use super::PublishedValue;
    use std::sync::Arc;

    #[test]
    fn a_loaded_version_outlives_its_replacement() {
        let published = PublishedValue::new(Arc::new(1));
        let held = published.load();
        published.store(Arc::new(2));
        assert_eq!((*held, *published.load()), (1, 2));
    }

    #[test]
    fn a_replaced_version_is_released_once_nobody_holds_it() {
        let first = Arc::new(1);
        let published = PublishedValue::new(Arc::clone(&first));
        published.store(Arc::new(2));
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
