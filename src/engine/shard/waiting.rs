//! Requests of one session that wait for what is under way.

use std::collections::VecDeque;

/// Requests that may wait for one session.
const MOST: usize = 4096;

/// What they may hold in memory, bytes. One alone may hold more.
const MOST_BYTES: usize = 64 << 20;

/// What may wait.
pub(crate) trait Held {
    /// What it holds in memory, bytes.
    fn held(&self) -> usize;
}

/// Requests of one session in the order they came. Bounded: a caller that gave up
/// leaves its request here, and all of them would fill the memory while one session
/// takes long.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    requests: VecDeque<T>,
    bytes: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T: Held> Waiting<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request after all others; it comes back if there is no room.
    pub(super) fn push(&mut self, request: T) -> Option<T> {
        let fits = self.requests.len() < MOST && self.bytes + request.held() <= MOST_BYTES;
        if !fits && !self.is_empty() {
            return Some(request);
        }
        self.bytes += request.held();
        self.requests.push_back(request);
        None
    }

    /// Takes the oldest request, if it is one that goes on.
    pub(super) fn pop_if(&mut self, goes_on: impl FnOnce(&T) -> bool) -> Option<T> {
        let request = self.requests.pop_front_if(|request| goes_on(request))?;
        self.bytes -= request.held();
        Some(request)
    }

    /// Takes out those that are not `kept`.
    pub(super) fn drain_but(&mut self, kept: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.requests);
        let (stay, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|request| kept(request));
        self.bytes = stay.iter().map(Held::held).sum();
        self.requests = stay.into();
        gone
    }
}
