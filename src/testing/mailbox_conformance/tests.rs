//! The claims over crossbeam, and what loom cannot run: time and crowds.

use super::CLAIMS;
use crate::ground::mailbox::{Closed, Timeout, bounded, events};
use crate::ground::sync::thread;
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
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn close_wakes_a_waiting_task_and_hands_its_item_back() {
    let (sender, receiver) = bounded(1, || {});
    sender.send(1).unwrap();
    let count = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    let mut item = Some(2);
    assert!(sender.poll_send(&mut cx, &mut item).is_pending());
    assert_eq!(item, Some(2));

    assert_eq!(receiver.close(), [1]);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    let refused = Poll::Ready(Err(Closed(2)));
    assert_eq!(sender.poll_send(&mut cx, &mut item), refused);
}

/// Every command of a crowd must arrive: one lost ring or wake-up hangs this.
#[test]
fn a_crowd_of_threads_and_tasks_gets_everything_through() {
    const SENDERS: usize = 4;
    const ITEMS: usize = 5_000;
    let (bell, rings) = events();
    let (sender, receiver) = bounded(8, move || {
        bell.send(());
    });
    let crowd: Vec<_> = (0..SENDERS)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn("sender", move || {
                for item in 0..ITEMS {
                    if number % 2 == 0 {
                        sender.send((number, item)).unwrap();
                    } else {
                        let mut item = Some((number, item));
                        let sent = poll_fn(|cx| sender.poll_send(cx, &mut item));
                        pollster::block_on(sent).unwrap();
                    }
                }
            })
            .unwrap()
        })
        .collect();

    let mut drained = Vec::new();
    while drained.len() < SENDERS * ITEMS {
        assert_eq!(rings.recv(), Some(()));
        while receiver.drain(&mut drained, 5) {}
    }
    for thread in crowd {
        thread.join().unwrap();
    }
    for number in 0..SENDERS {
        let of_one = drained.iter().filter(|(from, _)| *from == number);
        assert!(of_one.map(|(_, item)| *item).eq(0..ITEMS));
    }
}

/// An item both refused and returned is answered twice; neither, never.
#[test]
fn closing_into_a_crowd_loses_and_doubles_nothing() {
    for round in 0..200 {
        let (sender, receiver) = bounded(2, || {});
        let crowd: Vec<_> = (0..3)
            .map(|number| {
                let sender = sender.clone();
                let (report, refused) = events();
                let sending = thread::spawn("sender", move || {
                    for item in 0..20 {
                        if let Err(Closed(item)) = sender.send((number, item)) {
                            report.send(item);
                        }
                    }
                });
                (sending.unwrap(), refused)
            })
            .collect();
        let mut seen = Vec::new();
        for _ in 0..round % 20 {
            let _left = receiver.drain(&mut seen, 2);
        }
        seen.extend(receiver.close());
        for (sending, refused) in crowd {
            sending.join().unwrap();
            seen.extend(std::iter::from_fn(|| refused.recv()));
        }
        seen.sort_unstable();
        assert!(
            seen.into_iter()
                .eq((0..3).flat_map(|number| (0..20).map(move |item| (number, item))))
        );
    }
}
