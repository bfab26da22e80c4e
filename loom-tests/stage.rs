//! What models of the engine share: a store on a disk in memory, threads, and
//! what readers and a power loss find of a session.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use sessionlog::Reply;
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::rig::{Rig, SeenMoment, Setup, SteppedSupervisor};
use sessionlog::testing::sync::thread::{JoinHandle, spawn};

/// A store without threads, and its disk.
pub(crate) fn opened(setup: &Setup) -> (MemoryStorage, Rig) {
    let storage = MemoryStorage::new();
    let rig = Rig::open(Arc::new(storage.clone()), setup);
    (storage, rig)
}

/// The texts of session `a` after a power loss now and a recovery.
pub(crate) fn reopened(storage: &MemoryStorage) -> Vec<String> {
    reopened_as(storage, "a")
}

/// The same of any session.
pub(crate) fn reopened_as(storage: &MemoryStorage, key: &str) -> Vec<String> {
    let storage = storage.image(Image::AllLost);
    let mut rig = Rig::open(Arc::new(storage), &Setup::default());
    let history = rig.handle.history(key);
    let messages = rig.carry_out(history);
    messages.iter().map(|m| m.text().into_owned()).collect()
}

/// The texts of a moment's lines.
pub(crate) fn said(moment: &SeenMoment) -> Vec<String> {
    moment.lines.iter().map(|line| said_in(line)).collect()
}

fn said_in(line: &str) -> String {
    let message = sessionlog::Message::from_json(line.as_bytes()).expect("is a message");
    message.text().into_owned()
}

pub(crate) fn spawned(body: impl FnOnce() + Send + 'static) -> JoinHandle {
    spawn("part", body).expect("loom has room for it")
}

pub(crate) fn joined<const N: usize>(threads: [JoinHandle; N]) {
    for thread in threads {
        thread.join().expect("did not panic");
    }
}

/// Ends a store whose model has seen what it wanted to see: how the parts end is
/// explored elsewhere.
pub(crate) fn wound_up<const N: usize>(supervisor: &SteppedSupervisor, parts: [JoinHandle; N]) {
    loom::stop_exploring();
    supervisor.end();
    joined(parts);
}

/// A command on its way, whose caller does not wait for it.
pub(crate) fn submitted<T: Send + 'static>(mut reply: Reply<T>) -> Reply<T> {
    let polled = Pin::new(&mut reply).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "answered too early");
    reply
}
