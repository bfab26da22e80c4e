//! The claims, and what loom cannot run: time and crowds.

use super::CLAIMS;
use crate::mailbox::{Lot, Queue, QueueAnswer, QueueRefusal, Timeout, events};
use crate::sync::thread;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[test]
fn the_production_queues_conform() {
    for (claim, check) in CLAIMS {
        println!("{claim}");
        check();
    }
}

#[test]
fn a_timed_receive_gives_up() {
    let (_sender, receiver) = events::<u8>();
    let brief = Duration::from_millis(1);
    assert_eq!(receiver.recv_timeout(brief), Timeout::TimedOut);
}

#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl CountedWakes {
    fn so_far(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn wake(wakers: &mut Vec<Waker>) {
    wakers.drain(..).for_each(Waker::wake);
}

#[test]
fn close_wakes_a_waiting_task_whose_item_stays_its_own() {
    let queue = Queue::<_, ()>::new(1);
    queue.push(&mut Some(1), b"").unwrap();
    let count = Arc::new(CountedWakes::default());
    let waker = Waker::from(Arc::clone(&count));
    let cx = Context::from_waker(&waker);
    let mut item = Some(2);
    let full = queue.poll_push(&mut item, b"", &cx, true);
    assert_eq!((full.unwrap_err(), item), (QueueRefusal::Full, Some(2)));
    let mut wakers = Vec::new();
    queue.close(&mut wakers);
    wake(&mut wakers);
    assert_eq!(count.so_far(), 1);
    let closed = queue.poll_push(&mut item, b"", &cx, true);
    assert_eq!((closed.unwrap_err(), item), (QueueRefusal::Closed, Some(2)));
}

#[test]
fn who_polls_after_their_item_was_taken_is_woken_once() {
    let queue = Queue::<_, ()>::new(4);
    let [first, second] = [(); 2].map(|()| Arc::new(CountedWakes::default()));
    let [one, other] = [&first, &second].map(|count| Waker::from(Arc::clone(count)));
    let one = Context::from_waker(&one);
    let other = Context::from_waker(&other);
    let mut asked = queue.poll_push(&mut Some(1), b"", &one, true).unwrap();
    let mut lot = Lot::default();
    queue.take(&mut lot, &mut Vec::new());
    // Another task waits by now, and asks more than once.
    for _ in 0..3 {
        assert!(queue.poll(&mut asked, &other).is_pending());
    }
    let mut wakers = std::mem::take(&mut lot.wakers);
    queue.answer(lot.last, &mut wakers);
    wake(&mut wakers);
    assert_eq!((first.so_far(), second.so_far()), (1, 1));
    assert_eq!(
        queue.poll(&mut asked, &other),
        Poll::Ready(QueueAnswer::Done)
    );
}

#[test]
fn an_exception_is_told_to_its_own_item_and_kept_for_nobody_who_left() {
    let queue = Queue::<_, &str>::new(4);
    let asked: Vec<_> = (0..4)
        .map(|n| queue.push(&mut Some(n), b"").unwrap())
        .collect();
    let mut lot = Lot::default();
    queue.take(&mut lot, &mut Vec::new());
    queue.abandon(&asked[1]);
    queue.except(2, "nobody asks");
    queue.except(3, "refused");
    queue.answer(4, &mut lot.wakers);
    assert_eq!(queue.wait(&asked[0]), QueueAnswer::Done);
    assert_eq!(queue.wait(&asked[2]), QueueAnswer::Except("refused"));
    assert_eq!(queue.wait(&asked[3]), QueueAnswer::Done);
    // Nobody left takes one along.
    queue.push(&mut Some(5), b"").unwrap();
    queue.take(&mut lot, &mut Vec::new());
    queue.except(5, "refused");
    queue.answer(5, &mut lot.wakers);
}

/// Every item of a crowd must arrive and be answered: one lost wake-up hangs this.
#[test]
fn a_crowd_of_threads_and_tasks_gets_everything_through() {
    const SENDERS: usize = 4;
    const ITEMS: usize = 5_000;
    let (bell, rings) = events();
    let queue = Arc::new(Queue::<_, usize>::new(8));
    let crowd: Vec<_> = (0..SENDERS)
        .map(|number| {
            let (queue, bell) = (queue.clone(), bell.clone());
            thread::spawn("sender", move || {
                for item in 0..ITEMS {
                    let mut item = Some((number, item));
                    let sent = item;
                    let answer = if number % 2 == 0 {
                        let asked = queue.push(&mut item, b"12").unwrap();
                        asked.first.then(|| bell.send(()));
                        queue.wait(&asked)
                    } else {
                        let asked = pollster::block_on(poll_fn(|cx| {
                            match queue.poll_push(&mut item, b"12", cx, true) {
                                Err(QueueRefusal::Full) => Poll::Pending,
                                other => Poll::Ready(other),
                            }
                        }));
                        let mut asked = asked.unwrap();
                        asked.first.then(|| bell.send(()));
                        pollster::block_on(poll_fn(|cx| queue.poll(&mut asked, cx)))
                    };
                    let expected = match sent {
                        Some((_, item)) if item % 7 == 0 => QueueAnswer::Except(item),
                        _ => QueueAnswer::Done,
                    };
                    assert_eq!(answer, expected);
                }
            })
            .unwrap()
        })
        .collect();

    let mut seen = Vec::new();
    let mut lot = Lot::default();
    while seen.len() < SENDERS * ITEMS {
        assert_eq!(rings.recv(), Some(()));
        let mut roomy = Vec::new();
        queue.take(&mut lot, &mut roomy);
        wake(&mut roomy);
        assert_eq!(lot.bytes.len(), lot.items.len() * 2);
        let mut number = lot.last - lot.items.len() as u64;
        for (item, _) in lot.items.drain(..) {
            number += 1;
            if item.1 % 7 == 0 {
                queue.except(number, item.1);
            }
            seen.push(item);
        }
        queue.answer(lot.last, &mut lot.wakers);
        wake(&mut lot.wakers);
    }
    for thread in crowd {
        thread.join().unwrap();
    }
    for number in 0..SENDERS {
        let of_one = seen.iter().filter(|(from, _)| *from == number);
        assert!(of_one.map(|(_, item)| *item).eq(0..ITEMS));
    }
}
