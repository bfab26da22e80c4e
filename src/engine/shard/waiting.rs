//! Requests of one session that wait for what is under way.

use std::collections::VecDeque;

use super::request::Request;

/// Requests that may wait for one session.
const MOST: usize = 4096;

/// What they may hold in memory, bytes. One alone may hold more.
const MOST_BYTES: usize = 64 << 20;

/// Requests of one session in the order they came. Bounded: a caller that gave up
/// leaves its request here, and all of them would fill the memory while one session
/// takes long.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    requests: VecDeque<Box<dyn Request>>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request after all others; it comes back if there is no room.
    pub(super) fn push(&mut self, request: Box<dyn Request>) -> Option<Box<dyn Request>> {
        let fits = self.requests.len() < MOST && self.bytes + request.bytes() <= MOST_BYTES;
        if !fits && !self.is_empty() {
            return Some(request);
        }
        self.bytes += request.bytes();
        self.requests.push_back(request);
        None
    }

    /// Takes the oldest request, if it is one that goes on.
    pub(super) fn pop_if(
        &mut self,
        goes_on: impl FnOnce(&dyn Request) -> bool,
    ) -> Option<Box<dyn Request>> {
        let request = self.requests.pop_front_if(|request| goes_on(&**request))?;
        self.bytes -= request.bytes();
        Some(request)
    }

    /// Takes out those that are not `kept`.
    pub(super) fn drain_but(
        &mut self,
        kept: impl Fn(&dyn Request) -> bool,
    ) -> Vec<Box<dyn Request>> {
        let all = std::mem::take(&mut self.requests);
        let (stay, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|request| kept(&**request));
        self.bytes = stay.iter().map(|request| request.bytes()).sum();
        self.requests = stay.into();
        gone
    }
}
