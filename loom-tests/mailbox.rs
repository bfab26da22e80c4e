//! The mailbox: accepted or refused, rung, and never a sender left behind.

use crate::explore::Model;
use loom::future::block_on;
use sessionlog::testing::mailbox::{Closed, EventReceiver, Receiver, Sender, bounded, events};
use sessionlog::testing::mailbox_conformance as conformance;
use sessionlog::testing::sync::thread::{JoinHandle, spawn};
use std::future::poll_fn;
use std::task::Poll;

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "mailbox_conformance",
        bound: 4,
        at_least: 60,
        runs: &CLAIMS,
    },
    Model {
        name: "mailbox_close",
        bound: 3,
        at_least: 400,
        runs: &[
            an_item_is_refused_or_returned,
            every_blocked_sender_learns_of_the_close,
        ],
    },
    Model {
        name: "mailbox_bell",
        bound: 2,
        at_least: 2_500,
        runs: &[a_queued_item_is_always_drained],
    },
    Model {
        name: "mailbox_room",
        bound: 3,
        at_least: 1_200,
        runs: &[a_blocked_sender_gets_in],
    },
    Model {
        name: "mailbox_async_waiter",
        bound: 3,
        at_least: 1_500,
        runs: &[a_waiting_task_gets_in_past_a_cancelled_one],
    },
    Model {
        name: "mailbox_async_close",
        bound: 4,
        at_least: 150,
        runs: &[waiting_tasks_learn_of_the_close],
    },
];

/// The claims that the production queues meet as unit tests.
const CLAIMS: [fn(); conformance::CLAIMS.len()] = {
    let mut checks = [conformance::CLAIMS[0].1; conformance::CLAIMS.len()];
    let mut claim = 0;
    while claim < checks.len() {
        checks[claim] = conformance::CLAIMS[claim].1;
        claim += 1;
    }
    checks
};

/// Two senders, one of which may block, against a drain and a close.
fn an_item_is_refused_or_returned() {
    let (sender, receiver) = bounded(1, || {});
    let (refusals, refused) = events();
    let senders = [1, 2].map(|item| {
        let (sender, refusals) = (sender.clone(), refusals.clone());
        spawned(move || {
            if let Err(Closed(item)) = sender.send(item) {
                refusals.send(item);
            }
        })
    });
    drop(refusals);

    let mut seen = Vec::new();
    let _left = receiver.drain(&mut seen, 1);
    seen.extend(receiver.close());
    seen.extend(std::iter::from_fn(|| refused.recv()));
    seen.sort_unstable();
    assert_eq!(seen, [1, 2], "lost, or both accepted and refused");
    joined(senders);
}

/// Two senders that wait for room when the mailbox closes.
fn every_blocked_sender_learns_of_the_close() {
    let (sender, receiver) = bounded(1, || {});
    sender.try_send(0).expect("has room");
    let senders = [1, 2].map(|item| {
        let sender = sender.clone();
        spawned(move || assert_eq!(sender.send(item), Err(Closed(item))))
    });
    assert_eq!(receiver.close(), [0]);
    joined(senders);
}

/// The consumer sleeps until it is rung: a ring that is lost leaves it asleep
/// in front of an item.
fn a_queued_item_is_always_drained() {
    let (sender, receiver, rings) = belled(4);
    let senders = [1, 3].map(|item| {
        let sender = sender.clone();
        spawned(move || {
            sender.try_send(item).expect("has room");
            sender.try_send(item + 1).expect("has room");
        })
    });
    let mut drained = drained_when_rung(&receiver, &rings, 4);
    drained.sort_unstable();
    assert_eq!(drained, [1, 2, 3, 4]);
    joined(senders);
}

/// Two senders block on a full mailbox; each drain makes room for one.
fn a_blocked_sender_gets_in() {
    let (sender, receiver, rings) = belled(1);
    sender.try_send(0).expect("has room");
    let senders = [1, 2].map(|item| {
        let sender = sender.clone();
        spawned(move || sender.send(item).expect("open"))
    });
    let mut drained = drained_when_rung(&receiver, &rings, 3);
    drained.sort_unstable();
    assert_eq!(drained, [0, 1, 2]);
    joined(senders);
}

/// One task waits for room and gives up. The other must still get in, even if
/// the only wake-up went to the first.
fn a_waiting_task_gets_in_past_a_cancelled_one() {
    let (sender, receiver, rings) = belled(1);
    sender.try_send(0).expect("has room");
    let cancelled = {
        let sender = sender.clone();
        spawned(move || {
            let mut item = Some(1);
            block_on(poll_fn(|cx| {
                let _cancelled = sender.poll_send(cx, &mut item);
                Poll::Ready(())
            }));
        })
    };
    let waiting = spawned(move || {
        let mut item = Some(2);
        let sent = block_on(poll_fn(|cx| sender.poll_send(cx, &mut item)));
        assert_eq!(sent, Ok(()));
    });
    let mut drained = Vec::new();
    while !drained.contains(&2) {
        rings.recv().expect("the mailbox holds the bell");
        while receiver.drain(&mut drained, 1) {}
    }
    joined([cancelled, waiting]);
}

/// Two tasks that wait for room when the mailbox closes get their items back.
fn waiting_tasks_learn_of_the_close() {
    let (sender, receiver, _rings) = belled(1);
    sender.try_send(0).expect("has room");
    let waiting = [1, 2].map(|number| {
        let sender = sender.clone();
        spawned(move || {
            let mut item = Some(number);
            let sent = block_on(poll_fn(|cx| sender.poll_send(cx, &mut item)));
            assert_eq!(sent, Err(Closed(number)));
        })
    });
    assert_eq!(receiver.close(), [0]);
    joined(waiting);
}

fn belled(capacity: usize) -> (Sender<u8>, Receiver<u8>, EventReceiver<()>) {
    let (bell, rings) = events();
    let (sender, receiver) = bounded(capacity, move || {
        bell.send(());
    });
    (sender, receiver, rings)
}

fn drained_when_rung(
    receiver: &Receiver<u8>,
    rings: &EventReceiver<()>,
    expected: usize,
) -> Vec<u8> {
    let mut drained = Vec::new();
    while drained.len() < expected {
        rings.recv().expect("the mailbox holds the bell");
        while receiver.drain(&mut drained, 1) {}
    }
    drained
}

fn spawned(body: impl FnOnce() + Send + 'static) -> JoinHandle {
    spawn("sender", body).expect("loom has room for it")
}

fn joined<const N: usize>(threads: [JoinHandle; N]) {
    for thread in threads {
        thread.join().expect("did not panic");
    }
}
