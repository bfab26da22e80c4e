//! The thread that commits what is queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Append, Engine};
use crate::support::bare::send_batched;

/// An append, and who waits for it.
pub(super) struct Request {
    pub(super) append: Append,
    pub(super) reply: oneshot::Sender<()>,
}

pub(super) struct Writer<E> {
    pub(super) engine: Arc<Mutex<E>>,
    pub(super) requests: Receiver<Request>,
    pub(super) runtime: Handle,
    pub(super) under_way: Arc<AtomicUsize>,
    pub(super) last_batch: Arc<AtomicUsize>,
    pub(super) commits: Arc<AtomicUsize>,
}

impl<E: Engine> Writer<E> {
    pub(super) fn run(self) {
        while let Ok(first) = self.requests.recv() {
            // Only with the engine in hand: what is queued while someone else
            // has it comes into this batch.
            let mut engine = self.engine.lock();
            let (batch, replies): (Vec<_>, Vec<_>) = std::iter::once(first)
                .chain(self.requests.try_iter())
                .map(|request| (request.append, request.reply))
                .unzip();
            engine.commit(batch).expect("the engine commits");
            drop(engine);
            self.answer(replies);
        }
    }

    fn answer(&self, replies: Vec<oneshot::Sender<()>>) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.last_batch.store(replies.len(), Ordering::Relaxed);
        self.under_way.fetch_sub(replies.len(), Ordering::Relaxed);
        send_batched(&self.runtime, replies);
    }
}
