//! Those who submitted something.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::sync::Mutex;

use crate::testing::parts;

/// What was submitted, and its answer once there is one.
#[derive(Debug)]
pub struct Ticket<T>(Arc<Mutex<Option<Result<T>>>>);

impl<T: Clone> Ticket<T> {
    /// The answer, if it has arrived.
    #[must_use]
    pub fn answer(&self) -> Option<Result<T>> {
        self.0.lock().clone()
    }
}

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Those who submitted something.
#[derive(Default)]
pub(super) struct Callers {
    /// Not submitted yet, in order.
    waiting: VecDeque<Call>,
    pub(super) submitted: Vec<Call>,
}

impl Callers {
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        reply: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Ticket<T> {
        let answer = Arc::new(Mutex::new(None));
        let ticket = Ticket(answer.clone());
        self.waiting.push_back(Box::pin(async move {
            let result = reply.await;
            *answer.lock() = Some(result);
        }));
        ticket
    }

    pub(super) fn turn(&mut self) -> bool {
        if let Some(mut call) = self.waiting.pop_front() {
            if parts::now(call.as_mut()).is_none() {
                self.submitted.push(call);
            }
            return true;
        }
        let before = self.submitted.len();
        self.submitted
            .retain_mut(|call| parts::now(call.as_mut()).is_none());
        self.submitted.len() < before
    }
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}
