//! Requests of one session that wait for work under way.

use std::collections::VecDeque;

/// Number of requests that may wait for one session.
const MOST: usize = 4096;

/// Memory that they may hold, bytes. One alone may hold more.
const MOST_BYTES: usize = 64 << 20;

/// A request that may wait.
pub(crate) trait MayWait {
    /// Returns the memory it holds, bytes.
    fn held(&self) -> usize;
}

/// Requests of one session in the order they came. Bounded: a caller that gave up leaves its
/// request here, and such requests would fill the memory while one session takes long.
#[derive(Debug)]
pub(crate) struct RequestQueue<T> {
    requests: VecDeque<T>,
    bytes: usize,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T: MayWait> RequestQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request after all others; returns it if there is no room.
    pub(super) fn push(&mut self, request: T) -> Option<T> {
        let fits = self.requests.len() < MOST && self.bytes + request.held() <= MOST_BYTES;
        if !fits && !self.is_empty() {
            return Some(request);
        }
        self.bytes += request.held();
        self.requests.push_back(request);
        None
    }

    /// Takes the oldest request, if it goes on.
    pub(super) fn pop_if(&mut self, goes_on: impl FnOnce(&T) -> bool) -> Option<T> {
        let request = self.requests.pop_front_if(|request| goes_on(request))?;
        self.bytes -= request.held();
        Some(request)
    }

    /// Takes out all requests that are not `kept`.
    pub(super) fn drain_but(&mut self, kept: impl Fn(&T) -> bool) -> Vec<T> {
        let all = std::mem::take(&mut self.requests);
        let (stay, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|request| kept(request));
        self.bytes = stay.iter().map(MayWait::held).sum();
        self.requests = stay.into();
        gone
    }
}
