//! The inboxes: accepted or refused, answered once, and nobody left behind.

use crate::explore::Model;
use loom::future::block_on;
use sessionlog::testing::mailbox::{Lot, Queue, QueueAnswer, QueueRefusal, QueueTicket};
use sessionlog::testing::mailbox_conformance as conformance;
use sessionlog::testing::sync::thread::{JoinHandle, spawn};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "mailbox_conformance",
        bound: 4,
        at_least: 40,
        runs: &CLAIMS,
    },
    Model {
        name: "mailbox_answer",
        bound: 3,
        at_least: 20_000,
        runs: &[
            who_waits_is_answered_once,
            a_task_that_another_polls_is_answered,
        ],
    },
    Model {
        name: "mailbox_leaving",
        bound: 4,
        at_least: 20,
        runs: &[who_leaves_takes_no_answer_of_anothers],
    },
    Model {
        name: "mailbox_async_close",
        bound: 4,
        at_least: 1_500,
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

type Items = Arc<Queue<u8, u8>>;

fn queue(capacity: usize) -> Items {
    Arc::new(Queue::new(capacity))
}

fn taken(queue: &Items) -> Lot<u8> {
    let mut lot = Lot::default();
    let mut wakers = Vec::new();
    queue.take(&mut lot, &mut wakers);
    woken(wakers);
    lot
}

fn items(lot: &Lot<u8>) -> Vec<u8> {
    lot.items.iter().map(|(item, _)| *item).collect()
}

fn woken(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

async fn sent(queue: &Items, item: u8) -> Result<QueueTicket, QueueRefusal> {
    let mut item = Some(item);
    poll_fn(|cx| match queue.poll_push(&mut item, b"", cx, true) {
        Err(QueueRefusal::Full) => Poll::Pending,
        other => Poll::Ready(other),
    })
    .await
}

async fn answer(queue: &Items, mut asked: QueueTicket) -> QueueAnswer<u8> {
    poll_fn(|cx| queue.poll(&mut asked, cx)).await
}

/// A thread and a task queue one item each, the first answered otherwise: each gets its own
/// answer, whenever it is looked for.
fn who_waits_is_answered_once() {
    let queue = queue(2);
    let thread = {
        let queue = queue.clone();
        let asked = queue.push(&mut Some(1), b"").expect("has room");
        spawned(move || assert_eq!(queue.wait(&asked), QueueAnswer::Except(7)))
    };
    let task = {
        let queue = queue.clone();
        spawned(move || {
            let answered = block_on(async {
                let asked = sent(&queue, 2).await.expect("is open");
                answer(&queue, asked).await
            });
            assert_eq!(answered, QueueAnswer::Done);
        })
    };
    let mut seen = Vec::new();
    while seen != [1, 2] {
        let mut lot = taken(&queue);
        if lot.items.is_empty() {
            loom::thread::yield_now();
            continue;
        }
        if seen.is_empty() {
            queue.except(1, 7);
        }
        seen.extend(items(&lot));
        queue.answer(lot.last, &mut lot.wakers);
        woken(lot.wakers);
    }
    joined([thread, task]);
}

/// The task that waits is another than the one that queued the item, and comes to wait while
/// the item is taken and answered.
fn a_task_that_another_polls_is_answered() {
    let queue = queue(1);
    let asked = block_on(sent(&queue, 1)).expect("is open");
    let task = {
        let queue = queue.clone();
        spawned(move || assert_eq!(block_on(answer(&queue, asked)), QueueAnswer::Done))
    };
    let mut lot = taken(&queue);
    assert_eq!(items(&lot), [1]);
    queue.answer(lot.last, &mut lot.wakers);
    woken(lot.wakers);
    joined([task]);
}

/// Who leaves before the answer is not kept an exception for, and who stays gets theirs.
fn who_leaves_takes_no_answer_of_anothers() {
    let queue = queue(2);
    let [leaving, staying] = [1, 2].map(|item| queue.push(&mut Some(item), b"").expect("has room"));
    let other = {
        let queue = queue.clone();
        spawned(move || queue.abandon(&leaving))
    };
    let mut lot = taken(&queue);
    queue.except(1, 1);
    queue.except(2, 2);
    queue.answer(lot.last, &mut lot.wakers);
    assert_eq!(queue.wait(&staying), QueueAnswer::Except(2));
    joined([other]);
}

/// Two tasks that wait for room when the queue closes are told.
fn waiting_tasks_learn_of_the_close() {
    let queue = queue(1);
    queue.push(&mut Some(0), b"").expect("has room");
    let waiting = [1, 2].map(|number| {
        let queue = queue.clone();
        spawned(move || {
            let refused = block_on(sent(&queue, number));
            assert!(matches!(refused, Err(QueueRefusal::Closed)));
        })
    });
    let mut wakers = Vec::new();
    queue.close(&mut wakers);
    woken(wakers);
    joined(waiting);
}

fn spawned(body: impl FnOnce() + Send + 'static) -> JoinHandle {
    spawn("sender", body).expect("loom has room for it")
}

fn joined<const N: usize>(threads: [JoinHandle; N]) {
    for thread in threads {
        thread.join().expect("did not panic");
    }
}
