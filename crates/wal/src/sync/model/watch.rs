//! The watched value that loom explores: the part of tokio's that [`crate::sync::watch`]
//! uses, over the model's locks.

use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::Mutex;

#[derive(Debug)]
struct WatchState<T> {
    value: T,
    version: u64,
    receivers: usize,
    closed: bool,
    waiting: Vec<Waker>,
}

type WatchCell<T> = Arc<Mutex<WatchState<T>>>;

/// The sending end.
#[derive(Debug)]
pub(in crate::sync) struct Sender<T>(WatchCell<T>);

/// The receiving end, and the version that it has seen.
#[derive(Debug)]
pub(in crate::sync) struct Receiver<T>(WatchCell<T>, u64);

/// A value that was looked at.
pub(in crate::sync) struct Latest<T>(T);

impl<T> Deref for Latest<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Copy> Sender<T> {
    pub(in crate::sync) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(WatchState {
            value,
            version: 0,
            receivers: 0,
            closed: false,
            waiting: Vec::new(),
        })))
    }

    pub(in crate::sync) fn subscribe(&self) -> Receiver<T> {
        let mut state = self.0.lock();
        state.receivers += 1;
        Receiver(Arc::clone(&self.0), state.version)
    }

    pub(in crate::sync) fn send_replace(&self, value: T) {
        let mut state = self.0.lock();
        state.value = value;
        state.version += 1;
        wake(std::mem::take(&mut state.waiting));
    }

    pub(in crate::sync) fn receiver_count(&self) -> usize {
        self.0.lock().receivers
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        wake(std::mem::take(&mut state.waiting));
    }
}

impl<T: Copy> Receiver<T> {
    pub(in crate::sync) fn borrow_and_update(&mut self) -> Latest<T> {
        let state = self.0.lock();
        self.1 = state.version;
        Latest(state.value)
    }

    pub(in crate::sync) async fn changed(&mut self) -> Result<(), ()> {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.version != self.1 {
                self.1 = state.version;
                Poll::Ready(Ok(()))
            } else if state.closed {
                Poll::Ready(Err(()))
            } else {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.lock().receivers += 1;
        Self(Arc::clone(&self.0), self.1)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.lock().receivers -= 1;
    }
}

fn wake(waiting: Vec<Waker>) {
    for waker in waiting {
        waker.wake();
    }
}
