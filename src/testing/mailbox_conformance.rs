//! What every implementation of the queues must do, in claims that run both as
//! unit tests (over crossbeam) and as loom models (over the model's queues).
//!
//! Each spawns at most two threads and holds in every interleaving.

#![expect(clippy::unwrap_used, reason = "a broken claim panics")]

use crate::ground::mailbox::{Closed, Timeout, TrySendError, bounded, events};
use crate::ground::sync::atomic::{AtomicUsize, Ordering};
use crate::ground::sync::thread;
use std::sync::Arc;
use std::time::Duration;

/// Long enough that it only runs out when something is broken.
const AMPLE: Duration = Duration::from_mins(1);

/// Every claim by name.
pub const CLAIMS: &[(&str, fn())] = &[
    ("items leave in the order they came", items_leave_in_order),
    ("a full mailbox refuses", a_full_mailbox_refuses),
    ("a blocked sender gets in", a_blocked_sender_gets_in),
    ("the bell rings once a drain", the_bell_rings_once_a_drain),
    ("close returns what was accepted", close_returns_the_rest),
    ("close ends a blocked send", close_ends_a_blocked_send),
    ("a dropped receiver closes", a_dropped_receiver_closes),
    ("events arrive in order", events_arrive_in_order),
    ("events end with their senders", events_end),
    ("events without a receiver are refused", events_are_refused),
];

/// Items leave in the order they came, and a drain takes no more than asked.
pub fn items_leave_in_order() {
    let (bell, rings) = events();
    let (sender, receiver) = bounded(3, move || {
        bell.send(());
    });
    let sending = thread::spawn("sending", move || {
        for item in 1..=3 {
            sender.try_send(item).unwrap();
        }
    });
    let mut drained = vec![0];
    while drained.len() < 4 {
        assert_eq!(rings.recv_timeout(AMPLE), Timeout::Item(()));
        let mut left = true;
        while left {
            let before = drained.len();
            left = receiver.drain(&mut drained, 2);
            assert!(drained.len() <= before + 2);
        }
    }
    assert_eq!(drained, [0, 1, 2, 3]);
    assert!(!receiver.drain(&mut drained, 2));
    sending.unwrap().join().unwrap();
}

/// A full mailbox refuses, and gives the item back; with room again it does not.
pub fn a_full_mailbox_refuses() {
    let (sender, receiver) = bounded(1, || {});
    sender.try_send(1).unwrap();
    let another = sender.clone();
    let sending = thread::spawn("sending", move || match another.try_send(2) {
        Ok(()) | Err(TrySendError::Full(2)) => {}
        Err(other) => panic!("{other:?}"),
    });
    let mut drained = Vec::new();
    let _ = receiver.drain(&mut drained, 1);
    assert_eq!(drained, [1]);
    sending.unwrap().join().unwrap();
    let _ = receiver.drain(&mut drained, 1);
    assert_eq!(sender.try_send(3), Ok(()));
    assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)));
}

/// A sender blocked on a full mailbox gets in once there is room.
pub fn a_blocked_sender_gets_in() {
    let (bell, rings) = events();
    let (sender, receiver) = bounded(1, move || {
        bell.send(());
    });
    sender.send(1).unwrap();
    let blocked = thread::spawn("blocked", move || sender.send(2).unwrap()).unwrap();
    let mut drained = Vec::new();
    while drained.len() < 2 {
        assert_eq!(rings.recv_timeout(AMPLE), Timeout::Item(()));
        while receiver.drain(&mut drained, 1) {}
    }
    assert_eq!(drained, [1, 2]);
    blocked.join().unwrap();
}

/// The bell rings once until a drain answers it, and again after that: who drains
/// whenever it rang finds everything.
pub fn the_bell_rings_once_a_drain() {
    let rings = Arc::new(AtomicUsize::new(0));
    let (bell, heard) = events();
    let (sender, receiver) = {
        let rings = Arc::clone(&rings);
        bounded(3, move || {
            rings.fetch_add(1, Ordering::Relaxed);
            bell.send(());
        })
    };
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(rings.load(Ordering::Relaxed), 1);
    let another = sender.clone();
    let sending = thread::spawn("sending", move || another.try_send(3).unwrap());
    let (mut drained, mut drains) = (Vec::new(), 0);
    while drained.len() < 3 {
        assert_eq!(heard.recv_timeout(AMPLE), Timeout::Item(()));
        while receiver.drain(&mut drained, 1) {}
        drains += 1;
    }
    sending.unwrap().join().unwrap();
    assert!(rings.load(Ordering::Relaxed) <= drains + 1);
}

/// Close returns what was accepted, refuses the rest, and is final.
pub fn close_returns_the_rest() {
    let (sender, receiver) = bounded(3, || {});
    sender.send(1).unwrap();
    let another = sender.clone();
    let (report, refused) = events();
    let sending = thread::spawn("sending", move || {
        for item in [2, 3] {
            if let Err(Closed(item)) = another.send(item) {
                report.send(item);
            }
        }
    });
    let mut all = receiver.close();
    sending.unwrap().join().unwrap();
    all.extend(std::iter::from_fn(|| refused.recv()));
    assert_eq!(all, [1, 2, 3]);
    assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
    assert!(receiver.close().is_empty());
    assert!(!receiver.drain(&mut Vec::new(), 1));
}

/// Close ends a blocked send, and the item is its sender's again.
pub fn close_ends_a_blocked_send() {
    let (sender, receiver) = bounded(1, || {});
    sender.send(1).unwrap();
    let blocked = thread::spawn("blocked", move || {
        assert_eq!(sender.send(2), Err(Closed(2)));
    });
    assert_eq!(receiver.close(), [1]);
    blocked.unwrap().join().unwrap();
}

/// Dropping the receiver closes the mailbox, also for who sends meanwhile.
pub fn a_dropped_receiver_closes() {
    let (sender, receiver) = bounded(1, || {});
    sender.send(1).unwrap();
    let another = sender.clone();
    let sending = thread::spawn("sending", move || {
        assert_eq!(another.send(2), Err(Closed(2)));
    });
    drop(receiver);
    assert_eq!(sender.send(3), Err(Closed(3)));
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
