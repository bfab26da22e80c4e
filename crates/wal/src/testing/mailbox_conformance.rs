//! What the queues must do, in claims that run both as unit tests and as loom models.
//!
//! Each spawns at most two threads and holds in every interleaving.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a broken claim panics"
)]

use crate::mailbox::{Lot, Queue, QueueAnswer, QueueRefusal, Timeout, events};
use crate::sync::thread;
use std::sync::Arc;
use std::time::Duration;

/// Long enough that it only runs out when something is broken.
const AMPLE: Duration = Duration::from_mins(1);

/// Every claim by name.
pub const CLAIMS: &[(&str, fn())] = &[
    ("items leave in the order they came", items_leave_in_order),
    ("a blocked sender gets in", a_blocked_sender_gets_in),
    ("close refuses who comes later", close_refuses),
    ("close ends a blocked send", close_ends_a_blocked_send),
    ("an end answers who waits", an_end_answers_who_waits),
    ("events arrive in order", events_arrive_in_order),
    ("events end with their senders", events_end),
    ("events without a receiver are refused", events_are_refused),
];

fn queue(capacity: usize) -> Arc<Queue<u8, &'static str>> {
    Arc::new(Queue::new(capacity))
}

fn push(queue: &Queue<u8, &'static str>, item: u8) -> Result<bool, QueueRefusal> {
    let asked = queue.push(&mut Some(item), &[item])?;
    Ok(asked.first)
}

fn taken(queue: &Queue<u8, &'static str>) -> Vec<u8> {
    let mut lot = Lot::default();
    queue.take(&mut lot, &mut Vec::new());
    assert_eq!(lot.bytes.len(), lot.items.last().map_or(0, |(_, end)| *end));
    lot.items.into_iter().map(|(item, _)| item).collect()
}

/// Items leave in the order they came, with their bytes; the first after a take says so.
pub fn items_leave_in_order() {
    let queue = queue(3);
    let sender = queue.clone();
    let sending = thread::spawn("sending", move || {
        let _ = push(&sender, 1).unwrap();
        let _ = push(&sender, 2).unwrap();
    });
    let mut seen = taken(&queue);
    sending.unwrap().join().unwrap();
    let first = push(&queue, 3).unwrap();
    let later = taken(&queue);
    assert_eq!(first, later == [3]);
    seen.extend(later);
    assert_eq!(seen, [1, 2, 3]);
}

/// Who finds the queue full gets in when it is taken from.
pub fn a_blocked_sender_gets_in() {
    let queue = queue(1);
    let _ = push(&queue, 1).unwrap();
    let sender = queue.clone();
    let sending = thread::spawn("sending", move || {
        let _ = push(&sender, 2).unwrap();
    });
    assert_eq!(taken(&queue), [1]);
    sending.unwrap().join().unwrap();
    assert_eq!(taken(&queue), [2]);
}

/// A queue that is closed takes nothing more; what it took can be taken.
pub fn close_refuses() {
    let queue = queue(2);
    let sender = queue.clone();
    let sending = thread::spawn("sending", move || {
        let _ = push(&sender, 1);
    });
    queue.close(&mut Vec::new());
    assert_eq!(push(&queue, 2), Err(QueueRefusal::Closed));
    sending.unwrap().join().unwrap();
    assert!(taken(&queue).len() <= 1);
}

/// A send that waits for room ends when the queue is closed.
pub fn close_ends_a_blocked_send() {
    let queue = queue(1);
    let _ = push(&queue, 1).unwrap();
    let sender = queue.clone();
    let sending = thread::spawn("sending", move || {
        assert_eq!(push(&sender, 2), Err(QueueRefusal::Closed));
    });
    queue.close(&mut Vec::new());
    sending.unwrap().join().unwrap();
    assert_eq!(taken(&queue), [1]);
}

/// Who waits for an answer that never comes is told when the queue ends.
pub fn an_end_answers_who_waits() {
    let queue = queue(1);
    let sender = queue.clone();
    let sending = thread::spawn("sending", move || {
        if let Ok(asked) = sender.push(&mut Some(1), b"") {
            assert_eq!(sender.wait(&asked), QueueAnswer::Gone);
        }
    });
    drop(queue.end(&mut Vec::new()));
    sending.unwrap().join().unwrap();
}

/// Events arrive in the order each sender sent them.
pub fn events_arrive_in_order() {
    let (sender, receiver) = events();
    let sending = thread::spawn("sending", move || {
        assert!(sender.send(1) && sender.send(2));
    });
    assert_eq!(receiver.recv(), Some(1));
    assert_eq!(receiver.recv_timeout(AMPLE), Timeout::Item(2));
    assert_eq!(receiver.try_recv(), None);
    sending.unwrap().join().unwrap();
}

/// Queued events outlive their senders; then the queue ends.
pub fn events_end() {
    let (sender, receiver) = events();
    let another = sender.clone();
    let sending = thread::spawn("sending", move || {
        assert!(another.send(1));
    });
    drop(sender);
    assert_eq!(receiver.recv(), Some(1));
    assert_eq!(receiver.recv(), None);
    assert_eq!(receiver.recv_timeout(AMPLE), Timeout::Disconnected);
    sending.unwrap().join().unwrap();
}

/// An event for a receiver that is gone is refused.
pub fn events_are_refused() {
    let (sender, receiver) = events();
    let another = sender.clone();
    let sending = thread::spawn("sending", move || {
        another.send(1);
    });
    drop(receiver);
    assert!(!sender.send(2));
    sending.unwrap().join().unwrap();
}

#[cfg(test)]
mod tests;
