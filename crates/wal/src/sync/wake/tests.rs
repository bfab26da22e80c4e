//! Hand-overs over real runtimes.

use super::{Runtime, RuntimeHome};
use crate::mailbox::{EventSender, events};
use crate::sync::slot::{Slot, slot};
use crate::sync::thread;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Wake, Waker};
use tokio::runtime::{Builder, Runtime as Tokio};

fn workers(number: usize) -> Tokio {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(number).build().unwrap()
}

/// Tasks on `tokio` that wait for an answer, once all of them registered.
fn answered_together(tokio: &Tokio, runtime: &Runtime, tasks: usize) {
    let (registered, registrations) = events();
    let (promises, waiting): (Vec<_>, Vec<_>) = (0..tasks)
        .map(|number| {
            let (promise, slot) = slot();
            let waiting = answer(slot, runtime.clone(), registered.clone());
            ((promise, number), tokio.spawn(waiting))
        })
        .unzip();
    for _ in 0..tasks {
        registrations.recv().unwrap();
    }
    let wakers = promises
        .into_iter()
        .filter_map(|(promise, number)| promise.fulfil(number))
        .collect();
    runtime.wake_all(wakers);
    for (number, task) in waiting.into_iter().enumerate() {
        assert_eq!(pollster::block_on(task).unwrap(), Some(number));
    }
}

async fn answer(slot: Slot<usize>, runtime: Runtime, registered: EventSender<()>) -> Option<usize> {
    poll_fn(|cx| {
        runtime.remember_current();
        let outcome = slot.poll(cx);
        registered.send(());
        outcome
    })
    .await
}

#[test]
fn every_task_of_a_batch_is_woken_directly_and_through_a_hand_over() {
    let tokio = workers(2);
    let runtime = Runtime::default();
    answered_together(&tokio, &runtime, 50);
    // The first batch taught the runtime how to recognise a task's waker, unless its hand-over has
    // yet to run; a finished task proves that it has run.
    while runtime.0.tokio_task.get().is_none() {
        pollster::block_on(tokio.spawn(tokio::task::yield_now())).unwrap();
    }
    for tasks in [1, 3, 4, 50] {
        answered_together(&tokio, &runtime, tasks);
    }
    let home = &*runtime.0.home.read();
    assert!(matches!(home, RuntimeHome::One(home) if home.id() == tokio.handle().id()));
}

#[test]
fn a_task_is_recognised_by_its_waker() {
    let tokio = workers(1);
    let runtime = Runtime::default();
    answered_together(&tokio, &runtime, 4);
    let other = tokio.spawn(poll_fn(|cx| {
        std::task::Poll::Ready(std::ptr::from_ref(cx.waker().vtable()).addr())
    }));
    let vtable = pollster::block_on(other).unwrap();
    let learnt = runtime.0.tokio_task.get().copied();
    assert_eq!(
        learnt.map(|learnt| std::ptr::from_ref(learnt).addr()),
        Some(vtable)
    );
}

#[test]
fn a_current_thread_runtime_is_served() {
    let tokio = Builder::new_current_thread().build().unwrap();
    let runtime = Runtime::default();
    for _ in 0..3 {
        let (promises, slots): (Vec<_>, Vec<_>) = (0..8).map(|_| slot()).unzip();
        let (registered, registrations) = events();
        let answering = {
            let runtime = runtime.clone();
            thread::spawn("answering", move || {
                for _ in 0..8 {
                    registrations.recv().unwrap();
                }
                let fulfilled = promises.into_iter().filter_map(|promise| promise.fulfil(7));
                runtime.wake_all(fulfilled.collect());
            })
        };
        tokio.block_on(async {
            let waiting: Vec<_> = slots
                .into_iter()
                .map(|slot| tokio::spawn(answer(slot, runtime.clone(), registered.clone())))
                .collect();
            for task in waiting {
                assert_eq!(task.await.unwrap(), Some(7));
            }
        });
        answering.unwrap().join().unwrap();
    }
}

/// With callers from two runtimes, one must not wait for the other.
#[test]
fn callers_from_several_runtimes_are_woken_directly() {
    let (one, other) = (workers(1), workers(1));
    let runtime = Runtime::default();
    answered_together(&one, &runtime, 8);
    answered_together(&other, &runtime, 8);
    assert!(matches!(*runtime.0.home.read(), RuntimeHome::Several));
    answered_together(&one, &runtime, 8);
}

/// A hand-over spawned on it would wait until a thread blocks on it.
#[test]
fn nothing_is_handed_over_to_a_runtime_without_threads_of_its_own() {
    let tokio = Builder::new_current_thread().build().unwrap();
    let runtime = Runtime::default();
    let (report, woken) = events();
    tokio.block_on(poll_fn(|_| {
        runtime.remember_current();
        std::task::Poll::Ready(())
    }));
    assert!(matches!(*runtime.0.home.read(), RuntimeHome::Several));
    let wakers = reporting(&report, 8);
    runtime.0.tokio_task.set(wakers[0].vtable()).unwrap();
    runtime.wake_all(wakers);
    for _ in 0..8 {
        woken.recv().unwrap();
    }
}

/// tokio does not promise this, and the next version may change it: then every waker
/// is called directly, which is slower.
#[test]
fn tasks_that_are_not_recognised_are_woken_all_the_same() {
    let tokio = workers(2);
    let runtime = Runtime::default();
    let (report, _woken) = events();
    let other = reporting(&report, 1).remove(0);
    runtime.0.tokio_task.set(other.vtable()).unwrap();
    for tasks in [4, 50] {
        answered_together(&tokio, &runtime, tasks);
    }
}

/// Tasks of every kind look alike to a hand-over, whatever their results.
#[test]
fn tasks_look_alike_and_a_blocked_thread_does_not_look_like_one() {
    let vtable =
        || poll_fn(|cx| std::task::Poll::Ready(std::ptr::from_ref(cx.waker().vtable()).addr()));
    let tokio = workers(1);
    let spawned = pollster::block_on(tokio.spawn(vtable())).unwrap();
    let boxed: std::pin::Pin<Box<dyn Future<Output = (u64, usize)> + Send>> =
        Box::pin(async move { (7, vtable().await) });
    let boxed = pollster::block_on(tokio.spawn(boxed)).unwrap().1;
    let current = Builder::new_current_thread().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let local = local.block_on(&current, async move {
        tokio::task::spawn_local(vtable()).await.unwrap()
    });
    assert_eq!([boxed, local], [spawned; 2]);
    assert_ne!(tokio.block_on(vtable()), spawned);
    assert_ne!(pollster::block_on(vtable()), spawned);
}

#[test]
fn a_waker_that_panics_ends_nothing_and_every_other_is_woken() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("of a caller's");
        }
    }
    let (report, woken) = events();
    let mut wakers = reporting(&report, 2);
    wakers.insert(1, Waker::from(Arc::new(Panics)));
    Runtime::default().wake_all(wakers);
    for _ in 0..2 {
        woken.recv().unwrap();
    }
    assert!(!thread::is_serving());
}

fn reporting(report: &EventSender<()>, number: usize) -> Vec<Waker> {
    let waker = || Waker::from(Arc::new(Report(report.clone())));
    std::iter::repeat_with(waker).take(number).collect()
}

struct Report(EventSender<()>);

impl Wake for Report {
    fn wake(self: Arc<Self>) {
        self.0.send(());
    }
}

#[test]
fn a_runtime_that_is_gone_wakes_everybody_and_is_forgotten() {
    let runtime = Runtime::default();
    {
        let tokio = workers(1);
        answered_together(&tokio, &runtime, 8);
    }
    let (report, woken) = events();
    let wakers = reporting(&report, 8);
    // These look like tasks to the hand-over, which the runtime then refuses.
    let reports = Runtime::default();
    *reports.0.home.write() = RuntimeHome::One(runtime.0.home().unwrap());
    reports.0.tokio_task.set(wakers[0].vtable()).unwrap();
    reports.wake_all(wakers);
    for _ in 0..8 {
        woken.recv().unwrap();
    }
    assert!(matches!(*reports.0.home.read(), RuntimeHome::Unknown));

    let next = workers(1);
    answered_together(&next, &reports, 8);
    assert!(matches!(*reports.0.home.read(), RuntimeHome::One(_)));
}

/// The only worker of a runtime blocks on its own answer, in the middle of a
/// batch. A hand-over that waited for that worker would wait for ever.
#[test]
fn a_worker_that_blocks_on_its_own_answer_is_woken() {
    let tokio = workers(1);
    let runtime = Runtime::default();
    answered_together(&tokio, &runtime, 8);
    assert!(runtime.0.tokio_task.get().is_some());

    let (registered, registrations) = events();
    let (mut promises, mut slots): (Vec<_>, Vec<_>) = (0..9).map(|_| slot()).unzip();
    let blocking = slots.pop().unwrap();
    let tasks: Vec<_> = slots
        .into_iter()
        .map(|slot| tokio.spawn(answer(slot, runtime.clone(), registered.clone())))
        .collect();
    for _ in 0..8 {
        registrations.recv().unwrap();
    }
    let blocked = {
        let answer = answer(blocking, runtime.clone(), registered);
        tokio.spawn(async { pollster::block_on(answer) })
    };
    registrations.recv().unwrap();

    promises.rotate_right(4);
    let fulfilled = promises.into_iter().filter_map(|promise| promise.fulfil(7));
    runtime.wake_all(fulfilled.collect());
    assert_eq!(pollster::block_on(blocked).unwrap(), Some(7));
    for task in tasks {
        assert_eq!(pollster::block_on(task).unwrap(), Some(7));
    }
}
