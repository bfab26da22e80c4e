//! Callers that write as fast as they are answered, and what must be there afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use sessionlog::Error;
use sessionlog_postgres::PostgresStore;

use super::texts;

/// Tells callers to stop, and counts what was acknowledged.
#[derive(Default)]
pub(crate) struct Load {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

/// What one caller was told: of each text in turn, whether it is there.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) key: String,
    /// Texts in the order in which they were given, each with whether it was acknowledged;
    /// nothing if it is not known.
    pub(crate) said: Vec<(String, Option<bool>)>,
}

impl Load {
    /// A caller that appends to `key` until it is told to stop.
    pub(crate) fn caller<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        store: &PostgresStore,
        place: (String, String),
    ) -> ScopedJoinHandle<'scope, Told> {
        self.caller_that_tells(scope, store, place, |_, _, _| ())
    }

    /// One that tells of every answer: the session, the text, and whether it is there.
    pub(crate) fn caller_that_tells<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        store: &PostgresStore,
        (key, name): (String, String),
        tell: impl Fn(&str, &str, Option<bool>) + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, Told> {
        let store = store.clone();
        scope.spawn(move || {
            let mut told = Told {
                key,
                said: Vec::new(),
            };
            while !self.stop.load(Ordering::Relaxed) {
                let text = format!("{name}-{:06}", told.said.len());
                let there = match store.add_message(&told.key, "user", &text).wait() {
                    Ok(()) => Some(true),
                    Err(Error::OutcomeUnknown { .. }) => None,
                    Err(Error::Unavailable { .. }) => Some(false),
                    Err(error) => panic!("{error:?}"),
                };
                self.acknowledged
                    .fetch_add(u64::from(there == Some(true)), Ordering::Relaxed);
                tell(&told.key, &text, there);
                told.said.push((text, there));
            }
            told
        })
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until so many more were acknowledged.
    pub(crate) fn wait_for(&self, more: u64) {
        let wanted = self.acknowledged() + more;
        let begun = std::time::Instant::now();
        while self.acknowledged() < wanted {
            if begun.elapsed().as_secs() > 60 {
                self.stop();
                panic!("nothing is acknowledged any more");
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Asserts that what was acknowledged is there once, what was refused is not, and each
/// caller's own order was kept.
pub(crate) fn assert_kept(store: &PostgresStore, told: &[Told]) {
    for one in told {
        let prefix = one
            .said
            .first()
            .map(|(text, _)| text.split('-').next().unwrap());
        let Some(prefix) = prefix else { continue };
        let prefix = format!("{prefix}-");
        let there = texts(store, &one.key);
        let mut there = there
            .iter()
            .filter(|text| text.starts_with(&prefix))
            .peekable();
        for (text, acknowledged) in &one.said {
            let is_next = there.next_if_eq(&text).is_some();
            if let Some(expected) = acknowledged {
                assert_eq!(is_next, *expected, "{}: {text}", one.key);
            }
        }
        assert_eq!(
            there.next(),
            None,
            "{}: more is there than was said",
            one.key
        );
    }
}
